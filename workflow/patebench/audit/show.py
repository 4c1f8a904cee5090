"""How an audit is shown on a terminal: every stated bound beside what the audit found, and a sentence for each T."""

import math
from typing import TYPE_CHECKING

from patebench.audit.verdict import Audit, Finding, Verdict, worst_verdict
from patebench.core.bound import Conversion, Kind

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Verdict.HOLDS: None, Verdict.VIOLATED: "bold red", Verdict.VACUOUS: "dim"}

_SENTENCES = {
    Verdict.HOLDS: "Nothing was found that contradicts a bound with a proof.",
    Verdict.VIOLATED: "A bound that is stated as proven does not hold.",
    Verdict.VACUOUS: "No bound with a proof says anything.",
}


def render(audit: Audit) -> "RenderableType":
    """A table for each number of queries, and below it what the numbers come from."""
    from rich.console import Group

    return Group(*(part for finding in audit.findings for part in (_table(audit, finding), *_words(finding), "")))


def _table(audit: Audit, finding: Finding) -> "RenderableType":
    from rich import box
    from rich.table import Table

    setting = " ".join(
        [audit.name, *(f"{name} = {value:.12g}" for name, value in audit.mechanism.parameters().items())]
    )
    asked = "one query" if finding.queries == 1 else f"{finding.queries} queries"
    title = f"{setting}: {asked} to {audit.teachers} teachers, {audit.classes} classes, δ = {audit.delta:g}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("stated by", "kind", "conversion"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ε", "audited ε ≥"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for each in sorted(finding.stated, key=lambda each: float(f"{each.bound.epsilon:.9g}")):
        bound, way = each.bound, each.bound.conversion
        cells = (bound.accountant, bound.kind.replace("_", " "), "—" if way is Conversion.NONE else str(way))
        numbers = _number(bound.epsilon), _number(each.audited)
        table.add_row(*cells, *numbers, each.verdict, style=_STYLES[each.verdict])
    return table


def _words(finding: Finding) -> list[str]:
    """The verdict, the pair, and the event with its rates."""
    pair, rates = finding.pair, finding.sampled.rates
    counts = _histogram(pair.counts.tolist())
    found = [
        *_claims(finding),
        _SENTENCES[worst_verdict(finding)],
        f"Exact: ε {_least(finding.exact)} between the counts {counts} and the same with one vote moved from class "
        f"{pair.source} to class {pair.target}.",
    ]
    if not finding.sampled.fresh:
        return [*found, "Sampled: ε = ∞, since independent generators give the same noise, which can be taken off."]
    sampled = finding.sampled.pair
    return [
        *found,
        f"Sampled: ε {_least(finding.sampled.epsilon)}: an event that the first half of the runs chose showed in "
        f"{rates.positives} of {rates.runs} others on the counts {_histogram(sampled.counts.tolist())}, and in "
        f"{rates.false_positives} of {rates.runs} with one vote moved from class {sampled.source} to {sampled.target}, "
        f"at {100 * rates.confidence:.4g}% confidence; as Gaussian privacy, μ ≥ {_number(rates.mu())} per query.",
    ]


def _histogram(counts: list[int]) -> str:
    """Counts in order of the classes, long rows of zeros cut."""
    while len(counts) > 4 and counts[-1] == counts[-2] == 0:
        counts = counts[:-1]
    return f"({', '.join(map(str, counts))}{', …' if counts[-1] == 0 else ''})"


def _claims(finding: Finding) -> list[str]:
    claims = {each.verdict for each in finding.stated if each.bound.kind is Kind.CLAIMED}
    return ["What is claimed does not hold."] if Verdict.VIOLATED in claims else []


def _least(epsilon: float) -> str:
    return "= ∞" if math.isinf(epsilon) else f"≥ {_number(epsilon)}"


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"
