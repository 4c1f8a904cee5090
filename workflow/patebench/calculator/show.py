"""How accounts and calibrations are shown: a table for people, one JSON object for programs."""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patebench.calculator.calibrate import MOST_QUERIES, Calibration
from patebench.calculator.epsilon import Account
from patebench.core.bound import Bound, Conversion, Kind

if TYPE_CHECKING:
    from rich.console import RenderableType

_DIGITS = 6


def as_json(result: Account | Calibration) -> str:
    """One JSON object."""
    return json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False)


def account(result: Account) -> "RenderableType":
    """What may be published first, each part from the least ε; below it, which number to tell."""
    from rich.console import Group

    bounds = sorted(result.bounds, key=lambda bound: (not bound.publishable, bound.epsilon))
    title = f"{_setting(result)}: {result.queries} queries at δ = {result.delta:g}"
    return Group(_table(title, bounds), *_advice(bounds))


def calibration(result: Calibration) -> "RenderableType":
    """The value found in a sentence, and the bounds that hold there."""
    from rich.console import Group

    title = f"What {result.queries} queries then cost at δ = {result.delta:g}, whatever the votes are"
    return Group(_found(result), "", _table(title, result.bounds))


def _found(result: Calibration) -> str:
    kept = f"keeps ε ≤ {result.target:g} at δ = {result.delta:g} whatever the votes are"
    if result.solved == "queries":
        least = "at least " if result.queries == MOST_QUERIES else ""
        return f"{_setting(result)} {kept} for {least}{result.queries} queries."
    return f"{_setting(result)} is the least noise that {kept} for {result.queries} queries."


def _setting(result: Account | Calibration) -> str:
    values = {name: f"{value:.12g}" for name, value in result.parameters.items()}
    if isinstance(result, Calibration) and result.solved in values:
        values[result.solved] = _outward(result, result.parameters[result.solved])
    return " ".join([result.mechanism, *(f"{name} = {value}" for name, value in values.items())])


def _outward(result: Calibration, value: float) -> str:
    """A value that was found, in a few digits, rounded to the side of more noise."""
    from patebench.calculator.calibrate import worst_case
    from patebench.mechanisms.base import make_mechanism

    step = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    for rounded in (math.floor(value / step) * step, math.ceil(value / step) * step):
        text = f"{rounded:.{_DIGITS}g}"
        mechanism = make_mechanism(result.mechanism, {**result.parameters, result.solved: float(text)})
        if (
            worst_case(mechanism, result.queries, result.delta, result.classes, result.teachers)[0].epsilon
            <= result.target
        ):
            return text
    return repr(value)


def _table(title: str, bounds: Sequence[Bound]) -> "RenderableType":
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("accountant", "kind", "conversion"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ε", "order"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("publish?", no_wrap=True)
    table.add_column("source", overflow="fold")
    for bound in bounds:
        table.add_row(*_cells(bound), style=None if bound.publishable else "dim")
    return table


def _cells(bound: Bound) -> list[Any]:
    return [
        bound.accountant,
        bound.kind.replace("_", " "),
        "—" if bound.conversion is Conversion.NONE else str(bound.conversion),
        "∞" if math.isinf(bound.epsilon) else upward(bound.epsilon),
        "—" if bound.order is None else f"{bound.order:.4g}",
        "yes" if bound.publishable else "no",
        bound.source,
    ]


def upward(epsilon: float) -> str:
    """ε in four digits after the point, or four digits where it is small, rounded up."""
    digits = 4 if epsilon >= 0.1 or epsilon == 0 else 3 - math.floor(math.log10(epsilon))
    scaled = epsilon * 10.0**digits
    return f"{math.ceil(scaled - 1e-9 * scaled) / 10.0**digits:.{digits}f}"


def _advice(bounds: Sequence[Bound]) -> list[str]:
    """Which number to tell, and what of the others. A sanitised one is another draw each time it is computed."""
    sentences = []
    for kind, words in (
        (Kind.WORST_CASE, "To publish: ε = {} ({}), which holds whatever the votes are."),
        (
            Kind.SANITISED,
            "Or ε = {} ({}), which was drawn with noise just now: publish one draw only, and not the best.",
        ),
    ):
        sound = [bound for bound in bounds if bound.publishable and bound.kind is kind]
        sentences += [words.format(_cells(sound[0])[3], sound[0].accountant)] if sound else []
    if not sentences:
        return ["None of these may be published."]
    if not all(bound.publishable for bound in bounds):
        sentences.append(
            "What is not publishable depends on the votes, so that the number itself tells of them, or has no proof."
        )
    return sentences
