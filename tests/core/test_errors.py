"""Errors for users are single lines with a code and a place."""

from tests.refusals import refuses

from patebench.core.errors import ArtefactError, PatebenchError, located


def test_an_error_is_one_line_that_starts_with_its_place() -> None:
    assert str(PatebenchError("first\nsecond\n\n   third")) == "first second third"
    assert str(PatebenchError("is unknown", where="a\nkey")) == "a key: is unknown"
    fault = PatebenchError("is 3; at most 2 is needed", code="bound", where="--queries")
    assert (str(fault), fault.code, fault.where) == ("--queries: is 3; at most 2 is needed", "bound", "--queries")
    assert str(PatebenchError("alpha = 0 is too small", where="alpha")) == "alpha = 0 is too small"


def test_an_artefact_error_names_file_fault_and_fix() -> None:
    fault = ArtefactError("a/b.npz", "it is empty", "make it again", code="empty")
    assert (str(fault), fault.code, fault.where) == ("a/b.npz: it is empty; make it again.", "empty", "a/b.npz")
    assert "delete the file and run snakemake again" in str(ArtefactError("c.npz", "it is empty"))


def test_a_place_is_put_before_a_fault_found_below_it() -> None:
    with refuses("unknown-name") as caught, located("experiments.demo"):
        raise PatebenchError("unknown mechanism 'gmax'", code="unknown-name")
    assert str(caught.value) == "experiments.demo: unknown mechanism 'gmax'"
    assert (caught.value.code, caught.value.where) == ("unknown-name", "experiments.demo")
