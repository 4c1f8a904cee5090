"""Test that additions of other packages appear in tables and figures without any code that names them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages import install as install_package
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError
from patebench.reporting import pages
from patebench.reporting.figures import FIGURES
from patebench.reporting.frames import Records
from patebench.reporting.tables import TABLES

MODULE = '''
from matplotlib.figure import Figure
from patebench.reporting.tables.table import Column, Table

def draw(records, published):
    """**How many** ensembles there are,
    one bar each.

    This is not shown."""
    return Figure()

def build(records, published):
    """All ensembles, *by name*."""
    return records.ensembles[["ensemble"]]

TABLE = Table(title="Names", columns=(Column("ensemble", "Ensemble"),), build=build)
'''


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Return records of a mechanism, accountants, a method and a strategy that are not registered."""
    facts = made.ensemble()
    toy = {**facts, **made.WHOLE_POOL, "mechanism": "toy", "noise": "heat-3", "parameters": {"heat": 3.0}}
    selected = made.selected(toy, ("oracle", 50))
    found = [
        made.ensemble_record(facts),
        made.label_set_record(toy, 0.9, 0.9),
        made.bound_record(toy, 100, 1.5, "zcdp", Kind.WORST_CASE) | {"label": "Concentrated DP, tight"},
        made.bound_record(toy, 100, 1.75, "name_less", Kind.WORST_CASE),
        made.bound_record(toy, 100, 2.5, "sketch", Kind.WORST_CASE) | {"variant": True},
        made.bound_record(toy, 100, 0.5, "enumerated", Kind.DATA_DEPENDENT) | {"exact": True},
        made.bound_record(toy, 100, 4.0, "pld", Kind.WORST_CASE),
        made.student_record(toy, 100, 0.9) | {"method": "diffusion", "student": "diffusion_queries-100"},
        made.bound_record(selected, 50, 1.0, "zcdp", Kind.WORST_CASE),
        made.selected_student_record(selected, 50, 0.8, "oracle"),
        made.selected_student_record(toy, 50, 0.7, "random"),
    ]
    return made.load_records(made.collected(tmp_path, *found))


def test_an_unknown_accountant_has_a_column_after_the_known_ones(records: Records) -> None:
    table = TABLES.load("accountants")
    frame = table.build(records, made.PRINTED)
    heads = [(column.group, column.title) for column in table.shown(frame) if column.group]
    sound, leaky = "ε, worst case, of fresh noise", "ε, data-dependent, not publishable"
    wanted = [(sound, "Gaussian DP, PLD"), (sound, "Concentrated DP, tight"), (sound, "name_less")]
    assert heads == [*wanted, (leaky, "enumerated")]
    assert "| 4.00 | 1.50 | 1.75 | 0.50 |" in table.markdown(frame)
    assert "| zcdp |" in TABLES.load("bounds").markdown(TABLES.load("bounds").build(records, made.PRINTED))
    names = made.legend(made.draw_records("epsilon", records))
    assert {"zcdp", "name, less", "enumerated"} < set(names)
    assert "sketch" not in names, "variants are only in tables"


def test_mechanisms_methods_and_strategies_are_in_tables_and_figures(records: Records) -> None:
    for name in ("noisy-accuracy", "active-learning", "utility-privacy"):
        table = TABLES.load(name)
        text = table.markdown(table.build(records, made.PRINTED))
        assert "| toy | heat = 3 |" in text, name
    assert "| diffusion |" in text
    assert "oracle 50" in text
    learning = TABLES.load("active-learning").build(records, made.PRINTED)
    gains = dict(zip(learning["strategy"], learning["gain_mean"], strict=True))
    assert gains == {"oracle": pytest.approx(0.1), "random": 0}
    assert {"diffusion", "supervised"} < set(made.legend(made.draw_records("frontier", records)))
    assert "toy, diffusion (n = 250)" in made.legend(made.draw_records("equal-epsilon", records))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that installs a package with a figure and a table, given its source."""

    def install(module: str) -> None:
        entry_points = "[patebench.figures]\nnumbers = toy_pages:draw\n[patebench.tables]\nnames = toy_pages:TABLE\n"
        elsewhere = tmp_path / f"elsewhere-{len(module)}"
        monkeypatch.syspath_prepend(install_package(elsewhere, entry_points, toy_pages=module))
        monkeypatch.delitem(__import__("sys").modules, "toy_pages", raising=False)
        for registry in (FIGURES, TABLES):
            monkeypatch.setitem(vars(registry), "_outside", type(registry)._outside.func(registry))  # type: ignore[attr-defined]

    return install


def _page(folder: Path) -> str:
    """Return the page of the package's figure and table."""
    collected = made.collected(folder, made.ensemble_record(made.ensemble()))
    return made.write_report(folder, collected, figures=["numbers"], tables=["names"])


def test_figures_and_tables_of_other_packages_take_their_captions_from_docstrings(
    package: Callable[[str], None], tmp_path: Path
) -> None:
    package(MODULE)
    assert {"numbers", "names"} < {*FIGURES, *TABLES}
    page = _page(tmp_path)
    assert "<p><strong>How many</strong> ensembles there are, one bar each.</p>" in page
    assert "<p>All ensembles, <em>by name</em>.</p>" in page
    assert "This is not shown" not in page
    package(MODULE.replace('"""All ensembles, *by name*."""', ""))
    with pytest.raises(ArtefactError, match=r"not exist; write it, or add a docstring to toy_pages\.build"):
        _page(tmp_path)
    with pytest.raises(ArtefactError, match="restore the file"):
        pages.caption_of(tmp_path / "none.rst", FIGURES.load("gap"))
