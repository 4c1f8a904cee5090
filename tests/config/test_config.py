"""The configuration: what is accepted and what it means, and one clear line for everything that is not."""

import copy
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from patebench.config import Run, load, validate
from patebench.config.parameters import PartitionParameters, SplitParameters
from patebench.config.schema import page, schema, schema_text
from patebench.core.errors import PatebenchError

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
ENSEMBLE, STUDENT = "experiments/demo/ensembles/0", "experiments/demo/students/0"


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with the value at `path` (steps joined by "/") replaced, added, or taken away."""
    settings = copy.deepcopy(GOOD)
    *parents, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = settings
    for step in parents:
        place = place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return settings


def twin(**changes: Any) -> dict[str, Any]:
    """A second experiment like the first but for `changes`, with neither students nor baseline."""
    demo = copy.deepcopy(GOOD["experiments"]["demo"])
    return {key: value for key, value in demo.items() if key not in ("students", "baseline")} | changes


def jobs(run: Run, stage: str) -> list[str]:
    """The names of a stage's jobs, which are the folders of what they make."""
    return [name.removeprefix(f"{stage}/") for name in run.job_names() if name.startswith(f"{stage}/")]


def options(run: Run, file: str) -> list[dict[str, Any]]:
    """The options of all targets of that name."""
    return [found for path, found in run.options.items() if path.endswith(f"/{file}")]


# Where the mistake is, the mistake, and what the line must say besides the path of the key.
WRONG: dict[str, tuple[str, Any, str, list[str]]] = {
    "misspelt top key": ("experimants", {}, "experimants", ["did you mean 'experiments'", "seeds"]),
    "misspelt key": (f"{ENSEMBLE}/recipy", "x", "experiments.demo.ensembles[0].recipy", ["'recipe'", "chunk"]),
    "missing key": ("experiments/demo/pool", GONE, "experiments.demo.pool", ["missing", "queries"]),
    "no experiments": ("experiments", {}, "experiments", ["empty"]),
    "no seeds": ("seeds", GONE, "seeds", ["missing"]),
    "empty seeds": ("seeds", [], "seeds", ["empty", "at least one"]),
    "seed twice": ("seeds", [1, 1], "seeds", ["[1, 1]", "twice"]),
    "negative seed": ("seeds", [0, -1], "seeds[1]", ["-1", "at least 0"]),
    "truth value as seed": ("seeds", [True], "seeds[0]", ["true", "a whole number is needed"]),
    "broken seed": ("seeds", [0.5], "seeds[0]", ["0.5", "a whole number is needed"]),
    "word as seed": ("seeds", "many", "seeds", ["'many'", "a whole number or a list"]),
    "rounds of an unknown strategy": (
        "experiments/demo/rounds",
        [ROUNDS | {"strategy": ["random", "least-confidant"]}],
        "experiments.demo.rounds[0].strategy[1]",
        ["did you mean 'least-confident'"],
    ),
    "rounds that ask more than there is": (
        "experiments/demo/rounds",
        [ROUNDS | {"queries": [300, 101]}],
        "experiments.demo.rounds[0].queries",
        ["is 401", "the pool holds 400"],
    ),
    "DP-SGD in an unknown form": (
        "experiments/demo/dpsgd",
        [{"form": "linaer", "epsilon": 1}],
        "experiments.demo.dpsgd[0].form",
        ["did you mean 'linear'"],
    ),
    "DP-SGD of an unknown model": (
        "experiments/demo/dpsgd",
        [{"form": "scratch", "model": "tanh-cmm", "epsilon": 1}],
        "experiments.demo.dpsgd[0].model",
        ["did you mean 'tanh-cnn'"],
    ),
    "DP-SGD of a model where there is none to choose": (
        "experiments/demo/dpsgd",
        [{"form": "linear", "model": "mlp", "epsilon": 1}],
        "experiments.demo.dpsgd[0].model",
        ["is 'mlp', and the form linear has none to choose"],
    ),
    "a compressed model that has no other size": (
        "experiments/demo/dpsgd",
        [{"form": "scratch", "model": "tanh-cnn", "compression": 6.83, "epsilon": 1}],
        "experiments.demo.dpsgd[0].compression",
        ["conv-middle or conv-small"],
    ),
    "compression of a model that is not named": (
        "experiments/demo/dpsgd",
        [{"form": "scratch", "compression": 6.83, "epsilon": 1}],
        "experiments.demo.dpsgd[0].compression",
        ["needs a network"],
    ),
    "views of features": (
        "experiments/demo/dpsgd",
        [{"form": "linear", "views": 4, "epsilon": 1}],
        "experiments.demo.dpsgd[0].views",
        ["is 4, and the form linear"],
    ),
    "DP-SGD without an ε": ("experiments/demo/dpsgd", [{"form": "linear"}], "experiments.demo.dpsgd[0].epsilon", []),
    "DP-SGD at no ε": (
        "experiments/demo/dpsgd",
        [{"form": "linear", "epsilon": [1, 0]}],
        "experiments.demo.dpsgd[0].epsilon[1]",
        ["is 0; a value above 0 is needed"],
    ),
    "DP-SGD at a δ that no accountant reaches": (
        "experiments/demo/dpsgd",
        [{"form": "linear", "epsilon": 1, "delta": 1e-12}],
        "experiments.demo.dpsgd[0].delta",
        ["is 1e-12; a value of at least 1e-08 is needed"],
    ),
    "DP-SGD at a rate above one": (
        "experiments/demo/dpsgd",
        [{"form": "linear", "epsilon": 1, "rate": 2}],
        "experiments.demo.dpsgd[0].rate",
        ["is 2; a value of at most 1 is needed"],
    ),
    "Private-kNN in an unknown form": (
        "experiments/demo/private_knn",
        [KNN | {"form": "publishd"}],
        "experiments.demo.private_knn[0].form",
        ["did you mean 'published'"],
    ),
    "Private-kNN as published with a cap": (
        "experiments/demo/private_knn",
        [KNN | {"form": "published", "answers": 10}],
        "experiments.demo.private_knn[0].answers",
        ["is 10, and the form published answers all queries that pass"],
    ),
    "Private-kNN that asks more than there is": (
        "experiments/demo/private_knn",
        [KNN | {"queries": 401}],
        "experiments.demo.private_knn[0].queries",
        ["is 401", "the pool holds 400"],
    ),
    "Private-kNN with an unknown student": (
        "experiments/demo/private_knn",
        [KNN | {"student": "consistensy"}],
        "experiments.demo.private_knn[0].student",
        ["did you mean 'consistency'"],
    ),
    "Private-kNN without noise that is said": (
        "experiments/demo/private_knn",
        [{name: value for name, value in KNN.items() if name != "sigma2"}],
        "experiments.demo.private_knn[0].sigma2",
        ["is missing"],
    ),
    "distillation without probabilities": (
        "experiments/demo/distillation",
        [{"samples": 100, "model": "small-cnn"}],
        "experiments.demo.distillation[0]",
        ["teachers-10_iid_small-cnn_modern", "soft: [1, 5]"],
    ),
    "distillation from more than there is": (
        "experiments/demo/distillation",
        [{"samples": [100, 500], "model": "small-cnn"}],
        "experiments.demo.distillation[0].samples[1]",
        ["500", "400"],
    ),
    "distillation into an unknown model": (
        "experiments/demo/distillation",
        [{"samples": 100, "model": "smal-cnn"}],
        "experiments.demo.distillation[0].model",
        ["did you mean 'small-cnn'"],
    ),
    "PET-DL without knowledge": (
        "experiments/demo/petdl",
        [{"form": "published", "noise": 1}],
        "experiments.demo.petdl[0]",
        ["teachers-10_iid_small-cnn_modern", "hints: block2"],
    ),
    "PET-DL of an unknown form": (
        "experiments/demo/petdl",
        [{"form": ["published", "noisy-gradients"], "noise": 1}],
        "experiments.demo.petdl[0].form[1]",
        ["did you mean 'noisy-gradient'"],
    ),
    "PET-DL without noise": (
        "experiments/demo/petdl",
        [{"form": "published"}],
        "experiments.demo.petdl[0].noise",
        ["is needed, or epsilon in its place"],
    ),
    "PET-DL of more than there is": (
        "experiments/demo/petdl",
        [{"form": "noisy-knowledge", "noise": 1, "samples": [10, 500]}],
        "experiments.demo.petdl[0].samples[1]",
        ["500", "400"],
    ),
    "a temperature of 0": (f"{ENSEMBLE}/soft", [1, 0], "experiments.demo.ensembles[0].soft[1]", ["0", "above 0"]),
    "rounds of other teachers": (
        "experiments/demo/rounds",
        [ROUNDS | {"teachers": 20}],
        "experiments.demo.rounds[0].teachers",
        ["20", "allowed: 10, 50"],
    ),
    "rounds with a parameter of another mechanism": (
        "experiments/demo/rounds",
        [ROUNDS | {"mechanisms": {"gnmax": {"gamma": 1}}}],
        "experiments.demo.rounds[0].mechanisms.gnmax.gamma",
        ["'gamma'", "sigma"],
    ),
    "name with a slash": ("name", "a/b", "name", ["'a/b'", "only letters, digits"]),
    "name that climbs": ("name", "..", "name", ["'..'", "only letters"]),
    "name of a data set": ("name", "mnist", "name", ["'mnist'", "data sets", "none of", "digits"]),
    "name of a pages folder": ("name", "figures", "name", ["'figures'"]),
    "truth value as results": ("results", True, "results", ["true", "text is needed"]),
    "download in words": ("download", "perhaps", "download", ["'perhaps'", "true or false"]),
    "unknown in only, with a comma": ("only", "demo, svhn", "only", ["'svhn'", "allowed: demo"]),
    "results at a home": ("results", "~/x", "results", ["is '~/x'", "write ./~/x or a whole path"]),
    "results like an option": ("results", "-rf", "results", ["is '-rf'", "write ./-rf or a whole path"]),
    "a file as results": ("results", f"{ROOT}/README.md", "results", ["README.md is a file; give a folder"]),
    "results in a file": ("results", f"{ROOT}/README.md/a/b", "results", ["README.md is a file; give a folder"]),
    "pool of all there is": ("experiments/demo/pool", 600, "experiments.demo.pool", ["digits has 600", "at most 599"]),
    "test set beyond the pool": ("experiments/demo/test", 201, "experiments.demo.test", ["is 201", "at most 200"]),
    "unknown in only": ("only", ["demos"], "only[0]", ["'demos'", "did you mean 'demo'", "allowed: demo"]),
    "unknown in only, alone": ("only", "svhn", "only", ["'svhn'", "allowed: demo"]),
    "experiment's name": ("experiments/a b", {}, "experiments", ["'a b'", "no plain name"]),
    "key that is no text": ("experiments/demo/mechanisms/7", {}, "experiments.demo.mechanisms.7", ["quotes"]),
    "data set": ("experiments/demo/dataset", "digit", "experiments.demo.dataset", ["did you mean 'digits'", "svhn"]),
    "loader as data set": ("experiments/demo/dataset", "npz", "experiments.demo.dataset", ["'npz'", "digits"]),
    "no pool": ("experiments/demo/pool", 0, "experiments.demo.pool", ["is 0", "at least 1"]),
    "empty pool": ("experiments/demo/pool", None, "experiments.demo.pool", ["empty", "a whole number"]),
    "negative test": ("experiments/demo/test", -5, "experiments.demo.test", ["-5", "at least 1"]),
    "no ensembles": ("experiments/demo/ensembles", [], "experiments.demo.ensembles", ["empty"]),
    "ensembles no list": (
        "experiments/demo/ensembles",
        {"teachers": 5},
        "experiments.demo.ensembles",
        ["{'teachers': 5}", "a list is needed"],
    ),
    "no teachers": (f"{ENSEMBLE}/teachers", [10, 0], "experiments.demo.ensembles[0].teachers[1]", ["at least 1"]),
    "model": (
        f"{ENSEMBLE}/model",
        "smal-cnn",
        "experiments.demo.ensembles[0].model",
        ["'small-cnn'", "paper-cnn-deep"],
    ),
    "recipe": (f"{ENSEMBLE}/recipe", "moderm", "experiments.demo.ensembles[0].recipe", ["'modern'", "paper"]),
    "no epochs": (f"{ENSEMBLE}/epochs", 0, "experiments.demo.ensembles[0].epochs", ["is 0", "at least 1"]),
    "no chunk": (f"{ENSEMBLE}/chunk", 0, "experiments.demo.ensembles[0].chunk", ["is 0", "at least 1"]),
    "keep_weights as number": (
        f"{ENSEMBLE}/keep_weights",
        1,
        "experiments.demo.ensembles[0].keep_weights",
        ["is 1", "true or false"],
    ),
    "strategy": (f"{ENSEMBLE}/partition", "idd", "experiments.demo.ensembles[0].partition", ["'iid'", "skew"]),
    "strategy in a mapping": (
        f"{ENSEMBLE}/partition",
        {"strategy": "skewed", "share": 0.5},
        "experiments.demo.ensembles[0].partition.strategy",
        ["did you mean 'skew'"],
    ),
    "skew without share": (
        f"{ENSEMBLE}/partition",
        "skew",
        "experiments.demo.ensembles[0].partition.share",
        ["missing"],
    ),
    "share above 1": (
        f"{ENSEMBLE}/partition",
        {"strategy": "skew", "share": 1.2},
        "experiments.demo.ensembles[0].partition.share",
        ["1.2", "at most 1"],
    ),
    "share for iid": (
        f"{ENSEMBLE}/partition",
        {"strategy": "iid", "share": 0.5},
        "experiments.demo.ensembles[0].partition.share",
        ["0.5", "'skew'", "'iid'"],
    ),
    "column that is not there": (
        f"{ENSEMBLE}/partition",
        {"strategy": "owners", "owners": "none.npy"},
        "experiments.demo.ensembles[0].partition.owners",
        ["no none.npy"],
    ),
    "mechanism": (
        "experiments/demo/mechanisms/lnmaxx",
        {"gamma": 1},
        "experiments.demo.mechanisms.lnmaxx",
        ["'lnmax'", "gnmax"],
    ),
    "mechanism without parameters": (
        "experiments/demo/mechanisms/lnmax",
        None,
        "experiments.demo.mechanisms.lnmax",
        ["empty", "a mapping is needed"],
    ),
    "parameter's name": (
        "experiments/demo/mechanisms/lnmax",
        {"gama": 1},
        "experiments.demo.mechanisms.lnmax.gama",
        ["did you mean 'gamma'"],
    ),
    "missing parameter": (
        "experiments/demo/mechanisms/lnmax",
        {},
        "experiments.demo.mechanisms.lnmax",
        ["lacks", "'gamma'"],
    ),
    "γ of 0": (
        "experiments/demo/mechanisms/lnmax/gamma",
        [0.1, 0],
        "experiments.demo.mechanisms.lnmax.gamma[1]",
        ["gamma = 0", "above 0"],
    ),
    "negative σ": (
        "experiments/demo/mechanisms/gnmax/sigma",
        -40,
        "experiments.demo.mechanisms.gnmax.sigma",
        ["sigma = -40"],
    ),
    "γ that is no number": (
        "experiments/demo/mechanisms/lnmax/gamma",
        float("nan"),
        "experiments.demo.mechanisms.lnmax.gamma",
        ["nan", "finite"],
    ),
    "infinite σ in words": (
        "experiments/demo/mechanisms/gnmax/sigma",
        ["inf"],
        "experiments.demo.mechanisms.gnmax.sigma[0]",
        ["inf", "finite"],
    ),
    "truth value as γ": (
        "experiments/demo/mechanisms/lnmax/gamma",
        True,
        "experiments.demo.mechanisms.lnmax.gamma",
        ["true", "a number or a list"],
    ),
    "no γ": ("experiments/demo/mechanisms/lnmax/gamma", [], "experiments.demo.mechanisms.lnmax.gamma", ["empty"]),
    "δ of 0": (
        "experiments/demo/accounting/delta",
        0,
        "experiments.demo.accounting.delta",
        ["is 0", "least 1e-300"],
    ),
    "δ of 1": ("experiments/demo/accounting/delta", "1.0", "experiments.demo.accounting.delta", ["1.0", "below 1"]),
    "too many queries": (
        "experiments/demo/accounting/queries",
        [100, 500],
        "experiments.demo.accounting.queries[1]",
        ["is 500", "at most 400"],
    ),
    "method": (f"{STUDENT}/method", "supervized", "experiments.demo.students[0].method", ["'supervised'"]),
    "student's model": (f"{STUDENT}/model", "mpl", "experiments.demo.students[0].model", ["did you mean 'mlp'"]),
    "student's teachers": (
        f"{STUDENT}/teachers",
        [10, 51],
        "experiments.demo.students[0].teachers[1]",
        ["51", "10, 50"],
    ),
    "student's queries": (f"{STUDENT}/queries", 101, "experiments.demo.students[0].queries", ["101", "100, 400"]),
    "student's γ": (
        f"{STUDENT}/mechanisms/lnmax/gamma",
        0.06,
        "experiments.demo.students[0].mechanisms.lnmax",
        ["lnmax/gamma-0.06", "did you mean 'lnmax/gamma-0.0", "lnmax/gamma-0.1", "gnmax/sigma-20"],
    ),
    "student's mechanism": (
        f"{STUDENT}/mechanisms",
        {"gnmx": {"sigma": 20}},
        "experiments.demo.students[0].mechanisms.gnmx",
        ["did you mean 'gnmax'"],
    ),
    "baseline's model": (
        "experiments/demo/baseline/model",
        "random forest",
        "experiments.demo.baseline.model",
        ["did you mean 'random-forest'"],
    ),
    "baseline without model": ("experiments/demo/baseline", {}, "experiments.demo.baseline.model", ["missing"]),
    "own data set's loader": (
        "datasets",
        {"mine": {"loader": "npx", "private": "a", "public": "b"}},
        "datasets.mine.loader",
        ["did you mean 'npz'", "folder"],
    ),
    "own data set's files": (
        "datasets",
        {"mine": {"loader": "npz", "private": "a.npz", "public": "b.npz"}},
        "datasets.mine.private",
        ["no a.npz"],
    ),
    "classes told twice": (
        "datasets",
        {"mine": {"loader": "npz", "private": "a", "public": "b", "classes": 2, "class_names": ["cat", "dog"]}},
        "datasets.mine.classes",
        ["beside class_names", "leave one of them out"],
    ),
    "classes in one text": (
        "datasets",
        {"mine": {"loader": "npz", "private": "a", "public": "b", "class_names": "cat,dog"}},
        "datasets.mine.class_names",
        ["is one name, 'cat,dog'", "give a list, or --class-names once for each class"],
    ),
    "a class twice": (
        "datasets",
        {"mine": {"loader": "npz", "private": "a", "public": "b", "class_names": ["cat", "cat"]}},
        "datasets.mine.class_names",
        ["holds a value twice"],
    ),
    "own data that are private and public": (
        "datasets",
        {"mine": {"loader": "npz", "private": f"{ROOT}/README.md", "public": f"{ROOT}/docs/../README.md"}},
        "datasets.mine.public",
        ["is the private part too", "docs/own-data.md"],
    ),
    "own data set's original": (
        "datasets",
        {"mine": {"loader": "npz", "private": "a", "public": "b", "copy_of": "cifar11"}},
        "datasets.mine.copy_of",
        ["did you mean 'cifar10'"],
    ),
    "own data set's name": (
        "datasets",
        {"mnist": {"loader": "npz", "private": "a", "public": "b"}},
        "datasets.mnist",
        ["taken"],
    ),
    "two sizes of chunk": (
        "experiments/more",
        twin(ensembles=[{"teachers": 50, "model": "small-cnn", "chunk": 5}]),
        "experiments.more.ensembles[0].chunk",
        ["is 5", "experiments.demo.ensembles[0].chunk is 25", "teachers-50_iid_small-cnn_modern"],
    ),
    "mode": ("mode", "relase", "mode", ["did you mean 'release'", "one of seeded, release is needed"]),
    "ε of fewer queries than are released": (
        "mode",
        "release",
        "experiments.demo.accounting.queries[0]",
        ["is 100", "labels of all 400", "leave it out"],
    ),
    "a budget of nothing": ("experiments/demo/accounting/budget", 0, "experiments.demo.accounting.budget", ["above 0"]),
    "a limit without δ": ("ledger", {"budget": 4}, "ledger.delta", ["is missing", "a budget and a delta"]),
    "a limit without ε": ("ledger", {"delta": 1e-5, "private": "a"}, "ledger.budget", ["is missing"]),
    "a ledger of nothing": ("ledger", {}, "ledger.budget", ["is missing"]),
    "a name that is a path": ("ledger", {"private": "a/b"}, "ledger.private", ["'a/b'", "no plain name"]),
    "results with a wildcard": ("results", "r{x}", "results", ["'r{x}'", "without braces"]),
    "too many aggregators": ("secure", {"aggregators": 10**9}, "secure.aggregators", ["at most 100"]),
    "one aggregator": ("secure", {"aggregators": 1}, "secure.aggregators", ["at least 2"]),
    "two δ": (
        "experiments/more",
        twin(accounting={"delta": 1e-6, "queries": 100}),
        "experiments.more.accounting.delta",
        ["1e-06", "experiments.demo.accounting.delta is 1e-05"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_line(name: str) -> None:
    path, value, where, fragments = WRONG[name]
    settings = changed(path, value)
    if name == "key that is no text":
        settings["experiments"]["demo"]["mechanisms"] = {7: {}}
    with pytest.raises(PatebenchError) as fault:
        validate(settings)
    line = str(fault.value)
    assert line.startswith(f"{where}: ")
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line


def test_the_good_one_is_good() -> None:
    run = validate(GOOD)
    counts = [len(jobs(run, stage)) for stage in ("account", "train_student", "train_baseline")]
    assert counts == [2 * 2 * 3, 2, 2]


def test_a_release_is_one_label_set_and_says_so_in_its_path() -> None:
    settings = changed("experiments/demo/mechanisms", {"gnmax": {"sigma": 20}}) | {"mode": "release", "seeds": 0}
    settings["experiments"]["demo"] |= {"ensembles": [{"teachers": 50, "model": "small-cnn"}], "students": []}
    settings["experiments"]["demo"]["accounting"] = {"delta": 1e-5, "budget": 2}
    run = validate(settings)
    (labels,) = jobs(run, "aggregate")
    assert labels.endswith("/gnmax/sigma-20_release_budget-2_delta-1e-05")
    assert run.modes == {f"results/{labels}/labels.npz": "release"}
    assert run.command_options(f"results/{labels}/labels.npz") == (
        "--mechanism gnmax --parameter sigma=20 --budget 2 --delta 1e-05 --release --ledger results/ledger"
    )
    (account,) = options(run, "bounds.json")
    assert account == {"delta": 1e-5, "ledger": "results/ledger"}, "what was released is read from the labels"
    assert set(validate(GOOD).modes.values()) == {"seeded"}


def test_a_budget_is_for_mechanisms_that_can_keep_it() -> None:
    settings = changed("experiments/demo/accounting/budget", 2)
    validate(settings)
    settings["experiments"]["demo"]["mechanisms"]["distributed-gnmax"] = {"sigma": 9, "tolerance": 2}
    validate(settings)
    with pytest.raises(PatebenchError, match=r"\.distributed-gnmax: the secure path opens all queries at once"):
        validate(settings | {"secure": {"aggregators": 2}})
    settings["experiments"]["demo"]["mechanisms"]["distributed-gnmax"]["tolerance"] = 10
    with pytest.raises(PatebenchError, match=r"mechanisms.distributed-gnmax: of 10 teachers 10 can not be missing"):
        validate(settings)
    settings["experiments"]["demo"]["mechanisms"] = {"randomised-response": LOCAL}
    with pytest.raises(PatebenchError, match=r"mechanisms.randomised-response: .* has no cost per query"):
        validate(settings | {"experiments": {"demo": {**settings["experiments"]["demo"], "students": []}}})


def test_what_can_not_be_drawn_discretely_is_not_released() -> None:
    settings = changed("experiments/demo/mechanisms", {"randomised-response": LOCAL}) | {"mode": "release", "seeds": 0}
    settings["experiments"]["demo"] |= {"students": [], "accounting": {"delta": 1e-5}}
    with pytest.raises(PatebenchError, match=r"\.randomised-response: .* can not be drawn with discrete noise"):
        validate(settings)


def test_what_is_not_private_is_no_part_of_a_release() -> None:
    settings = changed("experiments/demo/mechanisms", {"gnmax": {"sigma": 20}}) | {"mode": "release", "seeds": 0}
    settings["experiments"]["demo"] |= {
        "ensembles": [{"teachers": 50, "model": "small-cnn", "soft": 5}],
        "students": [],
        "accounting": {"delta": 1e-5},
        "distillation": [{"samples": 100, "model": "small-cnn"}],
    }
    assert jobs(validate(settings | {"mode": "seeded"}), "distil")
    with pytest.raises(PatebenchError, match=r"^experiments\.demo\.distillation\[0\]: is not private"):
        validate(settings)
    settings["experiments"]["demo"]["distillation"] = []
    for key, model in (("dpsgd", {"form": "linear", "epsilon": 1}), ("private_knn", KNN)):
        wrong = {"demo": settings["experiments"]["demo"] | {key: [model]}}
        with pytest.raises(PatebenchError, match=rf"^experiments\.demo\.{key}\[0\]: draws noise from a seed"):
            validate(settings | {"experiments": wrong})


def petdl(*settings: dict[str, Any], hints: str | None = "block2", mode: str = "seeded") -> Any:
    """A configuration with nothing but teachers and students of PET-DL."""
    ensemble = {"teachers": [2, 4], "model": "conv-small", "hints": hints}
    experiment = {"dataset": "digits", "pool": 400, "ensembles": [ensemble], "accounting": {"delta": 1e-5}}
    return {"seeds": [0], "mode": mode, "experiments": {"demo": {**experiment, "petdl": list(settings)}}}


def test_petdl_multiplies_what_is_listed_and_needs_no_mechanism() -> None:
    run = validate(petdl({"form": "published", "noise": [1, 2], "batch": [64, 128], "teachers": 4}))
    students = options(run, "petdl.json")
    assert [(each["noise"], each["batch"]) for each in students] == [(1, 64), (1, 128), (2, 64), (2, 128)]
    assert {each["delta"] for each in students} == {1e-5}
    (ensemble,) = jobs(run, "collect")
    assert "/teachers-4_" in ensemble, "its teachers are described too"


def test_petdl_is_no_release() -> None:
    settings = petdl({"form": "noisy-knowledge", "noise": 1}, mode="release")
    with pytest.raises(PatebenchError, match=r"^experiments\.demo\.petdl\[0\]: draws noise from a seed"):
        validate(settings)


def test_petdl_learns_hints_only_where_they_are_kept() -> None:
    wanted = {"form": "published", "noise": 1, "hint_epochs": [0, 2]}
    with pytest.raises(PatebenchError, match=r"hint_epochs: needs hints, and teachers-2_iid_conv-small_modern keeps"):
        validate(petdl(wanted, hints="probabilities"))
    assert jobs(validate(petdl({**wanted, "hint_epochs": 0}, hints="probabilities")), "train_petdl")


def test_several_releases_need_a_limit_for_all() -> None:
    settings = changed("experiments/demo/accounting", {"delta": 1e-5}) | {"mode": "release"}
    settings["experiments"]["demo"]["students"] = []
    with pytest.raises(PatebenchError, match=r"^mode: .* makes 12 label sets of digits.*ledger: {budget: …"):
        validate(settings)
    with pytest.raises(PatebenchError, match=r"^mode: .* makes 12 label sets of digits"):
        validate(settings | {"ledger": {"private": "patients"}})
    config = validate(settings | {"ledger": {"budget": 4, "delta": 1e-5}})
    limit = {"PATEBENCH_LEDGER_BUDGET": "4.0", "PATEBENCH_LEDGER_DELTA": "1e-05"}
    assert config.ledger_environment() == {**limit, "PATEBENCH_LEDGER_PRIVATE": ""}
    named = validate(settings | {"ledger": {"budget": 4, "delta": 1e-5, "private": "patients"}})
    assert named.ledger_environment() == {**limit, "PATEBENCH_LEDGER_PRIVATE": "patients"}
    assert set(validate(GOOD).ledger_environment().values()) == {""}, "a limit of another run is not inherited"
    seeded = validate(GOOD | {"ledger": {"budget": 4, "delta": 1e-5}})
    assert set(seeded.ledger_environment().values()) == {""}, "without a release nothing is counted"


def test_releases_of_several_data_sets_need_a_limit() -> None:
    """The second would not be recognised beside the ledger of the first."""
    settings = changed("experiments/demo/mechanisms", {"gnmax": {"sigma": 20}}) | {"mode": "release", "seeds": 0}
    settings["experiments"]["demo"] |= {"ensembles": [{"teachers": 50, "model": "small-cnn"}], "students": []}
    settings["experiments"]["demo"]["accounting"] = {"delta": 1e-5}
    validate(settings)
    settings["experiments"]["other"] = {**settings["experiments"]["demo"], "dataset": "wine", "pool": 20, "test": 20}
    with pytest.raises(PatebenchError, match=r"makes 1 label set of digits and 1 label set of wine, which .*ledger: {"):
        validate(settings)


def test_rounds_can_be_released_alone() -> None:
    """No label of another query is drawn."""
    settings = changed("experiments/demo/accounting", {"delta": 1e-5}) | {"mode": "release", "seeds": 0}
    demo = settings["experiments"]["demo"]
    del demo["mechanisms"]
    demo |= {"students": [], "ensembles": [{"teachers": 50, "model": "small-cnn"}]}
    with pytest.raises(PatebenchError, match=r"mechanisms: is missing; add the mechanisms that"):
        validate(settings)
    demo["rounds"] = [
        {"strategy": "prototypes", "mechanisms": {"gnmax": {"sigma": 20}}, "queries": 50, "method": "supervised"}
    ]
    (labels,) = jobs(validate(settings), "aggregate")
    assert labels.endswith("/gnmax/sigma-20_release/supervised/round-0_prototypes-50")
    demo["rounds"][0]["mechanisms"] = {"exponential": {"epsilon": 1}}
    with pytest.raises(PatebenchError, match=r"rounds\[0\].*can not be drawn with discrete noise"):
        validate(settings)


def test_a_release_deals_by_hash_and_never_by_what_protects_nobody() -> None:
    settings = changed("experiments/demo/mechanisms", {"gnmax": {"sigma": 20}}) | {"mode": "release", "seeds": 0}
    settings["experiments"]["demo"] |= {"students": [], "accounting": {"delta": 1e-5}}

    def dealt(mode: str, **partition: Any) -> str:
        settings["experiments"]["demo"]["ensembles"] = [{"teachers": 50, "model": "small-cnn", **partition}]
        (ensemble,) = validate(settings | {"mode": mode}).experiments[0].ensembles
        return ensemble.partition.slug

    assert [dealt(mode) for mode in ("seeded", "release")] == ["iid", "hash"]
    assert [dealt(mode, partition={}) for mode in ("seeded", "release")] == ["iid", "hash"]
    assert [dealt(mode, partition="iid") for mode in ("seeded", "release")] == ["iid", "iid"]
    skewed = {"strategy": "skew", "share": 0.5}
    assert dealt("seeded", partition=skewed) == "skew-0.5"
    words = (
        r"^experiments\.demo\.ensembles\[0\]\.partition\.strategy: 'skew' protects nobody's .*choose one of iid, owners"
    )
    with pytest.raises(PatebenchError, match=words):
        dealt("release", partition=skewed)


def test_a_release_does_not_tell_whether_a_shard_lacks_a_class() -> None:
    settings = changed("experiments/demo/mechanisms", {"gnmax": {"sigma": 20}}) | {"mode": "release", "seeds": 0}
    ensemble = {"teachers": 50, "model": "small-cnn", "partition": {"every_class": True}}
    settings["experiments"]["demo"] |= {"ensembles": [ensemble], "students": [], "accounting": {"delta": 1e-5}}
    validate(settings | {"mode": "seeded"})
    words = (
        r"^experiments\.demo\.ensembles\[0\]\.partition\.every_class: would tell which classes the private data lack"
    )
    with pytest.raises(PatebenchError, match=words):
        validate(settings)


LOCAL = {"epsilon": 2, "unbiased": 1, "participation": 1, "spread": 1}


def test_settings_are_left_as_they_were() -> None:
    settings = copy.deepcopy(GOOD)
    validate(settings)
    assert settings == GOOD


@pytest.mark.parametrize("settings", [[], None, "text", 7])
def test_settings_that_are_no_mapping(settings: Any) -> None:
    with pytest.raises(PatebenchError, match=r"^the configuration: is .*; a mapping is needed$"):
        validate(settings)


def test_what_the_command_line_gives() -> None:
    """Snakemake reads --config values as text, lists of text, numbers or nothing."""
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


def test_an_experiment_may_have_seeds_of_its_own() -> None:
    config = validate(changed("experiments/demo/seeds", [5, 7, 9]))
    assert config.seeds == (5, 7, 9), "those of the selected experiments"
    assert [each["seed"] for each in options(config, "baseline.json")] == [5, 7, 9]


def test_yaml_reads_some_numbers_as_text() -> None:
    assert yaml.safe_load("1e-5") == "1e-5"
    assert validate(changed("experiments/demo/accounting/delta", "1e-5")) == validate(GOOD)
    assert validate(changed("experiments/demo/mechanisms/lnmax/gamma", ["5e-2", "0.1"])) == validate(GOOD)
    assert validate(changed("experiments/demo/pool", "4e2")) == validate(GOOD)


def test_defaults() -> None:
    config = validate(changed("experiments/demo/students", GONE))
    ensemble = next(iter(config.experiments[0].ensembles))
    assert (config.name, config.results, config.download) == ("", "results", True)
    assert ensemble.partition == PartitionParameters()
    assert (ensemble.work.chunk, ensemble.work.keep_weights, ensemble.training.epochs) == (25, False, None)
    assert jobs(config, "train_student") == []


def test_the_environment_says_where_data_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATEBENCH_DATA", raising=False)
    assert validate(GOOD).access_options() == "--root data --download"
    monkeypatch.setenv("PATEBENCH_DATA", "/else where")
    assert validate(GOOD).access_options() == "--root '/else where' --download"


def test_only_selects() -> None:
    settings = changed("experiments/more", twin(pool=500))
    assert [each.name for each in validate(settings).experiments] == ["demo", "more"]
    assert [each.name for each in validate(settings | {"only": "more"}).experiments] == ["more"]


def test_a_mistake_in_an_experiment_left_out_is_told() -> None:
    settings = changed("experiments/more", twin(pool=0)) | {"only": "demo"}
    with pytest.raises(PatebenchError, match=r"^experiments\.more\.pool"):
        validate(settings)


def test_values_multiply_in_the_order_of_the_mechanism() -> None:
    settings = dict.fromkeys(labels.setting for labels in validate(GOOD).experiments[0].label_sets)
    assert [each.name for each in settings] == ["lnmax/gamma-0.05", "lnmax/gamma-0.1", "gnmax/sigma-20"]


def test_no_path_stands_for_two_values() -> None:
    settings = changed("experiments/demo/mechanisms/lnmax/gamma", [0.05 + 1e-16, 0.1])
    assert 0.05 + 1e-16 != 0.05
    assert validate(settings) == validate(GOOD)


def test_a_misspelt_key_is_named_before_the_missing_one() -> None:
    with pytest.raises(PatebenchError, match=r"^pol: unknown key \(did you mean 'pool'"):
        SplitParameters.checked({"pol": 400})


def test_own_data_and_owners(tmp_path: Path) -> None:
    private, public, column = (str(tmp_path / name) for name in ("a.npz", "b.npz", "owners.npy"))
    for path in (private, public, column):
        Path(path).touch()
    settings = changed(f"{ENSEMBLE}/partition", {"strategy": "owners", "owners": column})
    settings["experiments"]["demo"]["dataset"] = "mine"
    settings["datasets"] = {"mine": {"loader": "npz", "private": private, "public": public}}
    run = validate(settings)
    assert options(run, "private.npz")[0]["option"] == {"loader": "npz", "private": private, "public": public}
    assert run.sources == {"mine": [private, public]}
    assert list(run.owners.values()) == [[column]] * 4
    settings["datasets"]["mine"]["class_names"] = ["cat", "dog"]
    named = validate(settings)
    assert options(named, "private.npz")[0]["class-names"] == ("cat", "dog")
    settings["datasets"]["mine"]["copy_of"] = "cifar10"
    copied = validate(settings)
    assert (copied.copies, named.copies) == ({"mine": "cifar10"}, {})
    assert copied.options == named.options, "nothing is made again for it"
    with pytest.raises(PatebenchError, match=r"^name: 'mine'"):
        validate(settings | {"name": "mine"})


def test_files_of_an_experiment_that_is_left_out_may_be_missing() -> None:
    own = {**GOOD["experiments"]["demo"], "dataset": "mine"}
    datasets = {"mine": {"loader": "npz", "private": "a.npz", "public": "b.npz"}}
    settings = {**GOOD, "datasets": datasets, "experiments": {**GOOD["experiments"], "own": own}}
    assert [each.name for each in validate({**settings, "only": ["demo"]}).experiments] == ["demo"]
    for only in ([], ["own"], ["demo", "own"]):
        with pytest.raises(PatebenchError, match=r"^datasets\.mine\.private: there is no a\.npz"):
            validate({**settings, "only": only})


def test_two_columns_for_one_ensemble(tmp_path: Path) -> None:
    for name in ("one.npy", "two.npy"):
        (tmp_path / name).touch()
    owners = [{"strategy": "owners", "owners": str(tmp_path / name)} for name in ("one.npy", "two.npy")]
    ensembles = [{"teachers": 5, "model": "mlp", "partition": each} for each in owners]
    settings = {**GOOD, "experiments": {"demo": twin(ensembles=ensembles)}}
    with pytest.raises(PatebenchError, match=r"^experiments\.demo\.ensembles\[1\]\.partition\.owners: "):
        validate(settings)


@pytest.mark.parametrize(
    "file", ["config.yaml", *(f"papers/{path.name}" for path in ROOT.glob("config/papers/*.yaml"))]
)
def test_shipped_configurations_are_good(file: str) -> None:
    config = validate(load(ROOT / "config" / file))
    assert config.experiments
    made = {name.partition("/")[0] for name in config.job_names()}
    assert {"data", "split", "partition", "train_teachers", "join_votes", "collect", "report"} <= made
    assert ("account" in made) == any(each.label_sets for each in config.experiments)


PRESETS = [
    (path.name, preset)
    for path in sorted(ROOT.glob("config/papers/*.yaml"))
    for preset in load(path).get("presets", {})
]


@pytest.mark.parametrize("model", ["logistic", "random-forest"])
def test_epochs_of_what_has_none_are_refused(model: str) -> None:
    settings = {**GOOD, "experiments": {"demo": twin(ensembles=[{"teachers": 5, "model": model, "epochs": 7}])}}
    with pytest.raises(PatebenchError, match=r"ensembles\[0\]\.epochs: '.*' is not trained in epochs; leave it out"):
        validate(settings)


def test_papers_ask_for_three_seeds_where_the_command_line_can_ask_for_others() -> None:
    for path in ROOT.glob("config/papers/*.yaml"):
        written = load(path)
        assert not [name for name, each in written["experiments"].items() if "seeds" in each], path
        releases = written.get("mode") == "release"
        assert validate(written).seeds == ((0,) if releases else (0, 1, 2)), path
        assert validate({**written, "seeds": "4"}).seeds == (4,)


def test_every_paper_has_a_quick_preset() -> None:
    assert {(path.name, "quick") for path in ROOT.glob("config/papers/*.yaml")} <= set(PRESETS)


@pytest.mark.parametrize(("file", "preset"), PRESETS)
def test_presets_are_good(file: str, preset: str) -> None:
    written = load(ROOT / "config/papers" / file)
    config = validate({**written, "preset": preset})
    assert [each.name for each in config.experiments] == list(written["presets"][preset]["only"])
    assert config.name == f"{written['name']}-{preset}"
    assert len(config.seeds) == 1  # of a quarter of an hour there is none for a second
    built_in = [
        name for name, each in written["experiments"].items() if each["dataset"] not in written.get("datasets", {})
    ]
    assert len(config.jobs) < len(validate({**written, "only": built_in}).jobs)


def test_a_preset_takes_the_place_of_what_is_written() -> None:
    written = load(ROOT / "config/papers/nzc-2020.yaml")
    presets = {"one": {"only": "mnist,svhn", "seeds": [3, 4]}, "same": {"only": ["mnist"]}}
    one = validate({**written, "presets": presets, "preset": "one", "seeds": [0]})
    assert ([each.name for each in one.experiments], one.seeds) == (["mnist", "svhn"], (3, 4))
    assert validate({**written, "presets": presets, "preset": "same", "seeds": [7]}).seeds == (7,)
    nameless = {key: value for key, value in written.items() if key != "name"}
    assert validate({**nameless, "presets": presets, "preset": "same"}).name == "same"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"preset": "quikc"}, "preset: 'quikc' is not a preset of this configuration (did you mean 'quick'?)"),
        ({"preset": "quick", "presets": {"quick": {"only": ["mnits"]}}}, "presets.quick.only[0]: 'mnits' is not"),
        ({"presets": {"quick": {"only": []}}}, "presets.quick.only"),
        ({"presets": {"quick": {"only": ["mnist"], "pool": 5}}}, "presets.quick.pool"),
    ],
)
def test_a_preset_that_can_not_be_meant_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PatebenchError) as caught:
        validate({**load(ROOT / "config/papers/nzc-2020.yaml"), **changes})
    assert str(caught.value).startswith(fault)


def test_the_paper_can_be_run_in_parts() -> None:
    settings = load(ROOT / "config/papers/pate-2017.yaml")
    assert [each.name for each in validate(settings).experiments] == ["mnist", "mnist-paper"]
    svhn = validate(settings | {"only": "svhn"})
    assert {ensemble.teachers for each in svhn.experiments for ensemble in each.ensembles} == {10, 100, 250}
    assert {each["delta"] for each in options(svhn, "bounds.json")} == {1e-6}


def test_the_default_run_needs_no_network() -> None:
    assert jobs(validate(load(ROOT / "config/config.yaml")), "data") == ["digits"]


BROKEN = {
    "key twice": ("seeds: [0]\nname: x\nseeds: [1]\n", "line 3", "'seeds' is given twice"),
    "key twice, deeper": ("experiments:\n  a: {pool: 1, pool: 2}\n", "line 2", "'pool' is given twice"),
    "tab": ("name: x\nexperiments:\n\ta: 1\n", "line 3", "'\\t'"),
    "open bracket": ("seeds: [0, 1\nname: x\n", "line 2", "mend the YAML"),
    "object": ("seeds: !!python/object:os.system {}\n", "line 1", "could not determine a constructor"),
    "list": ("- a\n- b\n", "", "instead of a mapping"),
    "nothing": ("# only a comment\n", "", "empty instead of a mapping"),
    "deep": ("seeds: " + "[" * 3000 + "]" * 3000 + "\n", "", "nested too deeply"),
    "two documents": ("a: 1\n---\nb: 2\n", "line 2", "another document"),
    "control character": ("a: \x01\n", "", "special characters are not allowed"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_yaml_is_one_line(name: str, tmp_path: Path) -> None:
    text, line, fragment = BROKEN[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(PatebenchError) as fault:
        load(path)
    assert str(fault.value).startswith(str(path))
    assert line in str(fault.value)
    assert fragment in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("only", ["demo,more", " demo , more ,", ["demo", "more"]])
def test_experiments_are_selected_by_a_list_or_by_commas(only: Any) -> None:
    settings = copy.deepcopy(GOOD) | {"only": only}
    settings["experiments"] |= {"more": twin(pool=401), "other": twin(pool=402)}
    assert [each.name for each in validate(settings).experiments] == ["demo", "more"]


def test_results_that_can_not_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", _refused)
    with pytest.raises(PatebenchError, match=f"^results: {tmp_path} can not be written to; give another folder$"):
        validate(copy.deepcopy(GOOD) | {"results": str(tmp_path / "a" / "b")})


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that refuses files even to those who may do all")
def test_results_where_the_system_itself_takes_no_files():
    with pytest.raises(PatebenchError, match=r"^results: /proc can not be written to; give another folder$"):
        validate(copy.deepcopy(GOOD) | {"results": "/proc/results"})


def _refused(dir: Path) -> None:
    raise PermissionError(dir)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    for path, fragment in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "directory"),
        (tmp_path / "latin.yaml", "UTF-8"),
    ):
        with pytest.raises(PatebenchError, match=fragment):
            load(path)


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of the schema that lists properties."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield path, schema
        for name, each in schema.items():
            yield from objects(each, f"{path}/{name}")


def test_every_key_is_described_and_no_other_allowed() -> None:
    whole = schema()
    found = dict(objects(whole))
    assert len(found) >= 6
    for path, each in found.items():
        assert each["additionalProperties"] is False, path
        for key, value in each["properties"].items():
            target = whole["$defs"][value["$ref"].split("/")[-1]] if "$ref" in value else {}
            assert "description" in {**target, **value}, f"{path}/{key}"


def test_the_schema_and_the_page_are_those_of_the_settings() -> None:
    """`patebench config schema` and `patebench config page` make them."""
    assert (ROOT / "config" / "config.schema.json").read_text(encoding="utf-8") == schema_text()
    assert (ROOT / "docs" / "config.md").read_text(encoding="utf-8") == page()


def test_the_schema_agrees_with_the_settings() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    for file in (ROOT / "config").rglob("*.yaml"):
        # YAML reads 1.0e-5 as a number; what it reads as text only patebench itself takes for one.
        assert not list(validator.iter_errors(load(file))), file
    assert list(validator.iter_errors(changed("experiments/demo/pool", 0)))
    assert list(validator.iter_errors(changed("experiments/demo/poll", 4)))


ONE_VOTE = {
    "dataset": "digits",
    "pool": 100,
    "queries": 10,
    "ensembles": [{"teachers": 500, "model": "nearest-query"}],
    "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 5}},
    "accounting": {"delta": 1e-5},
}


def test_a_list_of_queries_makes_everything_for_each_number():
    wanted = ONE_VOTE | {"queries": [10, 20], "baseline": {"model": "mlp"}}
    wanted["students"] = [{"method": "supervised", "mechanisms": ONE_VOTE["mechanisms"]}]
    run = validate({"seeds": [0], "experiments": {"demo": wanted}})
    assert [each["queries"] for each in options(run, "bounds.json")] == [(10,), (20,)]
    assert [each["queries"] for each in options(run, "student.json")] == [10, 20]
    assert len(jobs(run, "train_baseline")) == 1
    with pytest.raises(PatebenchError, match=r"demo\.queries\[1\]: is 101, but the pool holds 100"):
        validate({"seeds": [0], "experiments": {"demo": ONE_VOTE | {"queries": [10, 101]}}})


def test_queries_selected_beforehand_are_all_that_is_accounted_for():
    made = validate({"seeds": 0, "experiments": {"one": ONE_VOTE}})
    (account,) = options(made, "bounds.json")
    assert account["queries"] == (10,)
    (ensemble,) = made.experiments[0].ensembles
    assert ensemble.slug == "teachers-500_queries-10_iid_nearest-query_modern"


def test_students_of_a_table_read_it_by_the_features_that_selected_its_queries():
    trained, both = [{"teachers": 5, "model": "mlp"}], {"sparse-gnmax": {"k": 10, "sigma": 5}, "gnmax": {"sigma": 5}}
    students = [{"method": "supervised", "queries": 10, "mechanisms": both}]
    wanted = {**ONE_VOTE, "ensembles": trained, "mechanisms": both, "students": students}
    made = validate({"seeds": 0, "experiments": {"one": wanted}})
    assert len(jobs(made, "train_student")) == 2
    (student,) = (path for path in made.uses_features if path.endswith("/student.json"))
    assert "/sparse-gnmax/" in student


def test_where_records_vote_on_several_queries_these_are_random_and_rows_are_not_of_clusters():
    several = [{"teachers": 500, "model": "nearest-query", "neighbours": 3}]
    table = {"mechanisms": {"sparse-gnmax": {"k": 3, "sigma": 5}}}
    students = [{"method": method, **table} for method in ("supervised", "table-regression")]
    wanted = {**ONE_VOTE, **table, "ensembles": several, "students": students, "encoder": "patches"}
    made = validate({"seeds": 0, "experiments": {"one": wanted}})
    ensemble = "digits/seed-0_pool-100_patches/teachers-500_queries-10_iid_nearest-query_modern_neighbours-3"
    assert made.selections == {ensemble: ["random-10"]}
    assert made.uses_features == {f"{ensemble}/votes.npz"}, "neither its queries nor its students"
    (student,) = made.uses_encoder - made.uses_features
    assert "/table-regression_" in student


SHARED = {"distributed-sparse-gnmax": {"k": 1, "sigma": 60, "tolerance": 9}}


def test_records_on_selected_queries_have_a_secure_path():
    students = [{"method": "supervised", "mechanisms": SHARED}]
    wanted = {**ONE_VOTE, "mechanisms": SHARED, "students": students}
    made = validate({"seeds": 0, "secure": {"aggregators": 2}, "experiments": {"one": wanted}})
    (labels,), (student,) = jobs(made, "secure_open"), jobs(made, "train_student")
    assert labels.endswith("/distributed-sparse-gnmax/k-1_sigma-60_tolerance-9_secure-2")
    assert f"{student}/student.json" in made.uses_features, "its student reads the opened table by them"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"mechanisms": {"distributed-gnmax": {"sigma": 60, "tolerance": 9}}}, "use one of .*distributed-sparse-gnmax"),
        (
            {"mechanisms": {"distributed-sparse-gnmax": {"k": 1, "sigma": 60, "tolerance": 500}}},
            "500 can not be missing",
        ),
        (
            {
                "queries": None,
                "mechanisms": None,
                "rounds": [
                    {"method": "supervised", "strategy": "unsure-prototypes", "queries": [5, 5], "mechanisms": SHARED}
                ],
            },
            r"rounds\[0\]\.mechanisms\.distributed-sparse-gnmax: the secure path .* has no rounds",
        ),
    ],
    ids=["silence", "tolerance", "rounds"],
)
def test_what_the_secure_path_does_not_do_is_refused(changes, fault):
    wanted = {key: value for key, value in {**ONE_VOTE, **changes}.items() if value is not None}
    with pytest.raises(PatebenchError, match=fault):
        validate({"seeds": 0, "secure": {"aggregators": 2}, "experiments": {"one": wanted}})


@pytest.mark.parametrize(("strategy", "by_features"), [("prototypes", True), ("random", False)])
def test_so_do_students_of_rounds(strategy, by_features):
    rounds = {"strategy": strategy, "queries": [10], "mechanisms": {"sparse-gnmax": {"k": 10, "sigma": 5}}}
    trained = {"dataset": "digits", "pool": 100, "ensembles": [{"teachers": 5, "model": "mlp"}]}
    trained |= {"accounting": {"delta": 1e-5}, "rounds": [{**rounds, "method": "supervised"}]}
    made = validate({"seeds": 0, "experiments": {"one": trained}})
    (student,) = jobs(made, "train_student")
    assert (f"{student}/student.json" in made.uses_features) == by_features


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"mechanisms": {"gnmax": {"sigma": 5}}}, "'gnmax' is proven for teachers that vote on every query"),
        ({"queries": 101}, "is 101, but the pool holds 100"),
        ({"baseline": {"model": "nearest-query"}}, "only teachers can be it"),
        ({"true_label_baseline": {"queries": 5, "model": "nearest-query"}}, "only teachers can be it"),
        ({"ensembles": [{"teachers": 500, "model": "nearest-query", "soft": [1]}]}, "trains no network; leave it out"),
        (
            {"ensembles": [{"teachers": 500, "model": "nearest-query", "hints": "block2"}]},
            "hints: 'nearest-query'",
        ),
        ({"ensembles": [{"teachers": 5, "model": "mlp", "neighbours": 2}]}, "neighbours: 'mlp' votes on every query"),
        (
            {"ensembles": [{"teachers": 5, "model": "nearest-query", "neighbours": 11}]},
            "neighbours: is 11, and there are 10 queries",
        ),
        ({"encoder": "patch"}, r"encoder: is 'patch' \(did you mean 'patches'\?\); one of contrastive, graph, patches"),
        (
            {"distillation": [{"model": "mlp", "samples": 10}], "ensembles": [{"teachers": 5, "model": "mlp"}]},
            "needs votes on the whole pool",
        ),
        (
            {
                "rounds": [
                    {
                        "method": "supervised",
                        "strategy": "random",
                        "queries": [5],
                        "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 5}},
                    }
                ]
            },
            "selects queries of its own, and experiments.one.queries is 10; leave one of both out",
        ),
    ],
)
def test_what_does_not_go_with_selected_queries_or_silent_teachers_is_refused(changes, fault):
    with pytest.raises(PatebenchError, match=fault):
        validate({"seeds": 0, "experiments": {"one": {**ONE_VOTE, **changes}}})
