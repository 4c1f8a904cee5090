"""What a run found: a few numbers to show first, and about ten sentences, worked out from its tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patebench.audit.verdict import Verdict as Audited
from patebench.core.bound import Kind
from patebench.reporting.outcomes import account_of_paper
from patebench.reporting.verdicts import COLUMNS, COUNTING, NUMBER, Verdict
from patebench.reporting.wording import WEAK, WEAK_SOURCE, delta_in_words, epsilon_in_words, in_words, owners_in_words
from patebench.students import STRATEGIES

if TYPE_CHECKING:
    import pandas as pd

#: The frames of a run by the names of their tables, with the rows that it has; any may be missing.
Tables = Mapping[str, "pd.DataFrame"]

#: Strategies that are no chance.
_SELECTING = {*STRATEGIES} - {"random"}
#: Data sets of which each finding is told.
_MOST = 2


def findings(tables: Tables) -> list[str]:
    """One sentence or two for each thing found; a run without results has one that says so."""
    found = [sentence for finding in _FINDINGS for sentence in finding(tables)]
    return [*found, *_on_weak(found)] or ["This run has no ensembles and no private models."]


def _who_voted(tables: Tables) -> Iterator[str]:
    ensembles = tables.get("ensembles")
    if ensembles is not None and not ensembles.empty:
        yield f"{voters(ensembles, tables.get('noisy-accuracy'))}."


def _best_students(tables: Tables) -> Iterator[str]:
    """The most accurate student at an ε that still says something, or at the least there is."""
    for dataset, rows in _by_dataset(_measured(tables.get("utility-privacy"))):
        finite = rows[rows["worst_case_epsilon_mean"] < float("inf")]
        if finite.empty:
            known = "no finite ε holds" if rows["worst_case_epsilon_mean"].notna().any() else "no ε is known"
            most = percent(rows["accuracy_mean"].max())
            yield f"On {dataset} the best student of released labels reached {most}, but {known} for it."
            continue
        best = most_accurate(finite, "worst_case_epsilon_mean")
        yield f"On {dataset} the best student of released labels reached {_reached(best)}{_beside(best)}."
        yield from _on_other_kind(best)


def _on_other_kind(best: Mapping[Any, Any]) -> Iterator[str]:
    worst, leaky = best["worst_case_epsilon_mean"], best["data_dependent_epsilon_mean"]
    if leaky == leaky and abs(leaky - worst) > 0.05 * worst:
        account = account_of_paper(best["mechanism"])
        own = account is not None and account[0] == best["data_dependent_accountant"]
        who = "the paper of its mechanism" if own else "the tightest accountant"
        yield (
            f"For the votes of this run, {who} would state ε = {epsilon_in_words(leaky)} for the same labels: that"
            " number depends on private data and must not be published."
        )


def _private_models(tables: Tables) -> Iterator[str]:
    """Models that are private themselves, of those whose ε holds."""
    models = tables.get("private-models")
    models = None if models is None else models[models["kind"] == Kind.WORST_CASE]
    for dataset, rows in _by_dataset(_measured(models)):
        best = most_accurate(rows, "epsilon_mean")
        yield (
            f"On {dataset} the best model that is private itself, {best['system']} ({in_words(best['form'])}), reached"
            f" {percent(best['accuracy_mean'])} at ε = {epsilon_in_words(best['epsilon_mean'])}, which protects"
            f" {in_words(best['adjacency'])}."
        )


def _public_alone(tables: Tables) -> Iterator[str]:
    """What needed no private data at all: the best that any clusters tell, by whatever features."""
    bits = tables.get("bits")
    for dataset, rows in _by_dataset(bits if bits is None else bits[bits["named_accuracy_mean"].notna()]):
        row = rows.sort_values(["named_accuracy_mean", "named_clusters"], ascending=[True, False]).iloc[-1]
        yield (
            f"Public data alone tells the classes of {dataset} apart: {row['named_clusters']:.0f} clusters, named by"
            f" true labels, reach {percent(row['named_accuracy_mean'])} at ε = 0. Private data are to thank only for"
            " what lies above that."
        )


def paper_line(row: Mapping[Any, Any]) -> str:
    """How close a paper came out, from its row of the table `papers`."""
    counts = [(int(row[str(verdict)]), str(verdict)) for verdict in COUNTING]
    told = f"Of {plural(int(row['printed']), 'printed number')}: {join([f'{n} {word}' for n, word in counts if n])}"
    return f"{told}{_short_otherwise(int(row['short_otherwise']))}."


def _short_otherwise(numbers: int) -> str:
    return f", though other settings fell short of {numbers}" if numbers else ""


def _papers(tables: Tables) -> Iterator[str]:
    papers = tables.get("papers")
    if papers is None or papers.empty:
        return
    counts = {verdict: int(papers[str(verdict)].sum()) for verdict in Verdict}
    judged = sum(counts[each] for each in (Verdict.REPRODUCED, Verdict.BETTER, Verdict.SHORT, Verdict.UNSOUND))
    names = join([str(name) for name in papers["paper"]])
    measurable = int(papers["printed"].sum()) - counts[Verdict.NOT_COMPARABLE]
    yield (
        f"Of {measurable} numbers of {names} that can be compared, {judged} were measured{_by(tables, judged)},"
        f" and of several settings that measured one the best counts: {counts[Verdict.REPRODUCED]} reproduced,"
        f" {counts[Verdict.BETTER]} better, {counts[Verdict.SHORT]} short, {counts[Verdict.UNSOUND]} unsound"
        f"{_short_otherwise(int(papers['short_otherwise'].sum()))};"
        f" {counts[Verdict.NOT_RUN]} were not run. {counts[Verdict.NOT_COMPARABLE]} others are settings, or can not be"
        " compared."
    )


def _by(tables: Tables, judged: int) -> str:
    """How many different results stand behind the verdicts, for papers quote each other."""
    results = _compared_numbers(tables)["result"].nunique()
    return f" by {plural(results, 'result')} of this run" if 0 < results < judged else ""


def _compared_numbers(tables: Tables) -> "pd.DataFrame":
    """The rows of the table of verdicts that were measured on the printed data set."""
    import pandas as pd

    verdicts = tables.get("verdicts", pd.DataFrame(columns=list(COLUMNS)))
    return verdicts[verdicts["measured_mean"].notna() & verdicts["copy_of"].isna()]


def _as_printed(tables: Tables) -> Iterator[str]:
    """Compare the first student accuracy that a paper prints with ours, of random queries as the papers' if there is.

    Of several such students the one with the best verdict is shown.
    """
    students = _compared_numbers(tables)
    students = students[(students["quantity"] == "student_accuracy") & students["student"].notna()]
    students = students.assign(
        selected=students["strategy"].isin(_SELECTING),
        rank=students["verdict"].map({str(verdict): rank for rank, verdict in enumerate(COUNTING)}),
        place=students.groupby(NUMBER, sort=False).ngroup(),
    ).sort_values(["place", "selected", "rank"], kind="stable")
    for row in students.drop_duplicates("paper").drop_duplicates("result").head(_MOST).to_dict("records"):
        printed = f"{row['paper']} prints {percent(row['published'])} for {row['row']} ({row['column']})"
        ours = f"a student here ({in_words(row['student'])}) has {percent(row['measured_mean'])}"
        yield f"{printed}; {ours}: {row['verdict']}."


def _audits(tables: Tables) -> Iterator[str]:
    audit, petdl = tables.get("audit"), tables.get("petdl")
    broken: set[str] = set()
    if audit is not None and not audit.empty:
        yield from _proofs(audit)
        broken |= {in_words(name) for name in audit.loc[audit["claim"] == Audited.VIOLATED, "mechanism"]}
    if petdl is not None and not petdl.empty:
        claimed = petdl[(petdl["kind"] == Kind.CLAIMED) & (petdl["verdict"] == Audited.VIOLATED)]
        broken |= {f"PET-DL ({in_words(form)})" for form in claimed["form"]}
    if broken:
        yield f"What papers claim of {join(sorted(broken))} does not hold: the audit found that more is lost."


def _proofs(audit: "pd.DataFrame") -> Iterator[str]:
    """What audits say of bounds that are proven; a bound is that of a mechanism, a setting and a number of queries."""
    proofs = audit["verdict"].dropna()
    vacuous, failed, unlike = (
        int((proofs == each).sum()) for each in (Audited.VACUOUS, Audited.VIOLATED, Audited.DISAGREES)
    )
    tested = len(proofs) - vacuous - unlike
    if tested:
        beside = f"; {plural(vacuous, 'other is', 'others are')} too large to be contradicted" if vacuous else ""
        yield f"Audits contradict {failed or 'none'} of {plural(tested, 'proven bound')} that they test{beside}."
    if unlike:
        names = join(sorted({in_words(name) for name in audit.loc[audit["verdict"] == Audited.DISAGREES, "mechanism"]}))
        yield f"The code of {names} does not do what it says, so that {plural(unlike, 'bound')} of it may not hold."


def _claims(tables: Tables) -> Iterator[str]:
    """Numbers of papers that can not be right."""
    verdicts = tables.get("verdicts")
    if verdicts is not None and not (unsound := verdicts[verdicts["verdict"] == Verdict.UNSOUND]).empty:
        numbers = unsound[NUMBER].drop_duplicates()
        papers = join(sorted(set(unsound["paper"])))
        yield f"{plural(len(numbers), 'printed ε', 'printed ε')} of {papers} can not be right: more is lost."


_FINDINGS: tuple[Callable[[Tables], Iterator[str]], ...] = (
    *(_who_voted, _best_students, _private_models, _public_alone, _papers, _as_printed, _claims, _audits),
)


def _on_weak(found: list[str]) -> Iterator[str]:
    if any("(weak)" in sentence for sentence in found):
        yield f"An ε above {WEAK:g} is called weak: it says little or nothing of privacy ({WEAK_SOURCE})."


def _measured(frame: "pd.DataFrame | None") -> "pd.DataFrame | None":
    return None if frame is None else frame[frame["accuracy_mean"].notna()]


def _by_dataset(frame: "pd.DataFrame | None") -> Iterator[tuple[str, "pd.DataFrame"]]:
    """The data sets with the most rows, in words, and their rows."""
    if frame is not None and not frame.empty:
        names = frame["dataset"].value_counts(sort=True).index[:_MOST]
        yield from ((in_words(name), frame[frame["dataset"] == name]) for name in sorted(names))


def _reached(row: Mapping[Any, Any]) -> str:
    """How accurate a student is, and at what worst-case ε."""
    noise = "" if row["may_publish"] == "yes" else ", of fresh noise"
    epsilon = epsilon_in_words(row["worst_case_epsilon_mean"])
    spent = f"{epsilon}{noise} (δ = {delta_in_words(row['delta'])}), which protects {protected(row)}"
    return f"{percent(row['accuracy_mean'])} at a worst-case ε of {spent}"


def _beside(row: Mapping[Any, Any]) -> str:
    """Which student, of which labels, and how accurate a model without privacy is, where there is one."""
    by = f"; student: {in_words(row['method'])} with {answers(row)} by {in_words(row['mechanism'])}"
    free = row["baseline_accuracy_mean"]
    return f"{by}; without privacy {percent(free)}" if free == free else by


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
