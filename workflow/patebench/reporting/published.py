"""Load the values that papers print, to compare them with measured values.

In the file `config/published.csv`, the column `value` contains the printed number; percentages become fractions when
the file is loaded. `parameters` lists the mechanism's parameters, such as "gamma=0.05; distance=0". An empty cell
means "does not apply".
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.spelling import parameters_slug
from patebench.data import DATASETS
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("paper", "version", "table", "row", "column", "unit", "value"),
    *("dataset", "teachers", "mechanism", "parameters", "queries", "delta", "quantity"),
    *("configuration", "experiments", "unmeasured"),
)
QUANTITIES = (
    *("teacher_accuracy", "plurality_accuracy", "label_accuracy"),
    *("student_accuracy", "ground_truth_student_accuracy", "baseline_accuracy", "accuracy_gain"),
    # "accuracy_at_epsilon" is the accuracy of any model or student at the value "epsilon_chosen" of the same row.
    *("private_model_accuracy", "accuracy_at_epsilon"),
    *("epsilon", "epsilon_above", "epsilon_in_discussion", "epsilon_strong_composition"),
    *("epsilon_chosen", "epsilon_per_query", "answered", "gap_share_below"),
    # Settings of the paper, and values that follow from other numbers of the same paper.
    *("parameters", "seconds", "setting", "derived"),
)
#: Names of papers in the column `paper`, for the papers that tables and figures show.
PATE_2017, SCALABLE_2018, NZC_2020 = "PATE 2017", "Scalable PATE 2018", "NZC 2020"
#: Papers on DP-SGD, whose models are private.
DPSGD = ("DP-SGD 2016", "ScatterNet 2021", "Tempered sigmoids 2021", "DP reproducibility 2024")
#: Papers whose ε protects a record.
PRIVATE_KNN_2020 = "Private-kNN 2020"
OF_RECORDS = (*DPSGD, PRIVATE_KNN_2020)
#: Papers that compare many systems at given values of ε.
DPMLBENCH_2023, REPRODUCIBILITY_2024 = "DPMLBench 2023", "DP reproducibility 2024"
COMPARISONS = (DPMLBENCH_2023, REPRODUCIBILITY_2024)
PETDL_2019 = "PET-DL 2019"
#: Paper without measured values.
DISTRIBUTED_2018 = "Distributed PATE 2018"
#: Mechanisms of NZC 2020; the figure and tables of this paper are shown if a run uses one of them.
IMMUTABLE = ("immutable-lnmax", "immutable-gnmax")
#: Data sets for which papers print numbers (`config/published.csv`); tables of verdicts are shown for these only.
PRINTED = (
    *("mnist", "svhn", "cifar10", "fashion_mnist", "adult"),
    *("cifar100", "imagenet", "glyph", "celeba", "market1501"),
)
#: Names in the column `mechanism` of the mechanisms that train private models.
DP_SGD, PETDL, PRIVATE_KNN = "dp-sgd", "petdl", "private-knn"
#: Mechanism → name of its system in records, for the systems whose ε protects one record.
SYSTEMS: Mapping[str | None, str] = {DP_SGD: "DP-SGD", PRIVATE_KNN: "Private-kNN"}
#: Mechanism → name of its system in records, for all private models.
ALL_SYSTEMS: Mapping[str | None, str] = {**SYSTEMS, PETDL: "PET-DL"}
#: Name of the system of all mechanisms that aggregate votes.
PATE = "PATE"
_FIX = "correct the line; config/published.csv in the repository shows the form"
#: Units and their divisors: percent, no unit, seconds.
_UNITS = {"%": 100.0, "1": 1.0, "s": 1.0}


@dataclass(frozen=True, kw_only=True)
class Value:
    """Number that a paper prints, with its place in the paper and its setting; accuracies are fractions.

    A field that does not apply is None.
    """

    paper: str
    version: str
    table: str
    row: str
    column: str
    quantity: str
    value: float
    dataset: str
    teachers: int | None
    mechanism: str | None
    parameters: Mapping[str, float] | None
    queries: int | None
    delta: float | None
    #: Configuration in `config/papers` that measures this value, and its experiments; None and () if there is none.
    configuration: str | None = None
    experiments: tuple[str, ...] = ()
    #: Reason why this value cannot be compared with a measurement, and reason why no configuration measures it.
    not_comparable: str | None = None
    not_run: str | None = None
    #: Data set for which the paper prints this value, if `dataset` is a changed copy of that data set.
    copy_of: str | None = None

    @property
    def name(self) -> str:
        """Return the paper, table and row of the printed number as text."""
        return f"{self.paper}, {self.table}, {self.row}"

    @property
    def source(self) -> str:
        """Return the name of the paper, such as "PATE 2017".

        If the user changed a copy of the paper's data set, and `dataset` is this copy, the text also names the paper's
        data set: "PATE 2017, of MNIST".
        """
        return self.paper if self.copy_of is None else f"{self.paper}, of {in_words(self.copy_of)}"

    @property
    def noise(self) -> str | None:
        """Return the mechanism's parameters as in the column `noise` of records, such as "k-1_sigma-50"."""
        return None if self.parameters is None else parameters_slug(self.parameters)

    @property
    def _place(self) -> dict[str, object]:
        """Return the fields that identify a row in a table of a paper: paper, table, row and data set."""
        return {name: getattr(self, name) for name in ("paper", "table", "row", "dataset")}


@dataclass(frozen=True, eq=False)
class Published:
    """All numbers that papers print, or a selection of them."""

    values: tuple[Value, ...]

    def of(self, *papers: str) -> "Published":
        """Return only the printed values of the given `papers`."""
        return Published(tuple(value for value in self.values if value.paper in papers))

    def with_copies(self, copies: Mapping[str, str]) -> "Published":
        """Return the printed values, extended by values for changed copies of data sets.

        A changed copy is a data set that a user made from a built-in data set. `copies` maps the copy's name to that of
        the built-in data set. Each value of the built-in data set is repeated for the copy. Raises PatebenchError for
        an unknown built-in data set.
        """
        for original in copies.values():
            DATASETS.check(original)
        copied = [
            replace(value, dataset=name, copy_of=original)
            for name, original in copies.items()
            for value in self.values
            if value.dataset == original
        ]
        return Published((*self.values, *copied))

    def select(self, quantity: str, **keys: object) -> list[Value]:
        """Return the printed values of `quantity` whose fields equal `keys`.

        For example, `select("student_accuracy", dataset="mnist")` returns the student accuracies printed for MNIST.
        """
        of_quantity = (value for value in self.values if value.quantity == quantity)
        return [value for value in of_quantity if all(getattr(value, key) == keys[key] for key in keys)]

    def lookup(self, quantity: str, **keys: object) -> float | None:
        """Return the number that papers print for `quantity` in one setting, or None if none is printed.

        `keys` states the setting by fields of `Value`, such as dataset="mnist". If several papers print the number, the
        paper listed first counts, because later papers round it. Raises PatebenchError if this paper prints different
        numbers.
        """
        values = self.select(quantity, **keys)
        numbers = {value.value for value in values if value.paper == values[0].paper}
        if len(numbers) > 1:
            where = ", ".join(f"{key} = {value}" for key, value in keys.items())
            raise PatebenchError(
                f"the CSV file of published values has different values of {quantity} for {where}: {sorted(numbers)};"
                " correct or remove one line"
            )
        return numbers.pop() if numbers else None

    def points(self, quantity: str, **keys: object) -> list[tuple[Value, float]]:
        """Return the pairs of an ε and an accuracy that papers print in the same row of a table.

        A pair contains the ε as a `Value`, whose fields equal `keys`, and the accuracy as a fraction. `quantity` names
        the kind of accuracy, such as "student_accuracy". A pair that is printed twice, or quoted by another paper, is
        returned once.
        """
        points: dict[tuple[object, ...], tuple[Value, float]] = {}
        for value in self.select("epsilon", **keys):
            accuracy = self.lookup(quantity, **value._place)
            if accuracy is not None:
                points.setdefault((value.dataset, value.mechanism, value.value, accuracy), (value, accuracy))
        return list(points.values())

    def spent(self, value: Value) -> float | None:
        """Return the ε that the paper prints in the same table row as the accuracy `value`; None if there is none.

        The ε is the quantity "epsilon" of the row. If the row lacks this quantity, it is "epsilon_chosen", the ε that
        the authors chose for an experiment in advance.
        """
        epsilon = self.lookup("epsilon", **value._place)
        return self.lookup("epsilon_chosen", **value._place) if epsilon is None else epsilon

    def beside(self, frame: "pd.DataFrame", quantity: str, by: Sequence[str], **keys: object) -> list[float]:
        """Return, for each row of `frame`, the number that papers print for `quantity`; NaN if none is printed.

        A printed number belongs to a row if both have equal values in the columns `by`, and if the number has the
        values in `keys`, such as mechanism="gnmax".
        """
        rows = frame[list(by)].to_dict("records")
        values = [self.lookup(quantity, **{str(name): row[name] for name in row}, **keys) for row in rows]
        return [math.nan if value is None else value for value in values]


def is_accuracy(quantity: str) -> bool:
    """Return True if `quantity` is an accuracy, that is, a fraction of which larger values are better."""
    return quantity.endswith("accuracy") or quantity == "accuracy_at_epsilon"


def read_published(path: Path, copies: Mapping[str, str] | None = None) -> Published:
    """Return the printed values in the CSV file `path`; raise ArtefactError for the first invalid line.

    `copies` maps names of changed copies of data sets to their originals. Values of an original are repeated for its
    copies.
    """
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        fix = "give the path of a file like config/published.csv"
        raise ArtefactError(path, f"it cannot be read ({fault})", fix) from None
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ArtefactError(path, f"its first line is not '{','.join(COLUMNS)}'", _FIX)
    values: dict[tuple[object, ...], Value] = {}
    for number, cells in enumerate(rows[1:], start=2):
        try:
            value = _value(cells)
            key = (value.paper, value.version, value.table, value.row, value.column)
            if key in values:
                raise ValueError("an earlier line has the same paper, version, table, row and column")
        except ValueError as fault:
            raise ArtefactError(path, f"line {number} is invalid ({fault})", _FIX) from None
        values[key] = value
    return Published(tuple(values.values())).with_copies(copies or {})


def _value(cells: list[str]) -> Value:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"the line has {len(cells)} cells instead of {len(COLUMNS)}")
    cell = dict(zip(COLUMNS, cells, strict=True))
    for name, known in (("unit", _UNITS), ("quantity", QUANTITIES)):
        if cell[name] not in known:
            raise ValueError(f"the {name} '{cell[name]}' is not one of {', '.join(known)}")
    value = round(float(cell["value"]) / _UNITS[cell["unit"]], 12)  # 93.18 % is 0.9318, not 0.9318000000000001
    if not math.isfinite(value) or value < 0 or (is_accuracy(cell["quantity"]) and value > 1):
        raise ValueError(f"the value {cell['value']} is out of range (negative, infinite, or an accuracy above 100 %)")
    if not cell["dataset"]:
        raise ValueError("the column dataset is empty; name the data set")
    counts = {name: int(cell[name]) if cell[name] else None for name in ("teachers", "queries")}
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} = {count} is below 1")
    if bool(cell["configuration"]) != bool(cell["experiments"]):
        raise ValueError("only one of two cells is filled; give both configuration and experiments, or neither")
    verdict, _, why = cell["unmeasured"].partition(": ")
    if cell["unmeasured"] and (not why or verdict not in ("not comparable", "not run")):
        raise ValueError(
            f"unmeasured is '{cell['unmeasured']}' instead of 'not comparable: REASON' or 'not run: REASON'"
        )
    delta = float(cell["delta"]) if cell["delta"] else None
    if delta is not None and not 0 < delta < 1:
        raise ValueError(f"delta = {cell['delta']} is not between 0 and 1")
    return Value(
        **{name: cell[name] for name in ("paper", "version", "table", "row", "column", "quantity", "dataset")},
        value=value,
        teachers=counts["teachers"],
        queries=counts["queries"],
        mechanism=cell["mechanism"] or None,
        parameters=_parameters(cell["parameters"]) if cell["parameters"] else None,
        delta=delta,
        configuration=cell["configuration"] or None,
        experiments=tuple(cell["experiments"].split()),
        not_comparable=why if verdict == "not comparable" else None,
        not_run=why if verdict == "not run" else None,
    )


def _parameters(text: str) -> dict[str, float]:
    """Return parameters by name from a `text` such as "gamma=0.05; distance=0"."""
    pairs = [re.fullmatch(r"\s*([^=\s]+)\s*=\s*(.+?)\s*", part) for part in text.split(";")]
    parameters = {pair[1]: float(pair[2]) for pair in pairs if pair}
    if len(parameters) < len(pairs):
        raise ValueError(f"the parameters '{text}' are not written as in 'gamma=0.05; distance=0'")
    if any(math.isnan(value) for value in parameters.values()):
        raise ValueError(f"the parameters '{text}' contain NaN")
    return parameters
