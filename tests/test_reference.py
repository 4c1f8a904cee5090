"""Numbers in the text are those of the tables that are kept: results/reference/claims.yaml says which is which."""

import contextlib
import csv
import functools
import math
import re
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from patebench.accounting import discrete_gaussian

REFERENCE = Path(__file__).parents[1] / "results" / "reference"

#: What binary fractions lose.
SLACK = 1e-9


class Cell(float):
    """Number of a table, formatted as on the pages: `.1p` for per cent, − for minus, and 1e-8 for 1e-08."""

    def __format__(self, form: str) -> str:
        if math.isinf(self):
            return "∞"
        if form.endswith("e"):
            mantissa, _, power = format(float(self), form).partition("e")
            return f"{mantissa}e{int(power)}"
        text = format(100 * self, form[:-1] + "f") if form.endswith("p") else format(float(self), form)
        return text.replace("-", "−")


@functools.cache
def table(file: str) -> list[dict[str, str]]:
    with (REFERENCE / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def equal(cell: str, wanted: float | str) -> bool:
    """Return True if `cell` equals `wanted`; numbers may differ by the tolerance of a calibrated ε."""
    return cell == wanted if isinstance(wanted, str) else bool(cell) and math.isclose(float(cell), wanted, rel_tol=1e-6)


def row(file: str, where: dict[str, float | str]) -> SimpleNamespace:
    """Return the cells of the single table row that `where` selects; numbers are parsed, empty cells left out."""
    found = [line for line in table(file) if all(equal(line[column], wanted) for column, wanted in where.items())]
    assert len(found) == 1, f"{file}: {len(found)} rows are {where}"

    def read(text: str) -> Cell | str:
        try:
            return Cell(text)
        except ValueError:
            return text

    # Signs in the name of a column would be read as those of a format.
    return SimpleNamespace(**{re.sub(r"\W+", "_", column): read(text) for column, text in found[0].items() if text})


def one_line(text: str) -> str:
    return " ".join(text.split())


def check(group: dict[str, Any], claim: dict[str, Any], page: str) -> None:
    """Check a claim of claims.yaml against the text of its page; raise AssertionError unless they agree."""
    shared = group.get("where", {}) | claim.get("where", {})

    def select(own: dict[str, Any]) -> SimpleNamespace:
        where = shared | own
        return row(where.pop("file", group["file"]), where)

    claim = {name: group[name] for name in ("text", "rows") if name in group} | claim
    rows = {name: select(own) for name, own in claim["rows"].items()} if "rows" in claim else vars(select({}))
    shown = next(iter(claim.get("seeds", {}).values()), "")
    says = one_line(claim["text"]).format(**rows, head=claim.get("head", ""), shown=shown)
    assert says in one_line(page), f"{group['page']} does not say: {says}"
    assert re.search(r"{(?!head}|shown})", claim["text"]) or shown, f"nothing is taken from a table: {says}"

    for column, shown in claim.get("seeds", {}).items():
        assert shown in says, f"{group['page']}: {shown} is not in: {says}"
        name, _, quantity = column.rpartition(".")
        agree(shown, quantity, vars(rows[name]) if name else rows)


def agree(shown: str, quantity: str, cells: dict[str, Any]) -> None:
    """Assert that the `shown` numbers of seeds have the mean and deviation in `cells`, up to rounding."""
    numbers = [float(number) for number in shown.split(",")]
    unit = 10.0 ** -len(shown.rpartition(".")[2])
    if quantity == "accuracy":  # of 1,000 test samples: nothing was rounded
        numbers, unit = [number / 100 for number in numbers], 0.0
    assert len(numbers) == cells["seeds"]
    assert abs(statistics.mean(numbers) - cells[f"{quantity}_mean"]) <= unit / 2 + SLACK, f"{quantity}: {shown}"
    assert abs(statistics.stdev(numbers) - cells[f"{quantity}_std"]) <= unit + SLACK, f"{quantity}: {shown}"


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((REFERENCE / "claims.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("group", groups(), ids=lambda group: f"{group['page']}-{group['file']}")
def test_the_page_says_what_the_table_says(group: dict[str, Any]) -> None:
    page = (REFERENCE / group["page"]).read_text(encoding="utf-8")
    for claim in group["claims"]:
        check(group, claim, page)


GROUP = {"page": "README.md", "file": "held-out-seed/tables/utility-privacy.csv", "where": {"student": "gan"}}


OF_SEEDS = GROUP | {"file": "pate-2017-figure-4/tables/utility-privacy.csv"}


def of_seeds(numbers: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    return OF_SEEDS, {"text": f"seeds: {numbers} %", "seeds": {"accuracy": numbers}}, f"seeds: {numbers} %"


@pytest.mark.parametrize(
    ("group", "claim", "page", "fault"),
    [
        (GROUP, {"text": "students of {accuracy_mean:.1p} %"}, "It has students\nof 98.0 %.", None),
        (
            GROUP,
            {"text": "students of {accuracy_mean:.1p} %"},
            "It has students of 98.1 %.",
            "does not say: students of",
        ),
        (*of_seeds("98.3, 97.8, 98.8"), None),
        (*of_seeds("98.3, 97.8, 98.9"), "accuracy: 98"),
        (*of_seeds("98.3, 98.3, 98.3"), "accuracy: 98"),
        (GROUP | {"where": {}}, {"text": "{accuracy_mean:.1p} %"}, "98.0 %", "rows are"),
        (GROUP, {"text": "98.0 %"}, "98.0 %", "nothing is taken"),
    ],
)
def test_a_planted_fault_is_found(group: dict[str, Any], claim: dict[str, Any], page: str, fault: str | None) -> None:
    with pytest.raises(AssertionError, match=fault) if fault else contextlib.nullcontext():
        check(group, claim, page)


def test_the_readme_states_the_cost_of_adding_or_removing_one_vote() -> None:
    """Adding or removing a vote changes one cell of the table; replacing a record changes two."""
    text = (REFERENCE.parents[1] / "README.md").read_text(encoding="utf-8")
    (added,) = re.findall(r"\((0\.\d+) for adding or removing one\)", text)
    assert float(added) == round(discrete_gaussian.epsilon(50, cells=1, delta=1e-5), 3)


def test_pictures_that_are_kept_are_shown() -> None:
    pages = [REFERENCE.parents[1] / "README.md", *REFERENCE.glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    pictures = [path.relative_to(REFERENCE).as_posix() for path in REFERENCE.rglob("*.png")]
    assert [picture for picture in pictures if f"{picture})" not in text] == []
