"""Text avoids the words that a reader of the field would have to read twice."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Word to avoid → what to write instead.
AVOIDED = {
    r"can not": "cannot",
    r"\bso many\b(?! that)": "the parameter's name",
    r"\bat hand\b": "available",
    r"\banew\b": "again",
    r"\bke(ep|eps|pt|eping) silent\b": "abstain",
    r"\btell(s|ing)? of\b": "depends on, leaks",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bhand(s|ed|ing)? out\b": "release",
    r"\bdear(er)?\b": "expensive",
    r"\b(is|are) told\b(?! apart)": "gets, receives",
    r"such as no other": "unique",
    r"\bbut for\b": "except for",
    r"holds? whatever": "worst case",
    r"\bloses? at least\b": "has an ε of at least",
}

#: File → words that stay there.
EXCEPTIONS: dict[str, set[str]] = {
    # Texts that kept records hold.
    "workflow/patebench/reporting/verdicts.py": {r"\bloses? at least\b"},
    # The name of a configuration, and what its kept run says.
    "results/reference/releases.md": {r"\bhand(s|ed|ing)? out\b", r"\btell(s|ing)? of\b"},
}

FILES = sorted(
    path
    for pattern in (
        "workflow/patebench/**/*.py", "workflow/patebench/**/*.html", "workflow/rules/*.smk", "*.md", "docs/**/*.md",
        "report/**/*.rst", "config/**/*.yaml", "config/README.md", "results/reference/*.md", "Snakefile", "Makefile",
    )
    for path in ROOT.glob(pattern)
)  # fmt: skip


@pytest.mark.parametrize("word", AVOIDED)
def test_no_file_uses_it(word: str) -> None:
    found = []
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if word not in EXCEPTIONS.get(name, ()):
            found += [f"{name}:{i}: {line.strip()}" for i, line in enumerate(lines, 1) if re.search(word, line, re.I)]
    assert not found, f"write {AVOIDED[word]!r} instead:\n" + "\n".join(found)


def test_docstrings_start_with_a_verb_or_a_noun() -> None:
    """At most one docstring of a hundred begins as a question would."""
    beginnings = [
        line
        for path in FILES
        if path.suffix == ".py"
        for line in re.findall(r'^ *"""(.+)', path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    questions = [line for line in beginnings if re.match(r"(What|How|Whether|Where|Which|Who|When|Why)\b", line)]
    assert len(questions) < len(beginnings) / 100, "\n".join(questions)
