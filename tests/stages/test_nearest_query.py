"""Test one vote per record on files: a replaced record changes no public file and at most two cells of the table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import Divided, briefly, change_record

from patebench.artefacts.records import read_records
from patebench.artefacts.student_data import student_data
from patebench.config.parameters import (
    AccountParameters,
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
from patebench.features import contrast, patches, principal_axes
from patebench.stages import (
    account,
    aggregate,
    collect,
    extract_features,
    join_votes,
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
NAMED = {"seed": 0, "stream": STREAM}
SETTING = {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 3.0}}


class OneVote(Divided):
    """All stages on the embedded digits, with an encoder that is trained only briefly."""

    def __init__(
        self, folder: Path, parameters: SplitParameters | None = None, option: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, parameters or SplitParameters(pool=100, test=100), STREAM, option)

    def file(self, name: str) -> Path:
        return self.folder / name

    def prepare(self) -> None:
        """Make the public files and the partition of the records."""
        with briefly():
            extract_features.run(
                pool=self.pool, **NAMED, out=self.file("features.npz"), encoder=self.file("encoder.npz")
            )  # fmt: skip
        select_queries.run(
            pool=self.pool, labels=None, predictions=None, features=self.file("features.npz"), student=None,
            selection=SelectionParameters(strategy="prototypes", queries=K), **NAMED, out=self.file("queries.npz"),
        )  # fmt: skip
        partition.run(
            private=self.private, public=self.public, teachers=TEACHERS, parameters=PartitionParameters(), **NAMED,
            out=self.file("partition.npz"),
        )  # fmt: skip

    def vote(self, first: int = 0, last: int = TEACHERS - 1, **changes: object) -> Path:
        out = self.file(f"{first}-{last}.npz")
        known = {"features": "features.npz", "encoder": "encoder.npz"}
        arguments = {
            "private": self.private, "partition": self.file("partition.npz"), "pool": self.pool, "test": self.test,
            "teachers": (first, last), "training": TrainingParameters(model="nearest-query"), **NAMED, "out": out,
            **{name: self.file(file) for name, file in known.items()}, "selected": [self.file("queries.npz")],
        }  # fmt: skip
        train_teachers.run(**{**arguments, **changes})  # type: ignore[arg-type]
        return out

    def join(self, *chunks: Path) -> Path:
        join_votes.run(
            partition=self.file("partition.npz"), pool=self.pool, truth=self.truth, test=self.test, chunk=chunks,
            out=self.file("votes.npz"), summary=self.file("ensemble.json"),
        )  # fmt: skip
        return self.file("votes.npz")

    def complete(self) -> Self:
        self.prepare()
        self.join(self.vote())
        self.label()
        return self

    def label(self) -> Path:
        aggregate.run(votes=self.file("votes.npz"), **SETTING, **NAMED, out=self.file("labels.npz"))  # type: ignore[arg-type]
        return self.file("labels.npz")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> OneVote:
    return OneVote(tmp_path_factory.mktemp("one")).complete()


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
    given = {"votes": world.file("votes.npz"), "labels": world.file("labels.npz")}
    account.run(**given, accounting=AccountParameters(delta=1e-5), **NAMED, out=world.file("bounds.json"))  # type: ignore[arg-type]
    stated = read_json(world.file("bounds.json"), "account")["bounds"]
    (gdp,) = (bound for bound in stated if bound["accountant"] == "gdp")
    assert gdp["epsilon"] == pytest.approx(1.866, abs=1e-3)
    train_student.run(
        pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
        features=world.file("features.npz"),
        parameters=StudentParameters(method="supervised", model="logistic"), out=world.file("student.json"),
        predictions=world.file("predictions.npz"),
    )  # fmt: skip
    collect.run(
        ensemble=world.file("ensemble.json"), votes=world.file("votes.npz"), truth=world.truth,
        labels=[world.file("labels.npz")], bounds=[world.file("bounds.json")], students=[world.file("student.json")],
        out=world.file("collected.json"),
    )  # fmt: skip
    records = {each["record"]: each for each in read_json(world.file("collected.json"), "collect")["records"]}
    right = np.mean(labels["labels"] == truth)
    assert records["label_set"]["label_accuracy"] == records["student"]["label_accuracy"] == pytest.approx(right)
    assert 0.5 < records["label_set"]["expected_label_accuracy"] < 1
    assert records["ensemble"]["ensemble"] == f"teachers-{TEACHERS}_queries-{K}_iid_nearest-query_modern"


def cells(world: OneVote) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of pool and test samples, and the queries, by plain distances."""
    vectors = read_arrays(world.file("features.npz"), FEATURES)["vectors"]
    asked = read_arrays(world.file("queries.npz"), QUERIES)["queries"]
    encoder = contrast.ContrastEncoder.of(read_arrays(world.file("encoder.npz"), ENCODER).arrays)
    unseen = encoder.features(read_arrays(world.test, SAMPLES)["x"])

    def cell(of: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.square(of[:, None] - points).sum(axis=2).argmin(axis=1)

    first = cell(vectors, vectors[asked])
    means = np.array([vectors[first == place].mean(axis=0) for place in range(len(asked))])
    return cell(vectors, means), cell(unseen, means), asked


def test_clusters_are_named_by_true_labels_of_the_pool_and_measured_on_the_test_set(world: OneVote) -> None:
    name_clusters.run(
        pool=world.pool, truth=world.truth, test=world.test, features=world.file("features.npz"),
        encoder=world.file("encoder.npz"), selected=world.file("queries.npz"), out=world.file("naming.json"),
    )  # fmt: skip
    told = read_json(world.file("naming.json"), "name_clusters")
    in_pool, in_test, _ = cells(world)
    truth, unseen = read_arrays(world.truth, TRUTH)["y"], read_arrays(world.test, SAMPLES)["y"]
    names = np.array([np.bincount(truth[in_pool == cell], minlength=10).argmax() for cell in range(K)])
    assert told["accuracy"] == np.mean(names[in_test] == unseen)
    assert told["accuracy_pool"] == np.mean(names[in_pool] == truth)
    assert (told["clusters"], told["matched_accuracy"]) == (K, None)
    (record,) = read_records([world.file("naming.json")]).namings.to_dict("records")
    assert (record["setting"], record["pool"], record["clusters"]) == ("pool-100_test-100", 100, K)


def test_labels_of_cells_without_a_student(world: OneVote) -> None:
    train_student.run(
        pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
        parameters=StudentParameters(method="nearest-label"), out=world.file("cells.json"),
        predictions=world.file("cells.npz"), encoder=world.file("encoder.npz"),
    )  # fmt: skip
    labels = read_arrays(world.file("labels.npz"), LABELS)
    known = student_data(read_arrays(world.pool, POOL), labels, K).labels
    _, in_test, asked = cells(world)
    if (known[asked] >= 0).all():  # a label that noise hides has no cell
        found = known[asked][in_test] == read_arrays(world.test, SAMPLES)["y"]
        assert read_json(world.file("cells.json"), "train_student")["accuracy"] == np.mean(found)
    with pytest.raises(PatebenchError, match="'supervised' uses no features; leave out --encoder"):
        train_student.run(
            pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
            parameters=StudentParameters(method="supervised"), out=world.file("s.json"),
            predictions=world.file("s.npz"), encoder=world.file("encoder.npz"),
        )  # fmt: skip


def test_one_record_replaced_changes_nothing_public_and_two_cells_at_most(world: OneVote, tmp_path: Path) -> None:
    before = {name: world.file(name).read_bytes() for name in ("encoder.npz", "features.npz", "queries.npz")}
    table = read_arrays(world.file("labels.npz"), LABELS)["noisy_counts"]
    moved = []
    for record in (3, 77, 500):
        other = OneVote(tmp_path / str(record))
        change_record(other.private, record)
        other.prepare()
        for name, known in before.items():
            assert other.file(name).read_bytes() == known, name
        other.join(other.vote())
        rows = [read_arrays(each.file("votes.npz"), VOTES)["votes"] for each in (world, other)]
        assert (rows[0] != rows[1]).any(axis=1).sum() <= 1
        change = read_arrays(other.label(), LABELS)["noisy_counts"] - table
        assert np.allclose(change, np.round(change), atol=1e-9)
        assert np.abs(np.round(change)).max() <= 1
        moved.append(int(np.abs(np.round(change)).sum()))
    assert max(moved) == 2
    assert min(moved) >= 0


def test_what_does_not_fit_together_is_one_line(world: OneVote) -> None:
    with pytest.raises(PatebenchError, match="votes with public features; give --features and --encoder"):
        world.vote(features=None)
    with pytest.raises(PatebenchError, match="uses no features"):
        world.vote(0, 1, training=TrainingParameters(model="logistic"))
    with pytest.raises(PatebenchError, match="compute no probabilities"):
        world.vote(kept=KeptOutputs(soft=(1.0,)))
    with pytest.raises(ArtefactError, match=r"may abstain.* use distributed-sparse-gnmax"):
        secure_share.run(
            chunk=world.vote(), mechanism="distributed-gnmax", parameters={"sigma": 3.0, "tolerance": 0.0},
            teachers=TEACHERS, out=[world.file("a.npz"), world.file("b.npz")], **NAMED,
        )  # fmt: skip
    with pytest.raises(PatebenchError, match="these teachers may abstain"):
        aggregate.run(
            votes=world.file("votes.npz"), mechanism="gnmax", parameters={"sigma": 3.0}, **NAMED,
            out=world.file("refused.npz"),
        )  # fmt: skip


def released_by_shares(world: OneVote, chunks: list[Path], k: float, folder: Path) -> Path:
    """Release labels and table with secure aggregation, from chunks of votes that no party joins."""
    setting = {"mechanism": "distributed-sparse-gnmax", "parameters": {"k": k, "sigma": 50.0, "tolerance": 6.0}}
    held = []
    for chunk in chunks:
        held.append([folder / f"{aggregator}-{chunk.name}" for aggregator in "ab"])
        secure_share.run(chunk=chunk, teachers=TEACHERS, **setting, **NAMED, out=held[-1])  # type: ignore[arg-type]
    for aggregator, shares in zip("ab", zip(*held, strict=True), strict=True):
        secure_sum.run(shares=list(shares), out=folder / f"{aggregator}.npz")
    sums = [folder / f"{aggregator}.npz" for aggregator in "ab"]
    secure_open.run(sums=sums, labels=folder / "secure.npz", counts=folder / "counts.npz")
    aggregate.run(votes=world.file("votes.npz"), **setting, **NAMED, out=folder / "plain.npz")  # type: ignore[arg-type]
    return folder / "secure.npz"


def test_the_secure_path_leads_to_the_same_student(world: OneVote, tmp_path: Path) -> None:
    labels = released_by_shares(world, [world.vote(*ends) for ends in ((0, 249), (250, 599))], 1.0, tmp_path)
    opened, plain = (read_arrays(path, LABELS) for path in (labels, tmp_path / "plain.npz"))
    for name in ("labels", "noisy_counts", "queries"):
        assert np.array_equal(opened[name], plain[name]), name
    assert opened.arrays.keys() == plain.arrays.keys()
    assert {name: opened.meta.get(name) for name in plain.meta} == {**plain.meta, "votes": None}
    accuracies = []
    for path in (labels, tmp_path / "plain.npz"):
        train_student.run(
            pool=world.pool, labels=path, test=world.test, queries=K, **NAMED, features=world.file("features.npz"),
            parameters=StudentParameters(method="supervised", model="logistic"), out=tmp_path / "student.json",
            predictions=tmp_path / "predictions.npz",
        )  # fmt: skip
        accuracies.append(read_json(tmp_path / "student.json", "train_student")["accuracy"])
    assert accuracies[0] == accuracies[1]
    given = {"votes": world.file("votes.npz"), "labels": labels, "accounting": AccountParameters(delta=1e-5)}
    account.run(**given, **NAMED, out=tmp_path / "bounds.json")  # type: ignore[arg-type]
    stated = read_json(tmp_path / "bounds.json", "account")["bounds"]
    assert min(bound["epsilon"] for bound in stated) == pytest.approx(0.0858, abs=1e-3)


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
    """Check that joint decoding gives true labels more probability if noise hides many labels."""
    pool, released = read_arrays(world.pool, POOL), read_arrays(world.file("labels.npz"), LABELS)
    features = read_arrays(world.file("features.npz"), FEATURES)
    asked = released["queries"]
    truth = read_arrays(world.truth, TRUTH)["y"][asked]
    known = []
    for draw in range(4):
        noise = np.random.default_rng(draw).normal(scale=20.0, size=released["noisy_counts"].shape)
        table = released["noisy_counts"] + noise
        noisy = replace(
            released,
            arrays={**released.arrays, "noisy_counts": table, "labels": table.argmax(axis=1)},
            meta={**released.meta, "parameters": {"k": 1.0, "sigma": 20.0}},
        )
        read = [student_data(pool, noisy, K, *by).log_likelihood for by in ((), (features,))]
        known.append([np.mean(each[asked, truth]) for each in read if each is not None])
    alone, together = np.mean(known, axis=0)
    assert together > alone
    other = replace(features, meta={**features.meta, "pool": "another"})
    with refuses("mismatch"):
        student_data(pool, noisy, K, other)


def test_a_teacher_without_a_record_keeps_silent(world: OneVote, tmp_path: Path) -> None:
    made = {"private": world.private, "public": world.public, "parameters": PartitionParameters(strategy="hash")}
    made |= {"teachers": TEACHERS, **NAMED, "out": tmp_path / "hash.npz"}
    with pytest.raises(PatebenchError, match="has no samples"):
        partition.run(**made)  # type: ignore[arg-type]
    partition.run(**made, empty=True)  # type: ignore[arg-type]
    chunk = read_arrays(world.vote(partition=tmp_path / "hash.npz"), CHUNK)
    sizes = np.diff(np.load(tmp_path / "hash.npz")["offsets"])
    assert (sizes == 0).any()
    assert ((chunk["votes"] >= 0).any(axis=1) == (sizes > 0)).all()
    alone = {"features": None, "encoder": None, "training": TrainingParameters(model="logistic")}
    with pytest.raises(ArtefactError, match="shards without samples, on which 'logistic' cannot be trained"):
        world.vote(0, 1, partition=tmp_path / "hash.npz", **alone)


class Neighbours(OneVote):
    """Stages in which each record votes on its nearest three queries, by features of patches."""

    training = TrainingParameters(model="nearest-query", neighbours=3)

    def __init__(self, folder: Path) -> None:
        Divided.__init__(self, folder, SplitParameters(pool=100, test=100, encoder="patches"), STREAM)

    def prepare(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(principal_axes, "WIDTH", 30)
            for name, value in {"CLUSTERS": 20, "PATCHES": 2000, "ROUNDS": 2}.items():
                patch.setattr(patches, name, value)
            extract_features.run(
                pool=self.pool, **NAMED, out=self.file("features.npz"), encoder=self.file("encoder.npz")
            )  # fmt: skip
        select_queries.run(
            pool=self.pool, labels=None, predictions=None, features=None, student=None,
            selection=SelectionParameters(strategy="random", queries=40), **NAMED, out=self.file("queries.npz"),
        )  # fmt: skip
        partition.run(
            private=self.private, public=self.public, teachers=TEACHERS, parameters=PartitionParameters(), **NAMED,
            out=self.file("partition.npz"),
        )  # fmt: skip

    def label(self, k: float = 3.0) -> Path:
        setting = {"mechanism": "sparse-gnmax", "parameters": {"k": k, "sigma": 2.0}}
        aggregate.run(votes=self.file("votes.npz"), **setting, **NAMED, out=self.file(f"labels-{k:g}.npz"))  # type: ignore[arg-type]
        return self.file(f"labels-{k:g}.npz")

    def student(self, method: str, labels: Path, **changes: object) -> float:
        arguments = {
            "pool": self.pool, "labels": labels, "test": self.test, "queries": 40, **NAMED,
            "parameters": StudentParameters(method=method, epochs=60), "out": self.file(f"{method}.json"),
            "predictions": self.file(f"{method}.npz"), "encoder": self.file("encoder.npz"),
        }  # fmt: skip
        train_student.run(**{**arguments, **changes})  # type: ignore[arg-type]
        return float(read_json(self.file(f"{method}.json"), "train_student")["accuracy"])


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Neighbours:
    made = Neighbours(tmp_path_factory.mktemp("several"))
    made.prepare()
    made.join(made.vote(training=made.training))
    made.label()
    return made


def test_records_vote_on_their_nearest_queries_whatever_the_chunks(several: Neighbours) -> None:
    whole = read_arrays(several.file("votes.npz"), VOTES)["votes"]
    parts = [several.vote(*ends, training=several.training) for ends in ((0, 0), (1, 399), (400, 599))]
    assert np.array_equal(whole, np.concatenate([read_arrays(part, CHUNK)["votes"] for part in parts]))
    vectors = read_arrays(several.file("features.npz"), FEATURES)["vectors"]
    private, shards = read_arrays(several.private, SAMPLES), np.load(several.file("partition.npz"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patches, "CLUSTERS", 20)
        encoder = patches.PatchEncoder.of(read_arrays(several.file("encoder.npz"), ENCODER).arrays)
    points = vectors[read_arrays(several.file("queries.npz"), QUERIES)["queries"]]
    for teacher in (0, 17, 599):
        (record, *others) = shards["indices"][shards["offsets"][teacher] : shards["offsets"][teacher + 1]]
        near = np.square(points - encoder.features_alone(private["x"][record : record + 1])).sum(axis=1).argsort()[:3]
        if not others:
            assert set(np.flatnonzero(whole[teacher] >= 0)) == set(near)
            assert set(whole[teacher, near]) == {private["y"][record]}


def test_one_record_replaced_moves_as_many_votes_as_its_teacher_has(several: Neighbours, tmp_path: Path) -> None:
    """Expect at most two changed cells per vote, with three votes and with one."""
    moved = []
    for record in (3, 77, 500):
        other = Neighbours(tmp_path / str(record))
        change_record(other.private, record)
        other.prepare()
        for name in ("encoder.npz", "features.npz", "queries.npz"):
            assert other.file(name).read_bytes() == several.file(name).read_bytes(), name
        other.join(other.vote(training=other.training))
        for k, most in ((3.0, 6), (1.0, 2)):
            tables = [read_arrays(each.label(k), LABELS)["noisy_counts"] for each in (several, other)]
            change = np.round(tables[1] - tables[0])
            assert np.allclose(change, tables[1] - tables[0], atol=1e-9)
            assert np.abs(change).max() <= 1
            assert np.square(change).sum() <= most
            moved.append(np.square(change).sum())
    assert max(moved) > 2


def test_students_read_the_whole_table_or_say_why_not(several: Neighbours, world: OneVote) -> None:
    assert several.student("table-regression", several.file("labels-3.npz")) > 0.6
    assert several.student("table-network", several.file("labels-3.npz")) > 0.2
    chunk = several.vote(training=several.training)
    secure = released_by_shares(several, [chunk], 3.0, several.folder)
    assert several.student("table-regression", secure) == several.student("table-regression", several.file("plain.npz"))
    with pytest.raises(ArtefactError, match=r"counts 1 of the 3 votes of a record, but"):
        several.student("table-regression", several.label(1.0))
    match = "needs the whole table, but only 30 of its queries were chosen; give --queries 40"
    with pytest.raises(ArtefactError, match=match):
        several.student("table-regression", several.file("labels-3.npz"), queries=30)
    held = StudentParameters(method="table-regression", hold_out=0.2)
    with pytest.raises(PatebenchError, match="uses all counts of a released table; leave out --hold-out"):
        several.student("table-regression", several.file("labels-3.npz"), parameters=held)
    with pytest.raises(PatebenchError, match="neighbours is 41, but there are only 40 queries"):
        several.vote(0, 1, training=TrainingParameters(model="nearest-query", neighbours=41))
    released = read_arrays(several.file("labels-3.npz"), LABELS)
    arrays = {name: array for name, array in released.arrays.items() if name != "noisy_counts"}
    write_arrays(several.file("plain.npz"), LABELS, arrays, released.meta)
    with pytest.raises(ArtefactError, match="it contains no table of noisy counts"):
        several.student("table-regression", several.file("plain.npz"))
