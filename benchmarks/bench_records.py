"""Measure each command if 60,000 records are teachers that vote on 1,000 queries.

Images are random and of the size of MNIST's. Each command runs as a separate process, whose processor time and peak
memory are measured; votes are in chunks, as in the workflow. Prints a table and writes it as Markdown. Pytest does not
collect this file; `--records 2000 --queries 50` is a quick test.
"""

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from comparison import REFERENCE, markdown_table
from measured import Measured, measure, time_text

from patebench.core.files import write_arrays, write_text
from patebench.core.formats import SAMPLES

_POOL, _TEST, _CLASSES = 9000, 1000, 10
_CHUNK = 20_000  # records of one job
_SEEDED = "--seed", 0, "--stream", "bench"


def write_images(path: Path, count: int, role: str) -> None:
    """Write images (count, 1, 28, 28), each one of ten patterns plus noise."""
    rng = np.random.default_rng([0, count])
    patterns = np.random.default_rng(1).integers(0, 200, (_CLASSES, 1, 28, 28))
    y = rng.integers(0, _CLASSES, count)
    x = (patterns[y] + rng.integers(0, 56, (count, 1, 28, 28))).astype(np.uint8)
    names = [str(label) for label in range(_CLASSES)]
    meta = {"dataset": "made-up", "role": role, "classes": _CLASSES, "class_names": names}
    write_arrays(path, SAMPLES, {"x": x, "y": y, "row": np.arange(count)}, meta)


def run(folder: Path, records: int, queries: int) -> list[Measured]:
    names = ("private", "public", "pool", "truth", "test", "features", "encoder", "selected", "partition")
    names += ("votes", "labels", "bounds")
    at = {name: folder / f"{name}.npz" for name in names}
    rows: list[Measured] = []

    def step(command: str, out: str, *words: object) -> None:
        rows.append(measure(command, queries, at[out], command, *words))

    def given(*wanted: str) -> list[object]:
        return [word for name in wanted for word in (f"--{name}", at[name])]

    write_images(at["private"], records, "private")
    write_images(at["public"], _POOL + _TEST, "public")
    outs = "--pool-out", at["pool"], "--truth-out", at["truth"], "--test-out", at["test"]
    step("split", "pool", *given("public"), "--pool", _POOL, "--test", _TEST, *_SEEDED, *outs)
    step("extract_features", "features", *given("pool", "encoder"), *_SEEDED, "--out", at["features"])
    selection = "--strategy", "prototypes", "--queries", queries
    step("select_queries", "selected", *given("pool", "features"), *selection, *_SEEDED, "--out", at["selected"])
    dealt = "--teachers", records, *_SEEDED, "--out", at["partition"]
    step("partition", "partition", *given("private", "public"), *dealt)
    known = given("private", "partition", "pool", "test", "features", "encoder", "selected")
    chunks: list[object] = []
    for first in range(0, records, _CHUNK):
        last = min(first + _CHUNK, records) - 1
        at[f"{first}-{last}"] = folder / f"{first}-{last}.npz"
        of = "--teachers", f"{first}-{last}", "--model", "nearest-query", *_SEEDED, "--out", at[f"{first}-{last}"]
        step("train_teachers", f"{first}-{last}", *known, *of)
        chunks += ["--chunk", at[f"{first}-{last}"]]
    joined = *given("partition", "pool", "truth", "test"), *chunks
    step("join_votes", "votes", *joined, "--out", at["votes"], "--summary", folder / "ensemble.json")
    mechanism = "--mechanism", "sparse-gnmax", "--parameter", "k=1", "--parameter", "sigma=50"
    step("aggregate", "labels", *given("votes"), *mechanism, *_SEEDED, "--out", at["labels"])
    stated = "--queries", queries, "--delta", 1e-5, "--out", at["bounds"]
    step("account", "bounds", *given("votes", "labels"), *stated)
    return rows


def markdown(records: int, queries: int, rows: list[Measured]) -> str:
    """Return the page: the measurements of each command, and totals of the commands that read private records."""
    heading = ["command", "processor time", "peak memory", "file"]
    table = markdown_table(heading, ([row.what, time_text(row.seconds), row.memory, row.size] for row in rows), "lrrr")
    private = rows[[row.what for row in rows].index("train_teachers") :]
    together = sum(row.seconds for row in private)
    return (
        f"# Records that are teachers\n\n{records:,} records, each a teacher with one vote, and {queries:,} queries; "
        f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}.\n\n{table}\n\n"
        f"What looks at private records or at votes took {together:.0f} s of one core together, and "
        f"{max(row.peak for row in private):,.0f} MB at most.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=REFERENCE / "benchmarks-records.md", help="where the Markdown goes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patebench-records-") as folder:
        rows = run(Path(folder), given.records, given.queries)
    write_text(given.out, markdown(given.records, given.queries, rows))
    print(given.out.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
