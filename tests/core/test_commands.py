"""Options as words of a command, and what Snakemake passes on unchanged."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.commands import check_passed_on, shell_words, words
from patebench.core.errors import PatebenchError


def test_options_as_words() -> None:
    options = {"root": "my data", "download": False, "release": True, "epochs": None, "delta": 1e-5}
    assert words(options) == ["--root", "my data", "--no-download", "--release", "--delta", "1e-05"]
    several = {"queries": (100, 400), "parameter": {"sigma": 2.0, "k": 1}, "share": []}
    assert shell_words(several) == "--queries 100 --queries 400 --parameter sigma=2 --parameter k=1"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_shell_keeps_every_value(text: str) -> None:
    options = {"root": text, "option": {"a": text}, "name": [text]}
    assert words(options) == ["--root", text, "--option", f"a={text}", "--name", text]
    assert shlex.split(shell_words(options)) == words(options)


def test_what_a_cluster_s_shell_would_expand_is_refused() -> None:
    check_passed_on(["results", "it's", "$HOME", '"quoted"'])
    for text in ("it's $HOME", "'`", "'\"", "'\\"):
        with pytest.raises(PatebenchError, match="contains a single quote beside"):
            check_passed_on(["results", text])
