"""Measure the speed of accounting beside plain loops of the same formulas, in one process, on one core.

Run with `make bench`. Prints a table and writes it as Markdown. Pytest does not collect this file; the exit status is 1
if a target was missed.
"""

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from comparison import Row, finish, least, parse_out, written

import patebench
from patebench.accounting import rdp
from patebench.accounting.sanitised import fresh
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.base import make_mechanism

ORDERS = 1 + np.geomspace(0.01, 999, 100)
DELTA = 1e-5


def made_up(teachers: int, queries: int, classes: int = 10, seed: int = 0) -> Votes:
    """Return votes of a confident ensemble: the share of the plurality is Beta(8, 1), the rest is scattered."""
    rng = np.random.default_rng(seed)
    sure = rng.beta(8, 1, queries)
    labels = rng.integers(0, classes, queries)
    scattered = rng.integers(0, classes, (teachers, queries))
    return Votes.of(np.where(rng.random((teachers, queries)) < sure, labels, scattered), classes)


def accountant(name: str, mechanism: str, votes: Votes, kind: Kind = Kind.DATA_DEPENDENT, **parameters: float) -> Any:
    """Return the accountant `name` of a new mechanism, so that nothing is cached."""
    made = make_mechanism(mechanism, parameters)
    accountants = made.accountants(votes) + made.sanitised(votes, fresh)
    return next(each for each in accountants if each.name == name and each.kind is kind)


def plain_moments(counts: Any, gamma: float) -> list[float]:
    """Compute the moments of PATE 2017 as in its published analysis: by query and moment, on small arrays."""
    total = [0.0] * 8
    for row in counts:
        for moment in range(1, 9):
            behind = np.delete(np.max(row) - row, np.argmax(row))
            q = min(np.sum((2 + gamma * behind) / (4 * np.exp(gamma * behind))), 1 - 1 / len(row))
            alpha = min(2 * gamma**2 * moment * (moment + 1), 2 * gamma * moment)
            if q <= 1 / (math.exp(2 * gamma) + 1):
                ratio = (1 - q) / (1 - math.exp(2 * gamma) * q)
                alpha = min(alpha, math.log((1 - q) * ratio**moment + q * math.exp(2 * gamma * moment)))
            total[moment - 1] += alpha
    return total


def scalar_moments(counts: list[list[int]], gamma: float) -> list[float]:
    """Compute the same moments without NumPy, with q computed once per query."""
    total, factor = [0.0] * 8, math.exp(2 * gamma)
    for row in counts:
        ordered = sorted(row)
        top = ordered.pop()
        q = min(
            sum((2 + gamma * (top - count)) / (4 * math.exp(gamma * (top - count))) for count in ordered),
            1 - 1 / len(row),
        )
        applies = q <= 1 / (factor + 1)
        log_ratio = math.log((1 - q) / (1 - factor * q)) if applies else 0.0
        for moment in range(1, 9):
            alpha = min(2 * gamma**2 * moment * (moment + 1), 2 * gamma * moment)
            if applies:
                theorem = math.log((1 - q) * math.exp(moment * log_ratio) + q * math.exp(2 * gamma * moment))
                alpha = min(alpha, theorem)
            total[moment - 1] += alpha
    return total


def bench_moments() -> list[Row]:
    votes, gamma = made_up(250, 9000), 0.05

    def ours() -> Any:
        return rdp.moments_data_dependent(rdp.laplace_log_q(votes.counts, gamma), gamma, rdp.PUBLISHED_MOMENTS).sum(0)

    table = votes.counts.tolist()
    rows = []
    for name, plain, goal in (
        ("loop as published, NumPy per query", lambda: plain_moments(votes.counts, gamma), 100),
        ("fastest plain loop, no NumPy", lambda: scalar_moments(table, gamma), None),
    ):
        np.testing.assert_allclose(ours(), plain(), rtol=1e-8)
        fast, slow = least(ours, 20), least(plain, 3)
        what = f"data-dependent moments l ≤ 8, 9,000 queries ({name})"
        target = f"≥ {goal}×" if goal else ""
        rows.append(Row(what, written(fast), written(slow), f"{slow / fast:.0f}×", target, slow >= (goal or 0) * fast))
    return rows


def plain_theorem_6(log_q: Any, sigma: float, orders: Any) -> None:
    """Compute Theorem 6 for one query and one order at a time."""
    for q in log_q:
        for order in orders:
            rdp.gaussian_data_dependent(np.array([q]), sigma, np.array([order]))


def bench_theorem_6() -> list[Row]:
    counts = made_up(250, 10_000).counts
    log_q = rdp.gaussian_log_q(counts, 40.0)
    fast = least(lambda: accountant("rdp", "gnmax", Votes(counts), sigma=40.0).totals([10_000], ORDERS))
    slow = 100 * least(lambda: plain_theorem_6(log_q[::100], 40.0, ORDERS), 1)
    what = "Theorem 6, 10,000 queries × 100 orders (loop: extrapolated from 100 queries)"
    return [Row(what, written(fast), written(slow), f"{slow / fast:.0f}×", "≤ 0.5 s", fast <= 0.5)]


def timed(what: str, limit: float, work: Callable[[], Any], repeat: int = 1) -> list[Row]:
    """Return a row with the time of `work` and its upper limit, both in seconds."""
    fast = least(work, repeat)
    return [Row(what, written(fast), "", "", f"≤ {limit:g} s", fast <= limit)]


def bench_exact() -> list[Row]:
    votes = made_up(250, 1000)
    counted = Votes(votes.counts)
    rows = []
    for name, parameters in (("gnmax", {"sigma": 40.0}), ("lnmax", {"gamma": 0.05})):
        rows += timed(
            f"exact per query, {name}, 1,000 queries × 100 orders, 10 classes", 2.0,
            lambda n=name, p=parameters: accountant("exact", n, counted, **p).totals([1000], ORDERS), 2,
        )  # fmt: skip
        rows += timed(
            f"exact per teacher, {name}, 250 teachers × 1,000 queries × 100 orders", 10.0,
            lambda n=name, p=parameters: accountant("exact-per-teacher", n, votes, **p).totals([1000], ORDERS), 2,
        )  # fmt: skip
    return rows


def bench_sanitised() -> list[Row]:
    rows = []
    for teachers, limit in ((250, 10.0), (5000, 60.0)):
        votes = made_up(teachers, 640)
        rows += timed(
            f"smooth sensitivity and sanitised ε, 640 queries, n = {teachers}, all orders", limit,
            lambda v=votes: accountant("rdp-sanitised", "gnmax", v, Kind.SANITISED, sigma=40.0).bounds([640], DELTA),
        )  # fmt: skip
    return rows


def bench_audit() -> list[Row]:
    audited = partial(patebench.audit, "lnmax", gamma=0.5, teachers=250, classes=10, queries=[400], delta=DELTA)
    what = "audit of lnmax, γ = 0.5, n = 250, 1 and 400 queries"
    rows = timed(f"{what}: a million runs", 60.0, partial(audited, runs=1_000_000))
    return rows + timed(f"{what}: as in the default run, 100,000 runs", 3.0, partial(audited, runs=100_000))


def bench_memory() -> list[Row]:
    """Measure peak memory in a separate process, so that it is that of `large` alone."""
    started = time.perf_counter()
    script = "import bench_accounting; print(bench_accounting.large())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=os.path.dirname(__file__), capture_output=True, text=True, check=True
    )
    gigabytes, spent = float(done.stdout), time.perf_counter() - started
    what = f"data-dependent Rényi, 100,000 queries × 1,000 classes ({written(spent)})"
    return [Row(what, f"{gigabytes:.2f} GB", "", "", "< 2 GB", gigabytes < 2)]


def large() -> float:
    """Return the peak memory, in GB, of accounting for votes that fill 0.8 GB."""
    import resource

    counts = np.ones((100_000, 1000), dtype=np.int64)
    counts[:, 0] += 5000 - np.arange(100_000) % 2000
    counts[:, 1] += np.arange(100_000) % 2000
    votes = Votes.from_counts(counts)
    for name, parameters in (("gnmax", {"sigma": 40.0}), ("lnmax", {"gamma": 0.05})):
        accountant("rdp", name, votes, **parameters).bounds([100_000], DELTA)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main() -> int:
    out = parse_out(__doc__, "benchmarks-accounting.md")
    rows = [*bench_moments(), *bench_theorem_6(), *bench_exact(), *bench_sanitised(), *bench_audit(), *bench_memory()]
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, one thread"
    about = (
        f"Times on {platform.machine()} with {os.cpu_count()} cores; {versions}. Votes are made up: an ensemble that "
        "is mostly sure.\nBoth sides run in one process and are compared before they are timed."
    )
    return finish(out, "Speed of the accounting", about, rows, "plain loop")


if __name__ == "__main__":
    sys.exit(main())
