"""What splits, ensembles, learners and students are called in the records: from facts of artefacts, never from paths.

Paths are made from the same facts by the same function, so a name in a table is also that of a folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.core.errors import ArtefactError
from patebench.core.slugs import Part, slug

Facts = dict[str, Any]


def take(path: Path, content: Any, names: Sequence[str]) -> Facts:
    """Those entries of an object in the artefact `path`; ArtefactError for the first that is not there."""
    for name in names:
        if not isinstance(content, Mapping) or name not in content:
            raise ArtefactError(path, f"it lacks '{name}'")
    return {name: content[name] for name in names}


def of_split(path: Path, content: Facts) -> Facts:
    """The columns `dataset`, `seed`, `split` and `setting`, which is the split without its seed."""
    facts = take(path, content, ("dataset", "seed", "split"))
    cut = take(path, facts["split"], ("pool", "test"))
    setting: tuple[Part, ...] = (("pool", cut["pool"]), ("test", cut["test"]))
    return {**facts, "split": slug(("seed", facts["seed"]), *setting), "setting": slug(*setting)}


def of_training(path: Path, content: Facts) -> tuple[Part, ...]:
    """How a model was trained, as configured: what the command's defaults decided is not spelt."""
    training = take(path, take(path, content, ("training",))["training"], ("model", "recipe", "epochs"))
    return training["model"], training["recipe"], ("epochs", training["epochs"])


def of_student(path: Path, content: Facts, *, whole_pool: bool) -> str:
    """The method and what was chosen for it; of the whole pool, also how many of the first queries it learnt from."""
    config = take(path, content["config"], _CONFIG)
    return _student(config, ("queries", content["queries"]) if whole_pool else None)


_CONFIG = ("method", "model", "recipe", "epochs", "hold_out")


def _student(config: Facts, queries: Part) -> str:
    chosen: tuple[Part, ...] = (("epochs", config["epochs"]), ("hold_out", config["hold_out"] or None))
    return slug(config["method"], queries, config["model"], config["recipe"], *chosen)


def of_rounds(rounds: Sequence[Facts]) -> Facts:
    """The columns `rounds`, `strategy` and `round` (from 0) of the last round, and `selection`, all rounds as they are.

    `rounds` names the student first: each has queries and labels of its own.

    Of the whole pool "", "", 0 and nothing.
    """
    student = _student(rounds[0]["student"], None) if rounds else None
    selected = slug(student, *((each["strategy"], each["queries"]) for each in rounds))
    last = rounds[-1]["strategy"] if rounds else ""
    return {"rounds": selected, "strategy": last, "round": max(len(rounds) - 1, 0), "selection": list(rounds)}


def read_rounds(path: Path, content: Mapping[str, Any]) -> list[Facts]:
    """The `rounds` of a label set or of its bounds; ArtefactError where they are not a list of rounds."""
    rounds = take(path, content, ("rounds",))["rounds"]
    if not isinstance(rounds, list):
        raise ArtefactError(path, "its 'rounds' is not a list")
    found = [take(path, each, ("strategy", "queries", "student")) for each in rounds]
    return [{**each, "student": take(path, each["student"], _CONFIG)} for each in found]
