"""Stage `extract_features`: learn an encoder from the public pool, and compute the features of the pool."""

from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import encoder_of, locate_faults
from patebench.cli.command import stage_command, threads
from patebench.core.checks import check_finite
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import ENCODER, FEATURES, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.features import ENCODERS


def run(
    *,
    pool: Annotated[Path, "Public pool."],
    seed: int,
    stream: str,
    out: Annotated[Path, "Output file with the features."],
    encoder: Annotated[Path, "Output file with the encoder, which computes the features of any sample."],
) -> None:
    """Learn features of the pool without labels, for selecting queries.

    The encoder is learned from public samples only, so it is public and is stored too. The file of the pool states its
    type.
    """
    import torch

    samples = read_arrays(pool, POOL)
    with torch.random.fork_rng(devices=[]), progress(f"features of {len(samples['x'])} samples", None, "steps") as done:
        torch.manual_seed(derive(seed, stream))
        learnt = ENCODERS.load(encoder_of(samples)).learn(samples["x"], done)
    vectors = learnt.features(samples["x"])
    with locate_faults(samples):
        check_finite("the features of the pool are not finite", vectors, samples["x"])
    digest = write_arrays(encoder, ENCODER, learnt.arrays(), {"pool": samples.digest})
    write_arrays(out, FEATURES, {"vectors": vectors}, {"pool": samples.digest, "encoder": digest})


command = stage_command(run, threads)
