"""Measure the parts of the workflow that can use a GPU, and compare what they learn with a CPU.

    python benchmarks/bench_gpu.py --out cpu.json                      on a machine without a GPU
    python benchmarks/bench_gpu.py --out gpu.json --beside cpu.json    on a GPU: at most 8 minutes

Parts: 250 and 1,000 teachers, the contrastive encoder with the features of its pool, a consistency student, DP-SGD from
scratch, and a noisy gradient of PET-DL, all on MNIST. On a CPU only 25 teachers are trained, and the time is scaled.
Parts that are already in the file of --out are not measured again.
Pytest does not collect this file.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from bench_petdl import measure as measure_gradient
from bench_petdl import wait_for_device
from bench_teachers import World, ours

from patebench.baselines.clipped_models import NetworkModel
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler
from patebench.baselines.noisy_steps import train as train_privately
from patebench.core.files import read_arrays, write_text
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.features import ENCODERS
from patebench.models.architectures import untrained_network
from patebench.models.device import device
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.student_training import train as train_student

RECIPE, CPU_TEACHERS = "fast", 25
LABELS, EPOCHS, STEPS, NOISE = 100, 5, 100, 2.0


@dataclass(frozen=True)
class Part:
    """Seconds that a part took, and its accuracy on the test set (None if it has none)."""

    seconds: float
    accuracy: float | None


def timed(work: Callable[[], float | None]) -> Part:
    """Run `work`, which returns an accuracy, and wait until the device has finished."""
    start = time.perf_counter()
    accuracy = work()
    wait_for_device()
    return Part(time.perf_counter() - start, accuracy)


def teachers(folder: Path, count: int) -> Part:
    on_gpu = device().type == "cuda"
    trained = range(count if on_gpu else min(count, CPU_TEACHERS))
    accuracies: list[float] = []

    def work() -> float:
        accuracies.extend(ours(World(folder, count), trained, RECIPE, on_gpu).accuracies)
        return float(np.mean(accuracies))

    part = timed(work)
    return Part(part.seconds * count / len(trained), part.accuracy)


def encoder(world: World) -> Part:
    """Learn features from the pool; the accuracy is that of the label of each image's nearest neighbour."""
    x, truth = read_arrays(world.pool, POOL)["x"], read_arrays(world.truth, TRUTH)["y"]
    found: list[np.ndarray] = []

    def work() -> None:
        torch.manual_seed(0)
        found.append(np.asarray(ENCODERS.load("contrastive").learn(x).features(x)))

    part = timed(work)
    similarity = found[0] @ found[0].T
    np.fill_diagonal(similarity, -np.inf)
    return Part(part.seconds, float(np.mean(truth[similarity.argmax(1)] == truth)))


def student(world: World) -> Part:
    pool, truth, test = (
        read_arrays(path, kind) for path, kind in ((world.pool, POOL), (world.truth, TRUTH), (world.test, SAMPLES))
    )
    labels = np.where(np.arange(len(pool["x"])) < LABELS, truth["y"], -1)
    data = StudentData(pool=pool["x"], labels=labels, classes=10)

    def work() -> float:
        config = StudentConfig(method="consistency", epochs=EPOCHS)
        trainer, _ = train_student(data, config, seed=0)
        return float(np.mean(trainer.log_probabilities(test["x"]).argmax(1) == test["y"]))

    return timed(work)


def private(world: World) -> Part:
    samples, pool, test = (
        read_arrays(path, kind) for path, kind in ((world.private, SAMPLES), (world.pool, POOL), (world.test, SAMPLES))
    )
    torch.manual_seed(0)
    net, standardise = untrained_network("tanh-cnn", pool["x"], 10, 1)
    model = NetworkModel(net, standardise, samples["x"], samples["y"], views=1, rng=torch.Generator().manual_seed(0))
    steps = NoisySteps(
        PoissonSampler(0.05, torch.Generator().manual_seed(1)),
        len(samples["x"]),
        noise=NOISE,
        clip=1.0,
        rng=torch.Generator().manual_seed(2),
    )

    def work() -> float:
        weights, _ = train_privately(model, steps, steps=STEPS, learning_rate=1e-2, ema=0.9, evaluate=lambda _: 0.0)
        predicted = model.logits(weights, test["x"]).argmax(1).numpy()
        return float(np.mean(predicted == test["y"]))

    return timed(work)


def read_parts(path: Path | None) -> dict[str, Part]:
    """Return the parts in a JSON file of results; none if the file does not exist."""
    read = json.loads(path.read_text()) if path is not None and path.exists() else {}
    return {title: Part(**part) for title, part in read.items()}


HEAD = """| part | seconds | accuracy | times as fast | difference in accuracy |
|---|---:|---:|---:|---:|"""


def row(title: str, part: Part, other: Part | None) -> str:
    """Return a row of the table, with the comparison to the same part on another machine."""
    accuracy = ratio = apart = ""
    if part.accuracy is not None:
        accuracy = f"{100 * part.accuracy:.2f} %"
    if other is not None:
        ratio = f"{other.seconds / part.seconds:.1f}"
        if part.accuracy is not None and other.accuracy is not None:
            apart = f"{100 * (part.accuracy - other.accuracy):+.2f}"
    return f"| {title} | {part.seconds:.2f} | {accuracy} | {ratio} | {apart} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument("--beside", type=Path, help="results of another machine, to compare with")
    arguments = parser.parse_args()
    others = read_parts(arguments.beside)
    parts = read_parts(arguments.out)
    name = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}\n\n{HEAD}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World(folder)
        runs: dict[str, Callable[[], Part]] = {
            "250 teachers": lambda: teachers(folder, 250),
            "1,000 teachers": lambda: teachers(folder, 1000),
            "contrastive encoder and features": lambda: encoder(world),
            f"consistency student, {EPOCHS} epochs": lambda: student(world),
            f"DP-SGD, {STEPS} steps": lambda: private(world),
            "PET-DL, a gradient of each of 250 teachers": lambda: Part(measure_gradient(250)[0], None),
        }
        for title, run in runs.items():
            if title not in parts:
                parts[title] = run()
            print(row(title, parts[title], others.get(title)), flush=True)
            done = {name: asdict(part) for name, part in parts.items()}
            write_text(arguments.out, json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
