"""State what a run found: about ten sentences, made from its tables."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patebench.audit.verdict import Verdict as Audited
from patebench.core.bound import Kind
from patebench.reporting.outcomes import account_of_paper
from patebench.reporting.verdicts import COUNTING, Verdict
from patebench.reporting.wording import WEAK, WEAK_SOURCE, delta_in_words, epsilon_in_words, in_words, owners_in_words

if TYPE_CHECKING:
    import pandas as pd

#: The frames of a run by the names of their tables; any may be missing or empty.
Tables = Mapping[str, "pd.DataFrame"]

#: What tells label sets apart.
_SETTING = ("dataset", "setting", "ensemble", "mechanism", "noise", "rounds")
#: Most data sets and papers of which a finding is stated.
_MOST = 2


def findings(tables: Tables) -> list[str]:
    """Return one sentence or two for each thing found; one that says so for a run without results."""
    filled = {name: frame for name, frame in tables.items() if not frame.empty}
    found = [line for table, finding in _FINDINGS if table in filled for line in finding(filled[table], filled)]
    found += _broken_claims(filled)
    if any("(weak)" in sentence for sentence in found):
        found.append(f"An ε above {WEAK:g} is called weak: it says little or nothing of privacy ({WEAK_SOURCE}).")
    return found or ["This run has no ensembles and no private models."]


def _who_voted(ensembles: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    yield f"{voters(ensembles, tables.get('noisy-accuracy'))}."


def _best_students(students: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    """State the most accurate student at an ε that still says something, or at the least one."""
    for dataset, rows in _by_dataset(students[students["accuracy_mean"].notna()]):
        finite = rows[rows["worst_case_epsilon_mean"] < float("inf")]
        if finite.empty:
            known = "no finite ε holds" if rows["worst_case_epsilon_mean"].notna().any() else "no ε is known"
            most = stated(rows.sort_values("accuracy_mean").iloc[-1].to_dict())
            yield f"On {dataset} the best student of released labels reached {most}, but {known} for it."
            continue
        best = most_accurate(finite, "worst_case_epsilon_mean")
        worst, dependent = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
        noise = "" if best["may_publish"] == "yes" else ", of fresh noise"
        without = best["baseline_accuracy_mean"]
        yield (
            f"On {dataset} the best student of released labels reached {stated(best)} at a worst-case ε of"
            f" {epsilon_in_words(worst)}{noise} (δ = {delta_in_words(best['delta'])}), which protects"
            f" {protected(best)}; student: {in_words(best['method'])} with {answers(best)} by"
            f" {in_words(best['mechanism'])}{'' if without != without else f'; without privacy {percent(without)}'}."
        )
        if dependent == dependent and abs(dependent - worst) > 0.05 * worst:
            account = account_of_paper(best["mechanism"])
            own = account is not None and account[0] == best["data_dependent_accountant"]
            who = "the paper of its mechanism" if own else "the tightest accountant"
            yield (
                f"For the votes of this run, {who} would state ε = {epsilon_in_words(dependent)} for the same labels:"
                " that number depends on private data and must not be published."
            )


def _private_models(models: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    """State the best private model whose ε holds."""
    for dataset, rows in _by_dataset(models[models["accuracy_mean"].notna() & (models["kind"] == Kind.WORST_CASE)]):
        best = most_accurate(rows, "epsilon_mean")
        yield (
            f"On {dataset} the best model that is private itself, {best['system']} ({in_words(best['form'])}), reached"
            f" {stated(best)} at ε = {epsilon_in_words(best['epsilon_mean'])}, which protects"
            f" {in_words(best['adjacency'])}."
        )


def _uncovered(students: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    """Name the classes that no released label of some student is of."""
    if "uncovered" not in students:
        return
    for dataset, rows in _by_dataset(students):
        missing = rows[rows["uncovered"].notna() & (rows["uncovered"] != "")]
        if len(missing):
            names = list(dict.fromkeys(re.findall("“.*?”", ", ".join(missing["uncovered"]))))
            settings = [*_SETTING, "queries"]
            count, of = (len(each[settings].drop_duplicates()) for each in (missing, rows))
            yield (
                f"On {dataset} no released label is of the {'class' if len(names) == 1 else 'classes'} {join(names)} in"
                f" {count} of {plural(of, 'label set')}, so students of these cannot learn"
                f" {'it' if len(names) == 1 else 'them'}: ask more queries, or select them by clusters."
            )


def _public_alone(bits: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    """State what needs no private data: the accuracy of the best clusters of public samples."""
    for dataset, rows in _by_dataset(bits[bits["named_accuracy_mean"].notna()]):
        row = rows.sort_values(["named_accuracy_mean", "named_clusters"], ascending=[True, False]).iloc[-1]
        named = stated(row.to_dict(), "named_accuracy")
        yield (
            f"Public data alone tells the classes of {dataset} apart: {row['named_clusters']:.0f} clusters, named by"
            f" true labels, reach {named} at ε = 0. Only"
            " accuracy above this level is due to private data."
        )


def paper_line(row: Mapping[Any, Any]) -> str:
    """Return how many numbers of a paper have which verdict, from its row of the table `papers`."""
    counts = [f"{int(row[str(verdict)])} {verdict}" for verdict in COUNTING if row[str(verdict)]]
    printed = plural(int(row["printed"]), "printed number")
    return f"Of {printed}: {join(counts)}{_short_otherwise(row['short_otherwise'])}."


def _short_otherwise(numbers: float) -> str:
    return f", though other settings fell short of {numbers:.0f}" if numbers else ""


def _papers(papers: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    total = papers.drop(columns="paper").sum().astype(int)
    count = {verdict: int(total[str(verdict)]) for verdict in Verdict}
    judged = sum(count[each] for each in (Verdict.REPRODUCED, Verdict.BETTER, Verdict.SHORT, Verdict.UNSOUND))
    results = _compared_numbers(tables["verdicts"])["result"].nunique() if "verdicts" in tables else 0
    by = f" by {plural(results, 'result')} of this run" if 0 < results < judged else ""  # papers quote each other
    yield (
        f"Of {total['printed'] - count[Verdict.NOT_COMPARABLE]} numbers of {join(list(papers['paper']))} that can be"
        f" compared, {judged} were measured{by}, and of several settings that measured one the best counts:"
        f" {count[Verdict.REPRODUCED]} reproduced, {count[Verdict.BETTER]} better, {count[Verdict.SHORT]} short,"
        f" {count[Verdict.UNSOUND]} unsound{_short_otherwise(total['short_otherwise'])};"
        f" {count[Verdict.NOT_RUN]} were not run. {count[Verdict.NOT_COMPARABLE]} others are settings, or can not be"
        " compared."
    )


def _compared_numbers(verdicts: "pd.DataFrame") -> "pd.DataFrame":
    """Return the verdicts on numbers that were measured on the printed data set."""
    return verdicts[verdicts["measured_mean"].notna() & verdicts["copy_of"].isna()]


def _proofs(audit: "pd.DataFrame", tables: Tables) -> Iterator[str]:
    """State what audits found of proven bounds, each of a mechanism, a setting and a number of queries."""
    counts = audit["verdict"].value_counts()
    vacuous, failed, unlike = (
        int(counts.get(str(verdict), 0)) for verdict in (Audited.VACUOUS, Audited.VIOLATED, Audited.DISAGREES)
    )
    tested = int(counts.sum()) - vacuous - unlike
    if tested:
        beside = f"; {plural(vacuous, 'other is', 'others are')} too large to be contradicted" if vacuous else ""
        yield f"Audits contradict {failed or 'none'} of {plural(tested, 'proven bound')} that they test{beside}."
    if unlike:
        names = join(sorted({in_words(name) for name in audit.loc[audit["verdict"] == Audited.DISAGREES, "mechanism"]}))
        yield f"The code of {names} does not do what it says, so that {plural(unlike, 'bound')} of it may not hold."


def _broken_claims(tables: Tables) -> Iterator[str]:
    """State what papers claim and audits contradict, of mechanisms and of PET-DL."""
    broken: set[str] = set()
    if "audit" in tables:
        audit = tables["audit"]
        broken |= {in_words(name) for name in audit.loc[audit["claim"] == Audited.VIOLATED, "mechanism"]}
    if "petdl" in tables:
        petdl = tables["petdl"]
        claimed = petdl[(petdl["kind"] == Kind.CLAIMED) & (petdl["verdict"] == Audited.VIOLATED)]
        broken |= {f"PET-DL ({in_words(form)})" for form in claimed["form"]}
    if broken:
        yield f"What papers claim of {join(sorted(broken))} does not hold: the audit found that more is lost."


#: The findings in order, each from a table that must have rows.
_FINDINGS: tuple[tuple[str, "Callable[[pd.DataFrame, Tables], Iterator[str]]"], ...] = (
    ("ensembles", _who_voted),
    ("utility-privacy", _best_students),
    ("utility-privacy", _uncovered),
    ("private-models", _private_models),
    ("bits", _public_alone),
    ("papers", _papers),
    ("audit", _proofs),
)


def _by_dataset(frame: "pd.DataFrame") -> Iterator[tuple[str, "pd.DataFrame"]]:
    """Yield the data sets with the most rows, in words, and their rows."""
    names = frame["dataset"].value_counts(sort=True).index[:_MOST]
    yield from ((in_words(name), frame[frame["dataset"] == name]) for name in sorted(names))


def voters(ensembles: "pd.DataFrame", label_sets: "pd.DataFrame | None") -> str:
    """Return which teachers were trained, which records are teachers themselves, and on how many samples they voted."""
    trained = _trained(ensembles)
    others = ensembles.drop(trained.index)[["dataset", "teachers"]].drop_duplicates().sort_values("dataset")
    found = [f"{row['teachers']:,} private records of {in_words(row['dataset'])}" for row in others.to_dict("records")]
    if not trained.empty:
        sizes, datasets = (sorted(trained[column].unique()) for column in ("teachers", "dataset"))
        words = plural(sizes[0], "teacher") if len(sizes) == 1 else f"Ensembles of {join(sizes)} teachers"
        found.insert(0, f"{words} trained on {join([in_words(name) for name in datasets])}")
    queries = [] if label_sets is None else [f"{count:,}" for count in sorted(label_sets["queries"].unique())]
    return f"{join(found)} voted on {join(queries, 'or') + ' ' if queries else ''}public samples"


def _trained(ensembles: "pd.DataFrame") -> "pd.DataFrame":
    """Return ensembles whose teachers were trained; records that vote on selected queries have no test accuracy."""
    measured = "plurality_accuracy_test_mean"
    return ensembles[ensembles[measured].notna()] if measured in ensembles else ensembles


def protected(row: Mapping[Any, Any]) -> str:
    """Return what the ε of these labels protects."""
    return owners_in_words(row.get("partition")) or f"the shard of one of {plural(int(row['teachers']), 'teacher')}"


def most_accurate(rows: "pd.DataFrame", epsilon: str) -> Mapping[Any, Any]:
    """Return the most accurate row at an ε that is not weak; if all are weak, at a finite one; else of all."""
    kept = [rows[rows[epsilon] <= WEAK], rows[rows[epsilon] < float("inf")], rows]
    fair = next(each for each in kept if not each.empty)
    return fair.sort_values("accuracy_mean", kind="stable").iloc[-1].to_dict()


def answers(row: Mapping[Any, Any]) -> str:
    """Return words such as "300 labels", or "13 answers to 300 queries" (mean over seeds) if not all were answered.

    They say how the queries were selected, if not by chance.
    """
    strategy, queries = row.get("strategy"), int(row["queries"])
    selected = f" ({in_words(strategy)})" if isinstance(strategy, str) and strategy else ""
    answered = row.get("answered_mean", queries)
    if round(answered) == queries:
        return plural(queries, "label") + selected
    return f"{plural(round(answered), 'answer')} to {plural(queries, 'query', 'queries')}{selected}"


def stated(row: Mapping[Any, Any], accuracy: str = "accuracy") -> str:
    """Return an accuracy beside what predicting the largest class gives, if that is known."""
    beside = base_rate(row, accuracy)
    return percent(row[f"{accuracy}_mean"]) + (f" ({beside})" if beside else "")


def base_rate(row: Mapping[Any, Any], accuracy: str = "accuracy") -> str:
    """Return what predicting the largest class gives, after the balanced accuracy of unbalanced classes; or ""."""
    largest, balanced = row.get("largest_class_mean", math.nan), row.get("balanced_accuracy_mean", math.nan)
    if largest != largest:
        return ""
    known = "" if balanced != balanced else f"balanced accuracy {percent(balanced)}; "
    if row[f"{accuracy}_mean"] <= largest:
        return f"{known}no better than predicting the largest class, which gives {percent(largest)}"
    return f"{known}predicting the largest class gives {percent(largest)}"


def percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def duration(seconds: float) -> str:
    """Return a time such as "4.2 s", "3 min 12 s" or "1 h 02 min"."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def join(words: Sequence[Any], last: str = "and") -> str:
    """Return a list such as "a, b and c"."""
    named = [str(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} {last} {named[-1]}"


def plural(count: Any, one: str, several: str = "") -> str:
    """Return a count such as "1 job" or "2,000 jobs"."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
