"""Test that a student method and a strategy of another package are found, trained and refused like built-in ones."""

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packages import install
from tests.refusals import refuses
from tests.students.world import images, student_data

from patebench.config import validate
from patebench.core.errors import PatebenchError
from patebench.students import STRATEGIES, STUDENTS, initial_strategy, selects_by_features, takes
from patebench.students.interface import StudentConfig
from patebench.students.student_training import train

MODULE = '''
import numpy as np


class Majority:
    """A student that gives every sample the most frequent released label."""

    model, recipe, epochs = "majority", "own", 3

    def __init__(self, data):
        counts = np.bincount(data.labels[data.labelled], minlength=data.classes)
        self.log_shares, self.settings = np.log((counts + 1) / (counts + 1).sum()), {"labels": len(data.labelled)}

    def epoch(self):
        return {"loss": 0.0}

    def log_probabilities(self, x):
        return np.tile(self.log_shares, (len(x), 1))

    def state(self):
        return {}

    def restore(self, state):
        pass


def majority(data, config, seed):
    return Majority(data)


majority.options = ("recipe",)


def last(state, queries, seed):
    return state.unqueried[::-1][:queries]


last.needs_student = False


def brightest(state, queries, seed):
    return state.unqueried[np.argsort(-state.features[state.unqueried, 0])[:queries]]


brightest.needs_features = True
'''
ENTRY_POINTS = """
[patebench.students]
majority = toy_students:majority
[patebench.strategies]
last = toy_students:last
brightest = toy_students:brightest
"""
LNMAX: dict[str, Any] = {"mechanisms": {"lnmax": {"gamma": 0.05}}}
CONFIG: dict[str, Any] = {
    "seeds": [0],
    "experiments": {
        "demo": {
            "dataset": "digits",
            "pool": 100,
            "ensembles": [{"teachers": 10, "model": "logistic"}],
            "accounting": {"delta": 1e-5, "queries": [50]},
            "students": [{"method": "majority", "queries": 50, **LNMAX}],
            "rounds": [{"strategy": ["last", "brightest"], "queries": [20, 10], "method": "majority", **LNMAX}],
            **LNMAX,
        }
    },
}


def forget() -> None:
    """Make registries search for installed packages again."""
    for registry in (STUDENTS, STRATEGIES):
        registry.__dict__.pop("_outside", None)
    sys.modules.pop("toy_students", None)


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with one method and two strategies for one test."""
    monkeypatch.syspath_prepend(install(tmp_path / "elsewhere", ENTRY_POINTS, toy_students=MODULE))
    forget()
    yield
    forget()


def test_a_method_is_found_and_trained_and_strategies_say_what_they_need() -> None:
    x, _ = images(40, seed=0)
    assert "majority" in STUDENTS.names()
    student, curve = train(student_data(x, np.full(40, 2), 10), StudentConfig(method="majority"), seed=0)
    assert (student.log_probabilities(x).argmax(1) == 2).all()
    assert [row["epoch"] for row in curve] == [1, 2, 3]
    assert (initial_strategy("last"), initial_strategy("brightest")) == ("last", "random")
    assert (selects_by_features("last"), selects_by_features("brightest")) == (False, True)


def test_a_method_refuses_what_it_does_not_take_and_is_named_where_it_does() -> None:
    assert takes("majority", "recipe")
    with refuses("own-choice", "model"):
        StudentConfig.checked({"method": "majority", "model": "mlp"})
    with pytest.raises(
        PatebenchError, match="'recipe' out, or use one of the methods supervised, noise-aware, majority"
    ):
        StudentConfig.checked({"method": "gan", "recipe": "plain"})
    with refuses("unknown-name", "method"):
        StudentConfig.checked({"method": "majorty"})


def test_a_configuration_may_name_it() -> None:
    run = validate(copy.deepcopy(CONFIG))
    students = [options for path, options in run.options.items() if path.endswith("/student.json")]
    assert {options["method"] for options in students} == {"majority"}
    last = {labels.round for labels in run.experiments[0].label_sets if labels.round and labels.round.previous}
    selected = {tuple(each.selection.strategy for each in round.rounds) for round in last}
    assert selected == {("last", "last"), ("random", "brightest")}
    wrong = copy.deepcopy(CONFIG)
    wrong["experiments"]["demo"]["students"][0]["model"] = "mlp"
    with pytest.raises(PatebenchError, match=r"students\[0\]\.model: the method 'majority' uses a fixed model"):
        validate(wrong)
