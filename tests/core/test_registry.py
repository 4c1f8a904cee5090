"""Registries: lazy, without doubles, and helpful about misspelt names."""

import math
import sys

import pytest

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, nearest


@pytest.fixture
def registry() -> Registry:
    registry = Registry("mechanism")
    registry.add("lnmax", "math:sqrt")
    registry.add("gnmax", "no_such_module:thing")
    return registry


def test_names_are_known_without_importing(registry: Registry) -> None:
    assert registry.names() == list(registry) == ["lnmax", "gnmax"]
    assert "gnmax" in registry
    assert "other" not in registry
    assert "no_such_module" not in sys.modules


def test_a_name_loads_what_implements_it(registry: Registry) -> None:
    assert registry.load("lnmax") is math.sqrt


def test_a_name_can_be_taken_once(registry: Registry) -> None:
    with pytest.raises(PatebenchError, match="the mechanism 'lnmax' is registered twice: math:sqrt and math:exp"):
        registry.add("lnmax", "math:exp")


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(registry: Registry) -> None:
    with pytest.raises(PatebenchError) as caught:
        registry.load("LNmaks")
    assert str(caught.value) == "unknown mechanism 'LNmaks' (did you mean 'lnmax'?); known: lnmax, gnmax"


def test_no_hint_where_nothing_is_near() -> None:
    assert nearest("zzz", ["lnmax"]) == ""
