"""The arguments that loaded a data set, kept so that it can be loaded again."""

from pathlib import Path

from noisebound.data.dataset import Splits
from noisebound.data.load import load_with
from noisebound.data.options import ReadingOptions
from noisebound.data.registry import find_published
from noisebound.errors import DataError


class DataOrigin(ReadingOptions):
    """The arguments of `load`.

    Attributes:
        data: a known name, or a path; None for data that was in memory only
        backbone: the name of the backbone that embedded the data; None if there was none
    """

    data: str | None
    backbone: str | None = None

    def load(self) -> Splits:
        """Return the data, as `load_with` does."""
        if self.data is None:
            raise DataError("the data was in memory and is not kept: pass the same `data` again")
        return load_with(self.data, self.options)

    @property
    def options(self) -> ReadingOptions:
        """How the data is read."""
        return ReadingOptions(**self.model_dump(exclude={"data", "backbone"}))

    def resolved(self) -> "DataOrigin":
        """Return the same with absolute paths, which mean the same from any folder."""
        is_path = self.data is not None and find_published(self.data) is None
        return self.model_copy(
            update={
                "data": str(Path(str(self.data)).resolve()) if is_path else self.data,
                "data_dir": self.data_dir and self.data_dir.resolve(),
                "test": self.test and self.test.resolve(),
            }
        )
