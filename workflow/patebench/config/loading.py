"""Read a configuration file from YAML and refuse duplicate keys; `config.validation` checks the values."""

from pathlib import Path
from typing import Any

import yaml

from patebench.core.errors import PatebenchError
from patebench.core.fields import show

#: Maximum size of a configuration in bytes, and maximum number of values after all YAML aliases are replaced.
_BYTES, _VALUES = 10_000_000, 100_000

_START = "start from a copy of config/config.yaml"


class _Loader(yaml.SafeLoader):
    """YAML loader that raises an error for repeated keys and for more than `_VALUES` values."""

    values = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise _yaml_error(f"the key '{key.value}' occurs twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def get_single_node(self) -> yaml.Node | None:
        if (node := super().get_single_node()) is not None:
            self._count_values(node)
        return node

    def _count_values(self, node: yaml.Node) -> None:
        """Count the values in `node`, with each alias replaced by its values; raise an error above `_VALUES` values."""
        # A node that contains an alias of itself has endlessly many values and is also refused here.
        self.values += 1
        if self.values > _VALUES:
            raise _yaml_error(
                f"the file has more than {_VALUES:,} values if every alias is replaced by its values", node
            )
        for part in node.value if isinstance(node, yaml.CollectionNode) else ():
            for inner in part if isinstance(part, tuple) else (part,):
                self._count_values(inner)


def load(path: Path | str) -> dict[str, Any]:
    """Return the mapping in the YAML file `path`, without checking its values.

    Raises PatebenchError if the file cannot be read or is not valid YAML; the message contains the line, if known.
    """
    try:
        path = Path(path)
        if path.exists() and not (path.is_file() or path.is_dir()):  # such as /dev/zero, which never ends
            raise PatebenchError("the path is not a file; give a YAML file", code="missing-file", where=path)
        if path.stat().st_size > _BYTES:
            line = f"the file has more than {_BYTES:,} bytes, too many for a configuration; {_START}"
            raise PatebenchError(line, code="yaml", where=path)
        settings = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as fault:
        line = f"the file cannot be read ({fault.strerror}); give the path of a YAML file"
        raise PatebenchError(line, code="missing-file", where=path) from None
    except UnicodeDecodeError:
        raise PatebenchError("the file is not UTF-8 text; save it as UTF-8", code="yaml", where=path) from None
    except RecursionError:
        raise PatebenchError(f"the values are nested too deeply; {_START}", code="yaml", where=path) from None
    except yaml.YAMLError as fault:
        mark, problem = getattr(fault, "problem_mark", None), getattr(fault, "problem", fault)
        place = f"{path}, line {mark.line + 1}" if mark else path
        raise PatebenchError(f"the YAML is invalid here ({problem}); correct it", code="yaml", where=place) from None
    except ValueError as fault:  # a date that does not exist, or a number of thousands of digits
        raise PatebenchError(f"{fault}; correct the YAML", code="yaml", where=path) from None
    if not isinstance(settings, dict):
        content = "nothing" if settings is None else show(settings)
        line = f"the file contains {content} instead of keys with values; {_START}"
        raise PatebenchError(line, code="yaml", where=path)
    return settings


def _yaml_error(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
