"""Short calls of stages, for tests of later stages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.config.parameters import AccountParameters
from patebench.stages import account as account_stage
from patebench.stages import aggregate as aggregate_stage

#: What a round's queries say of the student that they were selected for.
STUDENT = {"method": "supervised", "model": None, "recipe": None, "epochs": None, "hold_out": None}

#: What hand-made labels store of the votes behind them.
OF_VOTES = {
    **{"teachers": 250, "abstentions": False},
    **{"partition_rule": "iid", "protects": ["replace"], "protection": "one record, replaced in its place"},
}


def aggregate(votes: Path, mechanism: str, parameters: Mapping[str, float], seed: int, stream: str, out: Path) -> None:
    """Run the stage `aggregate`: draw seeded labels of the whole pool."""
    aggregate_stage.run(votes=votes, mechanism=mechanism, parameters=parameters, seed=seed, stream=stream, out=out)


def account(
    votes: Path,
    labels: Path,
    queries: Sequence[int],
    delta: float,
    seed: int,
    stream: str,
    out: Path,
    **more: Any,
) -> None:
    """Run the stage `account`: compute bounds on ε of seeded labels."""
    accounting = AccountParameters(queries=tuple(queries), delta=delta)
    account_stage.run(votes=votes, labels=labels, accounting=accounting, seed=seed, stream=stream, out=out, **more)
