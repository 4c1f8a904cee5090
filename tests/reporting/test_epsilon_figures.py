"""Test tables and figures of ε: bounds by accountant, and audits with unsound claims."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Bound, Kind
from patebench.core.errors import ArtefactError
from patebench.core.files import write_json
from patebench.reporting.style import is_empty
from patebench.reporting.tables import TABLES


def test_epsilon_shows_what_may_be_published(tmp_path):
    figure = made.draw("epsilon", *made.files(tmp_path, teachers=(250,)))
    assert len(figure.axes) == 2
    axis = next(axis for axis in figure.axes if "LNMax" in axis.get_title())
    bars = {container.get_label(): container.lines[0] for container in axis.containers}
    open_, closed = "data-dependent, not publishable", "worst case, publishable"
    assert set(bars) == {f"moments: {open_}", f"PLD: {closed}", f"strong composition: {closed}"}
    leaky, sound = bars[f"moments: {open_}"], bars[f"PLD: {closed}"]
    assert leaky.get_markerfacecolor() == "none"
    assert sound.get_markerfacecolor() == sound.get_color()
    assert {open_, closed} < set(made.legend(figure))
    assert (leaky.get_linestyle(), sound.get_linestyle()) == ("--", "-")
    assert pytest.approx(np.array([[100, 1000], [4.0, 0.4 * np.sqrt(1000)]])) == sound.get_xydata().T


def test_epsilon_draws_lines_through_curves_and_markers_where_it_is_stated(tmp_path):
    facts = made.label_set(made.ensemble(), "gnmax", 40.0)
    stated = [made.bound_record(facts, T, 0.1 * T**0.5, "gdp", Kind.WORST_CASE) for T in (10, 1000)]
    drawn = [made.bound_record(facts, T, 1.0 + T / 500, "rdp-sanitised", Kind.SANITISED) for T in (10, 1000)]
    curve = {**stated[0], "record": "curve", "queries": [1, 10, 100, 1000], "epsilon": [0.1, 0.3, 1.0, "inf"]}
    two = [{**stated[0], "accountant": "rdp", "label": "Rényi", "conversion": kind} for kind in ("classic", "tight")]
    two[0]["epsilon"] *= 2
    variant = made.bound_record(facts, 100, 3.0, "moments-unrestricted", Kind.WORST_CASE)
    records = [made.student_record(facts, 100, 0.9), *stated, *drawn, curve, *two, variant]
    figure = made.draw("epsilon", made.collected(tmp_path, *records))
    (axis,) = figure.axes
    marked = {container.get_label().split(":")[0]: container.lines[0] for container in axis.containers}
    assert set(marked) == {"Gaussian DP", "Rényi sanitised", "Rényi"}, "a variant is not drawn"
    assert marked["Gaussian DP"].get_xdata().tolist() == [10, 1000]
    assert marked["Gaussian DP"].get_linestyle() == "None" != marked["Rényi sanitised"].get_linestyle()
    assert marked["Rényi sanitised"].get_markerfacecolor() != "none"
    assert marked["Rényi"].get_ydata() == pytest.approx([0.1 * 10**0.5]), "the tight conversion"
    assert "sanitised, drawn from a seed" in made.legend(figure)
    (line,) = [line for line in axis.get_lines() if line.get_marker() == "None" and len(line.get_xdata()) == 4]
    assert line.get_xydata().T.tolist() == [[1, 10, 100, 1000], [0.1, 0.3, 1.0, np.inf]]


@pytest.mark.slow
def test_an_infinite_epsilon_is_stated_as_text(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = made.costing(facts, 100, 0.9, math.inf)
    finite = made.bound_record(facts, 100, 5.8, "strong-composition", Kind.WORST_CASE)
    collected = made.collected(tmp_path, *records, finite)
    assert "ε = ∞ by PLD" in made.words(made.draw("epsilon", collected))
    assert "∞" not in made.draw("frontier", collected).axes[0].get_xlabel(), "another accountant gives a finite ε"
    curve = {**records[1], "record": "curve", "queries": [1, 10, 100], "epsilon": ["inf"] * 3}
    later = made.bound_record(facts, 9000, math.inf, "pld", Kind.WORST_CASE)
    endless = made.collected(tmp_path, *records, later, curve)
    assert "ε = ∞ by PLD" in made.words(made.draw("epsilon", endless)), "no finite ε is known"
    assert "ε = ∞: LNMax, T = 100 (90%)" in made.draw("frontier", endless).axes[0].get_xlabel()
    text, markdown, latex = made.forms("bounds", endless)
    assert (",inf," in text, "∞" in markdown, "∞" in latex) == (True, True, True)


@pytest.mark.slow
def test_label_sets_with_epsilon_near_one_are_drawn(tmp_path):
    records = []
    for teachers in (10, 50, 100, 250):
        for mechanism, far, near in (("lnmax", 0.05, 0.2), ("gnmax", 10.0, 40.0)):
            for value, factor in ((far, 5), (near, 1)):
                facts = made.label_set(made.ensemble(teachers=teachers), mechanism, value)
                records += made.costing(facts, 100, 0.9, teachers * factor / 10)
    titles = [axis.get_title() for axis in made.draw("epsilon", made.collected(tmp_path, *records)).axes]
    assert len(titles) == 6
    assert not any("n = 250" in title or "γ = 0.05" in title or "σ = 10" in title for title in titles)


FOUND = ("audited_lower: exact", "audited_lower: sampled")


def statement(accountant, kind, epsilon, queries, verdict, audited, label=""):
    facts = {"delta": 1e-5, "source": "made up", "label": label, "publishable": kind is Kind.WORST_CASE}
    bound = Bound(epsilon=epsilon, queries=queries, accountant=accountant, kind=kind, **facts)
    return {**bound.to_json(), "verdict": verdict, "audited": "inf" if math.isinf(audited) else audited}


def audit(path, mechanism, parameters, findings, dataset="mnist"):
    """Write an audit; `findings` maps queries to (claimed or None, worst case, data-dependent, exact, sampled)."""
    written = []
    for queries, (claimed, worst, dependent, exact, sampled) in findings.items():
        bounds = [
            statement("audit-exact", Kind.AUDITED_LOWER, exact, queries, None, exact, "exact"),
            statement("audit-sampled", Kind.AUDITED_LOWER, sampled, queries, None, sampled, "sampled"),
            statement("pld", Kind.WORST_CASE, worst, queries, "vacuous" if math.isinf(worst) else "holds", exact),
            statement("rdp", Kind.WORST_CASE, 2 * worst, queries, "vacuous", exact),
            statement("exact", Kind.DATA_DEPENDENT, dependent, queries, "holds", exact),
        ]
        if claimed is not None:
            verdict = "violated" if exact > claimed else "holds"
            bounds.append(statement("moments", Kind.CLAIMED, claimed, queries, verdict, exact))
        written.append({"queries": queries, "bounds": bounds})
    noise = "_".join(f"{name}-{value:.12g}" for name, value in parameters.items())
    facts = {"dataset": dataset, "mechanism": mechanism, "parameters": parameters, "noise": noise, "teachers": 250}
    write_json(path, "audit", {**facts, "classes": 10, "runs": 5000, "confidence": 0.999, "findings": written})
    return path


@pytest.fixture
def audits(tmp_path):
    sound = {1: (None, 1.0, 0.93, 0.92, 0.7), 100: (None, 25.0, 20.0, 19.0, 15.0)}
    claimed = {1: (1e-9, math.inf, math.inf, math.inf, 8.0), 100: (1e-8, math.inf, math.inf, math.inf, 800.0)}
    return [
        audit(tmp_path / "a.json", "lnmax", {"gamma": 0.5}, sound),
        audit(tmp_path / "b.json", "immutable-lnmax", {"c": 1e100, "gamma": 1e-10}, claimed),
    ]


def test_audit_table_has_the_smallest_epsilon_and_the_worst_verdict(audits):
    frame = made.table("audit", audits=audits)
    rows = {(row["mechanism"], row["queries"]): row for row in frame.to_dict("records")}
    assert len(rows) == 4
    sound, unsound = rows["lnmax", 1], rows["immutable-lnmax", 100]
    assert [sound[name] for name in ("worst_case", "data_dependent", *FOUND)] == [1.0, 0.93, 0.92, 0.7]
    assert (math.isnan(sound["claimed"]), sound["verdict"]) == (True, "holds")
    assert [unsound[name] for name in ("claimed", *FOUND, "claim")] == [1e-8, math.inf, 800.0, "violated"]
    lines = TABLES.load("audit").markdown(frame).splitlines()
    assert len(lines) == 6
    assert [line for line in lines if "immutable LNMax" in line and "violated" in line and "∞" in line]
    assert made.table("audit").empty
    assert is_empty(made.draw("audit"))


def test_a_further_audit_method_has_its_column(audits):
    records = made.load_records([], audits=audits)
    third = records.audits[records.audits["accountant"] == "audit-sampled"].assign(
        accountant="audit-trained", label="by_training", epsilon=0.5
    )
    records = replace(records, audits=pd.concat([records.audits, third], ignore_index=True))
    table = TABLES.load("audit")
    frame = table.build(records, made.PRINTED)
    found = [column.title for column in table.shown(frame) if column.group == "Audited ε"]
    assert sorted(found) == ["by_training", "exact", "sampled"]
    assert frame["audited_lower: by_training"].tolist() == [0.5] * 4
    assert "audited lower bound: by_training" in made.legend(made.draw_records("audit", records))


@pytest.mark.parametrize("violated", [True, False])
def test_audit_figure_marks_violated_bounds(audits, violated):
    figure = made.draw("audit", audits=audits[: 1 + violated])
    one, many = figure.axes
    assert ("1 query" in one.get_title(), "100 queries" in many.get_title()) == (True, True)
    assert ("stated ε contradicted by the audit" in made.legend(figure)) == violated
    shaded = [patch for patch in one.patches if patch.get_height() < 1]
    assert [round(patch.get_y() + patch.get_height() / 2) for patch in shaded] == ([0] if violated else [])
    if violated:
        assert [tick.get_text().split("  ")[0] for tick in one.get_yticklabels()] == ["immutable LNMax", "LNMax"]
        assert [tick.get_text() for tick in one.get_xticklabels()][:: len(one.get_xticks()) - 1] == ["≈ 0", "∞"]
        zero, infinity = one.get_xticks()[[0, -1]]
        drawn = {}
        for dots in one.collections:
            (x, y), *_ = dots.get_offsets()
            drawn.setdefault(round(y), []).append(x)
        assert sorted(drawn[0]) == sorted([zero, infinity, infinity, infinity, 8.0])
        assert sorted(drawn[1]) == sorted([1.0, 0.93, 0.92, 0.7])


def test_each_number_of_queries_has_its_own_panels(tmp_path):
    asked = {0.1: (1, 100), 0.2: (1, 286), 0.3: (1,)}
    paths = [
        audit(tmp_path / f"{gamma}.json", "lnmax", {"gamma": gamma}, dict.fromkeys(queries, (None, 1.0, 0.9, 0.9, 0.0)))
        for gamma, queries in asked.items()
    ]
    figure = made.draw("audit", audits=paths)
    names = [[label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes[::2]]
    assert names == [["LNMax  γ = 0.1"], ["LNMax  γ = 0.2", "LNMax  γ = 0.3"]]
    titles = [axis.get_title().split("\n")[1].split(",")[0] for axis in figure.axes]
    assert titles == ["1 query", "100 queries", "1 query", "286 queries"]
    assert [len(axis.collections) for axis in figure.axes] == [4, 4, 8, 4]


def test_a_damaged_audit_is_refused(audits):
    write_json(audits[0], "audit", {"dataset": "mnist"})
    with pytest.raises(ArtefactError, match="an entry of this audit is missing or invalid"):
        made.load_records([], [], audits)


def test_accountants_by_hand(tmp_path):
    collected, baselines = made.known_students(tmp_path)
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    tight = made.bound_record(facts, 100, 0.4, "rdp", Kind.DATA_DEPENDENT) | {"conversion": "tight"}
    frame = made.table("accountants", [*collected, *made.collected(tmp_path, tight)], baselines)
    first, later = frame.to_dict("records")
    known = {
        **{"queries": 100, "worst_case: strong composition_mean": 5.8, "worst_case: Gaussian DP, PLD_mean": 4.31},
        **{"data_dependent: moments, l ≤ 8_mean": 1.5, "data_dependent: moments, l ≤ 8_std": 0.1},
        **{"data_dependent: Rényi, as published_mean": 0.5, "data_dependent: Rényi_mean": 0.4},
    }
    assert {name: first[name] for name in known} == pytest.approx(known)
    assert (later["queries"], later["worst_case: Gaussian DP, PLD_mean"]) == (1000, pytest.approx(0.1))
    assert math.isnan(later["worst_case: strong composition_mean"])
    titles = {column.title for column in TABLES.load("accountants").shown(frame)}
    assert {"strong composition", "Gaussian DP, PLD"} < titles
    assert "exact per teacher" not in titles, "a column without any value is left out"


def test_bounds_by_hand(tmp_path):
    frame = made.table("bounds", *made.known_students(tmp_path))
    assert len(frame) == 6
    moments = frame[frame["accountant"] == "moments"].iloc[0]
    assert (moments["kind"], moments["publishable"], moments["conversion"]) == ("data_dependent", False, "classic")
    assert (moments["epsilon_min"], moments["epsilon_max"], moments["order_min"]) == (1.4, 1.6, 5.0)
    assert set(frame["source"]) == {"made up"}
    assert set(frame["adjacency"]) == {"replace_teacher"}
