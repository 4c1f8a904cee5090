"""Test the run of a configuration: names of artefacts, options of targets, and sharing between experiments."""

import copy
from collections import Counter
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
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES

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
SHARED = {"distributed-gnmax": {"sigma": 9, "tolerance": 2}}
ONE_VOTE: dict[str, Any] = {
    "dataset": "digits",
    "pool": 400,
    "queries": 30,
    "ensembles": [{"teachers": 500, "model": "nearest-query"}],
    "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 3}},
    "accounting": {"delta": 1e-5},
}

#: Folders of DEMO with seed 0.
PUBLIC = "digits/seed-0_pool-400_test-100"
SMALL, LARGE = (f"{PUBLIC}/teachers-{teachers}_iid_small-cnn_modern_epochs-5" for teachers in (10, 60))
SKEWED = f"{PUBLIC}/teachers-10_skew-0.8_mlp_paper"


def run(*experiments: dict[str, Any], **settings: Any) -> Run:
    named = {f"e{i}": experiment for i, experiment in enumerate(experiments)}
    return validate({"seeds": 0, "experiments": named, **settings})


def demo(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DEMO) | changes


def targets(made: Run, file: str) -> list[str]:
    """Return the folders of the targets with this name, or of those that begin with it."""
    return [str(Path(path).parent) for path in made.options if Path(path).name.startswith(file)]


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
        (SKEWED, "partition.npz", "--teachers 10 --strategy skew --share 0.8 --every-class"),
        (
            LARGE,
            "chunks/25-49.npz",
            "--teachers 25-49 --model small-cnn --epochs 5 --soft 1 --soft 5 --hints probabilities",
        ),
        (f"{SMALL}/gnmax/sigma-20", "bounds.json", "--queries 100 --queries 400 --delta 1e-05"),
        (f"{PUBLIC}/baseline/truth-100_mlp_modern", "baseline.json", "--true-labels 100 --model mlp"),
        (
            f"{PUBLIC}/dpsgd/scratch_epsilon-1_delta-1e-05_mlp_rate-0.1",
            "dpsgd.json",
            "--form scratch --model mlp --rate 0.1 --epsilon 1 --delta 1e-05",
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


def test_stages_without_options_and_streams_that_are_shared() -> None:
    made = run(demo())
    for target in ("digits/private.npz", f"{SMALL}/votes.npz", f"{SMALL}/collected.json"):
        assert made.command_options(target) == ""
    assert made.options[f"{PUBLIC}/features.npz"]["stream"] == f"{PUBLIC}/features"
    students = [options for path, options in made.options.items() if path.endswith("/petdl.json")]
    assert {options["form"] for options in students} == {"published", "noisy-knowledge"}
    assert {options["stream"] for options in students} == {f"{LARGE}/petdl"}, "so they differ in their setting alone"


def test_a_file_that_no_experiment_asks_for_is_refused() -> None:
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


def test_a_secure_release_has_the_stream_of_the_plain_one() -> None:
    mechanisms = DEMO["mechanisms"] | SHARED
    made, plain = run(demo(mechanisms=mechanisms), secure={"aggregators": 3}), run(demo(mechanisms=mechanisms))
    labels = f"{LARGE}/distributed-gnmax/sigma-9_tolerance-2"
    shares = [f"{labels}_secure-3/secure/aggregator-1/{chunk}.npz" for chunk in ("0-24", "25-49", "50-59")]
    assert [path for path in made.options if path.startswith(f"{labels}_secure-3/secure/aggregator-1/0-")] == shares[:1]
    for share in shares:
        assert made.options[share] == {**plain.options[f"{labels}/labels.npz"], "teachers": 60}
    counts = Counter(name.partition("/")[0] for name in made.jobs)
    assert (counts["secure_share"], counts["secure_sum"], counts["secure_open"]) == (1 + 3 + 3, 3 * 3, 3)
    assert "secure_open" not in {name.partition("/")[0] for name in plain.jobs}
    assert "digits/audit/teachers-10/distributed-gnmax/sigma-9_tolerance-2/audit.json" in made.options


def test_everything_is_collected_once_and_distillations_of_one_ensemble_are_one_job() -> None:
    made = run(demo(), demo(pool=500, test=100), demo(distillation=[DISTILLATION | {"samples": [50]}]), seeds=[0, 7])
    for kind, file in (("labels", "labels.npz"), ("students", "student.json"), ("distilled", "distillation.json")):
        gathered = [f"{voters}/{below}" for voters, kinds in made.gathered.items() for below in kinds.get(kind, [])]
        assert sorted(gathered) == sorted(targets(made, file))
    assert made.record_files()["collected"] == [f"results/{voters}/collected.json" for voters in made.gathered]
    folders = targets(made, "distillation.json")
    assert len(folders) == 4
    assert made.options[f"{folders[0]}/distillation.json"]["samples"] == (50, 100, 400)


def test_tables_read_a_record_of_every_model() -> None:
    made = run(demo())
    files = ("petdl.json", "dpsgd.json", "private_knn.json", "on_features.json")
    models = [path for name in files for path in targets(made, name)]
    assert sorted(str(Path(path).parent) for path in made.records["models"]) == sorted(models)
    assert len(models) == 2 + 3 + 1 + 2
    assert len(made.records["baselines"]) == 2
    from_encoder = {path for path in made.uses_encoder if "/dpsgd/" in path}
    assert from_encoder == {path for path in made.records["models"] if "/dpsgd/linear" in path}


def test_rounds_share_what_was_selected_before_them() -> None:
    made = run(demo())
    noise = "interactive-gnmax/threshold-30_sigma1-15_sigma2-5_confidence-0.9"
    first = f"{SMALL}/{noise}/supervised_logistic/round-0_random-50"
    then = [f"{first}/round-1_{strategy}-100" for strategy in ("random", "least-confident")]
    assert [folder for folder in targets(made, "queries.npz") if folder.startswith(SMALL)] == [first, *then]
    selection = made.command_options(f"{then[1]}/queries.npz")
    assert selection.startswith("--strategy least-confident --queries 100 ")
    assert made.options[f"{then[1]}/student.json"]["queries"] == 150
    assert made.options[f"{then[1]}/labels.npz"]["stream"] == then[1]
    assert made.options[f"{then[1]}/bounds.json"] == {"delta": 1e-5}, "its labels store the number of queries"


def test_rounds_begin_with_their_own_strategy_where_it_needs_no_student() -> None:
    made = run(demo(rounds=[ROUNDS | {"strategy": ["prototypes", "siamese"]}]))
    slugs = {labels.round.slugs for labels in made.experiments[0].label_sets if labels.round}
    own, random = "round-0_prototypes-50", "round-0_random-50"
    assert slugs == {own, f"{own}/round-1_prototypes-100", random, f"{random}/round-1_siamese-100"}


def test_features_of_a_pool_are_extracted_once_for_all_that_read_them() -> None:
    rounds = [ROUNDS | {"strategy": ["random", "prototypes"]}]
    made = run(demo(rounds=rounds), seeds=[0, 7])
    assert targets(made, "features.npz") == [f"digits/seed-{seed}_pool-400_test-100" for seed in (0, 7)]
    selected = {folder for folder in targets(made, "queries.npz") if "prototypes" in folder}
    assert {str(Path(path).parent) for path in made.uses_features} == selected
    assert len(selected) == 2 * 2 * 3, "two rounds of three ensembles with two seeds"
    assert targets(run(demo(dpsgd=[], private_knn=[], feature_methods=[])), "features.npz") == []


def test_experiments_share_what_they_have_in_common() -> None:
    """Add one γ, one number of queries and one student per ensemble with the second experiment."""
    more = demo(
        mechanisms={"lnmax": {"gamma": [0.05, 0.3]}},
        accounting={"delta": 1e-5, "queries": [100, 200]},
        students=[{**DEMO["students"][0], "queries": [100, 200]}],
    )
    alone, both = run(demo()), run(demo(), more | {"audit": None})
    assert len(set(both.job_names())) == len(both.job_names()) == len({*both.options}) + 2, "one job for each target"
    added = {Path(path).name for path in both.options.keys() - alone.options.keys()}
    assert added == {"labels.npz", "bounds.json", "student.json"}
    assert len(both.options) == len(alone.options) + 3 * 3
    queries = {gamma: both.options[f"{SMALL}/lnmax/gamma-{gamma}/bounds.json"]["queries"] for gamma in (0.05, 1, 0.3)}
    assert queries == {0.05: (100, 200, 400), 1: (100, 400), 0.3: (100, 200)}
    assert run(demo(), demo()).options == alone.options


def test_clusters_that_are_named_are_those_that_an_ensemble_is_asked_for() -> None:
    made = run(ONE_VOTE | {"public_reference": {"clusters": [10, 30]}})
    folder = "digits/seed-0_pool-400/queries/prototypes"
    assert targets(made, "naming.json") == [f"{folder}-{clusters}" for clusters in (10, 30)]
    assert sorted(targets(made, "queries.npz")) == [f"{folder}-{clusters}" for clusters in (10, 30)]
    (ensemble,) = made.experiments[0].ensembles
    assert made.selections == {ensemble.name: ["prototypes-30"]}
    assert made.record_files()["baselines"] == [f"results/{folder}-{clusters}/naming.json" for clusters in (10, 30)]
    with refuses("bound", "experiments.e0.public_reference.clusters[1]"):
        run(ONE_VOTE | {"public_reference": {"clusters": [10, 401]}})


def test_teachers_that_vote_in_rounds_are_dealt_once_and_vote_in_each() -> None:
    rounds = {"method": "supervised", "model": "logistic", "strategy": "least-confident", "queries": [12, 6]}
    noises = {"sparse-gnmax": {"k": 1, "sigma": [3, 5]}}
    wanted = {key: value for key, value in ONE_VOTE.items() if key not in ("queries", "mechanisms")}
    made = run(wanted | {"rounds": [{**rounds, "mechanisms": noises}]})
    (ensemble,) = targets(made, "partition.npz")
    first = [f"{ensemble}/sparse-gnmax/k-1_sigma-{sigma}/supervised_logistic/round-0_prototypes-12" for sigma in (3, 5)]
    then = [f"{each}/round-1_least-confident-6" for each in first]
    voting = sorted([*first, *then])
    assert sorted(targets(made, "votes.npz")) == sorted(made.chunks) == sorted(made.gathered) == voting
    assert made.uses_features >= {f"{each}/votes.npz" for each in voting}
    assert made.gathered[then[0]] == {"labels": [""], "students": [""]}


def test_a_run_shows_the_figures_and_tables_that_it_has_content_for() -> None:
    figures = set(run(demo()).with_content(FIGURES))
    assert {"equal-epsilon", "noisy-accuracy", "gap", "epsilon", "audit"} <= figures
    assert not {"distance", "cap", "clusters", "pool"} & figures
    tables = set(run(demo()).with_content(TABLES))
    assert {"utility-privacy", "bounds", "ensembles", "active-learning", "petdl"} <= tables
    assert not {"papers", "verdicts", "nzc-students", "bits", "teacher-costs"} & tables


def test_figures_over_a_setting_need_two_values_of_it_for_one_data_set() -> None:
    student = {"method": "consistency", "mechanisms": ONE_VOTE["mechanisms"]}
    one = ONE_VOTE | {"students": [student]}
    shown = [
        set(run(*experiments).with_content(FIGURES))
        for experiments in ([one, demo()], [one, one | {"pool": 300}], [one, one | {"queries": 20}])
    ]
    assert "gap" not in shown[1], "records that vote are not trained"
    assert [each & {"pool", "clusters", "cap"} for each in shown] == [set(), {"pool"}, {"clusters"}]
