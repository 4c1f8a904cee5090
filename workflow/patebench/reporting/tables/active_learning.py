"""Which samples to ask for: strategies at equal numbers of labels (PATE 2017, Appendix C.2)."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records, arrange, spread
from patebench.reporting.outcomes import ANY_STUDENT, RELEASE, outcomes
from patebench.reporting.published import Published
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "random"
_ASKED = [*RELEASE, "student", "student_model", "queries"]
_EPSILON = ["data_dependent_epsilon_mean", "data_dependent_epsilon_std", "worst_case_epsilon_mean", "delta"]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per strategy and number of labels; the gain is over random queries of the same seed."""
    compared = gains(records)
    frame = spread(compared, [*_ASKED, "rounds", "strategy"], ["answered", "accuracy", "gain"])
    costs = outcomes(records)[[*ANY_STUDENT, *_EPSILON]]
    frame = frame.merge(costs, on=[*_ASKED, "rounds"], how="left")
    printed: list[Any] = [published_gain(published, strategy) for strategy in frame["strategy"]]
    frame = frame.assign(published_gain=printed)
    return arrange(frame, [*RELEASE, "student", "queries", "strategy", "delta"])


def gains(records: Records) -> "pd.DataFrame":
    """The rounds of students that ask in several ways by then, with `gain`: accuracy less that of random queries."""
    rounds = records.rounds
    random = rounds[rounds["strategy"] == BASELINE].rename(columns={"accuracy": "random"})
    compared = rounds.merge(random[[*_ASKED, "seed", "round", "random"]], on=[*_ASKED, "seed", "round"], how="left")
    ways = compared.groupby([*_ASKED, "round"], dropna=False)["strategy"].transform("nunique")
    return compared[ways > 1].assign(gain=lambda frame: frame["accuracy"] - frame["random"])


def published_gain(published: Published, strategy: str) -> str | None:
    """The range of gains that the paper gives for a strategy, in percent; None where it gives no numbers."""
    values = sorted(100 * value.value for value in published.select("accuracy_gain", row=strategy))
    return "–".join(f"{value:g}" for value in values) or None


TABLE = Table(
    title="Active learning: which samples to ask for",
    columns=(
        Column("dataset", "Data set"),
        Column("teachers", "n", "count"),
        Column("mechanism", "Mechanism"),
        Column("noise", "Noise"),
        Column("student", "Student"),
        Column("queries", "Labels asked", "count"),
        Column("strategy", "Strategy"),
        Column("data_dependent_epsilon", "data-dependent, not publishable", "epsilon", spread=True, group="ε"),
        Column("worst_case_epsilon_mean", "worst case, publishable", "epsilon", group="ε"),
        Column("accuracy", "student", "percent", spread=True, group="Accuracy %"),
        Column("gain", "gain over random", "percent", spread=True, group="Accuracy %"),
        Column("published_gain", "gain, published", optional=True, group="Accuracy %"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
)
