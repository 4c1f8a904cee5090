"""Convert artefacts to records, the rows of the tables behind figures and reports; read the manifest of a run.

Records name splits, trainings, students and rounds by slugs: short texts that list parameters. Slugs are computed from
the metadata of artefacts, never from paths. The classes in `config.parameters` compute slugs and names of folders, so
tables and folders use equal names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from patebench.config.parameters import SplitParameters, StudentParameters, TrainingParameters, baseline_slug
from patebench.core.bound import Bound
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.errors import ArtefactError, PatebenchError, in_one_line
from patebench.core.fields import Parameters
from patebench.core.files import Artefact, read_any_json, read_arrays, read_json
from patebench.core.formats import LABELS, POOL
from patebench.core.seeds import Mode
from patebench.core.spelling import parameters_slug, slug
from patebench.features import ENCODERS, data_seen
from patebench.mechanisms.base import mechanism_of

if TYPE_CHECKING:
    from patebench.reporting.frames import Records
    from patebench.reporting.publishable import Release


#: Kinds of artefacts of private models.
PRIVATE_MODEL_KINDS = ("train_dpsgd", "train_petdl", "train_private_knn", "train_on_features")

#: Entries that records take from a private model: required ones, then optional ones.
_PRIVATE_MODEL = ("system", "form", "private_model", "parameters", "model", "model_parameters", "accuracy", "seconds")
_OPTIONAL = (
    *("teachers", "ensemble", "audited", "verdict", "answered", "label_accuracy"),
    *("public_use", "public_samples"),
    *(name.format(what) for name in ("{}", "label_{}") for what in BESIDE_ACCURACY),
)

Facts = dict[str, Any]
P = TypeVar("P", bound=Parameters)


def select_entries(path: Path, content: Any, names: Sequence[str]) -> Facts:
    """Return the entries of `content` with the keys `names`; raise ArtefactError about `path` if a key is missing."""
    for name in names:
        if not isinstance(content, Mapping) or name not in content:
            raise ArtefactError(path, f"it lacks '{name}'")
    return {name: content[name] for name in names}


def select_present(content: Facts, names: Iterable[str]) -> Facts:
    """Return the entries of `content` with keys among `names`; older artefacts may lack some of these keys."""
    return {name: content[name] for name in names if name in content}


def split_columns(path: Path, content: Facts) -> Facts:
    """Return the columns of a record that describe the split of an artefact, such as `dataset` and `seed`.

    - `split`: name of the split, with the seed
    - `setting`: name of the split, without the seed
    - `beside_pool`: name of the split, without the seed and without the size of the pool
    - `pool`: number of pool samples
    - `encoder_data`: name of the public data, besides the pool, on which the encoder was trained
    - `features_data`: if the samples of the data set are features, name of the data on which the encoder of these
      features was trained
    """
    facts = select_entries(path, content, ("dataset", "seed", "split"))
    cut = _read(path, SplitParameters, facts["split"], "split")
    named = {"split": slug(("seed", facts["seed"]), cut.slug), "setting": cut.slug}
    own = cut.encoder not in (None, *ENCODERS)
    named["encoder_data"] = (own and cut.encoder_data) or data_seen(cut.encoder)
    named["features_data"] = (not own and cut.encoder_data) or ""
    return {**facts, **named, "pool": cut.pool, "beside_pool": slug(*cut.parts("pool"))}


def training_slug(path: Path, content: Facts) -> str:
    """Return a name for a model's training parameters, as used in tables and folder names."""
    return _training(path, content).slug


def ensemble_slug(path: Path, summary: Facts) -> str:
    """Return a name for an ensemble, made of its number of teachers, selected queries, partition and training.

    For imported votes, the name of the votes replaces the queries and the training. `summary` is the content of the
    file `path` (ensemble.json).
    """
    facts, queries = select_entries(path, summary, ("teachers", "partition")), ("queries", summary.get("queries"))
    if summary.get("imported"):
        return slug(("teachers", facts["teachers"]), facts["partition"], str(summary.get("model")))
    return slug(("teachers", facts["teachers"]), queries, facts["partition"], training_slug(path, summary))


def _baseline_records(path: Path, content: Facts) -> list[Facts]:
    """Return a list with the record (kind "baseline") of a model trained without privacy."""
    facts = select_entries(path, content, ("model", "recipe", "epochs", "true_labels", "accuracy"))
    learner = baseline_slug(_training(path, content), facts["true_labels"])
    measured = select_present(content, BESIDE_ACCURACY)
    return [{"record": "baseline", **split_columns(path, content), "learner": learner, **facts, **measured}]


def _naming_records(path: Path, content: Facts) -> list[Facts]:
    """Return a list with one record (kind "naming"): accuracies from the stage `name_clusters`.

    The stage labels clusters of public samples by true labels, to measure the accuracy that public data alone reach.
    """
    facts = select_entries(path, content, ("clusters", "accuracy", "accuracy_pool", "matched_accuracy"))
    return [{"record": "naming", **split_columns(path, content), **facts, **select_present(content, BESIDE_ACCURACY)}]


def private_model_records(path: Path, content: Facts) -> list[Facts]:
    """Return the records (kind "private_model") of a private model, such as DP-SGD, in `path`: one per bound on ε."""
    facts = select_entries(path, content, _PRIVATE_MODEL)
    same = {"record": "private_model", **split_columns(path, content), **facts}
    same |= {name: content.get(name) for name in _OPTIONAL}
    bounds = select_entries(path, content, ("bounds",))["bounds"]
    if not isinstance(bounds, list) or not bounds:
        raise ArtefactError(path, "its entry 'bounds' is not a list of bounds on ε")
    try:
        return [{**same, **Bound.from_json(bound).to_json()} for bound in bounds]
    except PatebenchError as fault:
        raise ArtefactError(path, f"its entry 'bounds' contains an invalid bound ({fault})") from None


def student_slug(path: Path, content: Facts, *, whole_pool: bool) -> str:
    """Return a name for a student, made of its method and options.

    `whole_pool` is False if queries were selected in rounds of active learning. If it is True, the name also contains
    the number of queries on which the student was trained.
    """
    config = _read(path, StudentParameters, content["config"], "config")
    return config.slug_of(content["queries"]) if whole_pool else config.slug


def round_columns(path: Path, content: Mapping[str, Any]) -> Facts:
    """Return four columns of a record that describe the rounds in which queries were selected.

    `content` is the metadata of labels. The columns are:

    - `selection`: a list of the rounds, each with a student, a strategy and a number of queries
    - `rounds`: a text with the student of the first round, and the strategy and number of queries of each round
    - `strategy`: the strategy of the last round
    - `round`: the number of the last round, counted from 0

    Without rounds, `round` is 0 and the other columns are empty.
    """
    stored = select_entries(path, content, ("rounds",))["rounds"]
    if not isinstance(stored, list):
        raise ArtefactError(path, "its entry 'rounds' is not a list")
    rounds = [select_entries(path, facts, ("strategy", "queries", "student")) for facts in stored]
    student = _read(path, StudentParameters, rounds[0]["student"], "student").slug if rounds else None
    selected = slug(student, *((facts["strategy"], facts["queries"]) for facts in rounds))
    last = rounds[-1]["strategy"] if rounds else ""
    return {"rounds": selected, "strategy": last, "round": max(len(rounds) - 1, 0), "selection": rounds}


def _training(path: Path, content: Facts) -> TrainingParameters:
    return _read(path, TrainingParameters, select_entries(path, content, ("training",))["training"], "training")


def _read(path: Path, model: type[P], facts: Any, entry: str) -> P:
    try:
        return model.checked(facts, entry, record=True)
    except PatebenchError as fault:
        raise ArtefactError(path, f"its entry '{entry}' is invalid ({fault})") from None


def read_records(files: Iterable[Path]) -> "Records":
    """Return the records in all `files`; raise ArtefactError for the first invalid file.

    Each file is an artefact of a kind in `RECORD_KINDS`, such as the collected results of an ensemble or an audit.
    """
    from patebench.reporting.frames import records_of

    records = []
    for path in files:
        content, _ = read_any_json(path)
        if (kind := content["kind"]) not in _READERS:
            needed = " or ".join(_READERS)
            fault = f"it is a file of kind '{kind}', which cannot be used here"
            raise ArtefactError(path, fault, f"give a file of kind {needed}")
        records += [(path, record) for record in _READERS[kind](path, content)]
    return records_of(records)


def _collected_records(path: Path, content: Facts) -> list[Facts]:
    records = content.get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ArtefactError(path, "its entry 'records' is not a list of JSON objects")
    return records


def _audit_records(path: Path, content: Facts) -> list[Facts]:
    """Return one record per bound in the audit file `path`: stated upper bounds on ε, and measured lower bounds."""
    try:
        names = ("dataset", "teachers", "classes", "mechanism", "parameters", "runs", "confidence")
        facts = {name: content[name] for name in names}
        noise = parameters_slug({name: float(value) for name, value in facts["parameters"].items()})
        bounds = [bound for finding in content["findings"] for bound in finding["bounds"]]
        return [{"record": "audit", **facts, "noise": noise, **bound} for bound in bounds]
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ArtefactError(path, f"an entry of this audit is missing or invalid ({in_one_line(fault)})") from None


#: Readers of artefacts with records, by kind.
_READERS: Mapping[str, Callable[[Path, Facts], Sequence[Facts]]] = {
    "collect": _collected_records,
    "train_baseline": _baseline_records,
    "name_clusters": _naming_records,
    "audit": _audit_records,
    **dict.fromkeys(PRIVATE_MODEL_KINDS, private_model_records),
}
#: The kinds of artefacts that `read_records` reads.
RECORD_KINDS = tuple(_READERS)


def read_releases(
    labels: Sequence[Path] = (),
    bounds: Sequence[Path] = (),
    students: Sequence[Path] = (),
    pools: Sequence[Path] = (),
) -> "list[Release]":
    """Return the releases whose labels are in the files `labels`, in this order, with bounds, students and pools.

    Files are matched by digests: bounds and students store the digest of the labels, and labels the digest of the pool.
    Raises ArtefactError for labels that are not a release, for labels without bounds or pool, and for bounds and
    students of other labels.
    """
    from patebench.reporting.publishable import Release, Student

    released = [read_arrays(path, LABELS) for path in labels]
    for release in released:
        if release.meta["mode"] != Mode.RELEASE:
            raise ArtefactError(
                release.path,
                "its labels were drawn with noise from a seed, so they are not a release and must not be published",
                "give labels that were drawn with --release",
                code="mismatch",
            )
    known_pools = {pool.digest: dict(pool.meta) for pool in (read_arrays(path, POOL) for path in pools)}
    known_bounds = dict(_read_result_of_labels(path, "account", released) for path in bounds)
    learnt: dict[str, list[Student]] = {}
    for path in students:
        digest, content = _read_result_of_labels(path, "train_student", released)
        facts = select_entries(path, content, ("method", "model", "queries", "answered", "accuracy"))
        facts |= select_present(content, BESIDE_ACCURACY)
        learnt.setdefault(digest, []).append(Student(labels=facts.pop("answered"), **facts))
    for release in released:
        pool = release.meta["pool"]
        for what, known in (("bounds", release.digest in known_bounds), ("pool", pool in known_pools)):
            if not known:
                raise ArtefactError(
                    release.path,
                    f"none of the given files contains the {what} of these labels",
                    f"give the file of the {what} too",
                )
    return [
        Release(
            labels=release["labels"].tolist(),
            facts={**release.meta, "parameters": mechanism_of(release.meta).parameters()},
            bounds=[Bound.from_json(bound) for bound in known_bounds[release.digest]["bounds"]],
            protection=known_bounds[release.digest].get("protection"),
            ledger_protects=known_bounds[release.digest].get("ledger_protects"),
            pool=known_pools[release.meta["pool"]],
            students=learnt.get(release.digest, []),
        )
        for release in released
    ]


def _read_result_of_labels(path: Path, kind: str, released: Sequence[Artefact]) -> tuple[str, Facts]:
    """Return the digest of the labels from which the stage `kind` made the file `path`, and the content of this file.

    Raises ArtefactError if these labels are not among `released`.
    """
    content = read_json(path, kind)
    if content.get("labels") not in {release.digest for release in released}:
        raise ArtefactError(
            path, "it was made from labels that are not among the given files", "give the file of these labels too"
        )
    return content["labels"], content


def read_manifest(path: Path, *more: str) -> dict[str, Any]:
    """Return the content of a manifest; raise ArtefactError if it lacks a required entry or one named in `more`."""
    content = read_json(path, "manifest")
    required = ("config", "seeds", "versions", "commit", "hardware", "rules", "started", "finished")
    select_entries(path, content, (*required, *more))
    return content
