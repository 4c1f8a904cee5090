"""Accuracy that the regression of a table loses because it chooses its settings without true labels.

    python benchmarks/bench_decoder.py results/mnist-scattering

The argument is the folder of a data set in the results of a run with `table-regression` students. For each setting and
seed, the regression is repeated for all values that it tries of the error's factor, of the prior's power and of the
prior's scale. The table compares the test accuracy of its own choice, which has the largest evidence, with that of the
values that are best for all seeds of a setting, and with the best of each seed, both chosen on the test samples
themselves.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from patebench.artefacts.reading import read_encoder, read_samples
from patebench.artefacts.student_data import student_data
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import LABELS, POOL
from patebench.features.cells import Directions
from patebench.students.table_regression import candidates

Accuracies = np.ndarray


def accuracies(student: Path) -> tuple[Accuracies, int]:
    """Return the test accuracy of each candidate of one student, and the position of the regression's own choice.

    `student` is the file `student.json` of the student.
    """
    labels, split = student.parents[1] / "labels.npz", student.parents[4]
    pool, test = read_arrays(split / "pool.npz", POOL), read_samples(split / "test.npz", "test")
    released, features = read_arrays(labels, LABELS), read_encoder(split / "encoder.npz", pool).features
    queries = read_json(student, "train_student")["queries"]
    table = student_data(pool, released, queries, whole_table=True).table
    assert table is not None, f"{labels} contains no table"
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
    return np.array(right), int(np.argmax(evidence))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of a data set in the results of a run")
    folder = parser.parse_args().folder
    settings = defaultdict(list)
    for student in sorted(folder.glob("*/*/*/*/table-regression_*/student.json")):
        split, *others = student.relative_to(folder).parts[:-2]
        setting = " ".join([split.partition("_")[2], *others])  # without the seed
        settings[setting].append(accuracies(student))
        print(f"{student.relative_to(folder).parent}: {len(settings)} settings so far", flush=True)
    print("\n| setting | seeds | largest evidence | best for all seeds | best for each seed | loss, points |")
    print("|---|---:|---:|---:|---:|---:|")
    for setting, results in settings.items():
        table = np.array([right for right, _ in results])
        own = float(np.mean([right[position] for right, position in results]))
        fixed, each = float(table.mean(axis=0).max()), float(table.max(axis=1).mean())
        numbers = " | ".join(f"{100 * value:.1f} %" for value in (own, fixed, each))
        print(f"| {setting} | {len(results)} | {numbers} | {100 * (fixed - own):.1f} |")


if __name__ == "__main__":
    main()
