"""Test the Python interface: results of the wrapped functions, fast imports, and error messages."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import check_estimator

import patebench
from patebench.accounting.votes import Votes
from patebench.audit import verdict
from patebench.audit.runs import AuditSetting
from patebench.calculator.calculations import epsilon
from patebench.cli import cli
from patebench.core.bound import Kind
from patebench.core.entropy import Draws
from patebench.core.seeds import generator
from patebench.mechanisms.noisy_argmax import GNMax
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.student_training import train

DELTA = 1e-5
MATRIX = np.random.default_rng(0).integers(0, 4, (20, 30)) % 3  # teachers × queries
VOTES = Votes.of(MATRIX, 4)
SOURCES: dict[str, tuple[Any, dict[str, int]]] = {
    "votes": (VOTES, {}),
    "counts": (VOTES.counts, {}),
    "lists": (VOTES.counts.tolist(), {}),
    "matrix": (MATRIX, {"classes": 4}),
}


def run(code: str) -> Any:
    """Return the JSON that `code` prints in a fresh interpreter."""
    head = "import json, sys, patebench\n"
    done = subprocess.run([sys.executable, "-c", head + code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


# The package.


def test_the_package_imports_nothing_and_bounds_and_labels_need_no_torch() -> None:
    heavy = {"torch", "numpy", "pandas", "scipy", "sklearn", "click", "pydantic", "rich", "matplotlib"}
    assert run(f"dir(patebench), patebench.__version__; print(json.dumps(sorted({heavy} & set(sys.modules))))") == []
    assert run("print(json.dumps([name for name in sys.modules if name.startswith('patebench.')]))") == []
    code = """
patebench.bounds([[6, 4]], "gnmax", sigma=4, delta=1e-5)
patebench.label([[6, 4]], "gnmax", sigma=4, seed=0)
print(json.dumps(sorted({"torch", "pandas", "click", "pydantic", "sklearn"} & set(sys.modules))))
"""
    assert run(code) == []


def test_every_public_name_has_a_docstring_and_is_listed() -> None:
    assert set(patebench.__all__) <= set(dir(patebench))
    for name in patebench.__all__:
        found = getattr(patebench, name)
        assert found.__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'bound'"):
        patebench.bound  # noqa: B018


def test_the_subpackage_audit_does_not_hide_the_function() -> None:
    code = """
import patebench.audit.audit_text
from patebench import audit
from patebench.audit.verdict import Verdict
print(json.dumps([patebench.audit is audit, patebench.audit.__module__]))
"""
    assert run(code) == [True, "patebench.api"]


# Bounds.


@pytest.mark.parametrize("source", SOURCES)
def test_bounds_agree_with_the_calculator_and_are_sorted(source: str) -> None:
    votes, more = SOURCES[source]
    found = patebench.bounds(votes, "lnmax", gamma=0.1, delta=DELTA, queries=7, **more)
    counted = VOTES if source in ("votes", "matrix") else Votes(VOTES.counts)
    known = epsilon(counted, "lnmax", {"gamma": 0.1}, DELTA, 7)
    assert sorted(map(repr, found)) == sorted(repr(bound.state_for(False)) for bound in known.bounds)
    order = [(bound.kind != "worst_case", bound.epsilon) for bound in found]
    assert order == sorted(order)
    assert not any(bound.publishable for bound in found), "bounds for continuous noise are not publishable"
    assert {bound.queries for bound in found} == {7}


def test_bounds_of_a_release_are_for_discrete_noise() -> None:
    found = patebench.bounds(VOTES, "gnmax", sigma=20, delta=DELTA, release=True)
    assert sorted(map(repr, found)) == sorted(map(repr, GNMax(20).bounds(VOTES, [30], DELTA, discrete=True)))
    assert "gdp" not in {bound.accountant for bound in found}


# Labels.


def test_seeded_labels_agree_with_the_mechanism() -> None:
    wanted = GNMax(3).release(VOTES, Draws(5, "label").source())
    for votes, more in SOURCES.values():
        assert np.array_equal(patebench.label(votes, "gnmax", sigma=3, seed=5, **more), wanted)
    assert not np.array_equal(patebench.label(VOTES, "gnmax", sigma=3, seed=6), wanted)


def test_released_labels_have_new_discrete_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def noted(self: Draws, *names: str) -> Any:
        drawn.append(self.mode)
        return source(self, *names)

    source = Draws.source
    monkeypatch.setattr(Draws, "source", noted)
    assert np.array_equal(patebench.label([[50, 0, 0]] * 8, "gnmax", sigma=1, release=True), np.zeros(8))
    ties = [patebench.label(np.full((200, 4), 25), "gnmax", sigma=20, release=True) for _ in range(2)]
    assert not np.array_equal(*ties)
    assert drawn == ["release"] * 3


def test_an_abstention_is_no_answer() -> None:
    never = patebench.label(VOTES, "confident-gnmax", threshold=1e6, sigma1=1, sigma2=1, seed=0)
    assert set(never) == {patebench.NO_ANSWER} == {-1}


# Audits.


@pytest.mark.slow
def test_an_audit_agrees_with_the_command(tmp_path: Path) -> None:
    found = patebench.audit("gnmax", sigma=5, teachers=10, classes=2, delta=DELTA, queries=[1, 2], runs=1000, seed=3)
    setting = AuditSetting("gnmax", GNMax(5), 10, 2, DELTA, 1000, 0.999, partial(generator, 3, "audit"))
    direct = verdict.run_audit(setting, [1, 2])
    assert found.to_json() == direct.to_json()
    words = ["audit", "--mechanism", "gnmax", "--parameter", "sigma=5", "--teachers", "10", "--classes", "2"]
    words += ["--delta", "1e-5", "--queries", "1", "--queries", "2", "--runs", "1000", "--seed", "3"]
    told = CliRunner().invoke(cli, words).output
    assert str(found).split() == told.split()
    assert [finding.queries for finding in found.findings] == [1, 2]
    assert {stated.verdict for finding in found.findings for stated in finding.stated} == {verdict.Verdict.HOLDS}


# Calibration.


@pytest.mark.slow
def test_calibration_for_a_release_agrees_with_its_bounds() -> None:
    found = patebench.calibrate("gnmax", epsilon=3, delta=DELTA, queries=1, release=True)
    stated = patebench.bounds(VOTES, "gnmax", delta=DELTA, queries=1, release=True, **found.parameters)
    assert found.release
    assert 2.999 < stated[0].epsilon == found.bounds[0].epsilon <= 3
    sigma = found.parameters["sigma"]
    assert patebench.calibrate(GNMax(sigma), epsilon=3, delta=DELTA, release=True).queries == 1


# Students.

POOL = np.random.default_rng(1).normal(size=(60, 5)) + np.repeat([[0], [4], [8]], 20, axis=0)
TRUTH = np.repeat([0, 1, 2], 20)
GIVEN = np.where(np.arange(60) % 4 == 0, TRUTH, -1)


def test_a_student_agrees_with_the_training_function() -> None:
    student = patebench.train_student(POOL, GIVEN, method="consistency", model="mlp", epochs=3, seed=2)
    data = StudentData(pool=POOL.astype(np.float32), labels=GIVEN, classes=3)
    direct, curve = train(data, StudentConfig(method="consistency", model="mlp", epochs=3), seed=2)
    found, wanted = student.predict_log_proba(POOL), direct.log_probabilities(data.pool)
    assert np.array_equal(found, wanted)
    assert found.shape == (60, 3)
    assert np.array_equal(student.predict(POOL), wanted.argmax(axis=1))
    assert student.curve_ == curve


def test_a_student_has_classes_without_labels() -> None:
    student = patebench.train_student(POOL.tolist(), GIVEN.tolist(), method="supervised", model="logistic", classes=5)
    assert student.classes_.tolist() == [0, 1, 2, 3, 4]
    probabilities = student.predict_proba(POOL)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.allclose(probabilities, np.exp(student.predict_log_proba(POOL)))
    assert np.mean(student.predict(POOL) == TRUTH) > 0.9


@pytest.mark.filterwarnings("error")
def test_grey_images_need_no_channel_and_arguments_stay_unchanged() -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8)
    labels = np.arange(40) % 2
    for array in (images, labels):
        array.setflags(write=False)
    flat = patebench.train_student(images, labels, method="supervised", model="small-cnn", epochs=1)
    deep = patebench.train_student(images[:, None], labels, method="supervised", model="small-cnn", epochs=1)
    assert flat.shape_ == (1, 8, 8)
    assert np.array_equal(flat.predict_log_proba(images[::-1]), deep.predict_log_proba(images[::-1, None]))


# DataFrames, and what scikit-learn expects of a classifier.

FRAME = pd.DataFrame(MATRIX, columns=[f"q{i}" for i in range(MATRIX.shape[1])])


def test_votes_may_be_a_frame_whose_columns_name_the_queries() -> None:
    settings = {"sigma": 4, "classes": 4, "teachers": len(MATRIX)}
    assert bounds(FRAME, **settings) == bounds(MATRIX, **settings)
    labels = patebench.label(FRAME, "gnmax", seed=3, **settings)
    assert isinstance(labels, pd.Series)
    assert list(labels.index) == list(FRAME.columns)
    assert np.array_equal(labels, patebench.label(MATRIX, "gnmax", seed=3, **settings))
    counts = pd.DataFrame(VOTES.counts, index=[f"q{i}" for i in range(VOTES.queries)])
    assert list(patebench.label(counts, "gnmax", sigma=4, seed=3).index) == list(counts.index)
    assert bounds(counts, sigma=4) == bounds(VOTES.counts, sigma=4)
    assert bounds(FRAME.astype("Int64"), **settings) == bounds(MATRIX, **settings)


@pytest.mark.parametrize("column", [["a"] * 60, [None] + [1.0] * 59, pd.Categorical([1] * 60), pd.NaT])
def test_a_frame_with_a_column_of_another_type_is_refused(column: Any) -> None:
    frame = pd.DataFrame(POOL).assign(wrong=column)
    for call in (lambda: student(frame), lambda: bounds(frame, sigma=4, classes=4)):
        with pytest.raises(patebench.PatebenchError, match="'wrong'"):
            call()


def test_a_student_learns_from_frames_and_aligned_labels() -> None:
    frame = pd.DataFrame(POOL, columns=list("abcde"), index=[f"r{i}" for i in range(60)])
    labels = pd.Series(GIVEN, index=frame.index)
    learnt = student(frame, labels, model="logistic")
    assert list(learnt.feature_names_in_) == list("abcde")
    assert np.array_equal(learnt.predict(frame), student(model="logistic").predict(POOL))
    for call in (lambda: learnt.predict(frame[list("edcba")]), lambda: student(frame, labels[::-1])):
        with pytest.raises(patebench.PatebenchError):
            call()


#: Checks of scikit-learn that a student does not pass.
NOT_PASSED = {
    "check_classifiers_classes": "labels are whole numbers",
    "check_classifiers_one_label": "labels are whole numbers",
    "check_classifiers_regression_target": "faults have words of their own",
    "check_complex_data": "faults have words of their own",
    "check_dtype_object": "numbers come as numbers",
    "check_estimators_empty_data_messages": "faults have words of their own",
    "check_estimators_nan_inf": "labels are whole numbers",
    "check_estimators_pickle": "nothing is pickled; the same arguments give the same student",
    "check_fit2d_predict1d": "faults have words of their own",
    "check_requires_y_none": "faults have words of their own",
    "check_supervised_y_2d": "labels have one dimension",
}


def test_a_student_passes_the_checks_of_scikit_learn() -> None:
    results = check_estimator(
        patebench.Student("supervised", model="logistic"), expected_failed_checks=NOT_PASSED, on_fail=None, on_skip=None
    )
    assert {each["check_name"] for each in results if each["status"] == "failed"} == set()
    assert {each["check_name"] for each in results if each["status"] == "xfail"} == set(NOT_PASSED)


# Faults: each is one line that says what to do.


def student(pool: Any = POOL, labels: Any = GIVEN, **more: Any) -> Any:
    return patebench.train_student(pool, labels, **{"method": "supervised", **more})


def audited(**more: Any) -> Any:
    return patebench.audit("gnmax", **{"sigma": 4, "teachers": 5, "classes": 2, "delta": DELTA, **more})


def with_nan() -> NDArray[np.float64]:
    pool = POOL.copy()
    pool[3, 1] = np.nan
    return pool


def bounds(votes: Any = VOTES, mechanism: Any = "gnmax", **more: Any) -> Any:
    return patebench.bounds(votes, mechanism, **{"delta": DELTA, **more})


LOCAL, LOCALLY = "randomised-response", {"unbiased": 1, "participation": 1, "spread": 1}
FAULTS: list[tuple[str, Callable[[], Any]]] = [
    ("unknown mechanism 'gnmx' (did you mean 'gnmax'?)", lambda: bounds(mechanism="gnmx", sigma=4)),
    ("not the class GNMax", lambda: bounds(mechanism=GNMax)),
    ("mechanism must be a name, such as 'gnmax', or a Mechanism object, not 3", lambda: bounds(mechanism=3)),
    ("the GNMax object already contains its parameters; leave out sigma", lambda: bounds(mechanism=GNMax(4), sigma=4)),
    ("δ = '1e-5' is not a number", lambda: bounds(sigma=4, delta="1e-5")),
    ("ε is requested for 31 queries, but the votes are on 30 queries", lambda: bounds(sigma=4, queries=31)),
    ("counts have shape (3,)", lambda: bounds([1, 2, 3], sigma=4)),
    ("votes cannot be converted to an array", lambda: bounds([[1, 2], [3]], sigma=4)),
    ("or give classes=… if each row contains the votes of a teacher", lambda: bounds(MATRIX, sigma=4)),
    ("classes = 5, but the votes have 4 classes; leave out classes=…", lambda: bounds(VOTES, sigma=4, classes=5)),
    ("either seed=…", lambda: patebench.label(VOTES, "gnmax", sigma=4)),
    ("supports no discrete noise", lambda: patebench.label(VOTES, "exponential", epsilon=1, release=True)),
    (
        "give a table of votes (teachers × queries)",
        lambda: patebench.label(VOTES.counts, LOCAL, epsilon=1, seed=0, **LOCALLY),
    ),
    ("classes = 1 is too small", lambda: audited(classes=1)),
    ("runs: 10 is too small; give at least 1000", lambda: audited(runs=10)),
    ("use more noise", lambda: patebench.calibrate(GNMax(1), epsilon=0.1, delta=DELTA)),
    ("number of classes; give classes=…", lambda: patebench.calibrate(LOCAL, epsilon=1, delta=DELTA, **LOCALLY)),
    ("unknown student method 'consistent' (did you mean 'consistency'?)", lambda: student(method="consistent")),
    ("uses a fixed recipe", lambda: student(method="consistency", recipe="plain")),
    ("give whole numbers of shape (60,)", lambda: student(labels=GIVEN[:20])),
    ("no sample of the pool has a label", lambda: student(labels=np.full(60, -1))),
    ("labels run from -1 to 2; give −1 (no label) or 0 to 1", lambda: student(classes=2)),
    ("samples contain NaN", lambda: student(pool=with_nan())),
    ("give images as uint8", lambda: student(pool=np.zeros((60, 1, 8, 8), np.uint16))),
    ("X has 2 features, but Student is expecting 5", lambda: student(model="logistic").predict(POOL[:, :2])),
]


@pytest.mark.parametrize(("words", "call"), FAULTS, ids=[f"{i} {words}" for i, (words, _) in enumerate(FAULTS)])
def test_a_fault_is_one_line(words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(patebench.PatebenchError, match=re.escape(words)) as found:
        call()
    assert "\n" not in str(found.value)


class Odd:
    """Object that raises an error when converted to an array."""

    def __array__(self) -> NDArray[Any]:
        raise RuntimeError("odd")


GAUSSIAN = {"mechanism": "gnmax", "release": False, "sigma": 4}
OBJECTS: list[Any] = [
    *["1e-5", "gnmax", b"1", None, True, [], [1], [[1], [2, 3]], {}, {"a": 1}, (1, 2), object(), Odd(), int, range(3)],
    *[float("nan"), float("inf"), -1, 0, 2.5, 1 + 2j, 10**400, 1e-320, np.float64(2), np.datetime64("2020")],
    *[np.array(3), np.array([1.0, 2.0]), np.array(None), np.ma.masked, np.array([["a", "b"]]), np.zeros((0, 3), int)],
    *[np.array([[1, 2**63]], dtype=np.uint64), [[10**30, 1]], [[1.5, 2.0]], [[None, 1]], np.array([[True, False]])],
]
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "bounds": (patebench.bounds, {"votes": MATRIX, **GAUSSIAN, "delta": DELTA, "queries": 2, "classes": 4}),
    "label": (patebench.label, {"votes": VOTES.counts, **GAUSSIAN, "seed": 0, "classes": None}),
    "audit": (
        patebench.audit,
        {"mechanism": LOCAL, "teachers": 5, "classes": 2, "delta": DELTA, "queries": (2,), "runs": 1000}
        | {"confidence": 0.9, "seed": 0, "epsilon": 1, **LOCALLY, "unbiased": 0},
    ),
    "calibrate": (
        patebench.calibrate,
        {"mechanism": "distributed-gnmax", "epsilon": 1, "delta": DELTA, "queries": None, "classes": 4, "teachers": 20}
        | {"release": False, "sigma": 40, "tolerance": 1},
    ),
    "train_student": (
        patebench.train_student,
        {"pool": POOL, "labels": GIVEN, "method": "supervised", "classes": 3, "seed": 0, "epochs": 1}
        | {"model": "logistic", "recipe": "modern"},
    ),
    "make_mechanism": (patebench.make_mechanism, {"name": "gnmax", "parameters": {"sigma": 3}}),
    "Votes.of": (patebench.Votes.of, {"matrix": MATRIX, "classes": 4}),
    "Votes.from_counts": (patebench.Votes.from_counts, {"counts": VOTES.counts}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_any_object_as_an_argument_works_or_raises_one_line(name: str) -> None:
    call, arguments = CALLS[name]
    for argument in arguments:
        for value in OBJECTS:
            try:
                call(**{**arguments, argument: value})
            except patebench.PatebenchError:
                pass
            except Exception as fault:
                pytest.fail(f"{name}({argument}={value!r}) raises {fault!r}")


def test_samples_of_any_kind_are_predicted_or_refused_in_one_line() -> None:
    made = student(model="logistic")
    for value in OBJECTS:
        with pytest.raises(patebench.PatebenchError):
            made.predict(value)


def test_an_own_mechanism_is_accepted_in_place_of_a_name() -> None:
    class Mine(GNMax):
        """Mechanism that is not registered."""

    mine = Mine(8)
    assert np.array_equal(patebench.label(VOTES, mine, seed=1), patebench.label(VOTES, "gnmax", sigma=8, seed=1))
    assert patebench.bounds(VOTES, mine, delta=DELTA) == patebench.bounds(VOTES, "gnmax", sigma=8, delta=DELTA)
    known = patebench.calibrate("gnmax", epsilon=2, delta=DELTA, sigma=8)
    found = patebench.calibrate(mine, epsilon=2, delta=DELTA)
    assert (found.mechanism, found.queries, found.bounds) == ("Mine", known.queries, known.bounds)
    assert found.bounds[0].kind is Kind.WORST_CASE
    assert patebench.audit(mine, teachers=5, classes=2, delta=DELTA, runs=1000).name == "Mine"


def test_delta_of_another_precision_is_the_same_number() -> None:
    delta = np.float32(0.004)
    for release in (False, True):
        asked = {"sigma": 40.0, "release": release}
        stated, plain = (patebench.bounds(VOTES, "gnmax", delta=each, **asked) for each in (delta, float(delta)))
        assert stated == plain
