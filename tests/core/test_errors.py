"""Errors that users see are single lines."""

from pathlib import Path

from patebench.core.errors import ArtefactError, PatebenchError


def test_an_error_is_one_line() -> None:
    assert str(PatebenchError("first\nsecond\n\n   third")) == "first second third"


def test_an_artefact_error_names_file_fault_and_mend() -> None:
    fault = ArtefactError("a/b.npz", "it is empty", "make it anew")
    assert str(fault) == "a/b.npz: it is empty; make it anew."
    assert fault.path == Path("a/b.npz")
    assert isinstance(fault, PatebenchError)
    assert "delete the file and run snakemake again" in str(ArtefactError("c.npz", "it is empty"))
