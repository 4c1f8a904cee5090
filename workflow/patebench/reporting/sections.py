"""Sections of the report page, and the section in which each figure and table is shown."""

import re
from collections.abc import Mapping

from patebench.core.registry import Registry
from patebench.reporting.published import (
    DISTRIBUTED_2018,
    DPSGD,
    NZC_2020,
    PATE_2017,
    PETDL_2019,
    PRIVATE_KNN_2020,
    SCALABLE_2018,
)

#: Sections of the page in their order, with their headings; each paper is a part of "papers".
SECTIONS: Mapping[str, str] = {
    "papers": "The papers",
    "results": "Accuracy and ε",
    "audit": "Audit: is the stated ε true?",
    "accounting": "Accounting: what the queries cost",
    "learning": "Teachers and students",
    "further": "Further results",
}
#: Headings in the navigation.
SHORT = dict(zip(SECTIONS, ("Papers", "Results", "Audit", "Accounting", "Learning", "Further"), strict=True))
#: Papers in the order of the page; other papers with numbers of the run follow.
PAPERS = (PATE_2017, SCALABLE_2018, DISTRIBUTED_2018, PETDL_2019, NZC_2020, PRIVATE_KNN_2020, *DPSGD)
#: Section of figures and tables that state no section.
FURTHER = "further"
#: Data sets for which papers print numbers (`config/published.csv`); tables of verdicts are shown for these only.
PRINTED = (
    *("mnist", "svhn", "cifar10", "fashion_mnist", "adult"),
    *("cifar100", "imagenet", "glyph", "celeba", "market1501"),
)
#: Mechanisms of NZC 2020; the figure and tables of this paper are shown if a run uses one of them.
IMMUTABLE = ("immutable-lnmax", "immutable-gnmax")


def section_of(registry: Registry, name: str) -> str:
    """Return the section or paper under which the report shows the figure or table `name`.

    It is `FURTHER` if the entry of `registry` states no known section or paper.
    """
    place = str(registry.fact(name, "section", FURTHER))
    return place if place in SECTIONS or place in PAPERS else FURTHER


def slug(place: str) -> str:
    """Return the HTML id of a section or paper, such as "pate-2017"."""
    return re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
