"""The run in a sentence and in a few numbers, taken from its tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patebench.reporting.outcomes import ANY_STUDENT

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Card:
    """One number that stands for much: what it is called, the number, and what it is about."""

    name: str
    number: str
    note: str


def sentence(tables: Mapping[str, "pd.DataFrame"]) -> str:
    """What was run, in plain words; says so when there is nothing."""
    ensembles = tables.get("ensembles")
    if ensembles is None or ensembles.empty:
        return "This run has no ensembles."
    several = ensembles["seeds"].sum()
    parts = [
        f"On {_join(_unique(ensembles['dataset']))}, {several} ensemble{_s(several)} of "
        f"{_join(_unique(ensembles['teachers']))} teachers ({_learners(ensembles)}) voted on public samples"
    ]
    releases, students = tables.get("noisy-accuracy"), tables.get("utility-privacy")
    if releases is not None and not releases.empty:
        mechanisms = releases.groupby("mechanism")["noise"].nunique()
        named = [f"{name} ({count} noise setting{_s(count)})" for name, count in mechanisms.items()]
        parts.append(f"{_join(named)} released labels")
    if students is not None and not students.empty:
        trained = students.drop_duplicates(ANY_STUDENT)["seeds"].sum()
        parts.append(f"{trained} student{_s(trained)} learnt from them")
    return "; ".join(parts) + "."


def cards(tables: Mapping[str, "pd.DataFrame"], manifest: Mapping[str, Any]) -> list[Card]:
    """The numbers to show first; those that the run has."""
    return [*_ensemble_cards(tables.get("ensembles")), *_student_cards(tables.get("utility-privacy")), *_time(manifest)]


def _ensemble_cards(ensembles: "pd.DataFrame | None") -> list[Card]:
    if ensembles is None or ensembles.empty:
        return []
    trained = int((ensembles["teachers"] * ensembles["seeds"]).sum())
    count, seeds = int(ensembles["seeds"].sum()), int(ensembles["seeds"].max())
    best = ensembles.sort_values(["teachers", "plurality_accuracy_test_mean"]).iloc[-1]
    alone = f"plurality of {best['teachers']} teachers on {best['dataset']}, without noise; "
    return [
        Card("Teachers trained", f"{trained:,}", f"in {count} ensemble{_s(count)}, {seeds} seed{_s(seeds)} each"),
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
    taught = f"{best['dataset']}, {best['queries']} queries to {best['mechanism']} {best['noise']}"
    free = best["baseline_accuracy_mean"]
    ceiling = f"; without privacy: {percent(free)}" if free == free else ""
    found = [Card("Best student", percent(best["accuracy_mean"]), taught + ceiling)]
    epsilon, leaky = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
    if epsilon == epsilon:
        beside = f"; data-dependent {leaky:.2f}, not publishable" if leaky == leaky else ""
        found.append(Card("Its ε, worst case", f"{epsilon:.2f}", f"publishable, at δ = {best['delta']:g}{beside}"))
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


def _learners(ensembles: "pd.DataFrame") -> str:
    pairs = _unique(zip(ensembles["model"], ensembles["recipe"], strict=True))
    return _join([f"{model}, {recipe} recipe" for model, recipe in pairs])


def _unique(values: Iterable[Any]) -> list[Any]:
    return sorted(set(values))


def _join(words: Sequence[Any]) -> str:
    named = [str(word) for word in words]
    return named[0] if len(named) == 1 else ", ".join(named[:-1]) + " and " + named[-1]


def _s(count: Any) -> str:
    return "" if count == 1 else "s"
