"""Test the stage `data`: a name and options become the private and the public artefact."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.refusals import refuses

from patebench.artefacts.reading import read_samples
from patebench.cli import cli
from patebench.config.parameters import ClassParameters
from patebench.core.errors import PatebenchError
from patebench.stages import data


def make(folder: Path, name: str, **options: Any) -> tuple[Path, Path]:
    private, public = folder / "out" / "private.npz", folder / "out" / "public.npz"
    data.run(name=name, root=folder / "no-such-root", download=False, option=options, private=private, public=public)
    return private, public


def test_both_parts_are_written_with_their_facts(tmp_path: Path) -> None:
    private, public = make(tmp_path, "breast_cancer")
    for role, path, samples in (("private", private, 369), ("public", public, 200)):
        part = read_samples(path, role)
        assert part["x"].shape == (samples, 30)
        assert part["row"].tolist() == list(range(samples))
        assert part.meta["dataset"] == "breast_cancer"
        assert part.meta["class_names"] == ["malignant", "benign"]
        assert part.meta["classes"] == 2


def test_the_command_looks_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"--{role}={tmp_path / role}.npz" for role in ("private", "public")]
    missing = ["data", "mnist", "--no-download", *files]
    monkeypatch.chdir(tmp_path)
    for told, more, root in (
        ("/else/where", [], "/else/where"),
        ("/else/where", ["--root=own"], "own"),
        ("", [], "data"),
    ):
        monkeypatch.setenv("PATEBENCH_DATA", told)
        result = CliRunner().invoke(cli, [*missing, *more])
        assert f"{root}/MNIST" in str(result.exception)


def test_rows_are_those_of_the_files(tmp_path: Path) -> None:
    samples = {"x": np.zeros((4, 8, 8), np.uint8), "y": np.arange(4) % 2}
    np.savez(tmp_path / "a.npz", **samples, row=[9, 2, 7, 4])
    np.savez(tmp_path / "b.npz", **samples)
    options = {"loader": "npz", "private": str(tmp_path / "a.npz"), "public": str(tmp_path / "b.npz")}
    private, public = make(tmp_path, "mine", **options)
    assert read_samples(private, "private")["row"].tolist() == [9, 2, 7, 4]
    assert read_samples(public, "public")["row"].tolist() == [0, 1, 2, 3]


def test_classes_may_be_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.arange(4) % 2)
    files = {role: tmp_path / "out" / f"{role}.npz" for role in ("private", "public")}
    own = {"loader": "npz", "private": str(tmp_path / "a.npz"), "public": str(tmp_path / "a.npz")}
    for told, names in (({"classes": 3}, ["0", "1", "2"]), ({"class_names": ["cat", 5]}, ["cat", "5"])):
        parameters = ClassParameters.checked(told)
        data.run(name="mine", root=tmp_path, download=False, option=own, parameters=parameters, **files)
        for role, path in files.items():
            part = read_samples(path, role)
            assert (part.meta["class_names"], part.meta["classes"]) == (names, len(names))
        with pytest.raises(PatebenchError, match="the data set 'wine' has fixed classes; leave out classes"):
            data.run(name="wine", root=tmp_path, download=False, option={}, parameters=parameters, **files)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("digit", {}, r"unknown data set 'digit' .did you mean 'digits'"),
        ("digits", {"private": "a.npz"}, "the data set 'digits' has no option 'private'; its options are: none"),
        ("npz", {"private": "a.npz"}, "the data set 'npz' requires the option 'public'"),
        ("mine", {"loader": "npz", "privat": "a", "public": "b"}, r"has no option 'privat' .did you mean 'private'"),
        ("mine", {"loader": "npz", "private": "a", "public": "b", "class_names": "cat"}, "no option 'class_names'"),
        ("mine", {"loader": "nqz"}, r"unknown data set 'nqz' .did you mean 'npz'"),
    ],
)
def test_wrong_names_and_options_are_refused(tmp_path: Path, name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        make(tmp_path, name, **options)
    assert not (tmp_path / "out").exists()


def test_the_stages_of_data_import_neither_torch_nor_scikit_learn() -> None:
    code = (
        "import sys, patebench.stages.data, patebench.stages.split, patebench.stages.partition;"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'PIL') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


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


@pytest.mark.parametrize(("encoder", "code"), [("patches", "unknown-name"), ("axes", "shape")])
def test_an_encoder_that_learns_or_reads_tables_is_refused(tmp_path: Path, encoder: str, code: str) -> None:
    with pytest.raises(PatebenchError) as fault:
        make(tmp_path, "digits", features=encoder)
    assert fault.value.code == code


def test_outputs_of_several_encoders_stand_side_by_side(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8), np.uint8)
    np.savez(tmp_path / "samples.npz", x=images, y=np.arange(2))
    np.savez(tmp_path / "others.npz", x=images[::-1], y=np.arange(2))
    options = {"loader": "npz", "private": str(tmp_path / "samples.npz"), "public": str(tmp_path / "others.npz")}
    parts = []
    for features in ("imagenet", "scattering", "imagenet,scattering"):
        private, _ = make(tmp_path / features, "mine", features=features, **options)
        parts.append(read_samples(private, "private")["x"])
    np.testing.assert_array_equal(parts[2], np.concatenate(parts[:2], axis=1))


def test_a_long_tail_keeps_the_first_samples_of_each_class(tmp_path: Path) -> None:
    roles = ("private", "public")
    whole = [read_samples(path, role) for path, role in zip(make(tmp_path, "digits"), roles, strict=True)]
    tailed = make(tmp_path, "tail", loader="digits", long_tail="100,10")
    private, public = (read_samples(path, role) for path, role in zip(tailed, roles, strict=True))
    assert np.bincount(private["y"]).tolist() == [100, 77, 60, 46, 36, 28, 22, 17, 13, 10]
    for label in range(10):
        own = private["x"][private["y"] == label]
        np.testing.assert_array_equal(own, whole[0]["x"][whole[0]["y"] == label][: len(own)])
    np.testing.assert_array_equal(private["x"], whole[0]["x"][private["row"]])  # rows are those before the selection
    np.testing.assert_array_equal(public["x"], whole[1]["x"])
    with refuses("long-tail"):
        make(tmp_path, "tail", loader="digits", long_tail="1000,10")
