"""Test secure aggregation of votes with weights: the same table as without, from the same noise, in units of weight."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.commands import invoke
from tests.stages.labels import OF_TEST, write_chunk, write_weighted_chunk

from patebench.accounting import spending
from patebench.accounting.votes import LARGEST_WEIGHT, UNIT, Votes, WeightedVotes
from patebench.core import files, seeds
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact
from patebench.core.formats import CHUNK, LABELS, NOISY_COUNTS, VOTES
from patebench.decoding.table_likelihood import noise_of
from patebench.mechanisms.noise_shares import DistributedSparseGNMax, NoiseShares
from patebench.release.ledger_file import Ledger
from patebench.secure.shares import check_range, split_votes
from patebench.stages import secure_open, secure_share, secure_sum

TEACHERS, QUERIES, CLASSES, STREAM = 12, 5, 4, "toy/distributed-sparse-gnmax"
PARAMETERS = {"k": 2.0, "sigma": 6.0, "tolerance": 2.0}
MECHANISM = DistributedSparseGNMax(**PARAMETERS)
SETTING: dict[str, Any] = {"mechanism": "distributed-sparse-gnmax", "parameters": PARAMETERS, "teachers": TEACHERS}


@pytest.fixture
def rows() -> WeightedVotes:
    """Return weights of teachers with up to two rows; some are too long, and teachers 1 and 7 have no row."""
    rng = np.random.default_rng(5)
    owners = np.array([i for i in range(TEACHERS) for _ in range(1 + i % 2) if i not in (1, 7)])
    weights = rng.integers(-2 * UNIT, 2 * UNIT, (len(owners), QUERIES)) // (1 + 3 * (owners[:, None] % 3))
    labels = (owners + np.arange(len(owners)) % 2) % CLASSES
    return WeightedVotes.of(weights.astype(np.int16), labels, owners, CLASSES)


def cut(
    folder: Path, rows: WeightedVotes, first: int, last: int, *, release: bool = False, **changes: Any
) -> list[Path]:
    """Write the shares of teachers first … last, one file for each of three aggregators."""
    out = [folder / f"{aggregator}-{first}.npz" for aggregator in "abc"]
    drawn: dict[str, Any] = {"release": True, "ledger": folder / "ledger"} if release else {"seed": 0, "stream": STREAM}
    facts = {"records": "r", **changes.pop("facts", {})}
    chunk = write_weighted_chunk(folder / "chunk.npz", rows, range(first, last + 1), **facts)
    secure_share.run(chunk=chunk, out=out, **{**SETTING, **drawn, **changes})
    return out


def opened(folder: Path, shares: Sequence[Sequence[Path]]) -> tuple[Artefact, Artefact]:
    """Return the labels and the counts; `shares` lists, by chunk, the file of each aggregator."""
    sums = [folder / f"{aggregator}.npz" for aggregator in "abc"]
    for out, own in zip(sums, zip(*shares, strict=True), strict=True):
        secure_sum.run(shares=own, out=out)
    secure_open.run(sums=sums, labels=folder / "labels.npz", counts=folder / "counts.npz")
    return files.read_arrays(folder / "labels.npz", LABELS), files.read_arrays(folder / "counts.npz", NOISY_COUNTS)


def plain(rows: WeightedVotes) -> dict[str, np.ndarray]:
    """Return what one party that sees all votes releases with the same random stream."""
    return MECHANISM.released(Votes.from_weights(rows, TEACHERS, CLASSES), seeds.generator(0, STREAM))


@pytest.mark.parametrize("ends", [(12,), (5, 12), (1, 4, 6, 12)], ids=str)
def test_it_equals_the_plain_path_however_teachers_are_grouped(
    rows: WeightedVotes, tmp_path: Path, ends: tuple[int, ...]
) -> None:
    expected = plain(rows)
    labels, counts = opened(tmp_path, [cut(tmp_path, rows, first, last - 1) for first, last in pairwise((0, *ends))])
    assert np.array_equal(counts["counts"], expected["noisy_counts"])
    assert {name: array.tolist() for name, array in labels.arrays.items()} == {
        name: array.tolist() for name, array in expected.items()
    }
    assert (labels.meta["weighted"], labels.meta["neighbours"], labels.meta["abstentions"]) == (True, None, True)
    assert noise_of(labels.meta).scale == pytest.approx(6 * (12 / 10) ** 0.5)


def silent_if_abstaining(mechanism: NoiseShares, votes: Votes, teachers: Any, *more: Any, **named: Any) -> np.ndarray:
    shares = split_votes(mechanism, votes, teachers, *more, **named)
    assert votes.weighted is not None
    shares[:, ~np.isin(teachers, votes.weighted.teachers)] = 0
    return np.asarray(shares)


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (WeightedVotes, "limited", lambda votes, most: votes),
        (WeightedVotes, "limited", lambda votes, most: replace(votes, weights=np.clip(votes.weights, -UNIT, UNIT))),
        (NoiseShares, "in_units", lambda mechanism, unit: mechanism),
        (secure_share, "split_votes", silent_if_abstaining),
        (secure_open, "UNIT", 1),
    ],
    ids=["not limited", "each weight limited", "noise in votes", "abstaining teachers without noise", "not divided"],
)
def test_planted_faults_show(
    rows: WeightedVotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Any
) -> None:
    expected = plain(rows)["noisy_counts"]
    monkeypatch.setattr(where, name, fault)
    _, counts = opened(tmp_path, [cut(tmp_path, rows, 0, 4), cut(tmp_path, rows, 5, 11)])
    assert (counts["counts"] != expected).any()


def test_teachers_that_never_send_are_left_out(rows: WeightedVotes, tmp_path: Path) -> None:
    labels, counts = opened(tmp_path, [cut(tmp_path, rows, 2, 5), cut(tmp_path, rows, 6, 11)])
    noise = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    for source in seeds.generator(0, STREAM).spawn(TEACHERS)[2:]:
        noise += MECHANISM.in_units(UNIT).share(TEACHERS, noise.shape, source)
    kept = rows.teachers >= 2
    sent = WeightedVotes.of(rows.weights[kept], rows.labels[kept], rows.teachers[kept], CLASSES)
    assert np.array_equal(counts["counts"] * UNIT - noise, sent.limited(2).table(CLASSES))
    assert noise_of(labels.meta).scale == pytest.approx(6)
    with pytest.raises(PatebenchError, match="only 9 of 12 teachers sent shares"):
        opened(tmp_path, [cut(tmp_path, rows, 3, 11)])


def test_a_release_is_entered_at_its_price_and_is_in_units(rows: WeightedVotes, tmp_path: Path) -> None:
    shares = [cut(tmp_path, rows, first, last, release=True) for first, last in ((0, 5), (6, 11))]
    _, counts = opened(tmp_path, shares)
    units = counts["counts"] * UNIT
    assert np.array_equal(units, np.rint(units))
    exact = rows.limited(2).table(CLASSES)
    assert 0.2 < np.std(units - exact) / (6 * UNIT) < 2.5  # 20 cells
    (ledger,) = [Ledger.read(path) for path in (tmp_path / "ledger").glob("*.json")]
    assert [each.teachers for each in ledger.spent] == [(0, 5), (6, 11)]
    bounds = MECHANISM.bounds(Votes.from_weights(rows, TEACHERS, CLASSES), [QUERIES], 1e-5, discrete=True)
    stated = min(each.epsilon for each in bounds if each.accountant == "rdp")
    assert spending.epsilon(ledger.spent, 1e-5) == pytest.approx(stated, rel=1e-2)
    with refuses("second-release"):
        cut(tmp_path, rows, 0, 5, release=True)
    with refuses("no-noise"):
        cut(tmp_path / "bare", rows, 0, 5, release=True, parameters={"k": 2.0, "sigma": 0.0, "tolerance": 0.0})


def test_a_release_is_not_paid_for_if_a_share_cannot_be_written(rows: WeightedVotes, tmp_path: Path) -> None:
    chunk = write_weighted_chunk(tmp_path / "chunk.npz", rows, range(12), records="r")
    (tmp_path / "file").write_text("not a folder")
    outs = [tmp_path / "a.npz", tmp_path / "file" / "b.npz"]
    with refuses("not-writable"):
        secure_share.run(chunk=chunk, out=outs, release=True, ledger=tmp_path / "ledger", **SETTING)
    assert not list(tmp_path.glob("ledger/*.json"))
    assert not outs[0].exists()


def test_what_has_no_theorem_or_does_not_fit_is_refused(rows: WeightedVotes, tmp_path: Path) -> None:
    share = lambda **changes: cut(tmp_path, rows, 0, 11, **changes)  # noqa: E731
    refused: list[tuple[str, Callable[[], object]]] = [
        ("may abstain", lambda: share(mechanism="distributed-gnmax", parameters={"sigma": 6.0, "tolerance": 2.0})),
        ("ε of a private label", lambda: share(facts={"protects": ["label"]})),
        ("selected in rounds", lambda: share(facts={"queries_files": ["a"]})),
        ("protects nobody", lambda: share(release=True, facts={"protects": []})),
    ]
    for words, call in refused:
        with pytest.raises(PatebenchError, match=words):
            call()
    chunk = write_weighted_chunk(tmp_path / "chunk.npz", rows, range(12))
    foreign = files.read_arrays(chunk, CHUNK)
    files.write_arrays(chunk, CHUNK, {**foreign.arrays, "teachers": np.arange(5)}, foreign.meta)
    given: dict[str, Any] = {"chunk": chunk, "out": [tmp_path / "x.npz", tmp_path / "y.npz"], "seed": 0, "stream": "s"}
    with pytest.raises(PatebenchError, match="not in its list of teachers"):
        secure_share.run(**SETTING, **given)
    one_hot = write_chunk(tmp_path / "one-hot.npz", np.zeros((6, QUERIES), np.uint8), range(6), abstentions=True)
    secure_share.run(**SETTING, **{**given, "chunk": one_hot})
    with refuses("mismatch"):
        secure_sum.run(shares=[tmp_path / "x.npz", cut(tmp_path, rows, 6, 11)[0]], out=tmp_path / "sum.npz")


@pytest.mark.parametrize(("teachers", "sigma"), [(2**37, 1.0), (100, 2.0**46)])
def test_values_that_may_not_fit_into_64_bits_are_refused(rows: WeightedVotes, teachers: int, sigma: float) -> None:
    """Refuse sums of the largest weights, or noise of 64 scales, of 2⁶³ units or more."""
    votes = Votes.from_weights(rows, TEACHERS, CLASSES)
    longest = replace(rows, weights=np.full_like(rows.weights, 2**62, dtype=np.int64)).limited(10**9)
    assert np.abs(longest.weights).max() <= LARGEST_WEIGHT
    check_range(DistributedSparseGNMax(1, sigma / 16, 0), replace(votes, electorate=teachers // 16))
    with pytest.raises(PatebenchError, match="may exceed 64-bit integers"):
        check_range(DistributedSparseGNMax(1, sigma, 0), replace(votes, electorate=teachers))


def test_commands_lead_from_chunks_to_a_bound(rows: WeightedVotes, tmp_path: Path) -> None:
    facts = {"records": "r", "partition_rule": "iid", "protects": ["replace"], "protection": "one record, replaced"}
    mechanism = ["--mechanism", SETTING["mechanism"], *(f"--{name}={value:g}" for name, value in PARAMETERS.items())]
    named, known = ["--seed", 0, "--stream", STREAM], {**OF_TEST, "classes": 4, **facts}
    known |= {"teachers": TEACHERS, "abstentions": True, "neighbours": None, "weighted": True}
    whole, secure, alone = (tmp_path / name for name in ("votes.npz", "secure.npz", "alone.npz"))
    files.write_arrays(whole, VOTES, rows.arrays(), known)

    def run(*words: object) -> None:
        result = invoke(*words)
        assert result.exit_code == 0, result.output

    for first, last in ((0, 6), (7, 11)):
        chunk = write_weighted_chunk(tmp_path / f"{first}.npz", rows, range(first, last + 1), **facts)
        out = [word for name in "ab" for word in ("--out", tmp_path / f"{name}-{first}.npz")]
        run("secure_share", "--chunk", chunk, "--teachers", TEACHERS, *mechanism, *named, *out)
    for name in "ab":
        shares = [word for first in (0, 7) for word in ("--shares", tmp_path / f"{name}-{first}.npz")]
        run("secure_sum", *shares, "--out", tmp_path / f"{name}.npz")
    sums = [word for name in "ab" for word in ("--sums", tmp_path / f"{name}.npz")]
    run("secure_open", *sums, "--labels", secure, "--counts", tmp_path / "counts.npz")
    run("aggregate", "--votes", whole, *mechanism, *named, "--out", alone)
    one, other = (files.read_arrays(path, LABELS) for path in (secure, alone))
    assert {name: array.tolist() for name, array in one.arrays.items()} == {
        name: array.tolist() for name, array in other.arrays.items()
    }
    assert {name: one.meta.get(name) for name in other.meta} == {**other.meta, "votes": None}
    for labels in (secure, alone):
        run("account", "--votes", whole, "--labels", labels, "--delta", 1e-5, *named, "--out", tmp_path / "bounds.json")
        bounds = files.read_json(tmp_path / "bounds.json", "account")["bounds"]
        assert min(each["epsilon"] for each in bounds) == pytest.approx(1.8660, abs=1e-3)  # of μ = 2√2/6
        assert {each["kind"] for each in bounds} == {"worst_case"}
