"""Private labels of public samples, from the pool to the bound: every replaced label of a small world, and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses

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
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import PARTITION, POOL, SAMPLES, TRUTH
from patebench.data.division import order_by_content
from patebench.mechanisms.sparse_argmax import SparseGNMax
from patebench.stages import (
    account,
    adjacency,
    aggregate,
    data,
    extract_features,
    join_votes,
    partition,
    select_queries,
    split,
    train_dpsgd,
    train_on_features,
    train_teachers,
)

RECORDS, K, CLASSES = 108, 6, 3
NAMED: dict[str, Any] = {"seed": 0, "stream": "labels"}
SPLIT = SplitParameters(pool=RECORDS, encoder="columns", protects="labels")


class World:
    """Stages on the embedded wine data, whose labels may be replaced."""

    def __init__(self, folder: Path, model: str = "feature-votes", y: np.ndarray | None = None) -> None:
        self.folder, self.model = folder, model
        folder.mkdir(exist_ok=True)
        parts = {name: self[f"{name}.npz"] for name in ("private", "public")}
        data.run(name="wine", root=folder, download=False, option={}, **parts)
        if y is not None:
            self.replace_labels(y)
        self.choose_queries()
        extract_features.run(pool=self["pool.npz"], **NAMED, out=self["features.npz"], encoder=self["encoder.npz"])
        select_queries.run(
            pool=self["pool.npz"], labels=None, predictions=None, features=self["features.npz"], student=None,
            selection=SelectionParameters(strategy="prototypes", queries=K), **NAMED, out=self["queries.npz"],
        )  # fmt: skip
        self.deal()

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def choose_queries(self) -> None:
        parts = {name: self[f"{name}.npz"] for name in ("private", "public")}
        outputs = {f"{name}_out": self[f"{name}.npz"] for name in ("pool", "truth", "test")}
        split.run(**parts, parameters=SPLIT, **NAMED, **outputs)

    def replace_labels(self, y: np.ndarray) -> None:
        private = read_arrays(self["private.npz"], SAMPLES)
        write_arrays(self["private.npz"], SAMPLES, {**private.arrays, "y": y}, private.meta)

    def deal(self, teachers: int = RECORDS, protects: str | None = "labels", strategy: str = "iid") -> None:
        partition.run(
            private=self["private.npz"], public=self["public.npz"], teachers=teachers, protects=protects, empty=True,
            parameters=PartitionParameters(strategy=strategy, share=0.5 if strategy == "skew" else None), **NAMED,
            out=self["partition.npz"],
        )  # fmt: skip

    def vote(self) -> Path:
        known = {name: self[f"{name}.npz"] for name in ("private", "partition", "pool", "test", "features", "encoder")}
        train_teachers.run(
            **known, teachers=(0, RECORDS - 1), training=TrainingParameters(model=self.model), **NAMED,
            selected=[self["queries.npz"]], out=self["chunk.npz"],
        )  # fmt: skip
        known = {name: self[f"{name}.npz"] for name in ("partition", "pool", "truth", "test")}
        join_votes.run(**known, chunk=[self["chunk.npz"]], out=self["votes.npz"], summary=self["ensemble.json"])
        return self["votes.npz"]

    def votes(self) -> np.ndarray:
        """Return what each record adds to the table (records, queries, classes), in votes."""
        votes, added = read_votes(self.vote())[1], np.zeros((RECORDS, K, CLASSES))
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
    made.vote()
    return made


@pytest.mark.parametrize("model", ["feature-votes", "nearest-query"])
def test_every_replaced_label_changes_the_table_by_sqrt_two(tmp_path: Path, model: str) -> None:
    world, distances = World(tmp_path, model), []
    y = read_arrays(world["private.npz"], SAMPLES)["y"]
    before = world.votes()
    for shift in range(1, CLASSES):
        world.replace_labels((y + shift) % CLASSES)
        world.deal()
        after = world.votes()  # of each record, which depends on its own label alone, as the audit below checks
        for record in range(RECORDS):
            table = before.sum(axis=0) - before[record] + after[record]
            distances.append(np.linalg.norm(table - before.sum(axis=0)))
    assert len(distances) == RECORDS * (CLASSES - 1)
    assert max(distances) <= np.sqrt(2) * (1 + 1e-12)
    assert min(distances) > (1 - 8 * K / UNIT) * np.sqrt(2)  # every vote has length 1, except for rounding


def test_replaced_labels_change_only_the_true_labels_of_the_pool(world: World, tmp_path: Path) -> None:
    y = read_arrays(world["private.npz"], SAMPLES)["y"]
    other = World(tmp_path, y=(y + 1) % CLASSES)
    for name in ("pool.npz", "test.npz", "features.npz", "encoder.npz", "queries.npz"):
        assert other[name].read_bytes() == world[name].read_bytes(), name
    assert other["truth.npz"].read_bytes() != world["truth.npz"].read_bytes()


def test_nothing_public_and_no_teacher_depends_on_an_order_by_labels(world: World, tmp_path: Path) -> None:
    """Sort the records by labels, of which one is replaced, as a loader of folders with a class each does."""
    private = read_arrays(world["private.npz"], SAMPLES)
    other = World(tmp_path)
    for label in (0, 1):
        y = private["y"].copy()
        y[7] = label
        order = np.argsort(y, kind="stable")
        arrays = {**private.arrays, "y": y, "row": np.arange(RECORDS)[::-1] * CLASSES + y}
        arrays = {name: values[order] for name, values in arrays.items()}
        write_arrays(other["private.npz"], SAMPLES, arrays, private.meta)
        other.choose_queries()
        for name in ("pool.npz", "test.npz"):
            assert other[name].read_bytes() == world[name].read_bytes(), name
        other.deal()
        held = []
        for each in (world, other):
            x = read_arrays(each["private.npz"], SAMPLES)["x"]
            held.append(x[read_arrays(each["partition.npz"], PARTITION)["indices"]])
        assert np.array_equal(*held)
        truth, pool = (read_arrays(other[f"{name}.npz"], kind) for name, kind in (("truth", TRUTH), ("pool", POOL)))
        at = [int((arrays["x"] == sample).all(axis=1).argmax()) for sample in pool["x"]]
        assert np.array_equal(truth["y"], arrays["y"][at])


def test_identical_samples_with_private_labels_are_refused(world: World, tmp_path: Path) -> None:
    other, private = World(tmp_path), read_arrays(world["private.npz"], SAMPLES)
    x = private["x"].copy()
    x[3] = x[90]
    write_arrays(other["private.npz"], SAMPLES, {**private.arrays, "x": x}, private.meta)
    for stage in (other.choose_queries, other.deal):
        with refuses("labels"):
            stage()


def test_the_pool_is_made_of_the_training_samples_and_records_vote_by_their_own_samples(world: World) -> None:
    private, pool = read_arrays(world["private.npz"], SAMPLES), read_arrays(world["pool.npz"], POOL)
    assert sorted(pool["row"]) == list(range(RECORDS))
    assert np.array_equal(pool["x"], private["x"][order_by_content(private.arrays)][pool["row"]])
    test = read_arrays(world["test.npz"], SAMPLES)
    assert not (test["x"][:, None] == pool["x"]).all(axis=2).any()
    votes = read_arrays(world["votes.npz"], join_votes.VOTES)
    assert votes.meta["protects"] == ["label"]
    assert len(votes["row_labels"]) == RECORDS  # no record is left out for its sample in the pool


@pytest.mark.parametrize(("sigma", "epsilon"), [(50.0, 0.0858), (10.0, 0.4970)])
def test_the_bound_is_that_of_one_label_with_its_unit(
    world: World, tmp_path: Path, sigma: float, epsilon: float
) -> None:
    labels = tmp_path / "labels.npz"
    aggregate.run(
        votes=world["votes.npz"], mechanism="sparse-gnmax", parameters={"k": 1.0, "sigma": sigma}, **NAMED, out=labels
    )
    account.run(
        votes=world["votes.npz"], labels=labels, accounting=AccountParameters(delta=1e-5), out=tmp_path / "bounds.json"
    )
    stated = read_json(tmp_path / "bounds.json", "account")
    assert "label" in stated["protection"]
    for bound in stated["bounds"]:
        assert (bound["adjacency"], bound["kind"], bound["add_or_remove"]) == ("replace_label", "worst_case", None)
    assert min(bound["epsilon"] for bound in stated["bounds"]) == pytest.approx(epsilon, abs=1e-4)


def test_everything_without_a_theorem_for_labels_is_refused(world: World, tmp_path: Path) -> None:
    drawn = {"votes": world["votes.npz"], "out": tmp_path / "labels.npz"}
    with refuses("labels"):
        aggregate.run(
            **drawn, mechanism="sparse-gnmax", parameters={"k": 1.0, "sigma": 1.0}, release=True, ledger=tmp_path
        )
    one_hot = World(tmp_path / "one", "nearest-query")
    drawn["votes"] = one_hot.vote()
    with refuses("labels"):
        aggregate.run(
            **drawn,
            mechanism="distributed-sparse-gnmax",
            parameters={"k": 1.0, "sigma": 9.0, "tolerance": 1.0},
            **NAMED,
        )
    with refuses("labels"):
        one_hot.deal(teachers=50)
    with refuses("labels"):
        one_hot.deal(strategy="skew")
    one_hot.deal(protects=None)
    with refuses("labels", one_hot["pool.npz"]):  # the pool would show private records
        one_hot.vote()
    with refuses("labels", world["pool.npz"]):
        train_dpsgd.run(
            private=world["private.npz"], pool=world["pool.npz"], test=world["test.npz"], encoder=None, **NAMED,
            training=DpsgdParameters(form="scratch", epsilon=1, delta=1e-5), out=tmp_path / "model.json",
        )  # fmt: skip
    with refuses("labels"):
        split.run(
            public=world["public.npz"], parameters=SPLIT, **NAMED,
            **{f"{name}_out": tmp_path / name for name in ("pool", "truth", "test")},
        )  # fmt: skip


@pytest.mark.parametrize("method", [name for name in FEATURE_METHODS if FEATURE_METHODS.fact(name, "labels_only")])
def test_methods_for_labels_read_the_labels_of_the_pool(world: World, tmp_path: Path, method: str) -> None:
    known = {name: world[f"{name}.npz"] for name in ("private", "pool", "truth", "test", "encoder")}
    settings: dict[str, Any] = {"method": method, "epsilon": 8, "delta": 1e-5, "clusters": 6}
    train_on_features.run(
        **known, parameters=FeatureMethodParameters(**settings), **NAMED, out=tmp_path / "method.json"
    )
    result = read_json(tmp_path / "method.json", "train_on_features")
    (bound,) = result["bounds"]
    assert (bound["adjacency"], bound["add_or_remove"], bound["kind"]) == ("replace_label", None, "worst_case")
    assert bound["epsilon"] == pytest.approx(8)
    assert result["label_accuracy"] > 0.6  # clusters of these features have 70 %
    assert result["accuracy"] > 0.6
    other = read_arrays(known["pool"], POOL)
    split_facts = {**other.meta["split"], "protects": None}
    write_arrays(tmp_path / "pool.npz", POOL, other.arrays, {**other.meta, "split": split_facts})
    with refuses("labels"):
        train_on_features.run(
            **known | {"pool": tmp_path / "pool.npz"}, parameters=FeatureMethodParameters(**settings), **NAMED,
            out=tmp_path / "refused.json",
        )  # fmt: skip
    with refuses("labels"):
        train_on_features.run(
            **known, parameters=FeatureMethodParameters(method="dppl-mean", epsilon=8, delta=1e-5), **NAMED,
            out=tmp_path / "refused.json",
        )  # fmt: skip


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
    return validate({"seeds": 0, "experiments": {"one": EXPERIMENT | changes}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("audit", {"runs": 1000}),
        ("dpsgd", [{"form": "linear", "epsilon": 1}]),
        ("feature_methods", [{"method": "dppl-mean", "epsilon": 1}]),
        ("public_reference", {"clusters": 3}),
        ("ensembles", [{"teachers": RECORDS, "model": "feature-votes", "partition": {"strategy": "skew", "share": 1}}]),
        ("mechanisms", {"gnmax": {"sigma": 3}}),
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


def test_delta_is_compared_with_the_number_of_labels_that_are_read(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pool, truth = read_arrays(world["pool.npz"], POOL), read_arrays(world["truth.npz"], TRUTH)
    fewer = {name: values[:9] for name, values in pool.arrays.items()}
    digest = write_arrays(tmp_path / "pool.npz", POOL, fewer, pool.meta)
    write_arrays(tmp_path / "truth.npz", TRUTH, {"y": truth["y"][:9]}, {**truth.meta, "pool": digest})
    test = read_arrays(world["test.npz"], SAMPLES)
    write_arrays(tmp_path / "test.npz", SAMPLES, test.arrays, {**test.meta, "pool": digest})
    known = {name: tmp_path / f"{name}.npz" for name in ("pool", "truth", "test", "encoder")}
    extract_features.run(pool=known["pool"], **NAMED, out=tmp_path / "features.npz", encoder=known["encoder"])
    for delta, warned in ((0.05, False), (0.2, True)):
        caplog.clear()
        train_on_features.run(
            **known, private=world["private.npz"], **NAMED, out=tmp_path / "method.json",
            parameters=FeatureMethodParameters(method="randomised-response", epsilon=8, delta=delta),
        )  # fmt: skip
        assert ("1/n for n private records" in caplog.text) == warned


def test_labels_select_no_samples() -> None:
    tail = {"loader": "wine", "long_tail": [30, 20]}
    settings: dict[str, Any] = {"seeds": 0, "datasets": {"tail": tail}}
    with refuses("labels", "datasets.tail.long_tail"):
        validate(settings | {"experiments": {"one": EXPERIMENT | {"dataset": "tail"}}})


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
