"""The plan: paths as documented, each artefact once, lookups that invert the paths, and options that a shell keeps."""

import copy
import re
import shlex
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.config import validate
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode
from patebench.plan import (
    Account,
    Budget,
    Chunk,
    Data,
    Ensemble,
    Learner,
    Partition,
    Plan,
    Release,
    Split,
    StudentRun,
    number,
    shell,
)

SPLIT = Split(Data("digits"), seed=0, pool=400)
ENSEMBLE = Ensemble(SPLIT, 250, Partition(), Learner("small-cnn", "modern"))
RELEASE = Release(ENSEMBLE, "lnmax", (("gamma", 0.05),))

DEMO: dict[str, Any] = {
    "dataset": "digits",
    "pool": 400,
    "test": 200,
    "ensembles": [
        {"teachers": [10, 60], "model": "small-cnn", "epochs": 5, "soft": [1, 5]},
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
        {"method": "supervised", "releases": {"lnmax": {"gamma": 0.05}}, "queries": [100, 400], "model": "logistic"}
    ],
    "rounds": [
        {
            "method": "supervised",
            "model": "logistic",
            "strategy": ["random", "least-confident"],
            "releases": {"interactive-gnmax": {"threshold": 30, "sigma1": 15, "sigma2": 5, "confidence": 0.9}},
            "queries": [50, 100],
        }
    ],
    "distillation": [{"teachers": 60, "samples": [400, 100], "model": "mlp"}],
    "baseline": {"model": "mlp", "epochs": 3},
    "truth": {"model": "mlp", "queries": [100]},
    "audit": {"teachers": 10, "runs": 5000},
}
NOISES = ("lnmax/gamma-0.05", "lnmax/gamma-1", "gnmax/sigma-20")
PATTERNS = {
    "data": ["{dataset}/private.npz", "{dataset}/public.npz"],
    "split": ["{dataset}/{split}/pool.npz", "{dataset}/{split}/truth.npz", "{dataset}/{split}/test.npz"],
    "partition": ["{dataset}/{split}/{ensemble}/partition.npz"],
    "teach": ["{dataset}/{split}/{ensemble}/chunks/{first}-{last}.npz"],
    "votes": ["{dataset}/{split}/{ensemble}/votes.npz", "{dataset}/{split}/{ensemble}/ensemble.json"],
    "aggregate": ["{dataset}/{split}/{ensemble}/{mechanism}/{noise}/labels.npz"],
    "account": ["{dataset}/{split}/{ensemble}/{mechanism}/{noise}/bounds.json"],
    "student": ["{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{student}/student.json"],
    "features": ["{dataset}/{split}/features.npz"],
    **{
        stage: [f"{{dataset}}/{{split}}/{{ensemble}}/{{mechanism}}/{{noise}}/{{rounds}}/{name}" for name in names]
        for stage, names in {
            "ask": ["queries.npz"],
            "answer": ["labels.npz"],
            "charge": ["bounds.json"],
            "learn": ["student.json", "beliefs.npz"],
        }.items()
    },
    "distil": ["{dataset}/{split}/{ensemble}/distillation/{learner}/distillation.json"],
    "baseline": ["{dataset}/{split}/baseline/{learner}/baseline.json"],
    "collect": ["{dataset}/{split}/{ensemble}/collected.json"],
    "audit": ["{dataset}/audit/teachers-{teachers}/{mechanism}/{noise}/audit.json"],
}
LOOKUPS = {
    "data": Plan.data,
    "split": Plan.split,
    "partition": Plan.ensemble,
    "teach": Plan.chunk,
    "votes": Plan.ensemble,
    "aggregate": Plan.release,
    "account": Plan.account,
    "student": Plan.student,
    "features": Plan.split,
    **dict.fromkeys(("ask", "answer", "charge", "learn"), Plan.round),
    "distil": Plan.distillation,
    "baseline": Plan.baseline,
    "collect": Plan.ensemble,
    "audit": Plan.audit,
}


def plan(*experiments: dict[str, Any], **settings: Any) -> Plan:
    named = {f"e{i}": experiment for i, experiment in enumerate(experiments)}
    return validate({"seeds": [0, 7], "experiments": named, **settings}).plan()


def demo(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DEMO) | changes


def test_slugs_and_folders() -> None:
    """As the documentation spells them."""
    learner = Learner("small-cnn", "modern", epochs=5)
    assert SPLIT.folder == "digits/seed-0_pool-400"
    assert Split(Data("mnist"), 3, 9000, 1000).folder == "mnist/seed-3_pool-9000_test-1000"
    assert ENSEMBLE.slug == "teachers-250_iid_small-cnn_modern"
    assert Ensemble(SPLIT, 10, Partition("skew", 0.8), learner).slug == "teachers-10_skew-0.8_small-cnn_modern_epochs-5"
    assert Ensemble(SPLIT, 10, Partition("owners", column="o.npy"), learner).slug.startswith("teachers-10_owners_small")
    assert RELEASE.folder == "digits/seed-0_pool-400/teachers-250_iid_small-cnn_modern/lnmax/gamma-0.05"
    kept = replace(RELEASE, mode=Mode.RELEASE, budget=Budget(1.5, 1e-5))
    assert kept.folder == f"{ENSEMBLE.folder}/lnmax/gamma-0.05_release_budget-1.5_delta-1e-05"
    assert Release(ENSEMBLE, "m", (("threshold", 200.0), ("sigma", 0.5))).noise == "threshold-200_sigma-0.5"
    student = StudentRun(RELEASE, "supervised", 100, "small-cnn", "modern")
    assert student.folder == f"{RELEASE.folder}/supervised_queries-100_small-cnn_modern"


def test_a_secure_release_draws_what_the_plain_one_draws() -> None:
    made = plan(demo(mechanisms=DEMO["mechanisms"] | SHARED), seeds=7, secure={"aggregators": 3})
    plain = plan(demo(mechanisms=DEMO["mechanisms"] | SHARED), seeds=7)
    secure = [release for release in made.secure_releases() if release.ensemble.slug.startswith("teachers-60")]
    (release,) = secure
    assert release.folder.endswith("/distributed-gnmax/sigma-9_tolerance-2_secure-3")
    assert release.folder.removesuffix("_secure-3") in plain.releases
    assert release.share_options()["stream"] == release.folder.removesuffix("_secure-3")
    assert release.share_options()["teachers"] == 60
    wildcards = SimpleNamespace(
        dataset="digits", split=release.ensemble.split.slug, ensemble=release.ensemble.slug,
        mechanism="distributed-gnmax", noise=release.noise, aggregator="2",
    )  # fmt: skip
    assert made.share_files(wildcards) == [
        f"results/{release.folder}/secure/aggregator-2/{chunk}.npz" for chunk in ("0-24", "25-49", "50-59")
    ]
    assert any(each.mechanism == "distributed-gnmax" for each in parsed(made, "audit")), "audits know no aggregators"
    rules = Counter(job.split("/")[0] for job in made.jobs())
    assert (rules["secure_share"], rules["secure_sum"], rules["secure_open"]) == (1 + 3 + 3, 3 * 3, 3)
    assert not plain.secure_releases()
    for noises, noise in ((True, "sigma-9_tolerance-2_secure-3"), (False, "gamma-0.05"), (False, "sigma-20")):
        assert re.fullmatch(made.noises(secure=noises), noise)
        assert not re.fullmatch(made.noises(secure=not noises), noise)


SHARED = {"distributed-gnmax": {"sigma": 9, "tolerance": 2}}


def test_artefacts_of_one_experiment() -> None:
    found = plan(demo(), seeds=7).artefacts()
    split = "results/digits/seed-7_pool-400_test-200"
    small, skewed = f"{split}/teachers-10_iid_small-cnn_modern_epochs-5", f"{split}/teachers-10_skew-0.8_mlp_paper"
    large = f"{split}/teachers-60_iid_small-cnn_modern_epochs-5"
    assert found["data"] == ["results/digits/private.npz", "results/digits/public.npz"]
    assert found["split"] == [f"{split}/pool.npz", f"{split}/truth.npz", f"{split}/test.npz"]
    assert found["partition"] == [f"{each}/partition.npz" for each in (small, large, skewed)]
    assert found["teach"] == [
        f"{small}/chunks/0-9.npz",
        *(f"{large}/chunks/{chunk}.npz" for chunk in ("0-24", "25-49", "50-59")),
        *(f"{skewed}/chunks/{chunk}.npz" for chunk in ("0-3", "4-7", "8-9")),
    ]
    assert found["aggregate"][:3] == [f"{small}/{noise}/labels.npz" for noise in NOISES]
    assert len(found["account"]) == 9
    assert found["student"][:2] == [
        f"{small}/lnmax/gamma-0.05/supervised_queries-{queries}_logistic/student.json" for queries in (100, 400)
    ]
    assert found["distil"] == [f"{large}/distillation/mlp_modern/distillation.json"]
    learners = ("mlp_modern_epochs-3", "truth-100_mlp_modern")
    assert found["baseline"] == [f"{split}/baseline/{learner}/baseline.json" for learner in learners]
    assert found["collect"] == [f"{each}/collected.json" for each in (small, large, skewed)]


def test_what_collecting_needs() -> None:
    made = plan(demo())
    small = made.ensembles["digits/seed-0_pool-400_test-200/teachers-10_iid_small-cnn_modern_epochs-5"]
    found = made.collect_inputs(SimpleNamespace(dataset="digits", split=small.split.slug, ensemble=small.slug))
    below = f"results/{small.folder}"
    assert found["labels"] == [f"{below}/{noise}/labels.npz" for noise in NOISES]
    assert found["bounds"] == [f"{below}/{noise}/bounds.json" for noise in NOISES]
    assert found["students"] == [
        f"{below}/lnmax/gamma-0.05/supervised_queries-{queries}_logistic/student.json" for queries in (100, 400)
    ]


def test_collecting_reaches_every_release_and_student_once() -> None:
    made = plan(demo(), demo(pool=500))
    inputs = [made.collect_inputs(wildcards) for wildcards in parsed(made, "collect")]
    stages = {"labels": "aggregate", "bounds": "account", "students": "student", "answers": "answer"}
    for name, stage in {**stages, "charges": "charge", "distilled": "distil"}.items():
        assert Counter(path for each in inputs for path in each[name]) == Counter(made.artefacts()[stage])
    assert set(inputs[0]) == set(Plan.COLLECTED)


def test_a_baseline_learns_from_private_samples_or_from_true_labels() -> None:
    made = plan(demo(), seeds=0)
    private, truth = parsed(made, "baseline")
    split = "results/digits/seed-0_pool-400_test-200"
    assert made.baseline_inputs(private) == {"private": "results/digits/private.npz"}
    assert made.baseline_inputs(truth) == {"pool": f"{split}/pool.npz", "truth": f"{split}/truth.npz"}
    assert shell(made.baseline(truth).options()).startswith("--queries 100 --model mlp")


def test_rounds_share_what_was_asked_before_them() -> None:
    made = plan(demo(), seeds=0)
    noise = "interactive-gnmax/threshold-30_sigma1-15_sigma2-5_confidence-0.9"
    below = f"results/digits/seed-0_pool-400_test-200/teachers-10_iid_small-cnn_modern_epochs-5/{noise}"
    first = f"{below}/supervised_logistic/round-0_random-50"
    then = [f"{first}/round-1_{strategy}-100" for strategy in ("random", "least-confident")]
    assert made.artefacts()["answer"][:3] == [f"{each}/labels.npz" for each in (first, *then)]
    opening, _, later, *_ = parsed(made, "ask")
    assert made.ask_inputs(opening) == {}
    assert made.answered_before(opening) == []
    assert made.ask_inputs(later) == {"labels": f"{first}/labels.npz", "beliefs": f"{first}/beliefs.npz"}
    assert made.answered_before(later) == [f"{first}/labels.npz"]
    assert made.all_asked(later) == [f"{first}/queries.npz", f"{then[1]}/queries.npz"]
    last = made.round(later)
    assert (last.number, last.asked, [each.queries for each in last.history]) == (1, 150, [50, 100])
    assert shlex.split(shell(last.learn_options()))[:4] == ["--method", "supervised", "--queries", "150"]
    assert shlex.split(shell(last.ask_options()))[:4] == ["--strategy", "least-confident", "--queries", "100"]
    assert "150" in shlex.split(shell(last.account_options()))


def test_rounds_begin_with_their_own_strategy_where_it_needs_no_student() -> None:
    made = plan(demo(rounds=[DEMO["rounds"][0] | {"strategy": ["prototypes", "siamese"]}]), seeds=0)
    assert {tuple(each.strategy for each in made.round(asked).history) for asked in parsed(made, "ask")} == {
        ("prototypes",),
        ("prototypes", "prototypes"),
        ("random",),
        ("random", "siamese"),
    }


def test_features_of_a_pool_are_learnt_once_for_all_that_ask_by_them() -> None:
    made = plan(demo(rounds=[DEMO["rounds"][0] | {"strategy": ["random", "prototypes"]}]))
    splits = [f"results/digits/seed-{seed}_pool-400_test-200" for seed in (0, 7)]
    assert made.artefacts()["features"] == [f"{split}/features.npz" for split in splits]
    read = [made.ask_inputs(asked).get("features") for asked in parsed(made, "ask")]
    rounds_of_three_ensembles = 2 * 3
    assert Counter(read) == {None: 12, **dict.fromkeys(made.artefacts()["features"], rounds_of_three_ensembles)}
    assert plan(demo()).artefacts()["features"] == []


def parsed(made: Plan, stage: str) -> list[SimpleNamespace]:
    """The wildcards of every artefact of a stage, found by its documented pattern as Snakemake finds them."""
    constraints = made.wildcard_constraints()
    found = []
    for path in made.artefacts()[stage]:
        regexes = [re.escape(f"{made.results}/{pattern}") for pattern in PATTERNS[stage]]
        for name, constraint in constraints.items():
            regexes = [regex.replace(rf"\{{{name}\}}", f"(?P<{name}>{constraint})") for regex in regexes]
        (match,) = filter(None, (re.fullmatch(regex, path) for regex in regexes))
        found.append(SimpleNamespace(**match.groupdict()))
    return found


@pytest.mark.parametrize("stage", PATTERNS)
def test_lookups_invert_the_paths(stage: str) -> None:
    asking = [DEMO["rounds"][0] | {"strategy": ["prototypes", "least-confident"]}]
    made = plan(demo(rounds=asking), demo(dataset="breast_cancer", test=None))
    wildcards = parsed(made, stage)
    assert wildcards
    for path, each in zip(made.artefacts()[stage], wildcards, strict=True):
        spec: Any = LOOKUPS[stage](made, each)
        if isinstance(spec, Chunk):
            assert path == f"results/{spec.file}"
        else:
            assert path.rsplit("/", 1)[0] == f"results/{spec.folder}"


def test_patterns_match_nothing_else() -> None:
    constraints = plan(demo(students=[], rounds=[])).wildcard_constraints()
    assert set(constraints) == {match for each in PATTERNS.values() for match in re.findall(r"{(\w+)}", each[0])}
    for name, value in (
        ("dataset", "mnist"),
        ("split", "seed-1_pool-400_test-200"),
        ("ensemble", "teachers-10_skew-0x8_mlp_paper"),
        ("ensemble", "baseline"),
        ("first", "a"),
        ("noise", "gamma-0.050"),
        ("student", ""),
        ("student", "anything"),
        ("rounds", ""),
    ):
        assert not re.fullmatch(constraints[name], value), (name, value)


def test_what_no_experiment_asks_for() -> None:
    made = plan(demo())
    wildcards = SimpleNamespace(dataset="digits", split="seed-0_pool-400_test-20", ensemble="x")
    with pytest.raises(PatebenchError, match=r"split digits/seed-0_pool-400_test-20 \(did you mean '.*test-200'"):
        made.split(wildcards)
    with pytest.raises(PatebenchError, match="ensemble digits/seed-0_pool-400_test-20/x"):
        made.ensemble(wildcards)


def test_chunks_that_the_ensemble_is_not_cut_into() -> None:
    made = plan(demo())
    (wildcards, *_) = parsed(made, "teach")
    with pytest.raises(PatebenchError, match="chunks/0-3"):
        made.chunk(SimpleNamespace(**{**vars(wildcards), "last": "3"}))


def test_weights_lie_in_the_ensemble_and_only_on_request() -> None:
    keeping = [{"teachers": 10, "model": "mlp", "keep_weights": keep, "epochs": 1 + keep} for keep in (False, True)]
    made = plan(demo(ensembles=keeping, distillation=[]), seeds=0)
    folder = "results/digits/seed-0_pool-400_test-200/teachers-10_iid_mlp_modern_epochs-2/weights"
    assert [made.weights_options(each)["weights"] for each in parsed(made, "teach")] == [None, folder]


def test_probabilities_are_kept_on_request_alone_and_leave_every_path_as_it_is() -> None:
    plain = plan(demo(ensembles=[{"teachers": 10, "model": "mlp"}], distillation=[]), seeds=0)
    softened = plan(demo(ensembles=[{"teachers": 10, "model": "mlp", "soft": [1, 5]}], distillation=[]), seeds=0)
    assert softened.artefacts() == plain.artefacts()
    asked = [shell(made.chunk(each).options()) for made in (plain, softened) for each in parsed(made, "teach")]
    assert ["--soft 1 --soft 5" in options for options in asked] == [False, True]


def test_distillations_of_one_ensemble_are_joined() -> None:
    fewer = demo(distillation=[{"samples": [50, 100], "model": "mlp", "teachers": 60}])
    made = plan(demo(), fewer, seeds=0)
    (only,) = made.distillations.values()
    assert only.samples == (50, 100, 400)
    assert shlex.split(shell(only.options()))[:2] == ["--samples", "50"]


@pytest.mark.parametrize("needed", [True, False])
def test_shards_that_lack_a_class_are_refused_only_on_request(needed: bool) -> None:
    ensembles = [{"teachers": 10, "model": "mlp", "every_class": needed}]
    made = plan(demo(ensembles=ensembles, distillation=[]), seeds=0)
    (ensemble,) = made.ensembles.values()
    assert ("--need-every-class" in shell(ensemble.partition_options())) == needed


def test_experiments_share_what_they_have_in_common() -> None:
    """The second adds one γ, one number of queries and one student to the first's ensembles."""
    more = demo(
        mechanisms={"lnmax": {"gamma": [0.05, 0.3]}},
        accounting={"delta": 1e-5, "queries": [100, 200]},
        students=[{**DEMO["students"][0], "queries": [100, 200]}],
    )
    alone, both = plan(demo()), plan(demo(), more)
    assert both.ensembles == alone.ensembles
    assert both.splits == alone.splits
    assert len(both.releases) == len(alone.releases) + len(both.ensembles)
    assert len(both.students) == len(alone.students) + len(both.ensembles)
    queries = {(each.release.mechanism, each.release.noise): each.queries for each in both.accounts.values()}
    assert queries == {
        ("lnmax", "gamma-0.05"): (100, 200, 400),
        ("lnmax", "gamma-1"): (100, 400),
        ("lnmax", "gamma-0.3"): (100, 200),
        ("gnmax", "sigma-20"): (100, 400),
    }


def test_artefacts_come_once() -> None:
    made = plan(demo(), demo(), demo(pool=500))
    paths = [path for each in made.artefacts().values() for path in each]
    assert len(paths) == len(set(paths))
    assert set(paths) == {path for each in plan(demo(), demo(pool=500)).artefacts().values() for path in each}


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
    chunks = Ensemble(SPLIT, teachers, Partition(), Learner("mlp", "paper"), chunk).chunks()
    assert [n for each in chunks for n in range(each.first, each.last + 1)] == list(range(teachers))
    assert all(each.last - each.first + 1 == chunk for each in chunks[:-1])


def test_options_of_each_stage() -> None:
    randomness = ["--seed", "0", "--stream"]
    learner = ["--model", "small-cnn", "--recipe", "modern"]
    chunk = ENSEMBLE.chunks()[1]
    skewed = Ensemble(SPLIT, 10, Partition("skew", 0.8), Learner("mlp", "paper", 3))
    student = StudentRun(RELEASE, "supervised", 100, "small-cnn", "modern")
    account = Account(Release(ENSEMBLE, "gnmax", (("sigma", 20.0),)), (100, 400), 1e-5)
    own = Data("mine", "folder", (("private", "my files/a"), ("public", "b")))
    for options, words in (
        (Data("digits").options(), []),
        (own.options(), ["--option", "loader=folder", "--option", "private=my files/a", "--option", "public=b"]),
        (SPLIT.options(), ["--pool", "400", *randomness, SPLIT.folder]),
        (
            skewed.partition_options(),
            ["--teachers", "10", "--strategy", "skew", "--share", "0.8", *randomness, skewed.folder],
        ),
        (chunk.options(), ["--teachers", "25-49", *learner, *randomness, ENSEMBLE.folder]),
        (RELEASE.options(), ["--mechanism", "lnmax", "--parameter", "gamma=0.05", *randomness, RELEASE.folder]),
        (
            account.options(),
            [
                *("--mechanism", "gnmax", "--parameter", "sigma=20", "--queries", "100", "--queries", "400"),
                *("--delta", "1e-05", *randomness, account.folder),
            ],
        ),
        (student.options(), ["--method", "supervised", "--queries", "100", *learner, *randomness, student.folder]),
    ):
        assert shlex.split(shell(options)) == words


def test_access_options() -> None:
    assert shell({"root": "my data", "download": False}) == "--root 'my data' --no-download"
    assert shell({"download": True, "epochs": None}) == "--download"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_shell_keeps_every_value(text: str) -> None:
    assert shlex.split(shell({"root": text, "option": {"a": text}})) == ["--root", text, "--option", f"a={text}"]


@given(st.floats(1e-12, 1e12).map(lambda value: float(f"{value:.11e}")))
def test_numbers_are_spelt_without_loss(value: float) -> None:
    assert float(number(value)) == value
