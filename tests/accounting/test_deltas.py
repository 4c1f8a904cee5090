"""Every δ in (0, 1) gives bounds or is refused in one line, wherever it enters."""

import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from patebench.accounting.votes import Votes
from patebench.cli import cli
from patebench.config import validate
from patebench.core.bound import SMALLEST_DELTA
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS

TINY = (5e-324, 1e-320, 2e-308, SMALLEST_DELTA / 2)
EXTREME = (SMALLEST_DELTA, 1e-200, 1e-30, 0.5, 1 - 1e-9, math.nextafter(1, 0))
VOTES = Votes.of(np.random.default_rng(0).integers(0, 5, (30, 4)) % 3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_states_bounds_at_every_delta(name: str) -> None:
    kind = MECHANISMS.load(name)
    for release in {False, kind.discrete}:
        made = kind(**kind.example)
        for delta in EXTREME:
            bounds = made.bounds(VOTES, [4], delta, discrete=release)
            assert bounds
            assert all(bound.epsilon >= 0 for bound in bounds)
        for delta in TINY:
            with pytest.raises(PatebenchError, match="use at least 1e-300"):
                made.bounds(VOTES, [4], delta, discrete=release)


@pytest.mark.parametrize("name", ["stable-argmax", "stable-svt", "stable-svt-gaussian"])
def test_what_a_failure_leaves_of_delta_may_be_too_little(name: str) -> None:
    kind = MECHANISMS.load(name)
    for failure in (5e-324, SMALLEST_DELTA / 8, SMALLEST_DELTA * (1 - 1e-15) / 4):
        made = kind(**{**kind.example, "failure": failure})
        assert all(bound.epsilon >= 0 for bound in made.bounds(VOTES, [4], SMALLEST_DELTA))


@pytest.mark.parametrize(
    "command",
    [
        "epsilon counts.npy --mechanism=gnmax --sigma=40 --release",
        "aggregate --votes=counts.npy --out=labels.npz --seed=0 --stream=x --mechanism=gnmax --sigma=1e5 --budget=4",
        "aggregate --votes=counts.npy --out=labels.npz --release --ledger=ledger --mechanism=gnmax --sigma=1e5"
        " --ledger-budget=4",
        "calibrate --mechanism=gnmax --epsilon=1 --queries=5 --release",
        "audit --mechanism=gnmax --sigma=4 --teachers=5 --classes=2 --runs=1000",
        "test-mechanism gnmax --sigma=4 --runs=1000",
        "ledger .",
    ],
)
@pytest.mark.parametrize("delta", [SMALLEST_DELTA / 2, "1", "nan"])
def test_commands_refuse_what_is_no_delta_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, delta: float | str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("counts.npy", VOTES.counts)
    option = "--ledger-delta" if "--ledger-budget" in command else "--delta"
    result = CliRunner().invoke(cli, [*command.split(), option, str(delta)])
    assert isinstance(result.exception, PatebenchError), result.output
    assert "δ" in str(result.exception) or "delta" in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "labels.npz").exists()
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize("delta", [1e-320, "1e-320", 0, 1])
def test_configurations_refuse_what_is_no_delta(delta: object) -> None:
    experiment = {"dataset": "digits", "pool": 9, "ensembles": [{"teachers": 2, "model": "logistic"}]}
    experiment |= {"mechanisms": {"gnmax": {"sigma": 4}}}
    with pytest.raises(PatebenchError, match=r"experiments\.a\.accounting\.delta: .* is too (small|large); give "):
        validate({"seeds": [0], "experiments": {"a": {**experiment, "accounting": {"delta": delta}}}})
    release = {"seeds": [0], "mode": "release", "ledger": {"budget": 1, "delta": delta}}
    with pytest.raises(PatebenchError, match=r"ledger\.delta: .* is too (small|large); give "):
        validate({**release, "experiments": {"a": {**experiment, "accounting": {"delta": 1e-5}}}})
