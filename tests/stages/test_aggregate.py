"""Test the stage `aggregate`: seeded labels, releases, and labels within a budget."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.commands import invoke
from tests.stages.labels import (
    bounds_of,
    draw_release,
    release_labels,
    write_votes,
    write_weighted_votes,
)

from patebench.accounting import conversion
from patebench.accounting.filter import RenyiFilter, queries_within
from patebench.artefacts.reading import read_votes
from patebench.core import files, formats, seeds
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import NO_ANSWER, make_mechanism
from patebench.mechanisms.noisy_argmax import GNMax

GNMAX = ("gnmax", {"sigma": 5.0})


@pytest.fixture
def even_votes(tmp_path):
    """Write deterministic votes of 30 teachers on 60 queries."""
    teacher, query = np.ogrid[:30, :60]
    votes = (7 * teacher + 3 * query + teacher * query // 11) % 4
    return write_votes(tmp_path / "votes.npz", votes)


@pytest.mark.slow
def test_it_stays_light_and_so_do_the_stages_of_data_and_the_one_that_accounts(even_votes, tmp_path):
    script = (
        "import sys; from pathlib import Path; from patebench.stages import data, partition, split;"
        "from tests.stages.labels import bounds_of, release_labels;"
        "votes, labels = map(Path, sys.argv[1:]);"
        "release_labels(votes, 'gnmax', {'sigma': 5.0}, labels, seed=0, stream='s');"
        "bounds_of(votes, labels, [60]);"
        "heavy = {'torch', 'pandas', 'matplotlib', 'sklearn', 'scipy.stats', 'dp_accounting', 'PIL'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    command = [sys.executable, "-c", script, even_votes, tmp_path / "labels.npz"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "parameters", "digest"),
    [
        ("lnmax", {"gamma": 0.2}, "c758443b8e062bbc"),
        ("gnmax", {"sigma": 5.0}, "3fb7f2c7d723220d"),
        ("confident-gnmax", {"threshold": 9.0, "sigma1": 3.0, "sigma2": 4.0}, "29dd57b8abb6f404"),
    ],
)
def test_seeded_labels_are_those_of_the_mechanism_and_stay_what_they_were(
    even_votes, tmp_path, name, parameters, digest
):
    stream = f"toy/{name}"
    labels = files.read_arrays(
        release_labels(even_votes, name, parameters, tmp_path / "labels.npz", seed=3, stream=stream), formats.LABELS
    )
    source, votes = read_votes(even_votes)
    expected = make_mechanism(name, parameters).release(votes, seeds.generator(3, stream))
    np.testing.assert_array_equal(labels["labels"], expected)
    assert hashlib.sha256(labels["labels"].astype(np.int64).tobytes()).hexdigest()[:16] == digest
    facts = {"votes": source.digest, "pool": "q", "mechanism": name, "parameters": parameters, "rounds": []}
    assert {**facts, "mode": "seeded"}.items() <= labels.meta.items()


def test_releases_differ_and_are_never_overwritten(even_votes, tmp_path):
    outs = [tmp_path / name / "labels.npz" for name in "ab"]
    first, other = (files.read_arrays(draw_release(even_votes, *GNMAX, out), formats.LABELS) for out in outs)
    assert np.any(first["labels"] != other["labels"])
    assert (first.meta["mode"], first.meta["votes"]) == ("release", None)
    before = outs[0].read_bytes()
    with refuses("second-release"):
        draw_release(even_votes, *GNMAX, outs[0])
    assert outs[0].read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("release", [True, False], ids=["release", "seeded"])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gnmax", {"sigma": 20.0}), ("confident-gnmax", {"threshold": 9, "sigma1": 15, "sigma2": 20})],
)
def test_a_budget_ends_the_answers(even_votes, tmp_path, name, parameters, release):
    epsilon, delta = 1.0, 1e-5
    drawn = {"release": True, "ledger": tmp_path / "ledger"} if release else {"seed": 0, "stream": "s"}
    out, whole = tmp_path / "labels.npz", tmp_path / "whole.npz"
    release_labels(even_votes, name, parameters, out, **drawn, budget=epsilon, delta=delta)
    labels = files.read_arrays(out, formats.LABELS)
    asked = labels.meta["budget"]["asked"]
    assert 0 < asked < 60, "the budget must end the release somewhere in the middle"
    assert np.all(labels["labels"][asked:] == NO_ANSWER)
    if not release:  # what is answered is as without a budget
        release_labels(even_votes, name, parameters, whole, **drawn)
        np.testing.assert_array_equal(
            labels["labels"][:asked], files.read_arrays(whole, formats.LABELS)["labels"][:asked]
        )
    if name == "gnmax":  # the next query would exceed the budget at any order, so also at that of the filter
        cost = GNMax(20.0).per_query_cost(30, 10)
        keeper = RenyiFilter.for_steps(cost.answer, epsilon=epsilon, delta=delta)
        assert asked == queries_within(keeper, [True] * 60, cost)
        orders = 1 + np.geomspace(0.1, 1000, 5001)
        tight = conversion.tight(orders, asked * cost.answer(orders), delta).min()
        assert 0.97 * epsilon < tight <= epsilon
    wanted = [60] if release else [10, 60]
    stated = bounds_of(even_votes, out, wanted, delta=delta)["bounds"]
    promised = [each for each in stated if each["accountant"] == "rdp-filter"]
    assert [(each["epsilon"], each["queries"], each["publishable"]) for each in promised] == [
        (1.0, T, release) for T in wanted
    ]


def test_a_release_stands_in_the_ledger_before_it_is_drawn(even_votes, tmp_path, monkeypatch):
    def draw(**words):
        return release_labels(even_votes, *GNMAX, tmp_path / "labels.npz", **words)

    with refuses("missing"):
        draw(release=True)
    for words in ({"ledger": tmp_path / "ledger"}, {"ledger_budget": 1, "ledger_delta": 1e-5}):
        with refuses("release"):
            draw(seed=0, stream="s", **words)
    monkeypatch.setattr(Entropy, "normal", lambda *_, **given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        draw(release=True, ledger=tmp_path / "ledger")
    monkeypatch.undo()
    with refuses("no-limit"):
        draw(release=True, ledger=tmp_path / "ledger")
    assert not (tmp_path / "labels.npz").exists()


UNDRAWN = "cannot be drawn exactly"


@pytest.mark.parametrize(
    ("name", "parameters", "more", "fault"),
    [
        ("lnmax", {"gamma": 1e-13}, {}, UNDRAWN),
        ("confident-gnmax", {"threshold": 200.0, "sigma1": 20.0, "sigma2": 2.0**41}, {}, UNDRAWN),  # answers nothing
        ("distributed-gnmax", {"sigma": 2.0**45, "tolerance": 2.0}, {}, UNDRAWN),
        (*GNMAX, {"budget": 0.01, "delta": 1e-5}, "is too small for a single query"),
        (*GNMAX, {"budget": 1.0}, "--budget needs a δ"),
        (*GNMAX, {"delta": 1e-5}, "--delta is the δ of a budget, but --budget is missing"),
    ],
)
def test_what_can_not_be_drawn_is_not_entered_into_the_ledger(even_votes, tmp_path, name, parameters, more, fault):
    with pytest.raises(PatebenchError, match=fault):
        draw_release(even_votes, name, parameters, tmp_path / "out.npz", **more)
    assert not list(tmp_path.glob("out*"))


def test_noise_of_votes_with_weights_is_checked_in_their_unit(tmp_path):
    votes = write_weighted_votes(tmp_path / "votes.npz", protects=["replace"])
    with pytest.raises(PatebenchError, match=UNDRAWN):
        draw_release(votes, "sparse-gnmax", {"k": 1.0, "sigma": 2.0**29}, tmp_path / "out.npz")
    assert not list(tmp_path.glob("out*"))
    draw_release(votes, "sparse-gnmax", {"k": 1.0, "sigma": 2.0**27}, tmp_path / "out.npz")


def test_the_command_draws_a_release_within_its_budget(even_votes, tmp_path):
    labels = tmp_path / "labels.npz"
    words = ["--votes", even_votes, "--mechanism", "lnmax", "--parameter", "gamma=0.2", "--out", labels]
    words += ["--release", "--ledger", tmp_path / "ledger", "--ledger-budget", 5, "--ledger-delta", 1e-5]
    done = invoke("aggregate", *words, "--budget", 3, "--delta", 1e-5)
    assert done.exit_code == 0, done.output
    facts = files.read_arrays(labels, formats.LABELS).meta
    assert (facts["mode"], facts["budget"]["epsilon"]) == ("release", 3)
