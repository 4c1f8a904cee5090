"""Collect all entries of the leaderboard: written by hand, from kept runs, and from published values.

Only entries in `leaderboard/entries/` are files. The others are derived from the tables of `results/reference/` and
from `config/published.csv`, so they change with these files.
"""

import csv
import json
import math
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from patebench.accounting.subsampled_gaussian import least_noise
from patebench.baselines import DPSGD_FORMS
from patebench.baselines.knn_accounting import KNNSettings
from patebench.baselines.on_features import FEATURE_METHODS
from patebench.baselines.on_features.feature_method import GaussianSums
from patebench.core.bound import Adjacency, Kind
from patebench.core.spelling import slug
from patebench.data.dataset import long_tail_sizes
from patebench.leaderboard.assessment import Assessed, assess
from patebench.leaderboard.entry import (
    Accuracy,
    Change,
    Claim,
    Data,
    Entry,
    GaussianComposition,
    Hygiene,
    Making,
    NoNoise,
    Origin,
    Paper,
    Privacy,
    PureSteps,
    Release,
    SampledGaussian,
    Steps,
    Table,
    Unit,
    VoteMechanism,
    read_entry,
)
from patebench.mechanisms import MECHANISMS
from patebench.models import weighted
from patebench.reporting.frames import protects_labels
from patebench.reporting.outcomes import (
    protects_replaced_record,
    public_use,
    selected_by_labels,
    votes_by_record,
)
from patebench.reporting.published import ALL_SYSTEMS, DP_SGD, PETDL, PRIVATE_KNN, SYSTEMS, Value, read_published
from patebench.reporting.wording import in_words

_least_noise = cache(least_noise)

#: Folder of the entries that are written by hand, below the root of the repository.
WRITTEN = Path("leaderboard", "entries")

_PUBLISHED = Path("config", "published.csv")
_KEPT = Path("results", "reference")

#: Number of private records and number of classes by data set; papers use different parts of SVHN.
_RECORDS = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000, "cifar10-jpeg": 50_000, "adult": 32_561}
_RECORDS |= {"cifar10-jpeg-30000": 30_000}
_CLASSES = {**dict.fromkeys([*_RECORDS, "svhn"], 10), "adult": 2, "glyph": 150}

#: Mean squared L2 sensitivity of the noisy sums in PET-DL's sound forms, in units of the squared clipping norm
#: (docs/explanation/proofs-systems.md). With hints, half of the sums add vectors with entries of any sign.
_SQUARES = {"noisy-gradient": 4.0, "noisy-knowledge": 2.0, "noisy-knowledge with hints": 3.0}

_PETDL_NOISE = NoNoise(
    type="no noise",
    because="the noise is added to the loss and does not depend on the weights, so it never reaches the gradient",
)

#: Authors and year of papers in `config/published.csv`.
_PAPERS: Mapping[str, tuple[str, int]] = {
    "PATE 2017": ("Papernot, Abadi, Erlingsson, Goodfellow, Talwar", 2017),
    "Scalable PATE 2018": ("Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson", 2018),
    "NZC 2020": ("Sun, Zhou, Yu, Xiong", 2020),
    "PET-DL 2019": ("Sun, Zhou, Wang, Li, Socher, Yu, Xiong", 2019),
    "Private-kNN 2020": ("Zhu, Yu, Chandraker, Wang", 2020),
    "DPMLBench 2023": ("Wei, Zhao, Zhang, Chen, Meng, Liu, Fan, Chen", 2023),
    "ScatterNet 2021": ("Tramèr, Boneh", 2021),
    "DP-SGD 2016": ("Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang", 2016),
}

#: Choices made with true labels that the entry of a kept run on MNIST states if runs.yaml states none.
_CHOSEN = "default settings of methods and models"

#: Unit and change of the adjacency of a private model.
_ADJACENCIES: Mapping[str, tuple[Unit, Change]] = {
    Adjacency.REPLACE_TEACHER: (Unit.SHARD, Change.REPLACED),
    Adjacency.ADD_OR_REMOVE_TEACHER: (Unit.SHARD, Change.ADDED_OR_REMOVED),
    Adjacency.ADD_OR_REMOVE_RECORD: (Unit.RECORD, Change.ADDED_OR_REMOVED),
    Adjacency.REPLACE_RECORD: (Unit.RECORD, Change.REPLACED),
    Adjacency.REPLACE_LABEL: (Unit.LABEL, Change.REPLACED),
}

#: Tables of a run, with the columns that identify a student or a private model in the table and in records.
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "utility-privacy": ("dataset", "ensemble", "mechanism", "noise", "student", "rounds"),
    **dict.fromkeys(("petdl", "private-models"), ("dataset", "private_model")),
}

#: Paper → its own mechanism, for papers that also quote results of other papers. Quoted results get no entry.
_QUOTING = {"PET-DL 2019": PETDL, "Private-kNN 2020": PRIVATE_KNN}

#: Quantities of published.csv that are accuracies at the ε in the same row.
_ACCURACIES = ("student_accuracy", "private_model_accuracy", "accuracy_at_epsilon")


def assess_all(root: Path) -> list[Assessed]:
    """Return every entry of the repository at `root` with its assessment.

    Entries written by hand come first, then entries of the runs in results/reference, then entries of values that
    papers publish. An entry of a published value is left out if an entry written by hand states the same result. Raises
    PatebenchError for a file that is not an entry.
    """
    written = [assess(read_entry(path), path.parent) for path in written_files(root)]
    known = {_result_key(assessed.entry) for assessed in written}
    published = [entry for entry in published_entries(root) if _result_key(entry) not in known]
    return [*written, *map(assess, kept_entries(root)), *map(assess, published)]


def _result_key(entry: Entry) -> tuple[str, float, float | None]:
    """Return data set, ε and mean accuracy of `entry`, which together identify its result."""
    return entry.data.private, entry.claim.epsilon, None if entry.accuracy is None else entry.accuracy.mean


def written_files(root: Path) -> list[Path]:
    """Return the paths of the entries written by hand in the repository at `root`, sorted."""
    return sorted((root / WRITTEN).glob("*.json"))


def kept_entries(root: Path) -> Iterator[Entry]:
    """Yield an entry for each student and each private model of the runs in results/reference.

    The ε of a student is its worst-case ε; students without a worst-case ε are left out. The ε of a private model is
    the ε that its run states.
    """
    import yaml

    listed = root / _KEPT / "runs.yaml"
    runs = yaml.safe_load(listed.read_text(encoding="utf-8")) if listed.is_file() else {}
    for folder in sorted(path.parent for path in (root / _KEPT).glob("*/manifest.json")):
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        config, chosen = manifest["config"], runs.get(folder.name, {}).get("true_labels")
        files = (folder / "tables").glob("*.csv")
        tables = {path.stem: list(csv.DictReader(path.read_text("utf-8").splitlines())) for path in files}
        audits = tables.get("audit", [])
        by_seed = _read_accuracies(folder / "records.tar.xz")
        names: Counter[str] = Counter()
        for table, setting in _SETTINGS.items():
            paper = Paper(
                title=f"patebench, {folder.name}", authors="The patebench developers", year=2026,
                place=f"{_KEPT}/{folder.name}/tables/{table}.csv",
            )  # fmt: skip
            for row in tables.get(table, []):
                if row.get("system") == ALL_SYSTEMS[PETDL] and "petdl" in tables:
                    continue  # the table petdl contains the same models with their audits
                is_student = table == "utility-privacy"
                entry = _student_entry(row, audits, config, paper) if is_student else _model_entry(row, config, paper)
                if entry is None:
                    continue
                name = slug(folder.name, re.sub(r"[^A-Za-z0-9.-]+", "-", entry.name))
                names[name] += 1
                seeds = by_seed.get(tuple(row[column] for column in setting))
                labels = chosen or (_CHOSEN if entry.data.private == "mnist" else None)
                yield entry.model_copy(
                    update={
                        "name": name if names[name] == 1 else f"{name}_{names[name]}",
                        "origin": Origin.KEPT,
                        "accuracy": entry.accuracy and entry.accuracy.model_copy(update={"by_seed": seeds}),
                        "hygiene": Hygiene(true_labels=labels, best_on_test=False),
                        "making": _making(folder.name, manifest),
                    }
                )


def _read_accuracies(archive: Path) -> dict[tuple[str, ...], dict[str, float]]:
    """Return {model: {seed: accuracy}} for the students and private models of a run in results/reference.

    The key of a model is the tuple of its values in the columns that `_SETTINGS` lists, such as data set and ensemble.
    `archive` contains the records of the run; if this file does not exist, the result is empty.
    """
    found: dict[tuple[str, ...], dict[str, float]] = {}
    if not archive.is_file():
        return found
    with tarfile.open(archive) as stream:
        for member in stream:
            if (file := stream.extractfile(member)) is None:
                continue
            content = json.loads(file.read())
            for record in content.get("records", [content]):
                for columns in _SETTINGS.values():
                    if {*columns, "seed", "accuracy"} <= record.keys():
                        seeds = found.setdefault(tuple(str(record[column]) for column in columns), {})
                        seeds[str(record["seed"])] = float(record["accuracy"])
    return found


def _original_dataset(dataset: str) -> str:
    """Return the data set from which `dataset` is derived, such as "cifar10-jpeg" for "cifar10-jpeg-imagenet"."""
    dataset = dataset.replace("fashion-mnist", "fashion_mnist")
    known = [name for name in _CLASSES if f"{dataset}-".startswith(f"{name}-") and name != "cifar10-jpeg-30000"]
    return max(known, key=len, default=dataset)


def _making(run: str, manifest: Mapping[str, Any]) -> Making:
    """Return hardware, total minutes, command and commit of a run in results/reference."""
    hardware, seconds = manifest["hardware"], sum(rule["seconds"] for rule in manifest["rules"])
    return Making(
        hardware=", ".join([f"{hardware['cores']} cores of {hardware['processor']}", *map(str, hardware["gpus"])]),
        minutes=round(seconds / 60, 1),
        command=f"make reference RUNS={run}",
        commit=manifest["commit"]["id"],
    )


def _student_entry(
    row: Mapping[str, str], audits: list[dict[str, str]], config: Mapping[str, Any], paper: Paper
) -> Entry | None:
    """Return the entry of a student; None if the student has no worst-case ε.

    Parameters
    ----------
    row : the student's row in the table utility-privacy of a run in results/reference.
    audits : rows of the run's table of audits.
    config : the run's configuration.
    paper : citation of the run.
    """
    if not row["worst_case_epsilon_mean"]:
        return None
    parameters = {name: float(value) for name, value in _options(row["noise"]).items()}
    rounds = row["rounds_in_words"].count(" + ") + 1
    use, samples = public_use({**row, "clusters": row["clusters"] or None, "strategy": row["strategy"] or None})
    data = _data(row, use, samples, config)
    of_record = protects_replaced_record(row["model"], row["partition"])
    alone = int(row["teachers"]) == data.records
    mechanism: Release
    has_weights = weighted(row["model"])
    if has_weights and row["mechanism"] == "sparse-gnmax":
        mechanism = Table(type="table", sigma=parameters["sigma"] / math.sqrt(parameters["k"]), tables=rounds)
    else:
        mechanism = VoteMechanism(
            type="votes",
            name=row["mechanism"],
            parameters=parameters,
            queries=int(row["queries"]),
            teachers=int(row["teachers"]),
            partition=("one record each" if alone else "one shard changes") if of_record else None,
            votes_per_teacher=_votes_per_record(row) if alone else None,
            weighted=has_weights if MECHANISMS.load(row["mechanism"]).weights else None,
            classes=_number_for(_CLASSES, row["dataset"]),
            rounds=rounds,
        )
    same = {name: row[name] for name in ("dataset", "teachers", "mechanism", "noise", "queries", "delta")}
    audited = [
        float(audit[name])
        for audit in audits
        if same.items() <= audit.items()
        for name in audit
        if name.startswith("audited_lower") and audit[name]
    ]
    strategy = [row["strategy"]] if row["strategy"] else []
    return Entry(
        name=slug(row["dataset"], row["ensemble"], row["mechanism"], row["noise"], row["student"], row["rounds"]),
        method=", ".join(map(in_words, [row["mechanism"], row["model"], row["method"], *strategy])),
        paper=paper,
        data=data,
        privacy=Privacy(
            unit=Unit.LABEL if protects_labels(row["setting"]) else Unit.RECORD if of_record else Unit.SHARD,
            adjacency=Change.REPLACED,
            delta=float(row["delta"]),
        ),
        claim=Claim(epsilon=float(row["worst_case_epsilon_mean"]), kind=Kind.WORST_CASE),
        mechanism=mechanism,
        audited=max(audited, default=None),
        accuracy=_accuracy(row),
        note=_selection_note(row["dataset"], config),
    )


def _votes_per_record(row: Mapping[str, str]) -> int | None:
    """Return the number of queries on which each private record votes in a round; None if teachers are trained models.

    `row` is a student's row in a table of a run in results/reference. The ensemble's name in this row contains the
    number as the option `neighbours`. If the name has no such option, each record votes on one query.
    """
    return int(_options(row["ensemble"]).get("neighbours", 1)) if votes_by_record(row["model"]) else None


def _model_entry(row: Mapping[str, str], config: Mapping[str, Any], paper: Paper) -> Entry:
    """Return the entry of a private model of a run in results/reference.

    `row` is the model's row in a table of the run, and `config` is the run's configuration. `paper` cites the run.
    """
    system = row.get("system", ALL_SYSTEMS[PETDL])
    note, form = _selection_note(row["dataset"], config), row["form"]
    samples = row.get("public_samples") or row["samples"]
    unit, change = _ADJACENCIES[row.get("adjacency", Adjacency.REPLACE_TEACHER)]
    mechanism: Release | None = None
    if system == ALL_SYSTEMS[PETDL]:
        mechanism = _PETDL_NOISE if form == "published" else _noisy_sums(row)
    elif system == ALL_SYSTEMS[DP_SGD]:
        mechanism = _dpsgd_steps(row)
    elif row["private_model"].partition("_")[0] in FEATURE_METHODS:
        mechanism = _feature_releases(row["private_model"])
    elif form == "sound":
        mechanism = _private_knn_steps(row["private_model"])
    else:
        note += " The code draws one subset of fixed size for test and answer, which no theorem here covers."
    return Entry(
        name=slug(row["dataset"], system.lower(), row["private_model"]),
        method=f"{system}, {in_words(form)}" + (f", {in_words(row['model'])}" if row.get("model") else ""),
        paper=paper,
        data=_data(row, row.get("public_use") or "student", int(float(samples)), config),
        privacy=Privacy(unit=unit, adjacency=change, delta=float(row["delta"])),
        claim=Claim(epsilon=float(row["epsilon_mean"]), kind=Kind(row["kind"])),
        mechanism=mechanism,
        audited=float(row["audited"]) if row.get("audited") else None,
        accuracy=_accuracy(row),
        note=note.strip(),
    )


def _noisy_sums(row: Mapping[str, str]) -> GaussianComposition | None:
    """Return the composition of all noisy sums in the training of a PET-DL student; None if `row` states no noise.

    The training adds Gaussian noise to sums of clipped vectors. `row` is the student's row in a table of a run in
    results/reference, for a form of PET-DL whose ε is proved.
    """
    if not row.get("noise"):
        return None
    hints = " with hints" if row["form"] == "noisy-knowledge" and int(row["hint_epochs"]) else ""
    square, noise, sums = _SQUARES[row["form"] + hints], float(row["noise"]), int(row["queries"])
    because = f"{sums} sums of clipped vectors, noise {noise:.6g} times the clip, squared L2 sensitivity {square:g}"
    return GaussianComposition(type="gaussian", mu=math.sqrt(square * sums) / noise, because=because)


def _dpsgd_steps(row: Mapping[str, str]) -> SampledGaussian:
    """Return the steps of a DP-SGD training, with the smallest noise that reaches the target ε.

    `row` is the trained model's row in a table of a run in results/reference.
    """
    options, steps = _options(row["private_model"]), int(row["queries"])
    rate = float(options.get("rate", DPSGD_FORMS[row["form"]].rate))
    noise = _least_noise(float(options["epsilon"]), float(row["delta"]), rate, steps)
    return SampledGaussian(type="dp-sgd", parts=[Steps(sampling="poisson", rate=rate, noise=noise, steps=steps)])


def _feature_releases(model: str) -> GaussianComposition | PureSteps:
    """Return the composition of the noisy releases that train a classifier on features of a public encoder.

    `model` is the name of the method with its options, such as "least-squares_epsilon-1_delta-1e-05_change-replaced".
    """
    name, options = model.partition("_")[0], _options(model)
    epsilon, delta = float(options["epsilon"]), float(options["delta"])
    own = {option: int(options[option]) for option in FEATURE_METHODS.fact(name, "options") if option in options}
    # The noise is calibrated to the target ε, as in training.
    method = FEATURE_METHODS.load(name).calibrated(epsilon, delta, options["change"], **own)
    because = f"{method.accounted[2]}, noise {method.noise:.6g}"
    if isinstance(method, GaussianSums):
        distance = method.squared_changes[0]
        because = f"{because}, squared L2 distance {distance:g}"
        return GaussianComposition(type="gaussian", mu=math.sqrt(distance) / method.noise, because=because)
    return PureSteps(type="pure", epsilon=method.costs(delta)[0], because=because)


def _private_knn_steps(model: str) -> SampledGaussian:
    """Return the noisy steps of Private-kNN: its threshold tests and its answers.

    `model` is the name of the method with its options, such as "sound_rate-0.15_…".
    """
    options = _options(model)
    counts = {name: int(options[name]) for name in ("neighbours", "queries", "answers") if name in options}
    numbers: dict[str, Any] = {name: float(options[name]) for name in ("rate", "threshold", "sigma1", "sigma2")}
    settings = KNNSettings(**numbers, **counts)
    parts = [
        Steps(sampling="poisson", rate=kind.rate, noise=kind.noise, steps=kind.steps)
        for kind in (settings.tests, settings.answered(settings.most))
    ]
    return SampledGaussian(type="dp-sgd", parts=parts)


def _options(name: str) -> dict[str, str]:
    """Return the options in `name` as a dict: {"sound": "", "rate": "0.15"} for "sound_rate-0.15"."""
    return {option: value for option, _, value in (part.partition("-") for part in name.split("_"))}


def _data(row: Mapping[str, str], use: str, samples: int, config: Mapping[str, Any]) -> Data:
    """Return the private and public data of a model, as its entry states them.

    Parameters
    ----------
    row : the model's row in a table of a run in results/reference.
    use : use of the public data, such as "features, queries".
    samples : number of public samples.
    config : the run's configuration.
    """
    dataset, declared = row["dataset"], config.get("datasets", {}).get(row["dataset"], {})
    only = config.get("only") or list(config["experiments"])
    experiments = (config["experiments"][name] for name in only if name in config["experiments"])
    pools = {each["encoder"] for each in experiments if each.get("dataset") == dataset and each.get("encoder")}
    features = declared.get("features") or []
    encoders = [*([features] if isinstance(features, str) else features), *sorted(pools)]
    private, records = _original_dataset(dataset), _number_for(_RECORDS, dataset)
    if dataset in selected_by_labels(config):
        (first, last), classes = declared["long_tail"], _number_for(_CLASSES, dataset)
        private, records = dataset, int(long_tail_sizes(first, last, classes).sum()) if classes else None
    return Data(
        private=private,
        records=records,
        public=f"unlabelled samples of the test files: {use}",
        public_samples=samples,
        encoder=", ".join(encoders) or "none",
    )


def _selection_note(dataset: str, config: Mapping[str, Any]) -> str:
    """Return a note on ε if the run used private labels to choose which records of `dataset` it trains on, else "".

    `config` is the configuration of the run.
    """
    return "ε is for the data after a selection by private labels." if dataset in selected_by_labels(config) else ""


def _number_for(numbers: Mapping[str, int], dataset: str) -> int | None:
    """Return the number that `numbers` contains for `dataset` or for the data set from which `dataset` is derived.

    The result is None if `numbers` contains neither data set.
    """
    return numbers.get(dataset, numbers.get(_original_dataset(dataset)))


def _accuracy(row: Mapping[str, str]) -> Accuracy:
    test = re.search(r"test-(\d+)", row["setting"])
    return Accuracy(
        mean=float(row["accuracy_mean"]),
        std=float(row["accuracy_std"]) if row["accuracy_std"] else None,
        seeds=int(row["seeds"]),
        test_samples=int(test[1]) if test else None,
    )


def published_entries(root: Path) -> Iterator[Entry]:
    """Yield an entry for each accuracy in config/published.csv whose paper prints an ε in the same row of a table.

    Results that a paper quotes from other papers are left out. If several results have the same ε, accuracy and
    setting, only the first is yielded.
    """
    published = read_published(root / _PUBLISHED)
    epsilons = {
        _row_key(value): value.value for value in published.values if value.quantity in ("epsilon_chosen", "epsilon")
    }
    seen = set()
    for value in published.values:
        epsilon = epsilons.get(_row_key(value)) if value.quantity in _ACCURACIES else None
        key = (value.dataset, value.mechanism, value.noise, value.column * (value.quantity not in _ACCURACIES[:2]))
        quoted = value.mechanism != _QUOTING.get(value.paper, value.mechanism)
        if epsilon is None or quoted or (*key, epsilon, value.value) in seen:
            continue
        seen.add((*key, epsilon, value.value))
        yield _value_entry(value, epsilon)


def _row_key(value: Value) -> tuple[str | None, ...]:
    """Return a key that is the same for all values in one row of a paper's table.

    The key connects, for example, an accuracy with the ε in the same row.
    """
    # NZC 2020 (Sun et al.) prints two mechanisms in one row: “Clean Votes” and its own labels.
    return value.paper, value.table, value.row, value.dataset, value.mechanism


def _value_entry(value: Value, epsilon: float) -> Entry:
    """Return the entry of a published accuracy; `epsilon` is the ε in the same row of the paper's table."""
    authors, year = _PAPERS.get(value.paper, (None, None))
    of_records = value.mechanism in SYSTEMS
    system = ALL_SYSTEMS.get(value.mechanism) or in_words(value.mechanism or "")
    column = [value.column] if value.quantity == "accuracy_at_epsilon" else []
    place = (value.paper, value.dataset, value.table, value.row, value.column)
    paper_only = value.paper in ("NZC 2020", "PET-DL 2019") and value.mechanism not in ("lnmax", "confident-gnmax")
    kind = Kind.CLAIMED if of_records or paper_only else Kind.DATA_DEPENDENT
    return Entry(
        name=slug(*(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-") for part in place)),
        method=", ".join([system, *column]),
        paper=Paper(title=value.paper, authors=authors, year=year, place=f"{value.table}, {value.row}, {value.column}"),
        data=Data(private=value.dataset, records=_RECORDS.get(value.dataset)),
        privacy=Privacy(
            unit=Unit.RECORD,
            adjacency=Change.ADDED_OR_REMOVED if of_records else Change.REPLACED,
            delta=value.delta,
        ),
        claim=Claim(epsilon=epsilon, kind=kind),
        mechanism=_printed_mechanism(value),
        accuracy=Accuracy(mean=value.value),
        origin=Origin.PUBLISHED,
    )


def _printed_mechanism(value: Value) -> Release | None:
    """Return the mechanism that gave a published value; None if the paper states too little or patebench lacks it."""
    if value.mechanism == PETDL:
        return _PETDL_NOISE
    if value.mechanism not in MECHANISMS or not value.parameters or not value.queries:
        return None
    return VoteMechanism(  # no `answers`: the printed number depends on the votes and is not a limit
        type="votes",
        partition="one shard changes",  # the papers assume disjoint shards that are otherwise fixed
        name=value.mechanism,
        parameters=dict(value.parameters),
        queries=value.queries,
        teachers=value.teachers,
        classes=_CLASSES.get(value.dataset),
    )
