"""Test the vote matrix that joins chunks of teachers, and the summary of their accuracy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import Ensemble

from patebench.artefacts.reading import check_in_place
from patebench.config.parameters import SplitParameters
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import CHUNK, POOL, VOTES
from patebench.stages.join_votes import describe_votes


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    return Ensemble(tmp_path_factory.mktemp("ensemble"))


@pytest.fixture(scope="module")
def halves(ensemble: Ensemble) -> tuple[Path, Path]:
    return ensemble.train(0, 2, soft=(2.0,)), ensemble.train(3, 5, soft=(2.0,))


def test_joined_votes_are_in_order_whatever_the_order_of_chunks(ensemble: Ensemble, halves: tuple[Path, Path]) -> None:
    whole = read_arrays(ensemble.train(0, 5, soft=(2.0,)), CHUNK)
    for order in (halves, halves[::-1]):
        out, summary = ensemble.join(*order)
        votes = read_arrays(out, VOTES)
        assert np.array_equal(votes["votes"], whole["votes"])
        assert votes["soft"] == pytest.approx(whole["soft"], rel=1e-5)
        assert votes.meta["temperatures"] == [2.0]
    facts = read_json(summary, "join_votes")
    assert facts["teachers"] == len(facts["teacher_accuracies"]) == 6
    assert np.mean(facts["teacher_accuracies"]) > 0.7
    assert sum(facts["gap_histogram"]) == 100
    assert facts["split"] == read_arrays(ensemble.pool, POOL).meta["split"]
    assert facts["split"] == SplitParameters(pool=100, test=100).model_dump()
    assert facts["training"] == {"model": "logistic", "recipe": "modern", "epochs": None, "neighbours": None}


def test_votes_of_other_teachers_are_refused_beside_the_description_of_the_right_ones(
    ensemble: Ensemble, halves: tuple[Path, Path]
) -> None:
    """Replace votes by those of other teachers with the same partition and pool."""
    votes, _ = ensemble.join(*halves)
    check_in_place(read_arrays(votes, VOTES))
    copied = votes.read_bytes()
    ensemble.join(ensemble.train(0, 5, "random-forest"))
    votes.write_bytes(copied)
    with refuses("mismatch", votes):
        check_in_place(read_arrays(votes, VOTES))


def test_description_by_hand() -> None:
    votes = np.array([[0, 1, 2], [0, 1, 1], [0, 2, 0], [1, 1, 2]])
    arrays = {"votes": votes, "test_votes": votes}
    found = describe_votes(arrays, 4, np.array([0, 1, 0]), np.array([0, 1, 2]), ["a", "b", "c"])
    # Counts: (3,1,0), (0,3,1), (1,1,2): gaps 2, 2, 1; the plurality 0, 1, 2 is right on two queries of three.
    assert found["gap_histogram"] == [0, 1, 2, 0, 0]
    assert found["gap_mean"] == pytest.approx(5 / 12)
    assert found["plurality_accuracy_pool"] == pytest.approx(2 / 3)
    assert found["plurality_accuracy_test"] == 1.0
    assert found["teacher_accuracies"] == pytest.approx([1.0, 2 / 3, 1 / 3, 2 / 3])


def rewritten(path: Path, change: Callable[[dict, dict], None]) -> Path:
    """Write a copy of a chunk with changed arrays or metadata and a valid checksum."""
    chunk = read_arrays(path, CHUNK)
    arrays, meta = {name: array.copy() for name, array in chunk.arrays.items()}, dict(chunk.meta)
    change(arrays, meta)
    out = path.with_name("changed.npz")
    write_arrays(out, CHUNK, arrays, meta)
    return out


@pytest.mark.parametrize("fact", ["model", "recipe", "epochs", "training", "seed", "temperatures"])
def test_a_chunk_of_another_origin_is_refused(ensemble: Ensemble, halves: tuple[Path, Path], fact: str) -> None:
    other = [5.0] if fact == "temperatures" else "another"
    foreign = rewritten(halves[1], lambda arrays, meta: meta.update({fact: other}))
    with refuses("mismatch"):
        ensemble.join(halves[0], foreign)


def test_missing_doubled_and_foreign_teachers_are_refused(ensemble: Ensemble, halves: tuple[Path, Path]) -> None:
    strange = rewritten(halves[1], lambda arrays, meta: arrays["teachers"].__setitem__(2, 77))
    for chunks in ((halves[0],), (halves[0], *halves), (halves[0], strange)):
        with refuses("teachers"):
            ensemble.join(*chunks)
