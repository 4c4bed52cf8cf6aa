"""Where data came from, so that it can be loaded again."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from noisebound.data.dataset import Splits
from noisebound.data.load import load
from noisebound.data.registry import find_published
from noisebound.errors import DataError
from noisebound.files import write_text

_FILE = "data.json"


class DataOrigin(BaseModel):
    """The arguments of `load`.

    Attributes:
        data: a known name, or a path
        data_dir: where published files are looked for first
        target: the column, or the array, that holds the labels
        image_size: the height and width to which a folder's images are brought
        skip_bad: leave out images that cannot be read, and rows without a label
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    data_dir: Path | None = None
    target: str | None = None
    image_size: int | None = None
    skip_bad: bool = False

    def load(self) -> Splits:
        """The data."""
        return load(
            self.data,
            data_dir=self.data_dir,
            target=self.target,
            image_size=self.image_size,
            skip_bad=self.skip_bad,
        )

    def save(self, folder: Path) -> None:
        """Write it beside what was made of the data; from any folder it then means the same."""
        is_path = find_published(self.data) is None
        resolved = self.model_copy(
            update={
                "data": str(Path(self.data).resolve()) if is_path else self.data,
                "data_dir": self.data_dir and self.data_dir.resolve(),
            }
        )
        write_text(folder / _FILE, resolved.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "DataOrigin":
        """Of what lies in a folder."""
        path = folder / _FILE
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise DataError(f"{folder} does not say what data it is of: name the data") from error
        except ValidationError as error:
            raise DataError(f"{path} is damaged: {error.errors()[0]['msg']}") from error
