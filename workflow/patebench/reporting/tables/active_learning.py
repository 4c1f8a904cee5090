"""Which samples to query: strategies at equal numbers of labels (PATE 2017, Appendix C.2)."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import LABEL_SET, outcomes
from patebench.reporting.published import Published
from patebench.reporting.tables.table import EPSILON_COLUMNS, NOISE_COLUMNS, SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "random"
_SELECTED = [*LABEL_SET, "student", "method", "student_model", "student_recipe", "queries"]
_EPSILON = ["data_dependent_epsilon_mean", "data_dependent_epsilon_std", "worst_case_epsilon_mean", "delta"]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per strategy and number of labels; the gain is over random queries of the same seed."""
    compared = gains(records)
    frame = over_seeds(compared, [*_SELECTED, "rounds", "strategy"], ["answered", "accuracy", "gain"])
    costs = outcomes(records)[[*_SELECTED, "rounds", *_EPSILON]]
    frame = frame.merge(costs, on=[*_SELECTED, "rounds"], how="left")
    printed: list[Any] = [published_gain(published, strategy) for strategy in frame["strategy"]]
    frame = frame.assign(published_gain=printed)
    return arrange(frame, [*LABEL_SET, "student", "queries", "strategy", "delta"])


def gains(records: Records) -> "pd.DataFrame":
    """The students of selected queries, where there are several ways to select by then.

    Beside each `gain`: its accuracy less that of the student of as many random queries of the same seed.
    """
    rounds = records.students[records.students["rounds"] != ""]
    random = rounds[rounds["strategy"] == BASELINE].rename(columns={"accuracy": "random"})
    compared = rounds.merge(
        random[[*_SELECTED, "seed", "round", "random"]], on=[*_SELECTED, "seed", "round"], how="left"
    )
    ways = compared.groupby([*_SELECTED, "round"], dropna=False)["strategy"].transform("nunique")
    return compared[ways > 1].assign(gain=lambda frame: frame["accuracy"] - frame["random"])


def published_gain(published: Published, strategy: str) -> str | None:
    """The range of gains that the paper gives for a strategy, in percent; None where it gives no numbers."""
    values = sorted(100 * value.value for value in published.select("accuracy_gain", row=strategy))
    return "–".join(f"{value:g}" for value in values) or None


TABLE = Table(
    title="Active learning: which samples to query",
    columns=(
        *SIZE_COLUMNS,
        *NOISE_COLUMNS,
        Column("method", "Student"),
        Column("student_model", "Its model"),
        Column("queries", "Queries", "count"),
        Column("strategy", "Strategy"),
        *EPSILON_COLUMNS,
        Column("accuracy", "student", "percent", deviation=True, group="Accuracy %"),
        Column("gain", "gain over random", "percent", deviation=True, group="Accuracy %"),
        Column("published_gain", "gain, published", group="Accuracy %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
