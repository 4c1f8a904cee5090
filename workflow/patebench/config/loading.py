"""Read a configuration file: YAML, in which a key given twice is a mistake. No more is checked here."""

from pathlib import Path
from typing import Any

import yaml

from patebench.core.errors import PatebenchError
from patebench.core.fields import show

#: Maximum size of a configuration in bytes, and of the values in it once aliases are written out.
_BYTES, _VALUES = 10_000_000, 100_000

_START = "start from config/config.yaml"


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice, or more values than `_VALUES`, is a mistake."""

    values = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise _fault(f"the key '{key.value}' is given twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def get_single_node(self) -> yaml.Node | None:
        if (node := super().get_single_node()) is not None:
            self._count(node)
        return node

    def _count(self, node: yaml.Node) -> None:
        """Count the values in a node, those of aliases each time; refuse too many. A node in itself has no end."""
        self.values += 1
        if self.values > _VALUES:
            raise _fault(f"more than {_VALUES:,} values, once its aliases are written out", node)
        for part in node.value if isinstance(node, yaml.CollectionNode) else ():
            for each in part if isinstance(part, tuple) else (part,):
                self._count(each)


def load(path: Path | str) -> dict[str, Any]:
    """Return the YAML mapping in `path`, unchecked; PatebenchError with the line for what YAML cannot read."""
    try:
        settings = yaml.load(_read(Path(path)), _Loader)
    except OSError as fault:
        line = f"cannot be read ({fault.strerror}); give the path of a YAML file"
        raise PatebenchError(line, code="missing-file", where=path) from None
    except UnicodeDecodeError:
        raise PatebenchError("is not UTF-8 text; save it as UTF-8", code="yaml", where=path) from None
    except RecursionError:
        raise PatebenchError(f"is nested too deeply to be read; {_START}", code="yaml", where=path) from None
    except yaml.YAMLError as fault:
        mark, problem = getattr(fault, "problem_mark", None), getattr(fault, "problem", fault)
        place = f"{path}, line {mark.line + 1}" if mark else path
        raise PatebenchError(f"{problem}; correct the YAML there", code="yaml", where=place) from None
    except ValueError as fault:  # a date that does not exist, or a number of thousands of digits
        raise PatebenchError(f"{fault}; correct the YAML", code="yaml", where=path) from None
    if not isinstance(settings, dict):
        raise PatebenchError(f"holds {show(settings)} instead of a mapping; {_START}", code="yaml", where=path)
    return settings


def _read(path: Path) -> str:
    if path.exists() and not (path.is_file() or path.is_dir()):  # such as /dev/zero, which never ends
        raise PatebenchError("is no file; give the path of a YAML file", code="missing-file", where=path)
    if path.stat().st_size > _BYTES:
        raise PatebenchError(f"is larger than {_BYTES:,} bytes; {_START}", code="yaml", where=path)
    return path.read_text(encoding="utf-8")


def _fault(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
