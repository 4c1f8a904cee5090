"""Test the adjacency audit of whole configurations: the tiny one, and stand-ins for the papers' on digits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from patebench.cli import cli
from patebench.features import contrast
from patebench.models import by_recipe, on_queries

pytestmark = pytest.mark.workflow

REPOSITORY = Path(__file__).parents[2]
PAPERS = sorted((REPOSITORY / "config" / "papers").glob("*.yaml"))


def verdicts(config: Path) -> dict[str, set[str]]:
    """Return the verdicts by ensemble, for a configuration that must not be violated."""
    done = CliRunner().invoke(cli, ["audit", "--adjacency", str(config), "--json"])
    assert done.exit_code == 0, done.output or done.exception
    audited = json.loads(done.output)["audited"]
    return {each["of"]: {change["verdict"] for change in each["changes"]} for each in audited}


#: Model → a smaller one of the same kind.
SMALLER = {"conv-middle": "conv-small", "paper-cnn-deep": "paper-cnn"}


def stand_ins(paper: Path) -> Iterator[str]:
    """Yield, for each ensemble of a paper's configuration, a small configuration as JSON, without students.

    Teachers are few and trained for one epoch. Networks learn digits. Records vote on a table, which needs no trained
    encoder. Equal configurations of several papers give equal JSON.
    """
    written = yaml.safe_load(paper.read_text())
    for experiment in written["experiments"].values():
        for ensemble in map(_small, experiment.get("ensembles", [])):
            selected = {"queries": 10} if on_queries(ensemble["model"]) or "queries" in experiment else {}
            mechanisms = {"sparse-gnmax": {"k": 1, "sigma": 2}} if selected else {"gnmax": {"sigma": 2}}
            votes = {"ensembles": [ensemble], **selected, "mechanisms": mechanisms}
            dataset = "breast_cancer" if on_queries(ensemble["model"]) else "digits"
            experiment = {"dataset": dataset, "pool": 60, "test": 100, "accounting": {"delta": 1e-5}, **votes}
            config = {"mode": written.get("mode", "seeded"), "seeds": [0], "experiments": {"stand-in": experiment}}
            yield json.dumps(config, sort_keys=True)


def _small(ensemble: dict[str, Any]) -> dict[str, Any]:
    """Return an ensemble of four teachers, or ten if each needs its own class, trained for one epoch.

    Its networks store all outputs that a paper asks for of any.
    """
    if on_queries(ensemble["model"]):
        return {**ensemble, "teachers": 4, "chunk": 2, "neighbours": None}
    teachers = 10 if isinstance(ensemble.get("partition"), dict) else 4
    model = SMALLER.get(ensemble["model"], ensemble["model"])
    passes = {"epochs": 1} if by_recipe(model) else {}
    dealt = ensemble.get("partition", "iid")
    more = {"model": model, "teachers": teachers, **passes, "chunk": teachers // 2, "partition": dealt, "soft": [1]}
    return {**ensemble, **more, "hints": "block2" if model == "conv-small" else "probabilities"}


def test_the_tiny_run_holds() -> None:
    found = verdicts(Path(__file__).with_name("tiny.yaml"))
    assert found.pop("digits: the data set") == {"refused"}
    assert list(found.values()) == [{"holds", "not claimed"}]


def asked() -> dict[str, str]:
    """Return every stand-in once, by a name that lists its papers."""
    by: dict[str, list[str]] = {}
    for paper in PAPERS:
        for config in dict.fromkeys(stand_ins(paper)):
            by.setdefault(config, []).append(paper.stem)
    return {f"{number} of {', '.join(papers)}": config for number, (config, papers) in enumerate(by.items(), 1)}


ASKED = asked()


@pytest.mark.parametrize("name", ASKED)
def test_what_papers_ask_for_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps, few in (("STEPS", 40), ("PASSES", 1)):
        monkeypatch.setattr(contrast, steps, few)
    config = tmp_path / "stand-in.yaml"
    config.write_text(ASKED[name])
    found = verdicts(config)
    found = {name: each for name, each in found.items() if not name.endswith(": the data set")}
    assert found
    assert all(each <= {"holds", "not claimed"} for each in found.values())
