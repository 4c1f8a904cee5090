"""Words that depend on numbers."""

import pytest

from patebench.core.words import listing, plural


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "fault", "1 fault"),
        (0, "fault", "0 faults"),
        (2, "query", "2 queries"),
        (2, "array", "2 arrays"),
        (3, "class", "3 classes"),
    ],
)
def test_one_is_not_many(count: int, noun: str, words: str) -> None:
    assert plural(count, noun) == words


def test_of_many_names_the_first_are_shown() -> None:
    assert listing(["a", "b"]) == "a, b"
    assert listing(range(10), 3) == "0, 1, 2 and 7 more"
