"""Where a figure or table stands on the page: the registry says so, or the thing itself in another package."""

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

#: The sections of the page that are of no paper, in their order, with their headings.
SECTIONS: Mapping[str, str] = {
    "results": "Accuracy and ε",
    "papers": "The papers",
    "audit": "Audit: is the stated ε true?",
    "accounting": "Accounting: what the queries cost",
    "learning": "How teachers and students learnt",
    "further": "Further results",
}
#: The same in the navigation.
SHORT = dict(zip(SECTIONS, ("Results", "Papers", "Audit", "Accounting", "Learning", "Further"), strict=True))
#: Papers with a part of their own, in its order; others that the run has numbers of follow.
PAPERS = (PATE_2017, SCALABLE_2018, DISTRIBUTED_2018, PETDL_2019, NZC_2020, PRIVATE_KNN_2020, *DPSGD)
#: What says nothing of its place.
FURTHER = "further"
#: Data sets that papers print numbers of, as `config/published.csv` calls them: needed by tables of verdicts.
PRINTED = (
    *("mnist", "svhn", "cifar10", "fashion_mnist", "adult"),
    *("glyph", "celeba", "market1501"),
)
#: The mechanisms of NZC 2020: needed by its figure and tables.
IMMUTABLE = ("immutable-lnmax", "immutable-gnmax")


def section_of(registry: Registry, name: str) -> str:
    """Return a key of `SECTIONS` or the paper of a figure or table; `FURTHER` for any other word."""
    place = str(registry.fact(name, "section", FURTHER))
    return place if place in SECTIONS or place in PAPERS else FURTHER


def slug(place: str) -> str:
    """Return the id of a section or a paper in links, such as "pate-2017"."""
    return re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
