"""A configuration file as it is written: YAML, in which a key given twice is a mistake. No more is checked here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from patebench.core.errors import PatebenchError
from patebench.core.fields import show

#: No configuration that is meant comes near: so many bytes, and so many values once aliases are written out.
_BYTES, _VALUES = 10_000_000, 100_000

_START = "start from config/config.yaml"


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is a mistake."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as fault:  # a date that there is not, or a number of thousands of digits
            raise yaml.constructor.ConstructorError(None, None, str(fault), node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                fault = f"the key '{key.value}' is given twice"
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _check_size(node)
        return node


def load(path: Path | str) -> dict[str, Any]:
    """The YAML mapping in `path`, unchecked; PatebenchError with the line for what YAML can not read."""
    try:
        settings = yaml.load(_read(Path(path)), _Loader)
    except OSError as fault:
        raise PatebenchError(f"{path}: can not be read ({fault.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise PatebenchError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except yaml.MarkedYAMLError as fault:
        line = f", line {fault.problem_mark.line + 1}" if fault.problem_mark else ""
        raise PatebenchError(f"{path}{line}: {fault.problem}; mend the YAML there") from None
    except RecursionError:
        raise PatebenchError(f"{path}: is nested too deeply to be read; {_START}") from None
    except yaml.YAMLError as fault:
        raise PatebenchError(f"{path}: {fault}; mend the YAML there") from None
    if not isinstance(settings, dict):
        raise PatebenchError(f"{path}: holds {show(settings)} instead of a mapping; {_START}")
    return settings


def _read(path: Path) -> str:
    if path.exists() and not (path.is_file() or path.is_dir()):  # such as /dev/zero, which never ends
        raise PatebenchError(f"{path}: is no file; give the path of a YAML file")
    if path.stat().st_size > _BYTES:
        raise PatebenchError(f"{path}: is larger than {_BYTES:,} bytes, as no configuration is; {_START}")
    return path.read_text(encoding="utf-8")


def _check_size(root: yaml.Node) -> None:
    """Refuse a value that holds itself, and aliases that stand for more values than anybody can mean."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in open_nodes:
            fault = "a value that holds itself, by an alias"
            raise yaml.constructor.ConstructorError(None, None, fault, node.start_mark)
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = found = 1 + sum(map(size, _within(node)))
            open_nodes.remove(id(node))
            if found > _VALUES:
                fault = f"more than {_VALUES:,} values, once its aliases are written out"
                raise yaml.constructor.ConstructorError(None, None, fault, node.start_mark)
        return sizes[id(node)]

    size(root)


def _within(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        yield from (each for pair in node.value for each in pair)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
