"""Test all figures: the same bytes for the same records, any subset of records, one style."""

import re

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.figures import FIGURES
from patebench.reporting.figures.drawing import SMALLER, stretch
from patebench.reporting.style import (
    BLACK,
    KINDS,
    is_empty,
    line_styles,
    logarithmic,
    mechanism_styles,
    panels,
    save,
    svg,
    themed,
)


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Return the same records, read in two orders."""
    collected, baselines = made.files(tmp_path_factory.mktemp("records"), teachers=(250,))
    return [made.load_records(collected[::step], baselines[::step]) for step in (1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures_do_not_depend_on_the_order_of_records(orders, name):
    with themed():
        one, other = (svg(FIGURES.load(name)(records, made.PRINTED)) for records in orders)
    assert one == other
    assert not re.search(r"http|<metadata|\d{4}-\d\d-\d\d", re.sub(r"base64,.*?\"", "", one))


def test_styles_are_fixed_and_distinct():
    fixed = mechanism_styles()
    assert line_styles(["gnmax", "x"], fixed)["gnmax"] == line_styles(["a", "gnmax"], fixed)["gnmax"] == fixed["gnmax"]
    assert set(KINDS) == set(Kind)
    for styles in (line_styles(range(7)), KINDS):
        for look in ("color", "marker"):
            assert len({getattr(style, look) for style in styles.values()}) == len(styles)
    all_ = line_styles([*fixed, "of a plug-in"], fixed)
    assert len({(style.color, style.marker) for style in all_.values()}) == len(fixed) + 1
    assert BLACK not in {style.color for style in fixed.values()}, "black is for published values"


def test_saved_files_have_no_date_and_single_points_have_markers(tmp_path):
    """Without a marker, a line through one point is invisible."""
    figure, (axis,) = panels([""])
    (one,) = axis.plot([1, float("nan")], [2, 3])
    (two,) = axis.plot([1, 2], [2, 3])
    save(figure, tmp_path / "a.png", tmp_path / "a.pdf")
    assert (one.get_marker(), two.get_marker()) == ("o", "None")
    assert not re.search(rb"tIME|Software", (tmp_path / "a.png").read_bytes()[:200])
    assert not re.search(rb"CreationDate|ModDate|Producer", (tmp_path / "a.pdf").read_bytes())


def test_titles_and_labels_are_wrapped_to_their_panel(tmp_path):
    with themed():
        figure, axes = panels(["MNIST · nearest query, modern recipe · pool 9000, test 1000, inverted\nT = 50"] * 6)
        for axis in axes:
            axis.set_xlabel(f"ε of T queries at δ = 1e-05, in the worst case   {SMALLER}")
        axes[0].set_title("short")
        save(figure, tmp_path / "figure.png")
        figure.draw_without_rendering()
    for words in (words for axis in axes for words in (axis.title, axis.xaxis.label)):
        assert words.get_window_extent().width <= figure.bbox.width / 3
    assert axes[0].get_title() == "short"
    assert axes[1].get_title().endswith("inverted\nT = 50")
    assert SMALLER in axes[1].get_xlabel(), "in one line"


#: Kinds of records that each figure needs; None for kinds without made-up records.
NEEDED = {
    **{"noisy-accuracy": {"label_set"}, "gaussian-accuracy": {"label_set"}},
    **{"gap": {"ensemble"}, "distance": {"ensemble"}},
    **{name: {"student", "bound"} for name in ("equal-epsilon", "epsilon")},
    "frontier": {"student"},
    **dict.fromkeys(("clusters", "pool", "cap", "audit", "distillation", "petdl-ablations"), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(), ("ensemble",), ("label_set", "bound"), ("student",), ("student", "bound")])
def test_any_subset_of_records_makes_every_figure(tmp_path, kinds):
    chosen = [record for record in made.records(teachers=50) if record["record"] in kinds]
    records = made.load_records([made.write_collected(tmp_path / "c.json", chosen)])
    for name in FIGURES:
        needed = NEEDED[name]
        assert is_empty(made.draw_records(name, records)) == (needed is None or not needed <= set(kinds)), name


@pytest.mark.parametrize("limits", [(4.0, 4.5), (3.1, 4.6), (1.02, 1.03), (0.9, 2.5), (1.0, 40.0)])
def test_both_axes_have_two_ticks(limits: tuple[float, float]) -> None:
    for least in (0.831, 0.8317, 0.6):
        figure, (axis,) = panels([""])
        axis.set_xscale("log")
        axis.set_xlim(*limits)
        logarithmic(axis.xaxis)
        stretch(axis, least, 0.839)
        figure.canvas.draw()
        for own, (low, high) in ((axis.xaxis, limits), (axis.yaxis, axis.get_ylim())):
            assert sum(low <= tick <= high for tick in own.get_majorticklocs()) > 1
