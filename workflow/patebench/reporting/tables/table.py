"""How a table is written: the columns that people see, and CSV, Markdown, LaTeX and HTML cells made from them.

The CSV holds every column of the frame at full precision. The other forms show `columns` alone, each formatted by its
`style`, with the standard deviation over the seeds beside the mean; a dash stands for what is not known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records
from patebench.reporting.published import Published
from patebench.reporting.sections import FURTHER
from patebench.reporting.wording import epsilon_in_digits, in_text, in_words

if TYPE_CHECKING:
    import pandas as pd

DASH = "—"

#: Columns that hold names of the configuration, which people read as words; the CSV keeps the names.
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
    # What is no bound on a release, such as a deviation or what a teacher pays that is not asked, may be 0.
    "cost": lambda value: epsilon_in_digits(value) if value else "0.00",
    "audited": lambda value: epsilon_in_digits(value, at_least=True),
    "flag": lambda value: "yes" if value else "no",
}


@dataclass(frozen=True)
class Column:
    """Describe a column: its field, title and style; with `deviation` it shows mean ± deviation.

    `group` puts columns under a common heading. A column without any value is left out of a table that has rows.
    """

    field: str
    title: str
    style: str = "text"
    deviation: bool = False
    group: str = ""

    def cell(self, row: Mapping[str, Any]) -> str:
        """What people read; a missing mean is a dash, and the deviation of a single seed is left out."""
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
        """The column of the frame that holds its values, or their means."""
        return f"{self.field}_mean" if self.deviation else self.field

    @property
    def heading(self) -> str:
        """Its title with the common heading that it stands under."""
        return f"{self.group}: {self.title}" if self.group else self.title

    @property
    def right(self) -> bool:
        """Numbers are set flush right."""
        return self.style not in ("text", "flag")


#: Whose votes, …
SIZE_COLUMNS = (Column("dataset", "Data set"), Column("teachers", "n", "count"))
#: … how they become labels, …
NOISE_COLUMNS = (Column("mechanism", "Mechanism"), Column("noise_in_words", "Noise"))
#: … and for how many queries T ε is stated, at which δ.
_STATED = (Column("queries", "Queries", "count"), Column("delta", "δ", "number"))

#: What an ε is about that depends on no votes.
SETTING_COLUMNS = (*SIZE_COLUMNS, *NOISE_COLUMNS, *_STATED)
#: Which labels a row is about, and the same of an ε that depends on them.
LABEL_SET_COLUMNS = (*SIZE_COLUMNS, Column("model", "Teacher"), Column("recipe", "Recipe"), *NOISE_COLUMNS)
SUBJECT_COLUMNS = (*LABEL_SET_COLUMNS, *_STATED)

#: What students learnt from, and what they reached.
ACCURACY_COLUMNS = (
    Column("label_accuracy", "labels", "percent", deviation=True, group="Accuracy %"),
    Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
)
#: What tells whether these are good; balanced accuracy and recall are shown where classes are unbalanced.
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
#: What their labels cost.
EPSILON_COLUMNS = (
    Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", deviation=True, group="ε"),
    Column("worst_case_epsilon_mean", "worst case, of fresh noise", "epsilon", group="ε"),
)


@dataclass(frozen=True)
class Table:
    """Describe a table: its title, the columns that people see, and how its frame is made from records.

    Where the columns depend on what was found, `columns` is a function of the frame.
    """

    title: str
    columns: "Sequence[Column] | Callable[[pd.DataFrame], Sequence[Column]]"
    build: Callable[[Records, Published], "pd.DataFrame"]
    #: Whether the page shows it folded up at first: it is long.
    folded: bool = False
    #: Where the page shows a table of another package; the registry says it of those here.
    section: str = FURTHER

    def all_columns(self, frame: "pd.DataFrame") -> Sequence[Column]:
        """The columns to show of this frame, those without any value included; splits where a data set has several."""
        columns = list(self.columns(frame) if callable(self.columns) else self.columns)
        fields = [column.field for column in columns]
        if "dataset" in fields and "setting" in frame and (frame.groupby("dataset")["setting"].nunique() > 1).any():
            columns.insert(fields.index("dataset") + 1, Column("setting", "Split"))
        return columns

    def shown(self, frame: "pd.DataFrame") -> list[Column]:
        """The columns that have something to show; where no row has a deviation, there is none to see."""
        frame = in_text(frame)
        columns = [column for column in self.all_columns(frame) if frame.empty or _says(frame[column.value])]
        deviating = {column for column in columns if column.deviation and frame[f"{column.field}_std"].notna().any()}
        return [
            column if column in deviating else replace(column, field=column.value, deviation=False)
            for column in columns
        ]

    def rows(self, frame: "pd.DataFrame") -> list[list[str]]:
        """The heading and then the formatted cells, row by row."""
        frame = in_text(frame)
        columns = self.shown(frame)
        headings = [column.heading for column in columns]
        return [headings, *([column.cell(row) for column in columns] for row in frame.to_dict("records"))]  # type: ignore[arg-type]

    def csv(self, frame: "pd.DataFrame") -> str:
        """All columns; floats as the shortest text that reads back as the same number; nothing for what is missing."""
        text = in_text(frame).to_csv(index=False, lineterminator="\n")
        assert isinstance(text, str)
        return text

    def markdown(self, frame: "pd.DataFrame") -> str:
        head, *rows = self.rows(frame)
        rule = ["---:" if column.right else "---" for column in self.shown(frame)]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, rule, *rows)]
        return "\n".join(lines) + "\n"

    def latex(self, frame: "pd.DataFrame") -> str:
        """A `tabular` with booktabs rules, to be put with \\input into a table environment."""
        import pandas as pd

        form = "".join("r" if column.right else "l" for column in self.shown(frame))
        head, *rows = self.rows(frame)
        text = pd.DataFrame(rows, columns=head).to_latex(index=False, escape=True, column_format=form)
        return f"% needs \\usepackage{{booktabs}}, and XeLaTeX or LuaLaTeX for Greek letters\n{text}"


def read_csv(text: str) -> "pd.DataFrame":
    """Return the frame in the CSV of a table, with NaN for what is missing."""
    import pandas as pd

    return pd.read_csv(StringIO(text), keep_default_na=False, na_values=[""], float_precision="round_trip")


def _says(values: "pd.Series[Any]") -> bool:
    return bool((values.notna() & (values != "")).any())


def _missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.isna(value)) or value == ""
