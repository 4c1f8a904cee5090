"""Discrete noise: labels as the exact sums say, worst-case curves that hold for it, and nothing else that is stated."""

import hashlib
import itertools

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chisquare
from tests.mechanisms.test_base import PARAMETERS

from patebench.accounting import conversion, rdp
from patebench.accounting.accountant import Accountant
from patebench.accounting.filter import RenyiFilter, queries_within
from patebench.accounting.votes import Votes
from patebench.cli import cli
from patebench.core import files, formats
from patebench.core.bound import Bound, Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import NO_ANSWER, budgeted, make, releasable
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.gnmax import GNMax
from patebench.mechanisms.lnmax import LNMax
from patebench.mechanisms.stage import account, aggregate

DRAWS = 8_000
X = np.arange(-120, 121)


def pmf(mechanism):
    """Exact probabilities of the mechanism's discrete noise at X."""
    weights = np.exp(-np.abs(X) * mechanism.gamma if isinstance(mechanism, LNMax) else -(X**2) / 2 / mechanism.sigma**2)
    return weights / weights.sum()


def outcomes(mechanism, counts):
    """Pr[argmax(counts + noise) = j], ties to the lowest class: sums over the winner's score."""
    p = pmf(mechanism)
    grid = np.arange(-150, 151)
    scores = [np.interp(grid - count, X, p, left=0, right=0) for count in counts]
    result = []
    for j, own in enumerate(scores):
        below = [np.cumsum(other) if k > j else np.cumsum(other) - other for k, other in enumerate(scores) if k != j]
        result.append(np.sum(own * np.prod(below, axis=0)))
    return np.array(result)


@pytest.mark.parametrize("mechanism", [LNMax(0.3), LNMax(2.0), GNMax(0.8), GNMax(4.0)], ids=str)
def test_labels_follow_the_exact_sums(mechanism):
    counts = [5, 5, 4, 1]
    labels = mechanism.release(Votes(np.tile(counts, (DRAWS, 1))), Entropy())
    expected = DRAWS * outcomes(mechanism, counts)
    assert expected.sum() == pytest.approx(DRAWS, rel=1e-9)
    observed, often = np.bincount(labels, minlength=4), expected > 10
    assert observed[~often].sum() < 60
    observed, expected = observed[often], expected[often] * observed[often].sum() / expected[often].sum()
    assert chisquare(observed, expected).pvalue > 1e-7
    if mechanism in (LNMax(2.0), GNMax(0.8)):  # little noise, many ties: the highest class would win more often
        expected = outcomes(mechanism, counts[::-1])[::-1]
        assert chisquare(observed, expected[often] * observed.sum() / expected[often].sum()).pvalue < 1e-9


@pytest.mark.parametrize("scale", [0.3, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("order", [1.2, 2.0, 5.0, 20.0])
def test_worst_case_curves_hold_for_all_that_discrete_noise_shows(scale, order):
    """All noisy counts of adjacent votes: two of them shifted by one, so twice the divergence of one."""

    x = np.arange(-200, 201)

    def shifted(log_weights):
        log_p = log_weights - np.logaddexp.reduce(log_weights)
        return 2 * np.logaddexp.reduce(order * log_p[1:] + (1 - order) * log_p[:-1]) / (order - 1)

    assert 0 < shifted(-(x**2) / 2 / scale**2) <= rdp.gaussian(scale, [order])[0] * (1 + 1e-12)
    assert 0 < shifted(-np.abs(x) / scale) <= rdp.laplace(1 / scale, [order])[0]


@pytest.mark.parametrize("mechanism", [LNMax(0.3), LNMax(2.0), GNMax(0.8), GNMax(4.0)], ids=str)
@pytest.mark.parametrize("counts", [[5, 4, 2], [4, 5, 2], [2, 2, 2], [0, 0, 6]], ids=str)
def test_worst_case_curves_hold_for_labels_whichever_class_wins_ties(mechanism, counts):
    """Every neighbour, classes in every order: ties make them unlike."""
    orders = np.array([1.5, 3.0, 10.0])
    worst, here = 0.0, outcomes(mechanism, counts)
    for down, up in itertools.permutations(range(3), 2):
        if counts[down] == 0:
            continue
        there = outcomes(mechanism, np.array(counts) - np.eye(3, dtype=int)[down] + np.eye(3, dtype=int)[up])
        for p, q in ((here, there), (there, here)):
            curve = np.log(np.sum(p ** orders[:, None] * q ** (1 - orders[:, None]), axis=1)) / (orders - 1)
            worst = np.maximum(worst, curve)
    assert np.all(worst > 0)
    assert np.all(worst <= mechanism.costs(30).answer(orders))


def test_an_accountant_says_nothing_of_discrete_noise_unless_it_declares_to():
    assert Accountant.__dataclass_fields__["discrete"].default is None
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 20)), classes=3)
    names = {}
    for mechanism in (LNMax(0.1), GNMax(5.0), ConfidentGNMax(5, 5, 5)):
        found = mechanism.bounds(votes, [20], 1e-5, discrete=True)
        assert {bound.kind for bound in found} == {Kind.WORST_CASE}
        assert all("discrete noise: " in bound.source and bound.publishable for bound in found)
        names[type(mechanism)] = {bound.accountant for bound in found}
    gaussian = {"rdp"}  # not the tight Gaussian differential privacy: that of continuous noise is another curve
    laplace = {"strong-composition", "pld", "moments", "moments-unrestricted", "rdp"}
    assert names == {LNMax: laplace, GNMax: gaussian, ConfidentGNMax: gaussian}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_that_says_so_can_be_released(name):
    """With labels, a bound that may be published, and costs that this bound agrees with."""
    mechanism, votes = make(name, PARAMETERS[name]), Votes.of(np.arange(90).reshape(30, 3) % 4, classes=4)
    if not mechanism.discrete:
        with pytest.raises(PatebenchError, match="can not be drawn with discrete noise"):
            releasable(name, type(mechanism))
        return
    assert mechanism.release(votes, Entropy()).shape == (3,)
    stated = mechanism.bounds(votes, [3], 1e-5, discrete=True)
    (rdp_bound,) = (b.epsilon for b in stated if b.accountant == "rdp" and b.conversion == "tight")
    assert all(bound.publishable for bound in stated)
    orders = 1 + np.geomspace(0.01, 1e6, 20_001)
    paid = conversion.tight(orders, 3 * budgeted(name, mechanism, 30).both(orders), 1e-5).min()
    assert paid == pytest.approx(rdp_bound, rel=1e-3)


class Unfit(GNMax):
    discrete = False

    def costs(self, teachers):
        return None


def test_mechanisms_that_can_not_are_refused_in_one_line():
    with pytest.raises(PatebenchError, match=r"'unfit' can not be drawn with discrete noise.*lnmax, gnmax"):
        releasable("unfit", Unfit)
    with pytest.raises(PatebenchError, match="'unfit' has no cost per query"):
        budgeted("unfit", Unfit(3.0), 9)
    releasable("gnmax", GNMax)


@pytest.fixture
def votes_path(tmp_path):
    teacher, query = np.ogrid[:30, :60]
    votes = ((7 * teacher + 3 * query + teacher * query // 11) % 4).astype(np.uint8)
    meta = {"partition": "p", "pool": "q", "test": "t", "classes": 4, "chunks": []}
    files.write_arrays(tmp_path / "votes.npz", formats.VOTES, {"votes": votes, "test_votes": votes[:, :5]}, meta)
    return tmp_path / "votes.npz"


@pytest.mark.parametrize(
    ("name", "parameters", "digest"),
    [
        ("lnmax", {"gamma": 0.2}, "c758443b8e062bbc"),
        ("gnmax", {"sigma": 5.0}, "3fb7f2c7d723220d"),
        ("confident-gnmax", {"threshold": 9.0, "sigma1": 3.0, "sigma2": 4.0}, "29dd57b8abb6f404"),
    ],
)
def test_seeded_labels_are_what_they_were_before_there_were_releases(votes_path, tmp_path, name, parameters, digest):
    """Label for label."""
    aggregate(votes_path, name, parameters, 3, f"toy/{name}", tmp_path / "labels.npz")
    labels = files.read_arrays(tmp_path / "labels.npz", formats.LABELS)["labels"]
    assert hashlib.sha256(labels.astype(np.int64).tobytes()).hexdigest()[:16] == digest


GNMAX = ("gnmax", {"sigma": 5.0})
OS = (None, None)


def test_a_release_says_so_and_no_two_agree(votes_path, tmp_path):
    first, other = tmp_path / "a" / "labels.npz", tmp_path / "b" / "labels.npz"
    for out in (first, other):
        aggregate(votes_path, *GNMAX, *OS, out, release=True)
    labels = [files.read_arrays(out, formats.LABELS) for out in (first, other)]
    assert np.any(labels[0]["labels"] != labels[1]["labels"])
    assert [each.meta["mode"] for each in labels] == ["release", "release"]


def test_a_release_does_not_tell_the_digest_of_the_votes(votes_path, tmp_path):
    """With all other votes known, it would give a teacher's away."""
    digest = files.read_arrays(votes_path, formats.VOTES).digest
    aggregate(votes_path, *GNMAX, *OS, tmp_path / "labels.npz", release=True)
    account(votes_path, *GNMAX, [60], 1e-5, *OS, tmp_path / "bounds.json", release=True)
    for out in ("labels.npz", "bounds.json"):
        assert digest.encode() not in (tmp_path / out).read_bytes()
    assert digest.encode() in votes_path.read_bytes()


def test_a_release_is_made_once(votes_path, tmp_path):
    out = tmp_path / "labels.npz"
    aggregate(votes_path, *GNMAX, *OS, out, release=True)
    before = out.read_bytes()
    with pytest.raises(ArtefactError, match="it is a release already"):
        aggregate(votes_path, *GNMAX, *OS, out, release=True)
    assert out.read_bytes() == before


def test_account_states_only_what_holds_for_discrete_noise(votes_path, tmp_path):
    account(votes_path, *GNMAX, [60], 1e-5, *OS, tmp_path / "bounds.json", release=True)
    content = files.read_json(tmp_path / "bounds.json", "bounds")
    assert content["mode"] == "release"
    assert {bound["accountant"] for bound in content["bounds"]} == {"rdp"}


@pytest.mark.parametrize("release", [True, False], ids=["release", "seeded"])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gnmax", {"sigma": 20.0}), ("confident-gnmax", {"threshold": 9, "sigma1": 15, "sigma2": 20})],
)
def test_a_budget_ends_the_answers(votes_path, tmp_path, name, parameters, release):
    epsilon, delta, seed = 1.0, 1e-5, OS if release else (0, "s")
    out, whole = tmp_path / "labels.npz", tmp_path / "whole.npz"
    aggregate(votes_path, name, parameters, *seed, out, release=release, budget=epsilon, delta=delta)
    labels = files.read_arrays(out, formats.LABELS)
    asked = labels.meta["budget"]["asked"]
    assert 0 < asked < 60, "the budget must end the release somewhere in the middle"
    assert np.all(labels["labels"][asked:] == NO_ANSWER)
    if not release:  # what is answered is as without a budget
        aggregate(votes_path, name, parameters, *seed, whole)
        np.testing.assert_array_equal(
            labels["labels"][:asked], files.read_arrays(whole, formats.LABELS)["labels"][:asked]
        )
    if name == "gnmax":  # the next query would be too much, for any order and hence for the filter's
        costs = GNMax(20.0).costs(30)
        keeper = RenyiFilter.for_steps(costs.answer, epsilon=epsilon, delta=delta)
        assert asked == queries_within(keeper, [True] * 60, costs)
        orders = 1 + np.geomspace(0.1, 1000, 5001)
        tight = conversion.tight(orders, asked * costs.answer(orders), delta).min()
        assert 0.97 * epsilon < tight <= epsilon
    account(votes_path, name, parameters, [10, 60], delta, *seed, tmp_path / "b.json", release=release, budget=epsilon)
    bounds = [Bound.from_json(record) for record in files.read_json(tmp_path / "b.json", "bounds")["bounds"]]
    promised = [bound for bound in bounds if bound.accountant == "rdp-filter"]
    assert [(bound.epsilon, bound.queries, bound.publishable) for bound in promised] == [
        (1.0, 10, True),
        (1.0, 60, True),
    ]


def test_budgets_that_can_not_be_kept(votes_path, tmp_path):
    for budget, delta, fault in ((0.01, 1e-5, "does not admit one query"), (1.0, None, "give --delta with --budget")):
        with pytest.raises(PatebenchError, match=fault):
            aggregate(votes_path, *GNMAX, *OS, tmp_path / "out", release=True, budget=budget, delta=delta)
    assert not (tmp_path / "out").exists()


def test_the_command_line(votes_path, tmp_path):
    def run(*words):
        place = ["--votes", str(votes_path), "--out", str(tmp_path / "labels.npz")]
        return CliRunner().invoke(
            cli, ["aggregate", *place, "--mechanism", "lnmax", "--parameter", "gamma=0.2", *words]
        )

    assert "leave out --seed" in str(run("--release", "--seed", "1", "--stream", "s").exception)
    assert "give --seed and --stream" in str(run().exception)
    assert run("--release", "--budget", "3", "--delta", "1e-5").exit_code == 0
    assert files.read_arrays(tmp_path / "labels.npz", formats.LABELS).meta["mode"] == "release"
