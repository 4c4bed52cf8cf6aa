"""The arguments that loaded a data set, kept so that it can be loaded again."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from noisebound.data.dataset import Splits
from noisebound.data.load import load
from noisebound.data.registry import find_published
from noisebound.errors import DataError


class DataOrigin(BaseModel):
    """The arguments of `load`.

    Attributes:
        data: a known name, or a path; None for data that was in memory only
        data_dir: where published files are looked for first
        target: the column, or the array, that holds the labels
        image_size: the height and width, in pixels, to which a folder's images are brought
        skip_bad: True to leave out images that cannot be read, and rows without a label
        backbone: the name of the backbone that embedded the data; None if there was none
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None
    data_dir: Path | None = None
    target: str | None = None
    image_size: int | None = None
    skip_bad: bool = False
    backbone: str | None = None

    def load(self) -> Splits:
        """Return the data."""
        if self.data is None:
            raise DataError("the data was in memory and is not kept: pass the same `data` again")
        return load(
            self.data,
            data_dir=self.data_dir,
            target=self.target,
            image_size=self.image_size,
            skip_bad=self.skip_bad,
        )

    def resolved(self) -> "DataOrigin":
        """Return the same with absolute paths, which mean the same from any folder."""
        is_path = self.data is not None and find_published(self.data) is None
        return self.model_copy(
            update={
                "data": str(Path(str(self.data)).resolve()) if is_path else self.data,
                "data_dir": self.data_dir and self.data_dir.resolve(),
            }
        )
