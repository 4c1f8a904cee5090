"""The run in a few numbers, and in words that several parts of the page share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patebench.reporting.words import WEAK, delta_in_words, epsilon_in_words, in_words, owners_in_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Card:
    """One number that stands for much: what it is called, the number, and what it is about."""

    name: str
    number: str
    note: str


def voters(ensembles: "pd.DataFrame", label_sets: "pd.DataFrame | None") -> str:
    """Teachers that were trained, records that are teachers themselves, and on how much of the pool they voted."""
    trained = _trained(ensembles)
    others = ensembles.drop(trained.index)[["dataset", "teachers"]].drop_duplicates().sort_values("dataset")
    found = [f"{row['teachers']:,} private records of {in_words(row['dataset'])}" for row in others.to_dict("records")]
    if not trained.empty:
        teachers, datasets = (
            _unique(trained["teachers"]),
            join([in_words(each) for each in _unique(trained["dataset"])]),
        )
        words = plural(teachers[0], "teacher") if len(teachers) == 1 else f"Ensembles of {join(teachers)} teachers"
        found.insert(0, f"{words} trained on {datasets}")
    queries = [] if label_sets is None else [f"{each:,}" for each in _unique(label_sets["queries"])]
    return f"{join(found)} voted on {join(queries, 'or') + ' ' if queries else ''}public samples"


def _trained(ensembles: "pd.DataFrame") -> "pd.DataFrame":
    """Those whose teachers were trained; records that vote on selected queries have no accuracy on the test set."""
    measured = "plurality_accuracy_test_mean"
    return ensembles[ensembles[measured].notna()] if measured in ensembles else ensembles


def cards(tables: Mapping[str, "pd.DataFrame"], manifest: Mapping[str, Any], release: bool = False) -> list[Card]:
    """The numbers to show first; those that the run has. Of a `release`, those that may not be published."""
    students = [] if release else _student_cards(tables.get("utility-privacy"))
    return [*_ensemble_cards(tables.get("ensembles")), *students, *_time(manifest)]


def release_cards(students: "pd.DataFrame | None") -> list[Card]:
    """Return the numbers of a release that may be published: the best student and the ε of its labels."""
    students = None if students is None else students[students["may_publish"] == "yes"]
    if students is None or students.empty:
        return []
    best = most_accurate(students, "worst_case_epsilon_mean")
    taught = f"{in_words(best['dataset'])}, {in_words(best['method'])} with {answers(best)}"
    by = f"by {in_words(best['mechanism'])}, {best['noise_in_words']}"
    protects = f"at δ = {delta_in_words(best['delta'])}, for {protected(best)}"
    if len(students[["mechanism", "noise", "rounds"]].drop_duplicates()) > 1:
        protects += "; several releases cost more together, as the page to publish states"
    return [
        Card("Best student", percent(best["accuracy_mean"]), f"{taught} {by}"),
        Card("Its ε, to publish", epsilon_in_words(best["worst_case_epsilon_mean"]), protects),
    ]


def protected(row: Mapping[Any, Any]) -> str:
    """Return what the ε of these labels protects."""
    return owners_in_words(row.get("partition")) or f"the shard of one of {plural(int(row['teachers']), 'teacher')}"


def _ensemble_cards(ensembles: "pd.DataFrame | None") -> list[Card]:
    ensembles = None if ensembles is None else _trained(ensembles)
    if ensembles is None or ensembles.empty:
        return []
    trained = int((ensembles["teachers"] * ensembles["seeds"]).sum())
    count, seeds = len(ensembles), _unique(int(each) for each in ensembles["seeds"])
    each = plural(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    best = ensembles.sort_values(["teachers", "plurality_accuracy_test_mean"]).iloc[-1]
    alone = f"plurality of {best['teachers']} teachers on {in_words(best['dataset'])}, without noise; "
    return [
        Card("Teachers trained", f"{trained:,}", f"in {plural(count, 'setting')}, {each} each"),
        Card(
            "Ensemble accuracy",
            percent(best["plurality_accuracy_test_mean"]),
            f"{alone}one teacher alone: {percent(best['teacher_accuracy_mean'])}",
        ),
    ]


def _student_cards(students: "pd.DataFrame | None") -> list[Card]:
    if students is None or students.empty:
        return []
    best = most_accurate(students, "worst_case_epsilon_mean")
    labels = f"{in_words(best['method'])} with {answers(best)} by {in_words(best['mechanism'])}"
    taught = f"{in_words(best['dataset'])}, {labels}, {best['noise_in_words']}"
    free = best["baseline_accuracy_mean"]
    ceiling = f"; without privacy: {percent(free)}" if free == free else ""
    found = [Card("Best student", percent(best["accuracy_mean"]), taught + ceiling)]
    epsilon, leaky = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
    if epsilon == epsilon:
        beside = f"; data-dependent {epsilon_in_words(leaky)}, not publishable" if leaky == leaky else ""
        at = f"at δ = {delta_in_words(best['delta'])}"
        found.append(Card("Its ε, worst case", epsilon_in_words(epsilon), f"of fresh noise, {at}{beside}"))
    return found


def most_accurate(rows: "pd.DataFrame", epsilon: str) -> Mapping[Any, Any]:
    """The row with the highest accuracy at an ε that is not weak; where all are, at a finite one; else of all."""
    kept = [rows[rows[epsilon] <= WEAK], rows[rows[epsilon] < float("inf")], rows]
    fair = next(each for each in kept if not each.empty)
    return fair.sort_values("accuracy_mean", kind="stable").iloc[-1].to_dict()


def answers(row: Mapping[Any, Any]) -> str:
    """Such as "300 labels", or "13 answers to 300 queries" where not all were answered; over several seeds, the mean.

    How queries were selected is said too, if not by chance.
    """
    strategy, queries = row.get("strategy"), int(row["queries"])
    selected = f" ({in_words(strategy)})" if isinstance(strategy, str) and strategy else ""
    answered = row.get("answered_mean", queries)
    if round(answered) == queries:
        return plural(queries, "label") + selected
    return f"{plural(round(answered), 'answer')} to {plural(queries, 'query', 'queries')}{selected}"


def _time(manifest: Mapping[str, Any]) -> list[Card]:
    rules = manifest["rules"]
    if not rules:
        return []
    jobs, seconds = sum(rule["jobs"] for rule in rules), sum(rule["seconds"] for rule in rules)
    cores = manifest["hardware"]["cores"]
    return [
        Card(
            "Computing time",
            duration(seconds),
            f"of {plural(jobs, 'job')} together; machine with {plural(cores, 'core')}",
        )
    ]


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


def join(words: Sequence[Any], last: str = "and") -> str:
    """Such as "a, b and c"."""
    named = [str(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} {last} {named[-1]}"


def plural(count: Any, one: str, several: str = "") -> str:
    """Such as "1 job" or "2,000 jobs"."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
