"""Test lazy imports, unique names, hints for misspelt names, and checks of entries from other packages."""

import math
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packages import install as install_package
from tests.refusals import refuses

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with, instance_of
from patebench.data import DATASETS
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES
from patebench.petdl import FORMS
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.students import STRATEGIES, STUDENTS


@pytest.fixture
def registry() -> Registry:
    registry = Registry("mechanism")
    registry.add("lnmax", "math:sqrt")
    registry.add("gnmax", "no_such_module:thing")
    return registry


def test_names_and_facts_are_known_without_importing(registry: Registry) -> None:
    registry.add("exponential", "no_such_module:other", secure=True, options=("epsilon",))
    assert registry.names() == list(registry) == ["lnmax", "gnmax", "exponential"]
    assert "gnmax" in registry
    assert "other" not in registry
    assert registry.fact("exponential", "options") == ("epsilon",)
    assert [registry.fact(name, "secure", False) for name in ("exponential", "gnmax")] == [True, False]
    assert registry.fact("gnmax", "options") is None
    assert "no_such_module" not in sys.modules
    assert registry.load("lnmax") is math.sqrt
    with refuses("unknown-name"):
        registry.fact("gnmx", "options")


def test_a_name_can_be_taken_once(registry: Registry) -> None:
    with pytest.raises(PatebenchError, match="the mechanism 'lnmax' is registered twice: math:sqrt and math:exp"):
        registry.add("lnmax", "math:exp")


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(registry: Registry) -> None:
    with refuses("unknown-name") as caught:
        registry.load("LNmaks")
    assert str(caught.value) == "unknown mechanism 'LNmaks' (did you mean 'lnmax'?); known: lnmax, gnmax"


@pytest.mark.parametrize(
    ("word", "mechanism"),
    [
        ("Gauss", "gnmax"),
        ("report-noisy-max", "lnmax"),
        ("stable-svt-gausian", "stable-svt-gaussian"),
    ],
)
def test_mechanisms_are_found_by_the_names_of_the_field(word: str, mechanism: str) -> None:
    with refuses("unknown-name") as caught:
        MECHANISMS.check(word)
    assert f"(did you mean '{mechanism}'?)" in str(caught.value)


@pytest.mark.parametrize("word", [None, 3, [], {}, np.zeros((2, 2)), "a\nb"])
def test_an_object_that_is_no_name_is_unknown(registry: Registry, word: Any) -> None:
    with refuses("unknown-name") as caught:
        registry.check(word)
    assert "\n" not in str(caught.value)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Registry]:
    """Return a registry with an installed package that has one entry point."""

    def install(name: str, value: str, package: str = "toys") -> Registry:
        monkeypatch.syspath_prepend(install_package(tmp_path, f"[patebench.toys]\n{name} = {value}\n", package))
        registry = Registry("toy", "patebench.toys")
        registry.add("built-in", "math:sqrt")
        return registry

    return install


def test_other_packages_add_names_whose_facts_are_attributes(package: Callable[..., Registry]) -> None:
    registry = package("pi", "math:pi")
    assert registry.names() == list(registry) == ["built-in", "pi"]
    assert "pi" in registry
    assert registry.load("pi") is math.pi
    assert registry.fact("pi", "real") == math.pi
    assert registry.fact("pi", "options", ("a",)) == ("a",)
    assert registry.fact("built-in", "real", 0) == 0, "facts of built-in entries are stored in the registry"
    with refuses("unknown-name"):
        registry.check("py")


def test_built_in_entries_are_loaded_without_a_search_for_packages(
    package: Callable[..., Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = package("built-in", "math:cbrt")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("looked for packages"))
    assert registry.load("built-in") is math.sqrt


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("built-in", "'built-in' of the package toys is registered twice: math:sqrt and math:cbrt"),
        ("a/b", "the toy 'a/b' of the package toys has an invalid name"),
    ],
)
def test_a_taken_or_invalid_name_is_refused(package: Callable[..., Registry], name: str, fault: str) -> None:
    registry = package(name, "math:cbrt")
    for _ in range(2):
        with pytest.raises(PatebenchError, match=fault):
            registry.names()


def test_two_packages_may_not_share_a_name(package: Callable[..., Registry]) -> None:
    package("same", "math:cbrt")
    registry = package("same", "math:exp", package="others")
    with pytest.raises(PatebenchError, match=r"'same' of the package (toys|others) is registered twice"):
        registry.names()


def test_an_invalid_entry_is_refused_by_load_and_by_check_offered(
    package: Callable[..., Registry],
) -> None:
    registry = package("constant", "math:pi")
    registry.check_offered()
    registry = Registry(registry.kind, registry.group, called_with("x"))
    for look in (lambda: registry.load("constant"), registry.check_offered):
        with pytest.raises(PatebenchError) as caught:
            look()
        assert str(caught.value) == (
            "the toy 'constant' of the package toys must accept 1 argument (x) but is not callable; fix that package"
        )


@pytest.mark.parametrize("value", ["no_such_module:thing", "math:thing"])
def test_a_package_that_does_not_load_is_named(package: Callable[..., Registry], value: str) -> None:
    registry = package("broken", value)
    assert "broken" in registry
    with pytest.raises(PatebenchError, match="the toy 'broken' of the package toys cannot be loaded") as caught:
        registry.load("broken")
    assert "\n" not in str(caught.value)


def _two(first: int, second: int) -> None:
    """Accept two arguments."""


def _more(first: int, second: int, third: int = 0, *rest: int, word: str = "") -> None:
    """Accept two arguments and more."""


def _named(first: int, second: int, *, word: str) -> None:
    """Require a third, keyword-only argument."""


class _Made:
    def __init__(self, first: int, second: int) -> None: ...


@pytest.mark.parametrize(
    ("found", "words"),
    [
        *[(each, None) for each in (_two, _more, _Made, math.pow, int.__add__)],
        (3, r"must accept 2 arguments \(records, published\) but is not callable"),
        (lambda: None, "but does not: too many positional arguments"),
        (_named, "but does not: missing a required argument: 'word'"),
    ],
)
def test_called_with_accepts_callables_with_these_arguments(found: Any, words: str | None) -> None:
    said = called_with("records", "published")(found)
    assert (said is None) if words is None else re.search(words, said or "")


def test_called_with_accepts_keyword_arguments_of_these_names() -> None:
    check = called_with("first", "second", by_name=True)
    assert check(_named) is check(_more) is None
    assert "but does not" in str(check(math.pow))
    assert "is not callable" in str(check(3))


@pytest.mark.slow
@pytest.mark.parametrize(
    "registry",
    [DATASETS, FIGURES, FORMS, MECHANISMS, MODELS, RECIPES, STRATEGIES, STUDENTS, TABLES],
    ids=lambda registry: registry.group,
)
def test_built_in_entries_pass_the_checks_for_other_packages(registry: Registry) -> None:
    for name in registry:
        # Models that vote on queries are no learners and take other arguments.
        assert registry.fact(name, "on_queries") or registry.fault_of(registry.load(name)) is None, name


def test_instance_of_accepts_instances_only() -> None:
    check = instance_of("fractions:Fraction")
    assert check(Fraction(1, 2)) is None
    assert check(0.5) == check(Fraction) == "is not an instance of fractions.Fraction"
