"""Accuracy that the regression of a table loses because it chooses its settings without true labels.

    python benchmarks/bench_decoder.py results/mnist-scattering results/fashion-mnist-encoded

Each argument is the folder of a data set in the results of a run with `table-regression` students. For each setting and
seed, the regression is repeated for all values that it tries of the error's factor, of the prior's power and of the
prior's scale. The page compares the test accuracy of its own choice, which has the largest evidence, with that of the
values that are best for all seeds of a setting, and with the best of each seed, both chosen on the test samples
themselves.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from comparison import REFERENCE, markdown_table
from numpy.typing import NDArray

from patebench.artefacts.reading import read_encoder, read_samples
from patebench.artefacts.student_data import student_data
from patebench.core.files import read_arrays, read_json, write_text
from patebench.core.formats import LABELS, POOL
from patebench.features.cells import Directions
from patebench.students.table_regression import candidates

ABOUT = """Test accuracy of the linear student that `table-regression` fits to a table of counts: with the settings
that have the largest evidence, which it chooses without labels; with the settings that are best for all seeds of a row;
and with the best settings of each seed. The last two are chosen with the true labels of the test samples on which they
are measured, so they are too high. The loss is the second accuracy minus the first. σ is the noise of a count."""
HEADING = (
    "data set",
    "rows of the table",
    "σ",
    "seeds",
    "largest evidence",
    "best for all seeds",
    "best of each seed",
    "loss, points",
)


def measure(student: Path) -> tuple[tuple[str, int, float], NDArray[np.float64], int]:
    """Return the setting of a student, the test accuracy of each candidate, and the position of its own choice.

    `student` is the file `student.json`. The setting consists of the data set, the number of queries and σ.
    """
    split = student.parents[4]
    pool, test = read_arrays(split / "pool.npz", POOL), read_samples(split / "test.npz", "test")
    released = read_arrays(student.parents[1] / "labels.npz", LABELS)
    features = read_encoder(split / "encoder.npz", pool).features
    queries = read_json(student, "train_student")["queries"]
    table = student_data(pool, released, queries, whole_table=True).table
    assert table is not None, f"{student}: no table was released"
    vectors, x = features(pool["x"]).astype(np.float64), features(test["x"])
    directions = Directions.of(vectors, table.queries) if table.weighted else None
    regressors = x if directions is None else directions.along(x)
    fits, shares = candidates(vectors, table, directions)
    right, evidence = [], []
    for fit in fits:
        for scale, value in enumerate(fit.evidence):
            predicted = (regressors @ fit.weights(scale) + shares).argmax(axis=1)
            right.append(float(np.mean(predicted == test["y"])))
            evidence.append(float(value))
    setting = (pool.meta["dataset"], queries, released.meta["parameters"]["sigma"])
    return setting, np.array(right), int(np.argmax(evidence))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="folders of data sets in the results of a run")
    parser.add_argument("--out", type=Path, default=REFERENCE / "benchmarks-decoder.md", help="where the Markdown goes")
    chosen = parser.parse_args()
    measured = defaultdict(list)
    for student in sorted(
        path for folder in chosen.folders for path in folder.glob("*/*/*/*/table-regression_*/student.json")
    ):
        setting, right, own = measure(student)
        measured[setting].append((right, own))
        print(*setting, f"{100 * right[own]:.1f} %, best {100 * right.max():.1f} %", flush=True)
    rows = []
    for (dataset, queries, sigma), results in sorted(measured.items()):
        table = np.array([right for right, _ in results])
        accuracy = np.mean([right[own] for right, own in results])
        shown = (accuracy, table.mean(axis=0).max(), table.max(axis=1).mean())
        numbers = [f"{100 * value:.1f} %" for value in shown]
        rows.append(
            [dataset, str(queries), f"{sigma:g}", str(len(results)), *numbers, f"{100 * (shown[1] - accuracy):.1f}"]
        )
    page = f"# Choice of the regression's settings\n\n{ABOUT}\n\n{markdown_table(HEADING, rows, 'lrrrrrrr')}\n"
    write_text(chosen.out, page)


if __name__ == "__main__":
    main()
