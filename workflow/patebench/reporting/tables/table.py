"""Tables: visible columns, formatted cells, and output as CSV, Markdown and LaTeX.

The CSV contains every column of a table's frame at full precision. The other formats contain only the visible columns,
as mean ± standard deviation over the seeds; a dash marks a missing value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pandas as pd

from patebench.reporting.frames import Records, protects_labels
from patebench.reporting.published import Published
from patebench.reporting.wording import epsilon_in_digits, in_text, in_words

DASH = "—"

#: Columns that contain names of the configuration, which are shown as text for people; the CSV contains the names.
_NAMES = {
    *("dataset", "setting", "partition", "model", "recipe", "mechanism", "method", "student_model", "strategy"),
    *("system", "form", "way", "learner", "distilled", "adjacency", "kind", "stated_kind", "how"),
    *("accountant", "conversion"),
}

_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:.0f}",
    "number": lambda value: f"{value:.4g}",
    "percent": lambda value: f"{100 * value:.2f}",
    "epsilon": epsilon_in_digits,
    # A number that is not a bound on a release, such as a deviation or the cost of an unused teacher, may be 0.
    "cost": lambda value: epsilon_in_digits(value) if value else "0.00",
    "audited": lambda value: epsilon_in_digits(value, at_least=True),
    "flag": lambda value: "yes" if value else "no",
}


@dataclass(frozen=True)
class Column:
    """Visible column of a table: the name of the frame's column (`field`), its title, and the `style` of its cells.

    `style` is a key of `_FORMATS`. If `deviation` is True, cells show `<field>_mean` ± `<field>_std`. `group` is a
    heading that neighbouring columns share.
    """

    field: str
    title: str
    style: str = "text"
    deviation: bool = False
    group: str = ""

    def cell(self, row: Mapping[str, Any]) -> str:
        """Return the text of this column's cell in `row`; a dash if the value is missing."""
        value = row[self.value]
        if _missing(value):
            return DASH
        if value == float("inf"):
            return "∞"
        if self.field in _NAMES:
            return in_words(str(value))
        shown = _FORMATS[self.style]
        std = row[f"{self.field}_std"] if self.deviation else None
        if _missing(std):
            return shown(value)
        return f"{shown(value)} ± {_FORMATS['cost' if self.style == 'epsilon' else self.style](std)}"

    @property
    def value(self) -> str:
        """Return the name of the frame's column that contains the values of the cells.

        If `deviation` is True, this is `<field>_mean`, otherwise `field`.
        """
        return f"{self.field}_mean" if self.deviation else self.field

    @property
    def heading(self) -> str:
        """Return the complete heading: the title, preceded by `group` if there is one, such as "ε: worst case"."""
        return f"{self.group}: {self.title}" if self.group else self.title

    @property
    def right(self) -> bool:
        """Return True if cells are aligned right, because they contain numbers."""
        return self.style not in ("text", "flag")


#: Data set and number of teachers.
SIZE_COLUMNS = (Column("dataset", "Data set"), Column("teachers", "n", "count"))
#: Mechanism and noise.
NOISE_COLUMNS = (Column("mechanism", "Mechanism"), Column("noise_in_words", "Noise"))
#: Number of queries and δ, for which an ε is stated.
_STATED = (Column("queries", "Queries", "count"), Column("delta", "δ", "number"))

#: Columns that identify a worst-case ε.
SETTING_COLUMNS = (*SIZE_COLUMNS, *NOISE_COLUMNS, *_STATED)
#: Columns that identify the subject of a data-dependent ε.
SUBJECT_COLUMNS = (*SIZE_COLUMNS, Column("model", "Teacher"), Column("recipe", "Recipe"), *NOISE_COLUMNS, *_STATED)

#: Accuracy of labels and students.
ACCURACY_COLUMNS = (
    Column("label_accuracy", "labels", "percent", deviation=True, group="Accuracy %"),
    Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
)
#: Context of an accuracy; balanced accuracy and recall are shown if classes are unbalanced.
BALANCE_COLUMNS = (
    Column("largest_class_mean", "Largest class %", "percent"),
    Column("balanced_accuracy", "Balanced accuracy %", "percent", deviation=True),
    Column("recall_in_words", "Recall %"),
)
LABEL_BALANCE_COLUMNS = (
    Column("label_largest_class_mean", "Largest class of labelled samples %", "percent"),
    Column("label_balanced_accuracy", "Balanced accuracy of labels %", "percent", deviation=True),
    Column("label_recall_in_words", "Recall of labels %"),
)
#: ε of the labels.
EPSILON_COLUMNS = (
    Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", deviation=True, group="ε"),
    Column("worst_case_epsilon_mean", "worst case, of fresh noise", "epsilon", group="ε"),
)


@dataclass(frozen=True)
class Table:
    """Table with its title, its visible columns, and the function `build` that makes its frame from records.

    `columns` is a sequence, or a function of the frame if the visible columns depend on the results.
    """

    title: str
    columns: Sequence[Column] | Callable[[pd.DataFrame], Sequence[Column]]
    build: Callable[[Records, Published], pd.DataFrame]
    #: True if the report page shows the table folded, because it is for reference.
    folded: bool = False
    #: Section of the report page, for tables of other packages; the registry states it for built-in tables.
    section: str = ""

    def shown(self, frame: pd.DataFrame) -> list[Column]:
        """Return the visible columns that contain a value in `frame`; all visible columns if `frame` has no row.

        A column for the split is added if a data set has several splits, or if ε protects only labels in a split.
        """
        frame = in_text(frame)
        columns = list(self.columns(frame) if callable(self.columns) else self.columns)
        fields = [column.field for column in columns]
        if "dataset" in fields and "setting" in frame:
            several = (frame.groupby("dataset")["setting"].nunique() > 1).any()
            if several or frame["setting"].map(protects_labels).any():
                columns.insert(fields.index("dataset") + 1, Column("setting", "Split"))
        return [column for column in columns if frame.empty or _has_value(frame[column.value])]

    def rows(self, frame: pd.DataFrame) -> list[list[str]]:
        """Return a list with the headings, followed by a list with the formatted cells of each row of `frame`."""
        columns = self.shown(frame)
        rows: list[dict[Any, Any]] = in_text(frame).to_dict("records")
        return [[column.heading for column in columns], *([column.cell(row) for column in columns] for row in rows)]

    def csv(self, frame: pd.DataFrame) -> str:
        """Return all columns of `frame` as CSV text, at full precision and with empty cells for missing values."""
        text = in_text(frame).to_csv(index=False, lineterminator="\n")
        assert isinstance(text, str)
        return text

    def markdown(self, frame: pd.DataFrame) -> str:
        head, *rows = self.rows(frame)
        rule = ["---:" if column.right else "---" for column in self.shown(frame)]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rule, *rows)]
        return "\n".join(lines) + "\n"

    def latex(self, frame: pd.DataFrame) -> str:
        """Return the visible columns of `frame` as a LaTeX `tabular` with booktabs rules."""
        form = "".join("r" if column.right else "l" for column in self.shown(frame))
        head, *rows = self.rows(frame)
        text = pd.DataFrame(rows, columns=head).to_latex(index=False, escape=True, column_format=form)
        return f"% needs \\usepackage{{booktabs}}, and XeLaTeX or LuaLaTeX for Greek letters\n{text}"


def read_csv(text: str) -> pd.DataFrame:
    """Return the frame that the CSV `text` contains, with NaN for empty cells."""
    return pd.read_csv(StringIO(text), keep_default_na=False, na_values=[""], float_precision="round_trip")


def _has_value(values: "pd.Series[Any]") -> bool:
    return bool((values.notna() & (values != "")).any())


def _missing(value: Any) -> bool:
    return bool(pd.isna(value)) or value == ""
