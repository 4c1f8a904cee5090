"""Stage `extract_features`: train an encoder on the public pool, and compute the features of the pool."""

import hashlib
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import encoder_of, locate_faults
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.core.checks import check_finite
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import ENCODER, FEATURES, POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.features import encoder_class


def run(
    *,
    pool: Annotated[Path, "Public pool."],
    network: Annotated[Path | None, "TorchScript or ONNX file of an encoder that is not built in."] = None,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the features."],
    encoder: Annotated[OutputFile, "Output file with the encoder, which computes the features of any sample."],
) -> None:
    """Compute features of the pool with a public encoder.

    The pool's file states the name of the encoder. Built-in encoders learn from the pool, were trained on other public
    data, or need no training. If the encoder is not built in, give its file as --network; it must also be trained on
    public data only. Labels of the pool are not used. The encoder is stored too, to compute features of other samples.
    """
    import torch

    from patebench.features.trained_networks import NetworkEncoder

    samples = read_arrays(pool, POOL)
    kind, name = encoder_class(encoder_of(samples)), encoder_of(samples)
    if issubclass(kind, NetworkEncoder) != (network is not None):
        if network:
            raise PatebenchError(f"the encoder '{name}' is built in; leave out --network", code="network")
        raise PatebenchError(
            f"the encoder '{name}' is not built in, but --network is missing; give the file of its network as"
            " --network",
            code="network",
        )
    if network is not None:
        kind = NetworkEncoder.of_file(network)
    with torch.random.fork_rng(devices=[]), progress(f"features of {len(samples['x'])} samples", None, "steps") as done:
        torch.manual_seed(derive(seed, stream))
        learnt = kind.learn(samples["x"], done)
    vectors = learnt.features(samples["x"])
    with locate_faults(samples):
        check_finite("the features of the pool are not finite", vectors, samples["x"])
    arrays, facts = learnt.arrays(), {"pool": samples.digest}
    if network is not None:
        facts["network_sha256"] = hashlib.sha256(arrays["network"].tobytes()).hexdigest()
    digest = write_arrays(encoder, ENCODER, arrays, facts)
    write_arrays(out, FEATURES, {"vectors": vectors}, {"pool": samples.digest, "encoder": digest})


command = stage_command(run, threads)
