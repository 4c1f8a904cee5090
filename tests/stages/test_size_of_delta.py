"""Test that a release at δ of at least 1/n is refused, that others warn, and that no ε is shown as 0."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.stages.commands import invoke
from tests.stages.labels import draw_release, even_votes, release_labels, state_bounds, write_votes

import patebench
from patebench.calculator.show import four_digits
from patebench.config import load, validate
from patebench.core.bound import large_delta
from patebench.core.errors import PatebenchError

FAULT = r"δ = [\d.e-]+ is not below 1/n for n = "
COUNTS = np.full((5, 2), 125)


def votes_of(path: Path, **facts: Any) -> Path:
    return write_votes(path, even_votes(50, 5), **facts)


def table(folder: Path) -> Path:
    np.savetxt(folder / "counts.csv", COUNTS, fmt="%d", delimiter=",")
    return folder / "counts.csv"


@pytest.mark.parametrize(("delta", "teachers", "large"), [
    (0.5, 250, True), (1 / 250, 250, True), (0.0039, 250, False), (0.9, 1, False), (0.5, 2, True),
    (0.01, None, True), (0.0099, None, False), (1e-5, 100_000, True), (1e-5, 60_000, False),
])  # fmt: skip
def test_it_is_large_from_one_over_the_number_of_teachers(delta: float, teachers: int | None, large: bool) -> None:
    assert (large_delta(delta, teachers) is not None) == large


def test_no_release_is_drawn_or_accounted_for_at_such_a_delta(tmp_path: Path, capsys: Any) -> None:
    votes, bounds = votes_of(tmp_path / "votes.npz"), tmp_path / "bounds.json"
    for limits in ({"budget": 5.0, "delta": 0.5}, {"ledger_budget": 9.0, "ledger_delta": 0.02}):
        with pytest.raises(PatebenchError, match=FAULT + "50 teachers"):
            draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "out.npz", **limits)
    assert not list(tmp_path.glob("out*")), "nothing may be written down that is not drawn"
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    with pytest.raises(PatebenchError, match=FAULT + "50 teachers"):
        state_bounds(votes, labels, [], bounds, delta=0.02)
    assert not bounds.exists()
    state_bounds(votes, labels, [], bounds, delta=0.0199)
    seeded = release_labels(votes, "gnmax", {"sigma": 40.0}, tmp_path / "seeded.npz", seed=0, stream="s")
    state_bounds(votes, seeded, [5], bounds, delta=0.5)
    assert "warning: δ = 0.5 is not below 1/n for n = 50 teachers" in capsys.readouterr().err


def test_the_number_of_records_refuses_only_where_it_is_public(tmp_path: Path, capsys: Any) -> None:
    """Do not refuse by the private number of records if a hash partition protects adding or removing one."""
    changes = {"iid": ["replace"], "hash": ["replace", "remove", "add"]}
    votes = {name: votes_of(tmp_path / f"{name}.npz", samples=1000, protects=each) for name, each in changes.items()}
    labels = {name: draw_release(path, "gnmax", {"sigma": 40.0}, tmp_path / f"{name}-labels.npz")
              for name, path in votes.items()}  # fmt: skip
    bounds = tmp_path / "bounds.json"
    with pytest.raises(PatebenchError, match="not below 1/n for n private records"):
        state_bounds(votes["iid"], labels["iid"], [], bounds, delta=1e-3)
    state_bounds(votes["iid"], labels["iid"], [], bounds, delta=9e-4)
    state_bounds(votes["hash"], labels["hash"], [], bounds, delta=1e-3)
    said = capsys.readouterr().err
    assert "not below 1/n for n private records" in said
    assert "1000" not in said
    assert "not below" not in bounds.read_text()


@pytest.mark.slow
def test_the_calculator_refuses_warns_and_publishes_nothing(tmp_path: Path) -> None:
    asked = ("epsilon", table(tmp_path), "--mechanism", "gnmax", "--sigma", 40, "--delta", 0.5)
    for words in (("--release",), ("--sanitise", "--ledger", tmp_path / "ledger")):
        refused = invoke(*asked, *words)
        assert "is not below 1/n for n = 250 teachers" in str(refused.exception)
        assert refused.stdout == ""
    assert not (tmp_path / "ledger").exists()
    shown = invoke(*asked)
    assert "warning: δ = 0.5" in shown.stderr
    assert "Nothing to publish: δ = 0.5" in shown.stdout
    found = json.loads(invoke(*asked, "--json").stdout)
    assert found["released"] is None
    assert not any(bound["publishable"] for bound in found["bounds"])
    given = ("calibrate", "--mechanism", "gnmax", "--epsilon", 1, "--sigma", 40, "--delta", 0.5)
    assert "is not below 1/n for n = 100 teachers" in str(invoke(*given, "--release", "--teachers", 100).exception)
    assert "Nothing to publish: δ = 0.5" in invoke(*given, "--teachers", 100).stdout
    assert "n is not known here" in invoke(*given).stderr
    audit = ("audit", "--mechanism", "gnmax", "--sigma", 1, "--teachers", 2, "--classes", 2, "--runs", 1000)
    assert "warning: δ = 0.5" in invoke(*audit, "--delta", 0.5).stderr


@pytest.mark.slow
def test_python_refuses_and_warns_too() -> None:
    bounds = partial(patebench.bounds, COUNTS, "gnmax", sigma=40, delta=0.5)
    calibrate = partial(patebench.calibrate, "gnmax", epsilon=1, delta=0.02, sigma=40)
    audit = partial(patebench.audit, "gnmax", sigma=1, teachers=2, classes=2, delta=0.5, runs=1000)
    for call, n in ((bounds, 250), (partial(calibrate, teachers=50), 50)):
        with pytest.raises(PatebenchError, match=FAULT + f"{n} teachers"):
            call(release=True)
    for call, words in ((bounds, FAULT + "250"), (calibrate, "n is not known here"), (audit, FAULT + "2 teachers")):
        with pytest.warns(UserWarning, match=words):
            call()


def config(delta: float, **more: Any) -> dict[str, Any]:
    ours = {"dataset": "digits", "pool": 100, "ensembles": [{"teachers": [10, 20], "model": "logistic"}]}
    ours |= {"mechanisms": {"gnmax": {"sigma": 40}}, "accounting": {"delta": delta}}
    return {"seeds": 0, "experiments": {"ours": ours}, **more}


def test_a_configuration_with_it_is_not_called_sound(tmp_path: Path) -> None:
    """Compare δ with the size of the largest ensemble."""
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump(config(0.05)))
    shown = invoke("config", "check", file)
    assert shown.exit_code == 0
    assert "warning: experiments.ours.accounting.delta: δ = 0.05 is not below 1/n for n = 20 teachers" in shown.output
    assert "sound" not in shown.output
    assert validate(config(0.049)).warnings == []
    with pytest.raises(PatebenchError, match=r"experiments\.ours\.accounting\.delta: " + FAULT + "20 teachers"):
        validate(config(0.05, mode="release", ledger={"budget": 9, "delta": 1e-5}))
    with pytest.raises(PatebenchError, match=r"ledger\.delta: " + FAULT + "20 teachers"):
        validate(config(1e-5, mode="release", ledger={"budget": 9, "delta": 0.05}))
    validate(config(1e-5, mode="release", ledger={"budget": 9, "delta": 1e-5}))


@pytest.mark.slow
def test_the_configurations_here_are_below_it() -> None:
    for file in sorted((Path(__file__).parents[2] / "config").rglob("*.yaml")):
        assert validate(load(file), files=False).warnings == [], file


def test_a_release_that_costs_next_to_nothing_is_not_shown_to_cost_nothing(tmp_path: Path) -> None:
    assert four_digits(0.0) == four_digits(1e-300) == "0.0001"
    asked = ("--mechanism", "gnmax", "--sigma", 4e7, "--delta", 1e-5, "--release")
    assert "drawn by --release: ε = 0.0001 (pld)" in invoke("epsilon", table(tmp_path), *asked).stdout
