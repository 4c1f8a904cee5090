"""Test that `patebench check` finds every damaged file and every file with other inputs, and nothing else."""

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.steps import OF_VOTES, STUDENT, account, aggregate

from patebench.cli import cli
from patebench.config.parameters import PartitionParameters
from patebench.core import formats
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import CHUNK, LAYOUTS, PARTITION, POOL, PREDICTIONS, SAMPLES
from patebench.stages import join_votes, partition
from patebench.stages.check import check


@pytest.fixture
def results(tiny: Path) -> Path:
    """Run all stages except training, for 6 teachers in 2 chunks and 3 classes."""
    rng = np.random.default_rng(0)
    digests = {name: read_arrays(tiny / f"{name}.npz", layout).digest for name, layout in PARTS.items()}
    meta = {**digests, "classes": 3, "model": "logistic", "recipe": "modern", "epochs": 1, "seed": 0}
    meta |= {"training": {"model": "logistic", "recipe": "modern", "epochs": None}}
    chunks = [tiny / "chunks" / "0-2.npz", tiny / "chunks" / "3-5.npz"]
    for i, path in enumerate(chunks):
        said = {"votes": rng.integers(0, 3, (3, 20)), "test_votes": rng.integers(0, 3, (3, 20))}
        write_arrays(path, CHUNK, {"teachers": np.arange(3 * i, 3 * i + 3), **said}, meta)
    where = {name: tiny / f"{name}.npz" for name in ("partition", "pool", "truth", "test")}
    join_votes.run(**where, chunk=chunks, out=tiny / "votes.npz", summary=tiny / "ensemble.json")
    noise = tiny / "gnmax" / "sigma-2"
    aggregate(tiny / "votes.npz", "gnmax", {"sigma": 2}, 0, "s", noise / "labels.npz")
    account(tiny / "votes.npz", noise / "labels.npz", [20], 1e-5, 0, "s", noise / "bounds.json")
    labels = read_arrays(noise / "labels.npz", LAYOUTS["labels"]).digest
    facts = {"labels": labels, "pool": digests["pool"], "test": digests["test"]}
    write_json(noise / "supervised" / "student.json", "train_student", facts)
    return tiny


PARTS = {"partition": PARTITION, "pool": POOL, "test": SAMPLES}


def named(results: Path) -> list[str]:
    """Return the files named in faults, relative to the results."""
    return [line.split(": ")[0].removeprefix(f"{results}/") for line in check(results).faults]


def test_sound_results_have_no_fault(results: Path) -> None:
    found = check(results)
    assert found.faults == []
    assert found.artefacts == len([*results.rglob("*.npz"), *results.rglob("*.json")]) == 13


@pytest.mark.slow
@pytest.mark.parametrize("name", ["private.npz", "votes.npz", "gnmax/sigma-2/labels.npz", "gnmax/sigma-2/bounds.json"])
@pytest.mark.parametrize("harm", ["cut", "changed", "emptied"])
def test_a_damaged_file_is_named_and_it_alone(results: Path, name: str, harm: str) -> None:
    content = bytearray((results / name).read_bytes())
    if harm == "changed":  # within an array; bytes between the members of an archive have no effect
        content[content.index(b"NUMPY") + 128 if name.endswith(".npz") else len(content) // 2] ^= 1
    kept = {"cut": len(content) - 20, "changed": len(content), "emptied": 0}[harm]
    (results / name).write_bytes(content[:kept])
    assert named(results) == [name]
    (line,) = check(results).faults
    assert "delete the file and run snakemake again" in line


def test_files_that_do_not_belong_together_are_named(results: Path) -> None:
    partition.run(
        private=results / "private.npz", public=results / "public.npz", teachers=6, parameters=PartitionParameters(),
        seed=1, stream="tiny", out=results / "partition.npz",
    )  # fmt: skip
    assert named(results) == ["chunks/0-2.npz", "chunks/3-5.npz", "votes.npz"]
    assert "it was made from another partition than" in check(results).faults[0]


def test_labels_bounds_and_students_of_others_are_named(results: Path) -> None:
    votes = read_arrays(results / "votes.npz", LAYOUTS["votes"])
    arrays = {**votes.arrays, "votes": (votes["votes"] + 1) % 3}
    write_arrays(results / "votes.npz", LAYOUTS["votes"], arrays, votes.meta)
    student, truth = (
        "gnmax/sigma-2/supervised/student.json",
        read_arrays(results / "truth.npz", LAYOUTS["truth"]).digest,
    )
    facts = read_json(results / student, "train_student")
    write_json(results / student, "train_student", {**facts, "labels": "0" * 64})
    write_json(results / "baseline" / "sound.json", "train_baseline", {"truth": truth})
    write_json(results / "baseline" / "wrong.json", "train_baseline", {"truth": "0" * 64})
    below = ["gnmax/sigma-2/bounds.json", "gnmax/sigma-2/labels.npz", student]
    assert named(results) == ["baseline/wrong.json", "ensemble.json", *below]


def test_what_is_gone_is_missed(results: Path) -> None:
    (results / "chunks" / "0-2.npz").unlink()
    assert named(results) == ["votes.npz"]


def test_a_stranger_is_named(results: Path) -> None:
    np.savez(results / "mine.npz", x=np.arange(3))
    (results / "mine.json").write_text("{}")
    assert named(results) == ["mine.json", "mine.npz"]
    (results / "mine.npy").touch()
    with pytest.raises(PatebenchError, match=r"mine\.npy is not an artefact"):
        check(results / "mine.npy")


def test_nothing_in_a_folder_of_somebody_else_is_to_be_deleted(tmp_path: Path) -> None:
    """Never propose to delete files in a folder without artefacts, not even those that look like leftovers."""
    np.savez(tmp_path / "plain.npz", x=np.arange(3))
    np.savez_compressed(tmp_path / "packed.npz", x=np.arange(3))
    np.save(tmp_path / "array.npz.npy", np.arange(3))
    (tmp_path / "array.npz.npy").rename(tmp_path / "array.npz")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "other.json").write_text('{"kind": "Pod", "spec": {}}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    for name in (".swap.tmp", ".mine.npz.12.tmp"):
        (tmp_path / name).write_text("kept")
    found = check(tmp_path)
    assert len(found.faults) == 7
    assert found.leftovers == []
    assert all("delete" not in fault and "give the right file" in fault for fault in found.faults), found.faults


def test_only_our_own_leftovers_may_be_deleted(results: Path) -> None:
    for name in (".swap.tmp", ".votes.npz.12.tmp"):
        (results / name).write_text("half")
    assert [path.name for path in check(results).leftovers] == [".votes.npz.12.tmp"]


def test_every_layout_can_be_checked() -> None:
    every = [each for each in vars(formats).values() if isinstance(each, formats.Layout)]
    assert sorted(LAYOUTS) == sorted(layout.kind for layout in every)


def test_the_command_says_it_with_its_status(results: Path) -> None:
    def said(folder: Path) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["check", str(folder)])
        return done.exit_code, done.stdout

    assert said(results) == (0, f"{results}: 13 artefacts, no faults\n")
    os.truncate(results / "votes.npz", 100)
    status, lines = said(results)
    assert (status, lines.splitlines()[-1]) == (1, f"{results}: 13 artefacts, 1 fault")


@pytest.fixture
def rounds(results: Path) -> Path:
    """Write labels of two rounds, where a student of the first selected the queries of the second."""
    pool, votes = (read_arrays(results / f"{name}.npz", LAYOUTS[name]) for name in ("pool", "votes"))
    first = results / "gnmax" / "sigma-2" / "random-5"
    second = first / "siamese-5"
    facts = {"pool": pool.digest, "classes": 3}
    made = {"votes": votes.digest, "mechanism": "gnmax", "parameters": {"sigma": 2.0}, "mode": "seeded", "rounds": []}
    earlier = predictions = None
    files: list[str] = []
    for folder, queries in ((first, np.arange(5)), (second, np.arange(5, 10))):
        named = {"strategy": "random", "student": STUDENT, "labels": earlier, "predictions": predictions}
        named["features"] = None
        asked = write_arrays(folder / "queries.npz", LAYOUTS["queries"], {"queries": queries}, {**facts, **named})
        files = [*files, asked]
        arrays = {"labels": np.zeros(5, np.int32), "queries": queries}
        of = {**facts, **made, **OF_VOTES, "earlier": earlier, "queries_files": files}
        earlier = write_arrays(folder / "labels.npz", LAYOUTS["labels"], arrays, of)
        probabilities = {"probabilities": np.full((20, 3), 1 / 3, np.float32)}
        of = {**facts, "labels": earlier}
        predictions = write_arrays(folder / "predictions.npz", PREDICTIONS, probabilities, of)
    return second


def test_rounds_belong_to_the_rounds_before_them(results: Path, rounds: Path) -> None:
    assert check(results).faults == []
    below = str(rounds.relative_to(results))
    queries, labels = (read_arrays(rounds / f"{name}.npz", LAYOUTS[name]) for name in ("queries", "labels"))
    for fact in ("labels", "predictions"):
        write_arrays(queries.path, LAYOUTS["queries"], queries.arrays, {**queries.meta, fact: "0" * 64})
        assert f"{below}/queries.npz: it was made from another {fact} than" in "".join(check(results).faults)
        write_arrays(queries.path, LAYOUTS["queries"], queries.arrays, queries.meta)
    for fact, wrong in (("earlier", "0" * 64), ("queries_files", [labels.meta["queries_files"][0], "0" * 64])):
        write_arrays(labels.path, LAYOUTS["labels"], labels.arrays, {**labels.meta, fact: wrong})
        assert f"{below}/labels.npz: it was made from another {fact} than" in "".join(check(results).faults)
        write_arrays(labels.path, LAYOUTS["labels"], labels.arrays, labels.meta)
    assert check(results).faults == []
