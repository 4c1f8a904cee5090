"""One point per method: what it reaches at an ε that still says something, and what papers print of the same data.

A method is a mechanism, whatever student learnt from its labels, or a form of a model that is private itself. Of its
settings whose ε is at most `WEAK` the most accurate stands for it; where all cost more, the one that costs least. That
choice looks at the test set, as papers do.
"""

from typing import TYPE_CHECKING, Any

from patebench.core.bound import Adjacency, Kind
from patebench.reporting.frames import Records
from patebench.reporting.outcomes import outcomes, private_models, public_use
from patebench.reporting.published import (
    ALL_SYSTEMS,
    DISTRIBUTED_2018,
    DP_SGD,
    NZC_2020,
    PATE_2017,
    PETDL,
    PETDL_2019,
    PRIVATE_KNN,
    PRIVATE_KNN_2020,
    SCALABLE_2018,
    Published,
    Value,
)
from patebench.reporting.published import DPSGD as PAPERS_ON_DPSGD
from patebench.reporting.words import WEAK, in_words, owners_in_words

if TYPE_CHECKING:
    import pandas as pd

#: The paper that a mechanism, or a system whose model is private itself, comes from.
PAPERS = {
    "lnmax": PATE_2017,
    **dict.fromkeys(("gnmax", "confident-gnmax", "interactive-gnmax"), SCALABLE_2018),
    **dict.fromkeys(("immutable-lnmax", "immutable-gnmax"), NZC_2020),
    **dict.fromkeys(("randomised-response", "truncated-geometric"), DISTRIBUTED_2018),
    ALL_SYSTEMS[PETDL]: PETDL_2019,
    ALL_SYSTEMS[PRIVATE_KNN]: PRIVATE_KNN_2020,
    ALL_SYSTEMS[DP_SGD]: PAPERS_ON_DPSGD[0],
}
#: What is of none of them.
NO_PAPER = "of no paper here"

#: What a printed ε may stand beside.
_PRINTED = ("student_accuracy", "private_model_accuracy")

COLUMNS = (
    *("dataset", "method", "detail", "paper", "kind", "epsilon", "delta", "adjacency"),
    *("accuracy_mean", "accuracy_std", "baseline_accuracy_mean", "public_use", "public_samples", "seeds", "published"),
)


def methods(records: Records, published: Published) -> "pd.DataFrame":
    """One row per data set, method and kind of ε, and one per printed pair of ε and accuracy; columns are `COLUMNS`.

    Accuracies are fractions; `published` says whether a row is a paper's. An ε that is infinite or 0 is left out.
    """
    import pandas as pd

    rows = [*_students(records), *_models(records)]
    datasets = sorted({row["dataset"] for row in rows})
    rows += [_printed(value, accuracy) for each in datasets for value, accuracy in _pairs(published, each)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame = frame[(frame["epsilon"] > 0) & (frame["epsilon"] < float("inf"))]
    frame = frame.drop_duplicates(["dataset", "method", "detail", "kind", "epsilon", "accuracy_mean"])
    return frame.sort_values(["dataset", "published", "epsilon", "method"], kind="stable", ignore_index=True)


def _best(settings: "pd.DataFrame", by: list[str], epsilon: str) -> "pd.DataFrame":
    """One setting per group of equal `by`, as the head of this file says."""
    ranked = settings.assign(weak=settings[epsilon] > WEAK, cost=settings[epsilon].where(settings[epsilon] > WEAK, 0.0))
    ranked = ranked.sort_values(["weak", "cost", "accuracy_mean"], ascending=[True, True, False], kind="stable")
    return ranked.drop_duplicates(by)


def _students(records: Records) -> list[dict[str, Any]]:
    """Two rows for each mechanism: the same student at its worst-case ε and at its data-dependent one."""
    found = outcomes(records)
    found = _best(found[found["worst_case_epsilon_mean"].notna()], ["dataset", "mechanism"], "worst_case_epsilon_mean")
    rows = []
    for row in found.to_dict("records"):
        uses, samples = public_use(row)
        detail = f"{row['noise_in_words']}, {row['teachers']:,} teachers, {row['queries']:,} queries"
        common = {name: row[name] for name in _COPIED} | {"method": row["mechanism"]}
        common |= {
            "detail": f"{detail}, student: {in_words(row['method'])}",
            "adjacency": owners_in_words(row["partition"]) or str(Adjacency.REPLACE_TEACHER),
        }
        common |= {"paper": PAPERS.get(str(row["mechanism"]), NO_PAPER), "published": False}
        common |= {"public_use": uses, "public_samples": samples}
        worst, leaky = (row[f"{kind}_epsilon_mean"] for kind in (Kind.WORST_CASE, Kind.DATA_DEPENDENT))
        rows.append({**common, "kind": str(Kind.WORST_CASE), "epsilon": worst})
        if leaky != worst:  # a mechanism whose cost depends on no votes has one ε
            rows.append({**common, "kind": str(Kind.DATA_DEPENDENT), "epsilon": leaky})
    return rows


_COPIED = ("dataset", "delta", "accuracy_mean", "accuracy_std", "baseline_accuracy_mean", "seeds")


def _models(records: Records) -> list[dict[str, Any]]:
    """A row for each form of a model that is private itself and kind of its ε."""
    found = _best(private_models(records), ["dataset", "system", "form", "kind", "adjacency"], "epsilon_mean")
    rows = []
    for row in found.to_dict("records"):
        common = {name: row[name] for name in (*_COPIED, "kind", "adjacency", "public_use", "public_samples")}
        common |= {"method": f"{row['system']}, {row['form']}", "detail": f"model: {in_words(row['model'])}"}
        common |= {"paper": PAPERS.get(str(row["system"]), NO_PAPER), "epsilon": row["epsilon_mean"]}
        rows.append({**common, "published": False})
    return rows


def _pairs(published: Published, dataset: str) -> list[tuple[Value, float]]:
    """Each printed ε with the accuracy in the same row, of a student or a private model, where that is one number.

    Of each paper what it prints of its own method: what it quotes of others stands with those.
    """
    found = []
    for value in filter(_own, published.select("epsilon", dataset=dataset)):
        row = {name: getattr(value, name) for name in ("paper", "table", "row", "mechanism", "dataset")}
        accuracies = {each.value for quantity in _PRINTED for each in published.select(quantity, **row)}
        found += [(value, accuracy) for accuracy in accuracies if len(accuracies) == 1]
    return found


def _own(value: Value) -> bool:
    if value.mechanism == DP_SGD:
        return value.paper in PAPERS_ON_DPSGD
    return PAPERS.get(ALL_SYSTEMS.get(value.mechanism, str(value.mechanism))) == value.paper


def _printed(value: Value, accuracy: float) -> dict[str, Any]:
    """The row of a printed point: its ε is claimed, for nobody checked it here, or is by a data-dependent theorem."""
    of_votes = value.paper in (PATE_2017, SCALABLE_2018) and value.mechanism != DP_SGD
    kind = Kind.DATA_DEPENDENT if of_votes else Kind.CLAIMED
    of_record = value.mechanism in (DP_SGD, PRIVATE_KNN)
    where = ", ".join(filter(None, [value.table, value.row]))
    return {
        **{"dataset": value.dataset, "method": f"printed: {value.source}", "detail": where, "paper": value.paper},
        **{"kind": str(kind), "epsilon": value.value, "delta": value.delta},
        "adjacency": str(Adjacency.ADD_OR_REMOVE_RECORD if of_record else Adjacency.REPLACE_TEACHER),
        **{"accuracy_mean": accuracy, "accuracy_std": None, "baseline_accuracy_mean": None},
        **{"public_use": "as printed", "public_samples": None, "seeds": None, "published": True},
    }
