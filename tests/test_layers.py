"""Who may import whom: downwards only; files are for stages, and commands too."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "workflow" / "patebench"

#: From the top; parts of one row do not import each other.
LAYERS = [
    ["api"],
    ["stages"],
    ["artefacts"],
    ["cli"],
    ["config"],
    ["reporting"],
    ["students", "petdl", "baselines", "audit", "secure", "calculator"],
    ["decoding"],
    ["features"],
    ["teachers", "mechanisms"],
    ["models", "accounting"],
    ["data"],
    ["core"],
]
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}

#: What the package itself says, to all of its parts.
VERSION = "__version__"

#: The functions of core.files that read or write artefacts.
ARTEFACTS = {
    *("read_arrays", "write_arrays", "read_json", "write_json"),
    *("read_facts", "read_any_arrays", "read_any_json"),
}

#: Parts that may use them.
MAY_USE_ARTEFACTS = {
    "core",
    "artefacts",
    "stages",
}

#: Parts that make commands.
MAY_USE_CLICK = {"cli", "artefacts", "stages"}

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """All that a file imports, at the top or inside functions, with its full name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(path: Path) -> set[str]:
    """Every name in a file, with or without what it is looked up in."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    aliases = {name.rsplit(".", 1)[-1] for name in imported(path)}
    return names | attributes | aliases


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in FILES} - {"__init__"} <= set(LEVEL)


@each_file
def test_imports_go_downwards(path: Path) -> None:
    part = part_of(path)
    names = [name.split(".") for name in imported(path) if name.startswith("patebench.")]
    for target in {name[1] for name in names} - {part, VERSION}:
        # The package itself stands above all: it offers their names, and imports none before it is asked for.
        assert part == "__init__" or LEVEL[part] < LEVEL[target], f"{part} imports {target}"


@each_file
def test_only_stages_read_and_write_artefacts(path: Path) -> None:
    if part_of(path) not in MAY_USE_ARTEFACTS:
        assert used(path) & ARTEFACTS == set(), "let a stage read the file, and pass on what it holds"


@each_file
def test_only_stages_and_the_command_line_know_of_commands(path: Path) -> None:
    if part_of(path) not in MAY_USE_CLICK:
        assert {name for name in imported(path) if name.split(".")[0] == "click"} == set()
