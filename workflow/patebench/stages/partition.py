"""The stage `partition`: the private samples are dealt to the teachers."""

import logging
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.core.files import write_arrays
from patebench.core.formats import PARTITION
from patebench.core.seeds import generator
from patebench.data.partitions import PARTITIONS, Deal, check_disjoint, check_every_class, pack
from patebench.plan.parameters import PartitionParameters
from patebench.stages.command import file_option, parameter_options, seeded, stage_command
from patebench.stages.reading import read_samples

log = logging.getLogger("patebench")


def run(
    *, private: Path, teachers: int | None, parameters: PartitionParameters, seed: int, stream: str, out: Path
) -> None:
    """Deal the private samples to the teachers.

    With the strategy "owners" the number of teachers is that of the owners, and need not be given. A shard that lacks a
    class is refused with --every-class.
    """
    strategy = PARTITIONS.load(parameters.strategy)
    samples = read_samples(private, "private")
    deal = Deal(
        y=samples["y"],
        classes=samples.meta["classes"],
        rng=generator(seed, stream, "partition"),
        teachers=teachers,
        share=parameters.share,
        owners=None if parameters.owners is None else _read_owners(Path(parameters.owners)),
    )
    assignment = strategy(deal)
    if parameters.every_class:
        check_every_class(assignment, samples["y"], samples.meta["class_names"])
    indices, offsets = pack(assignment)
    check_disjoint(indices, offsets, len(samples["y"]))
    sizes, spelt = np.diff(offsets), parameters.slug
    facts = {"private": samples.digest, "samples": len(samples["y"]), "teachers": len(sizes), "strategy": spelt}
    write_arrays(out, PARTITION, {"indices": indices, "offsets": offsets}, facts)
    log.info("%d teachers (%s): shards of %d to %d samples", len(sizes), spelt, sizes.min(), sizes.max())


def _read_owners(path: Path) -> NDArray[Any]:
    mend = "give a .npy file with one integer for each private sample"
    if not path.is_file():
        raise ArtefactError(path, "there is no such file", mend)
    try:
        with open(path, "rb") as stream:
            owners: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        if "Object arrays" in str(fault):
            raise ArtefactError(path, "it holds pickled objects, which are never loaded", mend) from None
        raise ArtefactError(path, f"it is no readable .npy file ({fault})", mend) from None
    return owners


command = stage_command(
    run,
    file_option("private", "Private samples."),
    click.option("--teachers", type=int, default=None, help="Number of shards."),
    parameter_options(PartitionParameters),
    seeded,
    file_option("out", "Where the shards go."),
)
