"""Test rounds on files: select, label, account for and learn from queries, round by round."""

from dataclasses import replace

import numpy as np
import pytest
from tests.stages.labels import write_votes

from patebench.accounting.votes import Votes
from patebench.artefacts.reading import read_votes
from patebench.config.parameters import AccountParameters, SelectionParameters, StudentParameters
from patebench.core.bound import Bound
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import LABELS, POOL, PREDICTIONS, QUERIES, TRUTH
from patebench.features import contrast
from patebench.mechanisms.base import check_adaptive, make_mechanism
from patebench.stages import account, aggregate, extract_features, select_queries, train_student

LOGISTIC = StudentParameters(method="supervised", model="logistic")
PARAMETERS = {"threshold": 3.0, "sigma1": 1.0, "sigma2": 0.5, "confidence": 0.4}


class Rounds:
    """Tiny pool of 20 queries, with 6 teachers of which 5 are right, and the rounds that a test needs."""

    def __init__(self, folder):
        self.folder = folder
        self.pool, self.votes = folder / "pool.npz", folder / "votes.npz"
        truth = read_arrays(folder / "truth.npz", TRUTH)["y"]
        said = np.stack([truth] * 5 + [(truth + 1) % 3])
        write_votes(self.votes, said, 3, pool=read_arrays(self.pool, POOL).digest)

    def file(self, number, name):
        return self.folder / f"round-{number}" / name

    def select(self, number, queries=5, **changes):
        known = {name: self.file(number - 1, f"{name}.npz") for name in ("labels", "predictions")}
        first = {"labels": None, "predictions": None, "strategy": "random"}
        later = {"strategy": "least-confident", **known}
        settings = {"features": None, **(first if number == 0 else later)} | changes
        selection = SelectionParameters(strategy=settings.pop("strategy"), queries=queries)
        out = self.file(number, "queries.npz")
        select_queries.run(
            pool=self.pool, selection=selection, student=LOGISTIC, seed=0, stream=f"r{number}", out=out, **settings
        )
        return read_arrays(out, QUERIES)

    def aggregate(self, number, mechanism="interactive-gnmax", parameters=PARAMETERS, out="labels.npz", **others):
        earlier = self.file(number - 1, "labels.npz") if number else None
        files = {"selected": self.file(number, "queries.npz"), "earlier": earlier, "out": self.file(number, out)}
        files |= others
        aggregate.run(
            votes=self.votes, mechanism=mechanism, parameters=parameters, seed=0, stream=f"r{number}", **files
        )
        return read_arrays(files["out"], LABELS)

    def train(self, number, queries):
        labels, out, predictions = (
            self.file(number, name) for name in ("labels.npz", "student.json", "predictions.npz")
        )
        train_student.run(
            pool=self.pool, labels=labels, test=self.folder / "test.npz", parameters=LOGISTIC, queries=queries, seed=0,
            stream=f"r{number}", out=out, predictions=predictions,
        )  # fmt: skip
        return read_arrays(predictions, PREDICTIONS)

    def run(self, rounds):
        for number in range(rounds):
            self.select(number)
            self.aggregate(number)
            self.train(number, 5 * (number + 1))

    def account(self, *numbers, labels=1, **stated):
        selected, out = [self.file(number, "queries.npz") for number in numbers], self.folder / "bounds.json"
        accounting = AccountParameters(delta=1e-5, **stated)
        held = self.file(labels, "labels.npz")
        account.run(votes=self.votes, labels=held, selected=selected, accounting=accounting, out=out)
        return read_json(out, "account")


@pytest.fixture
def rounds(tiny):
    return Rounds(tiny)


def test_the_first_round_selects_the_pool_as_it_comes_or_by_features_without_a_student(rounds, monkeypatch):
    asked = rounds.select(0)
    np.testing.assert_array_equal(asked["queries"], range(5))
    assert "predictions" not in asked.arrays
    assert (asked.meta["labels"], asked.meta["predictions"]) == (None, None)
    labels = rounds.aggregate(0)
    np.testing.assert_array_equal(labels["queries"], range(5))
    assert not labels["kept"].any()
    monkeypatch.setattr(contrast, "STEPS", 5)
    features = rounds.folder / "features.npz"
    encoder = features.with_suffix(".encoder")
    extract_features.run(pool=rounds.pool, seed=0, stream="features", out=features, encoder=encoder)
    assert len(set(rounds.select(0, strategy="prototypes", features=features)["queries"])) == 5


def test_later_rounds_select_what_is_least_sure_keep_all_labels_and_teach_a_student(rounds):
    """Detect a student trained on the first samples of the pool by wrong labels there."""
    rounds.run(3)
    predicted = read_arrays(rounds.file(0, "predictions.npz"), PREDICTIONS)["probabilities"]
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-5)
    asked = read_arrays(rounds.file(1, "queries.npz"), QUERIES)
    least = 5 + np.argsort(predicted[5:].max(axis=1), kind="stable")[:5]
    np.testing.assert_array_equal(asked["queries"], least)
    np.testing.assert_array_equal(asked["predictions"], predicted[least])
    first, both = (read_arrays(rounds.file(number, "labels.npz"), LABELS) for number in range(2))
    np.testing.assert_array_equal(both["labels"][:5], first["labels"])
    np.testing.assert_array_equal(both["queries"], [*range(5), *least])
    assert both.meta["rounds"] == [
        {"strategy": "random", "queries": 5, "student": asked.meta["student"]},
        {"strategy": "least-confident", "queries": 5, "student": asked.meta["student"]},
    ]
    assert both.meta["earlier"] == first.digest
    assert (asked.meta["labels"], asked.meta["predictions"]) == tuple(
        read_arrays(rounds.file(0, f"{layout.kind}.npz"), layout).digest for layout in (LABELS, PREDICTIONS)
    )
    assert read_json(rounds.file(2, "student.json"), "train_student")["accuracy"] > 0.8


def test_a_sure_student_keeps_its_label_where_the_teachers_are_silent(rounds):
    rounds.run(1)
    asked = rounds.select(1, queries=10)
    labels = rounds.aggregate(1)
    sure = asked["predictions"].max(axis=1) > 0.4
    kept, own = labels["kept"][5:], asked["predictions"].argmax(axis=1)
    assert kept.any()
    assert not (kept & ~sure).any()
    np.testing.assert_array_equal(labels["labels"][5:][kept], own[kept])


def test_the_account_is_of_all_that_was_selected_and_nothing_else(rounds):
    rounds.run(2)
    written = rounds.account(0, 1)
    source, votes = read_votes(rounds.votes)
    asked = [read_arrays(rounds.file(number, "queries.npz"), QUERIES) for number in range(2)]
    predictions = np.concatenate([np.zeros((5, 3)), asked[1]["predictions"]])
    ours = votes.at(np.concatenate([each["queries"] for each in asked])).with_predictions(predictions)
    expected = make_mechanism("interactive-gnmax", PARAMETERS).bounds(ours, [10], 1e-5, adaptive=True)
    stated = [Bound.from_json(bound) for bound in written["bounds"]]
    assert stated == [replace(bound, publishable=False) for bound in expected], "labels from a seed are no release"
    assert {bound.queries for bound in expected} == {10}
    assert written["labels"] == read_arrays(rounds.file(1, "labels.npz"), LABELS).digest
    assert written["rounds"] == [
        {"strategy": each.meta["strategy"], "student": each.meta["student"], "queries": 5} for each in asked
    ]
    assert written["votes"] == source.digest


def test_what_needs_fixed_queries_is_not_stated_of_queries_that_answers_chose():
    votes = Votes.from_counts(np.tile([30, 15, 5], (10, 1)))
    stated = make_mechanism("exponential", {"epsilon": 0.1}).bounds(votes, [10], 1e-5, adaptive=True)
    assert {bound.accountant for bound in stated} == {"rdp", "exact"}
    sources = {bound.source for bound in stated if bound.kind == "data_dependent"}
    assert all(source.endswith("as if they had been fixed beforehand") for source in sources)
    scheduled = {"epsilon": 1, "unbiased": 1, "participation": 0.9, "spread": 1}
    for name, parameters, fault in (
        ("stable-svt", {"epsilon": 10, "failure": 1e-9, "cutoff": 5}, "queries depend on each other"),
        ("randomised-response", scheduled, "has participation below 1"),
    ):
        with pytest.raises(PatebenchError, match=fault):
            check_adaptive(name, make_mechanism(name, parameters))


def test_files_that_do_not_go_together_are_refused(rounds):
    rounds.run(2)
    silent = {**PARAMETERS, "threshold": 1e6}
    rounds.aggregate(0, parameters=silent, out="silent.npz")
    other = rounds.file(0, "silent.npz")
    plain = {"threshold": 3.0, "sigma1": 1.0, "sigma2": 0.5}
    budget = {"mechanism": "confident-gnmax", "parameters": plain, "budget": 1.0, "delta": 1e-5}
    for call, words in (
        (lambda: rounds.account(1, 1), "was selected more than once"),
        (lambda: rounds.account(1), "its labels are for other queries"),
        (lambda: rounds.account(), "its queries were selected in rounds, but --selected is missing"),
        (
            lambda: rounds.account(0, 1, queries=(5, 10)),
            "published together, so ε is stated only for all of them, but --queries is 5, 10",
        ),
        (lambda: rounds.aggregate(1, parameters={**PARAMETERS, "sigma2": 1.0}), "parameters"),
        (
            lambda: rounds.aggregate(1, parameters=silent, earlier=other),
            "selected with other labels than",
        ),
        (lambda: rounds.aggregate(1, earlier=None), "labels of an earlier round, but --earlier is missing"),
        (lambda: rounds.aggregate(1, selected=None), "--earlier is only for queries selected in a round"),
        (lambda: rounds.aggregate(0, out="x.npz", **budget), "a budget is not supported for queries selected"),
        (lambda: rounds.select(1, predictions=None), "only one of --labels and --predictions"),
        (
            lambda: rounds.select(0, strategy="siamese"),
            r"siamese. needs a student .* use the strategy random or prototypes",
        ),
        (lambda: rounds.select(1, queries=16), r"--queries is 16, but only 15 samples of .* remain unselected"),
        (lambda: rounds.select(0, strategy="prototypes"), "needs --features of the pool; make them"),
        (lambda: rounds.select(0, features=rounds.pool), r"uses no features \(only"),
    ):
        with pytest.raises(PatebenchError, match=words):
            call()
    assert not rounds.file(0, "x.npz").exists()
