"""Test that `patebench check` finds every damaged file and every file with other inputs, and nothing else."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.stages.commands import invoke
from tests.stages.labels import OF_VOTES, STUDENT, release_labels, state_bounds

from patebench.config.parameters import PartitionParameters
from patebench.core import formats
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import CHUNK, LABELS, LAYOUTS, PARTITION, POOL, PREDICTIONS, QUERIES, SAMPLES, TRUTH, VOTES
from patebench.stages import join_votes, partition
from patebench.stages.check import check


@pytest.fixture
def results(tiny: Path) -> Path:
    """Run all stages except training, for 6 teachers in 2 chunks and 3 classes."""
    rng = np.random.default_rng(0)
    digests = {name: read_arrays(tiny / f"{name}.npz", layout).digest for name, layout in PARTS.items()}
    training = {"model": "logistic", "recipe": "modern", "epochs": None}
    meta = {**digests, **training, "classes": 3, "epochs": 1, "seed": 0, "training": training}
    chunks = [tiny / "chunks" / "0-2.npz", tiny / "chunks" / "3-5.npz"]
    for i, path in enumerate(chunks):
        said = {"votes": rng.integers(0, 3, (3, 20)), "test_votes": rng.integers(0, 3, (3, 20))}
        write_arrays(path, CHUNK, {"teachers": np.arange(3 * i, 3 * i + 3), **said}, meta)
    where = {name: tiny / f"{name}.npz" for name in ("partition", "pool", "truth", "test")}
    join_votes.run(**where, chunk=chunks, out=tiny / "votes.npz", summary=tiny / "ensemble.json")
    noise = tiny / "gnmax" / "sigma-2"
    release_labels(tiny / "votes.npz", "gnmax", {"sigma": 2}, noise / "labels.npz", seed=0, stream="s")
    state_bounds(tiny / "votes.npz", noise / "labels.npz", [20], noise / "bounds.json", seed=0, stream="s")
    labels = read_arrays(noise / "labels.npz", LABELS).digest
    facts = {"labels": labels, "pool": digests["pool"], "test": digests["test"]}
    write_json(noise / "supervised" / "student.json", "train_student", facts)
    return tiny


PARTS = {"partition": PARTITION, "pool": POOL, "test": SAMPLES}


def named(results: Path) -> list[str]:
    """Return the files named in faults, relative to the results."""
    return [line.split(": ")[0].removeprefix(f"{results}/") for line in check(results).faults]


def test_sound_results_have_no_fault(results: Path) -> None:
    for name in (".swap.tmp", ".votes.npz.12.tmp"):
        (results / name).write_text("half")
    found = check(results)
    assert (found.artefacts, found.faults) == (13, [])
    assert [path.name for path in found.leftovers] == [".votes.npz.12.tmp"], "which alone may be deleted"


@pytest.mark.parametrize("name", ["private.npz", "gnmax/sigma-2/bounds.json"])
def test_a_damaged_file_is_named_and_it_alone(results: Path, name: str) -> None:
    content = bytearray((results / name).read_bytes())
    # Change a byte within an array; bytes between the members of an archive have no effect.
    content[content.index(b"NUMPY") + 128 if name.endswith(".npz") else len(content) // 2] ^= 1
    (results / name).write_bytes(content)
    assert named(results) == [name]
    assert "delete the file and run snakemake again" in check(results).faults[0]


def test_files_that_do_not_belong_together_are_named(results: Path) -> None:
    partition.run(
        private=results / "private.npz", public=results / "public.npz", teachers=6, parameters=PartitionParameters(),
        seed=1, stream="tiny", out=results / "partition.npz",
    )  # fmt: skip
    assert named(results) == ["chunks/0-2.npz", "chunks/3-5.npz", "votes.npz"]
    assert "its input 'partition' has changed: it was not made from" in check(results).faults[0]


def test_labels_bounds_and_students_of_others_are_named(results: Path) -> None:
    votes = read_arrays(results / "votes.npz", VOTES)
    arrays = {**votes.arrays, "votes": (votes["votes"] + 1) % 3}
    write_arrays(votes.path, VOTES, arrays, votes.meta)
    student, truth = "gnmax/sigma-2/supervised/student.json", read_arrays(results / "truth.npz", TRUTH).digest
    facts = read_json(results / student, "train_student")
    write_json(results / student, "train_student", {**facts, "labels": "0" * 64})
    write_json(results / "baseline" / "sound.json", "train_baseline", {"truth": truth})
    write_json(results / "baseline" / "wrong.json", "train_baseline", {"truth": "0" * 64})
    below = ["gnmax/sigma-2/bounds.json", "gnmax/sigma-2/labels.npz", student]
    assert named(results) == ["baseline/wrong.json", "ensemble.json", *below]


def test_missing_files_and_strangers_are_named(results: Path) -> None:
    (results / "chunks" / "0-2.npz").unlink()
    np.savez(results / "mine.npz", x=np.arange(3))
    (results / "mine.json").write_text("{}")
    assert named(results) == ["mine.json", "mine.npz", "votes.npz"]
    (results / "mine.npy").touch()
    with pytest.raises(PatebenchError, match=r"mine\.npy is not a file of type \.npz or \.json"):
        check(results / "mine.npy")


def test_nothing_in_a_folder_of_somebody_else_is_to_be_deleted(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", x=np.arange(3))
    np.savez_compressed(tmp_path / "packed.npz", x=np.arange(3))
    with (tmp_path / "array.npz").open("wb") as stream:
        np.save(stream, np.arange(3))
    texts = {"text.npz": "hello", "other.json": '{"kind": "Pod"}', "list.json": "[1]", "broken.json": "{"}
    for name, text in {**texts, ".swap.tmp": "kept", ".mine.npz.12.tmp": "kept"}.items():
        (tmp_path / name).write_text(text)
    found = check(tmp_path)
    assert (len(found.faults), found.leftovers) == (7, [])
    assert any("move this one away and run snakemake again" in fault for fault in found.faults)
    assert all("delete" not in fault and "give the right file" in fault for fault in found.faults), found.faults


def test_every_layout_can_be_checked() -> None:
    every = [each for each in vars(formats).values() if isinstance(each, formats.Layout)]
    assert sorted(LAYOUTS) == sorted(layout.kind for layout in every)


def test_the_command_says_it_with_its_status(results: Path) -> None:
    def said(folder: Path) -> tuple[int, str]:
        done = invoke("check", folder)
        return done.exit_code, done.stdout

    assert said(results) == (0, f"{results}: 13 artefacts, no faults\n")
    os.truncate(results / "votes.npz", 100)
    status, lines = said(results)
    assert (status, lines.splitlines()[-1]) == (1, f"{results}: 13 artefacts, 1 fault")


def test_rounds_belong_to_the_rounds_before_them(results: Path) -> None:
    """Check labels of two rounds, where a student of the first selected the queries of the second."""
    pool, votes = read_arrays(results / "pool.npz", POOL), read_arrays(results / "votes.npz", VOTES)
    facts = {"pool": pool.digest, "classes": 3}
    made = {"votes": votes.digest, "mechanism": "gnmax", "parameters": {"sigma": 2.0}, "mode": "seeded", "rounds": []}
    earlier = predictions = None
    files: list[str] = []
    folder = results / "gnmax" / "sigma-2"
    for name, queries in (("random-5", np.arange(5)), ("siamese-5", np.arange(5, 10))):
        folder = folder / name
        selection = {"strategy": "random", "student": STUDENT, "features": None}
        of = {**facts, **selection, "labels": earlier, "predictions": predictions}
        files = [*files, write_arrays(folder / "queries.npz", QUERIES, {"queries": queries}, of)]
        arrays = {"labels": np.zeros(5, np.int32), "queries": queries}
        of = {**facts, **made, **OF_VOTES, "earlier": earlier, "queries_files": files}
        earlier = write_arrays(folder / "labels.npz", LABELS, arrays, of)
        probabilities = {"probabilities": np.full((20, 3), 1 / 3, np.float32)}
        predictions = write_arrays(folder / "predictions.npz", PREDICTIONS, probabilities, {**facts, "labels": earlier})
    assert check(results).faults == []
    for file, layout, fact, wrong in (
        ("queries", QUERIES, "labels", "0" * 64),
        ("queries", QUERIES, "predictions", "0" * 64),
        ("labels", LABELS, "earlier", "0" * 64),
        ("labels", LABELS, "queries_files", [files[0], "0" * 64]),
    ):
        sound = read_arrays(folder / f"{file}.npz", layout)
        write_arrays(sound.path, layout, sound.arrays, {**sound.meta, fact: wrong})
        assert f"{sound.path}: its input '{fact}' has changed: it was not made from" in "".join(check(results).faults)
        write_arrays(sound.path, layout, sound.arrays, sound.meta)
