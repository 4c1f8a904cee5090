"""Propose the declaration of a table, and a configuration with this declaration, from the table's public records.

Private records are not used, because ranges or categories derived from them would leak. If there is only one file, the
public records are selected first, by the same hash as when the table is loaded.
"""

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patebench.core.errors import ArtefactError
from patebench.core.registry import nearest
from patebench.core.text import listing
from patebench.data.declaration import MISSING, plain_text
from patebench.data.own_table import public_by_hash, read_frame

if TYPE_CHECKING:
    import pandas as pd

#: Words in the names of columns that identify people.
_PEOPLE = ("patient", "person", "people", "subject", "user", "customer", "client", "member", "owner", "household")

#: Maximum number of values of a category; minimum mean length, in characters, of the values of a text column; number of
#: columns into which n-grams of a text are hashed.
_CATEGORIES, _LONG_TEXT, _TEXT_COLUMNS = 20, 12, 64

#: A column contains numbers (or dates) if at least this fraction of the values can be read as numbers (or dates).
_MOSTLY = 0.95


@dataclass(frozen=True)
class Proposal:
    """Proposed declaration of a table as lines of YAML, with comments on decisions that the user must make.

    `public_records` is the number of public records, and `public_people` the number of owners of these records. Without
    an owner column, each record counts as a person.
    """

    lines: tuple[str, ...]
    public_records: int
    public_people: int


def propose(
    path: Path, *, label: str | None = None, owner: str | None = None, public_share: float | None = None
) -> Proposal:
    """Propose the declaration of the table at `path`.

    Parameters
    ----------
    path : a CSV, TSV or Parquet file. All records are public, unless `public_share` is given.
    label : the column to predict; by default the last column other than `owner`.
    owner : the column that identifies people; by default the first column whose name contains a word such as "patient".
    public_share : for a file of private records, the fraction of people (without an owner column: of records) whose
        records become public. The proposal depends only on these records.
    """
    frame = read_frame(path, MISSING)
    columns = [str(name) for name in frame.columns]
    for name in (label, owner):
        if name is not None and name not in columns:
            raise ArtefactError(
                path, f"it has no column '{name}'{nearest(name, columns)}", f"choose one of {listing(columns)}",
                code="missing-column",
            )  # fmt: skip
    owner = owner or next((name for name in columns if any(part in name.lower() for part in _PEOPLE)), None)
    others = [name for name in columns if name != owner]
    if len(others) < 2:
        raise ArtefactError(
            path,
            f"it has too few columns ({listing(columns)})",
            "give a table with a label and at least one feature",
        )
    label = label or others[-1]
    if public_share is not None:
        frame = frame[public_by_hash(frame, owner, public_share)]
    if not len(frame):
        raise ArtefactError(
            path,
            f"none of its records becomes public at a public share of {public_share or 0:g}",
            "give a file with more records, or a larger --public-share",
        )
    classes = sorted(set(map(plain_text, frame[label].dropna())))
    if len(classes) < 2:
        raise ArtefactError(
            path,
            f"the column '{label}' cannot be the label, because its public values are"
            f" {f'all {classes[0]}' if classes else 'all missing'}",
            "choose another column with --label",
        )
    lines = [f"label: {{column: {_quoted(label)}, classes: {_yaml_list(classes)}}}  # decide: are these all classes?"]
    if owner is not None:
        lines.append(
            f"owner: {_quoted(owner)}  # decide: does it name the person of each record? ε then protects people"
        )
    if public_share is not None:
        unit = "records" if owner is None else "people"
        lines.append(f"public_share: {public_share:g}  # decide: this share of the {unit} becomes public")
    features = {name: _feature(frame[name]) for name in columns if name not in (label, owner)}
    dropped = [name for name, feature in features.items() if feature is None]
    if len(dropped) == len(features):
        raise ArtefactError(
            path,
            "no column can be a feature, because each is constant or has too many different values",
            "give a table with other columns",
        )
    lines += ["features:", *(f"  {_quoted(name)}: {feature}" for name, feature in features.items() if feature)]
    if dropped:
        lines.append(f"drop: {_yaml_list(dropped)}  # constant, or too many different values")
    return Proposal(tuple(lines), len(frame), len(frame) if owner is None else int(frame[owner].nunique()))


def configuration(path: Path, public: Path | None, proposal: Proposal, people: int) -> Iterator[str]:
    """Yield the lines of a configuration that contains the declaration in `proposal`.

    `path` is the private file. `public` is the public file; None if part of the file `path` becomes public. The number
    of teachers depends on `people`, the approximate number of people with private records.
    """
    name = re.sub("[^a-z0-9]+", "-", path.stem.lower())[:80].strip("-") or "own-table"
    pool = max(1, proposal.public_records // 2)
    teachers = next((size for size in (250, 100, 50, 25, 10) if people >= 12 * size), 5)
    sigma = max(2, teachers // 6)
    queries = min(pool, 100)
    student = f"{{method: supervised, model: logistic, mechanisms: {{gnmax: {{sigma: {sigma}}}}}, queries: {queries}}}"
    yield f"# A run with this configuration writes results/{name}-first/report.html."
    yield '# Lines with "decide" are proposals from public records: correct what you know better.'
    yield f"name: {name}-first"
    yield "seeds: [0, 1, 2]"
    yield "datasets:"
    yield f"  {_quoted(name)}:"
    yield "    loader: table"
    yield f"    private: {_quoted(str(path))}"
    if public is not None:
        yield f"    public: {_quoted(str(public))}"
    yield "    table:"
    yield from (f"      {line}" for line in proposal.lines)
    yield "experiments:"
    yield "  first:"
    yield f"    dataset: {_quoted(name)}"
    yield f"    pool: {pool}  # public records that teachers may label; the other half is the test set"
    yield f"    ensembles: [{{teachers: {teachers}, model: random-forest}}]"
    yield f"    mechanisms: {{gnmax: {{sigma: {sigma}}}}}  # more noise: a smaller ε and less accurate labels"
    yield f"    accounting: {{delta: 1.0e-5, queries: {queries}}}"
    yield f"    students: [{student}]"
    yield "    baseline: {model: random-forest}"


def _feature(column: "pd.Series[Any]") -> str | None:
    """Return the proposed declaration of `column` as a feature in YAML, or None if it cannot be a feature."""
    import pandas as pd

    present = column.dropna()
    texts = present.map(plain_text).astype(str)
    values = texts.value_counts()
    if len(values) < 2:
        return None
    missing = ", missing: column" if len(present) < len(column) else ""
    numbers = pd.to_numeric(texts, errors="coerce")
    if len(values) == len(present) and (numbers % 1 == 0).all():
        return None  # integers that are all different count as record numbers
    days = pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True)
    if numbers.notna().mean() >= _MOSTLY and len(values) > 2:
        low, high = float(numbers.min()), float(numbers.max())
        bounds = _round_outwards(low, high)
        return f"{{number: [{bounds}]{missing}}}  # decide: public values are {low:g} to {high:g}"
    if days.notna().mean() >= _MOSTLY:
        return f"{{date: ['{days.min().year}-01-01', '{days.max().year + 1}-01-01']{missing}}}  # decide: the range"
    if len(values) <= _CATEGORIES:
        return f"{{category: {_yaml_list(sorted(values.index))}{missing}}}  # decide: are these all values?"
    if texts.str.len().mean() >= _LONG_TEXT:
        return f"{{text: {_TEXT_COLUMNS}{missing}}}  # text as hashed n-grams"
    if len(values) > len(present) / 2:
        return None
    common = sorted(values.index[:_CATEGORIES])
    return f"{{category: {_yaml_list(common)}{missing}}}  # decide: the most frequent of {len(values)} values"


def _round_outwards(low: float, high: float) -> str:
    """Return two round numbers, separated by a comma, as bounds on values from `low` to `high`.

    The distance from the values to each bound is at least (high − low)/10. Only a lower bound of 0 may be nearer, so
    that non-negative values have a non-negative bound.
    """
    margin = (high - low) / 10
    step = 10.0 ** math.floor(math.log10(high - low)) / 2
    lowest = low - margin if low < 0 else max(low - margin, 0.0)
    return f"{math.floor(lowest / step) * step:.12g}, {math.ceil((high + margin) / step) * step:.12g}"


def _yaml_list(names: list[str]) -> str:
    """Return `names` as a YAML list on one line, with quotes where needed."""
    import yaml

    listed: str = yaml.safe_dump(names, default_flow_style=True, width=sys.maxsize, allow_unicode=True)
    return listed.strip()


def _quoted(text: str) -> str:
    return _yaml_list([text])[1:-1]
