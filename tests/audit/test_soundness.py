"""Every bound of every mechanism, on random histograms, against what runs of the code show there."""

import numpy as np
import pytest

from patebench.audit.sampled import SampledAudit
from patebench.audit.worst_pairs import Search
from patebench.core import seeds
from patebench.core.bound import Kind
from patebench.mechanisms.base import make_mechanism

DELTA = 1e-5
SETTINGS = [
    ("lnmax", {"gamma": 0.4}),
    ("gnmax", {"sigma": 2.5}),
    ("confident-gnmax", {"threshold": 12.0, "sigma1": 3.0, "sigma2": 2.0}),
    ("interactive-gnmax", {"threshold": 12.0, "sigma1": 3.0, "sigma2": 2.0, "confidence": 0.9}),
    ("exponential", {"epsilon": 0.6}),
    ("permute-and-flip", {"epsilon": 0.6}),
]


def random_histograms(count, teachers, classes, seed):
    """From nearly unanimous to nearly flat."""
    rng = np.random.default_rng(seed)
    shares = [rng.dirichlet(np.full(classes, spread)) for spread in rng.choice([0.1, 0.5, 3.0], size=count)]
    return np.array([-np.sort(-rng.multinomial(teachers, each)) for each in shares])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), SETTINGS)
@pytest.mark.parametrize("teachers", [8, 40])
def test_no_accountant_says_less_than_what_shows(name, parameters, teachers):
    mechanism = make_mechanism(name, parameters)
    search = Search(mechanism, teachers, 4, DELTA)
    shown = 0
    for i, counts in enumerate(random_histograms(4, teachers, 4, teachers)):
        audit = SampledAudit(mechanism, 20_000, 0.999, DELTA, lambda stream, i=i: seeds.generator(i, name, stream))
        for queries, found in audit(search.among(counts[None], 30), [1, 30]).largest.items():
            votes = found.pair.votes(queries)[0]
            for bound in mechanism.bounds(votes, [queries], DELTA):
                if bound.kind is not Kind.CLAIMED:
                    assert found.epsilon <= bound.epsilon * (1 + 1e-9), (counts, bound)
            shown += found.epsilon > 0
    assert shown >= 3, "an audit that sees nothing shows nothing"
