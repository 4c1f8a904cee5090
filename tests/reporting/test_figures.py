"""Figures: the right points, any subset of records, the same bytes for the same records."""

import re

import numpy as np
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.figures import FIGURES
from patebench.reporting.figures.drawing import SMALLER
from patebench.reporting.published import read_published
from patebench.reporting.style import (
    BLACK,
    BLUE,
    KINDS,
    MECHANISMS,
    METHODS,
    TEACHERS,
    is_empty,
    line_styles,
    panels,
    save,
    svg,
    themed,
)

PUBLISHED = read_published(made.PUBLISHED)


def _draw(name, collected, baselines=(), models=()):
    with themed():
        figure = FIGURES.load(name)(made.load_records(collected, baselines, models=models), PUBLISHED)
        figure.draw_without_rendering()
    return figure


def _lines(axis):
    return {line.get_label(): line for line in axis.get_lines() if not line.get_label().startswith("_")}


def _legend(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def _words(figure):
    texts = [text.get_text() for axis in figure.axes for text in axis.texts]
    return " ".join([*texts, *_legend(figure), *(axis.get_title() for axis in figure.axes)])


def test_noisy_accuracy_draws_expectation_releases_and_the_published_point(tmp_path):
    figure = _draw("noisy-accuracy", *made.files(tmp_path, seeds=(0, 2)))
    (axis,) = figure.axes
    lines = _lines(axis)
    assert set(lines) == {"n = 10", "n = 250"}
    expected = [0.98 - 0.8 * 2.0 ** (-gamma * 250 / 3) + 0.001 for gamma in made.GAMMAS]
    assert lines["n = 250"].get_xdata() == pytest.approx(np.array(made.GAMMAS))
    assert lines["n = 250"].get_ydata() == pytest.approx(np.array(expected))
    points = {dots.get_label(): dots for dots in axis.collections}
    assert points["published: PATE 2017, n = 250"].get_offsets().tolist() == [[0.05, 0.9318]]
    drawn = [dots for dots in axis.collections if len(dots.get_offsets()) == 2 * len(made.GAMMAS)]
    assert len(drawn) == 2
    assert axis.get_xscale() == "log"
    assert "ε per query" in axis.get_xlabel()
    assert "2γ-DP" in axis.get_xlabel()


def test_gaussian_accuracy_draws_sigma(tmp_path):
    (axis,) = _draw("gaussian-accuracy", *made.files(tmp_path)).axes
    assert _lines(axis)["n = 10"].get_xdata() == pytest.approx(np.array(made.SIGMAS))
    assert not any("published" in str(dots.get_label()) for dots in axis.collections)


def test_gap_draws_mean_and_deviation(tmp_path):
    (axis,) = _draw("gap", *made.files(tmp_path, seeds=(0, 2))).axes
    (bars,) = axis.containers
    line, _, (upright,) = bars.lines
    assert line.get_xdata() == pytest.approx([10, 250])
    assert line.get_ydata() == pytest.approx([0.94, 0.892])
    low, high = upright.get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * 0.004 / np.sqrt(2))


def test_epsilon_shows_what_may_be_published(tmp_path):
    figure = _draw("epsilon", *made.files(tmp_path, teachers=(250,)))
    assert len(figure.axes) == 2
    axis = next(axis for axis in figure.axes if "LNMax" in axis.get_title())
    bars = {container.get_label(): container.lines[0] for container in axis.containers}
    assert set(bars) == {
        "moments: data-dependent, not publishable",
        "PLD: worst case, publishable",
        "strong composition: worst case, publishable",
    }
    leaky = bars["moments: data-dependent, not publishable"]
    sound = bars["PLD: worst case, publishable"]
    assert leaky.get_markerfacecolor() == "none"
    assert sound.get_markerfacecolor() == sound.get_color()
    assert {"worst case, publishable", "data-dependent, not publishable"} < set(_legend(figure))
    assert (leaky.get_linestyle(), sound.get_linestyle()) == ("--", "-")
    assert sound.get_xdata().tolist() == [100, 1000]
    assert sound.get_ydata() == pytest.approx([4.0, 0.4 * np.sqrt(1000)])


def test_epsilon_draws_the_tight_conversion_where_there_are_two(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [
        made.student_record(facts, 100, 0.9),
        made.bound_record(facts, 100, 2.0, "rdp", Kind.WORST_CASE) | {"conversion": "classic"},
        made.bound_record(facts, 100, 1.5, "rdp", Kind.WORST_CASE) | {"conversion": "tight"},
        made.bound_record(facts, 100, 3.0, "moments-unrestricted", Kind.WORST_CASE) | {"conversion": "classic"},
    ]
    (axis,) = _draw("epsilon", [made.write_collected(tmp_path / "c.json", records)]).axes
    (bars,) = axis.containers
    assert bars.lines[0].get_ydata().tolist() == [1.5]


def test_epsilon_draws_lines_through_curves_and_markers_where_it_is_stated(tmp_path):
    facts = made.label_set(made.ensemble(), "gnmax", 40.0)
    stated = [made.bound_record(facts, T, 0.1 * T**0.5, "gdp", Kind.WORST_CASE) for T in (10, 1000)]
    drawn = [made.bound_record(facts, T, 1.0 + T / 500, "rdp-sanitised", Kind.SANITISED) for T in (10, 1000)]
    curve = {**stated[0], "record": "curve", "queries": [1, 10, 100, 1000], "epsilon": [0.1, 0.3, 1.0, "inf"]}
    records = [made.student_record(facts, 100, 0.9), *stated, *drawn, curve]
    figure = _draw("epsilon", [made.write_collected(tmp_path / "c.json", records)])
    (axis,) = figure.axes
    marked = {container.get_label().split(":")[0]: container.lines[0] for container in axis.containers}
    assert marked["Gaussian DP"].get_xdata().tolist() == [10, 1000]
    assert marked["Gaussian DP"].get_linestyle() == "None" != marked["Rényi sanitised"].get_linestyle()
    assert marked["Rényi sanitised"].get_markerfacecolor() != "none"
    assert "sanitised, drawn from a seed" in _legend(figure)
    (line,) = [line for line in axis.get_lines() if line.get_marker() == "None" and len(line.get_xdata()) == 4]
    assert line.get_xdata().tolist() == [1, 10, 100, 1000]
    assert line.get_ydata().tolist() == [0.1, 0.3, 1.0, np.inf]


@pytest.mark.slow
def test_an_infinite_epsilon_is_said_not_drawn(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [
        made.student_record(facts, 100, 0.9),
        made.bound_record(facts, 100, float("inf"), "pld", Kind.WORST_CASE),
        made.bound_record(facts, 100, 5.8, "strong-composition", Kind.WORST_CASE),
    ]
    collected = [made.write_collected(tmp_path / "c.json", records)]
    assert "ε = ∞ by PLD" in _words(_draw("epsilon", collected))
    assert "∞" not in _draw("frontier", collected).axes[0].get_xlabel(), "another accountant bounds it"
    curve = {**records[1], "record": "curve", "queries": [1, 10, 100], "epsilon": ["inf"] * 3}
    later = made.bound_record(facts, 9000, float("inf"), "pld", Kind.WORST_CASE)
    endless = [made.write_collected(tmp_path / "d.json", [*records[:2], later, curve])]
    assert "ε = ∞ by PLD" in _words(_draw("epsilon", endless)), "and nothing else"
    assert "ε = ∞: LNMax, T = 100 (90%)" in _draw("frontier", endless).axes[0].get_xlabel()


def test_frontier_has_both_epsilons_the_published_points_and_the_baseline(tmp_path):
    (axis,) = _draw("frontier", *made.files(tmp_path, seeds=(0, 1), teachers=(250,))).axes
    points = [bars.lines[0] for bars in axis.containers]
    places = {(point.get_markerfacecolor(), *np.round(point.get_xydata()[0], 4)) for point in points}
    assert ("white", 0.65, 0.961) in places, "data-dependent"
    assert (MECHANISMS["lnmax"].color, 4.0, 0.961) in places, "worst-case, publishable"
    assert {point.get_marker() for point in points} == {MECHANISMS[name].marker for name in ("lnmax", "gnmax")}
    hollow = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "published" in str(dots.get_label())}
    assert hollow == {(2.04, 0.98), (8.03, 0.981), (8.0, 0.97), (1.97, 0.985)}
    assert _lines(axis)["without privacy"].get_ydata()[0] == pytest.approx(0.9905)


def test_private_models_stand_beside_the_students_and_also_alone(tmp_path):
    found = [("scratch", 1.0, 0.95), ("scratch", 8.0, 0.98), ("linear", 1.0, 0.97)]
    models = [
        made.write_private_model(tmp_path / f"{form}-{epsilon}.json", made.private_model(epsilon, accuracy, form))
        for form, epsilon, accuracy in found
    ]
    for collected, baselines in (made.files(tmp_path, seeds=(0, 1), teachers=(250,)), ([], [])):
        with themed():
            figure = FIGURES.load("frontier")(made.load_records(collected, baselines, models=models), PUBLISHED)
        (axis,) = figure.axes
        assert axis.get_title() == "MNIST"
        lines = {bars.get_label(): bars.lines[0].get_xydata().tolist() for bars in axis.containers}
        assert lines["DP-SGD, scratch, of one record"] == [[1.0, 0.95], [8.0, 0.98]]
        assert lines["DP-SGD, linear, of one record"] == [[1.0, 0.97]]
        assert {"DP-SGD, scratch, of one record", "DP-SGD, linear, of one record"} < set(_legend(figure))
        published = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "of one rec" in str(dots.get_label())}
        assert published >= {(8.0, 0.97), (1.2, 0.981), (2.93, 0.981), (1.0, 0.968), (0.47, 0.988)}


def test_students_are_told_apart_where_they_are_more_than_mechanisms(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    learnt = [made.student_record(facts, 100, accuracy) for accuracy in (0.9, 0.95)]
    learnt[1] |= {"method": "gan", "student": "gan_queries-100"}
    records = [*learnt, made.bound_record(facts, 100, 5.8, "pld", Kind.WORST_CASE)]
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", records)]).axes
    colours = {_lines(axis)[method].get_color() for method in ("GAN", "supervised")}
    assert colours == {METHODS["gan"].color, METHODS["supervised"].color}


def test_students_of_selected_queries_are_on_the_frontier_at_what_these_cost(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    student = made.selected_student_record(facts, 100, 0.96)
    bound = made.bound_record(made.selected(facts, ("prototypes", 100)), 100, 5.8, "pld", Kind.WORST_CASE)
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", [student, bound])]).axes
    points = {tuple(bars.lines[0].get_xydata()[0]) for bars in axis.containers}
    assert (5.8, 0.96) in points


def test_no_bar_of_the_frontier_is_above_100_percent(tmp_path):
    records = []
    for seed, accuracy in ((0, 1.0), (1, 0.4), (2, 1.0)):  # 80 ± 35 %
        facts = made.label_set(made.ensemble(seed=seed), "gnmax", 40.0)
        bound = made.bound_record(facts, 100, 1.0, "gdp", Kind.WORST_CASE)
        records += [made.student_record(facts, 100, accuracy), bound]
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", records)]).axes
    tops = [
        place[1]
        for bars in axis.containers
        for caps in bars.lines[2]
        for segment in caps.get_segments()
        for place in segment.reshape(-1, 2)
    ]
    assert max(tops) == pytest.approx(1.0)
    assert axis.get_ylim()[1] <= 1.02


def test_students_whose_words_would_be_the_same_are_told_apart_by_their_noise(tmp_path):
    records = []
    for sigma, epsilon, accuracy in ((40.0, 2.0, 0.97), (80.0, 0.5, 0.9)):
        facts = made.label_set(made.ensemble(), "gnmax", sigma)
        bound = made.bound_record(facts, 100, epsilon, "gdp", Kind.WORST_CASE)
        records += [made.student_record(facts, 100, accuracy), bound]
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", records)]).axes
    assert {"T = 100, σ = 40", "T = 100, σ = 80"} <= {text.get_text() for text in axis.texts}


def test_of_several_parameters_those_that_differ_tell_them_apart(tmp_path):
    records = []
    for sigma2, epsilon, accuracy in ((40.0, 2.0, 0.97), (80.0, 0.5, 0.9)):
        parameters = {"threshold": 200.0, "sigma1": 150.0, "sigma2": sigma2}
        noise = {"noise": f"threshold-200_sigma1-150_sigma2-{sigma2:g}", "parameters": parameters}
        facts = made.label_set(made.ensemble(), "gnmax", sigma2) | noise | {"mechanism": "confident-gnmax"}
        bound = made.bound_record(facts, 100, epsilon, "label", Kind.WORST_CASE)
        records += [made.student_record(facts, 100, accuracy), bound]
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", records)]).axes
    assert {"T = 100, σ₂ = 40", "T = 100, σ₂ = 80"} <= {text.get_text() for text in axis.texts}


def test_a_student_without_a_data_dependent_epsilon_is_one_mark_of_its_mechanism(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [made.student_record(facts, 100, 0.9), made.bound_record(facts, 100, 5.8, "pld", Kind.WORST_CASE)]
    figure = _draw("frontier", [made.write_collected(tmp_path / "c.json", records)])
    save(figure, tmp_path / "frontier.png")
    lines = [line for line in figure.axes[0].lines if 0.9 in line.get_ydata()]
    assert {line.get_marker() for line in lines} <= {MECHANISMS["lnmax"].marker, "_", "|"}
    assert "worst-case ε, of fresh noise" in _legend(figure)
    assert "data-dependent ε, not publishable" not in _legend(figure)


def test_words_of_the_frontier_cover_no_other_point(tmp_path):
    """Two students that are as good, one a little to the right of the other: both are named."""
    facts = [made.label_set(made.ensemble(), "gnmax", sigma) for sigma in (40.0, 50.0)]
    costs = zip(facts, (100, 50), (1.0, 0.9), strict=True)
    bounds = [made.bound_record(fact, queries, cost, "gdp", Kind.WORST_CASE) for fact, queries, cost in costs]
    students = [made.student_record(facts[0], 100, 0.9906), made.student_record(facts[1], 50, 0.99)]
    wide = made.student_record(facts[0], 286, 0.97), made.bound_record(facts[0], 286, 30.0, "gdp", Kind.WORST_CASE)
    (axis,) = _draw("frontier", [made.write_collected(tmp_path / "c.json", [*students, *bounds, *wide])]).axes
    named = {text.get_text(): text.get_window_extent() for text in axis.texts}
    assert {"T = 50", "T = 100"} <= set(named)
    for place in axis.transData.transform([(1.0, 0.9906), (0.9, 0.99)]):
        assert not any(extent.contains(*place) for extent in named.values())


def test_the_cost_of_a_query_is_that_of_the_theorems(tmp_path):
    """At unanimity by hand: Theorem 1 of PATE 2017 for LNMax, α/σ² and something below it for GNMax."""
    figure = _draw("epsilon-gap", *made.files(tmp_path, teachers=(250,)))
    laplace, gaussian = (next(axis for axis in figure.axes if name in axis.get_title()) for name in ("LNMax", "GNMax"))
    assert "order 20" in laplace.get_ylabel()
    assert "order 5" in gaussian.get_ylabel(), "the order at which the release's own ε was found"
    q = 9 * (2 + 0.05 * 250) / (4 * np.exp(0.05 * 250))
    moment = 19
    alpha = np.log((1 - q) * ((1 - q) / (1 - np.exp(0.1) * q)) ** moment + q * np.exp(0.1 * moment))
    leaky, sound = (_lines(laplace)[f"Rényi: {kind}"] for kind in ("data-dependent", "worst case"))
    assert (leaky.get_xdata()[-1], leaky.get_ydata()[-1]) == pytest.approx((250, alpha / moment))
    assert sound.get_linestyle() == "-"
    assert leaky.get_linestyle() == "--"
    leaky, sound = (_lines(gaussian)[f"Rényi: {kind}"].get_ydata() for kind in ("data-dependent", "worst case"))
    assert sound == pytest.approx(np.full(len(sound), 5 / 40**2))
    assert leaky[0] == sound[0], "a tie costs the worst case"
    assert np.all(np.diff(leaky[-10:]) < 0), "the more teachers agree, the less an answer costs"
    assert "queries of the pool (their number)" in _legend(figure)


def test_different_splits_and_epochs_are_told_apart(tmp_path):
    split = {**made.ensemble(teachers=10), "split": "seed-0_pool-100", "setting": "pool-100"}
    longer = {**made.ensemble(teachers=10), "epochs": 99, "ensemble": "teachers-10_iid_small-cnn_modern_epochs-99"}
    records = [
        made.label_set_record(made.label_set(facts, "lnmax", 0.05), 0.9, 0.9)
        for facts in (made.ensemble(teachers=10), split, longer)
    ]
    figure = _draw("noisy-accuracy", [made.write_collected(tmp_path / "c.json", records)])
    assert [axis.get_title().rpartition(" · ")[2] for axis in figure.axes] == ["pool 100", "pool 9000"]
    assert set(_lines(figure.axes[1])) == {"n = 10, 50 epochs", "n = 10, 99 epochs"}


#: Figure → the kinds of records that it needs; None for those that made-up records do not have.
NEEDED = {
    **{"noisy-accuracy": {"label_set"}, "gaussian-accuracy": {"label_set"}, "label-frontier": {"label_set", "bound"}},
    **{"gap": {"ensemble"}, "distance": {"ensemble"}, "epsilon-gap": {"student"}, "learning-curves": {"student"}},
    **{name: {"student", "bound"} for name in ("methods", "equal-epsilon", "epsilon")},
    "frontier": {"student"},
    **dict.fromkeys(("clusters", "pool", "cap", "local", "audit", "distillation", "petdl-ablations"), None),
    "generated-samples": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("kinds", [(), ("ensemble",), ("label_set",), ("bound",), ("student",), ("student", "bound"),
                                   ("label_set", "bound")])  # fmt: skip
def test_any_subset_of_records_makes_a_figure(tmp_path, name, kinds):
    records = [record for record in made.records(teachers=50) if record["record"] in kinds]
    figure = _draw(name, [made.write_collected(tmp_path / "c.json", records)])
    needed = NEEDED[name]
    assert is_empty(figure) == (needed is None or not needed <= set(kinds))


def test_labels_without_an_expectation_are_still_drawn(tmp_path):
    records = [made.label_set_record(made.label_set(made.ensemble(), "lnmax", 0.05), 0.9, None)]
    (axis,) = _draw("noisy-accuracy", [made.write_collected(tmp_path / "c.json", records)]).axes
    assert [0.05, 0.9] in [offset for dots in axis.collections for offset in dots.get_offsets().tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_same_records_same_bytes_without_dates(tmp_path, name):
    collected, baselines = made.files(tmp_path, teachers=(250,))
    files = []
    for order in (1, -1):
        figure = _draw(name, collected[::order], baselines[::order])
        paths = [tmp_path / f"{order}.{form}" for form in ("png", "pdf")]
        with themed():
            save(figure, *paths)
            files.append((*(path.read_bytes() for path in paths), svg(figure)))
    assert files[0] == files[1]
    assert not re.search(rb"tIME|Software", files[0][0][:200])
    assert not re.search(rb"CreationDate|ModDate|Producer", files[0][1])
    assert not re.search(r"http|<metadata|\d{4}-\d\d-\d\d", re.sub(r"base64,.*?\"", "", files[0][2]))


def test_the_same_thing_looks_the_same_everywhere():
    assert line_styles([10, 250], TEACHERS)[250] == line_styles([100, 250, 7], TEACHERS)[250] == TEACHERS[250]
    assert TEACHERS[250].color == BLUE
    crowd = line_styles(range(7))
    assert len({style.color for style in crowd.values()}) == len({style.marker for style in crowd.values()}) == 7
    assert set(KINDS) == set(Kind)
    assert (
        len({style.color for style in KINDS.values()}) == len({style.marker for style in KINDS.values()}) == len(Kind)
    )


def test_a_mechanism_without_a_style_of_its_own_looks_like_no_other():
    styles = line_styles([*MECHANISMS, "of a plug-in"], MECHANISMS)
    assert len({(style.color, style.marker) for style in styles.values()}) == len(MECHANISMS) + 1
    assert BLACK not in {style.color for style in MECHANISMS.values()}, "as what papers print is drawn"


def test_learning_curves_draw_the_looks_of_each_student(tmp_path):
    figure = _draw("learning-curves", *made.files(tmp_path, teachers=(250,), seeds=(0,)))
    (axis,) = figure.axes
    drawn = axis.get_lines()
    assert {tuple(line.get_xdata()) for line in drawn} == {(0.25, 0.5, 0.75, 1.0)}
    assert {line.get_label() for line in drawn} == {"T = 100", "T = 1000"}
    assert "supervised" in axis.get_title()


def test_a_learning_curve_is_the_mean_and_a_deviation_of_students_measured_at_different_epochs(tmp_path):
    often = [{"epoch": epoch, "accuracy": accuracy} for epoch, accuracy in ((1, 0.2), (2, 0.6), (3, 0.8), (4, 0.9))]
    seldom = [{"epoch": 2, "accuracy": 0.4}, {"epoch": 4, "accuracy": 0.8}]
    paths = []
    for seed, curve in enumerate((often, seldom)):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        record = made.student_record(facts, 100, 0.9) | {"learning_curve": curve}
        paths.append(made.write_collected(tmp_path / f"{seed}.json", [record]))
    (axis,) = _draw("learning-curves", paths).axes
    (line,), (band,) = axis.get_lines(), axis.collections
    assert line.get_xdata() == pytest.approx([0.5, 0.75, 1.0])
    assert line.get_ydata() == pytest.approx([0.5, 0.7, 0.85])
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.5 - np.std([0.6, 0.4], ddof=1))


def test_students_of_selected_queries_have_learning_curves_and_pictures_too(tmp_path):
    facts, pixels = made.label_set(made.ensemble(), "lnmax", 0.05), np.zeros((6, 8), np.uint8)
    students = [made.student_record(facts, 100, 0.9), made.selected_student_record(facts, 100, 0.96)]
    students[1] |= {"picture": made.picture(pixels)}
    path = made.write_collected(tmp_path / "c.json", students)
    panels = _draw("learning-curves", [path]).axes
    ends = {axis.get_title(): [line.get_ydata()[-1] for line in axis.get_lines()] for axis in panels}
    assert ends == {"MNIST · supervised": [0.9], "MNIST · supervised · prototypes": [0.96]}
    assert len({axis.get_ylim() for axis in panels}) == 1, "curves of one data set can be compared"
    (picture,) = _draw("generated-samples", [path]).axes
    assert picture.get_title().endswith("T = 100 prototypes")


def test_generated_samples_show_the_picture_itself(tmp_path):
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"picture": made.picture(pixels)}
    figure = _draw("generated-samples", [made.write_collected(tmp_path / "c.json", [record])])
    (image,) = figure.axes[0].get_images()
    assert np.array_equal(np.round(np.asarray(image.get_array()) * 255).astype(np.uint8), pixels)
    assert "T = 100" in figure.axes[0].get_title()


def test_students_without_curves_or_pictures_are_told(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"learning_curve": [{"epoch": 1}]}
    path = made.write_collected(tmp_path / "c.json", [record])
    assert is_empty(_draw("learning-curves", [path]))
    assert is_empty(_draw("generated-samples", [path]))


def test_of_many_label_sets_those_near_an_epsilon_of_one_are_drawn(tmp_path):
    records = []
    for teachers in (10, 50, 100, 250):
        for mechanism, values in (("lnmax", (0.05, 0.2)), ("gnmax", (10.0, 40.0))):
            for place, value in enumerate(values):
                facts = made.label_set(made.ensemble(teachers=teachers), mechanism, value)
                far = teachers * (1 if place else 5)
                records += [
                    made.student_record(facts, 100, 0.9),
                    made.bound_record(facts, 100, far / 10, "pld", Kind.WORST_CASE),
                ]
    titles = [axis.get_title() for axis in _draw("epsilon", [made.write_collected(tmp_path / "c.json", records)]).axes]
    assert len(titles) == 6
    assert not any("n = 250" in title or "γ = 0.05" in title or "σ = 10" in title for title in titles)


@pytest.mark.parametrize("name", ["gap", "distance"])
def test_records_that_vote_by_themselves_are_no_part_of_figures_of_ensembles(tmp_path, name):
    alone = made.ensemble_record(made.ensemble(teachers=60000, model="nearest-query"), 0.95)
    alone |= {"plurality_accuracy_test": None}
    path = made.write_collected(tmp_path / "c.json", [alone, made.ensemble_record(made.ensemble(teachers=50), 0.95)])
    words = _words(_draw(name, [path]))
    assert "small CNN" in words
    assert "nearest-query" not in words


def test_a_curve_of_one_point_has_a_marker(tmp_path):
    """In every figure: a line through one point could not be seen."""
    from patebench.reporting.style import panels, save

    figure, (axis,) = panels([""])
    (one,) = axis.plot([1, float("nan")], [2, 3])
    (two,) = axis.plot([1, 2], [2, 3])
    save(figure, tmp_path / "a.png", tmp_path / "a.pdf")
    assert (one.get_marker(), two.get_marker()) == ("o", "None")


def test_words_of_a_panel_do_not_reach_into_the_next(tmp_path):
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


def test_a_student_measured_once_is_among_the_learning_curves(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"learning_curve": [{"epoch": 4, "accuracy": 0.9}]}
    (axis,) = _draw("learning-curves", [made.write_collected(tmp_path / "c.json", [record])]).axes
    (line,) = axis.get_lines()
    assert line.get_xydata().tolist() == [[1.0, 0.9]]


def test_models_that_are_private_themselves_have_learning_curves_too(tmp_path):
    epochs = [{"epoch": epoch, "accuracy": epoch / 10} for epoch in (2, 4)]
    steps = [{"step": step, "accuracy": step / 1000} for step in (100, 200, 400)]
    several = made.private_model(2.0) | {"curve": steps}
    several["bounds"] = [*several["bounds"], several["bounds"][0] | {"accountant": "rdp", "epsilon": 3.0}]
    facts = {"system": "PET-DL", "form": "noisy-knowledge", "curve": epochs}
    students = [made.private_model() | facts | {"teachers": n, "private_model": f"published-{n}"} for n in (2, 10)]
    models = [*students, several, made.private_model(4.0)]  # the last has no curve
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate(models)]
    dpsgd, petdl = _draw("learning-curves", [], models=paths).axes
    assert [line.get_label() for line in petdl.get_lines()] == ["n = 2, ε = 1.00", "n = 10, ε = 1.00"]
    assert petdl.get_lines()[0].get_xydata().tolist() == [[0.5, 0.2], [1.0, 0.4]]
    (line,) = dpsgd.get_lines()
    assert line.get_label() == "ε = 2.00"
    assert line.get_xydata().tolist() == [[0.25, 0.1], [0.5, 0.2], [1.0, 0.4]]


def test_claims_tell_no_curves_of_an_ensemble_apart_and_no_two_lines_look_alike(tmp_path):
    curve = [{"epoch": 1, "accuracy": 0.5}]
    claims = []
    for n, epsilon, teachers in ((0, 1.0, 4), (1, 3.0, 4), (2, 1.0, None)):
        model = made.private_model(epsilon, form="published") | {"curve": curve, "teachers": teachers}
        model |= {"private_model": str(n), "system": "PET-DL" if teachers else "Private-kNN"}
        model["bounds"] = [each | {"kind": "claimed"} for each in model["bounds"]]
        claims.append(model)
    sound = [made.private_model(float(epsilon)) | {"curve": curve} for epsilon in range(1, 16)]
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate((*claims, *sound))]
    dpsgd, petdl, knn = (axis for axis in _draw("learning-curves", [], models=paths).axes if axis.get_title())
    assert list(_lines(petdl)) == ["n = 4"]
    assert list(_lines(knn)) == ["ε = 1.00, claimed"]
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in dpsgd.get_lines()}
    assert len(looks) == 15


def test_distances_are_for_runs_with_a_mechanism_or_a_data_set_of_the_paper(tmp_path):
    records = [made.ensemble_record(made.ensemble(dataset)) for dataset in ("mine", "mnist")]
    one, both = (made.write_collected(tmp_path / f"{n}.json", records[:n]) for n in (1, 2))
    assert is_empty(_draw("distance", [one]))
    assert not is_empty(_draw("distance", [both]))
