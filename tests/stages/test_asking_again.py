"""Rounds of records that are teachers, on files: every command of a plan, run as Snakemake would run it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patebench.accounting import independent, spending
from patebench.audit.adjacency import KINDS
from patebench.config import validate
from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, read_json, write_arrays
from patebench.core.formats import CHUNK, ENCODER, FEATURES, LABELS, PARTITION, POOL, QUERIES, SAMPLES, VOTES
from patebench.core.seeds import Mode
from patebench.mechanisms.base import make_mechanism
from patebench.plan.jobs import Aggregate, File, Job, JoinVotes, SelectQueries, TrainStudent
from patebench.plan.plan import Plan
from patebench.plan.words import words
from patebench.stages import adjacency, aggregate, join_votes
from patebench.stages.adjacency_way import call
from patebench.stages.check import check
from patebench.stages.ledger_file import Ledger
from patebench.stages.reading import read_votes
from patebench.stages.student_data import student_data
from patebench.students import contrast
from patebench.students.query_clusters import QueryClusters

FIRST, THEN, SIGMA, DELTA = 12, 6, 3.0, 1e-5
NOISE = {"sparse-gnmax": {"k": 1, "sigma": SIGMA}}
ROUNDS = {"method": "supervised", "model": "logistic", "strategy": "least-confident", "queries": [FIRST, THEN]}
EXPERIMENT: dict[str, Any] = {
    "dataset": "digits",
    "pool": 200,
    "test": 100,
    "ensembles": [{"teachers": 1197, "model": "nearest-query", "chunk": 700}],
    "accounting": {"delta": DELTA},
    "rounds": [{**ROUNDS, "mechanisms": NOISE}],
}


class Again:
    """A configuration of two rounds, whose jobs are made one by one."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = validate({"seeds": 0, "experiments": {"one": EXPERIMENT}, **settings})
        self.plan = self.config.plan()
        self.plan.roots = dict.fromkeys(self.plan.roots, str(folder))
        self.folder = folder
        self.students: list[TrainStudent] = sorted(self.plan.of(TrainStudent), key=lambda each: each.queries)

    @property
    def labels(self) -> list[Aggregate]:
        return [each.labels for each in self.students]

    @property
    def joined(self) -> list[JoinVotes]:
        return [JoinVotes(each.voters) for each in self.labels]

    def path(self, file: File) -> Path:
        return Path(self.plan.path(file))

    def make(self, *jobs: Job) -> None:
        """Jobs, after what they need."""
        for job in jobs:
            if self.path(job.file).exists():
                continue
            needed = [files if isinstance(files, Sequence) else [files] for files in job.inputs().values()]
            self.make(*(file.job for files in needed for file in files if isinstance(file, File)))
            access = words(self.config.access_options()) if job.stage() == "data" else []
            call([*self.plan.command(job), *access])

    def votes(self, number: int) -> Artefact:
        return read_arrays(self.path(self.joined[number].file), VOTES)

    def released(self, number: int) -> Artefact:
        return read_arrays(self.path(self.labels[number].file), LABELS)

    def queries(self, number: int) -> Artefact:
        return read_arrays(self.path(self.selected(number).file), QUERIES)

    def selected(self, number: int) -> SelectQueries:
        return self.students[1].labels.rounds[number]

    def arguments(self, number: int) -> dict[str, Any]:
        """Of the stage `aggregate`."""
        files = {name: self.path(file) for name, file in self.labels[number].inputs().items() if isinstance(file, File)}
        setting = {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": SIGMA}}
        return {**files, **setting, "seed": 0, "stream": "s", "out": self.folder / "refused.npz"}


@contextmanager
def briefly() -> Iterator[pytest.MonkeyPatch]:
    """An encoder learns for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrast, "STEPS", 40)
        patch.setattr(contrast, "PASSES", 1)
        yield patch


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Again]:
    with briefly():
        made = Again(tmp_path_factory.mktemp("again"))
        for stage in ("account", "collect"):
            made.make(*made.plan.jobs[stage].values())
        yield made


def test_all_rounds_together_cost_what_the_theorem_says(again: Again) -> None:
    """Two rounds of one vote each: √4/σ-GDP."""
    costs = []
    for labels in again.labels:
        (path,) = (again.path(each.file) for each in again.plan.jobs["account"].values() if each.labels == labels)
        stated = [Bound.from_json(bound) for bound in read_json(path, "account")["bounds"]]
        (gdp,) = (bound for bound in stated if bound.accountant == "gdp")
        costs.append((gdp.queries, gdp.epsilon))
        assert all(bound.kind != "data_dependent" or bound.epsilon <= gdp.epsilon + 1e-9 for bound in stated)
    expected = [(FIRST, 2), (FIRST + THEN, 4)]
    assert [queries for queries, _ in costs] == [queries for queries, _ in expected]
    for (_, epsilon), (_, squares) in zip(costs, expected, strict=True):
        assert epsilon == pytest.approx(independent.gaussian_dp(np.sqrt(squares) / SIGMA, DELTA), rel=1e-12)


def test_a_record_votes_where_no_query_so_far_is_nearer_than_one_of_this_round(again: Again) -> None:
    """By plain distances to the means of the cells of all queries so far."""
    split = again.labels[0].ensemble.split.folder
    vectors = read_arrays(again.folder / split / "features.npz", FEATURES)["vectors"].astype(np.float64)
    encoder = contrast.Encoder.of(read_arrays(again.folder / split / "encoder.npz", ENCODER).arrays)
    private = read_arrays(again.folder / "digits" / "private.npz", SAMPLES)
    dealt = read_arrays(again.path(again.labels[0].ensemble.dealt.file), PARTITION)["indices"]
    places = encoder.features(private["x"][dealt]).astype(np.float64)

    def nearest(of: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.square(of[:, None] - points).sum(axis=2).argmin(axis=1)

    votes = again.votes(1)
    asked = np.concatenate([again.queries(number)["queries"] for number in range(2)])
    assert np.array_equal(votes["queries"], asked)
    assert np.array_equal(votes["votes"][:, :FIRST], again.votes(0)["votes"])
    for first, end in ((0, FIRST), (FIRST, FIRST + THEN)):
        member = nearest(vectors, vectors[asked[:end]])
        means = np.array([vectors[member == query].mean(axis=0) for query in range(end)])
        cell = nearest(places, means)
        expected = np.where(cell[:, None] == np.arange(first, end), private["y"][dealt][:, None], -1)
        differing = (votes["votes"][:, first:end] != expected).any(axis=1)
        assert differing.mean() < 0.01, "but for the last bits of distances"
        assert ((votes["votes"][:, first:end] >= 0).sum(axis=1) <= 1).all()
    later = (votes["votes"][:, FIRST:] >= 0).any(axis=1)
    assert 0 < later.mean() < 0.9
    assert (again.votes(0)["votes"] >= 0).any(axis=1).all(), "in the first round nobody is silent"


def test_one_record_changed_moves_nothing_public_and_two_cells_of_each_table(again: Again, tmp_path: Path) -> None:
    for record in (3, 500):
        other = Again(tmp_path / str(record))
        other.make(other.labels[0].ensemble.split)
        private = read_arrays(other.folder / "digits" / "private.npz", SAMPLES)
        x, y = private["x"].copy(), private["y"].copy()
        x[record], y[record] = 16 - x[record], (y[record] + 1) % 10
        write_arrays(
            other.folder / "digits" / "private.npz", SAMPLES, {"x": x, "y": y, "row": private["row"]}, private.meta
        )
        other.make(other.labels[0])
        public = [File(again.selected(0).inputs()["features"].job, "encoder"), again.selected(0).file]
        for file in public:
            assert other.path(file).read_bytes() == again.path(file).read_bytes()
        other.path(other.selected(1).file).parent.mkdir(parents=True)
        shutil.copy(again.path(again.selected(1).file), other.path(other.selected(1).file))  # given equal queries
        other.make(other.joined[1])
        before, after = (each.votes(1)["votes"] for each in (again, other))
        assert (before != after).any(axis=1).sum() <= 1
        made = make_mechanism("sparse-gnmax", {"k": 1.0, "sigma": SIGMA})
        tables = [made.counts(read_votes(each.path(each.joined[1].file))[1]) for each in (again, other)]
        change = np.abs(tables[0] - tables[1])
        assert change.max() <= 1
        assert [change[:FIRST].sum() <= 2, change[FIRST:].sum() <= 2] == [True, True]
        assert change.sum() > 0
        released = other.released(0)["noisy_counts"] - again.released(0)["noisy_counts"]
        np.testing.assert_allclose(released, tables[1][:FIRST] - tables[0][:FIRST], atol=1e-9)


def test_labels_of_all_rounds_are_joined_and_the_files_belong_together(again: Again) -> None:
    first, both = (again.released(number) for number in range(2))
    np.testing.assert_array_equal(both["noisy_counts"][:FIRST], first["noisy_counts"])
    np.testing.assert_array_equal(both["noisy_counts"].argmax(axis=1), both["labels"])
    assert len(both["labels"]) == FIRST + THEN
    noise = both["noisy_counts"][FIRST:] - read_votes(again.path(again.joined[1].file))[1].counts[FIRST:]
    assert 0.7 * SIGMA < noise.std() < 1.4 * SIGMA
    strategies = [each["strategy"] for each in both.meta["rounds"]]
    assert strategies == ["prototypes", "least-confident"]
    assert check(again.folder).faults == []
    records = [
        record
        for job in again.plan.jobs["collect"].values()
        for record in read_json(again.path(job.file), "collect")["records"]
    ]
    assert {(record["ensemble"], record["clusters"]) for record in records} == {
        ("teachers-1197_iid_nearest-query_modern", None)
    }
    assert sorted(each["queries"] for each in records if each["record"] == "student") == [FIRST, FIRST + THEN]
    assert not [record for record in records if record["record"] == "ensemble"]


def test_a_student_reads_the_tables_of_both_rounds_together(again: Again) -> None:
    """With the votes that a row may have when its query was put; a sure table is read as it is."""
    labels = again.released(1)
    split = again.labels[0].ensemble.split
    pool = read_arrays(again.path(split.pool), POOL)
    features = read_arrays(again.folder / split.folder / "features.npz", FEATURES)
    known = QueryClusters.of(features["vectors"], labels["queries"], [FIRST, THEN])
    assert known.put is not None
    votes = (again.votes(1)["votes"] >= 0).mean(axis=0)
    assert np.corrcoef(known.put, votes)[0, 1] > np.corrcoef(known.sizes, votes)[0, 1]
    told = student_data(pool, labels, FIRST + THEN, features)
    sure = np.sort(labels["noisy_counts"], axis=1)
    clear = sure[:, -1] - sure[:, -2] > 12 * SIGMA
    assert clear.sum() > THEN
    np.testing.assert_array_equal(told.labels[labels["queries"][clear]], labels["labels"][clear])
    assert "--features" in again.plan.command(again.students[1])


def test_what_is_of_another_round_or_another_partition_is_refused(again: Again, tmp_path: Path) -> None:
    first, second = (again.arguments(number) for number in range(2))
    with pytest.raises(ArtefactError, match="its last votes are not on"):
        aggregate.run(**{**second, "votes": first["votes"]})
    with pytest.raises(ArtefactError, match="its last votes are not on"):
        aggregate.run(**{**first, "votes": second["votes"]})
    with pytest.raises(ArtefactError, match="it holds votes on what rounds selected"):
        aggregate.run(**{**second, "selected": None, "earlier": None})
    with pytest.raises(ArtefactError, match="it was not selected after no labels at all"):
        aggregate.run(**{**second, "earlier": None})
    votes = again.votes(1)
    for changes, fault in (
        ({"earlier_votes": "0" * 64}, "made with another votes than"),
        ({"queries_files": ["0" * 64, votes.meta["queries_files"][1]]}, "it holds votes of other rounds than"),
    ):
        write_arrays(tmp_path / "votes.npz", VOTES, votes.arrays, {**votes.meta, **changes})
        with pytest.raises(ArtefactError, match=fault):
            aggregate.run(**{**second, "votes": tmp_path / "votes.npz"})
    write_arrays(tmp_path / "votes.npz", VOTES, {**votes.arrays, "queries": votes["queries"][::-1]}, votes.meta)
    with pytest.raises(ArtefactError, match="it holds votes on other queries than it names"):
        aggregate.run(**{**second, "votes": tmp_path / "votes.npz"})
    join = {name: [again.path(each) for each in files] if isinstance(files, Sequence) else again.path(files)
            for name, files in again.joined[1].inputs().items()}  # fmt: skip
    join |= {"out": tmp_path / "joined.npz", "summary": tmp_path / "ensemble.json"}
    with pytest.raises(ArtefactError, match="it holds votes of a later round alone"):
        join_votes.run(**{**join, "earlier": None})
    earlier = again.votes(0)
    for changes, fault in (
        ({"partition": "another"}, "made with another partition than"),
        ({"encoder": "another"}, "made with another encoder than"),
        ({"queries_files": ["0" * 64]}, "it does not hold the votes of the rounds before"),
    ):
        write_arrays(tmp_path / "earlier.npz", VOTES, earlier.arrays, {**earlier.meta, **changes})
        with pytest.raises(ArtefactError, match=fault):
            join_votes.run(**{**join, "earlier": tmp_path / "earlier.npz"})
    chunk = read_arrays(join["chunk"][0], CHUNK)
    write_arrays(
        tmp_path / "chunk.npz", CHUNK, chunk.arrays, {**chunk.meta, "queries_files": earlier.meta["queries_files"]}
    )
    with pytest.raises(ArtefactError, match="made with another queries_files than"):
        join_votes.run(**{**join, "chunk": [join["chunk"][1], tmp_path / "chunk.npz"]})
    assert not (again.folder / "refused.npz").exists()


def test_teachers_are_asked_about_rounds_in_their_order(again: Again, tmp_path: Path) -> None:
    job = again.joined[1].of.chunks()[0]
    command = [*again.plan.command(job)]
    command[command.index("--out") + 1] = str(tmp_path / "chunk.npz")
    files = [str(again.path(again.selected(number).file)) for number in range(2)]
    places = [place + 1 for place, word in enumerate(command) if word == "--selected"]
    assert [command[place] for place in places] == files

    def vote(*selected: str) -> None:
        kept = [word for place, word in enumerate(command) if not {place, place + 1} & {*places}]
        call([*kept, *(word for file in selected for word in ("--selected", file))])

    with pytest.raises(ArtefactError, match="its queries were selected after labels of an earlier round"):
        vote(files[1])
    with pytest.raises(ArtefactError, match="its queries were selected after labels of an earlier round"):
        vote(*files[::-1])
    with pytest.raises(ArtefactError, match="it was not selected in a round after"):
        vote(files[0], files[0])
    with pytest.raises(ArtefactError, match="it selects again what was selected before"):
        vote(*files, files[1])
    command[command.index("--model") + 1] = "logistic"
    with pytest.raises(ArtefactError, match="its queries were selected in a round, after labels were released"):
        vote(*files)


def test_votes_of_rounds_are_never_taken_for_those_of_one(again: Again) -> None:
    """Whoever counts them pays for both rounds, also where nobody says that there were rounds."""
    _, votes = read_votes(again.path(again.joined[1].file))
    bounds = make_mechanism("sparse-gnmax", {"k": 1.0, "sigma": SIGMA}).bounds(votes, [FIRST + THEN], DELTA)
    (gdp,) = (bound.epsilon for bound in bounds if bound.accountant == "gdp")
    assert gdp == pytest.approx(independent.gaussian_dp(2 / SIGMA, DELTA), rel=1e-12)


def test_rounds_of_records_are_released_and_stand_in_the_ledger(tmp_path: Path) -> None:
    with briefly() as patch:
        made = Again(tmp_path, mode="release", ledger={"budget": 6.0, "delta": DELTA})
        for name, value in made.config.ledger_environment().items():
            patch.setenv(name, value)
        made.make(*made.plan.jobs["account"].values())
    (path,) = (tmp_path / "ledger").glob("*.json")
    drawn = Ledger.read(path)
    assert [each.queries for each in drawn.entries] == [FIRST, THEN]
    held = made.released(1)
    assert (held.meta["mode"], held.meta["votes"]) == (Mode.RELEASE, None)
    assert held["noisy_counts"].dtype.kind == "i"
    (account,) = (each for each in made.plan.jobs["account"].values() if each.labels == made.labels[1])
    stated = [Bound.from_json(bound) for bound in read_json(made.path(account.file), "account")["bounds"]]
    together = spending.epsilon(drawn.spent, DELTA)
    gdp = independent.gaussian_dp(2 / SIGMA, DELTA)
    least = min(bound.epsilon for bound in stated if bound.queries == FIRST + THEN)
    assert 0.95 * gdp < least <= together * (1 + 1e-9)
    other = {**made.votes(1).meta, "partition": "0" * 64}
    write_arrays(tmp_path / "other.npz", VOTES, made.votes(1).arrays, other)
    again = {**made.arguments(1), "seed": None, "stream": None, "release": True, "ledger": tmp_path / "ledger"}
    with pytest.raises(ArtefactError, match="it was drawn from votes of another partition"):
        aggregate.run(**{**again, "votes": tmp_path / "other.npz"})
    with pytest.raises(ArtefactError, match="is a release, and it does not stand there"):
        aggregate.run(**{**again, "ledger": tmp_path / "elsewhere"})
    assert len(Ledger.read(path).entries) == 2


@pytest.mark.parametrize("mechanism", [{"gnmax": {"sigma": 5}}, {"interactive-gnmax": {
    "threshold": 3, "sigma1": 1, "sigma2": 1, "confidence": 0.5}}])  # fmt: skip
def test_mechanisms_that_are_not_proven_for_silence_are_refused_in_rounds_too(mechanism: dict[str, Any]) -> None:
    with pytest.raises(PatebenchError, match=r"rounds\[0\].*proven for teachers that vote on every query"):
        validate({"seeds": 0, "experiments": {"one": {**EXPERIMENT, "rounds": [{**ROUNDS, "mechanisms": mechanism}]}}})


def test_a_plan_deals_once_and_asks_of_each_round_its_own_votes() -> None:
    noises = {"sparse-gnmax": {"k": 1, "sigma": [3, 5]}}
    made: Plan = validate(
        {"seeds": 0, "experiments": {"one": {**EXPERIMENT, "rounds": [{**ROUNDS, "mechanisms": noises}]}}}
    ).plan()
    base = "results/digits/seed-0_pool-200_test-100/teachers-1197_iid_nearest-query_modern"
    assert made.artefacts()["partition"] == [f"{base}/partition.npz"]
    first = f"{base}/sparse-gnmax/k-1_sigma-3/supervised_logistic/round-0_prototypes-12"
    then = f"{first}/round-1_least-confident-6"
    of = {stage: made.jobs[stage][then.removeprefix("results/")] for stage in ("aggregate", "account", "collect")}
    assert made.inputs(of["aggregate"])["votes"] == made.inputs(of["account"])["votes"] == [f"{then}/votes.npz"]
    assert made.inputs(of["collect"])["ensemble"] == [f"{then}/ensemble.json"]
    joined = made.jobs["join_votes"]
    assert len(joined) == 4
    inputs = made.inputs(joined[then.removeprefix("results/")])
    assert inputs["earlier"] == [f"{first}/votes.npz"]
    assert inputs["chunk"] == [f"{then}/chunks/{ends}.npz" for ends in ("0-699", "700-1196")]
    assert "earlier" not in made.inputs(joined[first.removeprefix("results/")])
    assert {made.inputs(job)["partition"][0] for job in [*joined.values(), *made.jobs["train_teachers"].values()]} == {
        f"{base}/partition.npz"
    }
    assert all(job.rounds for job in joined.values()), "they wait for students, so they are in no group"  # type: ignore[attr-defined]


def test_the_adjacency_audit_reruns_the_first_round_of_votes(tmp_path: Path) -> None:
    """Once for its queries, whatever the noise: its round's queries are public, and one row of votes moves."""
    noises = {"sparse-gnmax": {"k": 1, "sigma": [3, 5]}}
    few = [{"teachers": 40, "model": "nearest-query"}]
    settings = {**EXPERIMENT, "ensembles": few, "rounds": [{**ROUNDS, "mechanisms": noises}]}
    with briefly() as patch:
        patch.setattr(adjacency, "KINDS", [kind for kind in KINDS if kind.name == "replace"])
        found = list(adjacency.audit(validate({"seeds": 0, "experiments": {"one": settings}}), tmp_path))
    assert len(found) == 2, "the data set, and the ensemble once"
    assert not any(each.violated for each in found)
    assert found[1].name.endswith("round-0_prototypes-12")
