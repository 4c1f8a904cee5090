"""Test one vote per record on files: a replaced record changes no public file and at most two cells of the table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import Divided, briefly, change_record, nearest
from tests.stages.labels import state_bounds

from patebench.accounting import independent
from patebench.artefacts.records import read_records
from patebench.artefacts.student_data import student_data
from patebench.config.parameters import (
    KeptOutputs,
    PartitionParameters,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TrainingParameters,
)
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import CHUNK, ENCODER, FEATURES, LABELS, POOL, QUERIES, SAMPLES, TRUTH, VOTES
from patebench.decoding import table_likelihood
from patebench.features import contrast, patches, principal_axes
from patebench.features.query_clusters import QueryClusters
from patebench.stages import (
    aggregate,
    collect,
    extract_features,
    name_clusters,
    partition,
    secure_open,
    secure_share,
    secure_sum,
    select_queries,
    train_student,
    train_teachers,
)

pytestmark = pytest.mark.slow

STREAM, TEACHERS, K = "one-vote", 600, 12
NAMED: dict[str, Any] = {"seed": 0, "stream": STREAM}
SETTING = {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 3.0}}


class OneVote(Divided):
    """All stages on the embedded digits, with an encoder that is trained only briefly."""

    training = TrainingParameters(model="nearest-query")
    selection = SelectionParameters(strategy="prototypes", queries=K)
    teachers, sigma = TEACHERS, 3.0

    def __init__(
        self, folder: Path, parameters: SplitParameters | None = None, option: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, parameters or SplitParameters(pool=100, test=100), STREAM, option)

    def encode(self) -> None:
        with briefly():
            self.extract()

    def extract(self) -> None:
        extract_features.run(pool=self.pool, **NAMED, out=self.file("features.npz"), encoder=self.file("encoder.npz"))

    def prepare(self) -> None:
        """Make the public files and the partition of the records."""
        self.encode()
        features = self.file("features.npz") if self.selection.strategy == "prototypes" else None
        select_queries.run(
            pool=self.pool, labels=None, predictions=None, features=features, student=None,
            selection=self.selection, **NAMED, out=self.file("queries.npz"),
        )  # fmt: skip
        self.deal()

    def deal(self, **changes: Any) -> None:
        given = {"teachers": self.teachers, "parameters": PartitionParameters(), "out": self.file("partition.npz")}
        partition.run(**self.files("private", "public"), **NAMED, **{**given, **changes})

    def vote(self, first: int = 0, last: int | None = None, **changes: object) -> Path:
        last = self.teachers - 1 if last is None else last
        out = self.file(f"{first}-{last}.npz")
        files = self.files("private", "partition", "pool", "test", "features", "encoder")
        voting = {"selected": [self.file("queries.npz")], "teachers": (first, last), "training": self.training}
        train_teachers.run(**{**files, **voting, **NAMED, "out": out, **changes})  # type: ignore[arg-type]
        return out

    def complete(self) -> Self:
        self.prepare()
        self.join(self.vote())
        self.label()
        return self

    def label(self, k: float = 1.0) -> Path:
        setting = {"mechanism": "sparse-gnmax", "parameters": {"k": k, "sigma": self.sigma}}
        out = self.file("labels.npz" if k == 1 else f"labels-{k:g}.npz")
        aggregate.run(votes=self.file("votes.npz"), **setting, **NAMED, out=out)  # type: ignore[arg-type]
        return out

    def learn(
        self, labels: str | Path = "labels.npz", queries: int | None = None, reads: str = "encoder", **parameters: Any
    ) -> dict[str, Any]:
        """Return the result of a student, which reads the encoder or another file of the pool."""
        train_student.run(
            pool=self.pool, labels=self.folder / labels, test=self.test, parameters=StudentParameters(**parameters),
            queries=queries or self.selection.queries, **NAMED, **{reads: self.file(f"{reads}.npz")},
            out=self.file("student.json"), predictions=self.file("predictions.npz"),
        )  # fmt: skip
        return read_json(self.file("student.json"), "train_student")

    def collect(self) -> dict[str, dict[str, Any]]:
        """Return the records of the ensemble, the labels and the student, and the last bound, by kind of record."""
        files = {"labels": "labels.npz", "bounds": "bounds.json", "students": "student.json"}
        collect.run(
            ensemble=self.file("ensemble.json"), votes=self.file("votes.npz"), truth=self.truth,
            **{option: [self.file(name)] for option, name in files.items()}, out=self.file("collected.json"),
        )  # fmt: skip
        return {each["record"]: each for each in read_json(self.file("collected.json"), "collect")["records"]}

    def epsilon(self, labels: Path) -> float:
        out = state_bounds(self.file("votes.npz"), labels, [], self.file("bounds.json"), **NAMED)
        return min(float(bound["epsilon"]) for bound in read_json(out, "account")["bounds"])


class Neighbours(OneVote):
    """Stages in which each record votes on its nearest three queries, by features of patches."""

    training = TrainingParameters(model="nearest-query", neighbours=3)
    selection = SelectionParameters(strategy="random", queries=40)
    sigma = 2.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=100, test=100, encoder="patches"))

    def encode(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(principal_axes, "WIDTH", 30)
            for name, value in {"CLUSTERS": 20, "PATCHES": 2000, "ROUNDS": 2}.items():
                patch.setattr(patches, name, value)
            self.extract()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> OneVote:
    return OneVote(tmp_path_factory.mktemp("one")).complete()


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Neighbours:
    return Neighbours(tmp_path_factory.mktemp("several")).complete()


def test_votes_are_of_the_selected_queries_alone_and_do_not_depend_on_chunks(world: OneVote, tmp_path: Path) -> None:
    whole = read_arrays(world.vote(), CHUNK)
    parts = [read_arrays(world.vote(*ends), CHUNK) for ends in ((0, 0), (1, 399), (400, 599))]
    assert np.array_equal(whole["votes"], np.concatenate([part["votes"] for part in parts]))
    assert whole["votes"].shape == (TEACHERS, K)
    assert "test_votes" not in whole.arrays
    asked = read_arrays(world.file("queries.npz"), QUERIES)["queries"]
    assert np.array_equal(whole["queries"], asked)
    assert ((whole["votes"] >= 0).sum(axis=1) == np.diff(np.load(world.file("partition.npz"))["offsets"])).mean() > 0.8


def test_ensemble_labels_bounds_and_records_are_of_the_selected_queries(world: OneVote) -> None:
    labels, votes = read_arrays(world.file("labels.npz"), LABELS), read_arrays(world.file("votes.npz"), VOTES)
    truth = read_arrays(world.truth, TRUTH)["y"][votes["queries"]]
    assert np.array_equal(labels["queries"], votes["queries"])
    assert np.array_equal(labels["labels"], labels["noisy_counts"].argmax(axis=1))
    summary = read_json(world.file("ensemble.json"), "join_votes")
    counts = np.stack([(votes["votes"] == label).sum(axis=0) for label in range(10)], axis=1)
    assert summary["plurality_accuracy_pool"] == pytest.approx(np.mean(counts.argmax(axis=1) == truth))
    assert summary["plurality_accuracy_test"] is None
    assert summary["queries"] == K
    assert world.epsilon(world.file("labels.npz")) == pytest.approx(1.866, abs=1e-3)
    world.learn(reads="features", method="supervised", model="logistic")
    records = world.collect()
    right = np.mean(labels["labels"] == truth)
    assert records["label_set"]["label_accuracy"] == records["student"]["label_accuracy"] == pytest.approx(right)
    assert 0.5 < records["label_set"]["expected_label_accuracy"] < 1
    assert records["ensemble"]["ensemble"] == f"teachers-{TEACHERS}_queries-{K}_iid_nearest-query_modern"


def cells(world: OneVote) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of pool and test samples, by plain distances."""
    vectors = read_arrays(world.file("features.npz"), FEATURES)["vectors"]
    asked = read_arrays(world.file("queries.npz"), QUERIES)["queries"]
    encoder = contrast.ContrastEncoder.of(read_arrays(world.file("encoder.npz"), ENCODER).arrays)
    unseen = encoder.features(read_arrays(world.test, SAMPLES)["x"])
    first = nearest(vectors, vectors[asked])
    means = np.array([vectors[first == place].mean(axis=0) for place in range(len(asked))])
    return nearest(vectors, means), nearest(unseen, means)


def test_clusters_are_named_by_true_labels_of_the_pool_and_measured_on_the_test_set(world: OneVote) -> None:
    known = {**world.files("pool", "truth", "test", "features", "encoder"), "selected": world.file("queries.npz")}
    name_clusters.run(**known, out=world.file("naming.json"))
    told = read_json(world.file("naming.json"), "name_clusters")
    in_pool, in_test = cells(world)
    truth, unseen = read_arrays(world.truth, TRUTH)["y"], read_arrays(world.test, SAMPLES)["y"]
    names = np.array([np.bincount(truth[in_pool == cell], minlength=10).argmax() for cell in range(K)])
    assert told["accuracy"] == np.mean(names[in_test] == unseen)
    assert told["accuracy_pool"] == np.mean(names[in_pool] == truth)
    assert (told["clusters"], told["matched_accuracy"]) == (K, None)
    (record,) = read_records([world.file("naming.json")]).namings.to_dict("records")
    assert (record["setting"], record["pool"], record["clusters"]) == ("pool-100_test-100", 100, K)


def test_one_record_replaced_changes_nothing_public_and_two_cells_per_vote(several: Neighbours, tmp_path: Path) -> None:
    moved = []
    for record in (3, 77):
        other = Neighbours(tmp_path / str(record))
        change_record(other.private, record)
        other.prepare()
        for name in ("encoder.npz", "features.npz", "queries.npz"):
            assert other.file(name).read_bytes() == several.file(name).read_bytes(), name
        other.join(other.vote())
        votes = [read_arrays(each.file("votes.npz"), VOTES)["votes"] for each in (several, other)]
        assert (votes[0] != votes[1]).any(axis=1).sum() <= 1
        for k in (1, 3):
            tables = [read_arrays(each.label(k), LABELS)["noisy_counts"] for each in (several, other)]
            change = np.round(tables[1] - tables[0])
            assert np.allclose(change, tables[1] - tables[0], atol=1e-9)
            assert np.abs(change).max() <= 1
            moved.append(np.square(change).sum())
            assert moved[-1] <= 2 * k
    assert max(moved) > 2


def test_what_does_not_fit_together_is_one_line(world: OneVote) -> None:
    distributed = {"mechanism": "distributed-gnmax", "parameters": {"sigma": 3.0, "tolerance": 0.0}}
    shares = {"teachers": TEACHERS, "out": [world.file("a.npz"), world.file("b.npz")], **NAMED}
    plain = {"mechanism": "gnmax", "parameters": {"sigma": 3.0}, "out": world.file("refused.npz"), **NAMED}
    refused: list[tuple[str, Callable[[], object]]] = [
        ("vote by public features; give --features and --encoder", lambda: world.vote(features=None)),
        ("uses no features", lambda: world.vote(0, 1, training=TrainingParameters(model="logistic"))),
        ("compute no probabilities", lambda: world.vote(kept=KeptOutputs(soft=(1.0,)))),
        ("'supervised' uses no features; leave out --encoder", lambda: world.learn(method="supervised")),
        ("mechanism distributed-sparse-gnmax", lambda: secure_share.run(chunk=world.vote(), **distributed, **shares)),
        ("these teachers may abstain", lambda: aggregate.run(votes=world.file("votes.npz"), **plain)),
    ]  # fmt: skip
    for words, call in refused:
        with pytest.raises(PatebenchError, match=words):
            call()


def test_the_secure_path_leads_to_the_same_labels_bound_and_student(several: Neighbours) -> None:
    setting = {"mechanism": "distributed-sparse-gnmax", "parameters": {"k": 3.0, "sigma": 50.0, "tolerance": 6.0}}
    secure, alone = several.file("secure.npz"), several.file("plain.npz")
    chunks, sums = [several.vote(*ends) for ends in ((0, 249), (250, 599))], []
    held = [[several.file(f"{aggregator}-{chunk.name}") for aggregator in "ab"] for chunk in chunks]
    for chunk, out in zip(chunks, held, strict=True):
        secure_share.run(chunk=chunk, teachers=TEACHERS, **setting, **NAMED, out=out)  # type: ignore[arg-type]
    for aggregator, shares in zip("ab", zip(*held, strict=True), strict=True):
        sums.append(several.file(f"{aggregator}.npz"))
        secure_sum.run(shares=list(shares), out=sums[-1])
    secure_open.run(sums=sums, labels=secure, counts=several.file("counts.npz"))
    aggregate.run(votes=several.file("votes.npz"), **setting, **NAMED, out=alone)  # type: ignore[arg-type]
    opened, plain = read_arrays(secure, LABELS), read_arrays(alone, LABELS)
    assert opened.arrays.keys() == plain.arrays.keys()
    assert all(np.array_equal(opened[name], plain[name]) for name in ("labels", "noisy_counts", "queries"))
    assert {name: opened.meta.get(name) for name in plain.meta} == {**plain.meta, "votes": None}
    assert several.epsilon(secure) == pytest.approx(independent.gaussian_dp(np.sqrt(6) / 50, 1e-5), abs=1e-3)
    accuracies = [several.learn(labels, method="table-regression")["accuracy"] for labels in (secure, alone)]
    assert accuracies[0] == accuracies[1]


def test_a_student_is_told_what_the_table_says_and_not_what_noise_hides(world: OneVote) -> None:
    pool, released = read_arrays(world.pool, POOL), read_arrays(world.file("labels.npz"), LABELS)
    told = student_data(pool, released, K)
    assert told.log_likelihood is not None
    table, asked = released["noisy_counts"], released["queries"]
    assert np.array_equal(told.log_likelihood[asked].argmax(axis=1), table.argmax(axis=1))
    assert not told.log_likelihood[np.setdiff1d(np.arange(100), asked)].any()
    sure = np.where(np.arange(10) == 0, 50.0, 0.0) * (np.arange(K)[:, None] != 4)
    known = student_data(pool, replace(released, arrays={**released.arrays, "noisy_counts": sure}), K)
    assert known.labels[asked[4]] == -1
    assert (np.delete(known.labels[asked], 4) == 0).all()


def test_with_features_all_queries_are_read_together(world: OneVote) -> None:
    pool, released = read_arrays(world.pool, POOL), read_arrays(world.file("labels.npz"), LABELS)
    features, asked = read_arrays(world.file("features.npz"), FEATURES), released["queries"]
    alone, together = (student_data(pool, released, K, *by).log_likelihood for by in ((), (features,)))
    clusters = QueryClusters.of(features["vectors"], asked, [])
    _, expected = table_likelihood.read(released["noisy_counts"], released.meta, clusters)
    assert together is not None
    assert np.array_equal(together[asked], expected)
    assert not np.allclose(together, alone)
    other = replace(features, meta={**features.meta, "pool": "another"})
    with refuses("mismatch"):
        student_data(pool, released, K, other)


def test_a_teacher_without_a_record_abstains(world: OneVote, tmp_path: Path) -> None:
    made = {"parameters": PartitionParameters(strategy="hash"), "out": tmp_path / "hash.npz"}
    with pytest.raises(PatebenchError, match="has no samples"):
        world.deal(**made)
    world.deal(**made, empty=True)
    chunk = read_arrays(world.vote(partition=tmp_path / "hash.npz"), CHUNK)
    sizes = np.diff(np.load(tmp_path / "hash.npz")["offsets"])
    assert (sizes == 0).any()
    assert ((chunk["votes"] >= 0).any(axis=1) == (sizes > 0)).all()
    empty = int(np.flatnonzero(sizes == 0)[0])
    weighted = {"training": TrainingParameters(model="feature-votes"), "partition": tmp_path / "hash.npz"}
    chunk = read_arrays(world.vote(empty, empty, **weighted), CHUNK)
    assert (chunk["row_teachers"].tolist(), chunk["weights"].any()) == ([empty], False)
    alone = {"features": None, "encoder": None, "training": TrainingParameters(model="logistic")}
    with pytest.raises(ArtefactError, match="it allows empty shards, but teachers of the model 'logistic' need"):
        world.vote(0, 1, partition=tmp_path / "hash.npz", **alone)


def test_students_read_the_whole_table_or_say_why_not(several: Neighbours) -> None:
    labels = several.label(3.0)
    assert several.learn(labels, method="table-regression")["accuracy"] > 0.6
    assert several.learn(labels, method="table-network", epochs=60)["accuracy"] > 0.2
    with pytest.raises(PatebenchError, match="neighbours is 41, but there are only 40 queries"):
        several.vote(0, 1, training=TrainingParameters(model="nearest-query", neighbours=41))
    released, bare = read_arrays(labels, LABELS), several.file("bare.npz")
    arrays = {name: array for name, array in released.arrays.items() if name != "noisy_counts"}
    write_arrays(bare, LABELS, arrays, released.meta)
    refused: list[tuple[str, Path, dict[str, Any]]] = [
        ("needs all 3 votes of each record, but the table was drawn with k = 1, so", several.label(1.0), {}),
        ("needs all 40 queries of the table, but --queries is 30; give --queries 40", labels, {"queries": 30}),
        (
            "learns from the whole table, so no label can be held out; leave out --hold-out",
            labels,
            {"hold_out": 0.2},
        ),
        ("learns from a table of noisy vote counts on the whole pool, which the file lacks", bare, {}),
    ]
    for words, of, changes in refused:
        with pytest.raises(PatebenchError, match=words):
            several.learn(of, method="table-regression", **changes)
