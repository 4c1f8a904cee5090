"""Test the stage `partition`: the owner of each private sample, and refused partitions."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses

from patebench.artefacts.reading import read_partition, read_samples
from patebench.config.parameters import PartitionParameters, SplitParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import PARTITION, POOL, SAMPLES
from patebench.data.partitions import PARTITIONS
from patebench.stages import partition, split

Writer = Callable[..., Path]


def make(
    folder: Path, strategy: str = "iid", teachers: int | None = 6, seed: int = 0, stream: str = "tiny", **settings: Any
) -> Path:
    out, parameters = folder / "made.npz", PartitionParameters.checked({"strategy": strategy, **settings})
    files = {"private": folder / "private.npz", "public": folder / "public.npz"}
    partition.run(**files, teachers=teachers, parameters=parameters, seed=seed, stream=stream, out=out)
    return out


def rows(made: Artefact) -> list[list[int]]:
    """Return the private samples of each teacher."""
    return [shard.tolist() for shard in np.split(made["indices"], made["offsets"][1:-1])]


def test_the_artefact_says_what_it_is_of_and_what_it_protects(tiny: Path) -> None:
    np.save(tiny / "column.npy", np.arange(60) // 4)
    private = read_samples(tiny / "private.npz", "private")
    for strategy, settings, protects, slug in (
        ("iid", {}, ["replace"], "iid"),
        ("skew", {"share": 0.5}, [], "skew-0.5"),
        ("hash", {}, ["replace"], "hash"),  # rows are positions
        ("hash-owners", {"owners": str(tiny / "column.npy")}, ["owner", "leave"], "hash-owners"),
    ):
        made = read_partition(make(tiny, strategy, 3, **settings), private)
        assert (made.meta["protects"], made.meta["strategy"]) == (protects, slug)
        described_as = "iid" if strategy == "hash" else strategy
        assert made.meta["protection"] == PARTITIONS.fact(described_as, "protection")
        assert (made.meta["teachers"], made.meta["samples"]) == (3, 60)
        assert made.meta["private"] == private.digest
        assert strategy.startswith("hash") or set(np.diff(made["offsets"])) == {20}


def test_the_digest_of_owners_depends_only_on_who_owns_which_records(tiny: Path) -> None:
    private = read_samples(tiny / "private.npz", "private")

    def digest(column: np.ndarray, order: Any = slice(None), strategy: str = "hash-owners") -> str:
        arrays = {name: each[order] for name, each in private.arrays.items()}
        write_arrays(tiny / "private.npz", SAMPLES, arrays, private.meta)
        np.save(tiny / "column.npy", column[order])
        teachers = 3 if strategy == "hash-owners" else None
        made = make(tiny, strategy, teachers, owners=str(tiny / "column.npy"))
        return str(read_arrays(made, PARTITION).meta["owners"])

    patients = np.arange(60) // 4
    assert digest(patients) == digest(99 - patients) == digest(patients, np.random.default_rng(0).permutation(60))
    assert digest(patients) == digest(patients, strategy="owners")
    moved = patients.copy()
    moved[0] = 1
    assert len({digest(column) for column in (patients, moved, np.arange(60), np.arange(60) // 8)}) == 4
    assert "owners" not in read_arrays(make(tiny, "hash", 3), PARTITION).meta


def test_with_a_hash_of_rows_a_removed_record_moves_no_other(tiny: Path) -> None:
    private = read_samples(tiny / "private.npz", "private")
    kept = private["row"] != 17

    def shards() -> list[list[int]]:
        held = read_samples(tiny / "private.npz", "private")
        return [held["row"][shard].tolist() for shard in rows(read_arrays(make(tiny, "hash", 3), PARTITION))]

    before = shards()
    arrays = {name: each[kept] for name, each in private.arrays.items()}
    write_arrays(tiny / "private.npz", SAMPLES, arrays, {**private.meta, "own_rows": True})
    assert shards() == [[row for row in shard if row != 17] for shard in before]
    assert read_arrays(tiny / "made.npz", PARTITION).meta["protects"] == ["replace", "remove", "add"]


def test_features_of_images_are_the_same_records_as_the_images(tiny: Path) -> None:
    private = read_samples(tiny / "private.npz", "private")
    of_images = read_arrays(make(tiny), PARTITION).meta["records"]
    features = np.random.default_rng(1).random((60, 3)).astype(np.float32)
    arrays = {**private.arrays, "x": features, "images": private["x"]}
    write_arrays(tiny / "private.npz", SAMPLES, arrays, private.meta)
    public = read_samples(tiny / "public.npz", "public")
    write_arrays(
        tiny / "public.npz", SAMPLES, {**public.arrays, "x": 1 + features[:40], "images": public["x"]}, public.meta
    )
    assert read_arrays(make(tiny), PARTITION).meta["records"] == of_images


def test_owners_come_from_the_users_file(tiny: Path) -> None:
    np.save(tiny / "column.npy", np.arange(60) // 20 + 7)
    made = read_arrays(make(tiny, "owners", None, owners=str(tiny / "column.npy")), PARTITION)
    assert made.meta["teachers"] == 3
    assert made["offsets"].tolist() == [0, 20, 40, 60]
    assert made["indices"].tolist() == list(range(60))


def test_a_file_of_owners_may_join_people_of_the_data_but_not_split_them(tiny: Path) -> None:
    private, people = read_samples(tiny / "private.npz", "private"), np.arange(60) // 4
    write_arrays(tiny / "private.npz", SAMPLES, {**private.arrays, "owner": people}, private.meta)
    column = tiny / "column.npy"
    for owners in (np.arange(60), np.roll(people, 1), np.where(np.arange(60) == 7, 99, people)):
        np.save(column, owners)
        for strategy, teachers in (("hash-owners", 3), ("owners", None)):
            with refuses("owners", "--owners"):
                make(tiny, strategy, teachers, owners=str(column))
    for owners in (people, 99 - people, people // 2, people % 3):
        np.save(column, owners)
        make(tiny, "owners", None, owners=str(column))


@pytest.mark.parametrize("content", [None, b"", b"text", np.array([{}], dtype=object)])
def test_a_column_that_can_not_be_read_is_refused_in_one_line(tiny: Path, content: Any) -> None:
    path = tiny / "column.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(ArtefactError, match=r"column\.npy: it|column\.npy: this") as caught:
        make(tiny, "owners", None, owners=str(path))
    assert "\n" not in str(caught.value)


def test_the_stage_refuses_and_writes_nothing(tiny: Path) -> None:
    with pytest.raises(PatebenchError, match="there are 61 teachers, but only 60 private samples"):
        make(tiny, teachers=61)
    assert not (tiny / "made.npz").exists()


def test_files_of_another_role_or_other_data_are_refused(tiny: Path, write_samples: Writer) -> None:
    private = (tiny / "private.npz").read_bytes()
    (tiny / "private.npz").write_bytes((tiny / "public.npz").read_bytes())
    with refuses("kind"):
        make(tiny)
    (tiny / "private.npz").write_bytes(private)
    write_samples("public", np.zeros((40, 1, 4, 4), np.uint8), np.zeros(40, int), dataset="other")
    with refuses("mismatch"):
        make(tiny)
    write_samples("public", np.zeros((40, 2), np.float32), np.zeros(40, int))
    with pytest.raises(ArtefactError, match=r"its samples are .* of shape .*, but those in"):
        make(tiny)


@pytest.mark.parametrize("place", ["pool", "test", "neither"])
def test_what_is_public_does_not_tell_whether_a_sample_is_private(
    tiny: Path, write_samples: Writer, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    """Replace a private sample by a copy of a public one: only its teacher loses a sample."""
    caplog.set_level(logging.INFO, "patebench")
    outs = {f"{name}_out": tiny / f"{name}.npz" for name in ("pool", "truth", "test")}
    cut = {"public": tiny / "public.npz", "parameters": SplitParameters(pool=20, test=10), "seed": 0, "stream": "tiny"}

    def public_files() -> list[bytes]:
        split.run(**cut, **outs)
        return [path.read_bytes() for path in outs.values()]

    before, alone = public_files(), rows(read_arrays(make(tiny), PARTITION))
    used = {"pool": read_arrays(tiny / "pool.npz", POOL)["row"], "test": read_arrays(tiny / "test.npz", SAMPLES)["row"]}
    used["neither"] = np.setdiff1d(np.arange(40), [*used["pool"], *used["test"]])
    twin = used[place][3]
    private, public = (read_samples(tiny / f"{role}.npz", role) for role in ("private", "public"))
    x = private["x"].copy()
    x[17] = public["x"][twin]
    write_samples("private", x, private["y"])
    assert public_files() == before
    made = read_arrays(make(tiny), PARTITION)
    assert rows(made) == [[row for row in shard if row != 17] for shard in alone]
    assert (made.meta["left_out"], made.meta["public"]) == (1, public.digest)
    assert "left out 1 private samples that are also public" in caplog.text
    read_partition(tiny / "made.npz", read_samples(tiny / "private.npz", "private"))


def test_a_shard_that_loses_too_much_to_the_public_samples_is_named(tiny: Path, write_samples: Writer) -> None:
    private, public = (read_samples(tiny / f"{role}.npz", role) for role in ("private", "public"))
    lost = np.isin(np.arange(60), rows(read_arrays(make(tiny), PARTITION))[2])
    make(tiny, teachers=2, every_class=True)
    (tiny / "made.npz").unlink()
    for gone, settings, words in (
        (lost, {}, r"teacher 2 has no samples .10 private .* use fewer teachers"),
        (private["y"] == 1, {"teachers": 2, "every_class": True}, "teacher 0 has no sample of class 1"),
        (private["y"] < 3, {}, r"private\.npz: all of its 60 samples also occur in .*public\.npz"),
    ):
        x = np.where(gone[:, None, None, None], public["x"][0], private["x"])
        write_samples("private", x, private["y"])
        with pytest.raises(PatebenchError, match=words):
            make(tiny, **settings)
    assert not (tiny / "made.npz").exists()


def test_a_partition_with_overlapping_shards_is_refused(tiny: Path) -> None:
    path, private = make(tiny), read_samples(tiny / "private.npz", "private")
    made = read_arrays(path, PARTITION)
    indices = made["indices"].copy()
    indices[0] = indices[-1]
    write_arrays(path, PARTITION, {**made.arrays, "indices": indices}, made.meta)
    with pytest.raises(ArtefactError, match="belongs to both teacher 0 and teacher 5"):
        read_partition(path, private)


def test_records_have_one_digest_whatever_their_data_set_is_called_and_in_any_order(tiny: Path) -> None:
    private = read_samples(tiny / "private.npz", "private")
    before = read_arrays(make(tiny), PARTITION).meta["records"]
    turned = {name: array[::-1] for name, array in private.arrays.items()}
    for name in ("private", "public"):
        held = read_samples(tiny / f"{name}.npz", name)
        arrays = turned if name == "private" else held.arrays
        write_arrays(tiny / f"{name}.npz", SAMPLES, arrays, {**held.meta, "dataset": "another"})
    assert read_arrays(make(tiny), PARTITION).meta["records"] == before
    turned["y"] = (turned["y"] + 1) % 3
    write_arrays(tiny / "private.npz", SAMPLES, turned, {**private.meta, "dataset": "another"})
    assert read_arrays(make(tiny), PARTITION).meta["records"] != before
