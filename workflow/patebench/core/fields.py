"""Base class and types of parameters, each declared once: a field with its type, default, bounds and help text.

The configuration, command options, path names, the schema for editors and the reference page are derived from these
declarations. An error message is one line that starts with the path of the faulty key.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import NoneType, UnionType
from typing import Annotated, Any, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from patebench.core.checks import LARGEST, quote, shorten
from patebench.core.errors import PatebenchError
from patebench.core.registry import PLAIN_NAME, Registry, nearest
from patebench.core.spelling import Part, number, slug

T = TypeVar("T")

#: Maximum number of characters of a name that becomes the name of a folder.
_LONGEST_NAME = 100

_BOUNDS = {
    "greater_than": ("too small; give a value above", "gt"),
    "greater_than_equal": ("too small; give at least", "ge"),
    "less_than": ("too large; give a value below", "lt"),
    "less_than_equal": ("too large; give at most", "le"),
}

#: For a field's `json_schema_extra`: the parameter does not appear in paths.
NOT_IN_PATH: dict[str, Any] = {"in_path": False}


class Parameters(BaseModel):
    """Base class of groups of parameters. A missing parameter takes its default; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        if isinstance(given, cls):
            return given
        given = _mapping(given)
        for key in given:
            if key not in cls.model_fields:
                hint = f"unknown key{nearest(key, cls.model_fields)}; allowed here: {', '.join(cls.model_fields)}"
                raise mistake(hint, key, code="unknown-key")
        for key, field in cls.model_fields.items():
            if field.is_required() and key not in given:
                raise mistake(
                    f"the key is missing; add it ({(field.description or '').rstrip('.')})", key, code="missing"
                )
        return {key: value for key, value in given.items() if value is not None or cls.model_fields[key].is_required()}

    @classmethod
    def checked(cls, given: object, where: str = "", *, record: bool = False) -> Self:
        """Return `given`, the value of the configuration key `where`, as a validated instance of this class.

        If `record` is True, `given` comes from a stored result. Names of models and methods are then not checked,
        because the package that registered them may be missing. Raises PatebenchError for the first mistake.
        """
        try:
            return cls.model_validate(given, context=record)
        except ValidationError as fault:
            # A misspelt key may also be reported as missing: report unknown keys first.
            errors = sorted(fault.errors(), key=lambda error: "unknown key" not in error["msg"])
            raise _to_error(errors[0], given, where) from None

    @classmethod
    def of(cls, source: "Parameters") -> Self:
        """Return an instance of this class with the values in `source`, which has all parameters of this class."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields})

    @classmethod
    def not_in_path(cls) -> list[str]:
        """Return the names of the parameters that do not appear in the folder names of artefacts."""
        return [name for name, field in cls.model_fields.items() if not _in_path(field)]

    def options(self) -> dict[str, Any]:
        """Return a dict from command option to value, without parameters that are equal to their defaults."""
        fields = type(self).model_fields
        return {
            option_name(name): getattr(self, name)
            for name, field in fields.items()
            if field.is_required() or getattr(self, name) != field.default
        }

    @property
    def slug(self) -> str:
        """Return these parameters as a folder name."""
        return slug(*self.parts())

    def parts(self, *left_out: str) -> list[Part]:
        """Return the parts of the folder name of these parameters, as arguments of `core.spelling.slug`.

        Each parameter gives one part: its value if the value is text or None, otherwise the pair (name, value).
        Parameters named in `left_out` or marked `NOT_IN_PATH` give no part.
        """
        names = [name for name, field in type(self).model_fields.items() if name not in left_out and _in_path(field)]
        values = {name: getattr(self, name) for name in names}
        return [value if value is None or isinstance(value, str) else (name, value) for name, value in values.items()]


def _in_path(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return not (isinstance(extra, Mapping) and extra.get("in_path") is False)


def option_name(name: str) -> str:
    """Return the parameter name `name` as a command option, such as "hold-out" for "hold_out"."""
    return name.replace("_", "-")


def key_path(parent: str, *steps: str | int) -> str:
    """Return the path of a key, such as experiments.digits.ensembles[0].model: `parent`, followed by all `steps`."""
    for step in steps:
        parent = f"{parent}[{step}]" if isinstance(step, int) else f"{parent}.{shorten(str(step))}".lstrip(".")
    return parent


def show(value: object) -> str:
    """Return `value` as text for messages: "empty" for None, and "true" or "false" for a bool, as in YAML."""
    return "empty" if value is None else str(value).lower() if isinstance(value, bool) else quote(value)


def mistake(hint: str, key: str | None = None, *, code: str = "value") -> PydanticCustomError:
    """Return a pydantic validation error with the message `hint`, to be raised in a validator.

    The error is about the validated value or, if `key` is given, about the entry `key` of the validated mapping.
    `Parameters.checked` converts it to a PatebenchError with this `code`.
    """
    return PydanticCustomError("mistake", "{hint}", {"hint": hint, "key": key, "code": code})


@contextmanager
def blamed_on_key(key: str | None = None) -> Iterator[None]:
    """Convert a PatebenchError raised in the block to a pydantic validation error.

    The error is about the validated value or, if `key` is given, about the entry `key` of the validated mapping.
    """
    try:
        yield
    except PatebenchError as fault:
        raise mistake(str(fault), key, code=fault.code) from None


def known_to(registry: Registry) -> AfterValidator:
    """Return a validator that accepts only names in `registry`.

    Names in stored results are not checked, because another package may have registered them.
    """

    def check(name: str, info: ValidationInfo) -> str:
        if not info.context:
            with blamed_on_key():
                registry.check(name)
        return name

    return AfterValidator(check)


def one_of(names: Callable[[], Iterable[str]]) -> AfterValidator:
    """Return a validator that accepts only text in `names()`, which is called at each validation."""

    def check(name: str) -> str:
        allowed = list(names())
        if name not in allowed:
            hint = f"{show(name)} is unknown{nearest(name, allowed)}; choose one of {', '.join(allowed)}"
            raise mistake(hint, code="unknown-name")
        return name

    return AfterValidator(check)


# Types of values. Text is converted to a number or bool where the type requires it, since command lines give text and
# YAML reads 1e-5 as text.


def _needed(what: str) -> PydanticCustomError:
    return PydanticCustomError("needed", "give {what}", {"what": what})


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _needed("a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _needed("a number")
    if not -sys.float_info.max <= value <= sys.float_info.max:
        raise _needed("a finite number")
    return float(number(value))  # rounded as in folder names and commands, so that equal text means equal values


def _whole(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        try:
            value = _number(value)
        except PydanticCustomError:
            raise _needed("a whole number") from None
        if not value.is_integer():
            raise _needed("a whole number")
        value = int(value)
    if abs(value) > LARGEST:
        raise _needed("a whole number of 64 bits")
    return value


def _truth(value: Any) -> Any:
    value = {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise _needed("true or false")
    return value


def _text(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _needed("text")
    # Paths, commands and pages cannot contain line breaks and surrogates.
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in value):
        raise _needed("text on one line, without control characters")
    return value


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _needed("a mapping")
    for key in value:
        if not isinstance(key, str):
            raise mistake(f"the key {show(key)} is not text; put it in quotes", str(key))
    return value


def listed(value: Any) -> Any:
    """Return a list or tuple unchanged, and any other value as a list of one entry."""
    return value if isinstance(value, list | tuple) else [value]


def _distinct(values: Sequence[T]) -> Sequence[T]:
    if len(set(values)) < len(values):
        raise mistake(f"{show(list(values))} contains a value twice; give each value once", code="twice")
    return values


def plain_name(text: str) -> str:
    """Return `text` if it can be a folder name; raise a validation error otherwise."""
    if len(text) > _LONGEST_NAME:
        hint = f"the name {show(text)} has {len(text)} characters; use at most {_LONGEST_NAME}"
        raise mistake(hint, code="name")
    if not PLAIN_NAME.fullmatch(text):
        raise mistake(
            f"{show(text)} cannot be the name of a folder; use letters, digits, '_' and '-', and start with a letter or"
            " digit",
            code="name",
        )
    return text


def _named(values: Any) -> Any:
    for name in _mapping(values):
        plain_name(name)
    return values


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, BeforeValidator(_number)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Text = Annotated[str, BeforeValidator(_text)]
Map = Annotated[dict[str, T], BeforeValidator(_mapping)]
Names = Annotated[dict[str, T], BeforeValidator(_named)]
#: One value or a list of different values; converted to a tuple.
OneOrMore = Annotated[tuple[T, ...], Field(min_length=1), AfterValidator(_distinct), BeforeValidator(listed)]
#: One value or a list of different values, which may be empty; converted to a tuple.
AnyNumber = Annotated[tuple[T, ...], AfterValidator(_distinct), BeforeValidator(listed)]
#: One value or a list in which values may repeat; converted to a tuple.
Series = Annotated[tuple[T, ...], Field(min_length=1), BeforeValidator(listed)]


def single_kind(field: FieldInfo) -> Any:
    """Return the type of `field` without None, such as `int` for a field of type `int | None`.

    If the field has limits, such as ≥ 1, the result is an `Annotated` type that contains them.
    """
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
    kind = next(kind for kind in kinds if kind is not NoneType)
    return Annotated[(kind, *field.metadata)] if field.metadata else kind


def _to_error(error: ErrorDetails, given: object, where: str) -> PatebenchError:
    """Return pydantic's `error` about `given`, the value of the key `where`, as a PatebenchError."""
    place, scalar, value = where, False, given
    for step in error["loc"]:
        if isinstance(value, Mapping) and step in value:
            value, place = value[step], key_path(place, step)
        elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
            value, place = value[step], key_path(place, step)
        else:  # a scalar that was wrapped in a list or converted to a mapping
            scalar = scalar or isinstance(step, int)
    context = error.get("ctx", {})
    if context.get("key") is not None:
        place = key_path(place, context["key"])
    place = place or "the configuration"
    if "hint" in context:
        return PatebenchError(context["hint"], code=context["code"], where=place)
    if error["type"] == "too_short":
        return PatebenchError("no entry is given; give at least one", code="empty", where=place)
    if error["type"] == "string_too_short":
        return PatebenchError("the text is empty; give at least one character", code="empty", where=place)
    if error["type"] in _BOUNDS:
        words, limit = _BOUNDS[error["type"]]
        line = f"{show(error['input'])} is {words} {context[limit]:g}"
        return PatebenchError(line, code="bound", where=place)
    problem = "the value is empty" if value is None else f"{show(value)} is not valid"
    if what := "a list" if error["type"] == "list_type" else context.get("what"):
        line = f"{problem}; give {what}{' or a list' if scalar else ''}"
    else:
        line = f"{problem}: it {error['msg'].removeprefix('Input ')}"
    return PatebenchError(line, code="type", where=place)
