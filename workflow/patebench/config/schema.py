"""The schema of configurations for editors and the page that describes every key, made from the settings' models."""

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from patebench.config.settings import ConfigSettings
from patebench.core.parameters import Parameters
from patebench.plan.parameters import PartitionParameters

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_WORDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of a configuration."""
    found = ConfigSettings.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_plain(found),
        "title": "patebench configuration",
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Markdown: a table of the keys of each part of a configuration, with type, default and meaning."""
    lines = [
        "# Configuration",
        "",
        "Every key of a configuration. `patebench config check FILE` checks a file; `patebench config schema` prints",
        "the schema for editors (`config/config.schema.json`), `patebench config page` this page.",
        "",
    ]
    for heading, model in _parts("", ConfigSettings):
        lines += [f"## {heading or 'The whole'}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {_type(field)} | {_default(field)} | {_sentence(field)} |"
            for name, field in model.model_fields.items()
        ]
        lines.append("")
    return "\n".join(lines)


def _plain(part: Any) -> Any:
    """Bounds in JSON schema's words; one value in place of a list; no null, which only means the default."""
    if isinstance(part, list):
        return [_plain(each) for each in part]
    if not isinstance(part, dict):
        return part
    found = {_BOUNDS.get(key, key): _plain(value) for key, value in part.items() if not _is_null_default(key, part)}
    choices = [each for each in found.get("anyOf", []) if each != {"type": "null"}]
    if "anyOf" in found:
        found.pop("anyOf")
        found |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    found.pop("in_path", None)
    if found.pop("or_text", False):
        extra = {key: found.pop(key) for key in ("description", "default") if key in found}
        return {"anyOf": [{"type": "string"}, found], **extra}
    if found.get("type") == "array" and _is_number_or_text(found.get("items", {})):
        extra = {key: found.pop(key) for key in ("description", "default") if key in found}
        return {"anyOf": [found["items"], {key: value for key, value in found.items() if key != "title"}], **extra}
    if isinstance(found.get("title"), str):
        found.pop("title")
    return found


def _is_null_default(key: str, part: dict[str, Any]) -> bool:
    return key == "default" and part[key] is None


def _is_number_or_text(items: Any) -> bool:
    return items.get("type") in ("integer", "number", "string")


def _parts(heading: str, model: type[Parameters]) -> Iterator[tuple[str, type[Parameters]]]:
    """A model and those in it, each under the path of its key."""
    yield heading, model
    for name, field in model.model_fields.items():
        mark = {list: "[]", dict: ".<name>"}
        for inner, suffix in _models(field.annotation, mark):
            yield from _parts(f"{heading}.{name}{suffix}".lstrip("."), inner)


def _models(annotation: Any, mark: dict[Any, str], suffix: str = "") -> Iterator[tuple[type[Parameters], str]]:
    if isinstance(annotation, type) and issubclass(annotation, Parameters):
        yield annotation, suffix
        return
    suffix += mark.get(get_origin(annotation), "")
    for each in get_args(annotation):
        yield from _models(each, mark, suffix)


def _type(field: FieldInfo) -> str:
    words = _annotated(field.annotation)
    bounds = [
        f"{_WORDS[key]} {getattr(each, key):g}" for each in field.metadata for key in _WORDS if hasattr(each, key)
    ]
    return ", ".join([words, *bounds])


def _annotated(annotation: Any) -> str:
    simple = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    if annotation in simple:
        return simple[annotation]
    origin, inner = (
        get_origin(annotation),
        [each for each in get_args(annotation) if each not in (type(None), Ellipsis)],
    )
    if origin is tuple:
        return f"{_annotated(inner[0])} or a list"
    if origin is list:
        return "list"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, Parameters)):
        return "mapping"
    return _annotated(inner[0])  # an optional or annotated type


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    if field.default in (None, (), {}) or isinstance(field.default, list):
        return "—"
    if isinstance(field.default, Parameters):
        return f"`{field.default.slug}`" if isinstance(field.default, PartitionParameters) else "—"
    shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{shown}`" if shown != "" else "empty"


def _sentence(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|")
