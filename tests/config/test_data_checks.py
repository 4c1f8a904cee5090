"""Test that settings that do not match the data are refused before any job, for every kind of data set."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.refusals import refuses

from patebench.config import validate
from patebench.core.errors import PatebenchError, separate
from patebench.data import DATASETS

EXPERIMENT = {
    "dataset": "digits",
    "pool": 20,
    "ensembles": [{"teachers": 4, "model": "logistic"}],
    "mechanisms": {"gnmax": {"sigma": 4}},
    "accounting": {"delta": 1e-5},
}


def settings(data: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a configuration of one experiment on the user's own data, or on digits."""
    experiment = copy.deepcopy(EXPERIMENT) | changes
    own = {} if data is None else {"datasets": {"mine": data}}
    return {"seeds": [0], **own, "experiments": {"demo": experiment | ({"dataset": "mine"} if own else {})}}


def faults(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return code and key of each error that is raised together."""
    with pytest.raises(PatebenchError) as caught:
        validate(config)
    return [(fault.code, fault.where) for fault in separate(caught.value)]


def test_all_mismatches_with_a_built_in_data_set_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DATASETS, "load", lambda name: pytest.fail("nothing is loaded"))
    config = settings(
        dataset="wine", pool=70, encoder="pixels", pool_shift="inverted",
        ensembles=[{"teachers": [4, 109], "model": "small-cnn"}, {"teachers": 2, "model": "mlp"}],
        baseline={"model": "tanh-cnn"},
        students=[{"method": "supervised", "model": "student-cnn", "mechanisms": {"gnmax": {"sigma": 4}}}],
    )  # fmt: skip
    assert sorted(faults(config)) == [
        ("bound", "experiments.demo.ensembles[0].teachers"),
        ("bound", "experiments.demo.pool"),
        ("shape", "experiments.demo.baseline.model"),
        ("shape", "experiments.demo.encoder"),
        ("shape", "experiments.demo.ensembles[0].model"),
        ("shape", "experiments.demo.pool_shift"),
        ("shape", "experiments.demo.students[0].model"),
    ]
    validate(settings(dataset="wine", ensembles=[{"teachers": 108, "model": "mlp"}]))


def arrays(folder: Path, **private: Any) -> dict[str, Any]:
    """Write 30 private and 30 public rows of a table, and return their data set."""
    sound = {"x": np.arange(90.0).reshape(30, 3), "y": np.arange(30) % 3}
    np.savez(folder / "open.npz", **sound)
    np.savez(folder / "ours.npz", **{**sound, "x": sound["x"] + 100, **private})
    return {"loader": "npz", "private": str(folder / "ours.npz"), "public": str(folder / "open.npz")}


def test_arrays_are_read_before_any_job(tmp_path: Path) -> None:
    data = arrays(tmp_path)
    validate(settings(data))
    too_many = settings(data, pool=30, ensembles=[{"teachers": 31, "model": "conv-small"}])
    assert sorted(faults(too_many)) == [
        ("bound", "experiments.demo.ensembles[0].teachers"),
        ("bound", "experiments.demo.pool"),
        ("shape", "experiments.demo.ensembles[0].model"),
    ]
    x = np.zeros((30, 3))
    x[7, 2] = np.inf
    with refuses("not-finite", data["private"]) as caught:
        validate(settings(arrays(tmp_path, x=x)))
    assert "row 7, column 2" in str(caught.value)
    assert faults(settings(arrays(tmp_path, y=np.arange(30) % 4))) == [("invalid", "")]


def test_all_missing_files_are_reported_together(tmp_path: Path) -> None:
    data = {"loader": "npz", "private": str(tmp_path / "a.npz"), "public": str(tmp_path / "b.npz")}
    config = settings(data)
    config["datasets"]["other"] = data
    places = [f"datasets.{name}.{role}" for name in ("mine", "other") for role in ("private", "public")]
    assert faults(config) == [("missing-file", place) for place in places]


@pytest.mark.parametrize(
    ("owners", "teachers", "where"),
    [
        (np.arange(30) % 5, 6, "experiments.demo.ensembles[0].teachers"),
        (np.arange(29), 4, "experiments.demo.ensembles[0].partition.owners"),
        (None, 4, "experiments.demo.ensembles[0].partition.owners"),
    ],
)
def test_a_file_of_owners_must_match_the_private_records(
    tmp_path: Path, owners: np.ndarray | None, teachers: int, where: str
) -> None:
    path = tmp_path / "owners.npy"
    path.write_bytes(b"no array")
    if owners is not None:
        np.save(path, owners)
    partition = {"strategy": "hash-owners", "owners": str(path)}
    ensembles = [{"teachers": teachers, "model": "logistic", "partition": partition}]
    assert [place for _, place in faults(settings(arrays(tmp_path), ensembles=ensembles))] == [where]


def test_a_file_of_owners_must_not_split_people_of_the_data(tmp_path: Path) -> None:
    partition = {"strategy": "hash-owners", "owners": str(tmp_path / "owners.npy")}
    ensembles = [{"teachers": 3, "model": "logistic", "partition": partition}]
    data = arrays(tmp_path, owner=np.arange(30) % 10)
    np.save(tmp_path / "owners.npy", np.arange(30))
    assert faults(settings(data, ensembles=ensembles)) == [("owners", "experiments.demo.ensembles[0].partition.owners")]
    np.save(tmp_path / "owners.npy", np.arange(30) % 5)
    validate(settings(data, ensembles=ensembles))


def test_owners_in_the_file_need_no_other_file(tmp_path: Path) -> None:
    ensembles = [{"teachers": 5, "model": "logistic", "partition": "hash-owners"}]
    validate(settings(arrays(tmp_path, owner=np.arange(30) % 5), ensembles=ensembles))
    place = ("missing", "experiments.demo.ensembles[0].partition.owners")
    assert faults(settings(arrays(tmp_path), ensembles=ensembles)) == [place]
    each = [{"teachers": 4, "model": "logistic", "partition": "owners"}]
    owned = settings(arrays(tmp_path, owner=np.arange(30) % 5), ensembles=each)
    assert faults(owned) == [("bound", "experiments.demo.ensembles[0].teachers")]
    ignored = settings(arrays(tmp_path, owner=np.arange(30) % 5), ensembles=[{"teachers": 5, "model": "logistic"}])
    assert "'iid' protects" in validate(ignored).warnings[0]


def test_all_faults_of_a_table_are_reported_together(tmp_path: Path) -> None:
    """Refuse six teachers for ten private records of five people."""
    header = "person,age,sex,state\n"
    (tmp_path / "open.csv").write_text(header + "".join(f"o{i},{i},f,ill\n" for i in range(30)))
    sound = [f"p{i % 5},{i},m,well" for i in range(10)]
    ours = tmp_path / "ours.csv"
    ours.write_text(header + "\n".join(sound))
    table = {
        "label": {"column": "state", "classes": ["ill", "well"]},
        "features": {"age": {"number": [0, 100]}, "sex": {"category": ["f", "m"]}},
        "owner": "person",
    }
    data = {"loader": "table", "private": str(ours), "public": str(tmp_path / "open.csv"), "table": table}
    validate(settings(data, ensembles=[{"teachers": 5, "model": "logistic"}]))
    assert faults(settings(data, ensembles=[{"teachers": 6, "model": "logistic"}])) == [
        ("bound", "experiments.demo.ensembles[0].teachers")
    ]
    ours.write_text(header + "\n".join([*sound[:3], "p1,inf,m,dead", "p2,1,,well", ",1,m,well"]))
    assert faults(settings(data)) == [
        ("table-value", str(ours)),
        ("missing-value", str(ours)),
        ("undeclared-label", str(ours)),
        ("missing-value", str(ours)),
    ]


def test_images_are_checked_by_their_headers(tmp_path: Path) -> None:
    for role, count in (("ours", 6), ("open", 30)):
        for name in ("cat", "dog"):
            (tmp_path / role / name).mkdir(parents=True)
            for i in range(count):
                Image.new("L", (5, 7), i).save(tmp_path / role / name / f"{name}{i}.png")
    data = {"loader": "folder", "private": str(tmp_path / "ours"), "public": str(tmp_path / "open")}
    validate(settings(data, ensembles=[{"teachers": 12, "model": "small-cnn"}]))
    assert faults(settings(data, pool=60, ensembles=[{"teachers": 13, "model": "mlp"}])) == [
        ("bound", "experiments.demo.pool"),
        ("bound", "experiments.demo.ensembles[0].teachers"),
    ]
    small = data | {"images": {"size": [3, 9]}}
    assert faults(settings(small, ensembles=[{"teachers": 4, "model": "small-cnn"}])) == [
        ("shape", "experiments.demo.ensembles[0].model")
    ]
    for name in ("cat1.png", "cat2.png"):
        (tmp_path / "ours" / "cat" / name).write_bytes(b"no image")
    with refuses("image") as caught:
        validate(settings(data))
    assert "cat1.png" in str(caught.value)
    assert "cat2.png" in str(caught.value)
