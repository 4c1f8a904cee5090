"""Summarise a run in at most five findings: sentences that are filled with numbers of its tables."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from patebench.audit.verdict import Verdict as Audited
from patebench.core.bound import Kind
from patebench.core.text import plural
from patebench.data.partitions import PROTECTS_LABEL
from patebench.reporting.frames import protects_labels
from patebench.reporting.outcomes import account_of_paper, protects_replaced_record
from patebench.reporting.verdicts import Verdict
from patebench.reporting.wording import (
    WEAK,
    WEAK_SOURCE,
    delta_in_words,
    epsilon_in_words,
    in_words,
    owners_in_words,
    queries_in_words,
)

#: Frames of a run by the names of their tables; frames may be missing or empty.
Tables = Mapping[str, pd.DataFrame]

#: Columns that identify a label set.
_SETTING = ("dataset", "setting", "ensemble", "mechanism", "noise", "rounds")
#: The sentence shown for a run without findings.
NOTHING = "This run has no students, private models or audits."
#: Maximum number of data sets per finding.
_MOST = 2


def findings(tables: Tables, selected: Collection[str] = ()) -> list[str]:
    """Return at most five short texts that summarise the `tables` of a run, or `NOTHING` if no text applies.

    `selected` names the data sets whose private records were selected by their labels (`selected_by_labels`).
    The texts are about, in this order: students, private models, the accuracy that is possible without private data,
    audits, and comparisons with numbers printed in papers.
    """
    filled = {
        name: frame.assign(selected=frame["dataset"].isin(selected)) if "dataset" in frame else frame
        for name, frame in tables.items()
        if not frame.empty
    }
    sentences = [
        [line for state, *names in finding if names[0] in filled for line in state(*map(filled.get, names))]
        for finding in _FINDINGS
    ]
    texts = [" ".join(lines) for lines in sentences if lines] or [NOTHING]
    note = f" An ε above {WEAK:g} is called weak: it gives little or no privacy ({WEAK_SOURCE})."
    return [text + note if "(weak)" in text else text for text in texts]


def setup(tables: Tables) -> str:
    """Return a sentence such as "250 teachers trained on MNIST voted on 100 public samples."; "" without teachers.

    Teachers are trained models, or single private records that vote without training.
    """
    ensembles, label_sets = tables.get("ensembles"), tables.get("noisy-accuracy")
    if ensembles is None or ensembles.empty:
        return ""
    trained = ensembles[ensembles["plurality_accuracy_test_mean"].notna()]  # private records only vote on queries
    others = ensembles.drop(trained.index)[["dataset", "teachers"]].drop_duplicates().sort_values("dataset")
    found = [f"{row['teachers']:,} private records of {in_words(row['dataset'])}" for row in others.to_dict("records")]
    if not trained.empty:
        sizes, datasets = (sorted(trained[column].unique()) for column in ("teachers", "dataset"))
        words = plural(sizes[0], "teacher") if len(sizes) == 1 else f"Ensembles of {join(sizes)} teachers"
        found.insert(0, f"{words} trained on {join([in_words(name) for name in datasets])}")
    queries = [] if label_sets is None else [f"{count:,}" for count in sorted(label_sets["queries"].unique())]
    return f"{join(found)} voted on {join(queries, 'or') + ' ' if queries else ''}public samples."


def _best_students(students: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on the accuracy, ε and setting of the best student on each data set (see `most_accurate`).

    Students whose ε protects whole records come first, for at most `_MOST` data sets. Students whose ε protects only
    labels follow, again for at most `_MOST` data sets.
    """
    students = students[students["accuracy_mean"].notna()]
    labels_only = [protects_labels(row.get("setting", "")) for row in students.to_dict("records")]
    units = (students.loc[[each is unit for each in labels_only]] for unit in (False, True))
    for dataset, rows in (each for unit in units for each in _by_dataset(unit)):
        finite = rows[rows["worst_case_epsilon_mean"] < float("inf")]
        if finite.empty:
            known = "no finite ε holds" if rows["worst_case_epsilon_mean"].notna().any() else "no ε is known"
            row = rows.sort_values("accuracy_mean").iloc[-1].to_dict()
            yield f"On {dataset}, the best student reached {stated(row)}, but {known} for its labels. {setting(row)}"
            continue
        best = most_accurate(finite, "worst_case_epsilon_mean")
        worst, dependent = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
        noise = "" if best["may_publish"] == "yes" else " for fresh noise"
        without = best["baseline_accuracy_mean"]
        yield (
            f"On {dataset}, the best student reached {stated(best)} at a worst-case ε of"
            f" {epsilon_in_words(worst)}{noise} (δ = {delta_in_words(best['delta'])}), which protects"
            f" {protected(best)}{_selection(best)}. {setting(best)}"
            f"{'' if without != without else f' A model without privacy reached {percent(without)}.'}"
        )
        if dependent == dependent and abs(dependent - worst) > 0.05 * worst:
            account = account_of_paper(best["mechanism"])
            own = account is not None and account[0] == best["data_dependent_accountant"]
            whose = "the accountant of its paper" if own else "the tightest accountant"
            yield (
                f"The data-dependent ε of the same labels is {epsilon_in_words(dependent)} by {whose};"
                " it leaks information and must not be published."
            )


def _private_models(models: pd.DataFrame) -> Iterator[str]:
    """Yield, for each of at most `_MOST` data sets, a sentence on the best private model (see `most_accurate`).

    Only models with a worst-case ε are considered.
    """
    for dataset, rows in _by_dataset(models[models["accuracy_mean"].notna() & (models["kind"] == Kind.WORST_CASE)]):
        best = most_accurate(rows, "epsilon_mean")
        yield (
            f"On {dataset}, the best private model, {best['system']} ({in_words(best['form'])}), reached"
            f" {stated(best)} at ε = {epsilon_in_words(best['epsilon_mean'])}, which protects"
            f" {in_words(best['adjacency'])}{_selection(best)}."
        )


def _uncovered_classes(students: pd.DataFrame) -> Iterator[str]:
    """Yield, for each of at most `_MOST` data sets, a sentence that names the classes missing among released labels.

    A class is missing if one or more sets of released labels do not contain it. Data sets without missing classes are
    left out.
    """
    if "uncovered" not in students:
        return
    for dataset, rows in _by_dataset(students):
        missing = rows[rows["uncovered"].notna() & (rows["uncovered"] != "")]
        if len(missing):
            names = list(dict.fromkeys(re.findall("“.*?”", ", ".join(missing["uncovered"]))))
            settings = [*_SETTING, "queries"]
            count, of = (len(each[settings].drop_duplicates()) for each in (missing, rows))
            yield (
                f"On {dataset}, no released label has the {'class' if len(names) == 1 else 'classes'} {join(names)} in"
                f" {count} of {plural(of, 'label set')}, so students cannot learn"
                f" {'it' if len(names) == 1 else 'them'}; use more queries or select them by clusters."
            )


def _public_alone(bits: pd.DataFrame) -> Iterator[str]:
    """Yield, for each of at most `_MOST` data sets, a sentence on the accuracy that is possible without private data.

    This is the best accuracy at ε = 0 if each cluster of public data gets its most frequent true label.
    """
    for dataset, rows in _by_dataset(bits[bits["named_accuracy_mean"].notna()]):
        row = rows.sort_values(["named_accuracy_mean", "named_clusters"], ascending=[True, False]).iloc[-1]
        named = stated(row.to_dict(), "named_accuracy")
        yield (
            f"On {dataset}, {row['named_clusters']:.0f} clusters of public data, named by true labels, reached"
            f" {named} at ε = 0. Only accuracy above this level is due to private data."
        )


def paper_line(row: Mapping[Any, Any]) -> str:
    """Return a sentence that counts the numbers printed in a paper by their verdict (`Verdict`).

    For example: "Of 3 printed numbers: 2 reproduced and 1 not run." `row` is the paper's row of the table `papers`.
    """
    counts = [f"{int(row[str(verdict)])} {verdict}" for verdict in Verdict if row[str(verdict)]]
    printed = plural(int(row["printed"]), "printed number")
    return f"Of {printed}: {join(counts)}{_short_otherwise(row['short_otherwise'])}."


def _short_otherwise(numbers: float) -> str:
    return f" (other settings fell short of {numbers:.0f})" if numbers else ""


def _papers(papers: pd.DataFrame, verdicts: pd.DataFrame | None) -> Iterator[str]:
    """Yield a sentence on the numbers printed in papers: how many have a measurement, and how many have each verdict.

    `papers` and `verdicts` are the tables with these names.
    """
    total = papers.drop(columns="paper").sum().astype(int)
    count = {verdict: int(total[str(verdict)]) for verdict in Verdict}
    judged = sum(count[each] for each in (Verdict.REPRODUCED, Verdict.BETTER, Verdict.SHORT, Verdict.UNSOUND))
    # `result` is missing in rows without a measurement.
    results = 0 if verdicts is None else verdicts.loc[verdicts["copy_of"].isna(), "result"].nunique()
    by = f" by {plural(results, 'result')} of this run" if 0 < results < judged else ""  # papers quote each other
    yield (
        f"Of {plural(total['printed'] - count[Verdict.NOT_COMPARABLE], 'comparable number')} in"
        f" {plural(len(papers), 'paper')}, {judged} were measured{by}:"
        f" {count[Verdict.REPRODUCED]} reproduced, {count[Verdict.BETTER]} better, {count[Verdict.SHORT]} short,"
        f" {count[Verdict.UNSOUND]} unsound{_short_otherwise(total['short_otherwise'])}."
        f" If several settings measured one number, the best counts. {count[Verdict.NOT_RUN]:,} were not run."
    )


def _proofs(audit: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence that counts the proven bounds on ε that audits tested, and those that audits contradicted.

    If the code of a mechanism does not match its specification, a second sentence names the mechanism.
    """
    counts = audit["verdict"].value_counts()
    vacuous, failed, unlike = (
        int(counts.get(str(verdict), 0)) for verdict in (Audited.VACUOUS, Audited.VIOLATED, Audited.DISAGREES)
    )
    tested = int(counts.sum()) - vacuous - unlike
    if tested:
        are = "is" if vacuous == 1 else "are"
        beside = f"; {plural(vacuous, 'further bound')} {are} too large to test" if vacuous else ""
        yield f"Audits tested {plural(tested, 'proven bound')} and contradicted {failed or 'none'}{beside}."
    if unlike:
        names = join(sorted({in_words(name) for name in audit.loc[audit["verdict"] == Audited.DISAGREES, "mechanism"]}))
        yield f"The code of {names} does not match its specification, so {plural(unlike, 'bound')} may not hold."


def _broken_claims(audit: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence that names the mechanisms whose claimed ε an audit contradicts."""
    if broken := {in_words(name) for name in audit.loc[audit["claim"] == Audited.VIOLATED, "mechanism"]}:
        yield f"The ε that papers claim for {join(sorted(broken))} does not hold: the audit found a larger one."


def _broken_petdl(petdl: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence that names the forms of PET-DL (such as "published") whose claimed ε an audit contradicts."""
    violated = (petdl["kind"] == Kind.CLAIMED) & (petdl["verdict"] == Audited.VIOLATED)
    if broken := {in_words(form) for form in petdl.loc[violated, "form"]}:
        yield f"The ε that is claimed for PET-DL ({join(sorted(broken))}) does not hold: the audit found a larger one."


#: Findings in the order of the summary. A finding is a tuple of entries (function, names of tables). The function takes
#: these tables and yields sentences. It is called only if its first table has rows.
_FINDINGS: tuple[tuple[tuple[Any, ...], ...], ...] = (
    ((_best_students, "utility-privacy"), (_uncovered_classes, "utility-privacy")),
    ((_private_models, "private-models"),),
    ((_public_alone, "bits"),),
    ((_proofs, "audit"), (_broken_claims, "audit"), (_broken_petdl, "petdl")),
    ((_papers, "papers", "verdicts"),),
)


def _by_dataset(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield (name as text, rows of `frame`) for each of the `_MOST` data sets with the most rows in `frame`."""
    names = frame["dataset"].value_counts(sort=True).index[:_MOST]
    yield from ((in_words(name), frame[frame["dataset"] == name]) for name in sorted(names))


def _selection(row: Mapping[Any, Any]) -> str:
    """Return " after a selection by private labels" if `row["selected"]` is True, otherwise "".

    `row["selected"]` is True if private labels decided which records the data set contains (option `long_tail`). ε does
    not cover this decision, so sentences on ε end with this text.
    """
    return " after a selection by private labels" if row["selected"] else ""


def protected(row: Mapping[Any, Any]) -> str:
    """Return the unit that ε protects for the student in `row`, such as "the shard of one of 250 teachers"."""
    if protects_labels(row.get("setting", "")):
        return PROTECTS_LABEL
    if owners := owners_in_words(row.get("partition")):
        return owners
    if protects_replaced_record(row.get("model", ""), row.get("partition")):
        return "one replaced record"
    return f"the shard of one of {plural(int(row['teachers']), 'teacher')}"


def most_accurate(rows: pd.DataFrame, epsilon: str) -> Mapping[Any, Any]:
    """Return the row with the largest `accuracy_mean` among the `rows` whose ε is at most `WEAK` (10).

    `epsilon` is the name of the column of ε. If every ε exceeds `WEAK`, the row is chosen among all rows with a finite
    ε. If every ε is infinite or missing, the row is chosen among all `rows`.
    """
    choices = [rows[rows[epsilon] <= WEAK], rows[rows[epsilon] < float("inf")], rows]
    considered = next(choice for choice in choices if len(choice))
    return considered.sort_values("accuracy_mean", kind="stable").iloc[-1].to_dict()


def setting(row: Mapping[Any, Any]) -> str:
    """Return the setting of the student in `row`: "Setting: GNMax, σ = 40, 100 prototypes, supervised student."."""
    noise = row.get("noise_in_words")
    parts = [in_words(row["mechanism"]), noise if isinstance(noise, str) else "", answers(row)]
    return f"Setting: {', '.join(filter(None, parts))}, {in_words(row['method'])} student."


def answers(row: Mapping[Any, Any]) -> str:
    """Return as text how many labels the student in `row` learned from: "300 labels", or "13 answers to 300 queries".

    The text also states how the queries were selected: "300 labels (random)".
    """
    queries = int(row["queries"])
    answered = round(row.get("answered_mean", queries))
    selected = [words if isinstance(words := row.get(name), str) else "" for name in ("strategy", "rounds_in_words")]
    if answered == queries:
        return queries_in_words(plural(queries, "label"), *selected)
    return f"{plural(answered, 'answer')} to {queries_in_words(plural(queries, 'query'), *selected)}"


def stated(row: Mapping[Any, Any], accuracy: str = "accuracy") -> str:
    """Return an accuracy in `row` as text: "96.68 % (predicting the largest class gives 11.35 %)".

    The accuracy is in the column `<accuracy>_mean`. If `row` contains a balanced accuracy, the brackets state it too.
    If the share of the largest class is unknown, the text is the accuracy only.
    """
    reached, largest = row[f"{accuracy}_mean"], row.get("largest_class_mean", math.nan)
    if largest != largest:
        return percent(reached)
    balanced = row.get("balanced_accuracy_mean", math.nan)
    known = "" if balanced != balanced else f"balanced accuracy {percent(balanced)}; "
    if reached <= largest:
        beside = f"no better than predicting the largest class, which gives {percent(largest)}"
    else:
        beside = f"predicting the largest class gives {percent(largest)}"
    return f"{percent(reached)} ({known}{beside})"


def percent(value: float) -> str:
    """Return the fraction `value` as text in per cent: "96.68 %" for 0.9668."""
    return f"{100 * value:.2f} %"


def duration(seconds: float) -> str:
    """Return a duration of `seconds` as text, such as "4.2 s", "3 min 12 s" or "1 h 02 min"."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left:02d} min" if hours else f"{minutes} min {rest:02d} s"


def join(words: Sequence[Any], conjunction: str = "and") -> str:
    """Return `words` as one text such as "a, b and c", where `conjunction` is the word before the final one."""
    named = [str(word) for word in words]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} {conjunction} {named[-1]}"
