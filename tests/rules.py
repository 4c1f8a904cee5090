"""Read the rules of the workflow from their source files."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "workflow" / "rules"
_RULE = re.compile(r"^ *(?:use )?rule (\w+)(?: as (\w+) with)?:$", re.MULTILINE)


def _bodies() -> dict[str, str]:
    """Return the text of each rule by name; the text of a rule that uses another rule begins with the other's text."""
    found: dict[str, str] = {}
    for path in sorted(_FOLDER.glob("*.smk")):
        _, *parts = _RULE.split(path.read_text(encoding="utf-8"))
        for first, second, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            found[second or first] = found[first] + body if second else body
    return found


BODIES = _bodies()

#: Rule → the command that it runs.
STAGES = {rule: re.findall(r'"patebench (\w+) ', body)[0] for rule, body in BODIES.items()}

#: The rules whose jobs ask for a GPU.
ON_GPU = {rule for rule, body in BODIES.items() if "gpu=1" in body}
