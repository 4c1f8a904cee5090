"""How records fall into panels and series: which go together, and what they are called."""

from typing import TYPE_CHECKING

from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd

#: Ensembles that differ in the number of teachers (and seed) alone share these.
FAMILY = ("dataset", "setting", "partition", "model", "recipe")


def titles(frame: "pd.DataFrame", by: tuple[str, ...] = FAMILY) -> dict[tuple[str, ...], str]:
    """A title for each family in `frame`, naming the split and partition only where they tell families apart."""
    families = sorted(set(frame[list(by)].itertuples(index=False, name=None)))
    return {family: _title(dict(zip(by, family, strict=True)), frame) for family in families}


def members(frame: "pd.DataFrame", family: tuple[str, ...], by: tuple[str, ...] = FAMILY) -> "pd.DataFrame":
    """The rows of `frame` that belong to a family."""
    chosen = (frame[list(by)] == list(family)).all(axis=1)
    return frame[chosen]


def _title(name: dict[str, str], frame: "pd.DataFrame") -> str:
    alike = frame[frame["dataset"] == name["dataset"]]
    parts = [in_words(name["dataset"])]
    if "model" in name:
        parts.append(in_words(name["model"]) + (f", {name['recipe']} recipe" if name["recipe"] else ""))
    if name.get("partition", "iid") != "iid":
        parts.append(in_words(name["partition"]))
    if alike["setting"].nunique() > 1:
        parts.append(in_words(name["setting"]))
    return " · ".join(parts)
