"""Declare a user's data in a configuration: the columns of a table, and the resizing of images.

The encoding of a record is declared by the user or derived from public data, so nothing is learned from private
records. A value outside its declaration is clipped or becomes "other", so its encoding depends on its own record alone.
"""

import datetime
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from patebench.core.errors import PatebenchError
from patebench.core.fields import Parameters, mistake

#: Values of a CSV file that stand for a missing one, unless the declaration names others.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


_Side = Annotated[int, Field(ge=1, le=4096)]
_Byte = Annotated[int, Field(ge=0, le=255)]


class Declaration(Parameters):
    """Declaration that can be given as JSON on the command line."""

    @classmethod
    def read(cls, given: object, where: str) -> Self:
        """Return the declaration from an instance, a mapping or JSON; `where` names it in errors."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError as fault:
                raise PatebenchError(f"is not valid JSON ({fault})", code="value", where=where) from None
        return cls.checked(given, where)


class Feature(Parameters):
    """A feature of a table: exactly one of `number`, `category`, `date` and `text`."""

    number: tuple[float, float] | None = Field(
        None, description="A number: its lowest and its highest value; values beyond are clipped."
    )
    category: tuple[str, ...] | None = Field(
        None, description='A category: its values; every other value becomes "other".'
    )
    date: tuple[datetime.date, datetime.date] | None = Field(
        None, description="A date (2024-12-31): the first and the last day; days beyond are clipped."
    )
    text: int | None = Field(
        None, ge=1, le=4096, description="Text: the number of columns into which its character n-grams are hashed."
    )
    missing: Literal["refuse", "column"] = Field(
        "refuse",
        description="Treatment of missing values: refuse them, or add a column that marks them.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, given: Any) -> Any:
        """Take values of a category that YAML reads as numbers, truth values or dates as text."""
        if isinstance(given, dict) and isinstance(given.get("category"), list | tuple):
            given = {**given, "category": [as_text(value) for value in given["category"]]}
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [name for name in ("number", "category", "date", "text") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise mistake("declare one of number: [low, high], category: [values], date: [first, last], text: columns")
        if self.number is not None and not 0 < self.number[1] - self.number[0] < 1e300:
            raise mistake("the bounds of a number must be finite, the lower one first, and at most 1e300 apart")
        if self.date is not None and not self.date[0] < self.date[1]:
            raise mistake("the first day must be before the last")
        if self.category is not None and (not self.category or len(set(self.category)) < len(self.category)):
            raise mistake("a category needs at least one value, each once")
        return self


class Label(Parameters):
    """The column to predict and its classes."""

    column: str = Field(description="The column.")
    classes: tuple[str, ...] = Field(description="The classes, as the column spells them; public.")

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("classes"), list | tuple):
            given = {**given, "classes": [as_text(value) for value in given["classes"]]}
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise mistake("give at least two classes, each once")
        return self


class TableDeclaration(Declaration):
    """The columns of a table."""

    label: Label = Field(description="The column to predict and its classes.")
    features: dict[str, Feature] = Field(
        description="The features, by column; embedding_* means all columns of the public file that start with"
        " embedding_."
    )
    owner: str | None = Field(
        None,
        description="The column with the person of each record, any text or number; ε then protects all records of a"
        " person.",
    )
    people: Literal["refuse", "leave-out"] = Field(
        "refuse",
        description="Treatment of people with records in both parts: refuse them, or leave out their private records."
        " Moving public records would reveal who is in the private part.",
    )
    public_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="With one file: the share of people, or of records without a declared owner, that becomes public,"
        " selected by a hash of the owner or of the record.",
    )
    drop: tuple[str, ...] = Field((), description="Columns that are not used.")
    missing_values: tuple[str, ...] = Field(MISSING, description="Texts that stand for a missing value in CSV and TSV.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.features:
            raise mistake("declare at least one feature", "features")
        roles = [self.label.column, *self.features, *self.drop, *([self.owner] if self.owner is not None else [])]
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise mistake(f"the column '{twice[0]}' is declared twice; label, owner, features and drop share no column")
        return self

    def matching(self, pattern: str, columns: Sequence[str]) -> list[str]:
        """Return the columns that a feature's name stands for: itself, or all undeclared columns that match it."""
        if "*" not in pattern or pattern in columns:
            return [pattern]
        return [name for name in columns if fnmatchcase(name, pattern) and name not in (*self.columns, *self.drop)]

    @property
    def columns(self) -> list[str]:
        """All declared columns that are read."""
        owner = [] if self.owner is None else [self.owner]
        return [self.label.column, *owner, *self.features]


class ImageParameters(Declaration):
    """Resizing of images of any size to one size."""

    size: tuple[_Side, _Side] | None = Field(
        None, description="Height and width to which images are resized; by default all must have the same size."
    )
    resize: Literal["crop", "pad", "fit"] = Field(
        "crop",
        description="Method of resizing: crop (scale and cut off edges), pad (scale and fill with the background) or"
        " fit (stretch).",
    )
    background: tuple[_Byte, _Byte, _Byte] = Field(
        (255, 255, 255), description="The colour behind transparent pixels and padding: red, green and blue, 0 to 255."
    )


def as_text(value: object) -> str:
    """Return a declared value as a table spells it."""
    if isinstance(value, bool):
        raise mistake("YAML reads yes, no, true and false as truth values; put quotes around each value of a column")
    return str(value)
