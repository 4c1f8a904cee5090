"""Format accounts and calibrations (results of `calculations`) as a table or as one JSON object."""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patebench.calculator.calculations import MOST_QUERIES, Account, Calibration, worst_case
from patebench.core.bound import Bound, Conversion, Kind, large_delta
from patebench.core.text import above_zero, decimal_places, plural, upward
from patebench.mechanisms.base import make_mechanism

if TYPE_CHECKING:
    from rich.console import RenderableType

_DIGITS = 6


def as_json(result: Account | Calibration) -> str:
    """Return `result` as one JSON object in text form.

    An ε below 10⁻¹² may be a rounding error, so a safe upper bound, 10⁻⁴, is stated instead (`text.above_zero`).
    """
    content = result.to_json()
    for bound in (*content["bounds"], *filter(None, [content["released"]])):
        for name in ("epsilon", "add_or_remove"):
            if isinstance(bound[name], float):
                bound[name] = above_zero(bound[name])
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)


def account_table(result: Account) -> "RenderableType":
    """Return a table of the bounds in `result`, smallest ε first, followed by advice on which ε to publish."""
    from rich.console import Group

    bounds = sorted(result.bounds, key=lambda bound: bound.epsilon)
    if not bounds:
        return Group(f"{_setting(result)}: no worst-case bound is known.", _to_publish(result))
    kinds = " and ".join(sorted({bound.kind.words for bound in bounds}))
    title = f"{_setting(result)}: {plural(result.queries, 'query')} at δ = {result.delta:g}, {kinds}"
    to_publish = [_to_publish(result)] if all(bound.publishable for bound in bounds) else []
    return Group(_table(title, bounds, result.release), *to_publish, *_advice(bounds))


def calibration_table(result: Calibration) -> "RenderableType":
    """Return a sentence with the computed noise or number of queries, a table of bounds, and the ε to publish."""
    from rich.console import Group

    title = f"Worst-case cost of {plural(result.queries, 'query')} at δ = {result.delta:g}"
    return Group(_solution(result), "", _table(title, result.bounds, result.release), _to_publish(result))


def _solution(result: Calibration) -> str:
    kept = f"keeps ε ≤ {result.target:.12g} at δ = {result.delta:g} in the worst case"
    if result.solved == "queries":
        least = "at least " if result.queries == MOST_QUERIES else ""
        return f"{_setting(result)} {kept} for {least}{plural(result.queries, 'query')}."
    return f"{_setting(result)} is the least noise that {kept} for {plural(result.queries, 'query')}."


def _setting(result: Account | Calibration) -> str:
    values = {name: f"{value:.12g}" for name, value in result.parameters.items()}
    if isinstance(result, Calibration) and result.solved in values:
        values[result.solved] = _format_noise(result, result.parameters[result.solved])
    return " ".join([result.mechanism, *(f"{name} = {value}" for name, value in values.items())])


def _format_noise(result: Calibration, noise: float) -> str:
    """Return `noise` as text with `_DIGITS` digits, if ε with the rounded noise is at most the target of `result`.

    Rounding down is tried first, then rounding up. If ε exceeds the target for both, all digits of `noise` are
    returned.
    """
    step = 10.0 ** (math.floor(math.log10(noise)) + 1 - _DIGITS)
    for rounded in (math.floor(noise / step) * step, math.ceil(noise / step) * step):
        text = f"{rounded:.{_DIGITS}g}"
        mechanism = make_mechanism(result.mechanism, {**result.parameters, result.solved: float(text)})
        bounds = worst_case(mechanism, result.queries, result.delta, result.classes, result.teachers, result.release)
        if bounds[0].epsilon <= result.target:
            return text
    return repr(noise)


def _table(title: str, bounds: Sequence[Bound], release: bool) -> "RenderableType":
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("accountant", "kind", "conversion"):
        table.add_column(heading, no_wrap=True)
    both = any(bound.add_or_remove is not None for bound in bounds)
    for heading in ("ε", *(["if one abstains"] if both else []), "order"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("publish?", no_wrap=True)
    table.add_column("source", overflow="fold")
    for bound in bounds:
        table.add_row(*_cells(bound, release, both), style=None if bound.publishable else "dim")
    return table


def _cells(bound: Bound, release: bool, both: bool) -> list[Any]:
    published = "no" if not bound.publishable else "yes" if release else "no release"
    return [
        bound.accountant,
        bound.kind.words,
        "—" if bound.conversion is Conversion.NONE else str(bound.conversion),
        four_digits(bound.epsilon),
        *(["—" if bound.add_or_remove is None else four_digits(bound.add_or_remove)] if both else []),
        "—" if bound.order is None else f"{bound.order:.4g}",
        published,
        bound.source,
    ]


def four_digits(epsilon: float) -> str:
    """Return ε as text, rounded up: with four decimals, or with four significant digits if ε is below 0.1.

    An ε that may be a rounding error is replaced by a safe upper bound, so the text is never 0.
    """
    if math.isinf(epsilon):
        return "∞"
    shown = above_zero(epsilon)
    return upward(shown, 4 if epsilon >= 0.1 or shown != epsilon else decimal_places(epsilon, 4))


def _to_publish(result: Account | Calibration) -> str:
    """Return a sentence that states which ε to publish, or why none can be published."""
    bound = result.released
    if isinstance(result, Account) and result.unreleasable:
        return f"Nothing to publish: {result.unreleasable}."
    if large_delta(result.delta, result.teachers):
        number = f"n = {result.teachers} teachers" if result.teachers else "the number n of teachers, which is unknown"
        return f"Nothing to publish: δ = {result.delta:g} is not below 1/n for {number}."
    if bound is None:
        return (
            f"Nothing to publish: {result.mechanism} has no form with discrete noise, so its labels cannot be released."
        )
    number = f"ε = {four_digits(bound.epsilon)} ({bound.accountant})"
    if result.release:
        return f"To publish, with labels drawn by --release: {number}, a worst-case bound."
    above = isinstance(result, Calibration) and bound.epsilon > result.target
    return (
        "Nothing to publish with labels drawn from a seed or with continuous noise: these are not private releases. "
        f"Labels drawn by --release would have {number} in the worst case"
        f"{', above the target; add --release to calibrate for them' if above else ''}."
    )


def _advice(bounds: Sequence[Bound]) -> list[str]:
    """Return sentences of advice on sanitised bounds, and on bounds that must not be published.

    The list is empty if `bounds` contain neither.
    """
    sentences = []
    if drawn := [bound for bound in bounds if bound.publishable and bound.kind is Kind.SANITISED]:
        sentences.append(
            f"ε = {four_digits(drawn[0].epsilon)} ({drawn[0].accountant}) was drawn with noise just now. Publish one "
            "draw only, and do not choose the best of several. The bound is valid for continuous noise."
        )
    if not all(bound.publishable for bound in bounds):
        sentences.append("Do not publish bounds marked “no”: they leak information about the votes, or are not proven.")
    return sentences
