"""Format an audit for the terminal: a table of stated and audited ε for each number of queries, and explanations."""

import math
from typing import TYPE_CHECKING

from patebench.audit.runs import Sampled
from patebench.audit.sampled import on_counts
from patebench.audit.verdict import Audit, Finding, Verdict, worst_verdict
from patebench.audit.worst_pairs import Pair
from patebench.core.bound import Adjacency, Conversion, Kind
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
    """Return a table of stated and audited ε for each number of queries, followed by sentences about the audit."""
    from rich.console import Group

    parts = [[_table(audit, finding), *_sentences(audit, finding), ""] for finding in audit.findings]
    return Group(*(part for several in parts for part in several))


def _table(audit: Audit, finding: Finding) -> "RenderableType":
    from rich import box
    from rich.table import Table

    parameters = (f"{name} = {value:.12g}" for name, value in audit.mechanism.parameters().items())
    queries = f"{plural(finding.queries, 'query')} to {audit.teachers} teachers, {audit.classes} classes"
    title = f"{' '.join([audit.name, *parameters])}: {queries}, δ = {audit.delta:g}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for heading in ("stated by", "kind", "conversion"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ε", "audited ε ≥"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for stated in sorted(finding.stated, key=lambda stated: float(f"{stated.bound.epsilon:.9g}")):
        bound, conversion = stated.bound, stated.bound.conversion
        added = ", a teacher abstaining" if bound.adjacency is Adjacency.ADD_OR_REMOVE_TEACHER else ""
        cells = (bound.accountant, bound.kind.words + added, "—" if conversion is Conversion.NONE else str(conversion))
        numbers = at_most(above_zero(bound.epsilon)), at_least(stated.audited)
        table.add_row(*cells, *numbers, stated.verdict, style=_STYLES[stated.verdict])
    return table


def _sentences(audit: Audit, finding: Finding) -> list[str]:
    """Return the sentences that follow the table of `finding`, among them `audit.disagreements`."""
    claims = {stated.verdict for stated in finding.stated if stated.bound.kind is Kind.CLAIMED}
    sentences = [
        *(["A claimed bound is violated."] if Verdict.VIOLATED in claims else []),
        _SENTENCES[worst_verdict(finding)],
        *(f"Disagreement: {line}." for line in audit.disagreements),
        *_describe_other_violation(finding),
        f"Exact: ε {_least(finding.exact)} {' and '.join(_describe_pair(finding.pair))}.",
        *_describe_weighted_votes(finding.weighted),
    ]
    if finding.sampled.event is None:
        return [
            *sentences,
            "Sampled: ε = ∞, since independent generators give the same noise, which can be subtracted.",
        ]
    sentences.append(_sampled(finding.sampled))
    if finding.discrete is not None:
        rates, same = finding.discrete.rates, "" if audit.disagreements else "; the operating system's noise agrees"
        times = f"in {rates.positives} and {rates.false_positives} of {rates.runs} runs"
        sentences.append(f"Discrete noise: ε {_least(finding.discrete.epsilon)}: the event occurred {times}{same}.")
    return sentences


def _describe_pair(pair: Pair) -> tuple[str, str]:
    """Return phrases for D and D′ such as "on the counts (3, 2)" and "with one vote moved from class 0 to class 1"."""
    if pair.words:
        return "on D", f"on D′: {pair.words}"
    return on_counts(pair.counts), f"with one vote moved from class {pair.source} to class {pair.target}"


def _sampled(sampled: Sampled) -> str:
    rates, wider, (here, there) = sampled.rates, "", _describe_pair(sampled.pair)
    if sampled.wider is not None:
        times = sampled.wider.positives, sampled.wider.false_positives
        wider = f" (and a wider event in {times[0]} and {times[1]})"
    return (
        f"Sampled: ε {_least(sampled.epsilon)} at {100 * rates.confidence:.4g}% confidence: a tenth of the runs chose "
        f"an event, which occurred in {rates.positives} of {rates.runs} others {here}, and in {rates.false_positives} "
        f"{there}{wider}; as Gaussian DP, μ ≥ {at_least(rates.mu())}{'' if sampled.pair.words else ' per query'}."
    )


def _describe_other_violation(finding: Finding) -> list[str]:
    """Return [a sentence] on the most violated bound that was computed from other votes than `finding.pair`.

    The result is [] if no bound of this kind is violated. Worst-case bounds are not considered, because they do not
    depend on votes.
    """
    elsewhere = [
        stated
        for stated in finding.stated
        if stated.verdict is Verdict.VIOLATED
        and stated.bound.kind is not Kind.WORST_CASE
        and stated.pair is not finding.pair
    ]
    if not elsewhere:
        return []
    worst = max(elsewhere, key=lambda stated: stated.excess)
    epsilon = at_most(above_zero(worst.bound.epsilon))
    return [
        f"{worst.bound.accountant} ({worst.bound.kind.words}) states ε = {epsilon} {on_counts(worst.pair.counts)}, "
        f"where the audited ε {_least(worst.audited)}."
    ]


def _describe_weighted_votes(finding: Finding | None) -> list[str]:
    """Return [a sentence] with the audited ε and the smallest stated ε for votes with weights.

    `finding` is the result of the audit of votes with weights. If it is None, the result is [].
    """
    if finding is None:
        return []
    best = min((stated.bound for stated in finding.stated), key=lambda bound: bound.epsilon)
    return [
        f"Votes with weights: ε {_least(finding.exact)} {' and '.join(_describe_pair(finding.pair))}; "
        f"{best.accountant} states ε = {at_most(above_zero(best.epsilon))}."
    ]


def _least(epsilon: float) -> str:
    return "= ∞" if math.isinf(epsilon) else f"≥ {at_least(epsilon)}"
