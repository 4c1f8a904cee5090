"""The package's imports: downwards only, without cycles; artefact files and commands only where they belong."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "workflow" / "patebench"

#: From the top; packages of one row do not import each other.
LAYERS = [
    ["api"],
    ["stages"],
    ["artefacts"],
    ["release"],
    ["cli"],
    ["config"],
    ["leaderboard"],
    ["reporting"],
    ["students", "petdl", "baselines", "audit", "secure", "calculator"],
    ["decoding"],
    ["features"],
    ["teachers", "mechanisms"],
    ["models", "accounting"],
    ["data"],
    ["core"],
]
LEVEL = {package: level for level, row in enumerate(LAYERS) for package in row}

#: The functions of core.files that read or write artefacts, and the packages that may use them.
ARTEFACTS = {
    *("read_arrays", "write_arrays", "read_json", "write_json"),
    *("read_facts", "read_any_arrays", "read_any_json"),
}
MAY_USE_ARTEFACTS = {"core", "artefacts", "release", "stages"}

#: Packages that define commands.
MAY_USE_CLICK = {"cli", "artefacts", "release", "stages"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def imported_names(tree: ast.AST) -> set[str]:
    """Return the full names of all imports of a module, also inside functions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def used_names(tree: ast.AST) -> set[str]:
    """Return all names, names of attributes and imported names in a module."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return names | attributes | {name.rsplit(".", 1)[-1] for name in imported_names(tree)}


def package_of(module: str) -> str:
    return [*module.split("."), ""][1]


def test_every_package_has_a_layer() -> None:
    assert {package_of(module) for module in TREES} - {""} <= set(LEVEL)


def test_imports_go_downwards() -> None:
    upward = [
        (module, name)
        for module, tree in TREES.items()
        for name in imported_names(tree)
        if name.startswith("patebench.") and (package := package_of(module))
        if (target := package_of(name)) not in (package, "__version__") and LEVEL[package] >= LEVEL[target]
    ]
    assert upward == []


def test_there_is_no_cycle_of_modules() -> None:
    """Imports of a package's own `__init__` by its modules count too."""
    graph: dict[str, set[str]] = {}
    for module, tree in TREES.items():
        names = {name for name in imported_names(tree) if name.startswith("patebench.")}
        graph[module] = {name if name in TREES else name.rsplit(".", 1)[0] for name in names} - {"patebench", module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle of imports: {' → '.join(error.args[1])}")


def test_only_stages_read_and_write_artefacts_and_only_they_and_the_command_line_define_commands() -> None:
    readers = {package_of(module) for module, tree in TREES.items() if used_names(tree) & ARTEFACTS}
    assert readers <= MAY_USE_ARTEFACTS
    clicks = {package_of(m) for m, tree in TREES.items() if {n.split(".")[0] for n in imported_names(tree)} & {"click"}}
    assert clicks <= MAY_USE_CLICK


def test_file_names_are_unique() -> None:
    stems = [path.stem for path in ROOT.rglob("*.py") if path.stem != "__init__"]
    assert sorted({stem for stem in stems if stems.count(stem) > 1}) == []
