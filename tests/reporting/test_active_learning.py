"""The table of active learning: gains over random queries of the same seed, worked out by hand."""

import pytest
from tests.reporting import made

from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES


def rounds(seed, strategy, accuracy, opening="random"):
    """A student that selects 100 samples by an opening and then 100 by a strategy."""
    facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
    how = {"student": "supervised_mlp", "method": "supervised", "student_model": "mlp", "student_recipe": "modern"}
    got = {"answered": 100, "kept": 0, "label_accuracy": 0.9, "accuracy": 0.5}
    got |= {"learning_curve": [], "picture": None}
    first = {"record": "student", **made.selected(facts, (opening, 100)), **how, **got, "queries": 100}
    again = {"record": "student", **made.selected(facts, (opening, 100), (strategy, 100)), **how, **got}
    return [first, again | {"queries": 200, "answered": 200, "accuracy": accuracy}]


@pytest.fixture
def table(tmp_path):
    """Two seeds, of which each strategy gains 2 and 4 points, or loses 1 and 1."""
    files = []
    for seed, base in ((0, 0.6), (1, 0.7)):
        reached = {"random": base, "least-confident": base + (0.02, 0.04)[seed], "siamese": base - 0.01}
        records = made.records(seed=seed)
        opening = rounds(seed, "random", base)[:1]
        later = [rounds(seed, strategy, accuracy)[1] for strategy, accuracy in reached.items()]
        files.append(made.write_collected(tmp_path / f"{seed}.json", [*records, *opening, *later]))
    return TABLES.load("active-learning").build(made.load_records(files), read_published(made.PUBLISHED))


def test_gains_are_over_random_queries_of_the_same_seed(table):
    rows = {row["strategy"]: row for row in table.to_dict("records")}
    assert set(rows) == {"random", "least-confident", "siamese"}
    assert {row["queries"] for row in rows.values()} == {200}
    assert rows["random"]["gain_mean"] == 0
    assert rows["least-confident"]["gain_mean"] == pytest.approx(0.03)
    assert rows["least-confident"]["gain_std"] == pytest.approx(0.02 / 2**0.5)
    assert rows["siamese"]["gain_mean"] == pytest.approx(-0.01)


def test_first_rounds_are_compared_where_they_differ(tmp_path):
    records = [*made.records(), rounds(0, "random", 0.6)[0], rounds(0, "prototypes", 0.7, "prototypes")[0]]
    records[-1]["accuracy"] = 0.58
    built = TABLES.load("active-learning").build(
        made.load_records([made.write_collected(tmp_path / "c.json", records)]), read_published(made.PUBLISHED)
    )
    gains = dict(zip(built["strategy"], built["gain_mean"], strict=True))
    assert gains == {"prototypes": pytest.approx(0.08), "random": 0}
    assert set(built["queries"]) == {100}


def test_the_papers_words_stand_beside_their_strategy(table):
    printed = dict(zip(table["strategy"], table["published_gain"], strict=True))
    assert printed["least-confident"] == "4–10"
    assert printed["random"] is None or printed["random"] != printed["random"]
