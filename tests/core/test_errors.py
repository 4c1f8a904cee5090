"""Test that an error is one line with a code and a place."""

from tests.refusals import refuses

from patebench.core.errors import ArtefactError, PatebenchError, located


def test_an_error_is_one_line_that_starts_with_its_place() -> None:
    assert str(PatebenchError("first\nsecond\n\n   third")) == "first second third"
    assert str(PatebenchError("is unknown", where="a\nkey")) == "a key: is unknown"
    assert str(PatebenchError("alpha = 0 is too small", where="alpha")) == "alpha = 0 is too small"
    with refuses("unknown-name", "experiments.demo") as caught, located("experiments.demo"):
        raise PatebenchError("unknown mechanism 'gmax'", code="unknown-name")
    assert str(caught.value) == "experiments.demo: unknown mechanism 'gmax'"


def test_an_artefact_error_names_file_fault_and_fix() -> None:
    fault = ArtefactError("a/b.npz", "it is empty", "make it again", code="empty")
    assert (str(fault), fault.code, fault.where) == ("a/b.npz: it is empty; make it again.", "empty", "a/b.npz")
    assert "delete the file and run snakemake again" in str(ArtefactError("c.npz", "it is empty"))
