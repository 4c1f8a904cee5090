"""Test the stage `train_petdl`: outputs of every form, verdicts of the audit, and refused inputs."""

from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refuses
from tests.stages.digits import Ensemble

from patebench.artefacts.records import private_model_records
from patebench.config.parameters import PetdlParameters
from patebench.core.bound import Bound, Kind
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import CHUNK, VOTES
from patebench.petdl import FORMS
from patebench.stages import train_petdl

pytestmark = pytest.mark.slow

STREAM = "digits/seed-0_pool-100_test-100/teachers-6_iid_conv-small_plain_epochs-6/petdl/published"


class World(Ensemble):
    """Six teachers in two chunks, and students trained on their outputs on the pool."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.chunks = [self.train(*of, model="conv-small", epochs=3, hints="block2") for of in ((0, 3), (4, 5))]
        self.votes, self.summary = self.join(*self.chunks)

    def learn(self, **changes: Any) -> dict[str, Any]:
        """Return the output of the stage; `files` replace some of its inputs."""
        files = {"ensemble": self.summary, "votes": self.votes, "chunk": self.chunks, **changes.pop("files", {})}
        given = {"form": "published", "delta": 1e-5, "hint_epochs": 1, "distillation_epochs": 1, "compression": 20}
        given |= {"batch": 32, **({} if "epsilon" in changes else {"noise": 2.0}), **changes}
        out = self.folder / "petdl.json"
        train_petdl.run(
            **files, pool=self.pool, test=self.test, parameters=PetdlParameters.checked(given), seed=0, stream=STREAM,
            out=out,
        )  # fmt: skip
        return read_json(out, "train_petdl")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_as_published_it_learns_states_its_claim_and_is_found_out(world: World) -> None:
    told = world.learn(epsilon=1.21, distillation_epochs=16)
    assert told["accuracy"] > 0.4, "after 64 steps"
    assert told["curve"][-1] == {"epoch": 16, "accuracy": told["accuracy"]}
    (bound,) = [Bound.from_json(each) for each in told["bounds"]]
    assert (bound.kind, bound.publishable, bound.queries) == (Kind.CLAIMED, False, (1 + 16) * 4)
    assert bound.epsilon == pytest.approx(1.21, rel=1e-6)
    assert (told["audited"], told["verdict"]) == ("inf", "violated")
    assert "same bit for bit" in told["audit"]["noise"]["how"]
    assert abs(told["model_parameters"] - 157_066 / 20) < 1_000
    assert told["parameters"]["hint_layer"] == "block2"
    assert (told["teachers"], told["partition"], told["system"]) == (6, "iid", "PET-DL")
    (record,) = private_model_records(Path("petdl.json"), told)
    assert record["private_model"].startswith("teachers-6_iid_conv-small_modern_epochs-3_published_")
    assert (record["verdict"], record["audited"]) == ("violated", "inf")
    assert record["ensemble"] == "teachers-6_iid_conv-small_modern_epochs-3"


@pytest.mark.parametrize("form", [name for name in FORMS.names() if name != "published"])
def test_the_sound_forms_hold_what_they_state(world: World, form: str) -> None:
    told = world.learn(form=form, noise=10.0)
    (bound,) = [Bound.from_json(each) for each in told["bounds"]]
    assert bound.kind is Kind.WORST_CASE
    assert told["verdict"] == "holds"
    assert 0.9 * bound.epsilon < told["audited"] <= bound.epsilon, "the worst pair is nearly the bound"
    assert told["audit"]["releases"]
    assert world.learn(form=form, noise=10.0)["curve"] == told["curve"], "of the same seed"


def test_without_noise_nothing_is_stated_and_as_many_samples_are_read_as_asked_for(world: World) -> None:
    told = world.learn(form="noisy-knowledge", noise=0.0, hint_epochs=0, samples=25)
    assert (told["bounds"][0]["epsilon"], told["bounds"][0]["queries"]) == ("inf", 25)
    assert told["verdict"] == "vacuous"


def test_as_published_accuracy_is_the_same_at_every_noise(world: World) -> None:
    curves = [world.learn(noise=noise, distillation_epochs=3)["curve"] for noise in (0.0, 3.0, 1e6)]
    assert curves[0] == curves[1] == curves[2]


def test_inputs_that_do_not_fit_are_refused(world: World, tmp_path: Path) -> None:
    bare = []
    for i, path in enumerate(world.chunks):
        chunk = read_arrays(path, CHUNK)
        kept = {name: chunk[name] for name in ("teachers", "votes", "test_votes")}
        bare.append(tmp_path / f"{i}.npz")
        write_arrays(bare[-1], CHUNK, kept, {**chunk.meta, "hints": None})
    votes = read_arrays(world.votes, VOTES)
    meta = {**votes.meta, "chunks": [read_arrays(path, CHUNK).digest for path in bare]}
    digest = write_arrays(tmp_path / "votes.npz", VOTES, votes.arrays, meta)
    summary = {**read_json(world.summary, "join_votes"), "votes": digest}
    write_json(tmp_path / "ensemble.json", "join_votes", summary)
    files = {"chunk": bare, "votes": tmp_path / "votes.npz", "ensemble": tmp_path / "ensemble.json"}
    with pytest.raises(
        ArtefactError, match="lacks the teachers' probabilities, which only an ensemble with the key 'hints' stores"
    ):
        world.learn(files=files)
    with pytest.raises(PatebenchError, match=r"votes.npz was joined from \d files? of votes, but --chunk gives"):
        world.learn(files={"chunk": world.chunks[:1]})
    with pytest.raises(PatebenchError, match="no layer 'block9' for hints; choose one of block1, block2, block3"):
        world.learn(guided="block9")
    assert world.learn(guided="block1")["accuracy"] >= 0
    for given in ({}, {"noise": 1, "epsilon": 1}):
        with refuses("value"):
            PetdlParameters.checked({"form": "published", "delta": 1e-5, **given})
