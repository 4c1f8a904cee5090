"""Read the files that stages exchange (artefacts), and check that they belong together.

Names in capitals are kinds of artefacts, defined in `core.formats`. SAMPLES and POOL contain data, PARTITION the
teachers' shards, CHUNK the votes of some teachers, and VOTES the votes of all teachers. QUERIES contains the queries
selected in one round, and LABELS the labels that a mechanism has drawn.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes, WeightedVotes
from patebench.core.checks import NotFiniteError, check_finite
from patebench.core.errors import ArtefactError, PatebenchError, located
from patebench.core.fields import show
from patebench.core.files import Artefact, nearest_file, read_arrays, read_facts, read_json
from patebench.core.formats import (
    ENCODER,
    LAYOUTS,
    PARTITION,
    PARTITION_FACTS,
    POOL,
    QUERIES,
    SAMPLES,
    VOTES,
    VOTING_FACTS,
)
from patebench.core.progress import progress
from patebench.core.text import plural
from patebench.data.division import hash_samples
from patebench.data.partitions import Change, check_disjoint
from patebench.features import DEFAULT, Encoder, encoder_class
from patebench.models import MODELS, Learner, on_queries, weighted

#: Number of samples for which predictions of a fitted learner are checked; a diverged learner predicts NaN for all.
_CHECKED_SAMPLES = 1000

#: Length of a stored SHA-256 digest.
_DIGEST_LENGTH = 64

#: Advice about files of rounds that do not belong together.
OF_ROUNDS = "give the files of consecutive rounds of one experiment, first round first, or run snakemake again"


def read_samples(path: Path, role: str) -> Artefact:
    """Return the samples in the file `path`; raise ArtefactError unless it states the role `role`, such as "test"."""
    samples = read_arrays(path, SAMPLES)
    if samples.meta["role"] != role:
        raise ArtefactError(
            path,
            f"it contains the {samples.meta['role']} samples instead of the {role} samples",
            f"give the file of the {role} samples",
            code="kind",
        )
    return samples


def check_partners(private: Artefact, public: Artefact) -> None:
    """Raise ArtefactError unless the samples `private` and `public` agree in data set, classes, shape and dtype."""
    for entry in ("dataset", "classes", "class_names"):
        public.require(entry, private.meta[entry], str(private.path))
    if (private["x"].dtype, private["x"].shape[1:]) != (public["x"].dtype, public["x"].shape[1:]):
        raise ArtefactError(
            public.path,
            f"its samples are {public['x'].dtype} of shape {public['x'].shape[1:]}, but those in {private.path} are"
            f" {private['x'].dtype} of shape {private['x'].shape[1:]}",
            "give public and private samples of the same data set",
        )


def records_outside(private: Artefact, *others: Artefact) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the samples `x` and labels `y` of the private records whose samples do not occur in `others`."""
    outside = ~np.isin(hash_samples(private["x"]), np.concatenate([hash_samples(other["x"]) for other in others]))
    return private["x"][outside], private["y"][outside]


def model_inputs(private: Artefact, pool: Artefact, test: Artefact, encoder: Path | None, seed: int) -> dict[str, Any]:
    """Return the metadata that results of a private model store about the inputs of its training.

    The metadata are the digests of the input files, the name of the data set, the parameters of the split, and `seed`.
    """
    return {
        "private": private.digest,
        "pool": pool.digest,
        "test": test.digest,
        **({"encoder": read_arrays(encoder, ENCODER).digest} if encoder else {}),
        "dataset": test.meta["dataset"],
        "split": test.meta["split"],
        "seed": seed,
    }


def private_features(encoder: Encoder, x: NDArray[Any]) -> NDArray[np.float64]:
    """Compute features (records, features) of private records `x`, each from one record alone; show the progress."""
    with progress("features of private records", len(x), "records") as done:
        return encoder.features_alone(x, done)


def check_together(**inputs: Artefact | Sequence[Artefact] | None) -> None:
    """Raise ArtefactError if the inputs of a stage do not belong together, according to the digests that they store.

    An artefact stores the digests of its parents, the artefacts from which it was made. If one input is a parent of
    another, its digest must be the stored one. If two inputs have a common parent, the stored digests must be equal.

    Parameters
    ----------
    inputs : one or several artefacts per keyword; None is ignored. The keyword of a parent must be the metadata key
        under which other artefacts store its digest, such as `pool` (see `parents` in `LAYOUTS`)
    """
    artefacts = [
        (name, artefact)
        for name, several in inputs.items()
        if several is not None
        for artefact in ([several] if isinstance(several, Artefact) else several)
    ]
    origins: dict[str, tuple[Any, Path]] = {name: (artefact.digest, artefact.path) for name, artefact in artefacts}
    for _, artefact in artefacts:
        for parent in LAYOUTS[artefact.meta["kind"]].parents:
            digest, path = origins.setdefault(parent, (artefact.meta.get(parent), artefact.path))
            artefact.require(parent, digest, str(path))


def check_in_place(source: Artefact) -> None:
    """Raise ArtefactError if the file of `source` (CHUNK or VOTES) was copied from another run or data set.

    `source` stores the digests of a partition and a pool. These are compared with the files partition.npz and pool.npz
    in the folder of `source` or the nearest parent folder that contains them. The digest of votes.npz is also compared
    with the digest in ensemble.json of the same folder. Missing and damaged files, and votes from a table, are not
    compared.
    """
    summary = source.path.parent / "ensemble.json"
    described: object = source.digest
    if source.path.name == "votes.npz" and summary.is_file():
        with suppress(ArtefactError):
            described = read_json(summary, "join_votes").get("votes")
    if described != source.digest:
        fault, fix = (
            f"it is not the file that {summary} describes",
            "restore it, or delete both and run snakemake again",
        )
        raise ArtefactError(source.path, fault, fix, code="mismatch")
    for parent, layout in (("partition", PARTITION), ("pool", POOL)):
        path = nearest_file(source.path.parent, f"{parent}.npz")
        if not path.is_file() or len(str(source.meta[parent])) != _DIGEST_LENGTH or source.meta["kind"] == "table":
            continue
        try:
            digest = read_facts(path, layout).get("digest")
        except ArtefactError:  # a damaged file, or one of another program
            continue
        source.require(parent, digest, str(path))


@contextmanager
def locate_faults(samples: Artefact) -> Iterator[None]:
    """Convert a NotFiniteError (NaN or infinity) raised in the `with` block to a PatebenchError about `samples`.

    The message names the file, the sample with the largest absolute value and, if known, the sample's row in the user's
    data.
    """
    try:
        yield
    except NotFiniteError as fault:
        first = np.array_equal(samples["x"][: len(fault.x)], fault.x)
        rows = samples.arrays.get("row") if first else None
        raise PatebenchError(f"{samples.path}: {NotFiniteError(fault.what, fault.x, rows)}") from None


def check_learner(name: str, learner: Learner, source: Artefact) -> None:
    """Raise PatebenchError if `learner` predicts NaN for samples of `source`, for example because training diverged.

    Only the first `_CHECKED_SAMPLES` samples are predicted. The message calls the learner `name`.
    """
    with locate_faults(source):
        predicted = learner.log_probabilities(source["x"][:_CHECKED_SAMPLES])
        check_finite(f"the predictions of the {name} are NaN", predicted, source["x"], infinite=True)


def read_encoder(path: Path, pool: Artefact) -> Encoder:
    """Return the encoder in the file `path`; raise ArtefactError if it is damaged or was trained on another pool."""
    stored = read_arrays(path, ENCODER)
    check_together(pool=pool, encoder=stored)
    try:
        return encoder_class(encoder_of(pool)).of(stored.arrays)
    except PatebenchError as fault:
        raise ArtefactError(path, str(fault)) from None


def encoder_of(pool: Artefact) -> str:
    """Return the name of the encoder that computes features of `pool`; `DEFAULT` if the metadata names no encoder."""
    return dict(pool.meta["split"] or {}).get("encoder") or DEFAULT


def read_partition(path: Path, private: Artefact) -> Artefact:
    """Return the partition in `path`; raise ArtefactError unless its shards are disjoint parts of `private`."""
    shards = read_arrays(path, PARTITION)
    check_together(private=private, partition=shards)
    if shards.meta["teachers"] != (held := len(shards["offsets"]) - 1):
        raise ArtefactError(
            path,
            f"its metadata state {show(shards.meta['teachers'])} teachers, but it contains {plural(held, 'shard')}",
            code="mismatch",
        )
    try:
        check_disjoint(shards["indices"], shards["offsets"], len(private["y"]), empty=bool(shards.meta.get("empty")))
    except PatebenchError as fault:
        raise ArtefactError(path, str(fault)) from None
    return shards


def read_votes(path: Path | str) -> tuple[Artefact, Votes]:
    """Return the votes in the file `path`, as an artefact (arrays and metadata) and as `Votes`.

    If queries were selected in rounds, the votes include the number of queries of each round. Raises PatebenchError if
    a teacher abstains although the file does not state that teachers may abstain.
    """
    source = read_arrays(path, VOTES)
    with located(path):
        return source, replace(votes_of(source), rounds=tuple(source.meta.get("rounds", ())))


def votes_of(source: Artefact) -> Votes:
    """Return the votes in `source`, a file of votes; raise PatebenchError if they contradict its metadata."""
    classes, labels_only = int(source.meta["classes"]), protects_labels_only(source)
    if "votes" in source.arrays:
        return replace(
            Votes.of(source["votes"], classes, abstentions=may_abstain(source)),
            labels_only=labels_only,
        )
    weighted = WeightedVotes.of(source["weights"], source["row_labels"], source["row_teachers"], classes)
    if labels_only and len(np.unique(weighted.teachers)) < len(weighted.teachers):
        line = (
            "a teacher votes for several labels, but must have one record if only labels are private; recreate the"
            " partition with --protects labels"
        )
        raise PatebenchError(line, code="labels")
    return replace(Votes.from_weights(weighted, int(source.meta["teachers"]), classes), labels_only=labels_only)


def protects_labels_only(source: Artefact) -> bool:
    """Return True if only the label of each private record is protected (label differential privacy).

    `source` is a file with a partition (PARTITION), or a file made with one.
    """
    return source.meta.get("protects") == [Change.LABEL]


def check_pool_protection(pool: Artefact, partition: Artefact | None = None, *, labels_only: bool = False) -> None:
    """Raise ArtefactError if `pool` and the method that uses it protect different things: samples, or only labels.

    A pool made with the option `--protects labels` needs a method that protects only labels. This means a `partition`
    that protects only labels or, for a method without a partition, that `labels_only` is True. If `labels_only` is
    True, the pool must have been made with the option.
    """
    drawn = (pool.meta["split"] or {}).get("protects") is not None
    if drawn and not (labels_only or (partition is not None and protects_labels_only(partition))):
        fault = "it was made with --protects labels, but the partition or the method protects whole samples"
        fix = "make the pool without --protects labels, or the partition with --protects labels"
    elif labels_only and not drawn:
        fault = "it was made without --protects labels, but the method protects only the labels of private samples"
        fix = "make it with --protects labels"
    else:
        return
    raise ArtefactError(pool.path, fault, fix, code="labels")


def partition_facts(source: Artefact) -> dict[str, Any]:
    """Return the metadata on the partition of `source` that files of labels store, with the keys `PARTITION_FACTS`.

    The metadata are the rule that assigns records to teachers, and the changes of the data that alter at most one
    shard. `source` is a PARTITION, or a CHUNK or VOTES made with one. For votes without a partition, such as a table,
    the values are None.
    """
    rule = {"partition_rule": source.meta["strategy"]} if source.meta["kind"] == PARTITION.kind else {}
    return {name: {**source.meta, **rule}.get(name) for name in PARTITION_FACTS}


def private_facts(source: Artefact) -> dict[str, Any]:
    """Return the metadata of `source` (PARTITION) on the private data that only private files with votes store.

    The metadata are the digest and the number of the records and, if the partition is by owner, the digest of the
    grouping of the records by owner.
    """
    owners = {"owners": source.meta["owners"]} if "owners" in source.meta else {}
    return {**{name: source.meta.get(name) for name in ("records", "samples")}, **owners}


def check_drawn_from(labels: Artefact, source: Artefact, votes: Votes) -> None:
    """Raise ArtefactError if the metadata of `labels` show that the labels were not drawn from `votes`.

    `source` is the file of these votes. Both files must store the same pool, numbers of classes and teachers, partition
    and kind of votes (for example, with abstentions). Labels with seeded noise must also store the digest of the votes.
    Labels of a release or of secure aggregation store no digest; they are compared by the other metadata only.
    """
    stored = {**labels.meta, "teachers": labels.meta.get("ensemble", labels.meta["teachers"])}
    held = {
        **{"votes": source.digest, "pool": source.meta["pool"], "classes": votes.classes, "teachers": votes.teachers},
        **{"abstentions": votes.abstentions, **partition_facts(source)},
        **({name: source.meta.get(name) for name in VOTING_FACTS} if "noisy_counts" in labels.arrays else {}),
    }
    for name, value in held.items():
        if stored.get(name) != value and not (name == "votes" and stored[name] is None):
            if name in ("votes", "pool"):
                raise ArtefactError(
                    labels.path,
                    f"it was drawn from {'other votes' if name == 'votes' else 'another pool'} than {source.path}",
                    "give the votes from which the labels were drawn",
                    code="mismatch",
                )
            raise ArtefactError(
                labels.path,
                f"its '{name}' is {show(stored.get(name))}, but that of {source.path} is {show(value)}",
                "give the votes from which the labels were drawn",
                code="mismatch",
            )


def may_abstain(source: Artefact) -> bool:
    """Return True if the teachers whose votes are in `source` (CHUNK or VOTES) may abstain on a query."""
    return bool(source.meta.get("abstentions", False))


def voting_facts(chunk: Artefact) -> dict[str, Any]:
    """Return metadata on the votes in `chunk` if its teachers are not trained; {} if they are trained.

    Without training, each record votes for its own label, on queries that public features determine. The key
    `neighbours` contains the training parameter of the same name: the number of nearest queries on which each record
    votes, or None if it was not set. The key `weighted` (True) exists only if votes have weights.
    """
    model = chunk.meta["model"]
    if model not in MODELS or not on_queries(model):
        return {}
    weights = {"weighted": True} if weighted(model) else {}
    return {"neighbours": chunk.meta["training"].get("neighbours"), **weights}


def check_whole_pool(source: Artefact) -> None:
    """Raise ArtefactError if `source` (CHUNK or VOTES) contains only votes on selected queries of the pool."""
    if "queries" in source.arrays:
        raise ArtefactError(
            source.path,
            f"it contains votes on {len(source['queries'])} selected queries, but votes on the whole pool are needed",
            "give votes of an experiment without the key 'queries'",
            code="queries",
        )


def query_positions(labels: Artefact, pool_size: int, pool_path: Path, fix: str | None = None) -> NDArray[np.integer]:
    """Return the positions (queries,) of the queries of `labels` in a pool of `pool_size` samples.

    If `labels` stores none, the queries are the first samples of the pool. Raises ArtefactError if a position is not in
    the pool or occurs twice. The message names the file `pool_path` of the pool and ends with the advice `fix`.
    """
    positions: NDArray[np.integer] = labels.arrays.get("queries", np.arange(len(labels["labels"])))
    values, counts = np.unique(positions, return_counts=True)
    if values[-1] >= pool_size:
        fault = f"its query {values[-1]} (counted from 0) is not among the {pool_size} samples of {pool_path}"
    elif len(values) < len(positions):
        fault = f"its query {values[counts > 1][0]} occurs twice"
    else:
        return positions
    raise ArtefactError(labels.path, fault, fix or "give labels of queries in this pool", code="queries")


@dataclass(frozen=True, eq=False)
class Selected:
    """Queries that were selected in one or several rounds, in order.

    `files` are the files of queries, one per round. `positions` (queries,) are the positions of all queries in the
    pool. `predictions` (queries, classes) are the class probabilities that the student of each round predicted for the
    queries of this round: zeros in rounds without a student. If no round had a student, `predictions` is None.
    """

    files: list[Artefact]
    positions: NDArray[np.integer]
    #: Index (queries,) of each selected query among the queries of the votes.
    columns: NDArray[np.integer]
    predictions: NDArray[np.floating] | None

    @classmethod
    def read(cls, paths: Sequence[Path], votes: Artefact) -> "Selected":
        """Return the queries in the files `paths` (QUERIES), which contain one round each, first round first.

        Raises ArtefactError if `votes` lack one of these queries. `votes` may also contain earlier rounds, but the last
        rounds in `votes` must be those of `paths`.
        """
        files = [read_arrays(path, QUERIES) for path in paths]
        for file in files:
            for entry in ("pool", "classes"):
                file.require(entry, votes.meta[entry], str(votes.path))
        positions = np.concatenate([file["queries"] for file in files])
        check_distinct(positions, paths[-1])
        return cls(files, positions, _vote_columns(files, positions, votes), _predictions(files, votes.meta["classes"]))

    def facts(self) -> dict[str, Any]:
        """Return the metadata on rounds that files of labels and bounds store.

        The key `rounds` contains the strategy, student and number of queries of each round. The key `queries_files`
        contains the digests of the files of queries.
        """
        rounds = [
            {**{name: file.meta[name] for name in ("strategy", "student")}, "queries": len(file["queries"])}
            for file in self.files
        ]
        return {"rounds": rounds, "queries_files": [file.digest for file in self.files]}

    def votes(self, votes: Votes) -> Votes:
        """Return `votes` on the selected queries, with the students' predictions for them and the round sizes."""
        chosen = votes.at(self.columns).with_predictions(self.predictions)
        return replace(chosen, rounds=tuple(len(file["queries"]) for file in self.files))


def check_distinct(positions: NDArray[np.integer], path: Path) -> None:
    """Raise ArtefactError about the file `path` if a query occurs twice in `positions`."""
    values, counts = np.unique(positions, return_counts=True)
    if len(values) < len(positions):
        fault = f"query {values[counts > 1][0]} was selected more than once over all rounds"
        raise ArtefactError(path, fault, OF_ROUNDS, code="rounds")


def _vote_columns(files: Sequence[Artefact], positions: NDArray[np.integer], votes: Artefact) -> NDArray[np.integer]:
    """Return the index (queries,) of each selected query among the queries of `votes`.

    `positions` (queries,) are the positions of the selected queries in the pool, read from `files`, one file per round.
    Raises ArtefactError if `votes` lacks a query, or was made for other files of queries.
    """
    if "queries_files" not in votes.meta:
        check_whole_pool(votes)
        if "votes" not in votes.arrays or positions.max() >= votes["votes"].shape[1]:
            fault = f"it selects a sample of the pool on which {votes.path} has no votes"
            raise ArtefactError(files[-1].path, fault, OF_ROUNDS, code="rounds")
        return positions
    held = votes["queries"]
    columns = np.arange(len(held) - len(positions), len(held))
    if votes.meta["queries_files"][-len(files) :] != [file.digest for file in files]:
        fault = f"its votes of the last rounds are not on the queries of {', '.join(str(f.path) for f in files)}"
    elif not np.array_equal(held[columns], positions):
        fault = f"its array `queries` does not contain the queries of {', '.join(str(f.path) for f in files)}"
    else:
        return columns
    raise ArtefactError(votes.path, fault, OF_ROUNDS, code="rounds")


def _predictions(rounds: Sequence[Artefact], classes: int) -> NDArray[np.floating] | None:
    """Return the students' predictions (queries, classes) on the queries of all `rounds`.

    The predictions are zeros in rounds before the first student. The result is None if no round has predictions.
    """
    if not any("predictions" in file.arrays for file in rounds):
        return None
    # Rounds before the first student have no predictions.
    nothing = [np.zeros((len(file["queries"]), classes), np.float32) for file in rounds]
    return np.concatenate([file.arrays.get("predictions", zero) for file, zero in zip(rounds, nothing, strict=True)])
