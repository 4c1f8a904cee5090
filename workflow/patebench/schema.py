"""Settings against a JSON schema: types brought in order, defaults filled in, and the first mistake in one line.

The schema may use local references; alternatives are spelt as lists of types. What the values mean is not checked here.
"""

import math
from collections.abc import Mapping
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest

Schema = Mapping[str, Any]

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_TRUTH = {"true": True, "false": False}


def conform(settings: object, schema: Schema) -> dict[str, Any]:
    """`settings` as plain dictionaries and lists with every default filled in.

    Text that spells a number or a truth value is taken for it where one is needed: command lines give text, and YAML
    reads 1e-5 as text. Raises PatebenchError for the first mistake, with the path of its key.
    """
    from jsonschema import Draft202012Validator

    settings = _fit(settings, schema, schema, "")
    faults = list(Draft202012Validator(schema).iter_errors(settings))
    # A misspelt key is also a missing one: name what was written before what was not.
    faults.sort(key=lambda fault: fault.validator != "additionalProperties")
    if faults:
        raise PatebenchError(_line(faults[0], schema))
    assert isinstance(settings, dict)
    return settings


def key_path(parent: str, *steps: str | int) -> str:
    """A key's path as users read it: experiments.digits.ensembles[0].model."""
    for step in steps:
        parent = f"{parent}[{step}]" if isinstance(step, int) else f"{parent}.{step}".lstrip(".")
    return parent


def show(value: object) -> str:
    """A value as a message quotes it, on one line and not too long."""
    text = "empty" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fit(value: Any, schema: Schema, root: Schema, where: str) -> Any:
    schema = _resolve(schema, root)
    if isinstance(value, Mapping):
        return _fit_mapping(value, schema, root, where)
    if isinstance(value, list | tuple):
        items = schema.get("items", {})
        return [_fit(item, items, root, key_path(where, i)) for i, item in enumerate(value)]
    value = _scalar(value, schema.get("type", ()))
    if isinstance(value, float) and not math.isfinite(value):
        raise PatebenchError(f"{where}: is {value}; a finite number is needed")
    return value


def _fit_mapping(value: Mapping[Any, Any], schema: Schema, root: Schema, where: str) -> dict[str, Any]:
    properties = {name: _resolve(each, root) for name, each in schema.get("properties", {}).items()}
    others = schema.get("additionalProperties") or {}
    optional = set(properties) - set(schema.get("required", ()))
    for key in value:
        if not isinstance(key, str):
            raise PatebenchError(f"{key_path(where, str(key))}: the key {show(key)} is not text; put it in quotes")
    given = {key: item for key, item in value.items() if not (item is None and key in optional)}
    fitted = {key: _fit(item, properties.get(key, others), root, key_path(where, key)) for key, item in given.items()}
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return {**defaults, **fitted}


def _resolve(schema: Schema, root: Schema) -> Schema:
    """The schema with its reference, if it has one, put in place."""
    if "$ref" not in schema:
        return schema
    target: Any = root
    for step in schema["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**_resolve(target, root), **schema}


def _scalar(value: Any, types: str | list[str]) -> Any:
    types = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return value
    if "string" in types:
        return str(value) if isinstance(value, int | float) else value
    if isinstance(value, str) and "boolean" in types:
        return _TRUTH.get(value.lower(), value)
    if isinstance(value, str) and {"integer", "number"} & set(types):
        value = _parse(value)
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return int(value)
    return value


def _parse(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _line(fault: Any, root: Schema) -> str:
    """One line for a fault that jsonschema found."""
    where = key_path("", *fault.absolute_path)
    value, limit = fault.instance, fault.validator_value
    match fault.validator:
        case "additionalProperties":
            allowed = list(fault.schema["properties"])
            key = next(key for key in value if key not in allowed)
            return f"{key_path(where, key)}: unknown key{nearest(key, allowed)}; allowed here: {', '.join(allowed)}"
        case "required":
            key = next(key for key in limit if key not in value)
            meaning = _resolve(fault.schema["properties"][key], root).get("description", "")
            return f"{key_path(where, key)}: is missing; add it ({meaning.rstrip('.')})"
        case "type":
            types = [limit] if isinstance(limit, str) else limit
            needed = " or ".join(_TYPES[each] for each in types)
            return f"{where or 'the configuration'}: is {show(value)}; {needed} is needed"
        case "pattern":
            rule = "only letters, digits, '_' and '-' are allowed, and the first must be a letter or digit"
            return f"{where or 'a name'}: {show(value)} is no plain name; {rule}"
        case "uniqueItems":
            return f"{where}: {show(value)} holds a value twice; give each once"
        case "enum":
            return f"{where}: is {show(value)}{nearest(value, limit)}; one of {', '.join(limit)} is needed"
        case "minItems" | "minProperties" | "minLength":
            return f"{where}: is empty; at least one entry is needed"
    return f"{where}: is {show(value)}; {_RANGES[fault.validator]} {limit} is needed"


_RANGES = {
    "minimum": "a value of at least",
    "maximum": "a value of at most",
    "exclusiveMinimum": "a value above",
    "exclusiveMaximum": "a value below",
}
