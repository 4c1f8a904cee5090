"""Test the configuration: what valid settings mean, and that each error is one line."""

import copy
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refuses

from patebench.config import Run, load, validate
from patebench.config.artefacts import Ensemble, Setting
from patebench.config.parameters import DpsgdParameters, FeatureMethodParameters, PrivateKnnParameters, SplitParameters
from patebench.config.schema import page, schema, schema_text
from patebench.core.fields import Parameters

ROOT = Path(__file__).parents[2]
GONE = object()

GOOD: dict[str, Any] = {
    "seeds": [0, 1],
    "experiments": {
        "demo": {
            "dataset": "digits",
            "pool": 400,
            "ensembles": [{"teachers": [10, 50], "model": "small-cnn", "recipe": "modern"}],
            "mechanisms": {"lnmax": {"gamma": [0.05, 0.1]}, "gnmax": {"sigma": 20}},
            "accounting": {"delta": 1e-5, "queries": [100, 400]},
            "students": [
                {
                    "method": "supervised",
                    "teachers": 50,
                    "mechanisms": {"lnmax": {"gamma": 0.05}},
                    "queries": 100,
                    "model": "small-cnn",
                }
            ],
            "baseline": {"model": "logistic"},
        }
    },
}
ROUNDS = {"strategy": "random", "mechanisms": {"gnmax": {"sigma": 5}}, "queries": [50, 50], "method": "supervised"}
KNN = {"form": "sound", "rate": 0.5, "neighbours": 9, "threshold": 6, "sigma1": 2, "sigma2": 1, "queries": 50}
OWN = {"loader": "npz", "private": "a.npz", "public": "b.npz"}
SAME = {"private": f"{ROOT}/README.md", "public": f"{ROOT}/docs/../README.md"}


def changed(key: str, value: Any) -> dict[str, Any]:
    """Return GOOD with the value at `key` replaced, added or removed; a key of the experiment begins with a dot."""
    settings = copy.deepcopy(GOOD)
    *parents, last = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", whole(key))]
    place: Any = settings
    for step in parents:
        place = place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return settings


def whole(key: str) -> str:
    return f"experiments.demo{key}" if key.startswith(".") else key


def twin(**changes: Any) -> dict[str, Any]:
    """Return a second experiment like the first except for `changes`, with neither students nor baseline."""
    demo = copy.deepcopy(GOOD["experiments"]["demo"])
    return {key: value for key, value in demo.items() if key not in ("students", "baseline")} | changes


def jobs(run: Run, stage: str) -> list[str]:
    """Return the names of a stage's jobs, which are the folders of their outputs."""
    return [name.removeprefix(f"{stage}/") for name in run.job_names() if name.startswith(f"{stage}/")]


def options(run: Run, file: str) -> list[dict[str, Any]]:
    """Return the options of all targets of that name."""
    return [found for path, found in run.options.items() if path.endswith(f"/{file}")]


def release(**experiment: Any) -> dict[str, Any]:
    """Return the settings of a release whose experiment differs from that of GOOD in `experiment`."""
    less = {"mechanisms": {"gnmax": {"sigma": 20}}, "students": [], "accounting": {"delta": 1e-5}}
    return {**GOOD, "mode": "release", "seeds": 0, "experiments": {"demo": twin(**less | experiment)}}


ALONE = [{"teachers": 50, "model": "small-cnn"}]
TEACHERS = ALONE[0] | {"recipe": "modern"}
OWNED = {"strategy": "owners", "owners": f"{ROOT}/README.md"}
OWNERS = TEACHERS | {"partition": OWNED}
SCRATCH = {"form": "scratch", "model": "tanh-cnn", "epsilon": 1}
LOCAL = {"epsilon": 2, "unbiased": 1, "participation": 1, "spread": 1}


# Changed key, its value, the code of the error, and the suffix of the key in the error.
WRONG: list[tuple[str, Any, str, str]] = [
    (".ensembles[0].recipy", "x", "unknown-key", ""),
    ("experiments", {}, "empty", ""),
    ("seeds", [1, 1], "twice", ""),
    ("seeds", [0, -1], "bound", "[1]"),
    ("seeds", [True], "type", "[0]"),
    (".rounds", [ROUNDS | {"strategy": ["random", "least-confidant"]}], "unknown-name", "[0].strategy[1]"),
    (".rounds", [ROUNDS | {"queries": [300, 101]}], "bound", "[0].queries"),
    (".dpsgd", [SCRATCH | {"model": "tanh-cmm"}], "unknown-name", "[0].model"),
    (".dpsgd", [SCRATCH | {"compression": 7}], "invalid", "[0].compression"),
    (".dpsgd", [{"form": "linear"}], "missing", "[0].epsilon"),
    (".private_knn", [KNN | {"form": "published", "answers": 10}], "value", "[0].answers"),
    (".private_knn", [KNN | {"queries": 401}], "bound", "[0].queries"),
    (".feature_methods", [{"method": "dppl-mean", "epsilon": 1, "rounds": 2}], "value", "[0].rounds"),
    (".feature_methods", [{"method": "dppl-public", "epsilon": 1, "prototypes": 401}], "bound", "[0].prototypes"),
    (".distillation", [{"samples": 100, "model": "small-cnn"}], "knowledge", "[0]"),
    (".petdl", [{"form": "published", "noise": 1}], "knowledge", "[0]"),
    (".petdl", [{"form": "published"}], "value", "[0].noise"),
    (".rounds", [ROUNDS | {"mechanisms": {"gnmax": {"gamma": 1}}}], "unknown-name", "[0].mechanisms.gnmax.gamma"),
    ("name", "a/b", "name", ""),
    ("name", "mnist", "taken", ""),
    ("download", "perhaps", "type", ""),
    ("only", "demo, svhn", "unknown-name", ""),
    ("results", "~/x", "value", ""),
    ("results", "-rf", "value", ""),
    ("results", f"{ROOT}/README.md", "not-writable", ""),
    ("results", "/proc/results", "not-writable", ""),
    (".dataset", "digit", "unknown-name", ""),
    (".ensembles", [TEACHERS | {"model": "random-forest", "epochs": 7}], "value", "[0].epochs"),
    (
        ".ensembles",
        [OWNERS, TEACHERS | {"partition": {**OWNED, "owners": f"{ROOT}/LICENSE"}}],
        "disagreement",
        "[1].partition.owners",
    ),
    (".ensembles[0].model", "smal-cnn", "unknown-name", ""),
    (".ensembles[0].partition", "idd", "unknown-name", ""),
    (".ensembles[0].partition", "skew", "value", ".share"),
    (".ensembles[0].partition", {"strategy": "iid", "share": 0.5}, "value", ".share"),
    (".ensembles[0].partition", {"strategy": "owners", "owners": "none.npy"}, "missing-file", ".owners"),
    (".mechanisms.lnmaxx", {"gamma": 1}, "unknown-name", ""),
    (".mechanisms.lnmax", {"gama": 1}, "unknown-name", ".gama"),
    (".mechanisms.lnmax.gamma", [0.1, 0], "invalid", "[1]"),
    (".mechanisms.gnmax.sigma", ["inf"], "type", "[0]"),
    (".accounting.delta", 0, "bound", ""),
    (".accounting.queries", [100, 500], "bound", "[1]"),
    (".students[0].teachers", [10, 51], "unknown-name", "[1]"),
    (".students[0].queries", 101, "unknown-name", ""),
    (".baseline", {}, "missing", ".model"),
    ("datasets", {"mine": OWN | {"loader": "npx"}}, "unknown-name", ".mine.loader"),
    ("datasets", {"mine": OWN}, "missing-file", ".mine.private"),
    ("datasets", {"mine": OWN | {"classes": 2, "class_names": ["cat", "dog"]}}, "value", ".mine.classes"),
    ("datasets", {"mine": OWN | SAME}, "same-file", ".mine.public"),
    ("datasets", {"mine": OWN | {"copy_of": "cifar11"}}, "unknown-name", ".mine.copy_of"),
    ("datasets", {"mnist": OWN}, "taken", ".mnist"),
    ("experiments.more", twin(ensembles=[TEACHERS | {"chunk": 5}]), "disagreement", ".ensembles[0].chunk"),
    ("mode", "relase", "unknown-name", ""),
    (".accounting.budget", 0, "bound", ""),
    ("ledger", {"budget": 4}, "value", ".delta"),
    ("ledger", {"private": "a/b"}, "name", ".private"),
    ("results", "r{x}", "value", ""),
    ("secure", {"aggregators": 1}, "bound", ".aggregators"),
    ("experiments.more", twin(accounting={"delta": 1e-6, "queries": 100}), "disagreement", ".accounting.delta"),
]


@pytest.mark.parametrize(("key", "value", "code", "below"), WRONG)
def test_a_mistake_is_one_line_with_the_path_of_its_key(key: str, value: Any, code: str, below: str) -> None:
    with refuses(code, whole(key) + below) as fault:
        validate(changed(key, value))
    assert str(fault.value).startswith(f"{whole(key)}{below}: ")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("key", "value", "code", "where"),
    [
        ("experiments.a b", {}, "name", "experiments"),
        (".mechanisms", {7: {}}, "value", "experiments.demo.mechanisms.7"),
        (".students[0].mechanisms.lnmax.gamma", 0.06, "unknown-name", "experiments.demo.students[0].mechanisms.lnmax"),
        ("mode", "release", "release", "experiments.demo.accounting.queries[0]"),
    ],
)
def test_a_mistake_whose_error_names_another_key(key: str, value: Any, code: str, where: str) -> None:
    with refuses(code, where):
        validate(changed(key, value))


@pytest.mark.parametrize(
    ("key", "value", "code", "words"),
    [
        ("experimants", {}, "unknown-key", "unknown key (did you mean 'experiments'?); allowed here: name, results"),
        (".pool", GONE, "missing", "the key is missing; add it (Number of public samples in the pool, which are"),
        (".pool", 0, "bound", "0 is too small; give at least 1"),
        (".pool", 600, "bound", "600 exceeds the 599 public samples of digits available for the pool; use at most 599"),
        ("seeds", "many", "type", "'many' is not valid; give a whole number or a list"),
        (
            ".students[0].method",
            "supervized",
            "unknown-name",
            "student method 'supervized' (did you mean 'supervised'?",
        ),
        (".dpsgd", [{"form": "linear", "views": 4, "epsilon": 1}], "value", "4 has no effect on the form 'linear'"),
    ],
)
def test_messages_say_what_is_wrong_and_what_to_do(key: str, value: Any, code: str, words: str) -> None:
    with refuses(code) as fault:
        validate(changed(key, value))
    assert words in str(fault.value)


def test_a_release_is_one_label_set_and_says_so_in_its_path() -> None:
    run = validate(release(ensembles=ALONE, accounting={"delta": 1e-5, "budget": 2}))
    (labels,) = jobs(run, "aggregate")
    assert labels.endswith("/gnmax/sigma-20_release_budget-2_delta-1e-05")
    assert run.modes == {f"results/{labels}/labels.npz": "release"}
    assert run.command_options(f"{labels}/labels.npz") == (
        "--mechanism gnmax --parameter sigma=20 --budget 2 --delta 1e-05 --release --ledger results/ledger"
    )
    (account,) = options(run, "bounds.json")
    assert account == {"delta": 1e-5, "ledger": "results/ledger"}, (
        "the stage reads the queries of a release from its labels"
    )
    assert set(validate(GOOD).modes.values()) == {"seeded"}


def test_a_budget_is_for_mechanisms_that_can_keep_it() -> None:
    settings = changed(".accounting.budget", 2)
    validate(settings)
    settings["experiments"]["demo"]["mechanisms"]["distributed-gnmax"] = {"sigma": 9, "tolerance": 2}
    validate(settings)
    with refuses("secure", "experiments.demo.mechanisms.distributed-gnmax"):
        validate(settings | {"secure": {"aggregators": 2}})
    settings["experiments"]["demo"]["mechanisms"]["distributed-gnmax"]["tolerance"] = 10
    with refuses("invalid", "experiments.demo.mechanisms.distributed-gnmax"):
        validate(settings)
    settings["experiments"]["demo"]["mechanisms"] = {"randomised-response": LOCAL}
    with refuses("invalid", "experiments.demo.mechanisms.randomised-response"):
        validate(settings | {"experiments": {"demo": {**settings["experiments"]["demo"], "students": []}}})


@pytest.mark.parametrize("method", ["cluster-consistency", "table-spreading"])
def test_a_student_of_a_private_classifier_has_labels_alone(method: str) -> None:
    settings: tuple[tuple[type[Parameters], dict[str, Any]], ...] = (
        (DpsgdParameters, {"form": "linear", "epsilon": 1, "delta": 1e-5}),
        (FeatureMethodParameters, {"method": "dppl-mean", "epsilon": 1, "delta": 1e-5}),
        (PrivateKnnParameters, KNN | {"delta": 1e-5}),
    )
    for parameters, given in settings:
        for able in ("label-spreading", "nearest-label"):
            parameters.checked(given | {"student": able}, "model")
        with refuses("value", "model.student"):
            parameters.checked(given | {"student": method}, "model")


SOFT = {"ensembles": [ALONE[0] | {"soft": 5}]}
EVERY_CLASS = [ALONE[0] | {"partition": {"every_class": True}}]
TAIL = {"tail": {"loader": "digits", "long_tail": [80, 40]}}


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        (SOFT | {"distillation": [{"samples": 100, "model": "small-cnn"}]}, "release", "distillation[0]"),
        (SOFT | {"dpsgd": [{"form": "linear", "epsilon": 1}]}, "release", "dpsgd[0]"),
        (SOFT | {"private_knn": [KNN]}, "release", "private_knn[0]"),
        (SOFT | {"feature_methods": [{"method": "dppl-mean", "epsilon": 1}]}, "release", "feature_methods[0]"),
        ({"mechanisms": {"randomised-response": LOCAL}}, "invalid", "mechanisms.randomised-response"),
        ({"ensembles": EVERY_CLASS}, "release", "ensembles[0].partition.every_class"),
        ({"ensembles": ALONE, "dataset": "tail"}, "release", "datasets.tail.long_tail"),
    ],
)
def test_a_release_refuses_settings_that_are_not_private(changes: dict[str, Any], code: str, where: str) -> None:
    settings = release(**changes) | {"datasets": TAIL}
    validate(settings | {"mode": "seeded"})
    with refuses(code, where if where.startswith("datasets") else f"experiments.demo.{where}"):
        validate(settings)


def petdl(*settings: dict[str, Any], hints: str | None = "block2", mode: str = "seeded") -> Any:
    """Return a configuration with only teachers and students of PET-DL."""
    ensemble = {"teachers": [2, 4], "model": "conv-small", "hints": hints}
    experiment = {"dataset": "digits", "pool": 400, "ensembles": [ensemble], "accounting": {"delta": 1e-5}}
    return {"seeds": [0], "mode": mode, "experiments": {"demo": {**experiment, "petdl": list(settings)}}}


def test_petdl_cannot_be_released_and_needs_stored_hints() -> None:
    with refuses("release", "experiments.demo.petdl[0]"):
        validate(petdl({"form": "noisy-knowledge", "noise": 1}, mode="release"))
    wanted = {"form": "published", "noise": 1, "hint_epochs": [0, 2]}
    with refuses("knowledge", "experiments.demo.petdl[0].hint_epochs"):
        validate(petdl(wanted, hints="probabilities"))
    assert jobs(validate(petdl({**wanted, "hint_epochs": 0}, hints="probabilities")), "train_petdl")


def test_several_releases_need_a_total_budget() -> None:
    settings = release(mechanisms=GOOD["experiments"]["demo"]["mechanisms"], ensembles=ALONE)
    two = release(ensembles=ALONE)
    validate(two)
    two["experiments"]["other"] = {**two["experiments"]["demo"], "dataset": "wine", "pool": 20, "test": 20}
    for several in (settings, settings | {"ledger": {"private": "patients"}}, two):
        with refuses("several-releases", "mode"):
            validate(several)
    limit = {"budget": 4, "delta": 1e-5}
    told = {"PATEBENCH_LEDGER_BUDGET": "4.0", "PATEBENCH_LEDGER_DELTA": "1e-05"}
    for ledger, private in ((limit, ""), (limit | {"private": "patients"}, "patients")):
        config = validate(settings | {"ledger": ledger})
        assert config.ledger_environment() == {**told, "PATEBENCH_LEDGER_PRIVATE": private}
    assert set(validate(GOOD).ledger_environment().values()) == {""}, "the budget of another run is not used"
    seeded = validate(GOOD | {"ledger": limit})
    assert set(seeded.ledger_environment().values()) == {""}, "a seeded run enters nothing in a ledger"


def test_releases_of_one_ledger_protect_the_same_unit() -> None:
    limit = {"budget": 4, "delta": 1e-5}
    by_hash, by_record, by_owner = (ALONE[0] | {"partition": each} for each in ("hash", "iid", OWNED))
    validate(release(ensembles=[by_hash, by_hash | {"teachers": 5}]) | {"ledger": limit})
    for other in (by_record, by_owner):
        with refuses("other-unit", "ledger"):
            validate(release(ensembles=[by_hash, other]) | {"ledger": limit})
    other_owners = ALONE[0] | {"teachers": 5, "partition": {**OWNED, "owners": f"{ROOT}/LICENSE"}}
    with refuses("other-unit", "ledger"):
        validate(release(ensembles=[by_owner, other_owners]) | {"ledger": limit})
    two = release(ensembles=[by_owner]) | {"ledger": limit | {"private": "patients"}}
    two["experiments"]["other"] = release(ensembles=[by_owner], dataset="wine")["experiments"]["demo"]
    with refuses("other-unit", "ledger"):  # owners of different records under one name
        validate(two)
    two = release(ensembles=[by_hash]) | {"ledger": limit | {"private": "patients"}}
    two["experiments"]["other"] = release(ensembles=[by_owner], dataset="wine")["experiments"]["demo"]
    with refuses("other-unit", "ledger"):
        validate(two)


def test_rounds_can_be_released_alone() -> None:
    """Release the labels of rounds without labels of other queries."""
    settings = release(ensembles=ALONE)
    demo = settings["experiments"]["demo"]
    noise = demo.pop("mechanisms")
    with refuses("missing", "experiments.demo.mechanisms"):
        validate(settings)
    demo["rounds"] = [{"strategy": "prototypes", "mechanisms": noise, "queries": 50, "method": "supervised"}]
    (labels,) = jobs(validate(settings), "aggregate")
    assert labels.endswith("/gnmax/sigma-20_release/supervised/round-0_prototypes-50")
    demo["rounds"][0]["mechanisms"] = {"exponential": {"epsilon": 1}}
    with refuses("invalid", "experiments.demo.rounds[0].mechanisms.exponential"):
        validate(settings)


def test_a_release_partitions_by_hash_and_refuses_strategies_without_protection() -> None:
    def dealt(mode: str, **partition: Any) -> str:
        settings = release(ensembles=[ALONE[0] | partition])
        (ensemble,) = validate(settings | {"mode": mode}).experiments[0].ensembles
        return ensemble.partition.slug

    assert [dealt(mode) for mode in ("seeded", "release")] == ["iid", "hash"]
    assert [dealt(mode, partition={}) for mode in ("seeded", "release")] == ["iid", "hash"]
    assert [dealt(mode, partition="iid") for mode in ("seeded", "release")] == ["iid", "iid"]
    skewed = {"strategy": "skew", "share": 0.5}
    assert dealt("seeded", partition=skewed) == "skew-0.5"
    with refuses("unprotected", "experiments.demo.ensembles[0].partition.strategy"):
        dealt("release", partition=skewed)


@pytest.mark.parametrize("settings", [[], None])
def test_settings_must_be_a_mapping(settings: Any) -> None:
    with refuses("type", "the configuration"):
        validate(settings)


def test_values_from_the_command_line() -> None:
    """Accept --config values as Snakemake parses them: text, lists of text, numbers or nothing."""
    settings = OrderedDict(
        GOOD,
        seeds=["0", "1"],
        only="demo",
        download="False",
        name=None,
        results="out/",
        experiments=GOOD["experiments"],
    )
    config = validate(settings)
    assert not config.download
    assert config.results == config.pages == "out"
    assert config.experiments == validate(GOOD).experiments
    assert validate(settings | {"name": 2017}).pages == "out/2017"
    assert len(jobs(validate(settings | {"seeds": 3}), "train_baseline")) == 1


def test_numbers_may_be_text_and_equal_paths_have_equal_values() -> None:
    good = validate(GOOD)
    assert validate(changed(".accounting.delta", "1e-5")) == good
    assert validate(changed(".mechanisms.lnmax.gamma", ["5e-2", "0.1"])) == good
    assert validate(changed(".pool", "4e2")) == good
    assert validate(changed(".mechanisms.lnmax.gamma", [0.05 + 1e-16, 0.1])) == good


@pytest.mark.parametrize(
    ("ensemble", "recipe"),
    [({"model": "mlp"}, "fast"), ({"model": "mlp", "recipe": "modern"}, "modern"), ({"model": "logistic"}, "modern")],
)
def test_networks_of_teachers_have_a_fast_recipe_by_default(ensemble: dict[str, str], recipe: str) -> None:
    made, _ = validate(changed(".ensembles", [{"teachers": 50, **ensemble}])).experiments[0].ensembles
    assert made.training.recipe == recipe
    assert made.slug == f"teachers-50_iid_{ensemble['model']}_{recipe}"


def test_an_environment_variable_sets_the_folder_of_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATEBENCH_DATA", raising=False)
    assert validate(GOOD).access_options() == "--root data --download"
    monkeypatch.setenv("PATEBENCH_DATA", "/else where")
    assert validate(GOOD).access_options() == "--root '/else where' --download"


def test_a_misspelt_key_is_named_before_the_missing_one() -> None:
    with refuses("unknown-key", "pol"):
        SplitParameters.checked({"pol": 400})


def test_own_data_and_owners(tmp_path: Path) -> None:
    private, public, column = (str(tmp_path / name) for name in ("a.npz", "b.npz", "owners.npy"))
    for path in (private, public, column):
        Path(path).touch()
    settings = changed(".ensembles[0].partition", {"strategy": "owners", "owners": column})
    settings["experiments"]["demo"]["dataset"] = "mine"
    settings["datasets"] = {"mine": {"loader": "npz", "private": private, "public": public}}
    run = validate(settings, files=False)
    assert options(run, "private.npz")[0]["option"] == {"loader": "npz", "private": private, "public": public}
    assert list(run.own_files.values()) == [[private, public], *[[column]] * 4]
    settings["datasets"]["mine"]["class_names"] = ["cat", "dog"]
    named = validate(settings, files=False)
    assert options(named, "private.npz")[0]["class-names"] == ("cat", "dog")
    settings["datasets"]["mine"]["copy_of"] = "cifar10"
    copied = validate(settings, files=False)
    assert (copied.copies, named.copies) == ({"mine": "cifar10"}, {})
    assert copied.options == named.options, "copy_of changes no options"
    with refuses("taken", "name"):
        validate(settings | {"name": "mine"}, files=False)


def test_files_of_an_experiment_that_is_left_out_may_be_missing() -> None:
    own = {**GOOD["experiments"]["demo"], "dataset": "mine"}
    datasets = {"mine": {"loader": "npz", "private": "a.npz", "public": "b.npz"}}
    settings = {**GOOD, "datasets": datasets, "experiments": {**GOOD["experiments"], "own": own}}
    assert [each.name for each in validate({**settings, "only": ["demo"]}).experiments] == ["demo"]
    for only in ([], ["own"], ["demo", "own"]):
        with refuses("missing-file", "datasets.mine.private"):
            validate({**settings, "only": only})


@pytest.mark.slow
def test_papers_use_three_seeds_unless_the_command_line_sets_others() -> None:
    for path in ROOT.glob("config/papers/*.yaml"):
        written = load(path)
        releases = written.get("mode") == "release"
        assert validate(written).seeds == ((0,) if releases else (0, 1, 2)), path
        assert validate({**written, "seeds": "4"}).seeds == (4,), path
    assert jobs(validate(load(ROOT / "config/config.yaml")), "data") == ["digits"], "it needs no download"


@pytest.mark.parametrize("only", ["demo,more", " demo , more ,", ["demo", "more"], "more"])
def test_experiments_are_selected_by_a_list_or_by_commas_and_all_are_checked(only: Any) -> None:
    settings = copy.deepcopy(GOOD)
    settings["experiments"] |= {"more": twin(pool=401), "other": twin(pool=402)}
    assert [each.name for each in validate(settings).experiments] == ["demo", "more", "other"]
    chosen = [each.name for each in validate(settings | {"only": only}).experiments]
    assert chosen == (["more"] if only == "more" else ["demo", "more"])
    settings["experiments"]["other"] = twin(pool=0)
    with refuses("bound", "experiments.other.pool"):
        validate(settings | {"only": only})


def test_the_schema_and_the_page_are_those_of_the_settings_and_describe_every_key() -> None:
    """Compare the committed files with the output of `patebench config schema` and `patebench config page`."""
    assert (ROOT / "config" / "config.schema.json").read_text(encoding="utf-8") == schema_text()
    assert (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8") == page()
    assert "|  |" not in page()


def test_the_schema_agrees_with_the_settings() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    for file in (ROOT / "config").rglob("*.yaml"):
        # YAML reads 1.0e-5 as a number, but 1e-5 as text, which only patebench accepts as a number.
        assert not list(validator.iter_errors(load(file))), file
    assert list(validator.iter_errors(changed(".pool", 0)))
    assert list(validator.iter_errors(changed(".poll", 4)))


def test_the_file_of_an_own_encoder_is_an_input_and_option_of_its_stage(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    own = {"encoder": "mine", "encoder_file": str(tmp_path / "net.onnx"), "encoder_data": "LAION-400M"}
    run = validate({"seeds": 0, "experiments": {"one": ONE_VOTE | own}})
    (features,) = options(run, "features.npz")
    assert features["network"] == own["encoder_file"]
    assert run.own_files["digits/seed-0_pool-100_mine"] == [own["encoder_file"]]
    (split,) = options(run, "pool.npz")
    assert (split["encoder"], split["encoder-data"]) == ("mine", "LAION-400M")
    for change, code, key in (
        ({"encoder_file": "none.onnx"}, "missing-file", "encoder_file"),
        ({"encoder_file": None}, "missing", "encoder_file"),
        ({"encoder": "imagenet"}, "value", "encoder_data"),
        ({"encoder_data": None}, "unknown-name", "encoder"),
    ):
        with refuses(code, f"experiments.one.{key}"):
            validate({"seeds": 0, "experiments": {"one": ONE_VOTE | own | change}})


ONE_VOTE = {
    "dataset": "digits",
    "pool": 100,
    "queries": 10,
    "ensembles": [{"teachers": 500, "model": "nearest-query"}],
    "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 5}},
    "accounting": {"delta": 1e-5},
}


def one_vote(**changes: Any) -> Run:
    """Return the run of records that vote on selected queries; keys with the value None are left out."""
    wanted = {key: value for key, value in {**ONE_VOTE, **changes}.items() if value is not None}
    secure = {"secure": wanted.pop("secure")} if "secure" in wanted else {}
    return validate({"seeds": 0, "experiments": {"one": wanted}, **secure})


def test_students_of_a_table_read_features_if_features_selected_its_queries() -> None:
    table = {"sparse-gnmax": {"k": 10, "sigma": 5}}
    both = table | {"gnmax": {"sigma": 5}}
    students = [{"method": "supervised", "queries": 10, "mechanisms": both}]
    made = one_vote(ensembles=[MLP], mechanisms=both, students=students)
    assert len(jobs(made, "train_student")) == 2
    (student,) = (path for path in made.uses_features if path.endswith("/student.json"))
    assert "/sparse-gnmax/" in student
    for strategy in ("prototypes", "random"):
        rounds = {"strategy": strategy, "queries": [10], "mechanisms": table, "method": "supervised"}
        made = one_vote(queries=None, mechanisms=None, ensembles=[MLP], rounds=[rounds])
        (student,) = jobs(made, "train_student")
        assert (f"{student}/student.json" in made.uses_features) == (strategy == "prototypes")


def test_records_that_vote_on_several_queries_vote_on_random_ones() -> None:
    table = {"mechanisms": {"sparse-gnmax": {"k": 3, "sigma": 5}}}
    students = [{"method": method, **table} for method in ("supervised", "table-regression")]
    made = one_vote(**table, ensembles=[NEAREST | {"neighbours": 3}], students=students, encoder="patches")
    ensemble = "digits/seed-0_pool-100_patches/teachers-500_queries-10_iid_nearest-query_modern_neighbours-3"
    assert made.selections == {ensemble: ["random-10"]}
    assert made.uses_features == {f"{ensemble}/votes.npz"}, "neither queries nor students read features"
    (student,) = made.uses_encoder - made.uses_features
    assert "/table-regression_" in student


SPARSE = "distributed-sparse-gnmax"
TOLERANT = {"sigma": 60, "tolerance": 9}
SHARED = {SPARSE: {"k": 1, **TOLERANT}}
SECURE = {"secure": {"aggregators": 2}}
IN_ROUNDS = ROUNDS | {"strategy": "unsure-prototypes", "queries": [5, 5], "mechanisms": SHARED}


NEAREST = {"teachers": 500, "model": "nearest-query"}
MLP = {"teachers": 5, "model": "mlp"}
WEIGHTED = {"teachers": 500, "model": "feature-votes"}
TWICE = {"sparse-gnmax": {"k": 2, "sigma": 5}}


@pytest.mark.parametrize(
    ("changes", "code", "below"),
    [
        ({"mechanisms": {"gnmax": {"sigma": 5}}}, "abstentions", "mechanisms.gnmax"),
        ({"queries": 101}, "bound", "queries"),
        ({"queries": [10, 101]}, "bound", "queries[1]"),
        ({"public_reference": {"clusters": [10, 101]}}, "bound", "public_reference.clusters[1]"),
        ({"baseline": {"model": "nearest-query"}}, "learner", "baseline.model"),
        ({"true_label_baseline": {"queries": 5, "model": "nearest-query"}}, "learner", "true_label_baseline.model"),
        ({"ensembles": [NEAREST | {"soft": [1]}]}, "value", "ensembles[0].soft"),
        ({"ensembles": [NEAREST | {"hints": "block2"}]}, "value", "ensembles[0].hints"),
        ({"ensembles": [MLP | {"neighbours": 2}]}, "value", "ensembles[0].neighbours"),
        ({"ensembles": [NEAREST | {"neighbours": 11}]}, "bound", "ensembles[0].neighbours"),
        ({"encoder": "patch"}, "unknown-name", "encoder"),
        ({"encoder": "graph", "dpsgd": [{"form": "fine-tuned", "epsilon": 1}]}, "value", "dpsgd[0].form"),
        ({"ensembles": [WEIGHTED | {"neighbours": 2}]}, "value", "ensembles[0].neighbours"),
        ({"ensembles": [WEIGHTED], "queries": None}, "missing", "queries"),
        ({"ensembles": [WEIGHTED], "mechanisms": TWICE, "students": []}, "weights", "mechanisms.sparse-gnmax"),
        ({"distillation": [{"model": "mlp", "samples": 10}], "ensembles": [MLP]}, "queries", "distillation[0]"),
        ({"rounds": [ROUNDS | {"mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 5}}}]}, "queries", "rounds[0]"),
        (SECURE | {"mechanisms": {"distributed-gnmax": TOLERANT}}, "abstentions", "mechanisms.distributed-gnmax"),
        (SECURE | {"mechanisms": {SPARSE: {"k": 1, **TOLERANT, "tolerance": 500}}}, "invalid", f"mechanisms.{SPARSE}"),
        (
            SECURE | {"queries": None, "mechanisms": None, "rounds": [IN_ROUNDS]},
            "secure",
            f"rounds[0].mechanisms.{SPARSE}",
        ),
    ],
)
def test_settings_that_exclude_selected_queries_or_abstentions_are_refused(
    changes: dict[str, Any], code: str, below: str
) -> None:
    with refuses(code, f"experiments.one.{below}"):
        one_vote(**changes)


def test_comparisons_of_settings_grow_linearly_with_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    for kind in (Setting, Ensemble):

        def equal(self: Any, other: object, same: Callable[[Any, object], bool] = kind.__eq__) -> bool:
            compared.append(self)
            return same(self, other)

        monkeypatch.setattr(kind, "__eq__", equal)

    def comparisons(n: int) -> int:
        grid = {"gnmax": {"sigma": [float(i) for i in range(1, n + 1)]}}
        student = GOOD["experiments"]["demo"]["students"][0] | {"mechanisms": grid}
        changes = {"mechanisms": grid, "students": [student], "audit": {"runs": 1000}}
        compared.clear()
        validate({**GOOD, "experiments": {"demo": twin(**changes)}})
        return len(compared)

    assert comparisons(40) < 2.2 * comparisons(20)
