"""The command `compare`: what differs between two folders of results, in settings and numbers.

A difference is that of the means over the seeds. If both runs have two seeds or more in common, it is the mean of the
differences by seed, and its standard error that of these; otherwise the error is Welch's, of two samples. With one seed
there is none.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from patebench.artefacts.records import RECORD_KINDS, read_manifest, read_records
from patebench.cli.command import FILE, stage_command
from patebench.cli.terminal import show_on_terminal, table_of
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.fields import key_path
from patebench.core.files import read_any_json
from patebench.core.text import cell_in_json, plural
from patebench.reporting.frames import ROUNDING, Records, arrange
from patebench.reporting.outcomes import AUDITED, DISTILLED, ENSEMBLE, LABEL_SET, PRIVATE_MODEL, STUDENT
from patebench.reporting.wording import parameters_in_words, rounds_in_words

if TYPE_CHECKING:
    import pandas as pd

_ROUNDS = ["rounds", "selection"]
_BOUND = [*LABEL_SET, *_ROUNDS, "queries", "delta", "accountant", "conversion", "kind"]

#: What is compared: the frame, what it is called, the columns that name a setting apart from its seed, and the value.
_COMPARED = (
    ("ensembles", "teacher accuracy", ENSEMBLE, "teacher_accuracy_mean"),
    ("ensembles", "plurality accuracy", ENSEMBLE, "plurality_accuracy_pool"),
    ("label_sets", "label accuracy", [*LABEL_SET, *_ROUNDS, "queries"], "label_accuracy"),
    ("students", "student accuracy", STUDENT, "accuracy"),
    ("bounds", "ε", _BOUND, "epsilon"),
    ("baselines", "accuracy without privacy", ["dataset", "setting", "learner"], "accuracy"),
    ("namings", "accuracy of named clusters", ["dataset", "setting", "clusters"], "accuracy"),
    ("distillations", "accuracy of a distilled student", DISTILLED, "accuracy"),
    ("teacher_costs", "ε of the teacher that pays most", [*LABEL_SET, *_ROUNDS, "queries", "delta"], "composed_most"),
    ("private_models", "accuracy of a private model", PRIVATE_MODEL, "accuracy"),
    ("students", "balanced accuracy of a student", STUDENT, "balanced_accuracy"),
    ("students", "recall of a student", STUDENT, "recall"),
    ("private_models", "balanced accuracy of a private model", PRIVATE_MODEL, "balanced_accuracy"),
    ("private_models", "recall of a private model", PRIVATE_MODEL, "recall"),
    ("private_models", "ε of a private model", PRIVATE_MODEL, "epsilon"),
    ("private_models", "audited ε of a private model", PRIVATE_MODEL, "audited"),
    ("audits", "ε in an audit", [*AUDITED, "accountant", "conversion", "kind"], "epsilon"),
)

#: Columns that others name, or that tell no two settings of a run apart for a reader.
_SILENT = {"ensemble", "noise", "rounds", "student", "private_model", "label", "model_parameters", "adjacency"}

#: Least number of standard errors of a difference that seeds do not explain.
CLEAR = 2.0


def compared(one: Records, other: Records) -> "pd.DataFrame":
    """Return one row per quantity and setting that both have, those that differ most clearly first.

    Columns: `what`, `setting` in words, `one` and `other` (means), `seeds_one`, `seeds_other`, `difference` (other less
    one), `standard_error` (NaN where a seed is alone), `errors` (their quotient; ∞ where all seeds differ alike, or one
    side alone is infinite), `paired`: of seeds that both have, where these are two or more, and no others count; and
    for accuracies `largest_class_one` and `largest_class_other`, the share of the largest class, NaN if not known.
    """
    import pandas as pd

    both = [each for each in _both(one, other) if all(each.sides)]
    rows = [
        {"what": each.what, "setting": each.setting, **_difference(*each.sides), **_largest(*each.largest)}
        for each in both
    ]
    columns = ["what", "setting", "one", "other", "seeds_one", "seeds_other"]
    columns += ["difference", "standard_error", "errors", "paired", "largest_class_one", "largest_class_other"]
    frame = pd.DataFrame(rows, columns=columns)
    frame = arrange(frame, ["what", "setting"])
    return frame.sort_values("errors", ascending=False, key=abs, kind="stable", na_position="last", ignore_index=True)


def alone(one: Records, other: Records) -> tuple[list[str], list[str]]:
    """Return what only one of them measured, in words: of the first and of the second."""
    found: tuple[list[str], list[str]] = ([], [])
    for each in _both(one, other):
        if not all(each.sides):
            found[0 if each.sides[0] else 1].append(f"{each.what}: {each.setting}")
    return found


def settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the keys of two manifests whose values differ, with both values."""
    parts = ("config", "seeds", "versions", "commit", "hardware")
    flat_one, flat_other = (_flat({part: each.get(part) for part in parts}) for each in (one, other))
    keys = [key for key in dict.fromkeys([*flat_one, *flat_other]) if flat_one.get(key) != flat_other.get(key)]
    return [(key, _shown(flat_one.get(key)), _shown(flat_other.get(key))) for key in keys]


def _shown(value: Any) -> str:
    return "—" if value is None else str(value)


@dataclass(frozen=True)
class _Number:
    """Describe one quantity of one setting in words, with its value by seed in each run.

    `largest` are the shares of the largest class among the samples that an accuracy is measured on.
    """

    what: str
    setting: str
    sides: tuple[dict[int, float], dict[int, float]]
    largest: tuple[list[float], list[float]]


def _both(one: Records, other: Records) -> list[_Number]:
    numbers: dict[tuple[Any, ...], _Number] = {}
    for place, records in enumerate((one, other)):
        for name, what, columns, value in _COMPARED:
            frame = getattr(records, name).dropna(subset=value)
            for row in frame.to_dict("records"):
                classes = row[value] if isinstance(row[value], Mapping) else {"": row[value]}
                for name, share in classes.items():
                    if share is None:  # the test set has no sample of this class
                        continue
                    whole = f"{what}, class {name}" if name else what
                    identity = (whole, *(str(row[column]) for column in columns))
                    number = numbers.setdefault(identity, _Number(whole, _in_words(row, columns), ({}, {}), ([], [])))
                    number.sides[place][row.get("seed", 0)] = float(share)  # an audit has no seed
                    if "accuracy" in value:
                        number.largest[place].append(row.get(value.replace("accuracy", "largest_class"), math.nan))
    return list(numbers.values())


def _in_words(row: Mapping[Any, Any], columns: Sequence[str]) -> str:
    words = [_word(row, name) for name in columns if name not in _SILENT]
    return ", ".join(dict.fromkeys(word for word in [*words, row.get("private_model")] if word))


def _word(row: Mapping[Any, Any], name: str) -> str:
    """Return the value of a column in words; numbers say what they are."""
    import pandas as pd

    value = row[name]
    if name == "selection":
        return rounds_in_words(value)
    if name == "parameters":
        value = parameters_in_words(row["mechanism"], value)
    if pd.isna(value):
        return ""
    short = {"teachers": "n", "queries": "T", "delta": "δ"}.get(name, name)
    return value.replace("_", " ") if isinstance(value, str) else f"{short} = {value:g}"


def _difference(one: Mapping[int, float], other: Mapping[int, float]) -> dict[str, Any]:
    """Compare the two sides; where both have two seeds or more in common, the others are left out."""
    common = sorted(set(one) & set(other))
    paired = len(common) > 1
    first = [one[seed] for seed in (common if paired else sorted(one))]
    second = [other[seed] for seed in (common if paired else sorted(other))]
    difference = _less(fmean(second), fmean(first))
    if paired:
        error = _deviation([_less(its, mine) for its, mine in zip(second, first, strict=True)]) / math.sqrt(len(first))
    else:
        error = math.hypot(_deviation(first) / math.sqrt(len(first)), _deviation(second) / math.sqrt(len(second)))
    if error == 0 or math.isinf(difference):  # a finite bound and none at all differ by more than any error
        errors = math.copysign(math.inf, difference) if difference else 0.0
    else:
        errors = difference / error
    return {
        **{"one": fmean(first), "other": fmean(second)},
        **{"seeds_one": len(first), "seeds_other": len(second)},
        **{"difference": difference, "standard_error": error, "errors": errors, "paired": paired},
    }


def _largest(one: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Return the mean shares of the largest class of the two sides."""
    return {
        f"largest_class_{side}": fmean(each) if each else math.nan for side, each in (("one", one), ("other", other))
    }


def _less(one: float, other: float) -> float:
    """Return `one - other`: 0 for two infinite bounds and for values that rounding alone parts."""
    return 0.0 if one == other or abs(one - other) <= ROUNDING * abs(one) < math.inf else one - other


def _deviation(values: Sequence[float]) -> float:
    """Return the sample deviation: 0 of values that rounding parts, NaN of one value or of infinite ones."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    mean = fmean(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return std if std > ROUNDING * abs(mean) else 0.0


def _flat(content: Any, where: str = "") -> dict[str, Any]:
    """Return every leaf by the path of its key."""
    if not isinstance(content, Mapping):
        return {where: content}
    inner = [_flat(value, key_path(where, key) if where else str(key)) for key, value in content.items()]
    return {key: value for leaves in inner for key, value in leaves.items()}


_MANIFEST = "manifest.json"

#: Maximum number of rows on the terminal.
_SHOWN = 30


def run(*, one: Path, other: Path, as_json: bool) -> None:
    """Compare the results in folder ONE with those in OTHER: settings, and numbers with their spread over seeds.

    Seeds that both have are compared in pairs. For an own mechanism beside the reference, two commits, two machines.
    """
    records = _records(one), _records(other)
    frame, only = compared(*records), alone(*records)
    if as_json:
        rows = [{name: cell_in_json(value) for name, value in row.items()} for row in frame.to_dict("records")]
        show_on_terminal(json.dumps({"compared": rows, "only_one": only[0], "only_other": only[1]}, ensure_ascii=False))
        return
    _show_settings(one, other)
    _show_numbers(frame)
    for folder, words in zip((one, other), only, strict=True):
        if words:
            click.echo(f"Only in {folder}: {len(words)}, such as {words[0]}")


def _records(folder: Path) -> "Records":
    """Return everything that was measured below a folder."""
    if not folder.is_dir():
        raise PatebenchError(f"{folder}: there is no such folder; give one that holds results")
    files: list[Path] = []
    skipped = 0
    for path in _below(folder):
        try:
            kind = read_any_json(path)[0]["kind"]
        except ArtefactError:
            skipped += 1
            continue
        if kind in RECORD_KINDS:
            files.append(path)
    if not files:
        held = "the page of a run, not its results" if (folder / _MANIFEST).is_file() else "no results of a run"
        raise PatebenchError(f"{folder}: it holds {held}; give the folder that `results` names")
    if skipped:
        click.echo(
            f"{folder}: {plural(skipped, 'file')} of others or damaged, left out: see `patebench check`", err=True
        )
    return read_records(files)


def _below(folder: Path) -> list[Path]:
    """Return the artefacts below a folder, except the ledger and pages of other runs that are kept beside."""
    found = sorted(folder.rglob("*.json"))
    return [path for path in found if not {"reference", "ledger"} & set(path.relative_to(folder).parts)]


def _show_settings(one: Path, other: Path) -> None:
    """Show which settings differ, if each folder has one run."""
    manifests = [[path for path in _below(folder) if path.name == _MANIFEST] for folder in (one, other)]
    if [len(paths) for paths in manifests] != [1, 1]:
        counts = " and ".join(str(len(paths)) for paths in manifests)
        click.echo(f"Settings are compared where each folder has one run; these have {counts} manifests.")
        return
    differing = settings(*(read_manifest(path) for (path,) in manifests))
    if differing:
        show_on_terminal(table_of(["", str(one), str(other)], differing, title="Settings that differ"))
    else:
        click.echo("All settings, versions and machines are the same.")


def _show_numbers(frame: "pd.DataFrame") -> None:
    equal = int((frame["difference"] == 0).sum())
    clear = int((frame["errors"].abs() >= CLEAR).sum())
    click.echo(f"{len(frame)} numbers of both: {equal} equal, {clear} differ by {CLEAR:g} standard errors or more.")
    differing = frame[frame["difference"] != 0]
    if differing.empty:
        return
    heads = ["", "setting", "one", "other", "difference", "errors"]
    rows = [_cells(row) for row in differing.head(_SHOWN).to_dict("records")]
    show_on_terminal(table_of(heads, rows, title="What differs, most clearly first", numbers=4))
    if len(differing) > _SHOWN:
        click.echo(f"… and {len(differing) - _SHOWN} more; --json prints all.")


def _cells(row: dict[Any, Any]) -> list[str]:
    scale, unit = (100, " %") if "accuracy" in row["what"] or "recall" in row["what"] else (1, "")
    values = [f"{scale * row[name]:.4g}{unit}{_beside(row[f'largest_class_{name}'])}" for name in ("one", "other")]
    error, errors = row["standard_error"], row["errors"]
    difference = f"{scale * row['difference']:+.3g}" + (f" ± {scale * error:.2g}" if error == error else "")
    return [row["what"], row["setting"], *values, difference, f"{errors:.1f}" if errors == errors else "—"]


def _beside(largest: float) -> str:
    """Return the share of the largest class, to stand behind an accuracy; "" if it is not known."""
    return "" if math.isnan(largest) else f" (largest class {100 * largest:.4g} %)"


command = stage_command(
    run,
    click.argument("one", type=FILE),
    click.argument("other", type=FILE),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
