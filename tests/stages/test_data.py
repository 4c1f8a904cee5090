"""Test the stage `data`: a name and options become the private and the public artefact."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stages.commands import invoke

from patebench.artefacts.reading import read_samples
from patebench.config.parameters import ClassParameters
from patebench.core import workers
from patebench.core.errors import PatebenchError
from patebench.features import ENCODERS
from patebench.stages import data

ROLES = ("private", "public")


def make(folder: Path, name: str, parameters: ClassParameters | None = None, **options: Any) -> tuple[Path, Path]:
    private, public = folder / "out" / "private.npz", folder / "out" / "public.npz"
    files = {"root": folder / "no-such-root", "private": private, "public": public}
    data.run(name=name, download=False, option=options, parameters=parameters or ClassParameters(), **files)
    return private, public


def test_both_parts_are_written_with_their_facts(tmp_path: Path) -> None:
    for role, path, samples in zip(ROLES, make(tmp_path, "breast_cancer"), (369, 200), strict=True):
        part = read_samples(path, role)
        assert part["x"].shape == (samples, 30)
        assert part["row"].tolist() == list(range(samples))
        facts = {"dataset": "breast_cancer", "class_names": ["malignant", "benign"], "classes": 2}
        assert facts.items() <= part.meta.items()


def test_the_command_looks_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"--{role}={tmp_path / role}.npz" for role in ("private", "public")]
    monkeypatch.chdir(tmp_path)
    for told, more, root in (("/else", [], "/else"), ("/else", ["--root=own"], "own"), ("", [], "data")):
        monkeypatch.setenv("PATEBENCH_DATA", told)
        result = invoke("data", "mnist", "--no-download", *files, *more)
        assert f"{root}/MNIST" in str(result.exception)


def test_classes_may_be_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.arange(4) % 2)
    own = {"loader": "npz", "private": str(tmp_path / "a.npz"), "public": str(tmp_path / "a.npz")}
    for told, names in (({"classes": 3}, ["0", "1", "2"]), ({"class_names": ["cat", 5]}, ["cat", "5"])):
        parameters = ClassParameters.checked(told)
        for path, role in zip(make(tmp_path, "mine", parameters, **own), ROLES, strict=True):
            part = read_samples(path, role)
            assert (part.meta["class_names"], part.meta["classes"]) == (names, len(names))
        with pytest.raises(PatebenchError, match="the data set 'wine' has fixed classes; leave out 'classes'"):
            make(tmp_path, "wine", parameters)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("digit", {}, r"unknown data set 'digit' .did you mean 'digits'"),
        ("digits", {"private": "a.npz"}, "the data set 'digits' has no option 'private'; its options are: none"),
        ("npz", {"private": "a.npz"}, "the data set 'npz' requires the option 'public'"),
        ("mine", {"loader": "npz", "private": "a", "public": "b", "class_names": "cat"}, "no option 'class_names'"),
        ("digits", {"loader": "npz", "private": "a", "public": "b"}, "already the name of a built-in data set"),
        ("digits", {"features": "patches"}, "the encoder 'patches' is trained on the pool"),
        ("digits", {"features": "axes"}, "the encoder 'axes' reads only"),
        (
            "tail",
            {"loader": "digits", "long_tail": "1000,10"},
            "needs 1000 private samples of class 0, but there are fewer",
        ),
        ("tail", {"loader": "digits", "long_tail": "100"}, "is not two positive whole numbers"),
        ("tail", {"loader": "digits", "long_tail": "100,few"}, "is not two positive whole numbers"),
        ("tail", {"loader": "digits", "long_tail": "100,0"}, "is not two positive whole numbers"),
    ],
)
def test_wrong_names_and_options_are_refused(tmp_path: Path, name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        make(tmp_path, name, **options)
    assert not (tmp_path / "out").exists()


def test_features_of_a_record_do_not_depend_on_other_records(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8), np.uint8)
    np.savez(tmp_path / "public.npz", x=images, y=np.arange(3) % 2)
    vectors = []
    for kept in ([0, 1, 2], [2]):
        np.savez(tmp_path / "private.npz", x=images[kept], y=np.zeros(len(kept), np.int64))
        options = {name: str(tmp_path / f"{name}.npz") for name in ("private", "public")}
        private, public = make(tmp_path, "mine", loader="npz", features="imagenet", **options)
        shown = read_samples(public, "public")
        assert shown["x"].shape == (3, 1856)
        np.testing.assert_array_equal(shown["images"][:, 0], images)
        samples = read_samples(private, "private")
        assert samples.meta["features"] == "imagenet"
        np.testing.assert_array_equal(samples["images"][:, 0], images[kept])  # for --protects labels
        assert samples["x"].dtype == np.float32
        vectors.append(samples["x"][-1])
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_outputs_of_several_encoders_stand_side_by_side(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).integers(0, 256, (2, 8, 8), np.uint8), y=np.arange(2))
    own = {"loader": "npz", "private": str(tmp_path / "a.npz"), "public": str(tmp_path / "a.npz")}
    one, other, both = (
        read_samples(make(tmp_path, "mine", features=features, **own)[0], "private")["x"]
        for features in ("imagenet", "scattering", "imagenet,scattering")
    )
    np.testing.assert_array_equal(both, np.concatenate([one, other], axis=1))


@pytest.mark.slow
def test_features_do_not_depend_on_the_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (20, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(20) % 2)
    options = {"loader": "npz", "features": "scattering"} | dict.fromkeys(ROLES, str(tmp_path / "a.npz"))
    monkeypatch.setattr(data, "_PART", 8)
    found = []
    for number in (1, 2):
        workers.set_processes(number)
        try:
            paths = make(tmp_path, "mine", **options)
        finally:
            workers.set_processes(1)
        found.append([read_samples(path, role)["x"] for path, role in zip(paths, ROLES, strict=True)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    encoder = ENCODERS.load("scattering")
    np.testing.assert_array_equal(found[1][0], encoder.outputs_alone(x[:, None]))
    np.testing.assert_array_equal(found[1][1], encoder.outputs(x[:, None]).numpy())


def test_a_long_tail_keeps_the_first_samples_of_each_class(tmp_path: Path) -> None:
    whole = [read_samples(path, role) for path, role in zip(make(tmp_path, "digits"), ROLES, strict=True)]
    tailed = make(tmp_path, "tail", loader="digits", long_tail="100,10")
    private, public = (read_samples(path, role) for path, role in zip(tailed, ROLES, strict=True))
    assert np.bincount(private["y"]).tolist() == [100, 77, 60, 46, 36, 28, 22, 17, 13, 10]
    for label in range(10):
        own = private["x"][private["y"] == label]
        np.testing.assert_array_equal(own, whole[0]["x"][whole[0]["y"] == label][: len(own)])
    np.testing.assert_array_equal(private["x"], whole[0]["x"][private["row"]])  # rows are those before the selection
    np.testing.assert_array_equal(public["x"], whole[1]["x"])
