"""One run with a job of every rule, which several tests examine.

It contains stand-ins for papers' experiments on unavailable data sets: a few random samples of the same shape.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from tests import dry_run, rules
from tests.workflow.conftest import WHOLE, Workflow

from patebench.artefacts.reading import read_votes
from patebench.cli import cli
from patebench.core import formats
from patebench.core.files import read_arrays
from patebench.core.seeds import generator
from patebench.features import contrast
from patebench.mechanisms.base import make_mechanism

pytestmark = pytest.mark.workflow

#: Teachers that vote in each round, on its queries.
VOTING_IN_ROUNDS = {
    "dataset": "breast_cancer",
    "pool": 60,
    "ensembles": [{"teachers": 300, "model": "nearest-query", "chunk": 200}],
    "accounting": {"delta": 1e-5},
    "feature_methods": [{"method": "dppl-mean", "epsilon": 4}],
    "rounds": [
        {"strategy": "least-confident", "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 3}}, "queries": [6, 4]}
        | {"method": "supervised", "model": "mlp", "epochs": 2},
    ],
}

#: Records that vote on selected queries, with shared noise, and a student that decodes the opened table.
SHARED = {"distributed-sparse-gnmax": {"k": 1, "sigma": 30, "tolerance": 5}}
SECURE_RECORDS = {
    "dataset": "breast_cancer",
    "pool": 60,
    "queries": 12,
    "ensembles": [{"teachers": 200, "model": "nearest-query", "chunk": 150}],
    "mechanisms": SHARED,
    "accounting": {"delta": 1e-5},
    "students": [{"method": "supervised", "mechanisms": SHARED, "queries": 12, "model": "mlp", "epochs": 1}],
}

#: The shape of a sample and the number of classes.
SHAPES = {
    "svhn": ((3, 32, 32), 10),
    "glyph": ((1, 28, 28), 150),
    "cifar10": ((3, 32, 32), 10),
}
POOL, TEST, QUERIES = 40, 40, 20

ASKED = [
    ("pate-2017", "svhn"),
    ("scalable-pate-2018", "svhn"),
    ("scalable-pate-2018", "glyph"),
    ("scalable-pate-2018", "glyph-interactive"),
    ("nzc-2020", "svhn"),
    ("petdl-2019", "svhn"),
    ("equal-epsilon", "cifar10"),
]


def stand_in(dataset: str) -> str:
    return f"like-{dataset}"


def write(folder: Path, shape: tuple[int, ...], classes: int) -> dict[str, str]:
    """Write random samples of every class, as a user's own data."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    said = {"loader": "npz"}
    for part, samples in (("private", max(80, classes)), ("public", max(POOL + TEST, classes))):
        x = rng.integers(0, 256, (samples, *shape)).astype(np.uint8)
        np.savez(folder / f"{part}.npz", x=x, y=np.arange(samples) % classes)
        said[part] = str(folder / f"{part}.npz")
    return said


#: Replacements in a list of entries, or in one entry.
LISTS: dict[str, dict[str, Any]] = {
    "ensembles": {"epochs": 1, "chunk": 2},
    "students": {"queries": QUERIES, "recipe": "fast", "epochs": 1},
    "rounds": {"queries": [QUERIES, QUERIES], "epochs": 1},
    "petdl": {"hint_epochs": 1, "distillation_epochs": 1},
    "dpsgd": {"epsilon": 8, "steps": 5},
    "private_knn": {"neighbours": 5, "threshold": 3, "queries": QUERIES, "answers": 15, "sigma1": 6, "sigma2": 2}
    | {"student": "label-spreading"},
    "feature_methods": {},
}
SINGLE: dict[str, dict[str, Any]] = {
    "accounting": {"queries": QUERIES},
    "baseline": {"epochs": 1},
    "true_label_baseline": {"queries": QUERIES, "recipe": "fast", "epochs": 1},
}


def shrunk(experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the same mechanisms, students and models with at most four teachers, one epoch and twenty queries."""
    found = {**small(experiment), "dataset": stand_in(experiment["dataset"]), "pool": POOL, "test": TEST, "seeds": [0]}
    found |= {name: small({**experiment[name], **less}) for name, less in SINGLE.items() if name in experiment}
    for name, less in LISTS.items():
        entries = [small({**entry, **less}) for entry in experiment.get(name, [])]
        if name == "rounds":  # each with a student of its own
            entries = [{**each, "mechanisms": one_noise(each["mechanisms"])} for each in entries]
        found[name] = list({json.dumps(each, sort_keys=True): each for each in entries}.values())
    if "mechanisms" in found:  # of each the noise of its students' labels
        asked = {name: each for student in found["students"] for name, each in student["mechanisms"].items()}
        found["mechanisms"] = one_noise(found["mechanisms"] | asked)
    return found


def small(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the same with at most four teachers, and thresholds that these can reach."""
    found = dict(entry)
    if "teachers" in found:
        given = found["teachers"]
        found["teachers"] = sorted({min(each, 4) for each in given}) if isinstance(given, list) else min(given, 4)
    if "mechanisms" in found:
        found["mechanisms"] = {
            name: {**each, "threshold": 2, "sigma1": 1, "sigma2": 1} if "threshold" in each else each
            for name, each in found["mechanisms"].items()
        }
    return found


def one_noise(mechanisms: dict[str, Any]) -> dict[str, Any]:
    """Return the same mechanisms, each with the first of several values."""
    return {
        name: {key: value[0] if isinstance(value, list) else value for key, value in each.items()}
        for name, each in mechanisms.items()
    }


Made = tuple[Workflow, list[dry_run.Job]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return the workflow after a run of everything, and the jobs of this run."""
    folder = tmp_path_factory.mktemp("all-stages")
    whole = Workflow(folder, yaml.safe_load(WHOLE.read_text()))
    np.save(folder / "votes.npy", np.random.default_rng(0).integers(0, 2, (5, 60)))
    imported = {"name": "others", "teachers": 5, "file": str(folder / "votes.npy"), "classes": 2}
    labels = {"mechanisms": {"gnmax": {"sigma": 2}}, "accounting": {"delta": 1e-5}}
    experiments = whole.settings["experiments"]
    experiments["imported"] = {"dataset": "breast_cancer", "pool": 60, "votes": [imported], **labels}
    experiments |= {"records": VOTING_IN_ROUNDS, "secure-records": SECURE_RECORDS}
    for paper, name in ASKED:
        written = yaml.safe_load((dry_run.REPOSITORY / "config" / "papers" / f"{paper}.yaml").read_text())
        experiments[f"{paper}-{name}"] = shrunk(written["experiments"][name])
    whole.settings["datasets"] = {stand_in(name): write(folder / name, *shape) for name, shape in SHAPES.items()}
    whole.command()  # writes the configuration
    with pytest.MonkeyPatch.context() as patch:
        for steps, few in (("STEPS", 40), ("PASSES", 1)):
            patch.setattr(contrast, steps, few)
        return whole, dry_run.make(folder / "test.yaml", folder)


def test_every_rule_has_a_job_and_then_nothing_is_left_to_do(made: Made) -> None:
    whole, jobs = made
    assert {job.rule for job in jobs} == set(rules.STAGES)
    assert whole.planned() <= {"all"}
    results = whole.folder / "results"
    checked = CliRunner().invoke(cli, ["check", str(results)])
    assert checked.exit_code == 0, checked.output
    assert "no faults" in checked.output
    assert "prototypes-10" in (results / "tables" / "utility-privacy.csv").read_text()


def test_stand_ins_for_papers_run_to_one_page(made: Made) -> None:
    whole, _ = made
    rows = json.loads((whole.folder / "results" / "rows.json").read_text())["rows"]
    assert {row["dataset"] for row in rows} == {*whole.settings["datasets"], "breast_cancer", "digits"}
    assert (whole.folder / "results" / "report.html").is_file()


def test_records_that_abstain_have_a_secure_path_too(made: Made) -> None:
    """Compare with the labels of one party that sums the votes."""
    whole, _ = made
    labels = whole.find("**/distributed-sparse-gnmax/k-1_sigma-30_tolerance-5_secure-2/labels.npz")
    _, votes = read_votes(labels.parents[2] / "votes.npz")
    mechanism = make_mechanism("distributed-sparse-gnmax", SHARED["distributed-sparse-gnmax"])
    stream = str(labels.parent.relative_to(whole.folder / "results")).removesuffix("_secure-2")
    released = read_arrays(labels, formats.LABELS)
    for name, array in mechanism.released(votes, generator(0, stream)).items():
        np.testing.assert_array_equal(released[name], array)
    assert len(released["queries"]) == 12
