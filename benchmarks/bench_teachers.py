"""Measure training and prediction of teachers as in the workflow, beside a plain loop over teachers.

Run with `make bench`. Both sides train on the same shards of MNIST, of 240 images, by the same recipe, and predict the
same 10,000 images of the pool and the test set. The plain loop runs in one process with two threads, in single
precision and in the default memory layout, and predicts 1,000 images at once. Both sides augment one batch at a time.
On a CPU, the workflow's teachers run in two processes of one thread, as with `snakemake --cores 2`. On a GPU, a chunk
is one stack. Pytest does not collect this file.

On a CPU, processor times are compared, because other work on the machine changes them least. The gain of a second
thread in the plain loop is measured separately, and only on an idle machine. On a busy machine, the second thread is
assumed to halve the time of the plain loop, which is its largest possible gain.
"""

import argparse
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from comparison import REFERENCE

from patebench.artefacts.reading import read_samples
from patebench.config.parameters import PartitionParameters, SplitParameters
from patebench.core.files import read_arrays, read_json, write_text
from patebench.core.formats import PARTITION, POOL
from patebench.core.seeds import derive
from patebench.models.device import SWITCH
from patebench.stages import data, partition, split

TEACHERS, POOL_SIZE, TEST_SIZE, MODEL, STREAM = 250, 9000, 1000, "small-cnn", "benchmark"
TARGET, MINUTES, RATIO = 0.95, 8.0, 3.0

#: Largest load of a machine that counts as idle.
_QUIET = 0.7
GPU_SECONDS, GPU_RATIO, GPU_TEACHERS = 30.0, 30.0, 1000


@dataclass(frozen=True)
class Part:
    """Measurement of one process: seconds of training and prediction (`asking`), and accuracies of teachers."""

    training: float
    asking: float
    accuracies: list[float]


class World:
    """Files of MNIST, split and partitioned among teachers as in the workflow."""

    def __init__(self, folder: Path, teachers: int = TEACHERS) -> None:
        self.private, self.public = folder / "private.npz", folder / "public.npz"
        self.pool, self.truth, self.test = folder / "pool.npz", folder / "truth.npz", folder / "test.npz"
        self.partition = folder / f"partition-{teachers}.npz"
        if not self.private.exists():
            root = Path(os.environ.get("PATEBENCH_DATA", "data"))
            files = {"private": self.private, "public": self.public}
            data.run(name="mnist", root=root, download=True, option={}, **files)
            outs = {"pool_out": self.pool, "truth_out": self.truth, "test_out": self.test}
            cut = SplitParameters(pool=POOL_SIZE, test=TEST_SIZE)
            split.run(public=self.public, parameters=cut, seed=0, stream=STREAM, **outs)
        if not self.partition.exists():
            dealt = {"parameters": PartitionParameters(), "seed": 0, "stream": STREAM, "out": self.partition}
            partition.run(private=self.private, public=self.public, teachers=teachers, **dealt)

    def shards(self, numbers: Sequence[int]) -> list[tuple[Any, Any]]:
        from patebench.stages.train_teachers import read_shard

        samples, dealt = read_samples(self.private, "private"), read_arrays(self.partition, PARTITION)
        return [read_shard(samples, dealt, number) for number in numbers]

    def questions(self) -> tuple[Any, Any]:
        """Return pool and test set in one array, with the test set last, and the labels of the test set."""
        held_out = read_samples(self.test, "test")
        return np.concatenate([read_arrays(self.pool, POOL)["x"], held_out["x"]]), held_out["y"]


def clock(on_gpu: bool) -> float:
    """Return the processor time or, on a GPU, the wall time after the GPU has finished."""
    if not on_gpu:
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def plain(world: World, numbers: Sequence[int], recipe: str, on_gpu: bool = False) -> Part:
    """Measure the plain loop: one network after another, with PyTorch's defaults."""
    import torch

    device = torch.device("cuda" if on_gpu else "cpu")
    (x, y), (questions, truth) = world.shards(numbers[:1])[0], world.questions()
    plain_teacher(x[:64], y[:64], recipe, device, 0)
    training, asking, accuracies = 0.0, 0.0, []
    for number, (x, y) in zip(numbers, world.shards(numbers), strict=True):
        before = clock(on_gpu)
        net, mean, spread = plain_teacher(x, y, recipe, device, derive(0, STREAM, "teacher", number))
        trained = clock(on_gpu)
        with torch.inference_mode():
            batches = torch.from_numpy(questions).to(device).split(1000)
            labels = torch.cat([net((batch.float() - mean) / spread).argmax(1) for batch in batches]).cpu().numpy()
        training, asking = training + trained - before, asking + clock(on_gpu) - trained
        accuracies.append(float(np.mean(labels[-len(truth) :] == truth)))
    return Part(training, asking, accuracies)


def plain_teacher(x: Any, y: Any, recipe_name: str, device: Any, seed: int) -> tuple[Any, Any, Any]:
    """Return a trained network, and the mean and the standard deviation of its shard."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    from patebench.models import RECIPES
    from patebench.models.augment import random_affine

    recipe, rng = RECIPES.load(recipe_name), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(7 * 7 * 32, 64), nn.ReLU(), nn.Linear(64, 10),
    ).to(device)  # fmt: skip
    images, labels = torch.from_numpy(x).to(device).float(), torch.from_numpy(y.astype(np.int64)).to(device)
    mean, spread = images.mean(), images.std()
    images = (images - mean) / spread
    optimiser = torch.optim.AdamW(net.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * math.ceil(len(x) / recipe.batch) + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.learning_rate, total_steps=steps)
    for _ in range(recipe.epochs):
        for batch in torch.randperm(len(x), generator=rng).to(device).split(recipe.batch):
            samples = random_affine(images[batch], recipe, rng, fill=float(-mean / spread))
            optimiser.zero_grad()
            F.cross_entropy(net(samples), labels[batch], label_smoothing=recipe.label_smoothing).backward()
            optimiser.step()
            schedule.step()
    return net, mean, spread


def ours(world: World, numbers: Sequence[int], recipe: str, on_gpu: bool = False, stacked: bool | None = None) -> Part:
    """Measure the teachers as `patebench train_teachers` trains them."""
    from patebench.models import make_learner
    from patebench.teachers.teacher_training import train

    kind = partial(make_learner, MODEL, recipe, classes=10)
    shards, (questions, truth) = world.shards(numbers), world.questions()
    list(train(partial(kind, epochs=1), shards[:1], [0], lambda done: None, stacked=stacked))
    seeds = [derive(0, STREAM, "teacher", number) for number in numbers]
    training, asking, accuracies = 0.0, 0.0, []
    before = clock(on_gpu)
    for _, teachers in train(kind, shards, seeds, lambda done: None, stacked=stacked):
        trained = clock(on_gpu)
        labels = teachers.predict(questions)
        accuracies += np.mean(labels[:, -len(truth) :] == truth, axis=1).tolist()
        after = clock(on_gpu)
        training, asking, before = training + trained - before, asking + after - trained, after
    return Part(training, asking, accuracies)


def process(arguments: Sequence[str], threads: int) -> str:
    """Return the last line that a process prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(arguments, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return (done.stdout.splitlines() or [""])[-1]


def side_by_side(way: str, world: Path, chunks: Sequence[Sequence[int]], recipe: str, threads: int) -> list[Part]:
    """Run one process of `threads` threads for each chunk of teachers, all at the same time."""
    script = [sys.executable, __file__, "--folder", str(world), "--recipes", recipe, "--way", way]
    with ThreadPoolExecutor(len(chunks)) as pool:
        words = [[*script, "--numbers", ",".join(map(str, chunk))] for chunk in chunks]
        return [Part(**json.loads(line)) for line in pool.map(partial(process, threads=threads), words)]


@dataclass(frozen=True)
class Side:
    """One way to train teachers: processor seconds per teacher, and the mean accuracy."""

    training: float
    asking: float
    accuracy: float

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "Side":
        accuracies = [accuracy for part in parts for accuracy in part.accuracies]
        training, asking = sum(part.training for part in parts), sum(part.asking for part in parts)
        return cls(training / len(accuracies), asking / len(accuracies), float(np.mean(accuracies)))

    @property
    def processor(self) -> float:
        return self.training + self.asking


def best(rounds: Sequence[Side]) -> Side:
    """Return the least of each time, since other work on the machine only adds time."""
    return Side(min(side.training for side in rounds), min(side.asking for side in rounds), rounds[0].accuracy)


def compare(folder: Path, recipe: str, teachers: int, rounds: int) -> tuple[Side, Side]:
    """Measure the plain loop with one thread and ours, in turn and two processes each, so that the load is the same."""
    halves = [list(range(0, teachers, 2)), list(range(1, teachers, 2))]
    slow, fast = [], []
    for turn in range(rounds):
        slow.append(Side.of(side_by_side("plain", folder, halves, recipe, 1)))
        fast.append(Side.of(side_by_side("ours", folder, halves, recipe, 1)))
        print(recipe, turn, slow[-1], fast[-1], "load", os.getloadavg(), flush=True)
    return best(slow), best(fast)


def gain(world: World, stretches: int = 30) -> tuple[float, float]:
    """Return the speed-up of two threads in the plain loop, in training and in prediction."""
    import torch

    (x, y), questions = world.shards([0])[0], torch.from_numpy(world.questions()[0][:1000])
    net, mean, spread = plain_teacher(x[:32], y[:32], "fast", torch.device("cpu"), 0)
    images, labels = (questions[:32].float() - mean) / spread, torch.arange(32) % 10
    optimiser = torch.optim.AdamW(net.parameters())

    def train() -> None:
        for _ in range(5):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(images), labels).backward()
            optimiser.step()

    def ask() -> None:
        with torch.inference_mode():
            net((questions.float() - mean) / spread)

    least = {(work, threads): math.inf for work in (train, ask) for threads in (1, 2)}
    for _ in range(stretches):
        for work, threads in least:
            torch.set_num_threads(threads)
            started = time.perf_counter()
            work()
            least[work, threads] = min(least[work, threads], time.perf_counter() - started)
    return least[train, 1] / least[train, 2], least[ask, 1] / least[ask, 2]


def whole_run(world: World, recipe: str, chunk: int = 25) -> str:
    """Train all teachers and join their votes by the commands of the workflow, two at a time; return a sentence."""
    load, folder = os.getloadavg()[0], Path(tempfile.mkdtemp(dir=world.private.parent))
    inputs = ["--partition", str(world.partition), "--pool", str(world.pool), "--test", str(world.test)]

    def teach(first: int) -> Path:
        last = min(first + chunk, TEACHERS) - 1
        words = f"train_teachers --private {world.private} --teachers {first}-{last} --model {MODEL} --recipe {recipe}"
        out = folder / f"{first}-{last}.npz"
        process(["patebench", *shlex.split(words), "--seed", "0", "--stream", STREAM, "--out", str(out), *inputs], 1)
        return out

    started, before = time.perf_counter(), os.times()
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(teach, range(0, TEACHERS, chunk)))
    chunks = [word for path in paths for word in ("--chunk", str(path))]
    summary = folder / "ensemble.json"
    join = ["patebench", "join_votes", "--truth", str(world.truth), "--out", str(folder / "votes.npz")]
    process([*join, "--summary", str(summary), *inputs, *chunks], 1)
    wall, used = (time.perf_counter() - started) / 60, (sum(os.times()[2:4]) - sum(before[2:4])) / 60
    accuracy = float(np.mean(read_json(summary, "join_votes")["teacher_accuracies"]))
    line = (
        f"All {TEACHERS} teachers by `{recipe}` and their votes, really made, {TEACHERS // chunk} commands, two at a"
        f" time: {wall:.1f} min on the wall (load before {load:.1f}, after {os.getloadavg()[0]:.1f}), {used:.1f} min of"
        f" core time, so {used / 2:.1f} min on two idle cores; {100 * accuracy:.2f} % on average"
        f" (targets: ≥ {100 * TARGET:.0f} %, ≤ {MINUTES:.0f} min)."
    )
    print(line, flush=True)
    return line


def row(recipe: str, way: str, training: float, asking: float, cores: int, accuracy: float) -> str:
    """Return a line of the table: seconds per teacher, and minutes for 250 teachers on `cores` cores."""
    seconds = (training + asking) / cores
    return (
        f"| {recipe} | {way} | {training:.2f} | {asking:.2f} | {1 / seconds:.2f} | {TEACHERS * seconds / 60:.1f} |"
        f" {100 * accuracy:.2f} % |"
    )


def on_cpu(folder: Path, recipes: Sequence[str], teachers: int, rounds: int) -> list[str]:
    """Return the table of both sides on two cores for each recipe, with the text around it."""
    loads, train, ask = [os.getloadavg()[0]], 2.0, 2.0
    if loads[0] < _QUIET:
        train, ask = json.loads(process([sys.executable, __file__, "--folder", str(folder), "--way", "gain"], 2))
    lines = [
        "| recipe | way | training, s | asking, s | teachers/s | 250 teachers, min | accuracy |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    ratios = [""]
    for recipe in recipes:
        slow, fast = compare(folder, recipe, teachers, rounds)
        both = slow.training / train + slow.asking / ask
        lines.append(row(recipe, "plain, one thread", slow.training, slow.asking, 1, slow.accuracy))
        lines.append(row(recipe, "plain, two threads", slow.training / train, slow.asking / ask, 1, slow.accuracy))
        lines.append(row(recipe, "ours, two processes", fast.training, fast.asking, 2, fast.accuracy))
        ratios.append(
            f"- **{recipe}**: {2 * both / fast.processor:.1f} × as fast as the plain loop with two threads"
            f" (target ≥ {RATIO:.0f})."
        )
        loads.append(os.getloadavg()[0])
    measured = (
        ", by the clock"
        if loads[0] < _QUIET
        else ". That is not measured, for the machine is busy, but the most that a second thread can do, so the ratios"
        " are the least that they can be"
    )
    about = (
        f"Seconds per teacher of processor time, the least of {rounds} rounds of {teachers} teachers, both ways in"
        f" turn, two processes each. A second thread makes the plain loop train {train:.2f} × and ask {ask:.2f} ×"
        f" as fast{measured}. The load of the machine was"
        f" {', '.join(f'{load:.1f}' for load in loads)} on {os.cpu_count()} cores before, between and after."
    )
    return [about, "", *lines, *ratios]


def on_gpu(folder: Path, recipes: Sequence[str], plain_teachers: int) -> list[str]:
    """Return the table of the plain loop and stacks on one GPU, or a sentence that there is no GPU."""
    import torch

    if not torch.cuda.is_available():
        return ["No GPU was there: nothing was measured. The same command measures one where it finds it."]
    lines = [
        f"{torch.cuda.get_device_name()}. Targets: {TEACHERS} teachers in ≤ {GPU_SECONDS:.0f} s, ≥ {GPU_RATIO:.0f} ×"
        f" the plain loop ({plain_teachers} of its teachers were timed), {GPU_TEACHERS:,} teachers in one job.",
        "",
        "| recipe | precision | teachers | training, s | asking, s | plain loop, s | ratio | memory, GiB | accuracy |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for recipe in recipes:
        slow = Side.of([plain(World(folder), range(plain_teachers), recipe, on_gpu=True)]).processor
        for teachers in (TEACHERS, GPU_TEACHERS):
            for precision in ("reduced", "single"):
                os.environ[SWITCH] = precision
                torch.cuda.reset_peak_memory_stats()
                part = ours(World(folder, teachers), range(teachers), recipe, on_gpu=True)
                took, memory = part.training + part.asking, torch.cuda.max_memory_allocated() / 2**30
                lines.append(
                    f"| {recipe} | {precision} | {teachers:,} | {part.training:.1f} | {part.asking:.1f} |"
                    f" {teachers * slow:.0f} | {teachers * slow / took:.0f} | {memory:.1f} |"
                    f" {100 * np.mean(part.accuracies):.2f} % |"
                )
                print(lines[-1], flush=True)
    return lines


def stacked_on_cpu(world: World, recipe: str, teachers: int) -> str:
    """Return a sentence that compares a stack with the same teachers one by one, on one core of a CPU."""
    alone = Side.of([ours(world, range(teachers), recipe, stacked=False)])
    stack = Side.of([ours(world, range(teachers), recipe, stacked=True)])
    return (
        f"On one core of a CPU a stack of {teachers} takes {stack.training / alone.training:.1f} × the time of the same"
        f" teachers one by one to train, {stack.asking / alone.asking:.1f} × to ask; so a CPU trains them one by one."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=REFERENCE / "benchmarks-teachers.md", help="where the Markdown goes"
    )
    parser.add_argument("--folder", type=Path, help="where data lies between runs; a temporary folder by default")
    parser.add_argument("--recipes", default="fast,modern", help="names, with commas between them")
    parser.add_argument("--teachers", type=int, default=8, help="how many each side trains in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="make all 250 teachers as well, by the first recipe")
    parser.add_argument("--way", choices=("plain", "ours", "gain"), help=argparse.SUPPRESS)
    parser.add_argument("--numbers", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    recipes = arguments.recipes.split(",")
    if arguments.way == "gain":
        print(json.dumps(gain(World(arguments.folder))))
        return
    if arguments.way:
        numbers = [int(number) for number in arguments.numbers.split(",")]
        part = {"plain": plain, "ours": ours}[arguments.way](World(arguments.folder), numbers, recipes[0])
        print(json.dumps(asdict(part)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        world = World(folder)
        sections = ["## On a CPU", *on_cpu(folder, recipes, arguments.teachers, arguments.rounds), ""]
        sections += [stacked_on_cpu(world, recipes[0], 2), ""]
        sections += [whole_run(world, recipes[0]), ""] if arguments.all else []
        sections += ["## On a GPU", *on_gpu(folder, recipes, 5)]
    import torch

    about = (
        f"MNIST, {TEACHERS} shards of 240 images, `{MODEL}`; each teacher answers {POOL_SIZE + TEST_SIZE:,} images."
        f" {platform.machine()}, torch {torch.__version__}. Written by `benchmarks/bench_teachers.py`, which says"
        " what the plain loop does."
    )
    write_text(arguments.out, "\n".join([f"# Speed of the teachers\n\n{about}\n", *sections]) + "\n")
    print(arguments.out.read_text())


if __name__ == "__main__":
    main()
