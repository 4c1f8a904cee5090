"""How the numbers scale: votes, labels and bounds of ensembles far larger than those that were ever trained.

Chunks of made-up votes are written in the layout of `patebench teach`; then the real commands run on them, each in a
process of its own whose time and greatest memory are measured. Prints a table and writes it as Markdown. Run with
`python tests/benchmarks/bench_scale.py`, smaller with `--queries 10000`; not collected by pytest.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from patebench.core.files import write_arrays
from patebench.core.formats import CHUNK, PARTITION, POOL, SAMPLES, TRUTH

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "benchmarks-scale.md"
_CHUNK = 250  # teachers of one file
_TEST = 1000
_BLOCK = 10_000  # queries whose votes are made up at a time


@dataclass(frozen=True)
class Size:
    """How large the ensemble is."""

    teachers: int
    queries: int
    classes: int

    def __str__(self) -> str:
        return f"{self.teachers:,} teachers, {self.queries:,} queries, {self.classes:,} classes"


@dataclass(frozen=True)
class Measured:
    """One command: its wall time in seconds, and the greatest memory that its process held, in MB.

    `own` leaves out pages of mapped files, which the kernel drops when memory is short.
    """

    what: str
    seconds: float
    peak: float
    own: float
    written: float

    def cells(self) -> list[str]:
        return [self.what, f"{self.seconds:.1f} s", *(f"{mb:,.0f} MB" for mb in (self.peak, self.own, self.written))]


def made_up(size: Size, queries: int, seed: int) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    """Labels and votes (teachers × queries), a block of queries at a time: mostly sure, the rest nearby classes.

    The share of the plurality is Beta(8, 1); other votes fall on the next classes, the nearer the more, so that
    histograms have a tail.
    """
    kind = np.min_scalar_type(size.classes - 1)
    for start in range(0, queries, _BLOCK):
        rng, width = np.random.default_rng([seed, start]), min(_BLOCK, queries - start)
        labels = rng.integers(0, size.classes, width)
        sure = rng.random((size.teachers, width), np.float32) < rng.beta(8, 1, width).astype(np.float32)
        away = rng.geometric(0.2, (size.teachers, width))
        yield labels, np.where(sure, labels, (labels + away) % size.classes).astype(kind)


def write_inputs(folder: Path, size: Size) -> list[Path]:
    """Pool, truth, test set and partition, and the chunks of votes."""
    folder.mkdir(parents=True, exist_ok=True)
    truth, votes = _filled(folder / "votes.npy", size, size.queries, 0)
    test_truth, test_votes = _filled(folder / "test_votes.npy", size, _TEST, 1)
    names = [str(label) for label in range(size.classes)]
    named = {"dataset": "made-up", "classes": size.classes, "class_names": names}
    x = np.arange(size.queries, dtype=np.float32)[:, None]
    pool = write_arrays(folder / "pool.npz", POOL, {"x": x, "row": np.arange(size.queries)}, named)
    facts = {"pool": pool, "classes": size.classes, "removed_duplicates": 0}
    write_arrays(folder / "truth.npz", TRUTH, {"y": truth}, facts)
    arrays = {"x": x[:_TEST], "y": test_truth, "row": np.arange(_TEST)}
    test = write_arrays(folder / "test.npz", SAMPLES, arrays, {**named, "role": "test", "pool": pool})
    shards = {"indices": np.arange(size.teachers), "offsets": np.arange(size.teachers + 1)}
    owned = {"private": "made-up", "samples": size.teachers, "teachers": size.teachers, "strategy": "iid"}
    partition = write_arrays(folder / "partition.npz", PARTITION, shards, owned)
    meta = {"partition": partition, "pool": pool, "test": test, "classes": size.classes}
    meta |= {"model": "logistic", "recipe": "modern", "epochs": 1, "seed": 0}
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
    """Labels and votes of so many queries; the votes lie in a file, as they may be larger than the memory."""
    kind = np.min_scalar_type(size.classes - 1)
    votes = np.lib.format.open_memmap(path, "w+", kind, (size.teachers, queries))  # type: ignore[no-untyped-call]
    found, start = [], 0
    for labels, block in made_up(size, queries, seed):
        votes[:, start : start + len(labels)] = block
        start += len(labels)
        found.append(labels)
    return np.concatenate(found), votes


def measure(what: str, out: Path, *command: object) -> Measured:
    """Run one command of the workflow in a process of its own."""
    started = time.perf_counter()
    process = subprocess.Popen([Path(sys.executable).with_name("patebench"), *map(str, command)])
    own = 0.0
    while True:
        own = max(own, _anonymous(process.pid))
        number, status, used = os.wait4(process.pid, os.WNOHANG)
        if number:
            break
        time.sleep(0.02)
    if status:
        raise SystemExit(f"{what}: failed; see above")
    spent = time.perf_counter() - started
    return Measured(what, spent, used.ru_maxrss / 1024, own, out.stat().st_size / 1e6)


def _anonymous(process: int) -> float:
    """Memory of a process that is no file's, in MB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def run(folder: Path, size: Size, mechanisms: dict[str, dict[str, float]]) -> list[Measured]:
    started = time.perf_counter()
    chunks = write_inputs(folder, size)
    print(f"{size}: {len(chunks)} chunks made up in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    files = {name: folder / f"{name}.npz" for name in ("partition", "pool", "truth", "test", "votes")}
    inputs = [word for name in ("partition", "pool", "truth", "test") for word in (f"--{name}", files[name])]
    outs = "--out", files["votes"], "--summary", folder / "ensemble.json"
    rows = [measure("votes", files["votes"], "votes", *inputs, *chunks, *outs)]
    print(rows[-1], file=sys.stderr)
    for name, parameters in mechanisms.items():
        spelt = [word for key, value in parameters.items() for word in ("--parameter", f"{key}={value}")]
        common = ["--votes", files["votes"], "--mechanism", name, *spelt, "--seed", 0, "--stream", "bench"]
        labels, bounds = folder / name / "labels.npz", folder / name / "bounds.json"
        stated = "--queries", size.queries, "--delta", 1e-6
        rows.append(measure(f"aggregate, {name}", labels, "aggregate", *common, "--out", labels))
        print(rows[-1], file=sys.stderr)
        rows.append(measure(f"account, {name}", bounds, "account", *common, *stated, "--out", bounds))
        print(rows[-1], file=sys.stderr)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=None, help="where the files go [default: one that is removed]")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="where the Markdown goes")
    given = parser.parse_args()
    size = Size(given.teachers, given.queries, given.classes)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="patebench-scale-"))
    mechanisms = {"gnmax": {"sigma": 200.0}, "lnmax": {"gamma": 0.005}}
    try:
        rows = run(folder, size, mechanisms)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    for row in rows:
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
