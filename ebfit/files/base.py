"""What the schemas share: units, names, writing and reading back."""

import hashlib
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from ebfit.errors import BadInputError
from ebfit.text import printable
from ebfit.writing import write_text

Status = Literal["ok", "upper_bound", "lower_bound", "not_identified"]
OverTokens = Literal["b_opt_vs_tokens", "b_min_vs_tokens"]


Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**63)]  # more than any trainer counts to is a slip of the pen


def _plain(value: float) -> float | int | None:
    """Write whole numbers as integers, as batch sizes mostly are."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() else value


Tokens = Annotated[float, PlainSerializer(_plain, when_used="json")]
# of a run that `inspect` shows though nothing tells its batch size: null in the file, NaN in memory
UnknownTokens = Annotated[Tokens, BeforeValidator(lambda value: nan if value is None else value)]


# Names in logs may hold bytes that are no Unicode, which no JSON document can.
Text = Annotated[str, PlainSerializer(printable, when_used="json")]


class Document(BaseModel):
    """A part of a file, or a whole one; keys that we do not know are kept."""

    model_config = ConfigDict(populate_by_name=True, extra="allow", ser_json_inf_nan="null")


class Estimate(Document):
    """A number with its confidence interval; None where the data do not tell."""

    value: Finite | None = None
    low: Finite | None = None
    high: Finite | None = None
    status: Status = "not_identified"


class Input(Document):
    """A file that went into a fit."""

    path: Text
    sha256: str


class File(Document):
    """A whole file."""

    what: ClassVar[str]  # the file should be, such as "a fit.json"
    way_out: ClassVar[str]  # a sentence on what to do where it is something else

    def save(self, path: str | Path) -> None:
        """Write the file atomically.

        Raises
        ------
        BadInputError
            If the path is a folder or cannot be written.
        """
        write_text(Path(path), to_json(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the file.

        Raises
        ------
        BadInputError
            If it is missing, is no JSON, or does not follow the schema.
        """
        try:
            return cls.model_validate_json(Path(path).read_bytes())
        except OSError as error:
            raise BadInputError(f"{path}: cannot be read ({error.strerror}).") from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the document"
            raise BadInputError(
                f"{path}: not {cls.what} that this version reads: {place}: {first['msg']}. {cls.way_out}"
            ) from None


def to_json(document: BaseModel) -> str:
    """Serialise a document the way all ebfit files are written: indented, keys as in the schema."""
    return document.model_dump_json(by_alias=True, indent=1) + "\n"


def sha256(path: Path) -> str:
    """Return the hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
