"""The stage `partition`: who owns which private sample, and what is no partition of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import PARTITION
from patebench.plan.parameters import PartitionParameters
from patebench.stages import partition
from patebench.stages.reading import read_partition, read_samples


def make(
    folder: Path, strategy: str = "iid", teachers: int | None = 6, seed: int = 0, stream: str = "tiny", **settings: Any
) -> Path:
    out, parameters = folder / "made.npz", PartitionParameters.checked({"strategy": strategy, **settings})
    partition.run(
        private=folder / "private.npz", teachers=teachers, parameters=parameters, seed=seed, stream=stream, out=out
    )
    return out


def test_the_artefact_names_its_private_data_and_strategy(tiny: Path) -> None:
    private = read_samples(tiny / "private.npz", "private")
    for strategy, share, spelt in (("iid", None, "iid"), ("skew", 0.5, "skew-0.5")):
        shards = read_partition(make(tiny, strategy, share=share), private)
        assert shards.meta["private"] == private.digest
        assert shards.meta["strategy"] == spelt == PartitionParameters(strategy=strategy, share=share).slug
        assert (shards.meta["teachers"], shards.meta["samples"]) == (6, 60)
        assert np.diff(shards["offsets"]).tolist() == [10] * 6


def test_owners_come_from_the_users_file(tiny: Path) -> None:
    np.save(tiny / "column.npy", np.arange(60) // 20 + 7)
    made = read_arrays(make(tiny, "owners", None, owners=str(tiny / "column.npy")), PARTITION)
    assert made.meta["teachers"] == 3
    assert made["offsets"].tolist() == [0, 20, 40, 60]
    assert made["indices"].tolist() == list(range(60))


def test_the_same_seed_and_stream_give_the_same_bytes(tiny: Path) -> None:
    first = make(tiny).read_bytes()
    assert make(tiny).read_bytes() == first
    assert make(tiny, seed=1).read_bytes() != first
    assert make(tiny, stream="other").read_bytes() != first


@pytest.mark.parametrize("content", [None, b"", b"text", np.array([{}], dtype=object)])
def test_a_column_that_can_not_be_read_is_refused_in_one_line(tiny: Path, content: Any) -> None:
    path = tiny / "column.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(ArtefactError, match=r"column\.npy: it|column\.npy: there") as caught:
        make(tiny, "owners", None, owners=str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "parameters", "words"),
    [
        ("idd", {}, r"unknown partition 'idd' .did you mean 'iid'"),
        ("iid", {"share": 0.5}, "share is for 'skew' and this is 'iid'; leave it out"),
        ("skew", {}, "share: is missing; the strategy 'skew' needs it"),
        ("owners", {}, "owners: is missing; the strategy 'owners' needs it"),
        ("iid", {"teachers": 61}, "61 teachers can not share 60 private samples"),
        ("skew", {"teachers": 3, "share": 1.0, "every_class": True}, "teacher 0 has no sample of class 1"),
    ],
)
def test_the_stage_refuses_and_writes_nothing(
    tiny: Path, strategy: str, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(PatebenchError, match=words):
        make(tiny, strategy, **parameters)
    assert not (tiny / "made.npz").exists()


def test_public_samples_are_not_partitioned(tiny: Path) -> None:
    with pytest.raises(ArtefactError, match="it holds the public samples where the private ones are needed"):
        partition.run(
            private=tiny / "public.npz", teachers=6, parameters=PartitionParameters(), seed=0, stream="tiny",
            out=tiny / "made.npz",
        )  # fmt: skip


def test_a_partition_of_other_data_is_refused(tiny: Path) -> None:
    path, private = make(tiny), read_samples(tiny / "private.npz", "private")
    made = read_arrays(path, PARTITION)
    write_arrays(path, PARTITION, made.arrays, {**made.meta, "private": "0" * 64})
    with pytest.raises(ArtefactError, match=r"made with another private than .*private\.npz"):
        read_partition(path, private)


def test_a_partition_with_overlapping_shards_is_refused(tiny: Path) -> None:
    path, private = make(tiny), read_samples(tiny / "private.npz", "private")
    made = read_arrays(path, PARTITION)
    indices = made["indices"].copy()
    indices[0] = indices[-1]
    write_arrays(path, PARTITION, {**made.arrays, "indices": indices}, made.meta)
    with pytest.raises(ArtefactError, match="belongs to both teacher 0 and teacher 5"):
        read_partition(path, private)
