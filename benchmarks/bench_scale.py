"""Measure joining votes, releasing labels and computing bounds for very large ensembles.

Chunks of random votes are written in the layout of `patebench train_teachers`. Each command then runs on them as a
separate process, whose processor time, wall time and peak memory are measured. Bounds take longest; they are computed
in `--threads` processes. Prints a table and writes it as Markdown. Pytest does not collect this file; `--queries 10000`
is a quick test, and `--part 10000` computes bounds for 10,000 of the queries only.
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from comparison import REFERENCE, markdown_table
from measured import Measured, measure, time_text
from numpy.typing import NDArray

from patebench.core.files import write_arrays, write_text
from patebench.core.formats import CHUNK, PARTITION, POOL, SAMPLES, TRUTH

_CHUNK = 250  # teachers of one file
_TEST = 1000
MECHANISMS = {"gnmax": {"sigma": 200.0}, "lnmax": {"gamma": 0.005}}
_BLOCK = 10_000  # queries whose votes are made up at a time


@dataclass(frozen=True)
class Size:
    """Size of an ensemble."""

    teachers: int
    queries: int
    classes: int

    def __str__(self) -> str:
        return f"{self.teachers:,} teachers, {self.queries:,} queries, {self.classes:,} classes"


def made_up(size: Size, queries: int, seed: int) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    """Yield labels (queries,) and votes (teachers, queries) for blocks of queries.

    The share of the plurality is Beta(8, 1). Other votes are for the classes that follow, with a geometric
    distribution, so that histograms have a tail.
    """
    kind = np.min_scalar_type(size.classes - 1)
    for start in range(0, queries, _BLOCK):
        rng, width = np.random.default_rng([seed, start]), min(_BLOCK, queries - start)
        labels = rng.integers(0, size.classes, width)
        sure = rng.random((size.teachers, width), np.float32) < rng.beta(8, 1, width).astype(np.float32)
        away = rng.geometric(0.2, (size.teachers, width))
        yield labels, np.where(sure, labels, (labels + away) % size.classes).astype(kind)


def write_inputs(folder: Path, size: Size) -> list[Path]:
    """Write pool, truth, test set, partition and chunks of votes; return the paths of the chunks."""
    folder.mkdir(parents=True, exist_ok=True)
    truth, votes = _filled(folder / "votes.npy", size, size.queries, 0)
    test_truth, test_votes = _filled(folder / "test_votes.npy", size, _TEST, 1)
    names = [str(label) for label in range(size.classes)]
    named = {"dataset": "made-up", "public": "made-up", "classes": size.classes, "class_names": names, "seed": 0}
    named |= {"split": {"pool": size.queries, "test": _TEST}}
    x = np.arange(size.queries, dtype=np.float32)[:, None]
    pool = write_arrays(folder / "pool.npz", POOL, {"x": x, "row": np.arange(size.queries)}, named)
    write_arrays(folder / "truth.npz", TRUTH, {"y": truth}, {"pool": pool, "classes": size.classes})
    arrays = {"x": np.zeros((_TEST, 1), np.float32), "y": test_truth, "row": np.arange(_TEST)}
    test = write_arrays(folder / "test.npz", SAMPLES, arrays, {**named, "role": "test", "pool": pool})
    shards = {"indices": np.arange(size.teachers), "offsets": np.arange(size.teachers + 1)}
    owned = {"private": "made-up", "public": "made-up", "samples": size.teachers, "left_out": 0}
    owned |= {"teachers": size.teachers, "strategy": "iid", "protects": ["replace"]}
    partition = write_arrays(folder / "partition.npz", PARTITION, shards, owned)
    meta = {"partition": partition, "pool": pool, "test": test, "classes": size.classes}
    meta |= {"model": "logistic", "recipe": "modern", "epochs": 1, "seed": 0}
    meta |= {"training": {"model": "logistic", "recipe": "modern", "epochs": 1}}
    paths = []
    for first in range(0, size.teachers, _CHUNK):
        numbers = np.arange(first, min(first + _CHUNK, size.teachers))
        paths.append(folder / "chunks" / f"{first}-{numbers[-1]}.npz")
        held = {"teachers": numbers, "votes": votes[numbers], "test_votes": test_votes[numbers]}
        write_arrays(paths[-1], CHUNK, held, meta)
    (folder / "votes.npy").unlink()
    (folder / "test_votes.npy").unlink()
    return paths


def _filled(path: Path, size: Size, queries: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels and votes for `queries` queries; the votes are in the file `path`, since they may be large."""
    kind = np.min_scalar_type(size.classes - 1)
    votes = np.lib.format.open_memmap(path, "w+", kind, (size.teachers, queries))  # type: ignore[no-untyped-call]
    found, start = [], 0
    for labels, block in made_up(size, queries, seed):
        votes[:, start : start + len(labels)] = block
        start += len(labels)
        found.append(labels)
    return np.concatenate(found), votes


def join(folder: Path, size: Size) -> tuple[Measured, Path]:
    """Write random chunks in `folder` and join them; return the measurement and the path of the votes."""
    started = time.process_time()
    chunks = write_inputs(folder, size)
    print(f"{size}: {len(chunks)} chunks made up in {time.process_time() - started:.0f} s", file=sys.stderr)
    files = {name: folder / f"{name}.npz" for name in ("partition", "pool", "truth", "test")}
    inputs = [word for name, file in files.items() for word in (f"--{name}", file)]
    votes = folder / "votes.npz"
    joined = [word for path in chunks for word in ("--chunk", path)]
    found = measure(
        "join_votes", size.queries, votes, "join_votes", *inputs, *joined, "--out", votes, "--summary", f"{votes}.json"
    )
    return found, votes


def run(folder: Path, size: Size, part: Size, threads: int) -> list[Measured]:
    joined, votes = join(folder / "whole", size)
    rows = [joined]
    for name, parameters in MECHANISMS.items():
        labels = folder / name / "labels.npz"
        rows.append(
            measure(f"aggregate, {name}", size.queries, labels, "aggregate", *_of(votes, name, parameters), labels)
        )
    few = votes if part == size else join(folder / "part", part)[1]
    for name, parameters in MECHANISMS.items():
        bounds = folder / name / "bounds.json"
        stated = "--queries", part.queries, "--delta", 1e-6
        labels = bounds.with_name("part.npz")
        measure(f"aggregate, {name}", part.queries, labels, "aggregate", *_of(few, name, parameters), labels)
        command = "account", "--threads", threads, *stated, "--votes", few, "--labels", labels, "--out", bounds
        rows.append(measure(f"account, {name}", part.queries, bounds, *command))
    return rows


def _of(votes: Path, name: str, parameters: dict[str, float]) -> list[object]:
    spelt = [word for key, value in parameters.items() for word in ("--parameter", f"{key}={value}")]
    return ["--votes", votes, "--mechanism", name, *spelt, "--seed", 0, "--stream", "bench", "--out"]


def markdown(size: Size, rows: list[Measured], threads: int) -> str:
    heading = ["command", "queries", "processor time", "by the clock", "peak memory", "of it not of files", "file"]
    heading += [f"{size.queries:,} queries", "10⁶ queries"]
    body = [
        [
            *(row.what, f"{row.queries:,}", time_text(row.seconds), time_text(row.clock)),
            *(row.memory, f"{row.own:,.0f} MB", row.size, row.expected(size.queries), row.expected(1_000_000)),
        ]
        for row in rows
    ]
    table = markdown_table(heading, body, "l" + 8 * "r")
    about = (
        f"{size}. Processor time of all cores on {platform.machine()}, account with {threads} "
        f"processes, Python {platform.python_version()}, NumPy "
        f"{np.__version__}; the last two columns are in proportion to the queries, and extrapolated where these "
        "differ from those measured.\nVotes are made up: an ensemble that is mostly sure, with a tail."
    )
    return f"# Large ensembles\n\n{about}\n\n{table}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--part", type=int, default=None, help="queries that bounds are computed for [default: all]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="processes that account shares [all cores]")
    parser.add_argument("--folder", type=Path, default=None, help="where the files go [default: one that is removed]")
    parser.add_argument("--out", type=Path, default=REFERENCE / "benchmarks-scale.md", help="where the Markdown goes")
    given = parser.parse_args()
    size, part = (
        Size(given.teachers, queries, given.classes) for queries in (given.queries, given.part or given.queries)
    )
    folder = given.folder or Path(tempfile.mkdtemp(prefix="patebench-scale-"))
    try:
        rows = run(folder, size, part, given.threads)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    write_text(given.out, markdown(size, rows, given.threads))
    print(given.out.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
