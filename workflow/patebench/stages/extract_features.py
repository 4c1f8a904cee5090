"""The stage `extract_features`: features of a pool, by which queries can be selected."""

from pathlib import Path

from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import FEATURES, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.stages.command import file_option, seeded, stage_command, threads


def run(*, pool: Path, seed: int, stream: str, out: Path) -> None:
    """Learn features of the pool without a label, by which queries can be selected."""
    import torch

    from patebench.students import contrast

    samples = read_arrays(pool, POOL)
    with torch.random.fork_rng(devices=[]), progress(f"features of {len(samples['x'])} samples", None, "steps") as done:
        torch.manual_seed(derive(seed, stream))
        vectors = contrast.features(samples["x"], done)
    write_arrays(out, FEATURES, {"vectors": vectors}, {"pool": samples.digest})


command = stage_command(
    run, file_option("pool", "The public pool."), threads, seeded, file_option("out", "Where the features go.")
)
