"""Command `compare`: compare the settings and the numbers of two folders of results.

Each difference of means over the seeds has a bootstrap interval (`reporting.significance`). If the runs share at least
two seeds, only these seeds are used, and they are resampled in pairs. With a single seed there is no interval.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import pandas as pd

from patebench.artefacts.records import RECORD_KINDS, read_manifest, read_records
from patebench.cli.command import FILE, Json, show_on_terminal, stage_command, table_of
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.fields import key_path
from patebench.core.files import read_any_json
from patebench.core.text import cell_in_json, plural
from patebench.reporting.frames import ROUNDING, Records, sort_rows
from patebench.reporting.outcomes import AUDITED, DISTILLED, ENSEMBLE, LABEL_SET, PRIVATE_MODEL, STUDENT
from patebench.reporting.significance import CONFIDENCE, ENOUGH_SEEDS, difference_interval
from patebench.reporting.wording import parameters_in_words, rounds_in_words

_ROUNDS = ["rounds", "selection"]
_BOUND = [*LABEL_SET, *_ROUNDS, "queries", "delta", "accountant", "conversion", "kind"]

#: Compared quantities: frame, label, columns that identify a setting (without the seed), column of the value.
_COMPARED = (
    ("ensembles", "teacher accuracy", ENSEMBLE, "teacher_accuracy_mean"),
    ("ensembles", "plurality accuracy", ENSEMBLE, "plurality_accuracy_pool"),
    ("label_sets", "label accuracy", [*LABEL_SET, *_ROUNDS, "queries"], "label_accuracy"),
    ("students", "student accuracy", STUDENT, "accuracy"),
    ("bounds", "ε", _BOUND, "epsilon"),
    ("baselines", "accuracy without privacy", ["dataset", "setting", "learner"], "accuracy"),
    ("namings", "accuracy of named clusters", ["dataset", "setting", "clusters"], "accuracy"),
    ("distillations", "accuracy of a distilled student", DISTILLED, "accuracy"),
    ("teacher_costs", "largest ε of a teacher", [*LABEL_SET, *_ROUNDS, "queries", "delta"], "composed_most"),
    ("private_models", "accuracy of a private model", PRIVATE_MODEL, "accuracy"),
    ("students", "balanced accuracy of a student", STUDENT, "balanced_accuracy"),
    ("students", "recall of a student", STUDENT, "recall"),
    ("private_models", "balanced accuracy of a private model", PRIVATE_MODEL, "balanced_accuracy"),
    ("private_models", "recall of a private model", PRIVATE_MODEL, "recall"),
    ("private_models", "ε of a private model", PRIVATE_MODEL, "epsilon"),
    ("private_models", "audited ε of a private model", PRIVATE_MODEL, "audited"),
    ("audits", "ε in an audit", [*AUDITED, "accountant", "conversion", "kind"], "epsilon"),
)

#: Symbols of numeric columns in the description of a setting.
_SIGNS = {"teachers": "n", "queries": "T", "delta": "δ"}
#: Columns left out of the description of a setting, because other columns contain the same information.
_OMITTED = {"ensemble", "noise", "rounds", "student", "private_model", "label", "model_parameters", "adjacency"}


def compare_records(one: Records, other: Records) -> pd.DataFrame:
    """Return one row per quantity and setting measured by both runs, `one` and `other`, the clearest differences first.

    The clearness of a difference is its size divided by the width of its confidence interval.

    Returns
    -------
    pandas.DataFrame with the columns
        what, setting : quantity and setting, as text
        one, other : means over seeds
        seeds_one, seeds_other : numbers of seeds
        difference : other minus one
        low, high : ends of the interval of the difference (with confidence `CONFIDENCE`); NaN with a single seed
        paired : True if the runs share at least two seeds; then only common seeds are used
        largest_class_one, largest_class_other : for accuracies, fraction of samples in the largest class; NaN if
        unknown
    """
    numbers = [number for number in _read_numbers(one, other) if all(number.values_by_seed)]
    rows = sort_rows(pd.DataFrame([number.to_row() for number in numbers], columns=_COLUMNS), ["what", "setting"])
    width = (rows["high"] - rows["low"]).mask(rows["low"] == rows["high"], 0.0)  # infinite ends may be equal too
    clearness = (rows["difference"].abs() / width).fillna(-1.0)  # with a single seed, the width is unknown
    clearness = clearness.mask(width == 0, math.inf).mask(rows["difference"] == 0, 0.0)
    return rows.loc[clearness.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def unmatched(one: Records, other: Records) -> tuple[list[str], list[str]]:
    """Return two lists with descriptions of the quantities that only the run `one`, or only `other`, measured."""
    missing: tuple[list[str], list[str]] = ([], [])
    for number in _read_numbers(one, other):
        if not all(number.values_by_seed):
            missing[0 if number.values_by_seed[0] else 1].append(f"{number.what}: {number.setting}")
    return missing


def differing_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Compare the manifests `one` and `other` of two runs; return the settings that differ.

    For each such setting, the list contains (key, value in `one`, value in `other`) as text.
    """
    parts = ("config", "seeds", "versions", "commit", "hardware")
    flat_one, flat_other = (_flatten({part: manifest.get(part) for part in parts}) for manifest in (one, other))
    keys = [key for key in dict.fromkeys([*flat_one, *flat_other]) if flat_one.get(key) != flat_other.get(key)]
    shown = [["—" if flat.get(key) is None else str(flat[key]) for key in keys] for flat in (flat_one, flat_other)]
    return list(zip(keys, *shown, strict=True))


@dataclass(frozen=True)
class _Number:
    """Quantity to compare, such as student accuracy, in one setting, with its values in both runs by seed."""

    what: str
    setting: str
    values_by_seed: tuple[dict[int, float], dict[int, float]]
    largest: tuple[list[float], list[float]]  # for accuracies: shares of the largest class, one list per run

    def to_row(self) -> list[Any]:
        """Return the row of this quantity in the table of `compare_records`.

        If the runs share at least two seeds, only the values of these seeds are used.
        """
        one, other = self.values_by_seed
        common = sorted(set(one) & set(other))
        paired = len(common) > 1
        first, second = ([side[seed] for seed in (common if paired else sorted(side))] for side in self.values_by_seed)
        difference = _subtract(fmean(second), fmean(first))
        changes = {_subtract(*pair) for pair in zip(second, first, strict=True)} if paired else set()
        low = high = difference
        if not math.isinf(difference) and changes != {0.0}:
            low, high = difference_interval(first, second, paired)
        largest = [fmean(shares) if shares else math.nan for shares in self.largest]
        measured = [fmean(first), fmean(second), len(first), len(second)]
        return [self.what, self.setting, *measured, difference, low, high, paired, *largest]


#: Columns of `compare_records`.
_COLUMNS = [
    *("what", "setting", "one", "other", "seeds_one", "seeds_other"),
    *("difference", "low", "high", "paired", "largest_class_one", "largest_class_other"),
]


def _read_numbers(one: Records, other: Records) -> list[_Number]:
    """Return each quantity that `one` or `other` measured, with the values of both runs."""
    numbers: dict[tuple[Any, ...], _Number] = {}
    for place, records in enumerate((one, other)):
        for name, what, columns, value in _COMPARED:
            frame = getattr(records, name).dropna(subset=value)
            for row in frame.to_dict("records"):
                classes = row[value] if isinstance(row[value], Mapping) else {"": row[value]}
                for label, share in classes.items():
                    if share is None:  # the test set has no sample of this class
                        continue
                    whole = f"{what}, class {label}" if label else what
                    identity = (whole, *(str(row[column]) for column in columns))
                    number = numbers.setdefault(identity, _Number(whole, _describe(row, columns), ({}, {}), ([], [])))
                    number.values_by_seed[place][row.get("seed", 0)] = float(share)  # an audit has no seed
                    if "accuracy" in value:
                        number.largest[place].append(row.get(value.replace("accuracy", "largest_class"), math.nan))
    return list(numbers.values())


def _describe(row: Mapping[Any, Any], columns: Sequence[str]) -> str:
    """Return a text that lists the values of `columns` in the record `row`, such as "mnist, gnmax, σ = 40, T = 100"."""
    words = []
    for name in columns:
        value = row[name]
        if name == "selection":
            value = rounds_in_words(value)
        elif name == "parameters":
            value = parameters_in_words(row["mechanism"], value).replace("_", " ")
        elif name in _OMITTED or pd.isna(value):
            continue
        elif isinstance(value, str):
            value = value.replace("_", " ")
        else:
            value = f"{_SIGNS.get(name, name)} = {value:g}"
        words.append(value)
    return ", ".join(dict.fromkeys(word for word in [*words, row.get("private_model")] if word))


def _subtract(one: float, other: float) -> float:
    """Return `one` minus `other`, or 0 if they differ only by rounding."""
    return 0.0 if one == other or abs(one - other) <= ROUNDING * abs(one) < math.inf else one - other


def _flatten(content: Any, where: str = "") -> dict[str, Any]:
    """Return the nested mappings `content` as one mapping from paths, such as "versions.numpy", to values.

    Each path starts with `where`.
    """
    if not isinstance(content, Mapping):
        return {where: content}
    inner = [_flatten(value, key_path(where, key) if where else str(key)) for key, value in content.items()]
    return {key: value for leaves in inner for key, value in leaves.items()}


_MANIFEST = "manifest.json"

#: Maximum number of rows on the terminal.
_SHOWN = 30


def run(*, one: Path, other: Path, as_json: Json) -> None:
    """Compare the results in folder ONE with those in OTHER: the settings that differ, and the measured numbers.

    If there are at least two common seeds, the numbers are compared in pairs of equal seed. Use this command to compare
    results of two commits or of two machines, or your own results with the reference results.
    """
    records = _read_folder(one), _read_folder(other)
    frame, only = compare_records(*records), unmatched(*records)
    if as_json:
        rows = [{name: cell_in_json(value) for name, value in row.items()} for row in frame.to_dict("records")]
        show_on_terminal(json.dumps({"compared": rows, "only_one": only[0], "only_other": only[1]}, ensure_ascii=False))
        return
    _show_settings(one, other)
    _show_numbers(frame)
    for folder, words in zip((one, other), only, strict=True):
        if words:
            click.echo(f"Only in {folder}: {len(words)}, such as {words[0]}")


def _read_folder(folder: Path) -> Records:
    """Return the records in all result files below `folder`.

    JSON files that are damaged or not written by patebench are skipped; their number is printed.
    """
    if not folder.is_dir():
        raise PatebenchError(f"{folder} is not a folder; give a folder with results")
    files: list[Path] = []
    skipped = 0
    for path in _list_json_files(folder):
        try:
            kind = read_any_json(path)[0]["kind"]
        except ArtefactError:
            skipped += 1
            continue
        if kind in RECORD_KINDS:
            files.append(path)
    if not files:
        content = "the page of a run, not its results" if (folder / _MANIFEST).is_file() else "no results of a run"
        raise PatebenchError(
            f"{folder} contains {content}; give the folder in the key 'results' of the run's configuration"
        )
    if skipped:
        click.echo(f"{folder}: skipped {plural(skipped, 'file')}, foreign or damaged; see `patebench check`", err=True)
    return read_records(files)


def _list_json_files(folder: Path) -> list[Path]:
    """Return the JSON files below `folder`, except ledgers and the reference results."""
    paths = sorted(folder.rglob("*.json"))
    return [path for path in paths if not {"reference", "ledger"} & set(path.relative_to(folder).parts)]


def _show_settings(one: Path, other: Path) -> None:
    """Print the settings that differ, if each folder contains exactly one run."""
    manifests = [[path for path in _list_json_files(folder) if path.name == _MANIFEST] for folder in (one, other)]
    if [len(paths) for paths in manifests] != [1, 1]:
        counts = " and ".join(str(len(paths)) for paths in manifests)
        click.echo(f"Settings are compared only if each folder has one run; these have {counts} manifests.")
        return
    differing = differing_settings(*(read_manifest(path) for (path,) in manifests))
    if differing:
        show_on_terminal(table_of(["", str(one), str(other)], differing, title="Settings that differ"))
    else:
        click.echo("All settings, versions and machines are the same.")


def _show_numbers(frame: pd.DataFrame) -> None:
    equal = int((frame["difference"] == 0).sum())
    clear = int(((frame["low"] > 0) | (frame["high"] < 0)).sum())
    click.echo(f"{len(frame)} common numbers: {equal} equal, {clear} whose interval of the difference excludes 0.")
    if 0 < frame["seeds_one"].min() < ENOUGH_SEEDS:
        click.echo(f"Intervals from fewer than {ENOUGH_SEEDS} seeds are too narrow.")
    differing = frame[frame["difference"] != 0]
    if differing.empty:
        return
    heads = ["", "setting", "one", "other", "difference", f"{CONFIDENCE:.0%} interval"]
    rows = [_cells(row) for row in differing.head(_SHOWN).to_dict("records")]
    show_on_terminal(table_of(heads, rows, title="Differences, clearest first", numbers=4))
    if len(differing) > _SHOWN:
        click.echo(f"… and {len(differing) - _SHOWN} more; --json prints all.")


def _cells(row: dict[Any, Any]) -> list[str]:
    scale, unit = (100, " %") if "accuracy" in row["what"] or "recall" in row["what"] else (1, "")
    values = []
    for name in ("one", "other"):
        largest = row[f"largest_class_{name}"]
        note = "" if math.isnan(largest) else f" (largest class {100 * largest:.4g} %)"
        values.append(f"{scale * row[name]:.4g}{unit}{note}")
    difference, low, high = (f"{scale * row[name]:+.3g}" for name in ("difference", "low", "high"))
    return [row["what"], row["setting"], *values, difference, f"{low} to {high}" if row["low"] == row["low"] else "—"]


command = stage_command(run, click.Argument(["one"], type=FILE), click.Argument(["other"], type=FILE))
