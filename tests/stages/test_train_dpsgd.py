"""Test the stage `train_dpsgd`: three forms at the target ε, and public settings independent of private data."""

import logging
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import WithEncoder

from patebench.artefacts.reading import read_samples
from patebench.artefacts.records import private_model_records
from patebench.config.parameters import DpsgdParameters
from patebench.core.bound import Adjacency, Bound, Kind
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import ENCODER, POOL, SAMPLES
from patebench.models import architectures
from patebench.reporting.frames import RECORDS, check_record
from patebench.stages import train_dpsgd

PRIVACY = {"epsilon": 8.0, "delta": 1e-5}
FEW = {"rate": 0.3, "steps": 12}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> WithEncoder:
    return WithEncoder(tmp_path_factory.mktemp("dpsgd"))


def _train(digits: WithEncoder, form: str, private=None, encoder: Path | str | None = "its own", **settings):
    if encoder == "its own":
        encoder = None if form == "scratch" else digits.encoder
    out = digits.folder / "dpsgd.json"
    train_dpsgd.run(
        private=private or digits.private, pool=digits.pool, test=digits.test, encoder=encoder,
        training=DpsgdParameters.checked({"form": form, **PRIVACY, **settings}), seed=0, stream="digits/dpsgd", out=out,
    )  # fmt: skip
    return read_json(out, "train_dpsgd")


def test_a_linear_model_of_public_features_learns(digits: WithEncoder) -> None:
    told = _train(digits, "linear")
    assert told["accuracy"] > 0.8
    assert told["encoder"] == read_arrays(digits.encoder, ENCODER).digest
    assert (told["model"], told["model_parameters"]) == ("linear", 33 * 10)
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert 7.9 < bound.epsilon <= 8.0
    assert (bound.delta, bound.queries, bound.kind) == (1e-5, 100, Kind.WORST_CASE)
    assert (bound.adjacency, bound.publishable) == (Adjacency.ADD_OR_REMOVE_RECORD, False)
    assert told["parameters"]["rate"] == 1
    assert len(told["curve"]) == 10
    assert "not a release" in told["statement"]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "model"), [("scratch", "tanh-cnn"), ("fine-tuned", "encoder")])
def test_a_network_takes_the_steps_that_are_accounted_for(digits: WithEncoder, form: str, model: str) -> None:
    told = _train(digits, form, views=2, **FEW)
    assert told["model"] == model
    assert told["model_parameters"] > 4000
    assert [point["step"] for point in told["curve"]][-1] == 12
    (bound,) = told["bounds"]
    assert bound["queries"] == 12
    assert bound["epsilon"] <= 8
    assert ("encoder" in told) == (form == "fine-tuned")


@pytest.mark.slow
def test_a_network_of_the_size_of_a_student_of_petdl(digits: WithEncoder) -> None:
    told = _train(digits, "scratch", model="conv-small", compression=6.83, rate=0.05, steps=2)
    whole = architectures.parameters(architectures.SMALL, (1, 8, 8), 10)
    assert told["model"] == "conv-small"
    assert told["model_parameters"] == pytest.approx(whole / 6.83, rel=0.1)
    assert told["parameters"]["compression"] == 6.83


def test_its_record_is_sound(digits: WithEncoder) -> None:
    (record,) = private_model_records(digits.folder / "dpsgd.json", _train(digits, "linear", steps=20))
    assert (
        check_record(digits.folder / "dpsgd.json", record)["private_model"] == "linear_epsilon-8_delta-1e-05_steps-20"
    )
    assert set(RECORDS["private_model"]) <= set(record)


def test_nothing_is_learnt_from_a_test_sample(digits: WithEncoder) -> None:
    """Add the test set to the private data with other labels, which would cause wrong predictions."""
    private, test = read_samples(digits.private, "private"), read_samples(digits.test, "test")
    x, y = np.concatenate([private["x"], test["x"]]), np.concatenate([private["y"], (test["y"] + 1) % 10])
    mixed = digits.folder / "mixed.npz"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    both = [_train(digits, "linear", private=path, steps=20) for path in (mixed, digits.private)]
    assert both[0]["curve"] == both[1]["curve"]


@pytest.mark.slow
def test_how_many_private_samples_there_are_changes_no_setting(digits: WithEncoder) -> None:
    """Compare rate, noise, steps and ε for a hundredth of the samples, all black."""
    private, few = read_samples(digits.private, "private"), digits.folder / "few.npz"
    black = {"x": np.zeros_like(private["x"][:12]), "y": private["y"][:12], "row": np.arange(12)}
    write_arrays(few, SAMPLES, black, private.meta)
    told = [_train(digits, "linear", private=path, steps=10, rate=0.4) for path in (digits.private, few)]
    assert told[0]["parameters"] == told[1]["parameters"]
    assert told[0]["bounds"] == told[1]["bounds"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"form": "linaer"}, r"form: 'linaer' is unknown \(did you mean 'linear'\?\)"),
        ({"form": "scratch", "model": "logistic", **FEW}, "'logistic' is not a network"),
        ({"form": "scratch", "model": "mlp", "compression": 2, **FEW}, "for compression choose the model"),
        ({"form": "linear", "epsilon": 1e-9}, "cost more than ε"),
    ],
)
def test_refuses_what_can_not_be(digits: WithEncoder, settings, words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        _train(digits, **settings)


def test_tables_have_no_views(digits: WithEncoder, tmp_path: Path) -> None:
    pool = read_arrays(digits.pool, POOL)
    tables = tmp_path / "tables.npz"
    write_arrays(tables, POOL, {"x": pool["x"].reshape(300, -1).astype(np.float32), "row": pool["row"]}, pool.meta)
    with pytest.raises(PatebenchError, match="random views need images"):
        train_dpsgd.run(
            private=digits.private, pool=tables, test=digits.test, encoder=None, seed=0, stream="tables",
            training=DpsgdParameters(form="scratch", views=2, **PRIVACY), out=tmp_path / "out.json",
        )  # fmt: skip


def test_an_encoder_of_another_pool_is_refused(digits: WithEncoder) -> None:
    known, other = read_arrays(digits.encoder, ENCODER), digits.folder / "other.npz"
    write_arrays(other, ENCODER, known.arrays, {**known.meta, "pool": "another"})
    with refuses("mismatch"):
        _train(digits, "linear", encoder=other)
    with pytest.raises(PatebenchError, match="give --encoder"):
        _train(digits, "linear", encoder=None)
    with pytest.raises(PatebenchError, match="leave out --encoder"):
        _train(digits, "scratch", encoder=digits.encoder)


def test_the_log_tells_accuracy_and_epsilon(digits: WithEncoder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "patebench"):
        _train(digits, "linear", steps=10)
    assert "on the test set at ε = " in caplog.text
