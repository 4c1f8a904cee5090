"""Stand-ins for papers' experiments on unavailable data sets: a few random samples of the same shape."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests import dry_run

from patebench.features import contrast

pytestmark = pytest.mark.workflow

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
    for part, samples in (("private", max(200, 2 * classes)), ("public", max(POOL + TEST, classes))):
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
    "audit": {"teachers": 4, "queries": QUERIES, "runs": 10_000},
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


def test_they_run_to_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps, few in (("STEPS", 40), ("PASSES", 1)):
        monkeypatch.setattr(contrast, steps, few)
    experiments = {}
    for paper, name in ASKED:
        written = yaml.safe_load((dry_run.REPOSITORY / "config" / "papers" / f"{paper}.yaml").read_text())
        experiments[f"{paper}-{name}"] = shrunk(written["experiments"][name])
    datasets = {stand_in(name): write(tmp_path / name, *shape) for name, shape in SHAPES.items()}
    configuration = tmp_path / "stand-ins.yaml"
    configuration.write_text(yaml.safe_dump({"datasets": datasets, "seeds": [0], "experiments": experiments}))
    dry_run.make(configuration, tmp_path)
    rows = json.loads((tmp_path / "results" / "rows.json").read_text())["rows"]
    assert {row["dataset"] for row in rows} == set(datasets)
    assert (tmp_path / "results" / "report.html").is_file()
