"""Every record a teacher: what 60,000 of them need that vote on 1,000 queries, command by command.

Images are made up, of the size of MNIST's. The real commands run on them, each in a process of its own whose processor
time and greatest memory are measured, with the votes in chunks as the workflow makes them. Prints a table and writes it
as Markdown. Not collected by pytest; `--records 2000 --queries 50` is a quick try.
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
from measured import Measured, measure

from patebench.core.files import write_arrays, write_text
from patebench.core.formats import SAMPLES

REFERENCE = Path(__file__).parents[1] / "results" / "reference" / "benchmarks-records.md"
_POOL, _TEST, _CLASSES = 9000, 1000, 10
_CHUNK = 20_000  # records of one job
_SEEDED = "--seed", 0, "--stream", "bench"


def write_images(path: Path, count: int, role: str) -> None:
    """Images (count, 1, 28, 28): one of ten patterns each, and noise."""
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
    """What each command took, and all of those that look at private records together."""
    head = ["command", "processor time", "peak memory", "file"]
    lines = [head, ["---", "---:", "---:", "---:"]]
    for row in rows:
        what, _, seconds, _, peak, _, size, *_ = row.cells(queries)
        lines.append([what, seconds, peak, size])
    private = rows[[row.what for row in rows].index("train_teachers") :]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
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
    parser.add_argument("--out", type=Path, default=REFERENCE, help="where the Markdown goes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patebench-records-") as folder:
        rows = run(Path(folder), given.records, given.queries)
    write_text(given.out, markdown(given.records, given.queries, rows))
    print(given.out.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
