"""Load UCI Adult: 32,561 private and 16,281 public people; class 1 is an income above $50,000.

B. Becker, R. Kohavi, *Adult*, UCI Machine Learning Repository, 1996. The data come from the US census of 1994. Scalable
PATE 2018 uses this data set.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from patebench.data.dataset import Dataset, LabelledSamples
from patebench.data.torchvision_sets import Files, torchvision_datasets

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
SOURCE = Files(
    name="adult",
    folder="adult",
    files={"adult.data": "5d7c39d7b8804f071cdd1f2a7c460872", "adult.test": "35238206dfdf7f1fe215bbb874adecdc"},
)
CLASS_NAMES = ("<=50K", ">50K")

#: Columns in the order of the file, with the values of each categorical column; columns without values are numeric or
#: unused.
_LINES = """
age:
workclass: Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked
fnlwgt:
education:
education-num:
marital-status: Married-civ-spouse, Divorced, Never-married, Separated, Widowed, \
Married-spouse-absent, Married-AF-spouse
occupation: Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners, \
Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces
relationship: Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried
race: White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black
sex: Female, Male
capital-gain:
capital-loss:
hours-per-week:
native-country: United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, \
Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, \
Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, Scotland, \
Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands
"""
_COLUMNS = {
    name: words.strip().split(", ") if words else []
    for name, _, words in (line.partition(":") for line in _LINES.strip().split("\n"))
}
#: Unused columns: the census weight of a row, and education in words, which education-num replaces.
_LEFT_OUT = {"fnlwgt", "education"}
FEATURES = sum(len(words) or 1 for name, words in _COLUMNS.items() if name not in _LEFT_OUT)


def load(root: Path, download: bool) -> Dataset:
    """Load `adult.data` as private and `adult.test` as public samples.

    Features are 5 raw numbers and the one-hot encodings of 7 categorical columns. An unknown value ("?") is encoded as
    zeros.
    """
    SOURCE.require(root, download)
    private, public = SOURCE.read(root, lambda: [_read(root, name) for name in SOURCE.files])
    return Dataset(private, public, CLASS_NAMES)


def _read(root: Path, name: str) -> LabelledSamples:
    path = root / SOURCE.folder / name
    if not path.is_file():
        _fetch(path)
    lines = path.read_text("utf-8").splitlines()
    rows = [line.rstrip(".").split(", ") for line in lines if line and not line.startswith("|")]  # | begins a comment
    labels = np.array([CLASS_NAMES.index(row[-1]) for row in rows])
    return LabelledSamples(np.array([_features(row) for row in rows], np.float32), labels)


def _fetch(path: Path) -> None:
    """Download the file `path.name` of Adult to `path`; an interrupted download leaves no partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        torchvision_datasets().utils.download_url(URL + path.name, folder, path.name, SOURCE.files[path.name])
        (Path(folder) / path.name).rename(path)


def _features(row: list[str]) -> list[float]:
    features: list[float] = []
    for (name, words), cell in zip(_COLUMNS.items(), row[:-1], strict=True):
        if name not in _LEFT_OUT:
            if words and cell not in (*words, "?"):
                raise ValueError(f"'{cell}' is not a value of {name}")
            features += [float(cell == word) for word in words] if words else [float(cell)]
    return features
