"""Summarise what a run wrote: a digest of every array, every number in JSON files and every cell of CSV tables.

Times, versions and places are left out. Two summaries of one configuration on one machine are equal, so a change of
structure cannot change what is computed:

    python tests/oracle/values.py RESULTS SUMMARY.json.gz             # writes a summary
    python tests/oracle/values.py RESULTS SUMMARY.json.gz --compare   # prints what differs from it
"""

import argparse
import csv
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Folders and files below the results that say how a run went, not what it found.
_LEFT_OUT = ("logs", "benchmarks", "manifest.json", "report.html", "rows.json", "reference")

#: Entries of JSON files that differ from run to run.
_CHANGING = ("seconds", "minutes", "when", "device", "version", "digest", "created", "host")


def summary(results: Path) -> dict[str, dict[str, Any]]:
    """Return the content of each array, JSON and CSV file, by path below `results`."""
    found = {}
    for path in sorted(results.rglob("*")):
        name = path.relative_to(results).as_posix()
        reader = _READERS.get(path.suffix)
        if reader and path.is_file() and name.split("/")[0] not in _LEFT_OUT:
            found[name] = dict(reader(path))
    return found


def differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    """Return one line for each file or value that differs or is only in one summary."""
    lines = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'after' if name in after else 'before'}")
            continue
        old, new = before[name], after[name]
        for entry in sorted({*old, *new}):
            if old.get(entry) != new.get(entry):
                lines.append(f"{name}: {entry}: {old.get(entry)} → {new.get(entry)}")
    return lines


def _arrays(path: Path) -> Iterator[tuple[str, str]]:
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            array = arrays[name]
            if isinstance(array, bytes):  # the facts about the arrays
                yield from _facts(array.decode())
            else:
                yield name, f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def _numbers(path: Path) -> Iterator[tuple[str, Any]]:
    yield from _facts(path.read_text())


def _facts(text: str) -> Iterator[tuple[str, Any]]:
    def walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, each in value.items():
                if not any(word in key for word in _CHANGING):
                    yield from walk(f"{name}.{key}" if name else key, each)
        elif isinstance(value, list):
            for i, each in enumerate(value):
                yield from walk(f"{name}[{i}]", each)
        elif isinstance(value, bool | int | float) or value is None:
            yield name, value

    yield from walk("", json.loads(text))


def _cells(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(newline="") as file:
        for i, row in enumerate(csv.DictReader(file)):
            for column, cell in row.items():
                if not any(word in str(column) for word in _CHANGING):
                    yield f"{i}.{column}", cell


_READERS = {".npz": _arrays, ".json": _numbers, ".csv": _cells}


def main() -> int:
    """Write a summary of results, or compare results with a summary; return the exit status, 1 for differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("summary", type=Path)
    parser.add_argument("--compare", action="store_true")
    chosen = parser.parse_args()
    found = summary(chosen.results)
    if not chosen.compare:
        text = json.dumps(found, ensure_ascii=False, sort_keys=True)
        chosen.summary.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{len(found)} files, {sum(map(len, found.values()))} values")
        return 0
    lines = differences(json.loads(gzip.decompress(chosen.summary.read_bytes())), found)
    print("\n".join(lines) or f"{len(found)} files, no difference")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
