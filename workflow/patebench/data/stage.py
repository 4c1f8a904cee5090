"""The stages `data`, `split` and `partition`: from a data set's name to artefacts on disk."""

import inspect
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import PARTITION, POOL, SAMPLES, TRUTH
from patebench.core.registry import nearest
from patebench.core.seeds import generator
from patebench.data import DATASETS
from patebench.data.dataset import Dataset
from patebench.data.partitions import PARTITIONS, Deal, check_disjoint, check_every_class, pack
from patebench.data.split import check_apart, content, divide

LOG = logging.getLogger("patebench")


def make_data(
    name: str, root: Path, options: Mapping[str, Any], download: bool, private_out: Path, public_out: Path
) -> None:
    """Load the data set `name` and write its private and public samples.

    `options` are the loader's own (`private` and `public` for a user's files); its entry `loader` names the registry's
    entry where that is not `name` itself. `row` is the sample's position in its part of the data set.
    """
    loader = str(options.get("loader", name))
    options = {key: value for key, value in options.items() if key != "loader"}
    load: Callable[..., Dataset] = DATASETS.load(loader)
    _check_options(loader, load, options)
    data = load(root=Path(root), download=download, **options)
    for role, x, y, out in (
        ("private", data.private_x, data.private_y, private_out),
        ("public", data.public_x, data.public_y, public_out),
    ):
        write_arrays(out, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, _facts(name, role, data.class_names))
        LOG.info("%s: %d %s samples of shape %s in %d classes", name, len(x), role, x.shape[1:], data.classes)


def _check_options(loader: str, load: Callable[..., Dataset], options: Mapping[str, Any]) -> None:
    wanted = [name for name in inspect.signature(load).parameters if name not in ("root", "download")]
    for name in options:
        if name not in wanted:
            known = ", ".join(wanted) or "none"
            raise PatebenchError(
                f"the data set '{loader}' has no option '{name}'{nearest(name, wanted)}; known: {known}"
            )
    for name in wanted:
        if name not in options:
            raise PatebenchError(
                f"the data set '{loader}' needs the option '{name}'; give the path of the {name} files"
            )


def _facts(dataset: str, role: str, class_names: tuple[str, ...]) -> dict[str, Any]:
    return {"dataset": dataset, "role": role, "classes": len(class_names), "class_names": list(class_names)}


def split(
    private: Path,
    public: Path,
    pool: int,
    test: int | None,
    seed: int,
    stream: str,
    pool_out: Path,
    truth_out: Path,
    test_out: Path,
) -> None:
    """Shuffle the public samples into `pool` queries and `test` test samples (None: all the others).

    A public sample that equals a private one byte for byte is left out, and so is a test sample that equals one of the
    pool. How many were left out is logged and recorded as `removed_duplicates` beside the truth (in the private data)
    and in the test set (in the pool). `row` is the position in the public data.
    Raises PatebenchError when too few samples remain.
    """
    ours, others = read_samples(private, "private"), read_samples(public, "public")
    _check_partners(ours, others)
    x, y, secret = others["x"], others["y"], content(ours["x"])
    parts = divide(secret, content(x), pool, test, generator(seed, stream, "split"))
    check_apart(private=secret, pool=content(x[parts.pool]), test=content(x[parts.test]))
    name, names = others.meta["dataset"], tuple(others.meta["class_names"])
    LOG.info("%s: %d queries and %d test samples", name, len(parts.pool), len(parts.test))
    LOG.info("%s: left out %d public samples that are private, %d in the pool", name, parts.in_private, parts.in_pool)
    pool_facts = {"dataset": name, "classes": len(names), "class_names": list(names), "public": others.digest}
    digest = write_arrays(pool_out, POOL, {"x": x[parts.pool], "row": parts.pool}, pool_facts)
    truth_facts = {"pool": digest, "classes": len(names), "removed_duplicates": parts.in_private}
    write_arrays(truth_out, TRUTH, {"y": y[parts.pool]}, truth_facts)
    test_facts = {**_facts(name, "test", names), "pool": digest, "removed_duplicates": parts.in_pool}
    write_arrays(test_out, SAMPLES, {"x": x[parts.test], "y": y[parts.test], "row": parts.test}, test_facts)


def read_samples(path: Path, role: str) -> Artefact:
    """Samples of the given role; ArtefactError when the file holds those of another."""
    samples = read_arrays(path, SAMPLES)
    if samples.meta["role"] != role:
        raise ArtefactError(
            path, f"it holds the {samples.meta['role']} samples where the {role} ones are needed", "give the right file"
        )
    return samples


def _check_partners(private: Artefact, public: Artefact) -> None:
    for entry in ("dataset", "classes", "class_names"):
        public.require(entry, private.meta[entry], str(private.path))
    if (private["x"].dtype, private["x"].shape[1:]) != (public["x"].dtype, public["x"].shape[1:]):
        raise ArtefactError(public.path, f"its samples have another shape or dtype than those of {private.path}")


def partition(
    private: Path,
    teachers: int | None,
    strategy: str,
    share: float | None,
    owners: Path | None,
    seed: int,
    stream: str,
    out: Path,
    need_every_class: bool = False,
) -> None:
    """Deal the private samples to the teachers and write their shards.

    `strategy` is an entry of `PARTITIONS`: "skew" needs `share`; "owners" needs the path of the user's own `.npy`
    column and can do without `teachers`. `need_every_class` refuses a shard that lacks a class.
    Raises PatebenchError when such shards can not be made.
    """
    spelt = slug(strategy, share)
    samples = read_samples(private, "private")
    deal = Deal(
        y=samples["y"],
        classes=samples.meta["classes"],
        rng=generator(seed, stream, "partition"),
        teachers=teachers,
        share=share,
        owners=None if owners is None else _read_column(Path(owners)),
    )
    assignment = PARTITIONS.load(strategy)(deal)
    if need_every_class:
        check_every_class(assignment, samples["y"], samples.meta["class_names"])
    indices, offsets = pack(assignment)
    check_disjoint(indices, offsets, len(samples["y"]))
    sizes = np.diff(offsets)
    facts = {"private": samples.digest, "samples": len(samples["y"]), "teachers": len(sizes), "strategy": spelt}
    write_arrays(out, PARTITION, {"indices": indices, "offsets": offsets}, facts)
    LOG.info("%d teachers (%s): shards of %d to %d samples", len(sizes), spelt, sizes.min(), sizes.max())


def slug(strategy: str, share: float | None = None) -> str:
    """How a partition is spelt in paths and records: iid, skew-0.8, owners."""
    PARTITIONS.check(strategy)
    if (share is None) == (strategy == "skew"):
        raise PatebenchError(
            f"the partition '{strategy}' and the share {share} do not go together; only 'skew' has one"
        )
    return strategy if share is None else f"{strategy}-{share:.12g}"


def read_partition(path: Path, private: Artefact) -> Artefact:
    """A partition of exactly these private samples, with disjoint shards; ArtefactError otherwise."""
    shards = read_arrays(path, PARTITION)
    shards.require("private", private.digest, str(private.path))
    shards.require("teachers", len(shards["offsets"]) - 1, "its own offsets")
    try:
        check_disjoint(shards["indices"], shards["offsets"], len(private["y"]))
    except PatebenchError as fault:
        raise ArtefactError(path, str(fault)) from None
    return shards


def _read_column(path: Path) -> NDArray[Any]:
    mend = "give a .npy file with one integer for each private sample"
    if not path.is_file():
        raise ArtefactError(path, "there is no such file", mend)
    try:
        with open(path, "rb") as stream:
            column: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        if "Object arrays" in str(fault):
            raise ArtefactError(path, "it holds pickled objects, which are never loaded", mend) from None
        raise ArtefactError(path, f"it is no readable .npy file ({fault})", mend) from None
    return column
