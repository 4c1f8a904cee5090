"""The forms of Private-kNN. No torch here, so that a configuration is checked at once."""

from collections.abc import Mapping

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest

#: By name, what is done. Only the second has a proof.
FORMS: Mapping[str, str] = {
    "published": "as its authors' code: one subset for test and label, drawn with replacement, every query that passes"
    " answered",
    "sound": "Poisson subsets, a fresh one for each test and each label, at most so many answers",
}


def form_of(name: str) -> str:
    """What the form of that name does; PatebenchError if there is none."""
    if name not in FORMS:
        raise PatebenchError(f"unknown form '{name}'{nearest(name, FORMS)}; there are {', '.join(FORMS)}")
    return FORMS[name]
