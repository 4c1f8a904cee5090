"""Test private labels of public samples, from pool to bound: every replaced label of a small data set, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.test_nearest_query import NAMED, OneVote

from patebench.accounting.votes import UNIT, WeightedVotes
from patebench.artefacts.reading import read_votes
from patebench.audit.adjacent_data import ChangeFinding, Moved
from patebench.baselines.on_features import FEATURE_METHODS
from patebench.config import validate
from patebench.config.parameters import (
    AccountParameters,
    DpsgdParameters,
    FeatureMethodParameters,
    PartitionParameters,
    SelectionParameters,
    SplitParameters,
    TrainingParameters,
)
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, read_json, write_arrays
from patebench.core.formats import PARTITION, POOL, SAMPLES, TRUTH
from patebench.data.division import order_by_content
from patebench.mechanisms.sparse_argmax import SparseGNMax
from patebench.stages import (
    account,
    adjacency,
    aggregate,
    data,
    join_votes,
    partition,
    split,
    train_dpsgd,
    train_on_features,
)

RECORDS, K, CLASSES = 108, 6, 3


class World(OneVote):
    """Stages on the embedded wine data, whose labels may be replaced."""

    split = SplitParameters(pool=RECORDS, encoder="columns", protects="labels")
    selection = SelectionParameters(strategy="prototypes", queries=K)
    teachers = RECORDS

    def __init__(self, folder: Path, model: str = "feature-votes") -> None:
        self.folder, self.training, self.pool = folder, TrainingParameters(model=model), folder / "pool.npz"
        folder.mkdir(exist_ok=True)
        data.run(name="wine", root=folder, download=False, option={}, **self.files("private", "public"))
        self.choose_queries()
        self.prepare()

    def encode(self) -> None:
        self.extract()

    def records(self) -> Artefact:
        return read_arrays(self.file("private.npz"), SAMPLES)

    def replace(self, **arrays: np.ndarray) -> None:
        """Replace arrays of the private samples."""
        private = self.records()
        write_arrays(self.file("private.npz"), SAMPLES, {**private.arrays, **arrays}, private.meta)

    def choose_queries(self) -> None:
        outputs = {f"{name}_out": path for name, path in self.files("pool", "truth", "test").items()}
        split.run(**self.files("private", "public"), parameters=self.split, **NAMED, **outputs)

    def deal(self, **changes: Any) -> None:
        super().deal(**{"protects": "labels", "empty": True, **changes})

    def release(self, out: Path, mechanism: str = "sparse-gnmax", **changes: Any) -> None:
        parameters = {"k": 1.0, "sigma": 10.0, **changes.pop("parameters", {})}
        named = {} if "release" in changes else NAMED
        votes = self.file("votes.npz")
        aggregate.run(votes=votes, mechanism=mechanism, parameters=parameters, **named, **changes, out=out)

    def method(self, out: Path, settings: dict[str, Any], **files: Path) -> dict[str, Any]:
        known = self.files("private", "pool", "truth", "test", "encoder") | files
        train_on_features.run(**known, parameters=FeatureMethodParameters(**settings), **NAMED, out=out)
        return read_json(out, "train_on_features")

    def votes(self) -> np.ndarray:
        """Return what each record adds to the table (records, queries, classes), in votes."""
        votes, added = read_votes(self.join(self.vote())[0])[1], np.zeros((RECORDS, K, CLASSES))
        assert votes.labels_only
        if votes.weighted is None:
            added[votes.matrix[..., None] == np.arange(CLASSES)] = 1
        else:
            added[votes.weighted.teachers, :, votes.weighted.labels] = votes.weighted.weights / UNIT
        assert np.array_equal(added.sum(axis=0), SparseGNMax(1, 1.0).counts(votes) / votes.unit)
        return added


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("labels"))
    made.join(made.vote())
    return made


@pytest.mark.parametrize("model", ["feature-votes", "nearest-query"])
def test_every_replaced_label_changes_the_table_by_sqrt_two(tmp_path: Path, model: str) -> None:
    world, distances = World(tmp_path, model), []
    y = world.records()["y"]
    before = world.votes()
    for shift in range(1, CLASSES):
        world.replace(y=(y + shift) % CLASSES)
        world.deal()
        after = world.votes()  # of each record, which depends on its own label alone, as the audit below checks
        for record in range(RECORDS):
            table = before.sum(axis=0) - before[record] + after[record]
            distances.append(np.linalg.norm(table - before.sum(axis=0)))
    assert len(distances) == RECORDS * (CLASSES - 1)
    assert max(distances) <= np.sqrt(2) * (1 + 1e-12)
    assert min(distances) > (1 - 8 * K / UNIT) * np.sqrt(2)  # every vote has length 1, except for rounding


def test_nothing_public_and_no_teacher_depends_on_an_order_by_labels(world: World, tmp_path: Path) -> None:
    """Sort the records by labels, of which one is replaced, as a loader of folders with a class each does."""
    private = world.records()
    other = World(tmp_path)
    for label in (0, 1):
        y = private["y"].copy()
        y[7] = label
        order = np.argsort(y, kind="stable")
        arrays = {**private.arrays, "y": y, "row": np.arange(RECORDS)[::-1] * CLASSES + y}
        arrays = {name: values[order] for name, values in arrays.items()}
        write_arrays(other.file("private.npz"), SAMPLES, arrays, private.meta)
        other.choose_queries()
        for name in ("pool.npz", "test.npz"):
            assert other.file(name).read_bytes() == world.file(name).read_bytes(), name
        other.deal()
        held = []
        for each in (world, other):
            x = each.records()["x"]
            held.append(x[read_arrays(each.file("partition.npz"), PARTITION)["indices"]])
        assert np.array_equal(*held)
        truth, pool = (
            read_arrays(other.file(f"{name}.npz"), kind) for name, kind in (("truth", TRUTH), ("pool", POOL))
        )
        at = [int((arrays["x"] == sample).all(axis=1).argmax()) for sample in pool["x"]]
        assert np.array_equal(truth["y"], arrays["y"][at])


def test_identical_samples_with_private_labels_are_refused(world: World, tmp_path: Path) -> None:
    other = World(tmp_path)
    x = other.records()["x"].copy()
    x[3] = x[90]
    other.replace(x=x)
    for stage in (other.choose_queries, other.deal):
        with refuses("labels"):
            stage()


def test_the_pool_is_made_of_the_training_samples_and_records_vote_by_their_own_samples(world: World) -> None:
    private, pool = world.records(), read_arrays(world.file("pool.npz"), POOL)
    assert sorted(pool["row"]) == list(range(RECORDS))
    assert np.array_equal(pool["x"], private["x"][order_by_content(private.arrays)][pool["row"]])
    test = read_arrays(world.file("test.npz"), SAMPLES)
    assert not (test["x"][:, None] == pool["x"]).all(axis=2).any()
    votes = read_arrays(world.file("votes.npz"), join_votes.VOTES)
    assert votes.meta["protects"] == ["label"]
    assert len(votes["row_labels"]) == RECORDS  # no record is left out for its sample in the pool


@pytest.mark.parametrize(("sigma", "epsilon"), [(50.0, 0.0858), (10.0, 0.4970)])
def test_the_bound_is_that_of_one_label_with_its_unit(
    world: World, tmp_path: Path, sigma: float, epsilon: float
) -> None:
    labels, out = tmp_path / "labels.npz", tmp_path / "bounds.json"
    world.release(labels, parameters={"sigma": sigma})
    account.run(votes=world.file("votes.npz"), labels=labels, accounting=AccountParameters(delta=1e-5), out=out)
    stated = read_json(out, "account")
    assert "label" in stated["protection"]
    for bound in stated["bounds"]:
        assert (bound["adjacency"], bound["kind"], bound["add_or_remove"]) == ("replace_label", "worst_case", None)
    assert min(bound["epsilon"] for bound in stated["bounds"]) == pytest.approx(epsilon, abs=1e-4)


def test_everything_without_a_theorem_for_labels_is_refused(world: World, tmp_path: Path) -> None:
    out = tmp_path / "refused"
    one_hot = World(tmp_path / "one", "nearest-query")
    one_hot.join(one_hot.vote())
    outputs = {f"{name}_out": tmp_path / name for name in ("pool", "truth", "test")}
    scratch = {"training": DpsgdParameters(form="scratch", epsilon=1, delta=1e-5), "encoder": None, "out": out}
    for call in (
        lambda: world.release(out, release=True, ledger=tmp_path),
        lambda: one_hot.release(out, "distributed-sparse-gnmax", parameters={"tolerance": 1.0}),
        lambda: one_hot.deal(teachers=50),
        lambda: one_hot.deal(parameters=PartitionParameters(strategy="skew", share=0.5)),
        lambda: train_dpsgd.run(**world.files("private", "pool", "test"), **scratch, **NAMED),
        lambda: split.run(public=world.file("public.npz"), parameters=world.split, **NAMED, **outputs),
        lambda: world.method(out, {"method": "dppl-mean", "epsilon": 8, "delta": 1e-5}),
    ):
        with refuses("labels"):
            call()
    one_hot.deal(protects=None)
    with refuses("labels", one_hot.file("pool.npz")):  # the pool would show private records
        one_hot.vote()


@pytest.mark.parametrize("method", [name for name in FEATURE_METHODS if FEATURE_METHODS.fact(name, "labels_only")])
def test_methods_for_labels_read_the_labels_of_the_pool(world: World, tmp_path: Path, method: str) -> None:
    settings: dict[str, Any] = {"method": method, "epsilon": 8, "delta": 1e-5, "clusters": 6}
    result = world.method(tmp_path / "method.json", settings)
    (bound,) = result["bounds"]
    assert (bound["adjacency"], bound["add_or_remove"], bound["kind"]) == ("replace_label", None, "worst_case")
    assert bound["epsilon"] == pytest.approx(8)
    assert result["label_accuracy"] > 0.6  # clusters of these features have 70 %
    assert result["accuracy"] > 0.6
    other = read_arrays(world.file("pool.npz"), POOL)
    split_facts = {**other.meta["split"], "protects": None}
    write_arrays(tmp_path / "pool.npz", POOL, other.arrays, {**other.meta, "split": split_facts})
    with refuses("labels"):
        world.method(tmp_path / "refused.json", settings, pool=tmp_path / "pool.npz")


def test_private_labels_of_other_samples_are_refused(world: World, tmp_path: Path) -> None:
    private, settings = world.records(), {"method": "randomised-response", "epsilon": 8, "delta": 1e-5}
    for x in (private["x"][:20], private["x"] + 1):
        arrays = {name: array[: len(x)] for name, array in private.arrays.items()} | {"x": x}
        write_arrays(tmp_path / "other.npz", SAMPLES, arrays, private.meta)
        with refuses("mismatch", world.file("pool.npz")):
            world.method(tmp_path / "refused.json", settings, private=tmp_path / "other.npz")


EXPERIMENT = {
    "dataset": "wine",
    "pool": RECORDS,
    "encoder": "columns",
    "protects": "labels",
    "queries": K,
    "ensembles": [{"teachers": RECORDS, "model": "feature-votes", "chunk": 54}],
    "mechanisms": {"sparse-gnmax": {"k": 1, "sigma": 3}},
    "accounting": {"delta": 1e-5},
}


def configured(**changes: Any) -> Any:
    datasets = {"tail": {"loader": "wine", "long_tail": [30, 20]}}
    return validate({"seeds": 0, "datasets": datasets, "experiments": {"one": EXPERIMENT | changes}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("audit", {"runs": 1000}),
        ("dpsgd", [{"form": "linear", "epsilon": 1}]),
        ("feature_methods", [{"method": "dppl-mean", "epsilon": 1}]),
        ("public_reference", {"clusters": 3}),
        ("ensembles", [{"teachers": RECORDS, "model": "feature-votes", "partition": {"strategy": "skew", "share": 1}}]),
        ("mechanisms", {"gnmax": {"sigma": 3}}),
        ("dataset", "tail"),
    ],
)
def test_a_configuration_with_results_in_another_unit_is_refused(key: str, value: Any) -> None:
    with pytest.raises(PatebenchError) as caught:
        configured(**{key: value})
    assert caught.value.code in ("labels", "several"), caught.value
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("method", ["cluster-histograms", "cluster-resampling"])
def test_the_default_number_of_clusters_fits_into_the_pool(method: str) -> None:
    methods = [{"method": method, "epsilon": 1}]
    with refuses("bound", "experiments.one.feature_methods[0].clusters"):
        configured(pool=99, feature_methods=methods)
    configured(pool=99, feature_methods=[{"method": method, "epsilon": 1, "clusters": 50}])
    configured(feature_methods=methods)


class Few(World):
    """`World` with a pool of only nine samples."""

    split = SplitParameters(pool=9, encoder="columns", protects="labels")


def test_delta_is_compared_with_the_number_of_labels_that_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = Few(tmp_path)
    for delta, warned in ((0.05, False), (0.2, True)):
        caplog.clear()
        few.method(tmp_path / "method.json", {"method": "randomised-response", "epsilon": 8, "delta": delta})
        assert ("1/n for n private records" in caplog.text) == warned


def test_the_split_reads_private_samples_only_if_they_are_public() -> None:
    assert configured().label_splits == {f"wine/seed-0_pool-{RECORDS}_columns_labels"}
    methods = [{"method": "randomised-response", "epsilon": [0.5, 1]}]
    assert any("on-features/randomised-response" in job for job in configured(feature_methods=methods).jobs)
    with refuses("labels"):
        configured(protects=None, pool=50, feature_methods=methods)
    assert configured(protects=None, pool=50).label_splits == set()


def audited(folder: Path, changes: int) -> list[ChangeFinding]:
    (_, ensemble) = adjacency.audit(configured(), folder, changes)
    return list(ensemble.findings)


@pytest.mark.slow
def test_the_adjacency_audit_replaces_labels_alone(tmp_path: Path) -> None:
    found = audited(tmp_path, 8)
    assert {each.change for each in found} == {"label"}
    assert {each.verdict for each in found} == {Moved.HOLDS}
    assert all(len(each.shards_moved) == 1 and each.votes_moved == each.shards_moved for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["labels choose the pool", "labels shift votes", "split in order of labels", "dealt in order of labels"]
)
def test_the_adjacency_audit_finds_planted_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault.endswith("order of labels"):
        stage = split if fault.startswith("split") else partition
        monkeypatch.setattr(stage, "order_by_content", lambda arrays: np.arange(len(arrays["y"])))
    elif fault == "labels choose the pool":
        read, drawn = split.read_samples, split.generator
        seen: list[int] = [0]

        def reading(path: Path, role: str) -> Any:
            samples = read(path, role)
            seen[0] = int(samples["y"].sum()) if role == "private" else seen[0]
            return samples

        monkeypatch.setattr(split, "read_samples", reading)
        monkeypatch.setattr(split, "generator", lambda seed, *names: drawn(seed + seen[0], *names))
    else:
        of = WeightedVotes.of

        def shifted(weights: Any, labels: Any, *others: Any) -> WeightedVotes:
            return of(weights - np.int16(labels.sum() % 97), labels, *others)

        monkeypatch.setattr(WeightedVotes, "of", shifted)
    assert Moved.VIOLATED in {each.verdict for each in audited(tmp_path, 2)}
