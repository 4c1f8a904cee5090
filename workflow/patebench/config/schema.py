"""Make the JSON schema of configuration files and the reference page of all keys, both from `config.settings`."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from patebench.config.parameters import PartitionParameters
from patebench.config.settings import ConfigSettings
from patebench.core.fields import Parameters, single_kind

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_TYPES = {int: "whole number", float: "number", bool: "true or false", str: "text"}
#: JSON types of entries for which a list with one entry may be written as this entry alone.
_SINGLE = ("integer", "number", "string", "boolean")
#: Suffix of the path of a key, by the type of its value.
_MARKS = {list: "[]", dict: ".<name>"}
_WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a configuration."""
    parts: dict[str, Any] = _simplified(ConfigSettings.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts, "title": "patebench configuration"}


def schema_text() -> str:
    """Return the JSON schema as formatted text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Return the reference page in Markdown: a table of the keys of each part of a configuration."""
    lines = [
        "# Configuration",
        "",
        "Every key of a configuration. `patebench config check FILE` checks a file; `patebench config schema` prints",
        "the schema for editors (`config/config.schema.json`), `patebench config page` this page.",
        "",
    ]
    for heading, model in _nested_models("", ConfigSettings):
        lines += [f"## {heading or 'The whole'}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        for name, field in model.model_fields.items():
            about = (field.description or "").replace("|", "\\|")
            lines.append(f"| `{name}` | {_type(field)} | {_default(field)} | {about} |")
        lines.append("")
    return "\n".join(lines)


def _simplified(part: Any) -> Any:
    """Return `part`, a part of pydantic's JSON schema, without details that are useless in editors.

    Null values and titles are removed. Wherever the schema allows a list of numbers, texts or bools, the result also
    allows a single number, text or bool.
    """
    if isinstance(part, list):
        return [_simplified(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if (key, value) != ("default", None)}
    found: dict[str, Any] = {_BOUNDS.get(key, key): _simplified(value) for key, value in kept.items()}
    if "anyOf" in found:
        choices = [choice for choice in found.pop("anyOf") if choice != {"type": "null"}]
        found |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    if isinstance(found.get("title"), str):  # not a key named "title"
        del found["title"]
    found.pop("in_path", None)
    if found.pop("or_text", False):
        return _either({"type": "string"}, found)
    if found.get("type") == "array" and found.get("items", {}).get("type") in _SINGLE:
        return _either(found["items"], found)
    return found


def _either(value: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts what `value` or `other` accepts, with the description and the default of `other`."""
    either: dict[str, Any] = {"anyOf": [value, other]}
    return either | {key: other.pop(key) for key in ("description", "default") if key in other}


def _nested_models(heading: str, model: type[Parameters]) -> Iterator[tuple[str, type[Parameters]]]:
    """Yield a pair (path of the key, pydantic class) for `model`, at the path `heading`, and for each nested model."""
    yield heading, model
    for name, field in model.model_fields.items():
        for inner, suffix in _models(field.annotation):
            yield from _nested_models(f"{heading}.{name}{suffix}".lstrip("."), inner)


def _models(annotation: Any, suffix: str = "") -> Iterator[tuple[type[Parameters], str]]:
    if _is_model(annotation):
        yield annotation, suffix
        return
    suffix += _MARKS.get(get_origin(annotation), "")
    for each in get_args(annotation):
        yield from _models(each, suffix)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Parameters)


def _type(field: FieldInfo) -> str:
    kind = single_kind(field)
    limits = getattr(kind, "__metadata__", ())
    bounds = [f"{_WORDS[key]} {getattr(each, key):g}" for each in limits for key in _WORDS if hasattr(each, key)]
    return ", ".join([_annotated(kind), *bounds])


def _annotated(annotation: Any) -> str:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if origin is tuple and Ellipsis not in get_args(annotation):
        return f"{len(get_args(annotation))} values"
    if origin is list:
        return "list"
    if origin is dict or _is_model(annotation):
        return "mapping"
    inner = _annotated(get_args(annotation)[0])
    return f"{inner} or a list" if origin is tuple else inner  # or an annotated type


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    if field.default in (None, (), [], {}):
        return "—"
    if isinstance(field.default, PartitionParameters):
        return f"`{field.default.slug}`"
    shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{shown}`" if shown != "" else "empty"
