"""The plan: paths as documented, each artefact once, lookups that invert the paths, and commands that a shell keeps."""

import copy
import json
import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from patebench.cli import COMMANDS
from patebench.config import validate
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode
from patebench.plan.jobs import (
    STAGES,
    TRAINING,
    Account,
    Aggregate,
    Budget,
    Data,
    Distil,
    Ensemble,
    Partition,
    SecureOpen,
    SelectQueries,
    Setting,
    Split,
    Tables,
    TrainBaseline,
    TrainDpsgd,
    TrainPrivateKnn,
    TrainStudent,
    TrainTeachers,
)
from patebench.plan.parameters import (
    ClassParameters,
    PartitionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
)
from patebench.plan.plan import Plan
from patebench.plan.words import LONGEST, shell, words

ROOT = Path(__file__).parents[2]
SPLIT = Split(Data("digits"), seed=0, parameters=SplitParameters(pool=400))
ENSEMBLE = Ensemble(SPLIT, 250, PartitionParameters(), TrainingParameters(model="small-cnn"))
LABELS = Aggregate(ENSEMBLE, Setting("lnmax", (("gamma", 0.05),)))

DEMO: dict[str, Any] = {
    "dataset": "digits",
    "pool": 400,
    "test": 100,
    "ensembles": [
        {"teachers": [10, 60], "model": "small-cnn", "epochs": 5, "soft": [1, 5], "hints": "probabilities"},
        {
            "teachers": 10,
            "model": "mlp",
            "recipe": "paper",
            "partition": {"strategy": "skew", "share": 0.8},
            "chunk": 4,
        },
    ],
    "mechanisms": {"lnmax": {"gamma": [0.05, 1]}, "gnmax": {"sigma": 20}},
    "accounting": {"delta": "1e-5", "queries": [400, 100]},
    "students": [
        {"method": "supervised", "mechanisms": {"lnmax": {"gamma": 0.05}}, "queries": [100, 400], "model": "logistic"}
    ],
    "rounds": [
        {
            "method": "supervised",
            "model": "logistic",
            "strategy": ["random", "least-confident"],
            "mechanisms": {"interactive-gnmax": {"threshold": 30, "sigma1": 15, "sigma2": 5, "confidence": 0.9}},
            "queries": [50, 100],
        }
    ],
    "distillation": [{"teachers": 60, "samples": [400, 100], "model": "mlp"}],
    "petdl": [{"teachers": 60, "form": ["published", "noisy-knowledge"], "epsilon": 1, "weighted": True}],
    "baseline": {"model": "mlp", "epochs": 3},
    "dpsgd": [{"form": "linear", "epsilon": [1, 4]}, {"form": "scratch", "model": "mlp", "epsilon": 1, "rate": 0.1}],
    "private_knn": [
        {"form": "published", "rate": 0.5, "neighbours": 9, "threshold": 6, "sigma1": 2, "sigma2": 1, "queries": 50}
    ],
    "true_label_baseline": {"model": "mlp", "queries": [100]},
    "audit": {"teachers": 10, "runs": 5000},
}
NOISES = ("lnmax/gamma-0.05", "lnmax/gamma-1", "gnmax/sigma-20")
SHARED = {"distributed-gnmax": {"sigma": 9, "tolerance": 2}}


def plan(*experiments: dict[str, Any], **settings: Any) -> Plan:
    named = {f"e{i}": experiment for i, experiment in enumerate(experiments)}
    return validate({"seeds": [0, 7], "experiments": named, **settings}).plan()


def demo(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DEMO) | changes


def commands(made: Plan, stage: str) -> list[str]:
    """The commands of a stage's jobs."""
    return [" ".join(made.command(job)) for job in made.jobs[stage].values()]


def test_a_stage_has_one_name() -> None:
    """Rule, command, module and class of jobs; and every one of them has a rule."""
    stages = [each.stage() for each in STAGES]
    rules = re.findall(r"^ *rule (\w+):", "".join(map(Path.read_text, (ROOT / "workflow/rules").glob("*.smk"))), re.M)
    assert sorted(rules) == sorted(stages)
    others = [
        "epsilon",
        "calibrate",
        "choose_clusters",
        "ledger",
        "reproduce",
        "compare",
        "crate",
        "corrections",
        "check",
        "config",
        "test_mechanism",
        "completion",
    ]
    assert list(COMMANDS) == [*stages, *others]
    modules = {path.stem for path in (ROOT / "workflow/patebench/stages").glob("*.py")}
    assert set(COMMANDS) <= modules


def test_stages_that_train_ask_for_a_gpu_which_the_profile_can_take_away() -> None:
    rules = "".join(map(Path.read_text, (ROOT / "workflow/rules").glob("*.smk")))
    asking = {part.split(":")[0] for part in re.split(r"^ *rule ", rules, flags=re.M)[1:] if "gpu=" in part}
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    assert asking == set(TRAINING) == set(profile["set-resources"])
    assert all(each == {"gpu": 0} for each in profile["set-resources"].values())
    page = (ROOT / "docs/gpu.md").read_text()
    assert all(f"`{stage}`" in page for stage in TRAINING)


def test_slugs_and_folders() -> None:
    """As the documentation spells them."""
    training = TrainingParameters(model="small-cnn", epochs=5)
    assert SPLIT.folder == "digits/seed-0_pool-400"
    assert Split(Data("mnist"), 3, SplitParameters(pool=9000, test=1000)).folder == "mnist/seed-3_pool-9000_test-1000"
    assert ENSEMBLE.slug == "teachers-250_iid_small-cnn_modern"
    skewed = PartitionParameters(strategy="skew", share=0.8)
    assert Ensemble(SPLIT, 10, skewed, training).slug == "teachers-10_skew-0.8_small-cnn_modern_epochs-5"
    owned = PartitionParameters(strategy="owners", owners="o.npy")
    assert Ensemble(SPLIT, 10, owned, training).slug.startswith("teachers-10_owners_small")
    assert LABELS.folder == "digits/seed-0_pool-400/teachers-250_iid_small-cnn_modern/lnmax/gamma-0.05"
    kept = replace(LABELS, mode=Mode.RELEASE, budget=Budget(1.5, 1e-5))
    assert kept.folder == f"{ENSEMBLE.folder}/lnmax/gamma-0.05_release_budget-1.5_delta-1e-05"
    assert Setting("m", (("threshold", 200.0), ("sigma", 0.5))).slug == "threshold-200_sigma-0.5"
    student = TrainStudent(LABELS, StudentParameters(method="supervised", model="small-cnn", hold_out=0.25), 100)
    assert student.folder == f"{LABELS.folder}/supervised_queries-100_small-cnn_hold-out-0.25"


def test_a_secure_release_draws_what_the_plain_one_draws() -> None:
    made = plan(demo(mechanisms=DEMO["mechanisms"] | SHARED), seeds=7, secure={"aggregators": 3})
    plain = plan(demo(mechanisms=DEMO["mechanisms"] | SHARED), seeds=7)
    (labels,) = [each for each in made.of(SecureOpen) if each.ensemble.slug.startswith("teachers-60")]
    assert labels.folder.endswith("/distributed-gnmax/sigma-9_tolerance-2_secure-3")
    folder = labels.folder.removesuffix("_secure-3")
    assert folder in plain.jobs["aggregate"]
    shares = [each for each in commands(made, "secure_share") if f"--stream {folder} " in each]
    assert len(shares) == 3
    assert all(" --teachers 60 " in each for each in shares)
    found = made.find("secure_sum", SimpleNamespace(label_set=labels.folder, aggregator="2"))
    assert made.inputs(found)["shares"] == [
        f"results/{labels.folder}/secure/aggregator-2/{chunk}.npz" for chunk in ("0-24", "25-49", "50-59")
    ]
    assert "distributed-gnmax" in {each.setting.mechanism for each in made.jobs["audit"].values()}  # type: ignore[attr-defined]
    counts = {stage: len(jobs) for stage, jobs in made.jobs.items()}
    assert (counts["secure_share"], counts["secure_sum"], counts["secure_open"]) == (1 + 3 + 3, 3 * 3, 3)
    assert not plain.of(SecureOpen)
    assert not set(made.jobs["secure_open"]) & set(made.jobs["aggregate"])


def test_artefacts_of_one_experiment() -> None:
    found = plan(demo(), seeds=7).artefacts()
    split = "results/digits/seed-7_pool-400_test-100"
    small, skewed = f"{split}/teachers-10_iid_small-cnn_modern_epochs-5", f"{split}/teachers-10_skew-0.8_mlp_paper"
    large = f"{split}/teachers-60_iid_small-cnn_modern_epochs-5"
    assert found["data"] == ["results/digits/private.npz", "results/digits/public.npz"]
    assert found["split"] == [f"{split}/pool.npz", f"{split}/truth.npz", f"{split}/test.npz"]
    assert found["partition"] == [f"{each}/partition.npz" for each in (small, large, skewed)]
    assert found["train_teachers"] == [
        f"{small}/chunks/0-9.npz",
        *(f"{large}/chunks/{chunk}.npz" for chunk in ("0-24", "25-49", "50-59")),
        *(f"{skewed}/chunks/{chunk}.npz" for chunk in ("0-3", "4-7", "8-9")),
    ]
    assert {f"{each}/{noise}/labels.npz" for each in (small, large, skewed) for noise in NOISES} <= set(
        found["aggregate"]
    )
    assert len(found["account"]) == 9 + 3 * 3
    student = f"{small}/lnmax/gamma-0.05/supervised_queries-100_logistic"
    assert {f"{student}/student.json", f"{student}/predictions.npz"} <= set(found["train_student"])
    assert found["distil"] == [f"{large}/distillation/mlp_modern/distillation.json"]
    assert found["train_petdl"] == [
        f"{large}/petdl/{form}_epsilon-1_delta-1e-05_weighted-True/petdl.json"
        for form in ("published", "noisy-knowledge")
    ]
    trained = ("mlp_modern_epochs-3", "truth-100_mlp_modern")
    assert found["train_baseline"] == [f"{split}/baseline/{each}/baseline.json" for each in trained]
    private = ("linear_epsilon-1_delta-1e-05", "linear_epsilon-4_delta-1e-05")
    private += ("scratch_epsilon-1_delta-1e-05_mlp_rate-0.1",)
    assert found["train_dpsgd"] == [f"{split}/dpsgd/{each}/dpsgd.json" for each in private]
    asked = "published_rate-0.5_neighbours-9_threshold-6_sigma1-2_sigma2-1_queries-50_consistency_delta-1e-05"
    assert found["train_private_knn"] == [f"{split}/private-knn/{asked}/private_knn.json"]
    assert found["collect"] == [f"{each}/collected.json" for each in (small, large, skewed)]
    assert found["report"] == ["results/report.html"]


def test_collecting_reaches_every_label_set_and_student_once() -> None:
    made = plan(demo(), demo(pool=500, test=100))
    inputs = [made.inputs(job) for job in made.jobs["collect"].values()]
    for name, stage in {"labels": "aggregate", "bounds": "account", "distilled": "distil"}.items():
        assert Counter(path for each in inputs for path in each[name]) == Counter(made.artefacts()[stage])
    students = [path for path in made.artefacts()["train_student"] if path.endswith("student.json")]
    assert Counter(path for each in inputs for path in each["students"]) == Counter(students)


def test_a_baseline_learns_from_private_samples_or_from_true_labels() -> None:
    made = plan(demo(), seeds=0)
    private, labelled = made.of(TrainBaseline)
    split = "results/digits/seed-0_pool-400_test-100"
    test = [f"{split}/test.npz"]
    assert made.inputs(private) == {"private": ["results/digits/private.npz"], "test": test}
    assert made.inputs(labelled) == {"pool": [f"{split}/pool.npz"], "truth": [f"{split}/truth.npz"], "test": test}
    assert "--true-labels 100 --model mlp" in " ".join(made.command(labelled))


def test_a_private_model_learns_on_from_public_features_or_from_nothing() -> None:
    made = plan(demo(), seeds=0)
    linear, _, scratch = made.of(TrainDpsgd)
    split = "results/digits/seed-0_pool-400_test-100"
    public = {"pool": [f"{split}/pool.npz"], "test": [f"{split}/test.npz"]}
    assert made.inputs(scratch) == {"private": ["results/digits/private.npz"], **public}
    assert made.inputs(linear) == {**made.inputs(scratch), "encoder": [f"{split}/encoder.npz"]}
    assert "--form scratch --model mlp --rate 0.1 --epsilon 1 --delta 1e-05 --seed 0" in " ".join(made.command(scratch))
    (nearest,) = made.of(TrainPrivateKnn)
    truth = {"truth": [f"{split}/truth.npz"]}
    assert made.inputs(nearest) == {**made.inputs(linear), **truth}
    for stage in ("figures", "tables"):
        (job, *_) = made.jobs[stage].values()
        for model in ("train_dpsgd", "train_private_knn"):
            assert set(made.artefacts()[model]) <= set(made.inputs(job)["models"])


def test_rounds_share_what_was_selected_before_them() -> None:
    made = plan(demo(), seeds=0)
    noise = "interactive-gnmax/threshold-30_sigma1-15_sigma2-5_confidence-0.9"
    below = f"digits/seed-0_pool-400_test-100/teachers-10_iid_small-cnn_modern_epochs-5/{noise}"
    first = f"{below}/supervised_logistic/round-0_random-50"
    then = [f"{first}/round-1_{strategy}-100" for strategy in ("random", "least-confident")]
    assert {first, *then} <= set(made.jobs["aggregate"])
    opening, last = (made.jobs["select_queries"][folder] for folder in (first, then[1]))
    assert isinstance(last, SelectQueries)
    assert set(made.inputs(opening)) == {"pool"}
    known = {name: [f"results/{first}/{name}.npz"] for name in ("labels", "predictions")}
    assert made.inputs(last) == {"pool": made.inputs(opening)["pool"], **known}
    labels = made.inputs(made.jobs["aggregate"][then[1]])
    assert labels["selected"] == [f"results/{then[1]}/queries.npz"]
    assert labels["earlier"] == [f"results/{first}/labels.npz"]
    assert "earlier" not in made.inputs(made.jobs["aggregate"][first])
    account = made.jobs["account"][then[1]]
    assert made.inputs(account)["selected"] == [f"results/{each}/queries.npz" for each in (first, then[1])]
    assert (len(last.rounds), last.total, [each.parameters.queries for each in last.rounds]) == (2, 150, [50, 100])
    assert " --queries 150 " in " ".join(made.command(made.jobs["train_student"][then[1]]))
    assert " --strategy least-confident --queries 100 " in " ".join(made.command(last))
    assert made.inputs(account)["labels"] == [f"results/{then[1]}/labels.npz"]
    assert "--queries" not in made.command(account), "the labels tell how many there are"


def test_rounds_begin_with_their_own_strategy_where_it_needs_no_student() -> None:
    made = plan(demo(rounds=[DEMO["rounds"][0] | {"strategy": ["prototypes", "siamese"]}]), seeds=0)
    assert {tuple(each.parameters.strategy for each in last.rounds) for last in made.of(SelectQueries)} == {
        ("prototypes",),
        ("prototypes", "prototypes"),
        ("random",),
        ("random", "siamese"),
    }


def test_features_of_a_pool_are_extracted_once_for_all_that_select_by_them() -> None:
    made = plan(demo(rounds=[DEMO["rounds"][0] | {"strategy": ["random", "prototypes"]}]))
    splits = [f"results/digits/seed-{seed}_pool-400_test-100" for seed in (0, 7)]
    made_of_each = [f"{split}/{name}.npz" for split in splits for name in ("features", "encoder")]
    assert made.artefacts()["extract_features"] == made_of_each
    read = [made.inputs(each).get("features", [None])[0] for each in made.of(SelectQueries)]
    rounds_of_three_ensembles = 2 * 3
    files = made_of_each[::2]
    assert Counter(read) == {None: 12, **dict.fromkeys(files, rounds_of_three_ensembles)}
    assert plan(demo(dpsgd=[], private_knn=[])).artefacts()["extract_features"] == []


def parsed(made: Plan, stage: str, path: str) -> SimpleNamespace:
    """The wildcards of an artefact, found by the stage's patterns as Snakemake finds them."""
    patterns = [
        each
        for pattern in made.outputs(stage).values()
        for each in ([pattern] if isinstance(pattern, str) else pattern)
    ]
    for pattern in patterns:
        regex = re.escape(pattern)
        for name, constraint in made.constraints(stage).items():
            regex = regex.replace(rf"\{{{name}\}}", f"(?P<{name}>{constraint})")
        if match := re.fullmatch(regex, path):
            return SimpleNamespace(**match.groupdict())
    raise AssertionError(f"no pattern of {stage} matches {path}")


@pytest.mark.parametrize("stage", [each.stage() for each in STAGES])
def test_lookups_invert_the_paths(stage: str) -> None:
    selecting = [DEMO["rounds"][0] | {"strategy": ["prototypes", "least-confident"]}]
    shared = demo(rounds=selecting, mechanisms=DEMO["mechanisms"] | SHARED)
    other = demo(dataset="fashion_mnist", test=None, public_reference={"clusters": [2, 9]})
    made = plan(shared, other, secure={"aggregators": 2})
    assert made.jobs[stage]
    for job in made.jobs[stage].values():
        for path in (path for paths in made.made(job).values() for path in paths):
            assert made.find(stage, parsed(made, stage, path)) == job


def test_no_file_is_made_by_two_rules() -> None:
    made = plan(demo(mechanisms=DEMO["mechanisms"] | SHARED), secure={"aggregators": 2})
    for stage, paths in made.artefacts().items():
        for other in (each.stage() for each in STAGES if each.stage() != stage):
            for path in paths[:3]:
                with pytest.raises(AssertionError):
                    parsed(made, other, path)


def test_patterns_match_nothing_else() -> None:
    made = plan(demo(students=[], rounds=[]))
    for stage, name, value in (
        ("data", "dataset", "mnist"),
        ("split", "split", "digits/seed-1_pool-400_test-100"),
        ("partition", "ensemble", "digits/seed-0_pool-400_test-100/teachers-10_skew-0x8_mlp_paper"),
        ("train_teachers", "chunk", "a-b"),
        ("aggregate", "label_set", "gamma-0.050"),
        ("train_student", "student", ""),
        ("select_queries", "label_set", ""),
    ):
        assert not re.fullmatch(made.constraints(stage)[name], value), (name, value)


def test_what_no_experiment_asks_for() -> None:
    made = plan(demo())
    wrong = SimpleNamespace(split="digits/seed-0_pool-400_test-20")
    with pytest.raises(PatebenchError, match=r"split digits/seed-0_pool-400_test-20 \(did you mean '.*test-100'"):
        made.find("split", wrong)
    chunk = SimpleNamespace(ensemble=made.of(Partition)[0].ensemble, chunk="0-3")
    with pytest.raises(PatebenchError, match=r"train_teachers .*/0-3"):
        made.find("train_teachers", chunk)


def test_weights_lie_in_the_ensemble_and_only_on_request() -> None:
    keeping = [{"teachers": 10, "model": "mlp", "keep_weights": keep, "epochs": 1 + keep} for keep in (False, True)]
    made = plan(demo(ensembles=keeping, distillation=[], petdl=[]), seeds=0)
    folder = "results/digits/seed-0_pool-400_test-100/teachers-10_iid_mlp_modern_epochs-2/weights"
    assert [f"--weights {folder} " in each for each in commands(made, "train_teachers")] == [False, True]


def test_probabilities_are_kept_on_request_alone_and_leave_every_path_as_it_is() -> None:
    plain = plan(demo(ensembles=[{"teachers": 10, "model": "mlp"}], distillation=[], petdl=[]), seeds=0)
    softened = plan(
        demo(ensembles=[{"teachers": 10, "model": "mlp", "soft": [1, 5]}], distillation=[], petdl=[]), seeds=0
    )
    assert softened.artefacts() == plain.artefacts()
    told = [each for made in (plain, softened) for each in commands(made, "train_teachers")]
    assert ["--soft 1 --soft 5" in each for each in told] == [False, True]


def test_distillations_of_one_ensemble_are_joined() -> None:
    fewer = demo(distillation=[{"samples": [50, 100], "model": "mlp", "teachers": 60}])
    made = plan(demo(), fewer, seeds=0)
    (only,) = made.of(Distil)
    assert only.parameters.samples == (50, 100, 400)
    assert "--samples 50 --samples 100 --samples 400" in commands(made, "distil")[0]


@pytest.mark.parametrize("needed", [True, False])
def test_shards_that_lack_a_class_are_refused_only_on_request(needed: bool) -> None:
    ensembles = [{"teachers": 10, "model": "mlp", "partition": {"every_class": needed}}]
    made = plan(demo(ensembles=ensembles, distillation=[], petdl=[]), seeds=0)
    assert ("--every-class" in commands(made, "partition")[0]) == needed


def test_experiments_share_what_they_have_in_common() -> None:
    """The second adds one γ, one number of queries and one student to the first's ensembles."""
    more = demo(
        mechanisms={"lnmax": {"gamma": [0.05, 0.3]}},
        accounting={"delta": 1e-5, "queries": [100, 200]},
        students=[{**DEMO["students"][0], "queries": [100, 200]}],
    )
    alone, both = plan(demo(rounds=[])), plan(demo(rounds=[]), more | {"rounds": []})
    assert both.jobs["collect"].keys() == alone.jobs["collect"].keys()
    assert both.jobs["split"] == alone.jobs["split"]
    assert len(both.label_sets()) == len(alone.label_sets()) + len(both.jobs["collect"])
    assert len(both.of(TrainStudent)) == len(alone.of(TrainStudent)) + len(both.jobs["collect"])
    assert {each.labels.setting.folder: each.queries for each in both.of(Account)} == {
        "lnmax/gamma-0.05": (100, 200, 400),
        "lnmax/gamma-1": (100, 400),
        "lnmax/gamma-0.3": (100, 200),
        "gnmax/sigma-20": (100, 400),
    }


def test_artefacts_come_once() -> None:
    made = plan(demo(), demo(), demo(pool=500, test=100))
    paths = [path for each in made.artefacts().values() for path in each]
    assert len(paths) == len(set(paths))
    assert set(paths) == {path for each in plan(demo(), demo(pool=500, test=100)).artefacts().values() for path in each}


def test_another_noise_setting_changes_only_what_lies_below_it() -> None:
    before, after = (
        {
            path
            for stage in plan(demo(mechanisms=DEMO["mechanisms"] | {"lnmax": {"gamma": gammas}})).artefacts().values()
            for path in stage
        }
        for gammas in ([0.05, 1], [0.05, 2])
    )
    assert before != after
    assert all("/lnmax/gamma-1/" in path for path in before - after)
    assert all("/lnmax/gamma-2/" in path for path in after - before)


@given(teachers=st.integers(1, 600), chunk=st.integers(1, 700))
def test_chunks_train_every_teacher_once(teachers: int, chunk: int) -> None:
    training, work = TrainingParameters(model="mlp", recipe="paper"), TeacherParameters(chunk=chunk)
    chunks = Ensemble(SPLIT, teachers, PartitionParameters(), training, work).chunks()
    assert [n for each in chunks for n in range(each.first, each.last + 1)] == list(range(teachers))
    assert all(each.last - each.first + 1 == chunk for each in chunks[:-1])


def test_options_of_each_stage() -> None:
    randomness = ["--seed", "0", "--stream"]
    chunk = ENSEMBLE.chunks()[1]
    assert isinstance(chunk, TrainTeachers)
    training = TrainingParameters(model="mlp", recipe="paper", epochs=3)
    skewed = Ensemble(SPLIT, 10, PartitionParameters(strategy="skew", share=0.8), training)
    student = TrainStudent(LABELS, StudentParameters(method="supervised", model="small-cnn", recipe="modern"), 100)
    account = Account(replace(LABELS, setting=Setting("gnmax", (("sigma", 20.0),))), (100, 400), 1e-5)
    own = Data("mine", "folder", (("private", "my files/a"), ("public", "b")))
    student_words = ["--method", "supervised", "--model", "small-cnn", "--recipe", "modern"]
    for options, expected in (
        (Data("digits").options(), ["digits"]),
        (
            own.options(),
            ["mine", "--option", "loader=folder", "--option", "private=my files/a", "--option", "public=b"],
        ),
        (
            replace(own, classes=ClassParameters(class_names=("cat", "sea lion"))).options(),
            [*words(own.options()), "--class-names", "cat", "--class-names", "sea lion"],
        ),
        (SPLIT.options(), ["--pool", "400", *randomness, SPLIT.folder]),
        (
            Partition(skewed).options(),
            ["--teachers", "10", "--strategy", "skew", "--share", "0.8", *randomness, skewed.folder],
        ),
        (chunk.options(), ["--teachers", "25-49", "--model", "small-cnn", *randomness, ENSEMBLE.folder]),
        (LABELS.options(), ["--mechanism", "lnmax", "--parameter", "gamma=0.05", *randomness, LABELS.folder]),
        (
            account.options(),
            [
                *("--queries", "100", "--queries", "400", "--delta", "1e-05", *randomness, account.folder),
            ],
        ),
        (student.options(), ["--queries", "100", *student_words, *randomness, student.folder]),
    ):
        assert words(options) == expected


def test_access_options() -> None:
    assert words({"root": "my data", "download": False}) == ["--root", "my data", "--no-download"]
    assert words({"download": True, "epochs": None}) == ["--download"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_shell_keeps_every_value(text: str) -> None:
    told = words({"root": text, "option": {"a": text}})
    assert told == ["--root", text, "--option", f"a={text}"]
    assert shlex.split(shell(told, Path("unused"))) == told


def test_a_command_too_long_for_a_shell_goes_into_a_file(tmp_path: Path) -> None:
    told = words({"labels": [f"results/{i:090}" for i in range(LONGEST // 90)]})
    path = tmp_path / "logs" / "collect.json"
    assert shell(told, path) == f"@{path}"
    assert json.loads(path.read_text()) == told


def test_clusters_that_are_named_are_those_that_an_ensemble_is_asked_for() -> None:
    asked = {"teachers": 500, "model": "nearest-query"}
    mechanisms = {"sparse-gnmax": {"k": 1, "sigma": 3}}
    one_vote = {"dataset": "digits", "pool": 400, "queries": 30, "ensembles": [asked], "mechanisms": mechanisms}
    one_vote |= {"accounting": {"delta": 1e-5}, "public_reference": {"clusters": [10, 30]}}
    made = plan(one_vote, seeds=7)
    folder = "results/digits/seed-7_pool-400/queries/prototypes"
    assert made.artefacts()["name_clusters"] == [f"{folder}-{clusters}/naming.json" for clusters in (10, 30)]
    assert len(made.of(SelectQueries)) == 2
    (tables,) = made.of(Tables)
    assert "results/tables/frontier.csv" in made.made(tables)["csv"]
    assert made.inputs(tables)["baselines"] == made.artefacts()["name_clusters"]
    with pytest.raises(PatebenchError, match=r"public_reference\.clusters\[1\]: is 401, but the pool holds 400"):
        plan(one_vote | {"public_reference": {"clusters": [10, 401]}})
