"""Write a table of the ε of the papers' releases for MNIST: worst case before and after, exact, and printed.

    snakemake --cores all --configfile config/papers/handed-out.yaml
    python benchmarks/bench_releases.py

Every ε except the exact one is read from the `bounds.json` of labels drawn in release mode with discrete noise. The ε
of the counts is the worst case if all noisy counts were released. The exact ε is for these votes and continuous noise.
It is data-dependent, so it must not be published for private data.
"""

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from comparison import REFERENCE, markdown_table

from patebench.artefacts.reading import query_positions, read_votes
from patebench.config import load
from patebench.core.bound import Bound, Conversion, Kind
from patebench.core.files import read_arrays, read_json, write_text
from patebench.core.formats import LABELS, TRUTH
from patebench.mechanisms.base import make_mechanism

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "mnist"
CONFIGURATION = ROOT / "config" / "papers" / "handed-out.yaml"
_HEAD = (
    *("release", "queries", "answered", "ε of the counts", "ε of the labels", "exact ε, private", "printed ε"),
    *("right labels", "student"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="The results of the data set.")
    parser.add_argument("--out", type=Path, default=REFERENCE / "releases.md", help="The page to write.")
    arguments = parser.parse_args()
    rows = [row for path in sorted(arguments.results.rglob("bounds.json")) for row in _rows(path)]
    table = markdown_table(_HEAD, sorted(rows, key=lambda row: (row[0], int(row[1]))), "l" + 8 * "r")
    text = f"# Releases of MNIST labels, 250 teachers, δ = 1e-5\n\n{_about()}\n\n{table}\n"
    write_text(arguments.out, text)
    print(text)


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the row of one released label set; nothing for labels that were not released."""
    content = read_json(path, "account")
    if content["mode"] != "release":
        return
    labels = read_arrays(path.with_name("labels.npz"), LABELS)
    source, votes = read_votes(next(each for up in path.parents if (each := up / "votes.npz").exists()))
    truth = read_arrays(source.path.parents[1] / "truth.npz", TRUTH)["y"]
    bounds = [Bound.from_json(bound) for bound in content["bounds"] if bound["accountant"] != "ledger"]
    positions, given = query_positions(labels, votes.queries, source.path), labels["labels"]
    asked, delta = votes.at(positions), content["delta"]
    answered = given >= 0
    yield [
        _name(content),
        str(len(given)),
        str(int(answered.sum())),
        _least(bounds, without="label"),
        _least(bounds),
        _exact(content, asked, delta),
        _printed(content, len(given)),
        f"{100 * float(np.mean(given[answered] == truth[positions[answered]])):.1f} %" if answered.any() else "—",
        _student(path.parent),
    ]


def _name(content: Mapping[str, Any]) -> str:
    parameters = ", ".join(f"{name} = {value:g}" for name, value in content["parameters"].items())
    chosen = {each["strategy"] for each in content["rounds"]} - {"random"}
    return f"{content['mechanism']} ({parameters})" + "".join(f", {each}" for each in sorted(chosen))


def _least(bounds: Sequence[Bound], without: str = "") -> str:
    return f"{min(bound.epsilon for bound in bounds if bound.publishable and bound.accountant != without):.3f}"


def _exact(content: Mapping[str, Any], asked: Any, delta: float) -> str:
    made = make_mechanism(content["mechanism"], content["parameters"])
    found = [bound for bound in made.bounds(asked, [asked.queries], delta) if bound.kind is Kind.DATA_DEPENDENT]
    exact = [bound.epsilon for bound in found if bound.exact and bound.conversion is Conversion.TIGHT]
    return f"{min(exact):.3f}" if exact else "—"


def _printed(content: Mapping[str, Any], queries: int) -> str:
    """Return the ε that the paper prints for this release."""
    setting = "; ".join(f"{name}={value:g}" for name, value in content["parameters"].items())
    with open(ROOT / "config" / "published.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            asked = (row["dataset"], row["mechanism"], row["parameters"], row["queries"], row["quantity"])
            if asked == ("mnist", content["mechanism"], setting, str(queries), "epsilon"):
                return f"{float(row['value']):g} ({row['paper']})"
    return "—"


def _student(folder: Path) -> str:
    found = [read_json(path, "train_student")["accuracy"] for path in sorted(folder.glob("**/student.json"))]
    return f"{100 * found[0]:.1f} %" if found else "—"


def _about() -> str:
    ledger = load(CONFIGURATION)["ledger"]
    return (
        "Labels drawn in release mode, with discrete noise, by `config/papers/handed-out.yaml`, seed 0, from teachers "
        "of the recipe `fast`; written by `benchmarks/bench_releases.py`. The ε of the labels may be published; "
        "that of the counts is what was stated before. The exact one, of continuous noise, tells of the votes: it is "
        "here because MNIST is public, and of private data nobody may print it. "
        "Each ε is of its row alone: all were drawn from the same private data, so whoever handed out all would state "
        f"what the ledger keeps for all together, ε = {ledger['budget']:g} at δ = {ledger['delta']:g}."
    )


if __name__ == "__main__":
    main()
