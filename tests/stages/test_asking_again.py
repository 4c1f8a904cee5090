"""Test rounds with one vote per record on files: the commands that Snakemake plans, run in this process."""

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests import dry_run
from tests.stages.digits import briefly, change_record, nearest

from patebench.accounting import independent, spending
from patebench.artefacts.reading import read_votes
from patebench.artefacts.student_data import student_data
from patebench.cli import cli
from patebench.config import validate
from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, read_json, write_arrays
from patebench.core.formats import CHUNK, ENCODER, FEATURES, LAYOUTS, PARTITION, POOL, SAMPLES, VOTES
from patebench.core.seeds import Mode
from patebench.features import contrast
from patebench.mechanisms.base import make_mechanism
from patebench.release.ledger_file import Ledger
from patebench.stages import adjacency, aggregate, join_votes
from patebench.stages.check import check

pytestmark = pytest.mark.slow

FIRST, THEN, SIGMA, DELTA = 12, 6, 3.0, 1e-5
SPARSE = ("sparse-gnmax", {"k": 1.0, "sigma": SIGMA})
ROUNDS = {"method": "supervised", "model": "logistic", "strategy": "least-confident", "queries": [FIRST, THEN]}
EXPERIMENT: dict[str, Any] = {
    "dataset": "digits",
    "pool": 200,
    "test": 100,
    "ensembles": [{"teachers": 1197, "model": "nearest-query", "chunk": 700}],
    "accounting": {"delta": DELTA},
    "rounds": [{**ROUNDS, "mechanisms": dict([SPARSE])}],
}


class Again:
    """Configuration of two rounds whose jobs are run one by one; paths are below the results folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        written = {"seeds": 0, "experiments": {"one": EXPERIMENT}, "results": str(folder), **settings}
        (folder / "two.yaml").write_text(yaml.safe_dump(written))
        jobs = dry_run.planned(folder / "two.yaml", folder)
        self.folder, self.planned, self.run = folder, str(folder), validate(written)
        self.jobs = {path.removeprefix(f"{folder}/"): job for job in jobs for path in job.outputs}
        (ensemble,) = self.run.experiments[0].ensembles
        self.split, self.ensemble = ensemble.split.name, ensemble.name
        self.rounds = sorted((labels.name for labels in self.run.experiments[0].label_sets), key=len)

    def elsewhere(self, folder: Path) -> "Again":
        other = copy.copy(self)
        other.folder = folder
        return other

    def command(self, target: str) -> list[str]:
        return [word.replace(self.planned, str(self.folder)) for word in self.jobs[target].words]

    def make(self, *targets: str) -> None:
        """Run the jobs of these targets, after those of their inputs."""
        for target in targets:
            if not (self.folder / target).exists():
                self.make(*(path.removeprefix(f"{self.planned}/") for path in self.jobs[target].inputs))
                cli.main(self.command(target), standalone_mode=False)

    def make_all(self, file: str) -> None:
        self.make(*(path for path in self.jobs if Path(path).name == file))

    def path(self, number: int, file: str) -> Path:
        """Return the path of a file of a round."""
        return self.folder / self.rounds[number] / file

    def read(self, number: int, kind: str) -> Artefact:
        return read_arrays(self.path(number, f"{kind}.npz"), LAYOUTS[kind])

    def bounds(self, number: int) -> list[Bound]:
        return [Bound.from_json(bound) for bound in read_json(self.path(number, "bounds.json"), "account")["bounds"]]

    def arguments(self, number: int) -> dict[str, Any]:
        """Return the arguments of the stage `aggregate` in a round."""
        files = {"votes": self.path(number, "votes.npz"), "selected": self.path(number, "queries.npz")}
        files |= {"earlier": self.path(0, "labels.npz")} if number else {}
        setting = dict(zip(("mechanism", "parameters"), SPARSE, strict=True))
        return {**files, **setting, "seed": 0, "stream": "s", "out": self.folder / "refused.npz"}


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Again]:
    with briefly():
        made = Again(tmp_path_factory.mktemp("again"))
        made.make_all("collected.json")
        yield made


def test_all_rounds_together_cost_what_the_theorem_says(again: Again) -> None:
    """Expect √4/σ-GDP for two rounds with one vote each, also if only the votes mention the rounds."""
    for number, queries, squares in ((0, FIRST, 2), (1, FIRST + THEN, 4)):
        expected = pytest.approx(independent.gaussian_dp(np.sqrt(squares) / SIGMA, DELTA), rel=1e-12)
        stated = again.bounds(number)
        (gdp,) = (bound for bound in stated if bound.accountant == "gdp")
        assert (gdp.queries, gdp.epsilon) == (queries, expected)
        assert all(bound.kind != "data_dependent" or bound.epsilon <= gdp.epsilon + 1e-9 for bound in stated)
    _, votes = read_votes(again.path(1, "votes.npz"))
    bounds = make_mechanism(*SPARSE).bounds(votes, [FIRST + THEN], DELTA)
    assert [bound.epsilon for bound in bounds if bound.accountant == "gdp"] == [expected]


def test_a_record_votes_where_no_query_so_far_is_nearer_than_one_of_this_round(again: Again) -> None:
    """Compare with distances to the means of the cells of all queries so far."""
    split = again.folder / again.split
    vectors = read_arrays(split / "features.npz", FEATURES)["vectors"].astype(np.float64)
    encoder = contrast.ContrastEncoder.of(read_arrays(split / "encoder.npz", ENCODER).arrays)
    private = read_arrays(again.folder / "digits" / "private.npz", SAMPLES)
    dealt = read_arrays(again.folder / again.ensemble / "partition.npz", PARTITION)["indices"]
    places = encoder.features(private["x"][dealt]).astype(np.float64)
    votes = again.read(1, "votes")
    asked = np.concatenate([again.read(number, "queries")["queries"] for number in range(2)])
    assert np.array_equal(votes["queries"], asked)
    assert np.array_equal(votes["votes"][:, :FIRST], again.read(0, "votes")["votes"])
    for first, end in ((0, FIRST), (FIRST, FIRST + THEN)):
        member = nearest(vectors, vectors[asked[:end]])
        means = np.array([vectors[member == query].mean(axis=0) for query in range(end)])
        cell = nearest(places, means)
        expected = np.where(cell[:, None] == np.arange(first, end), private["y"][dealt][:, None], -1)
        differing = (votes["votes"][:, first:end] != expected).any(axis=1)
        assert differing.mean() < 0.01, "except for the last bits of distances"
        assert ((votes["votes"][:, first:end] >= 0).sum(axis=1) <= 1).all()
    later = (votes["votes"][:, FIRST:] >= 0).any(axis=1)
    assert 0 < later.mean() < 0.9
    assert (again.read(0, "votes")["votes"] >= 0).any(axis=1).all(), "in the first round nobody is silent"


def test_one_record_changed_moves_nothing_public_and_two_cells_of_each_table(again: Again, tmp_path: Path) -> None:
    """Change a record that votes in both rounds."""
    other = again.elsewhere(tmp_path)
    other.make(f"{again.split}/pool.npz")
    teacher = (again.read(1, "votes")["votes"][:, FIRST:] >= 0).any(axis=1).argmax()
    dealt = read_arrays(again.folder / again.ensemble / "partition.npz", PARTITION)["indices"]
    change_record(other.folder / "digits" / "private.npz", dealt[teacher], white=16)
    other.make(f"{again.rounds[0]}/labels.npz")
    for public in (f"{again.split}/encoder.npz", f"{again.rounds[0]}/queries.npz"):
        assert (other.folder / public).read_bytes() == (again.folder / public).read_bytes()
    other.path(1, "queries.npz").parent.mkdir(parents=True)
    shutil.copy(again.path(1, "queries.npz"), other.path(1, "queries.npz"))  # given equal queries
    other.make(f"{again.rounds[1]}/votes.npz")
    before, after = (each.read(1, "votes")["votes"] for each in (again, other))
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [teacher]
    tables = [make_mechanism(*SPARSE).counts(read_votes(each.path(1, "votes.npz"))[1]) for each in (again, other)]
    change = np.abs(tables[0] - tables[1])
    assert change.max() <= 1
    assert 0 < change[:FIRST].sum() <= 2
    assert 0 < change[FIRST:].sum() <= 2
    released = other.read(0, "labels")["noisy_counts"] - again.read(0, "labels")["noisy_counts"]
    np.testing.assert_allclose(released, tables[1][:FIRST] - tables[0][:FIRST], atol=1e-9)


def test_labels_of_all_rounds_are_joined_and_the_files_belong_together(again: Again) -> None:
    first, both = (again.read(number, "labels") for number in range(2))
    np.testing.assert_array_equal(both["noisy_counts"][:FIRST], first["noisy_counts"])
    np.testing.assert_array_equal(both["noisy_counts"].argmax(axis=1), both["labels"])
    assert len(both["labels"]) == FIRST + THEN
    noise = both["noisy_counts"][FIRST:] - read_votes(again.path(1, "votes.npz"))[1].counts[FIRST:]
    assert 0.7 * SIGMA < noise.std() < 1.4 * SIGMA
    assert [each["strategy"] for each in both.meta["rounds"]] == ["prototypes", "least-confident"]
    assert check(again.folder).faults == []
    collected = [read_json(again.path(number, "collected.json"), "collect") for number in range(2)]
    records = [record for each in collected for record in each["records"]]
    named = {(record["ensemble"], record["clusters"]) for record in records}
    assert named == {("teachers-1197_iid_nearest-query_modern", None)}
    assert sorted(each["queries"] for each in records if each["record"] == "student") == [FIRST, FIRST + THEN]
    assert not [record for record in records if record["record"] == "ensemble"]


def test_a_student_reads_the_tables_of_both_rounds_together(again: Again) -> None:
    """Expect that a confident table is decoded directly."""
    labels = again.read(1, "labels")
    pool = read_arrays(again.folder / again.split / "pool.npz", POOL)
    features = read_arrays(again.folder / again.split / "features.npz", FEATURES)
    told = student_data(pool, labels, FIRST + THEN, features)
    sure = np.sort(labels["noisy_counts"], axis=1)
    clear = sure[:, -1] - sure[:, -2] > 12 * SIGMA
    assert clear.sum() > THEN
    np.testing.assert_array_equal(told.labels[labels["queries"][clear]], labels["labels"][clear])
    assert "--features" in again.command(f"{again.rounds[1]}/student.json")


def refused(stage: Callable[..., None], fault: str, **arguments: Any) -> None:
    with pytest.raises(ArtefactError, match=fault):
        stage(**arguments)


def changed(artefact: Artefact, out: Path, **facts: Any) -> Path:
    """Write the artefact with other metadata to the file `out`."""
    write_arrays(out, LAYOUTS[artefact.meta["kind"]], artefact.arrays, {**artefact.meta, **facts})
    return out


def test_labels_of_another_round_or_another_partition_are_refused(again: Again, tmp_path: Path) -> None:
    first, second = (again.arguments(number) for number in range(2))
    votes, out = again.read(1, "votes"), tmp_path / "votes.npz"
    of_others = {"queries_files": ["0" * 64, votes.meta["queries_files"][1]]}
    for changes, fault in (
        ({"votes": first["votes"]}, "its votes of the last rounds are not on"),
        ({"selected": None, "earlier": None}, "its queries were selected in rounds, but --selected is missing"),
        (
            {"votes": changed(votes, tmp_path / "a.npz", earlier_votes="0" * 64)},
            "made with other votes than the earlier",
        ),
        (
            {"votes": changed(votes, tmp_path / "b.npz", **of_others)},
            "contains votes of other earlier rounds",
        ),
    ):
        refused(aggregate.run, fault, **{**second, **changes})
    refused(aggregate.run, "its votes of the last rounds are not on", **{**first, "votes": second["votes"]})
    write_arrays(out, VOTES, {**votes.arrays, "queries": votes["queries"][::-1]}, votes.meta)
    fault = "its array `queries` does not contain the queries of"
    refused(aggregate.run, fault, **{**second, "votes": out})
    assert not (again.folder / "refused.npz").exists()


def test_votes_of_another_round_or_another_partition_are_not_joined(again: Again, tmp_path: Path) -> None:
    join: dict[str, Any] = {name: again.folder / again.split / f"{name}.npz" for name in ("pool", "truth", "test")}
    join |= {"partition": again.folder / again.ensemble / "partition.npz", "earlier": again.path(0, "votes.npz")}
    join |= {"chunk": [again.path(1, f"chunks/{ends}.npz") for ends in ("0-699", "700-1196")]}
    join |= {"out": tmp_path / "joined.npz", "summary": tmp_path / "ensemble.json"}
    refused(join_votes.run, "it contains votes of a later round, but", **{**join, "earlier": None})
    earlier = again.read(0, "votes")
    for changes, fault in (
        ({"partition": "another"}, "it was made with another partition than"),
        ({"encoder": "another"}, "it was made with another encoder than"),
        ({"queries_files": ["0" * 64]}, "it contains votes of other rounds than those before"),
    ):
        other = changed(earlier, tmp_path / "earlier.npz", **changes)
        refused(join_votes.run, fault, **{**join, "earlier": other})
    chunk = read_arrays(join["chunk"][0], CHUNK)
    other = changed(chunk, tmp_path / "chunk.npz", queries_files=earlier.meta["queries_files"])
    fault = "it was made with other queries than"
    refused(join_votes.run, fault, **{**join, "chunk": [join["chunk"][1], other]})


def test_teachers_are_asked_about_rounds_in_their_order(again: Again, tmp_path: Path) -> None:
    command = again.command(f"{again.rounds[1]}/chunks/0-699.npz")
    command[command.index("--out") + 1] = str(tmp_path / "chunk.npz")
    first, second = (str(again.path(number, "queries.npz")) for number in range(2))
    places = [place + 1 for place, word in enumerate(command) if word == "--selected"]
    assert [command[place] for place in places] == [first, second]
    model = command.index("--model") + 1
    for selected, name, fault in (
        ([second], "nearest-query", "its queries were selected after an earlier round"),
        ([first, first], "nearest-query", "it contains queries of the first round, but --selected names"),
        ([first, second, second], "nearest-query", "was selected more than once over all rounds"),
        ([first, second], "logistic", "it contains queries of a later round"),
    ):
        command[model] = name
        kept = [word for place, word in enumerate(command) if not {place, place + 1} & {*places}]
        words = [*kept, *(word for file in selected for word in ("--selected", file))]
        refused(cli.main, fault, args=words, standalone_mode=False)


def test_rounds_of_records_are_released_and_stand_in_the_ledger(again: Again, tmp_path: Path) -> None:
    """Release labels of the same votes and, after the first round, of other queries."""
    with briefly() as patch:
        made = Again(again.folder, mode="release", ledger={"budget": 6.0, "delta": DELTA})
        for name, value in made.run.ledger_environment().items():
            patch.setenv(name, value)
        made.make_all("bounds.json")
    ledger = again.folder / "ledger"
    (path,) = ledger.glob("*.json")
    drawn = Ledger.read(path)
    assert [each.queries for each in drawn.entries] == [FIRST, THEN]
    held = made.read(1, "labels")
    assert (held.meta["mode"], held.meta["votes"]) == (Mode.RELEASE, None)
    assert held["noisy_counts"].dtype.kind == "i"
    together = spending.epsilon(drawn.spent, DELTA)
    gdp = independent.gaussian_dp(2 / SIGMA, DELTA)
    least = min(bound.epsilon for bound in made.bounds(1) if bound.queries == FIRST + THEN)
    assert 0.95 * gdp < least <= together * (1 + 1e-9)
    other = changed(made.read(1, "votes"), tmp_path / "other.npz", partition="0" * 64)
    drawn_again = {**made.arguments(1), "seed": None, "stream": None, "release": True, "ledger": ledger}
    refused(aggregate.run, "come from different partitions", **{**drawn_again, "votes": other})
    refused(
        aggregate.run, "this ledger has no entry for the release", **{**drawn_again, "ledger": tmp_path / "elsewhere"}
    )
    assert len(Ledger.read(path).entries) == 2


def test_mechanisms_that_are_not_proven_for_abstentions_are_refused_in_rounds_too() -> None:
    rounds = {**ROUNDS, "mechanisms": {"gnmax": {"sigma": 5}}}
    with pytest.raises(PatebenchError, match=r"rounds\[0\].*assumes that teachers vote on every query"):
        validate({"seeds": 0, "experiments": {"one": {**EXPERIMENT, "rounds": [rounds]}}})


def test_the_adjacency_audit_reruns_the_first_round_of_votes(tmp_path: Path) -> None:
    """Expect public queries and one changed row of votes, audited once for all noise settings."""
    noises = {"sparse-gnmax": {"k": 1, "sigma": [3, 5]}}
    few = [{"teachers": 40, "model": "nearest-query"}]
    settings = {**EXPERIMENT, "ensembles": few, "rounds": [{**ROUNDS, "mechanisms": noises}]}
    with briefly() as patch:
        patch.setattr(adjacency, "KINDS", {"shard": adjacency.KINDS["shard"]})
        found = list(adjacency.audit(validate({"seeds": 0, "experiments": {"one": settings}}), tmp_path))
    assert len(found) == 2, "the data set, and the ensemble once"
    assert not any(each.violations for each in found)
    (finding,) = found[1].findings
    assert finding.votes_moved == finding.shards_moved
    assert len(finding.votes_moved) == 1
