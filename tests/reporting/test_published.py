"""Test the published values against the papers, and the refusal of wrong lines."""

import pytest
from tests.reporting import made

from patebench.config.parameters import PetdlParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.reporting.published import COLUMNS, DPSGD, OF_RECORDS, read_published

MNIST = {"dataset": "mnist", "teachers": 250}
OF_100 = {"queries": 100, "delta": 1e-5, "parameters": {"gamma": 0.05}}
CONFIDENT = {"mechanism": "confident-gnmax", "parameters": {"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}}
#: Copied from the papers: paper, setting, and printed values.
PRINTED = [
    ("PATE 2017", {**MNIST, **OF_100}, {"epsilon": 2.04, "baseline_accuracy": 0.9918, "student_accuracy": 0.98}),
    ("PATE 2017", {**MNIST, **OF_100, "queries": 1000}, {"epsilon": 8.03, "student_accuracy": 0.981}),
    (
        "PATE 2017",
        {"dataset": "svhn", "teachers": 250, "queries": 500, "delta": 1e-6},
        {"epsilon": 5.04, "baseline_accuracy": 0.928, "student_accuracy": 0.8272},
    ),
    ("PATE 2017", MNIST, {"teacher_accuracy": 0.8386, "label_accuracy": 0.9318}),
    ("PATE 2017", {"dataset": "svhn", "teachers": 250}, {"teacher_accuracy": 0.8318, "label_accuracy": 0.8779}),
    (
        "Scalable PATE 2018",
        {**MNIST, **CONFIDENT, "queries": 640, "delta": 1e-5},
        {"epsilon": 1.97, "student_accuracy": 0.985, "baseline_accuracy": 0.992},
    ),
]
GOOD = "PATE 2017,1,Figure 4,MNIST,ε,1,2.04,mnist,250,lnmax,gamma=0.05,100,1e-05,epsilon,pate-2017,figure-4,"


def test_holds_what_papers_print():
    for paper, keys, printed in PRINTED:
        published = made.PRINTED.of(paper)
        assert {quantity: published.lookup(quantity, **keys) for quantity in printed} == printed
    values = made.PRINTED.select("private_model_accuracy", delta=1e-5)
    found = {(each.dataset, made.PRINTED.spent(each), each.value) for each in values if each.paper in DPSGD}
    assert found >= {("mnist", 8, 0.97), ("cifar10", 8, 0.73), ("mnist", 1.2, 0.981), ("mnist", 2.93, 0.981)}
    assert {each.paper for each in values} <= set(OF_RECORDS)


def test_lookup_returns_none_or_refuses_conflicting_values():
    published = made.PRINTED
    assert published.lookup("epsilon", dataset="digits") is None
    with pytest.raises(PatebenchError, match="has different values of epsilon"):
        published.lookup("epsilon", dataset="mnist", teachers=250)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (GOOD.replace("2.04", "two"), "line 2"),
        (GOOD.replace(",1,2.04", ",%,104").replace(",epsilon", ",label_accuracy"), "out of range"),
        (GOOD.replace(",1,2.04", ",percent,2.04"), "unit 'percent' is not one of"),
        (GOOD.replace(",epsilon", ",epsilom"), "quantity 'epsilom'"),
        (GOOD.replace("mnist", ""), "dataset is empty"),
        (GOOD.replace(",250,", ",0,"), "teachers = 0 is below 1"),
        (GOOD.replace("1e-05", "7"), "delta = 7 is not between 0 and 1"),
        (GOOD.replace("gamma=0.05", "gamma-0.05"), "parameters 'gamma-0.05' are not written as in"),
        (GOOD.replace("gamma=0.05", "gamma=small"), "line 2"),
        (GOOD.replace("figure-4", ""), "give both configuration and experiments"),
        (GOOD + ",more", "18 cells"),
        (GOOD + "too long ago", "unmeasured is"),
        (f"{GOOD}\n{GOOD}", "line 3 is invalid (an earlier line"),
    ],
)
def test_refuses_a_wrong_line(tmp_path, line, fault):
    path = tmp_path / "published.csv"
    path.write_text(",".join(COLUMNS) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ArtefactError) as caught:
        read_published(path)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_other_files(tmp_path):
    with pytest.raises(ArtefactError, match="cannot be read"):
        read_published(tmp_path / "none.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ArtefactError, match="first line"):
        read_published(tmp_path / "other.csv")


def test_parameters_are_those_of_the_mechanism_in_its_order():
    """Check that parameters have the same names here and in records."""
    values = [value for value in made.PRINTED.values if value.parameters is not None]
    assert len(values) > 40
    for value in values:
        if value.mechanism == "petdl":  # it is not a mechanism, because it releases no labels
            assert set(value.parameters) <= set(PetdlParameters.model_fields)
        else:
            assert value.noise == make_mechanism(value.mechanism, value.parameters).slug
