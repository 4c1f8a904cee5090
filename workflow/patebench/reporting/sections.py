"""Sections of the page, and the section of each figure and table."""

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
#: Section of figures and tables that name none.
FURTHER = "further"
#: Data sets with printed numbers, named as in `config/published.csv`; tables of verdicts need one of them.
PRINTED = (
    *("mnist", "svhn", "cifar10", "fashion_mnist", "adult"),
    *("glyph", "celeba", "market1501"),
)
#: Mechanisms of NZC 2020; its figure and tables need one of them.
IMMUTABLE = ("immutable-lnmax", "immutable-gnmax")


def section_of(registry: Registry, name: str) -> str:
    """Return the section or paper of the figure or table `name`, and `FURTHER` for an unknown one."""
    place = str(registry.fact(name, "section", FURTHER))
    return place if place in SECTIONS or place in PAPERS else FURTHER


def slug(place: str) -> str:
    """Return the id of a section or paper in links, such as "pate-2017"."""
    return re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
