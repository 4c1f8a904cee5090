"""Where figures and tables stand on the page."""

import pytest
from tests.reporting import made

from patebench.core.registry import Registry
from patebench.reporting.figures import FIGURES
from patebench.reporting.published import read_published
from patebench.reporting.sections import FURTHER, PAPERS, PRINTED, SECTIONS, section_of, slug
from patebench.reporting.tables import TABLES


@pytest.mark.parametrize("registry", [FIGURES, TABLES], ids=lambda each: each.kind)
def test_each_has_a_place_that_there_is(registry: Registry) -> None:
    for name in registry:
        place = registry.fact(name, "section", FURTHER)
        assert place in (*SECTIONS, *PAPERS)
        assert section_of(registry, name) == place


def test_what_names_no_place_that_there_is_stands_last() -> None:
    registry = Registry("figure")
    registry.add("lost", "nowhere:draw", section="the attic")
    registry.add("silent", "nowhere:draw")
    assert {section_of(registry, name) for name in registry} == {FURTHER} == {list(SECTIONS)[-1]}


def test_links_are_plain() -> None:
    links = [slug(place) for place in (*SECTIONS, *PAPERS)]
    assert len(links) == len(set(links))
    assert slug("PATE 2017") == "pate-2017"


def test_the_printed_data_sets_are_those_of_the_file() -> None:
    assert {value.dataset for value in read_published(made.PUBLISHED).values} - {None, "unnamed"} == set(PRINTED)
