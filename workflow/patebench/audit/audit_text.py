"""Terminal output of an audit: every stated bound with the audited ε, and a sentence for each number of queries."""

import math
from typing import TYPE_CHECKING

from patebench.audit.sampled import Sampled, histogram
from patebench.audit.verdict import Audit, Finding, Verdict, worst_verdict
from patebench.audit.worst_pairs import Pair
from patebench.core.bound import Conversion, Kind
from patebench.core.text import above_zero, at_least, at_most, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Verdict.HOLDS: None, Verdict.VIOLATED: "bold red", Verdict.DISAGREES: "red", Verdict.VACUOUS: "dim"}

_SENTENCES = {
    Verdict.HOLDS: "No bound with a proof is contradicted.",
    Verdict.VIOLATED: "A bound that is stated as proven is violated.",
    Verdict.DISAGREES: "Releases do not follow the stated probabilities, so no bound applies to the code.",
    Verdict.VACUOUS: "All bounds with a proof are vacuous.",
}


def render(audit: Audit) -> "RenderableType":
    """Return one table per number of queries, followed by the origin of its numbers."""
    from rich.console import Group

    return Group(
        *(part for finding in audit.findings for part in (_table(audit, finding), *_words(audit, finding), ""))
    )


def _table(audit: Audit, finding: Finding) -> "RenderableType":
    from rich import box
    from rich.table import Table

    setting = " ".join(
        [audit.name, *(f"{name} = {value:.12g}" for name, value in audit.mechanism.parameters().items())]
    )
    asked = plural(finding.queries, "query")
    title = f"{setting}: {asked} to {audit.teachers} teachers, {audit.classes} classes, δ = {audit.delta:g}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("stated by", "kind", "conversion"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ε", "audited ε ≥"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for each in sorted(finding.stated, key=lambda each: float(f"{each.bound.epsilon:.9g}")):
        bound, way = each.bound, each.bound.conversion
        cells = (bound.accountant, bound.kind.words, "—" if way is Conversion.NONE else str(way))
        numbers = at_most(above_zero(bound.epsilon)), at_least(each.audited)
        table.add_row(*cells, *numbers, each.verdict, style=_STYLES[each.verdict])
    return table


def _words(audit: Audit, finding: Finding) -> list[str]:
    """Return lines with the verdict, the disagreements, the pair, and the event with its rates."""
    pair = finding.pair
    claims = {each.verdict for each in finding.stated if each.bound.kind is Kind.CLAIMED}
    found = [
        *(["A claimed bound is violated."] if Verdict.VIOLATED in claims else []),
        _SENTENCES[worst_verdict(finding)],
        *(f"Disagreement: {line}." for line in audit.disagreements),
        *_elsewhere(finding),
        f"Exact: ε {_least(finding.exact)} between {_between(pair)}.",
    ]
    if finding.sampled.event is None:
        return [*found, "Sampled: ε = ∞, since independent generators give the same noise, which can be subtracted."]
    found.append(_counted(finding.sampled))
    if finding.discrete is not None:
        rates, same = finding.discrete.rates, "" if audit.disagreements else "; the operating system's noise agrees"
        times = f"{_times(rates.positives, rates.runs)} and {_times(rates.false_positives, rates.runs)}"
        found.append(f"Discrete noise: ε {_least(finding.discrete.epsilon)}: the same event, {times}{same}.")
    return found


def _between(pair: Pair) -> str:
    if pair.words:
        return f"D and D′: {pair.words}"
    moved = f"the same with one vote moved from class {pair.source} to class {pair.target}"
    return f"the counts {histogram(pair.counts.tolist())} and {moved}"


def _counted(sampled: Sampled) -> str:
    pair, rates, wider = sampled.pair, sampled.rates, ""
    if pair.words:
        return (
            f"Sampled: ε {_least(sampled.epsilon)}: an event, chosen on a tenth of the tables, occurred "
            f"{_times(rates.positives, rates.runs)} others on D and {_times(rates.false_positives, rates.runs)} on D′, "
            f"{pair.words}, at {100 * rates.confidence:.4g}% confidence; μ ≥ {at_least(rates.mu())}."
        )
    if sampled.wider is not None:
        wider = f" (and a wider one {_times(sampled.wider.positives, rates.runs)} and {sampled.wider.false_positives})"
    sure = f"{100 * rates.confidence:.4g}% confidence"
    return (
        f"Sampled: ε {_least(sampled.epsilon)}: an event, chosen on a tenth of the answers, occurred "
        f"{_times(rates.positives, rates.runs)} others on the counts {histogram(pair.counts.tolist())}, and "
        f"{_times(rates.false_positives, rates.runs)} with one vote moved from class {pair.source} to {pair.target}"
        f"{wider}, at {sure}; as Gaussian privacy, μ ≥ {at_least(rates.mu())} per query."
    )


def _times(times: float, runs: float) -> str:
    return f"in {times} of {runs}"


def _elsewhere(finding: Finding) -> list[str]:
    """Return a line about the data-dependent bound that fails most on a pair other than the worst one."""
    wrong = [
        each for each in finding.stated if each.verdict is Verdict.VIOLATED and each.bound.kind is not Kind.WORST_CASE
    ]
    elsewhere = [each for each in wrong if each.pair is not finding.pair]
    worst = max(elsewhere, key=lambda each: each.excess, default=None)
    if worst is None:
        return []
    kind = worst.bound.kind.words
    return [
        f"{worst.bound.accountant} ({kind}) states ε = {at_most(above_zero(worst.bound.epsilon))} for the counts "
        f"{histogram(worst.pair.counts.tolist())}, where ε {_least(worst.audited)}."
    ]


def _least(epsilon: float) -> str:
    return "= ∞" if math.isinf(epsilon) else f"≥ {at_least(epsilon)}"
