"""Who may import whom: downwards only, and no torch where only numbers are handled."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "workflow" / "patebench"

#: From the top; parts of one row do not import each other.
LAYERS = [
    ["cli"],
    ["config", "plan", "schema"],
    ["reporting"],
    ["students", "petdl", "baselines", "audit", "secure", "budgets"],
    ["teachers", "mechanisms"],
    ["models", "accounting"],
    ["data"],
    ["core"],
]
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}

#: config, its schema and the plan are parts of one thing.
ALLOWED_SIDEWAYS = {("config", "plan"), ("config", "schema")}


def imports(path: Path) -> set[str]:
    """The parts of patebench that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("patebench.")}
    return {name for name in found if not name.startswith("__")}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    for target in imports(path) - {part}:
        assert (part, target) in ALLOWED_SIDEWAYS or LEVEL[part] < LEVEL[target], f"{part} imports {target}"


@pytest.mark.parametrize(
    "module",
    [
        "patebench.cli",
        "patebench.config",
        "patebench.plan",
        "patebench.data.stage",
        "patebench.mechanisms.stage",
        "patebench.audit.stage",
        "patebench.budgets.show",
        "patebench.reporting.collect",
        "patebench.reporting.report",
    ],
)
def test_number_stages_import_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
