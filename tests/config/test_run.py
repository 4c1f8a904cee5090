"""Test the run of a configuration: names of artefacts, options of targets, and sharing between experiments.

tests/oracle compares all jobs, options and inputs of the shipped configurations with kept lists.
"""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from patebench.config import Run, validate
from patebench.config.artefacts import Data, Ensemble, LabelSet, Setting, Split
from patebench.config.parameters import (
    PartitionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
)
from patebench.core.seeds import Mode

SPLIT = Split(Data("digits"), seed=0, parameters=SplitParameters(pool=400))
ENSEMBLE = Ensemble(SPLIT, 250, PartitionParameters(), TrainingParameters(model="small-cnn"))
LABELS = LabelSet(ENSEMBLE, Setting("lnmax", (("gamma", 0.05),)))

HOW = {"recipe": "modern", "epochs": 5}
SKEW = {"strategy": "skew", "share": 0.8, "every_class": True}
ROUNDS = {
    "method": "supervised",
    "model": "logistic",
    "strategy": ["random", "least-confident"],
    "mechanisms": {"interactive-gnmax": {"threshold": 30, "sigma1": 15, "sigma2": 5, "confidence": 0.9}},
    "queries": [50, 100],
}
DISTILLATION = {"teachers": 60, "samples": [400, 100], "model": "mlp"}
DEMO: dict[str, Any] = {
    "dataset": "digits",
    "pool": 400,
    "test": 100,
    "ensembles": [
        {"teachers": [10, 60], "model": "small-cnn", **HOW, "soft": [1, 5], "hints": "probabilities"},
        {"teachers": 10, "model": "mlp", "recipe": "paper", "partition": SKEW, "chunk": 4},
    ],
    "mechanisms": {"lnmax": {"gamma": [0.05, 1]}, "gnmax": {"sigma": 20}},
    "accounting": {"delta": "1e-5", "queries": [400, 100]},
    "students": [
        {"method": "supervised", "mechanisms": {"lnmax": {"gamma": 0.05}}, "queries": [100, 400], "model": "logistic"}
    ],
    "rounds": [ROUNDS],
    "distillation": [DISTILLATION],
    "petdl": [{"teachers": 60, "form": ["published", "noisy-knowledge"], "epsilon": 1, "weighted": True}],
    "baseline": {"model": "mlp", "epochs": 3},
    "dpsgd": [{"form": "linear", "epsilon": [1, 4]}, {"form": "scratch", "model": "mlp", "epsilon": 1, "rate": 0.1}],
    "private_knn": [
        {"form": "published", "rate": 0.5, "neighbours": 9, "threshold": 6, "sigma1": 2, "sigma2": 1, "queries": 50}
    ],
    "feature_methods": [{"method": "dppl-mean", "epsilon": [1, 2], "dimensions": 8}],
    "true_label_baseline": {"model": "mlp", "queries": [100]},
    "audit": {"teachers": 10, "runs": 5000},
}

#: Folders of DEMO with seed 0.
PUBLIC = "digits/seed-0_pool-400_test-100"
SMALL, LARGE = (f"{PUBLIC}/teachers-{teachers}_iid_small-cnn_modern_epochs-5" for teachers in (10, 60))


def run(*experiments: dict[str, Any]) -> Run:
    return validate({"seeds": 0, "experiments": {f"e{i}": experiment for i, experiment in enumerate(experiments)}})


def demo(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DEMO) | changes


def test_names_are_spelt_as_documented() -> None:
    training = TrainingParameters(model="small-cnn", epochs=5)
    assert Split(Data("mnist"), 3, SplitParameters(pool=9000, test=1000)).name == "mnist/seed-3_pool-9000_test-1000"
    owned = PartitionParameters(strategy="owners", owners="o.npy")
    assert Ensemble(SPLIT, 10, owned, training).slug == "teachers-10_owners_small-cnn_modern_epochs-5"
    assert LABELS.name == "digits/seed-0_pool-400/teachers-250_iid_small-cnn_modern/lnmax/gamma-0.05"
    release = replace(LABELS, mode=Mode.RELEASE, budget=(1.5, 1e-5))
    assert release.name == f"{ENSEMBLE.name}/lnmax/gamma-0.05_release_budget-1.5_delta-1e-05"
    student = StudentParameters(method="supervised", model="small-cnn", hold_out=0.25)
    assert student.slug_of(100) == "supervised_queries-100_small-cnn_hold-out-0.25"


@pytest.mark.parametrize(
    ("folder", "file", "options"),
    [
        (
            LARGE,
            "chunks/25-49.npz",
            "--teachers 25-49 --model small-cnn --epochs 5 --soft 1 --soft 5 --hints probabilities",
        ),
        (
            "digits/audit/teachers-10/gnmax/sigma-20",
            "audit.json",
            "--mechanism gnmax --parameter sigma=20 --teachers 10 --queries 400 --delta 1e-05 --runs 5000",
        ),
    ],
)
def test_options_and_stream_of_each_stage(folder: str, file: str, options: str) -> None:
    given = run(demo()).command_options(f"{folder}/{file}")
    assert given == f"{options} --seed 0 --stream {folder}"


def test_a_file_that_no_experiment_makes_is_refused() -> None:
    with refuses("unknown-target") as fault:
        run(demo()).command_options("digits/seed-0_pool-400_test-20/pool.npz")
    assert f"(did you mean '{PUBLIC}" in str(fault.value)
    with refuses("unknown-target"):
        run(demo()).command_options(f"{SMALL}/chunks/0-3.npz")


@given(teachers=st.integers(1, 600), chunk=st.integers(1, 700))
def test_chunks_train_every_teacher_once(teachers: int, chunk: int) -> None:
    ensemble = replace(ENSEMBLE, teachers=teachers, work=TeacherParameters(chunk=chunk))
    ends = [tuple(map(int, each.split("-"))) for each in ensemble.chunks]
    assert [n for first, last in ends for n in range(first, last + 1)] == list(range(teachers))
    assert all(last - first + 1 == chunk for first, last in ends[:-1])


def test_experiments_share_equal_artefacts() -> None:
    """Add a γ, a number of queries, a student per ensemble and a number of samples with the second experiment."""
    more = demo(
        mechanisms={"lnmax": {"gamma": [0.05, 0.3]}},
        accounting={"delta": 1e-5, "queries": [100, 200]},
        students=[{**DEMO["students"][0], "queries": [100, 200]}],
        distillation=[DISTILLATION | {"samples": [50]}],
    )
    alone, both = run(demo()), run(demo(), more | {"audit": None})
    assert len(set(both.job_names())) == len(both.job_names()) == len({*both.options}) + 2, "one job for each target"
    added = {Path(path).name for path in both.options.keys() - alone.options.keys()}
    assert added == {"labels.npz", "bounds.json", "student.json"}
    assert len(both.options) == len(alone.options) + 3 * 3
    queries = {gamma: both.options[f"{SMALL}/lnmax/gamma-{gamma}/bounds.json"]["queries"] for gamma in (0.05, 1, 0.3)}
    assert queries == {0.05: (100, 200, 400), 1: (100, 400), 0.3: (100, 200)}
    distilled = {
        path: options["samples"] for path, options in both.options.items() if path.endswith("/distillation.json")
    }
    assert distilled == {f"{LARGE}/distillation/mlp_modern/distillation.json": (50, 100, 400)}
    assert run(demo(), demo()).options == alone.options
