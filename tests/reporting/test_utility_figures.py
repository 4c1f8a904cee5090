"""Test figures of accuracy against ε: the frontier and the methods."""

import numpy as np
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.style import mechanism_styles, save


def test_frontier_has_both_epsilons_the_published_points_and_the_baseline(tmp_path):
    (axis,) = made.draw("frontier", *made.files(tmp_path, seeds=(0, 1), teachers=(250,))).axes
    points = [bars.lines[0] for bars in axis.containers]
    places = {(point.get_markerfacecolor(), *np.round(point.get_xydata()[0], 4)) for point in points}
    assert ("white", 0.65, 0.961) in places, "data-dependent"
    assert (mechanism_styles()["lnmax"].color, 4.0, 0.961) in places, "worst-case, publishable"
    assert {point.get_marker() for point in points} == {mechanism_styles()[name].marker for name in ("lnmax", "gnmax")}
    hollow = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "published" in str(dots.get_label())}
    assert hollow == {(2.04, 0.98), (8.03, 0.981), (8.0, 0.97), (1.97, 0.985)}
    assert made.lines(axis)["without privacy"].get_ydata()[0] == pytest.approx(0.9905)


def test_private_models_stand_beside_the_students_and_also_alone(tmp_path):
    found = [(1.0, 0.95, "scratch"), (8.0, 0.98, "scratch"), (1.0, 0.97, "linear")]
    models = made.models(tmp_path / "models", *(made.private_model(*each) for each in found))
    for collected, baselines in (made.files(tmp_path, seeds=(0, 1), teachers=(250,)), ([], [])):
        figure = made.draw("frontier", collected, baselines, models=models)
        (axis,) = figure.axes
        assert axis.get_title() == "MNIST"
        lines = {bars.get_label(): bars.lines[0].get_xydata().tolist() for bars in axis.containers}
        wanted = {
            "DP-SGD, scratch, of one record": [[1.0, 0.95], [8.0, 0.98]],
            "DP-SGD, linear, of one record": [[1.0, 0.97]],
        }
        assert {name: lines[name] for name in wanted} == wanted
        assert set(wanted) < set(made.legend(figure))
        published = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "of one rec" in str(dots.get_label())}
        assert published >= {(8.0, 0.97), (1.2, 0.981), (2.93, 0.981), (1.0, 0.968), (0.47, 0.988)}


def test_students_are_told_apart_and_those_of_selected_queries_are_at_what_these_cost(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    gan = made.student_record(facts, 100, 0.95) | {"method": "gan", "student": "gan_queries-100"}
    selected = made.selected_student_record(facts, 100, 0.96)
    cost = made.bound_record(made.selected(facts, ("prototypes", 100)), 100, 4.8, "pld", Kind.WORST_CASE)
    collected = made.collected(tmp_path, *made.costing(facts, 100, 0.9, 5.8), gan, selected, cost)
    (axis,) = made.draw("frontier", collected).axes
    assert len({made.lines(axis)[method].get_color() for method in ("GAN", "supervised")}) == 2
    points = {tuple(bars.lines[0].get_xydata()[0]) for bars in axis.containers}
    assert {(5.8, 0.9), (5.8, 0.95), (4.8, 0.96)} <= points


def test_of_several_parameters_those_that_differ_tell_them_apart(tmp_path):
    records = []
    for sigma2, epsilon, accuracy in ((40.0, 2.0, 0.97), (80.0, 0.5, 0.9)):
        parameters = {"threshold": 200.0, "sigma1": 150.0, "sigma2": sigma2}
        noise = {"noise": f"threshold-200_sigma1-150_sigma2-{sigma2:g}", "parameters": parameters}
        facts = made.label_set(made.ensemble(), "gnmax", sigma2) | noise | {"mechanism": "confident-gnmax"}
        records += made.costing(facts, 100, accuracy, epsilon, "label")
    (axis,) = made.draw("frontier", made.collected(tmp_path, *records)).axes
    assert {"T = 100, σ₂ = 40", "T = 100, σ₂ = 80"} <= {text.get_text() for text in axis.texts}


def test_a_student_without_a_data_dependent_epsilon_is_one_mark_of_its_mechanism(tmp_path):
    records = made.costing(made.label_set(made.ensemble(), "lnmax", 0.05), 100, 0.9, 5.8)
    figure = made.draw("frontier", made.collected(tmp_path, *records))
    save(figure, tmp_path / "frontier.png")
    lines = [line for line in figure.axes[0].lines if 0.9 in line.get_ydata()]
    assert {line.get_marker() for line in lines} <= {mechanism_styles()["lnmax"].marker, "_", "|"}
    assert "worst-case ε, for fresh noise" in made.legend(figure)
    assert "data-dependent ε, not publishable" not in made.legend(figure)
