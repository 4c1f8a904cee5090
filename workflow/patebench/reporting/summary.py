"""The run in one or two sentences and in a few numbers, taken from its tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Card:
    """One number that stands for much: what it is called, the number, and what it is about."""

    name: str
    number: str
    note: str


def sentence(tables: Mapping[str, "pd.DataFrame"]) -> str:
    """The run in one or two sentences: who voted on what, and the best student of each data set at a finite ε.

    `tables` are the frames by the names of the tables, with the rows that this run has; any may be missing.
    """
    ensembles = tables.get("ensembles")
    if ensembles is None or ensembles.empty:
        return "This run has no ensembles."
    voted = f"{_voters(ensembles)} voted on {_queries(tables.get('noisy-accuracy'))}public samples."
    return " ".join(filter(None, [voted, _best_students(tables.get("utility-privacy"))]))


def _voters(ensembles: "pd.DataFrame") -> str:
    """Teachers that were trained, and records that are teachers themselves."""
    trained = _trained(ensembles)
    others = ensembles.drop(trained.index)[["dataset", "teachers"]].drop_duplicates().sort_values("dataset")
    voters = [f"{row['teachers']:,} private records of {row['dataset']}" for row in others.to_dict("records")]
    if not trained.empty:
        teachers, datasets = _unique(trained["teachers"]), _join(_unique(trained["dataset"]))
        one, several = f"{teachers[0]} teacher{_s(teachers[0])}", f"Ensembles of {_join(teachers)} teachers"
        voters.insert(0, f"{one if len(teachers) == 1 else several} trained on {datasets}")
    return _join(voters)


def _trained(ensembles: "pd.DataFrame") -> "pd.DataFrame":
    """Those whose teachers were trained; records that vote on selected queries have no accuracy on the test set."""
    measured = "plurality_accuracy_test_mean"
    return ensembles[ensembles[measured].notna()] if measured in ensembles else ensembles


def _queries(label_sets: "pd.DataFrame | None") -> str:
    """How many samples of the pool were labelled, where that is known."""
    if label_sets is None or label_sets.empty:
        return ""
    return _join([f"{queries:,}" for queries in _unique(label_sets["queries"])], "or") + " "


def _best_students(students: "pd.DataFrame | None") -> str:
    if students is None or students.empty:
        return ""
    finite = students[students["worst_case_epsilon_mean"] < float("inf")]
    if finite.empty:
        known = "no finite ε holds" if students["worst_case_epsilon_mean"].notna().any() else "no ε is known"
        return f"The best student of their labels reached {_rounded(students['accuracy_mean'].max())}; {known}."
    best = finite.sort_values("accuracy_mean", kind="stable").drop_duplicates("dataset", keep="last")
    rows = best.sort_values("dataset").to_dict("records")
    if len(rows) == 1:
        return f"From their labels the best private student reached {_reached(rows[0])}{_ceiling(rows[0])}."
    reached = [f"{_reached(row)} on {row['dataset']}{_ceiling(row)}" for row in rows]
    return f"From their labels the best private students reached {', and '.join(reached)}."


def _reached(row: Mapping[Any, Any]) -> str:
    """How accurate a student is, and at what worst-case ε."""
    delta = f"{row['delta']:g}".replace("e-0", "e-")
    noise = "" if row["may_publish"] == "yes" else " with fresh noise"
    epsilon = f"worst-case ε {_short(row['worst_case_epsilon_mean'])}{noise} at δ = {delta}"
    return f"{_rounded(row['accuracy_mean'])} ({epsilon})"


def _ceiling(row: Mapping[Any, Any]) -> str:
    """How accurate a model without privacy is, where there is one."""
    free = row["baseline_accuracy_mean"]
    return f"; without privacy {_rounded(free)}" if free == free else ""


def _rounded(accuracy: float) -> str:
    return f"{100 * accuracy:.1f} %"


def _short(epsilon: float) -> str:
    return f"{epsilon:.1f}" if epsilon >= 1 else f"{epsilon:.2g}"


def cards(tables: Mapping[str, "pd.DataFrame"], manifest: Mapping[str, Any]) -> list[Card]:
    """The numbers to show first; those that the run has."""
    return [*_ensemble_cards(tables.get("ensembles")), *_student_cards(tables.get("utility-privacy")), *_time(manifest)]


def _ensemble_cards(ensembles: "pd.DataFrame | None") -> list[Card]:
    ensembles = None if ensembles is None else _trained(ensembles)
    if ensembles is None or ensembles.empty:
        return []
    trained = int((ensembles["teachers"] * ensembles["seeds"]).sum())
    count, seeds = len(ensembles), _unique(int(each) for each in ensembles["seeds"])
    each = f"{seeds[0]} seed{_s(seeds[0])}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    best = ensembles.sort_values(["teachers", "plurality_accuracy_test_mean"]).iloc[-1]
    alone = f"plurality of {best['teachers']} teachers on {best['dataset']}, without noise; "
    return [
        Card("Teachers trained", f"{trained:,}", f"in {count} setting{_s(count)}, {each} each"),
        Card(
            "Ensemble accuracy",
            percent(best["plurality_accuracy_test_mean"]),
            f"{alone}one teacher alone: {percent(best['teacher_accuracy_mean'])}",
        ),
    ]


def _student_cards(students: "pd.DataFrame | None") -> list[Card]:
    if students is None or students.empty:
        return []
    best = students.sort_values("accuracy_mean").iloc[-1]
    taught = f"{best['dataset']}, {best['queries']} queries to {best['mechanism']}, {best['noise_in_words']}"
    free = best["baseline_accuracy_mean"]
    ceiling = f"; without privacy: {percent(free)}" if free == free else ""
    found = [Card("Best student", percent(best["accuracy_mean"]), taught + ceiling)]
    epsilon, leaky = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
    if epsilon == epsilon:
        beside = f"; data-dependent {leaky:.2f}, not publishable" if leaky == leaky else ""
        at = f"at δ = {best['delta']:g}"
        if best["may_publish"] == "yes":
            found.append(Card("Its ε, to publish", f"{epsilon:.2f}", at + beside))
        else:
            found.append(Card("Its ε, worst case", f"{epsilon:.2f}", f"of fresh noise, {at}{beside}"))
    return found


def _time(manifest: Mapping[str, Any]) -> list[Card]:
    rules = manifest["rules"]
    if not rules:
        return []
    jobs, seconds = sum(rule["jobs"] for rule in rules), sum(rule["seconds"] for rule in rules)
    cores = manifest["hardware"]["cores"]
    return [Card("Computing time", duration(seconds), f"{jobs:,} job{_s(jobs)}; machine with {cores} core{_s(cores)}")]


def percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def duration(seconds: float) -> str:
    """Such as "4.2 s", "3 min 12 s" or "1 h 02 min"."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _unique(values: Iterable[Any]) -> list[Any]:
    return sorted(set(values))


def _join(words: Sequence[Any], last: str = "and") -> str:
    named = [str(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} {last} {named[-1]}"


def _s(count: Any) -> str:
    return "" if count == 1 else "s"
