"""Asking, answering, charging and learning, round after round, on files."""

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import BELIEFS, FEATURES, LABELS, POOL, QUERIES, TRUTH, VOTES
from patebench.mechanisms.base import askable, make
from patebench.mechanisms.rounds import answer, charge
from patebench.mechanisms.stage import read_votes
from patebench.students import contrast
from patebench.students.ask import ask, describe
from patebench.students.lesson import Approach
from patebench.students.stage import study

LOGISTIC = Approach(method="supervised", model="logistic")
PARAMETERS = {"threshold": 3.0, "sigma1": 1.0, "sigma2": 0.5, "confidence": 0.4}


class Rounds:
    """The tiny pool of 20 queries, 6 teachers of which 5 are right, and as many rounds as a test asks for."""

    def __init__(self, folder):
        self.folder = folder
        self.pool, self.votes = folder / "pool.npz", folder / "votes.npz"
        truth = read_arrays(folder / "truth.npz", TRUTH)["y"]
        said = np.stack([truth] * 5 + [(truth + 1) % 3]).astype(np.uint8)
        meta = {"partition": "p", "pool": read_arrays(self.pool, POOL).digest, "test": "t", "classes": 3, "chunks": []}
        write_arrays(self.votes, VOTES, {"votes": said, "test_votes": said[:, :2]}, meta)

    def file(self, number, name):
        return self.folder / f"round-{number}" / name

    def ask(self, number, queries=5, **changes):
        known = {"labels": self.file(number - 1, "labels.npz"), "beliefs": self.file(number - 1, "beliefs.npz")}
        first = {"labels": None, "beliefs": None, "strategy": "random"}
        later = {"strategy": "least-confident", **known}
        settings = {**(first if number == 0 else later), "queries": queries} | changes
        out = self.file(number, "queries.npz")
        ask(pool=self.pool, approach=LOGISTIC, seed=0, stream=f"r{number}", out=out, **settings)
        return read_arrays(out, QUERIES)

    def answer(self, number, mechanism="interactive-gnmax", parameters=PARAMETERS, before=None, out="labels.npz"):
        before = before or (self.file(number - 1, "labels.npz") if number else None)
        files = {"asked": self.file(number, "queries.npz"), "before": before, "out": self.file(number, out)}
        answer(votes=self.votes, mechanism=mechanism, parameters=parameters, seed=0, stream=f"r{number}", **files)
        return read_arrays(files["out"], LABELS)

    def learn(self, number, queries):
        labels, out, beliefs = (self.file(number, name) for name in ("labels.npz", "student.json", "beliefs.npz"))
        study(
            pool=self.pool, labels=labels, test=self.folder / "test.npz", approach=LOGISTIC, queries=queries,
            hold_out=0.0, seed=0, stream=f"r{number}", out=out, beliefs=beliefs,
        )  # fmt: skip
        return read_arrays(beliefs, BELIEFS)

    def run(self, rounds):
        for number in range(rounds):
            self.ask(number)
            self.answer(number)
            self.learn(number, 5 * (number + 1))

    def charge(self, *numbers, queries):
        asked, out = [self.file(number, "queries.npz") for number in numbers], self.folder / "bounds.json"
        charge(
            votes=self.votes, asked=asked, mechanism="interactive-gnmax", parameters=PARAMETERS, queries=queries,
            delta=1e-5, out=out,
        )  # fmt: skip
        return read_json(out, "bounds")


@pytest.fixture
def rounds(tiny):
    return Rounds(tiny)


def test_the_first_round_asks_the_pool_as_it_comes_without_a_student(rounds):
    asked = rounds.ask(0)
    np.testing.assert_array_equal(asked["queries"], range(5))
    assert "predictions" not in asked.arrays
    labels = rounds.answer(0)
    np.testing.assert_array_equal(labels["queries"], range(5))
    assert not labels["kept"].any()


def test_prototypes_are_asked_by_features_of_the_same_pool(rounds, monkeypatch):
    monkeypatch.setattr(contrast, "STEPS", 5)
    files = [rounds.folder / f"{name}.npz" for name in ("features", "same", "other")]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        describe(pool=rounds.pool, seed=seed, stream="features", out=file)
    found, same, other = (read_arrays(file, FEATURES)["vectors"] for file in files)
    np.testing.assert_array_equal(found, same)
    assert not np.array_equal(found, other)
    asked = rounds.ask(0, strategy="prototypes", features=files[0])
    assert len(set(asked["queries"])) == 5
    write_arrays(files[1], FEATURES, {"vectors": found}, {"pool": "another"})
    with pytest.raises(ArtefactError, match="made with another pool than"):
        rounds.ask(0, strategy="prototypes", features=files[1])


def test_later_rounds_ask_what_is_least_sure_and_keep_all_labels(rounds):
    rounds.run(2)
    beliefs = read_arrays(rounds.file(0, "beliefs.npz"), BELIEFS)["probabilities"]
    np.testing.assert_allclose(beliefs.sum(axis=1), 1, rtol=1e-5)
    asked = read_arrays(rounds.file(1, "queries.npz"), QUERIES)
    least = 5 + np.argsort(beliefs[5:].max(axis=1), kind="stable")[:5]
    np.testing.assert_array_equal(asked["queries"], least)
    np.testing.assert_array_equal(asked["predictions"], beliefs[least])
    first, both = (read_arrays(rounds.file(number, "labels.npz"), LABELS) for number in range(2))
    np.testing.assert_array_equal(both["labels"][:5], first["labels"])
    np.testing.assert_array_equal(both["queries"], [*range(5), *least])
    assert both.meta["strategies"] == ["random", "least-confident"]
    assert both.meta["sizes"] == [5, 5]


def test_the_student_of_a_round_learns_from_the_samples_that_were_asked(rounds):
    """Garbage in the labels of other positions than the first ones would ruin it."""
    rounds.run(3)
    assert read_json(rounds.file(2, "student.json"), "student")["accuracy"] > 0.8


def test_a_sure_student_keeps_its_label_where_the_teachers_are_silent(rounds):
    rounds.run(1)
    asked = rounds.ask(1, queries=10)
    silent = {**PARAMETERS, "threshold": 1e6}
    rounds.answer(0, parameters=silent, out="silent.npz")
    with pytest.raises(ArtefactError, match="was not asked after"):
        rounds.answer(1, parameters=silent, before=rounds.file(0, "silent.npz"))
    labels = rounds.answer(1)
    sure = asked["predictions"].max(axis=1) > 0.4
    kept, own = labels["kept"][5:], asked["predictions"].argmax(axis=1)
    assert kept.any()
    assert not (kept & ~sure).any()
    np.testing.assert_array_equal(labels["labels"][5:][kept], own[kept])


def test_the_charge_is_for_all_that_was_asked_and_nothing_else(rounds):
    rounds.run(2)
    written = rounds.charge(0, 1, queries=10)
    source, votes = read_votes(rounds.votes)
    asked = [read_arrays(rounds.file(number, "queries.npz"), QUERIES) for number in range(2)]
    predictions = np.concatenate([np.zeros((5, 3)), asked[1]["predictions"]])
    ours = votes.at(np.concatenate([each["queries"] for each in asked])).asked_by(predictions)
    expected = make("interactive-gnmax", PARAMETERS).bounds(ours, [10], 1e-5, chosen=True)
    assert [Bound.from_json(bound) for bound in written["bounds"]] == expected
    assert {bound.queries for bound in expected} == {10}
    assert written["asked"] == [each.digest for each in asked]
    assert written["votes"] == source.digest


def test_what_needs_fixed_queries_is_not_stated_of_queries_that_answers_chose():
    votes = Votes.from_counts(np.tile([30, 15, 5], (10, 1)))
    stated = make("exponential", {"epsilon": 0.1}).bounds(votes, [10], 1e-5, chosen=True)
    assert {bound.accountant for bound in stated} == {"rdp", "exact"}
    sources = {bound.source for bound in stated if bound.kind == "data_dependent"}
    assert all(source.endswith("as if they had been fixed beforehand") for source in sources)


@pytest.mark.parametrize(
    ("name", "parameters", "fault"),
    [
        ("stable-svt", {"epsilon": 10, "failure": 1e-9, "cutoff": 5}, "keeps state from query to query"),
        ("randomised-response", {"epsilon": 1, "unbiased": 1, "participation": 0.5, "spread": 1}, "sit out"),
        ("randomised-response", {"epsilon": 1, "unbiased": 1, "participation": 0.9, "spread": 1}, "sit out"),
    ],
)
def test_mechanisms_that_rounds_would_charge_too_little_are_refused(name, parameters, fault):
    with pytest.raises(PatebenchError, match=fault):
        askable(name, make(name, parameters))


def test_files_that_do_not_go_together_are_refused(rounds):
    rounds.run(2)
    with pytest.raises(ArtefactError, match="asks again what was asked before"):
        rounds.charge(1, 1, queries=10)
    with pytest.raises(ArtefactError, match="asks 5 queries, not 10"):
        rounds.charge(1, queries=10)
    with pytest.raises(ArtefactError, match="made with another parameters than"):
        rounds.answer(1, parameters={**PARAMETERS, "sigma2": 1.0})
    with pytest.raises(PatebenchError, match="go together"):
        rounds.ask(1, beliefs=None)
    with pytest.raises(PatebenchError, match=r"siamese chooses by what was learnt, .* be random or prototypes"):
        rounds.ask(0, strategy="siamese")
    with pytest.raises(PatebenchError, match=r"16 queries are asked for, and 15 of .* were not asked yet"):
        rounds.ask(1, queries=16)
    with pytest.raises(PatebenchError, match="give them, as `patebench features` makes them"):
        rounds.ask(0, strategy="prototypes")
    with pytest.raises(PatebenchError, match="no others do; give none"):
        rounds.ask(0, features=rounds.pool)
    with pytest.raises(PatebenchError, match="did you mean 'siamese'"):
        rounds.ask(1, strategy="siames")
