"""What public data knew already, and what privacy paid for: accuracy at ε = 0, at a release's ε, and without privacy.

Only of splits whose clusters were named (`public_reference` in the configuration), for that is the accuracy at ε = 0.
"""

from typing import TYPE_CHECKING

from patebench.core.bound import Adjacency, Kind
from patebench.reporting.frames import Records, arrange, means_and_deviations, over_seeds
from patebench.reporting.outcomes import outcomes, private_models, public_use
from patebench.reporting.published import PATE, Published
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table
from patebench.reporting.wording import in_text

if TYPE_CHECKING:
    import pandas as pd

_SPLIT = ["dataset", "setting"]
_METHOD = ["dataset", "setting", "teachers", "system", "way", "learner", "queries", "adjacency", "delta"]
_PUBLIC = ["public_use", "public_samples"]
_NAMED, _MATCHED = means_and_deviations(["named_accuracy"]), means_and_deviations(["matched_accuracy"])
_EACH = [*_METHOD, *_PUBLIC, "clusters", "epsilon", *means_and_deviations(["accuracy", "baseline_accuracy"]), "seeds"]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per student setting or private model and δ, with what the clusters of its split are worth by themselves.

    A student of labels of clusters stands beside as many named clusters; all others beside the most that were named.
    """
    import pandas as pd

    frames = [frame.astype(object) for frame in (_students(records), _models(records))]
    rows = pd.concat(frames, ignore_index=True)
    rows = rows.merge(_most_clusters(records), on=_SPLIT)
    rows["named_clusters"] = rows["clusters"].where(rows["clusters"].notna(), rows.pop("most")).astype("Int64")
    named = over_seeds(records.namings, [*_SPLIT, "clusters"], ["accuracy", "matched_accuracy"])
    named = named.rename(columns={"clusters": "named_clusters", **_renamed("accuracy", "named_accuracy")})
    matched = named[named["matched_accuracy_mean"].notna()]
    rows = rows.merge(named[[*_SPLIT, "named_clusters", *_NAMED]], on=[*_SPLIT, "named_clusters"], how="left")
    rows = rows.merge(matched[[*_SPLIT, *_MATCHED]], on=_SPLIT, how="left")
    numbers = ["epsilon", *means_and_deviations(["accuracy", "baseline_accuracy"])]
    return arrange(rows.astype(dict.fromkeys(numbers, float)), [*_METHOD, "epsilon"])


def _students(records: Records) -> "pd.DataFrame":
    frame = outcomes(records)
    frame = frame[frame["worst_case_epsilon_mean"].notna()]
    used = [public_use(row) for row in frame.to_dict("records")]
    frame = frame.assign(
        system=PATE,
        way=frame["mechanism"].str.cat(in_text(frame)["noise_in_words"], sep=", "),
        learner=frame["method"].str.cat(frame["strategy"], sep=", ").str.removesuffix(", "),
        adjacency=str(Adjacency.REPLACE_TEACHER),
        epsilon=frame["worst_case_epsilon_mean"],
        **{name: [each[place] for each in used] for place, name in enumerate(_PUBLIC)},
    )
    return frame[_EACH]


def _models(records: Records) -> "pd.DataFrame":
    """Those with a proven ε, each at its least one."""
    frame = private_models(records)
    frame = frame[frame["kind"] == Kind.WORST_CASE]
    frame = frame.assign(way=frame["form"], learner=frame["model"], epsilon=frame["epsilon_mean"], clusters=None)
    ranked = frame.sort_values("epsilon", kind="stable")
    return ranked.drop_duplicates([*_METHOD, "private_model"])[_EACH]


def _most_clusters(records: Records) -> "pd.DataFrame":
    found = records.namings.groupby(_SPLIT)["clusters"].max()
    return found.rename("most").reset_index()


def _renamed(value: str, name: str) -> dict[str, str]:
    return dict(zip(means_and_deviations([value]), means_and_deviations([name]), strict=True))


_AT_ZERO, _REACHED, _PUBLIC_DATA = "At ε = 0", "Accuracy %", "Public data"
_COLUMNS = (
    *SIZE_COLUMNS,
    Column("system", "System"),
    Column("way", "Mechanism or form"),
    Column("queries", "Queries", "count"),
    Column("learner", "What learns"),
    Column("public_use", "used for", group=_PUBLIC_DATA),
    Column("public_samples", "samples, unlabelled", "count", group=_PUBLIC_DATA),
    Column("matched_accuracy", "% of one for each class", "percent", True, group=_AT_ZERO),
    Column("named_clusters", "clusters", "count", group=_AT_ZERO),
    Column("named_accuracy", "% of all, named by true labels", "percent", True, group=_AT_ZERO),
    Column("accuracy", "at ε", "percent", True, group=_REACHED),
    Column("baseline_accuracy", "without privacy", "percent", True, group=_REACHED),
    Column("epsilon", "ε, of fresh noise", "epsilon"),
    Column("delta", "δ", "number"),
    Column("adjacency", "Protects"),
    Column("seeds", "Seeds", "count"),
)

TABLE = Table(title="What public data knew already, and what privacy paid for", columns=_COLUMNS, build=build)
