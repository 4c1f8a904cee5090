"""Tables of bounds by every accountant, of costs per teacher under local privacy, and of audits."""

from collections.abc import Sequence

import pandas as pd

from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.local_mechanisms import WHICH
from patebench.reporting.frames import Records, natural_key, over_seeds, smallest_epsilon, sort_rows
from patebench.reporting.outcomes import AUDITED, SUBJECT
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SETTING_COLUMNS, SUBJECT_COLUMNS, Column, Table

#: Proven kinds of ε in the order of the table, with the headings of their columns.
_GROUPS = {
    Kind.WORST_CASE: "ε, worst case, of fresh noise",
    Kind.SANITISED: "ε, sanitised",
    Kind.DATA_DEPENDENT: "ε, data-dependent, not publishable",
}
#: Suffix of the heading for the classic conversion of a Rényi curve, if the tight conversion has a column too.
_CLASSIC = ", as published"
#: Separator of kind and heading in the name of a column; no kind contains it.
_OF = ": "
#: Order of headings in each group, from the loosest to the tightest. Other headings follow in natural order, and
#: headings without bounds are omitted.
_ORDER = (
    *("strong composition", "basic", "moments, l ≤ 8", "Rényi" + _CLASSIC, "Rényi", "Gaussian DP, PLD"),
    *("exact", "exact per teacher"),
)


def build_accountants(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per label set, number of queries and δ, with the ε by each accountant in columns.

    A column is called `<kind>: <accountant>_mean` or `<kind>: <accountant>_std` (mean and standard deviation over the
    seeds), where `kind` is the kind of bound. If an accountant has several bounds of a kind, the smallest counts. Label
    sets whose queries were selected in rounds are left out.
    """
    bounds = records.of_whole_pool().bounds
    frame = over_seeds(bounds, SUBJECT, [])
    bounds = bounds[bounds["kind"].isin(list(_GROUPS)) & ~bounds["variant"]]
    bounds = bounds.assign(heading=_headings(bounds)).dropna(subset="heading")
    for kind in _GROUPS:
        of_kind = bounds[bounds["kind"] == kind]
        headings = set(of_kind["heading"])
        known = [heading for heading in _ORDER if heading in headings]
        for heading in (*known, *sorted(headings - set(known), key=natural_key)):
            field = f"{kind}{_OF}{heading}"
            chosen = of_kind[of_kind["heading"] == heading]
            tightest = over_seeds(smallest_epsilon(chosen, [*SUBJECT, "seed"], field), SUBJECT, [field])
            frame = frame.merge(tightest.drop(columns="seeds"), on=SUBJECT, how="left")
    return sort_rows(frame, SUBJECT)


def accountants_columns(frame: pd.DataFrame) -> Sequence[Column]:
    """Return the visible columns of `frame`: the label set, and ε by kind of bound and accountant."""
    found = []
    for column in map(str, frame.columns):
        kind, of, heading = column.removesuffix("_mean").partition(_OF)
        if of and column.endswith("_mean"):
            found.append(Column(column, heading, "epsilon", group=_GROUPS[Kind(kind)]))
    return (*SUBJECT_COLUMNS, *found, Column("seeds", "Seeds", "count"))


def _headings(bounds: pd.DataFrame) -> "pd.Series[str]":
    """Return a column heading for each of `bounds`: the label of its accountant, or NaN if the bound is not shown.

    A Rényi curve can be converted to (ε, δ) by the classic or the tight formula. If an accountant has bounds of one
    kind by both formulas, only the tight bounds are shown. Classic data-dependent bounds are an exception, because
    papers state them: they are shown too, with headings that end in `_CLASSIC`, unless they are marked as `exact`.
    """
    labels = bounds["label"].where(bounds["label"] != "", bounds["accountant"])
    tight = bounds["conversion"] == Conversion.TIGHT
    in_both_ways = zip(bounds.loc[tight, "kind"], bounds.loc[tight, "accountant"], strict=True)
    pairs = pd.Series(list(zip(bounds["kind"], bounds["accountant"], strict=True)), bounds.index, dtype=object)
    classic = pairs.isin(set(in_both_ways)) & (bounds["conversion"] == Conversion.CLASSIC)
    # Papers state such bounds, so they are shown although a tight conversion exists.
    stated = classic & (bounds["kind"] == Kind.DATA_DEPENDENT) & ~bounds["exact"]
    named: pd.Series[str] = labels.where(~stated, labels + _CLASSIC).where(~classic | stated)
    return named


ACCOUNTANTS = Table(
    title="Every mechanism under every accountant", columns=accountants_columns, build=build_accountants
)


_BOUND = [*SUBJECT, "kind", "accountant", "conversion", "publishable", "adjacency", "source"]


def build_bounds(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per bound on the ε of released labels, with its values over the seeds.

    A row contains mean, standard deviation, minimum and maximum of ε, and the smallest and largest Rényi order. Labels
    of queries selected in rounds are left out.
    """
    frame = over_seeds(
        records.of_whole_pool().bounds,
        _BOUND,
        ["epsilon"],
        epsilon_min=("epsilon", "min"),
        epsilon_max=("epsilon", "max"),
        add_or_remove=("add_or_remove", "max"),
        order_min=("order", "min"),
        order_max=("order", "max"),
    )
    return sort_rows(frame, _BOUND)


BOUNDS = Table(
    title="Every bound",
    columns=(
        *SUBJECT_COLUMNS,
        Column("epsilon", "votes replaced", "epsilon", deviation=True, group="ε"),
        Column("add_or_remove", "if a teacher abstains", "epsilon", group="ε"),
        Column("kind", "Kind"),
        Column("publishable", "This draw publishable", "flag"),
        Column("accountant", "Accountant"),
        Column("conversion", "Conversion"),
        Column("order_min", "Order", "number"),
        Column("source", "Source"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_bounds,
    folded=True,
)


_COSTS = {"asked": "T_n", "epsilon": "ε_n of one query", "basic": "T_n·ε_n", "composed": "ε composed"}


def build_teacher_costs(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per label set, number of queries and δ, with the ε of single teachers under local privacy.

    Under local privacy, each teacher randomises its votes before it sends them. Teacher n answers T_n queries with ε_n
    each, so its total ε is T_n·ε_n by basic composition. The table shows the three teachers with the least, median and
    largest T_n·ε_n. For each of them, the columns are T_n, ε_n, T_n·ε_n, and the total ε by exact composition. Label
    sets whose queries were selected in rounds are left out.
    """
    values = [f"{cost}_{which}" for cost in _COSTS for which in WHICH]
    frame = over_seeds(records.of_whole_pool().teacher_costs, SUBJECT, values)
    return sort_rows(frame[[*SUBJECT, "seeds", *(f"{value}_mean" for value in values)]], SUBJECT)


TEACHER_COSTS = Table(
    title="Cost per teacher",
    columns=(
        *SETTING_COLUMNS,
        *(
            Column(f"{cost}_{which}_mean", which, "count" if cost == "asked" else "cost", group=title)
            for cost, title in _COSTS.items()
            for which in WHICH
        ),
    ),
    build=build_teacher_costs,
)


#: Prefix of the columns of audited ε; the label of the audit method follows.
_FOUND = f"{Kind.AUDITED_LOWER}: "

#: Kinds of ε that an audit compares with its lower bounds, with the headings of their columns.
_STATED = {Kind.CLAIMED: "claimed", Kind.WORST_CASE: "worst case", Kind.DATA_DEPENDENT: "data-dependent"}
#: Verdicts of audits from the worst to the best; of several verdicts the worst one counts.
_VERDICTS = ("violated", "disagrees", "holds", "vacuous")


def build_audit(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per audited mechanism, setting and number of queries, sorted by these. Missing ε are NaN.

    An audit has one of four verdicts on a stated ε:

    - "violated": the audit found a larger ε;
    - "disagrees": not violated, but the released labels do not follow the stated distribution;
    - "holds": the audit found no larger ε;
    - "vacuous": the stated ε is too large to be tested.

    If a column summarises several verdicts, it contains the first of them in the order of this list.

    Returns
    -------
    Frame with the columns that identify the audit (listed in `AUDITED`), and the columns below.

    claimed, worst_case, data_dependent : smallest stated ε of this kind.
    `audited_lower: <method>` : largest ε lower bound that an audit method found; one column per method (see
        `audit_methods`).
    claim : verdict on the claimed ε.
    verdict : verdict on the proven ε (worst-case and data-dependent).
    """
    ranks = {verdict: rank for rank, verdict in enumerate(_VERDICTS)}
    audits = records.audits.assign(rank=records.audits["verdict"].map(ranks).astype("float64"))
    of_kind = {kind: audits["kind"] == kind for kind in Kind}
    methods = audits["label"].where(of_kind[Kind.AUDITED_LOWER])
    # {column: (rows that the column summarises, name of their values, aggregate of the values of one setting)}
    columns = {str(kind): (of_kind[kind], "epsilon", "min") for kind in _STATED}
    for method in sorted(methods.dropna().unique(), key=natural_key):
        columns[f"{_FOUND}{method}"] = (methods == method, "epsilon", "max")
    columns["claim"] = (of_kind[Kind.CLAIMED], "rank", "min")
    columns["verdict"] = (of_kind[Kind.WORST_CASE] | of_kind[Kind.DATA_DEPENDENT], "rank", "min")
    frame = audits[AUDITED].drop_duplicates()
    for column, (rows, values, aggregate) in columns.items():
        groups = audits[rows].groupby(AUDITED, dropna=False)[values]
        frame = frame.merge(groups.agg(aggregate).rename(column).reset_index(), on=AUDITED, how="left")
    for column in ("claim", "verdict"):
        frame[column] = frame[column].map(dict(enumerate(_VERDICTS))).astype("object")
    return sort_rows(frame, AUDITED)


def audit_methods(frame: pd.DataFrame) -> dict[str, str]:
    """Return {column: audit method} for the columns of `frame` that contain the ε lower bounds of an audit method.

    `frame` is the result of `build_audit`.
    """
    names = map(str, frame.columns)
    return {name: name.removeprefix(_FOUND) for name in names if name.startswith(_FOUND)}


def audit_columns(frame: pd.DataFrame) -> Sequence[Column]:
    """Return the visible columns of `frame`: stated ε, an ε lower bound per audit method, and verdicts."""
    return (
        *SETTING_COLUMNS,
        *(Column(str(kind), words, "epsilon", group="ε") for kind, words in _STATED.items()),
        *(Column(name, label, "audited", group="Audited ε") for name, label in audit_methods(frame).items()),
        Column("claim", "the claim", group="Verdict on"),
        Column("verdict", "the proofs", group="Verdict on"),
    )


AUDIT = Table(title="Audit", columns=audit_columns, build=build_audit)
