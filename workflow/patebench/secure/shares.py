"""Additive secret sharing modulo 2⁶⁴: the sum of all shares is the secret, and fewer shares are independent of it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED, LARGEST_WEIGHT, Votes
from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import PatebenchError
from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.mechanisms.sparse_argmax import SparseArgmax

Words = NDArray[np.uint64]

#: Number of noise scales that summed noise exceeds with probability below e⁻²⁰⁰⁰.
_REACH = 64


def sum_shares(arrays: Iterable[Words]) -> Words:
    """Return the elementwise sum modulo 2⁶⁴ of `arrays`, which have the same shape."""
    result: Words = reduce(np.add, arrays, np.zeros((), np.uint64))
    return result


def encode_votes(votes: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """Return one teacher's `votes` (queries,) in one-hot form (queries × classes); rows of abstentions are 0."""
    result = np.zeros((len(votes), classes), dtype=np.int64)
    (voted,) = np.nonzero(votes != ABSTAINED)
    result[voted, votes[voted]] = 1
    return result


def _teacher_tables(mechanism: NoiseShares, votes: Votes, teachers: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Yield, for each of `teachers`, a table of this teacher's votes (queries × classes), without noise.

    Numbers are in units of 1/`votes.unit`. If the mechanism limits the votes of a teacher, the table contains the
    limited votes.
    """
    if votes.weighted is not None:
        assert isinstance(mechanism, SparseArgmax)  # other mechanisms accept no weights
        yield from votes.weighted.limited(mechanism.k).teacher_tables(teachers, votes.classes)
    else:
        assert votes.matrix is not None
        for counted in mechanism.counted(votes.matrix, teachers):
            yield encode_votes(counted, votes.classes)


def split_votes(
    mechanism: NoiseShares,
    votes: Votes,
    teachers: NDArray[np.integer],
    draws: Draws,
    *,
    ensemble: int,
    aggregators: int,
) -> Words:
    """Return secret shares of each teacher's votes plus noise, (aggregators × teachers × queries × classes).

    Modulo 2⁶⁴, the shares of all k aggregators add up to the noisy votes. The first k − 1 shares are uniform random
    numbers. The last share is the noisy votes minus the sum of the other shares. The shares of any k − 1 aggregators
    are jointly uniform and independent of the votes. Votes and noise are in units of 1/`votes.unit`.

    Parameters
    ----------
    mechanism : mechanism that draws the noise. It may limit the votes of a teacher: it leaves out some votes, or scales
        weights down.
    votes : votes of the teachers `teachers`
    teachers : (teachers,) int array
        Indices of the teachers in the ensemble. If the mechanism leaves out votes, the choice depends only on the
        teacher's own votes and index.
    draws : source of the random numbers and of the noise
    ensemble : number of teachers in the whole ensemble
    aggregators : number k of aggregators
    """
    for_masks, for_noise = draws.source("masks").spawn(ensemble), draws.source().spawn(ensemble)
    shares = np.empty((aggregators, len(teachers), votes.queries, votes.classes), dtype=np.uint64)
    in_units, tables = mechanism.in_units(votes.unit), _teacher_tables(mechanism, votes, teachers)
    for row, (number, encoded) in enumerate(zip(teachers.tolist(), tables, strict=True)):
        shares[:-1, row] = [uniform_words(for_masks[number], encoded.shape) for _ in range(aggregators - 1)]
        # The same noise share as without secure aggregation; abstentions get it too, which hides them.
        noisy = encoded + in_units.share(ensemble, encoded.shape, for_noise[number])
        shares[-1, row] = noisy.astype(np.uint64) - sum_shares(shares[:-1, row])
    return shares


def secure_mechanism(name: str, parameters: Mapping[str, float], teachers: int) -> NoiseShares:
    """Return the mechanism `name` for secure aggregation of the votes of `teachers` teachers.

    Raises
    ------
    PatebenchError
        If the mechanism does not work with secure aggregation, or if its `tolerance`, the number of teachers that may
        be absent, is not below `teachers`.
    """
    mechanism = make_mechanism(name, parameters)
    if not isinstance(mechanism, NoiseShares):
        raise PatebenchError(
            f"the mechanism '{name}' does not work with secure aggregation; use {' or '.join(secure_mechanisms())}"
        )
    mechanism.needed(teachers)
    return mechanism


def secure_mechanisms(*, abstentions: bool = False) -> list[str]:
    """Return the names of mechanisms for secure aggregation; with `abstentions`, only those that allow abstentions."""
    kinds = {name: MECHANISMS.load(name) for name in MECHANISMS}
    secure = {name: kind for name, kind in kinds.items() if issubclass(kind, NoiseShares)}
    return [name for name, kind in secure.items() if kind.abstentions or not abstentions]


def check_range(mechanism: NoiseShares, votes: Votes) -> None:
    """Raise PatebenchError if noisy counts may not fit into 64-bit integers, so that their sum would be wrong.

    Only the numbers of teachers and of units in a vote are read from `votes`.
    """
    largest = 1 if votes.weighted is None else LARGEST_WEIGHT
    scale = mechanism.in_units(votes.unit).share_scale(votes.teachers) * math.sqrt(votes.teachers)
    if not votes.teachers * largest + _REACH * scale < 2**63:
        raise PatebenchError(
            f"with {plural(votes.teachers, 'teacher')} and σ = {mechanism.sigma:g}, noisy counts may exceed 64-bit"
            " integers; use a smaller σ or fewer teachers"
        )


def check_teachers(mechanism: NoiseShares, teachers: NDArray[np.integer], ensemble: int, where: str) -> None:
    """Raise PatebenchError if a teacher sent shares twice, or if too few teachers sent shares.

    Every share contains a part of the noise, so a minimum number of teachers must take part. `teachers` are the indices
    of the teachers that sent shares, and `ensemble` is the number of all teachers. `where` is the path of the first
    file of shares, for the message on duplicates.
    """
    numbers, times = np.unique(teachers, return_counts=True)
    if len(numbers) < len(teachers):
        raise PatebenchError(
            f"the given files (the first is {where}) contain shares of teacher {numbers[times > 1][0]} (counted from 0)"
            " more than once; give each file once"
        )
    if len(teachers) < (needed := mechanism.needed(ensemble)):
        raise PatebenchError(
            f"only {len(teachers)} of {ensemble} teachers sent shares, but the stated noise needs {needed} of them; "
            "wait for more shares, or make all shares again with a larger tolerance"
        )
