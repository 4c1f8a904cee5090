"""Test the stages of secure aggregation: the same counts and labels as without, from files that reveal nothing."""

import multiprocessing
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.refusals import refuses
from tests.stages.labels import bounds_of, write_chunk, write_votes

from patebench.accounting import spending
from patebench.accounting.votes import Votes, capped
from patebench.core import files, formats, seeds
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.decoding.table_likelihood import noise_of
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise_shares import DistributedSparseGNMax
from patebench.release.ledger_file import Ledger
from patebench.secure import shares
from patebench.stages import secure_open, secure_share, secure_sum

TEACHERS, QUERIES, CLASSES, AGGREGATORS = 12, 30, 4, 3
SETTING = {"sigma": 6.0, "tolerance": 2.0}
STREAM = "toy/seed-0/teachers-12/distributed-gnmax/sigma-6_tolerance-2"


@pytest.fixture
def votes():
    return np.random.default_rng(5).integers(0, CLASSES, size=(TEACHERS, QUERIES)).astype(np.uint8)


def cut(folder, votes, first, last, *, release=False, facts=MappingProxyType({}), **changes):
    """Write the shares of teachers first … last, in one folder per aggregator."""
    numbers = list(range(first, last + 1))
    out = [folder / f"aggregator-{a}" / f"{first}-{last}.npz" for a in range(1, AGGREGATORS + 1)]
    given = {"mechanism": "distributed-gnmax", "parameters": SETTING, "teachers": TEACHERS, "out": out}
    drawn = {"release": True, "ledger": folder / "ledger"} if release else {"seed": 0, "stream": STREAM}
    facts = {"records": "r", "abstentions": bool((votes < 0).any()), **facts}
    held = write_chunk(folder / "chunk.npz", votes[numbers], numbers, **facts)
    secure_share.run(chunk=held, **{**given, **drawn, **changes})
    return out


def summed(folder, held):
    """Write each aggregator's published sum; `held` lists, by chunk, the file of each aggregator."""
    out = [folder / f"aggregator-{a}" / "sum.npz" for a in range(1, AGGREGATORS + 1)]
    for path, got in zip(out, zip(*held, strict=True), strict=True):
        secure_sum.run(shares=list(got), out=path)
    return out


def opened(folder, sums):
    secure_open.run(sums=sums, labels=folder / "labels.npz", counts=folder / "noisy_counts.npz")
    labels, counts = files.read_arrays(folder / "labels.npz", formats.LABELS), folder / "noisy_counts.npz"
    return labels, files.read_arrays(counts, formats.NOISY_COUNTS)


def plain(votes):
    """Label the votes without secure aggregation, with the same random stream."""
    mechanism, said = make_mechanism("distributed-gnmax", SETTING), Votes.of(votes, CLASSES)
    draw = lambda: seeds.generator(0, STREAM)  # noqa: E731
    return {
        "noisy_counts": mechanism.noisy(said.counts, said.teachers, draw()),
        "labels": mechanism.release(said, draw()),
    }


#: Mechanism with a table and a cap: teachers abstain on about half of the queries, two on all, and one on none.
CAPPED = {"mechanism": "distributed-sparse-gnmax", "parameters": {"k": 3.0, **SETTING}}


@pytest.fixture
def ragged(votes):
    silent = np.random.default_rng(6).random(votes.shape) < 0.5
    silent[[1, 7]], silent[4] = True, False
    return np.where(silent, -1, votes.astype(np.int8))


def table_mechanism():
    return make_mechanism(CAPPED["mechanism"], CAPPED["parameters"])


def plain_table(votes):
    return table_mechanism().released(Votes.of(votes, CLASSES, abstentions=True), seeds.generator(0, STREAM))


@pytest.mark.parametrize("ends", [(12,), (5, 12), (1, 2, 3, 12)], ids=str)
def test_it_equals_the_plain_path_however_teachers_are_grouped(votes, ragged, tmp_path, ends):
    """Check that the counted votes depend on the teacher's number, not on its position in a chunk."""
    asked = np.random.default_rng(7).permutation(QUERIES)
    for cast, queries, setting in ((votes, None, {}), (ragged, asked, CAPPED)):
        chosen = {"facts": {} if queries is None else {"queries": queries}, **setting}
        held = [cut(tmp_path, cast, first, last - 1, **chosen) for first, last in pairwise((0, *ends))]
        labels, counts = opened(tmp_path, summed(tmp_path, held))
        expected = plain_table(cast) if setting else plain(cast)
        np.testing.assert_array_equal(counts["counts"], expected["noisy_counts"])
        for name in labels.arrays:
            np.testing.assert_array_equal(labels[name], asked if name == "queries" else expected[name])
        assert (labels.meta["mode"], labels.meta["votes"], labels.meta["pool"]) == ("seeded", None, "q")
        assert (labels.meta["rounds"], labels.meta["teachers"], labels.meta["ensemble"]) == ([], TEACHERS, TEACHERS)
    np.testing.assert_array_equal(counts["queries"], asked)


def capped_from_zero(mechanism, votes, teachers):
    return capped(votes, int(mechanism.k))


def not_capped(mechanism, votes, teachers):
    return votes


def silence_as_a_vote(votes, classes):
    result = np.zeros((len(votes), classes), dtype=np.int64)
    result[np.arange(len(votes)), votes] = 1
    return result


def nothing_of_the_silent(mechanism, teachers, shape, source, share=DistributedSparseGNMax.share):
    """Add noise only for the first queries, as if the teacher abstained on the others."""
    drawn = share(mechanism, teachers, shape, source)
    drawn[shape[0] // 2 :] = 0
    return drawn


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (DistributedSparseGNMax, "counted", capped_from_zero),
        (DistributedSparseGNMax, "counted", not_capped),
        (shares, "encode_votes", silence_as_a_vote),
        (DistributedSparseGNMax, "share", nothing_of_the_silent),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_planted_faults_of_silence_and_cap_show(ragged, tmp_path, monkeypatch, where, name, fault):
    expected = plain_table(ragged)["noisy_counts"]
    monkeypatch.setattr(where, name, fault)
    held = [cut(tmp_path, ragged, first, last, **CAPPED) for first, last in ((0, 4), (5, 11))]
    _, counts = opened(tmp_path, summed(tmp_path, held))
    assert (counts["counts"] != expected).any()


def test_a_changed_vote_changes_one_aggregators_file_alone(votes, tmp_path):
    """Use the same randomness; the other shares are drawn independently of the votes."""
    other = votes.copy()
    other[3] = (other[3] + 1) % CLASSES
    files_ = [cut(tmp_path / name, each, 0, 11) for name, each in (("a", votes), ("b", other))]
    same = [a.read_bytes() == b.read_bytes() for a, b in zip(*files_, strict=True)]
    assert same == [True] * (AGGREGATORS - 1) + [False]


@pytest.mark.parametrize("release", [False, True], ids=["seeded", "release"])
def test_what_any_two_of_three_aggregators_hold_is_uniform(tmp_path, release):
    """Test bytes of the shares and of their sums for equal votes, whose traces would add up."""
    votes = np.full((TEACHERS, 400), 2, dtype=np.uint8)
    held = [files.read_arrays(path, formats.SHARES)["shares"] for path in cut(tmp_path, votes, 0, 11, release=release)]
    for words in (*held, held[0] + held[1], held[0] + held[2], held[1] + held[2]):
        bytes_ = np.frombuffer(words.tobytes(), dtype=np.uint8)
        assert chisquare(np.bincount(bytes_, minlength=256)).pvalue > 1e-7
    everything = held[0] + held[1] + held[2]
    told = np.frombuffer(everything.tobytes(), dtype=np.uint8)
    assert chisquare(np.bincount(told, minlength=256)).pvalue < 1e-12, "all three together do tell the votes"


@pytest.mark.parametrize("setting", [{}, CAPPED], ids=["plain", "table"])
def test_teachers_that_never_send(votes, ragged, tmp_path, setting):
    """Allow two missing teachers: the counts are those of the others, with the required noise; a table states it."""
    cast = ragged if setting else votes
    held = [cut(tmp_path, cast, 2, 5, **setting), cut(tmp_path, cast, 6, 11, **setting)]
    labels, counts = opened(tmp_path, summed(tmp_path, held))
    np.testing.assert_array_equal(counts["teachers"], np.arange(2, 12))
    mechanism = table_mechanism() if setting else make_mechanism("distributed-gnmax", SETTING)
    noise = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    for source in seeds.generator(0, STREAM).spawn(TEACHERS)[2:]:
        noise += mechanism.share(TEACHERS, noise.shape, source)
    sent = Votes.of(np.where(np.arange(TEACHERS)[:, None] >= 2, cast.astype(np.int8), -1), CLASSES, abstentions=True)
    np.testing.assert_array_equal(counts["counts"] - noise, mechanism.counts(sent) if setting else sent.counts)
    assert mechanism.needed(TEACHERS) == len(counts["teachers"])
    assert not setting or noise_of(labels.meta).scale == pytest.approx(SETTING["sigma"])


@pytest.mark.slow
def test_of_two_processes_one_publishes_a_sum(votes, tmp_path):
    """Refuse overlapping sums, whose difference reveals the votes of teachers that are in only one.

    Each process creates its mark only when the other is about to create its own.
    """
    context = multiprocessing.get_context("fork")
    barrier, touch = context.Barrier(2), Path.touch
    held = [cut(tmp_path, votes, first, last, release=True)[0] for first, last in ((0, 9), (10, 10), (11, 11))]

    def together(path, *given, **named):
        barrier.wait(timeout=60)
        touch(path, *given, **named)

    def publish(name, shares):
        Path.touch = together
        secure_sum.run(shares=shares, out=tmp_path / f"{name}.npz")

    both = (("a", [held[1], held[0]]), ("b", [held[2], held[0]]))
    processes = [context.Process(target=publish, args=given) for given in both]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert len(list(tmp_path.glob("[ab].npz"))) == 1


def test_every_cut_of_a_release_stands_in_the_ledger_at_its_own_price(ragged, tmp_path):
    """Count two chunks of one release once, and a second set of shares again."""
    for first, last in ((0, 5), (6, 11)):
        cut(tmp_path, ragged, first, last, release=True, **CAPPED)
    (ledger,) = [Ledger.read(path) for path in (tmp_path / "ledger").glob("*.json")]
    assert sorted(each.teachers for each in ledger.spent) == [(0, 5), (6, 11)]
    assert spending.epsilon(ledger.spent, 1e-5) == spending.epsilon(ledger.spent[:1], 1e-5)
    mechanism, votes = table_mechanism(), Votes.of(ragged, CLASSES, abstentions=True)
    stated = {each.accountant: each.epsilon for each in mechanism.bounds(votes, [QUERIES], 1e-5, discrete=True)}
    assert spending.epsilon(ledger.spent, 1e-5) == pytest.approx(stated["rdp"], rel=1e-2)
    with refuses("second-release", tmp_path / "aggregator-1" / "0-5.npz"):
        cut(tmp_path, ragged, 0, 5, release=True, **CAPPED)
    with refuses("no-limit"):
        cut(
            tmp_path,
            ragged,
            0,
            5,
            release=True,
            **CAPPED,
            out=[tmp_path / f"again-{a}.npz" for a in range(AGGREGATORS)],
        )
    bare = {**CAPPED, "parameters": {"k": 3.0, "sigma": 0.0, "tolerance": 0.0}}
    with refuses("no-noise"):
        cut(tmp_path / "bare", ragged, 0, 11, release=True, **bare)


def test_chunks_of_several_partitions_give_no_publishable_bound(votes, tmp_path):
    """Shards of two partitions share records; only a ledger shows that all chunks come from one partition."""
    facts = {"partition_rule": "hash", "protects": ["replace"], "protection": "one record, replaced", "records": "r"}
    whole = write_votes(tmp_path / "votes.npz", votes, teachers=TEACHERS, abstentions=False, **facts)
    for name in ("p", "other"):  # the partition of the second chunk
        folder, limit = tmp_path / name, {"ledger_budget": 1e6, "ledger_delta": 1e-5}
        parts = ((0, 5, "p"), (6, 11, name))
        held = [
            cut(folder, votes, first, last, release=True, facts={**facts, "partition": part}, **limit)
            for first, last, part in parts
        ]
        opened(folder, summed(folder, held))
        alone = bounds_of(whole, folder / "labels.npz")
        assert alone["bounds"]
        assert not any(bound["publishable"] for bound in alone["bounds"])
        assert "no ε of this file may be published" in alone["statement"]
        if name == "p":
            checked = bounds_of(whole, folder / "labels.npz", ledger=folder / "ledger")
            assert any(bound["publishable"] for bound in checked["bounds"] if bound["accountant"] != "ledger")
        else:
            with pytest.raises(ArtefactError, match="differs in the partition from"):
                bounds_of(whole, folder / "labels.npz", ledger=folder / "ledger")


def test_files_that_do_not_belong_together_give_no_sum(votes, tmp_path):
    a, b = cut(tmp_path / "a", votes, 0, 5), cut(tmp_path / "a", votes, 6, 11)
    again = cut(tmp_path / "b", votes, 6, 11, release=True)
    few = cut(tmp_path / "c", votes, 3, 11)
    asked = cut(tmp_path / "d", votes, 6, 11, facts={"queries": np.arange(QUERIES)})
    out = tmp_path / "sum.npz"
    for given, fault in (
        ([a[0], b[1]], "its 'aggregator' is 2, but that of .* is 1"),
        ([a[0], again[0]], "its 'mode' is 'release', but that of .* is 'seeded'"),
        ([a[0], a[0], b[0]], "contain shares of teacher 0 .counted from 0. more than once"),
        ([a[0], asked[0]], "its queries differ from those of"),
        ([few[0]], "only 9 of 12 teachers sent shares, but the stated noise needs 10"),
    ):
        with pytest.raises(PatebenchError, match=fault):
            secure_sum.run(shares=given, out=out)
    assert not out.exists()
    sums = summed(tmp_path / "a", [a, b])
    with pytest.raises(PatebenchError, match="--sums gives the sums of the aggregators 1, 2, but"):
        opened(tmp_path, sums[:2])
    secure_sum.run(shares=[cut(tmp_path / "e", votes, 0, 10)[2]], out=out)
    with refuses("mismatch"):
        opened(tmp_path, [*sums[:2], out])


def test_shares_of_two_cuts_are_not_mixed(votes, tmp_path):
    """Refuse shares with different masks in a release, which would not cancel."""
    sums = [summed(tmp_path / name, [cut(tmp_path / name, votes, 0, 11, release=True)]) for name in ("a", "b")]
    with refuses("mismatch"):
        opened(tmp_path, [*sums[0][:2], sums[1][2]])
    _, counts = opened(tmp_path, sums[0])
    assert np.abs(counts["counts"]).max() < 200
    with refuses("second-release"):
        opened(tmp_path, sums[0])


def test_a_cut_goes_into_one_published_sum(votes, tmp_path, monkeypatch):
    """Refuse a second sum, because the difference reveals a chunk's votes with only its own noise."""
    held = [cut(tmp_path, votes, first, last, release=True) for first, last in ((0, 9), (10, 11))]
    secure_sum.run(shares=[held[0][0]], out=tmp_path / "sum.npz")
    (tmp_path / "link.npz").symlink_to(held[0][0])
    for given in ([held[0][0]], [held[1][0], held[0][0]], [held[1][0], tmp_path / "link.npz"]):
        with pytest.raises(ArtefactError, match="its shares were already summed"):
            secure_sum.run(shares=given, out=tmp_path / "second.npz")
    assert not (tmp_path / "second.npz").exists()
    # A sum that could not be written was not published, one that was written before a failure may have been.
    with pytest.raises((ArtefactError, OSError)):
        secure_sum.run(shares=[held[0][1]], out=tmp_path / "sum.npz" / "nowhere.npz")

    def write_and_fail(out, *given):
        files.write_arrays(out, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(secure_sum, "write_arrays", write_and_fail)
    with pytest.raises(KeyboardInterrupt):
        secure_sum.run(shares=[held[0][1]], out=tmp_path / "failed.npz")
    monkeypatch.undo()
    with pytest.raises(ArtefactError, match="its shares were already summed"):
        secure_sum.run(shares=[held[0][1]], out=tmp_path / "other.npz")


def test_parties_that_make_no_sense_are_refused(votes, ragged, tmp_path):
    for cast, changes, fault in (
        (votes, {"mechanism": "gnmax", "parameters": {"sigma": 5.0}}, "does not work with secure aggregation; use dis"),
        (votes, {"teachers": 10}, r"it contains votes of teacher 11 .counted from 0., but --teachers is 10"),
        (votes, {"parameters": {"sigma": 6.0, "tolerance": 12.0}}, "tolerance = 12 must be below the number of"),
        (votes, {"out": [tmp_path / "one.npz"]}, "a single aggregator would see every vote"),
        (ragged, {}, r"may abstain.* every query; use the mechanism distributed-sparse-gnmax"),
        (ragged, {**CAPPED, "facts": {"abstentions": False}}, "the votes run from -1"),
        (votes, {"facts": {"queries_files": ["a"]}}, "selected in rounds, but secure aggregation reveals all"),
    ):
        with pytest.raises(PatebenchError, match=fault):
            cut(tmp_path, cast, 0, 11, **changes)
