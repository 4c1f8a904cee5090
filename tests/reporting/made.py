"""Build made-up records for the tests of reporting; none of these numbers was measured."""

from pathlib import Path
from typing import Any

from patebench.artefacts.records import read_records
from patebench.core.bound import Adjacency, Bound, Conversion, Kind
from patebench.core.files import write_json
from patebench.reporting.figures import FIGURES
from patebench.reporting.published import read_published
from patebench.reporting.style import themed
from patebench.reporting.tables import TABLES
from patebench.stages import report
from patebench.stages.manifest import read_circumstances

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"
PRINTED = read_published(PUBLISHED)
CAPTIONS = Path(__file__).parents[2] / "report"
GAMMAS = (0.01, 0.05, 0.2, 1.0)
SIGMAS = (10.0, 40.0, 100.0)
WHOLE_POOL: dict[str, Any] = {"rounds": "", "strategy": "", "round": 0, "selection": []}
#: Headings of the accountants of built-in mechanisms in tables.
LABELS = {
    "strong-composition": "strong composition",
    "moments": "moments, l ≤ 8",
    **dict.fromkeys(("rdp", "rdp-sanitised"), "Rényi"),
    **dict.fromkeys(("gdp", "pld", "pld-channel", "bounded-range"), "Gaussian DP, PLD"),
    **dict.fromkeys(("exact", "exact-split"), "exact"),
    **dict.fromkeys(("exact-per-teacher", "exact-split-per-teacher"), "exact per teacher"),
}
VARIANTS = ("moments-unrestricted", "rdp-sanitised-optimised")


def ensemble(dataset: str = "mnist", seed: int = 0, teachers: int = 250, model: str = "small-cnn") -> dict[str, Any]:
    facts = {"dataset": dataset, "seed": seed, "split": f"seed-{seed}_pool-9000", "setting": "pool-9000"}
    facts |= {"pool": 9000, "beside_pool": "", "clusters": None, "teachers": teachers, "partition": "iid"}
    facts |= {"ensemble": f"teachers-{teachers}_iid_{model}_modern", "model": model, "recipe": "modern", "epochs": 50}
    return facts


def ensemble_record(facts: dict[str, Any], mean: float = 0.95) -> dict[str, Any]:
    plurality = {"plurality_accuracy_pool": min(mean + 0.02, 1.0), "plurality_accuracy_test": min(mean + 0.021, 1.0)}
    gaps = {"gap_mean": mean - 0.05, "gap_histogram": [0] * facts["teachers"] + [9000]}
    of_teachers = {"mean": mean, "min": 0.9, "max": 0.99, "std": 0.01}
    teachers = {f"teacher_accuracy_{what}": value for what, value in of_teachers.items()}
    return {"record": "ensemble", **facts, **teachers, **plurality, **gaps}


def label_set(facts: dict[str, Any], mechanism: str, value: float) -> dict[str, Any]:
    """Return the common fields of all records on labels of the whole pool; `value` is γ or σ."""
    name = {"lnmax": "gamma", "gnmax": "sigma"}[mechanism]
    return facts | WHOLE_POOL | {"mechanism": mechanism, "noise": f"{name}-{value:.12g}", "parameters": {name: value}}


def selected(facts: dict[str, Any], *rounds: tuple[str, int]) -> dict[str, Any]:
    """Return the common fields of all records on labels of queries selected in `rounds`: (strategy, queries) each."""
    name = "_".join(f"{strategy}-{queries}" for strategy, queries in rounds)
    selection = [{"strategy": strategy, "queries": queries} for strategy, queries in rounds]
    last = {"strategy": rounds[-1][0], "round": len(rounds) - 1}
    return {**facts, "rounds": name, **last, "selection": selection}


def label_set_record(facts: dict[str, Any], drawn: float, expected: float | None) -> dict[str, Any]:
    counts = {"queries": 9000, "answered": 9000, "kept": 0}
    return {"record": "label_set", **facts, **counts, "label_accuracy": drawn, "expected_label_accuracy": expected}


def bound_record(facts: dict[str, Any], queries: int, epsilon: float, accountant: str, kind: Kind) -> dict[str, Any]:
    bound = Bound(
        epsilon=epsilon,
        delta=1e-5,
        queries=queries,
        accountant=accountant,
        kind=kind,
        publishable=kind is Kind.WORST_CASE,
        source="made up",
        conversion=Conversion.CLASSIC if kind is Kind.DATA_DEPENDENT else Conversion.NONE,
        order=5.0 if kind is Kind.DATA_DEPENDENT else None,
        label=LABELS.get(accountant, ""),
        variant=accountant in VARIANTS,
        exact=accountant.startswith("exact"),
    )
    return {"record": "bound", **facts, **bound.to_json()}


def student_record(facts: dict[str, Any], queries: int, accuracy: float) -> dict[str, Any]:
    how = {"method": "supervised", "student_model": "small-cnn", "student_recipe": "modern"}
    slug = f"supervised_queries-{queries}_small-cnn_modern"
    got = {"queries": queries, "answered": queries, "kept": 0, "label_accuracy": 0.97, "accuracy": accuracy}
    return {"record": "student", **facts, "student": slug, **how, **got}


def cluster_student(
    accuracy: float,
    *,
    clusters: int = 50,
    k: int = 1,
    sigma: float = 50.0,
    pool: int = 9000,
    seed: int = 0,
    method: str = "supervised",
) -> list[dict[str, Any]]:
    """Return records of cluster labels of 600 teachers at ε = 4·√k/σ and their student."""
    facts = ensemble(seed=seed, teachers=600, model="nearest-query")
    facts |= {"clusters": clusters, "ensemble": f"teachers-600_queries-{clusters}", "pool": pool}
    facts |= {"setting": f"pool-{pool}", "split": f"seed-{seed}_pool-{pool}"}
    noise = {"mechanism": "sparse-gnmax", "noise": f"k-{k}_sigma-{sigma:g}", "parameters": {"k": k, "sigma": sigma}}
    of = {**facts, **WHOLE_POOL, **noise}
    labels = label_set_record(of, 0.9, 0.9) | {"queries": clusters, "answered": clusters}
    bound = bound_record(of, clusters, 4 * k**0.5 / sigma, "gdp", Kind.WORST_CASE)
    return [labels, bound, student_record(of, clusters, accuracy) | {"method": method}]


def selected_student_record(
    facts: dict[str, Any], queries: int, accuracy: float, strategy: str = "prototypes"
) -> dict[str, Any]:
    """Return a `student_record` of a student that selected `queries` samples in one round."""
    record = student_record(selected(facts, (strategy, queries)), queries, accuracy)
    return record | {"student": "supervised_small-cnn_modern"}


def baseline(dataset: str = "mnist", seed: int = 0, accuracy: float = 0.99) -> dict[str, Any]:
    """Return a record of a model trained on all private data without privacy."""
    training = {"model": "small-cnn", "recipe": "modern", "epochs": None}
    facts = {"dataset": dataset, "seed": seed, "split": {"pool": 9000, "test": None}, "training": training}
    return {**facts, **training, "epochs": 10, "true_labels": None, "accuracy": accuracy}


def private_model(
    epsilon: float = 1.0, accuracy: float = 0.95, form: str = "scratch", dataset: str = "mnist", seed: int = 0
) -> dict[str, Any]:
    """Return a record of a private model, here DP-SGD."""
    stated = {"delta": 1e-5, "accountant": "pld", "kind": Kind.WORST_CASE, "publishable": False, "source": "made up"}
    bound = Bound(epsilon=epsilon, queries=500, adjacency=Adjacency.ADD_OR_REMOVE_RECORD, **stated)
    facts = {"dataset": dataset, "seed": seed, "split": {"pool": 9000, "test": None}, "system": "DP-SGD", "form": form}
    own = {"private_model": f"{form}_epsilon-{epsilon:g}", "model": "tanh-cnn", "model_parameters": 26010}
    reached = {"accuracy": accuracy, "curve": [], "seconds": 12.5, "bounds": [bound.to_json()]}
    return {**facts, **own, "parameters": {"rate": 0.05, "steps": 500}, **reached}


def naming(clusters: int, accuracy: float, seed: int = 0, matched: float | None = None) -> dict[str, Any]:
    """Return a record of clusters named by true labels."""
    facts = {"dataset": "mnist", "seed": seed, "split": {"pool": 9000, "test": None}, "clusters": clusters}
    return {**facts, "accuracy": accuracy, "accuracy_pool": accuracy, "matched_accuracy": matched}


def models(folder: Path, *contents: Any, kind: str = "train_dpsgd") -> list[Path]:
    """Write each of `contents`, such as private models, to a new file of this `kind` in `folder`; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for content in contents:
        paths.append(folder / f"{len(list(folder.iterdir()))}.json")
        write_json(paths[-1], kind, content)
    return paths


def collected(folder: Path, *records: dict[str, Any]) -> list[Path]:
    """Write `records` to a new file in `folder`; return its path in a list."""
    return models(folder, {"records": list(records)}, kind="collect")


def costing(
    facts: dict[str, Any], queries: int, accuracy: float, epsilon: float, accountant: str = "pld"
) -> list[dict[str, Any]]:
    """Return the records of a student and of the worst-case bound on its labels."""
    bound = bound_record(facts, queries, epsilon, accountant, Kind.WORST_CASE)
    return [student_record(facts, queries, accuracy), bound]


def records(dataset: str = "mnist", seed: int = 0, teachers: int = 250) -> list[dict[str, Any]]:
    """Return the records of an ensemble: seven label sets, two of them with bounds and students."""
    facts = ensemble(dataset, seed, teachers)
    made = [ensemble_record(facts, 0.99 - teachers / 5000 + seed / 500)]
    for mechanism, values in (("lnmax", GAMMAS), ("gnmax", SIGMAS)):
        for value in values:
            noise = value if mechanism == "lnmax" else 1 / value
            accuracy = 0.98 - 0.8 * 2.0 ** (-noise * teachers / 3) + seed / 1000
            made.append(label_set_record(label_set(facts, mechanism, value), accuracy - 0.001 * seed, accuracy))
    for mechanism, value in (("lnmax", 0.05), ("gnmax", 40.0)):
        for queries in (100, 1000):
            made += _student(label_set(facts, mechanism, value), queries, seed)
    return made


def _student(facts: dict[str, Any], queries: int, seed: int) -> list[dict[str, Any]]:
    root = queries**0.5 * (1.0 if facts["mechanism"] == "lnmax" else 0.5)
    paper = "moments" if facts["mechanism"] == "lnmax" else "rdp"
    return [
        bound_record(facts, queries, 0.06 * root + 0.1 * seed, paper, Kind.DATA_DEPENDENT),
        bound_record(facts, queries, 0.4 * root, "pld", Kind.WORST_CASE),
        bound_record(facts, queries, 0.58 * root, "strong-composition", Kind.WORST_CASE),
        student_record(facts, queries, 0.9 + root / 1000 + 0.002 * seed + facts["teachers"] / 5000),
    ]


def write_collected(path: Path, made: list[dict[str, Any]]) -> Path:
    write_json(path, "collect", {"records": made})
    return path


def files(folder: Path, datasets: tuple[str, ...] = ("mnist",), seeds: tuple[int, ...] = (0, 1), teachers=(10, 250)):
    """Write the files of a whole run; return collected records and baselines."""
    found = [
        path
        for dataset in datasets
        for seed in seeds
        for n in teachers
        for path in collected(folder, *records(dataset, seed, n))
    ]
    without_privacy = [baseline(dataset, seed, 0.99 + seed / 1000) for dataset in datasets for seed in seeds]
    return found, models(folder, *without_privacy, kind="train_baseline")


def load_records(collected: Any = (), baselines: Any = (), audits: Any = (), models: Any = ()) -> Any:
    """Return the records in these files, read as the stages read them."""
    return read_records([Path(path) for path in (*collected, *baselines, *audits, *models)])


def write_manifest(path: Path, config: Any = None, *, modes: Any = None, **sources: Any) -> dict[str, Any]:
    """Write a manifest with the lists in `sources` (records, released, figures, tables, …); return its content."""
    content = read_circumstances(path.parent / "no benchmarks", [])
    content |= {"config": config or {"name": ""}, "seeds": [0, 1], "labels": modes or {}}
    lists: dict[str, Any] = {"records": {}, "released": {}, "copies": {}, "figures": [], "tables": []}
    content |= lists | sources
    write_json(path, "manifest", content)
    return content


def write_report(
    folder: Path, collected: Any = (), baselines: Any = (), figures: Any = (), tables: Any = (), **more: Any
) -> str:
    """Run the stage `report` on the records in these files; return the HTML of the page."""
    records = {"collected": [str(path) for path in collected], "baselines": [str(path) for path in baselines]}
    write_manifest(folder / "manifest.json", records=records, figures=[*figures], tables=[*tables], **more)
    report.run(
        manifest=folder / "manifest.json", published=PUBLISHED, captions=CAPTIONS,
        out=folder / "report.html",
    )  # fmt: skip
    return (folder / "report.html").read_text(encoding="utf-8")


def draw(name: str, collected: Any = (), baselines: Any = (), audits: Any = (), models: Any = ()) -> Any:
    """Return the figure `name`, drawn from the records in these files."""
    return draw_records(name, load_records(collected, baselines, audits, models))


def draw_records(name: str, records: Any) -> Any:
    """Return the figure `name`, drawn from `records`."""
    with themed():
        figure = FIGURES.load(name)(records, PRINTED)
        figure.draw_without_rendering()
    return figure


def lines(axis: Any) -> dict[str, Any]:
    """Return the lines of a panel by label."""
    return {line.get_label(): line for line in axis.get_lines() if not line.get_label().startswith("_")}


def legend(figure: Any) -> list[str]:
    """Return the labels in the legends of `figure`."""
    return [text.get_text() for each in figure.legends for text in each.get_texts()]


def select(frame: Any, **keys: Any) -> Any:
    """Return the rows of `frame` whose columns have the values `keys`."""
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    return frame


def one(frame: Any, **keys: Any) -> dict[Any, Any]:
    """Return the only row of `frame` whose columns have the values `keys`."""
    (row,) = select(frame, **keys).to_dict("records")
    return row


def words(figure: Any) -> str:
    """Return the text in `figure`: in panels, legends and the titles of panels."""
    texts = [text.get_text() for axis in figure.axes for text in axis.texts]
    return " ".join([*texts, *legend(figure), *(axis.get_title() for axis in figure.axes)])


def table(name: str, collected: Any = (), baselines: Any = (), audits: Any = (), models: Any = ()) -> Any:
    """Return the frame of the table `name`, made from the records in these files."""
    return TABLES.load(name).build(load_records(collected, baselines, audits, models), PRINTED)


def forms(name: str, *files_of_records: Any) -> tuple[str, str, str]:
    """Return the table `name`, made from the records in these files, as CSV, Markdown and LaTeX."""
    frame, kind = table(name, *files_of_records), TABLES.load(name)
    return kind.csv(frame), kind.markdown(frame), kind.latex(frame)


def known_students(folder: Path, seeds: tuple[int, ...] = (0, 1, 2)) -> tuple[list[Path], list[Path]]:
    """Write one student of 100 queries for each seed, with known accuracies and bounds; return its files."""
    written, baselines = [], [baseline(seed=seed) for seed in seeds]
    for seed in seeds:
        facts = label_set(ensemble(seed=seed), "lnmax", 0.05)
        found = [
            student_record(facts, 100, (0.97, 0.98, 0.985)[seed]),
            bound_record(facts, 100, (1.4, 1.5, 1.6)[seed], "moments", Kind.DATA_DEPENDENT),
            bound_record(facts, 100, 0.5, "rdp", Kind.DATA_DEPENDENT),
            bound_record(facts, 100, 0.3 + seed / 10, "exact", Kind.DATA_DEPENDENT),
            bound_record(facts, 100, 5.8, "strong-composition", Kind.WORST_CASE),
            bound_record(facts, 100, 4.31, "pld", Kind.WORST_CASE),
            bound_record(facts, 1000, 0.1, "pld", Kind.WORST_CASE),
        ]
        written += collected(folder, *found)
    return written, models(folder, *baselines, kind="train_baseline")
