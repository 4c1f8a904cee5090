"""The audit of whole configurations: the tiny one, and stand-ins of the papers' on digits."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from patebench.cli import cli
from patebench.models import by_recipe

pytestmark = pytest.mark.workflow

REPOSITORY = Path(__file__).parents[2]
PAPERS = sorted((REPOSITORY / "config" / "papers").glob("*.yaml"))


def verdicts(config: Path) -> dict[str, set[str]]:
    """The verdicts by ensemble, of a configuration that must not be violated."""
    done = CliRunner().invoke(cli, ["audit", "--adjacency", str(config), "--json"])
    assert done.exit_code == 0, done.output or done.exception
    audited = json.loads(done.output)["audited"]
    return {each["of"]: {change["verdict"] for change in each["changes"]} for each in audited}


def stand_in(written: dict[str, Any]) -> dict[str, Any]:
    """The same ensembles of few teachers that learn digits in one pass, without all that comes after their votes.

    Experiments that then ask for the same are one; each has a pool of its own size, so that none share files.
    """
    asked: dict[str, dict[str, Any]] = {}
    for experiment in written["experiments"].values():
        ensembles = [_small(each) for each in experiment["ensembles"]]
        different = list({json.dumps(each, sort_keys=True): each for each in ensembles}.values())
        silent = any(each["model"] == "nearest-query" for each in ensembles)
        selected = {"queries": 10} if silent or "queries" in experiment else {}
        mechanisms = {"sparse-gnmax": {"k": 1, "sigma": 2}} if selected else {"gnmax": {"sigma": 2}}
        wanted = {"ensembles": different, **selected, "mechanisms": mechanisms}
        asked.setdefault(json.dumps(wanted, sort_keys=True), wanted)
    experiments = {
        f"stand-in-{i}": {"dataset": "digits", "pool": 60 + i, "test": 100, "accounting": {"delta": 1e-5}, **wanted}
        for i, wanted in enumerate(asked.values())
    }
    return {"mode": written.get("mode", "seeded"), "seeds": [0], "experiments": experiments}


def _small(ensemble: dict[str, Any]) -> dict[str, Any]:
    """Four teachers, or ten where each is to have a class of its own; one pass, where there are any."""
    if ensemble["model"] == "nearest-query":
        return {**ensemble, "teachers": 4, "chunk": 2, "neighbours": None}
    teachers = 10 if isinstance(ensemble.get("partition"), dict) else 4
    passes = {"epochs": 1} if by_recipe(ensemble["model"]) else {}
    return {**ensemble, "teachers": teachers, **passes, "chunk": teachers // 2, "soft": [1]}


def test_the_tiny_run_holds() -> None:
    found = verdicts(Path(__file__).with_name("tiny.yaml"))
    assert found.pop("digits: the data set") == {"refused"}
    assert list(found.values()) == [{"holds", "not claimed"}]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.stem)
def test_what_papers_ask_for_holds(paper: Path, tmp_path: Path) -> None:
    config = tmp_path / "stand-in.yaml"
    config.write_text(yaml.safe_dump(stand_in(yaml.safe_load(paper.read_text()))))
    found = verdicts(config)
    del found["digits: the data set"]
    assert found
    assert all(each <= {"holds", "not claimed"} for each in found.values())
