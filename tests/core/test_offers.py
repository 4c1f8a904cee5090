"""What other packages offer is looked at as it is loaded: a value of the wrong kind is told where it was made."""

import math
import re
from fractions import Fraction
from typing import Any

import pytest

from patebench.core.offers import by, called_with, imported, instance_of, taking
from patebench.core.registry import Registry
from patebench.data import DATASETS
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES
from patebench.petdl import FORMS
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.students import STUDENTS
from patebench.students.strategies import STRATEGIES


def _two(first: int, second: int) -> None:
    """Takes two."""


def _more(first: int, second: int, third: int = 0, *rest: int, word: str = "") -> None:
    """Takes two as well."""


def _named(first: int, second: int, *, word: str) -> None:
    """Takes a third, and by its name alone."""


class _Made:
    def __init__(self, first: int, second: int) -> None: ...


@pytest.mark.parametrize("found", [_two, _more, _Made, math.pow, int.__add__])
def test_what_can_be_called_so_is_taken(found: Any) -> None:
    assert called_with("records", "published")(found) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (3, r"is called with 2 arguments \(records, published\), and is no function"),
        (None, "and is no function"),
        (lambda: None, "and can not be: too many positional arguments"),
        (lambda a, b, c: None, "and can not be: missing a required argument: 'c'"),
        (_named, "and can not be: missing a required argument: 'word'"),
    ],
)
def test_what_can_not_is_told(found: Any, words: str) -> None:
    said = called_with("records", "published")(found)
    assert said is not None
    assert re.search(words, said)


def test_what_takes_arguments_of_these_names_is_taken() -> None:
    check = taking("first", "second")
    assert check(_named) is None
    assert check(_more) is None
    assert check(math.pow) == "takes the arguments first, second, and lacks one of them"
    assert check(3) == "takes the arguments first, second, and is no function"


@pytest.mark.parametrize(
    "registry",
    [DATASETS, FIGURES, FORMS, MECHANISMS, MODELS, RECIPES, STRATEGIES, STUDENTS, TABLES],
    ids=lambda registry: registry.group,
)
def test_what_is_built_in_passes_where_other_packages_must(registry: Registry) -> None:
    assert registry.fault_of
    for name in registry:
        assert registry.fault_of(registry.load(name)) is None, name


def test_values_are_of_a_class() -> None:
    check = instance_of("fractions:Fraction")
    assert check(Fraction(1, 2)) is None
    assert check(0.5) == check(Fraction) == "is no fractions.Fraction"


def test_a_check_can_be_named_and_is_imported_when_it_is_needed() -> None:
    assert imported("math:sqrt") is math.sqrt
    assert by("builtins:repr")(3) == "3"
    by("no_such_module:thing")
    with pytest.raises(ModuleNotFoundError):
        by("no_such_module:thing")(3)
