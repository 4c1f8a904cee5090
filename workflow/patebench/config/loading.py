"""A configuration file as it is written: YAML, in which a key given twice is a mistake. No more is checked here."""

from pathlib import Path
from typing import Any

import yaml

from patebench.core.errors import PatebenchError
from patebench.core.parameters import show


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for i, key in enumerate(keys):
            if key.value in (earlier.value for earlier in keys[:i]):
                fault = f"the key '{key.value}' is given twice"
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
        return super().construct_mapping(node, deep)


def load(path: Path | str) -> dict[str, Any]:
    """The YAML mapping in `path`, unchecked; PatebenchError with the line for what YAML can not read."""
    try:
        settings = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as fault:
        raise PatebenchError(f"{path}: can not be read ({fault.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise PatebenchError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except yaml.MarkedYAMLError as fault:
        line = f", line {fault.problem_mark.line + 1}" if fault.problem_mark else ""
        raise PatebenchError(f"{path}{line}: {fault.problem}; mend the YAML there") from None
    except RecursionError:
        raise PatebenchError(f"{path}: is nested too deeply to be read; start from config/config.yaml") from None
    except yaml.YAMLError as fault:
        raise PatebenchError(f"{path}: {fault}; mend the YAML there") from None
    if not isinstance(settings, dict):
        raise PatebenchError(f"{path}: holds {show(settings)} instead of a mapping; start from config/config.yaml")
    return settings
