"""Declarations of a user's data in a configuration: the columns of a table, or the resizing of images.

The encoding of values depends on the user's declaration and on public data, never on private records. A value outside
the declared range is clipped, and an undeclared category becomes "other".
"""

import datetime
import json
import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from patebench.core.errors import PatebenchError
from patebench.core.fields import Parameters, mistake

#: Default texts that stand for a missing value in a CSV or TSV file.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")

#: Patterns, as pandas writes them: a decimal number without leading zeros; a day or a duration, followed by a time.
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]\d{2,3})?", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d|-?\d+ days?)[ T]([+-]?\d\d:\d\d:\d\d)(?:\.(\d+))?(.*)", re.ASCII)


def plain_text(value: object) -> str:
    """Return `value` as text that does not depend on other values of its column.

    pandas writes all values of a column in one format. It adds ".0" to all integers if one value is missing, and a time
    to all days if one day has a time. With this format, one record could change the encoding of others. Therefore, 20,
    20.0, "20.00", "2e+01" and " 20" become "20", and "2024-12-31 00:00:00" becomes "2024-12-31".
    A letter with an accent is the same text as one character or as two.
    """
    text = unicodedata.normalize("NFC", str(value)).strip()
    if _NUMBER.fullmatch(text):
        number = f"{Decimal(text):f}"
        number = number.rstrip("0").rstrip(".") if "." in number else number
        return number if number.strip("-0") else "0"
    if match := _TIME.fullmatch(text):
        day, clock, fraction, zone = match.groups()
        fraction = (fraction or "").rstrip("0")
        midnight = not fraction and not zone and clock.lstrip("+-") == "00:00:00"
        return day if midnight else f"{day} {clock}{'.' if fraction else ''}{fraction}{zone}"
    return text


def _as_text(value: object) -> str:
    """Return a YAML value as text; raise a validation error for True and False.

    YAML reads an unquoted yes or true as True, so the word that the user wrote is unknown.
    """
    if isinstance(value, bool):
        raise mistake("YAML reads an unquoted yes, no, true or false as a truth value; put such values in quotes")
    return str(value)


_Value = Annotated[str, BeforeValidator(_as_text)]
_Side = Annotated[int, Field(ge=1, le=4096)]
_Byte = Annotated[int, Field(ge=0, le=255)]


class Declaration(Parameters):
    """Base class of declarations, which can be given as JSON on the command line."""

    @classmethod
    def read(cls, given: object, where: str) -> Self:
        """Return the declaration in `given`: an instance of this class, a mapping or JSON text.

        Raises PatebenchError for a mistake; the message starts with the configuration key `where`.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError as fault:
                line = f"the text is not valid JSON ({fault}); correct it"
                raise PatebenchError(line, code="value", where=where) from None
        return cls.checked(given, where)


class Feature(Parameters):
    """Feature of a table, declared by exactly one of `number`, `category`, `date` and `text`."""

    number: tuple[float, float] | None = Field(
        None, description="For a number: the lowest and the highest value; values outside are clipped."
    )
    category: tuple[_Value, ...] | None = Field(
        None, description='For a category: all its values; every other value becomes "other".'
    )
    date: tuple[datetime.date, datetime.date] | None = Field(
        None, description="For a date (2024-12-31): the first and the last day; days outside are clipped."
    )
    text: int | None = Field(
        None, ge=1, le=4096, description="For text: the number of columns into which character n-grams are hashed."
    )
    missing: Literal["refuse", "column"] = Field(
        "refuse",
        description="Treatment of missing values: refuse (an error) or column (add a column that marks them).",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [name for name in ("number", "category", "date", "text") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise mistake(
                "a feature has one kind; give exactly one of 'number: [low, high]', 'category: [values]',"
                " 'date: [first, last]' and 'text: columns'"
            )
        if self.number is not None and not 0 < self.number[1] - self.number[0] < 1e300:
            raise mistake("the bounds of 'number' are invalid; give [low, high] with low < high and high − low < 1e300")
        if self.date is not None and not self.date[0] < self.date[1]:
            raise mistake("the first day is not before the last day; give 'date: [first, last]' with first before last")
        if self.category is not None and (not self.category or _repeats(self.category)):
            raise mistake(
                "the category has no values, or one value twice; list at least one value, and each value once"
            )
        return self


def _repeats(values: Sequence[str]) -> bool:
    """Return True if two of `values` are the same value, such as 1 and 1.0."""
    return len(set(map(plain_text, values))) < len(values)


class Label(Parameters):
    """The column to predict and its classes."""

    column: str = Field(description="Name of the column to predict.")
    classes: tuple[_Value, ...] = Field(description="All classes, spelled as in the column; they are public.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.classes) < 2 or _repeats(self.classes):
            raise mistake(
                "there are fewer than two classes, or one is listed twice; list at least two, and each class once"
            )
        return self


class TableDeclaration(Declaration):
    """Declaration of a table: the meaning of each column.

    If there is no public file, `public_share` states which fraction of the table becomes public.
    """

    label: Label = Field(description="The column to predict and its classes.")
    features: dict[str, Feature] = Field(
        description="Features by column name; embedding_* stands for all columns of the public file that start with"
        " embedding_."
    )
    owner: str | None = Field(
        None,
        description="Column that identifies the person of each record by any text or number. The default partition then"
        " protects all records of a person.",
    )
    people: Literal["refuse", "leave-out"] = Field(
        "refuse",
        description="Treatment of people with private and public records: refuse (an error) or leave-out (omit their"
        " private records). Public records are never left out, as this would reveal who is in the private part.",
    )
    public_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="If there is no public file: fraction of the people, or of the records without an owner column,"
        " that becomes public. They are selected by a hash of the owner or of the record's position in the file.",
    )
    drop: tuple[str, ...] = Field((), description="Columns that are not used.")
    missing_values: tuple[str, ...] = Field(MISSING, description="Texts that stand for a missing value in CSV and TSV.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.features:
            raise mistake("no feature is declared; declare at least one feature", "features")
        roles = [*self.columns, *self.drop]
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise mistake(
                f"the column '{twice[0]}' occurs twice among 'label', 'owner', 'features' and 'drop'; keep one of them"
            )
        return self

    @property
    def columns(self) -> list[str]:
        """Return the names of the declared columns, in this order: label, owner (if declared), features."""
        owner = [] if self.owner is None else [self.owner]
        return [self.label.column, *owner, *self.features]


class ImageParameters(Declaration):
    """Settings to resize images and to fill transparent pixels."""

    size: tuple[_Side, _Side] | None = Field(
        None,
        description="Height and width of all images after resizing; by default all images must have the same size.",
    )
    resize: Literal["crop", "pad", "fit"] = Field(
        "crop",
        description="Method of resizing: crop (scale and cut off edges), pad (scale and fill with the background) or"
        " fit (stretch).",
    )
    background: tuple[_Byte, _Byte, _Byte] = Field(
        (255, 255, 255), description="Colour of padding and behind transparent pixels: red, green, blue from 0 to 255."
    )
