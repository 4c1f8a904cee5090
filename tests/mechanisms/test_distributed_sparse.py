"""One table with few votes of each teacher and noise in shares: ε against all tables, the cap, and how it is read."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from tests.accounting.oracles import hockey_stick, sum_of_gaussians, winners
from tests.mechanisms import test_sparse
from tests.mechanisms.test_sparse import ROWS

from patebench.accounting.sparse import participations
from patebench.accounting.votes import Votes, capped
from patebench.calculator.calculations import worst_case
from patebench.core.bound import Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.core.seeds import generator
from patebench.decoding.table_likelihood import noise_of
from patebench.mechanisms.noise import Gaussian
from patebench.mechanisms.noise_shares import DistributedGNMax, DistributedSparseGNMax

world = partial(test_sparse.world, others=np.array([[0, -1, 1], [-1, -1, 0], [1, 1, 1], [0, 0, -1]], np.int8))


def table_delta(noise, moved, epsilon):
    """Return δ(ε) of noisy tables that differ by `moved`, by enumeration of the cells that differ."""
    here, there = np.pad(noise, 1), {1: np.pad(noise, (2, 0)), -1: np.pad(noise, (0, 2))}
    p, q = np.ones(1), np.ones(1)
    for step in moved[moved != 0]:
        p, q = np.multiply.outer(p, here).ravel(), np.multiply.outer(q, there[int(step)]).ravel()
    return hockey_stick(p, q, epsilon)


@pytest.mark.parametrize("teachers", [1, 3])
def test_no_bound_covers_a_removed_teacher_whose_noise_is_removed_too(teachers):
    votes = Votes.of(np.zeros((teachers, 4), np.int8), 2, abstentions=True)
    bounds = DistributedSparseGNMax(k=2, sigma=20, tolerance=0).bounds(votes, [4], 1e-5)
    assert [bound.add_or_remove for bound in bounds] == [None] * len(bounds)


@pytest.mark.parametrize(("k", "share"), [(1, 0.6), (1, 1.5), (1, 4.0), (2, 0.6), (2, 1.5)])
@pytest.mark.parametrize("delta", [0.1, 1e-3])
def test_every_bound_holds_for_every_pair_of_rows_with_as_many_missing_as_may_be(k, share, delta):
    """Of five teachers two never send, or tell their noise: three shares hide what changes."""
    mechanism, noise = DistributedSparseGNMax(k, share * math.sqrt(3), 2), sum_of_gaussians(share, 3)
    noise = noise[noise > 1e-13]
    tables = [mechanism.counts(world(row)) for row in ROWS]
    differences = {tuple((one - other).ravel()) for one, other in itertools.permutations(tables, 2)}
    kinds = {tuple(sorted(each)): np.array(each) for each in differences}  # noise is symmetric, and alike in all cells
    stated = {bound.accountant: bound.epsilon for bound in mechanism.bounds(world(ROWS[-1]), [3], delta)}
    for epsilon in stated.values():
        assert (
            max(table_delta(noise, moved, epsilon) for moved in kinds.values()) <= delta + 1e-11
        )  # what the oracle cuts off
    if share >= 1.5 and stated["pld"] > 1e-6:
        assert max(table_delta(noise, moved, stated["pld"] * 0.97) for moved in kinds.values()) > delta


@pytest.mark.parametrize("rounds", [(), (1, 2)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_it_costs_what_as_many_queries_of_all_teachers_do(k, rounds):
    sparse, plain = DistributedSparseGNMax(k, 9.0, 1), DistributedGNMax(9.0, 1)
    m = participations(k, 3, rounds)
    found = sparse.bounds(world(ROWS[-1], rounds), [3], 1e-5)
    expected = plain.bounds(Votes(np.tile([3, 2], (m, 1))), [m], 1e-5)
    assert [bound.epsilon for bound in found] == pytest.approx([bound.epsilon for bound in expected])
    assert {bound.kind for bound in found} == {Kind.WORST_CASE}
    assert sparse.bounds(world(ROWS[0], rounds), [3], 1e-5) == found, "nobody has seen the votes"


def test_it_fails_closed():
    """Without noise, and with shares below the theorem's scale: 60,000 shares of σ = 50 have a scale of 0.2."""
    for mechanism, teachers in ((DistributedSparseGNMax(1, 0.0, 0), 5), (DistributedSparseGNMax(1, 50.0, 0), 60_000)):
        assert all(math.isinf(bound.epsilon) for bound in worst_case(mechanism, 50, 1e-5, teachers=teachers))
    (people, *_) = worst_case(DistributedSparseGNMax(1, 50.0, 10), 50, 1e-5, teachers=250)
    assert people.epsilon == pytest.approx(0.0858, abs=1e-3)


def test_a_row_is_cut_by_its_own_place_wherever_a_chunk_begins():
    rng = np.random.default_rng(3)
    rows, mechanism = rng.integers(-1, 3, (40, 9)).astype(np.int8), DistributedSparseGNMax(2, 5.0, 0)
    whole = capped(rows, 2)
    for numbers in (np.arange(17, 40), np.array([5, 3, 31])):
        np.testing.assert_array_equal(mechanism.counted(rows[numbers], numbers), whole[numbers])
        np.testing.assert_array_equal(capped(rows[numbers], 2, (4, 5), numbers), capped(rows, 2, (4, 5))[numbers])
    assert (mechanism.counted(rows[17:], np.arange(23)) != whole[17:]).any(), "rows begin with another query"


@pytest.mark.parametrize("source", [generator(0, "s"), Entropy()], ids=["seeded", "entropy"])
def test_every_cell_has_the_stated_noise_and_silent_rows_add_theirs(source):
    mechanism, silent = DistributedSparseGNMax(1, 6.0, 5), np.full((30, 60), -1, np.int8)
    table = mechanism.released(Votes.of(silent, 4, abstentions=True), source)["noisy_counts"]
    assert table.dtype == np.int64
    assert np.var(table) == pytest.approx(36 * 30 / 25, rel=0.4)  # 240 cells: six standard errors
    assert mechanism.noise_of(30).variance == pytest.approx(36 * 30 / 25)


def test_outcomes_are_those_of_the_votes_that_count():
    mechanism, votes = DistributedSparseGNMax(1, 1.8, 0), world(ROWS[-1])
    noise = sum_of_gaussians(1.8 / math.sqrt(5), 5)
    for counts, log_p in zip(mechanism.counts(votes), mechanism.log_outcome_probabilities(votes), strict=True):
        assert np.exp(log_p) == pytest.approx([*winners(counts, noise), 0], rel=1e-9)


def test_a_student_reads_the_noise_of_those_who_sent():
    facts = {"mechanism": "distributed-sparse-gnmax", "parameters": {"k": 1, "sigma": 6, "tolerance": 5}}
    assert noise_of({**facts, "teachers": 30}) == Gaussian(pytest.approx(6 * math.sqrt(30 / 25)))
    assert noise_of({**facts, "ensemble": 30, "teachers": 26}) == Gaussian(pytest.approx(6 * math.sqrt(26 / 25)))
    assert noise_of({**facts, "ensemble": 30, "teachers": 25}).scale == pytest.approx(6)
    with pytest.raises(PatebenchError, match="depends on the number of teachers"):
        noise_of(facts)
