"""The published values: what the papers print, and that a wrong line is refused."""

import pytest
from tests.reporting import made

from patebench.config.parameters import PetdlParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.reporting.published import COLUMNS, DPSGD, OF_RECORDS, read_published
from patebench.reporting.tables.table import _escape

#: Typed from the table in Figure 4 of PATE 2017: data set, ε, δ, queries, baseline, student.
FIGURE_4 = [
    ("mnist", 2.04, 1e-5, 100, 0.9918, 0.98),
    ("mnist", 8.03, 1e-5, 1000, 0.9918, 0.981),
    ("svhn", 5.04, 1e-6, 500, 0.928, 0.8272),
    ("svhn", 8.19, 1e-6, 1000, 0.928, 0.9066),
]
GOOD = "PATE 2017,1,Figure 4,MNIST,ε,1,2.04,mnist,250,lnmax,gamma=0.05,100,1e-05,epsilon,pate-2017,figure-4"


@pytest.mark.parametrize(("dataset", "epsilon", "delta", "queries", "baseline", "student"), FIGURE_4)
def test_holds_figure_4(dataset, epsilon, delta, queries, baseline, student):
    published = read_published(made.PUBLISHED).of("PATE 2017")
    keys = {"dataset": dataset, "queries": queries, "delta": delta, "teachers": 250, "parameters": {"gamma": 0.05}}
    assert published.lookup("epsilon", **keys) == epsilon
    assert published.lookup("baseline_accuracy", **keys) == baseline
    assert published.lookup("student_accuracy", **keys) == student


def test_holds_section_4_1_and_the_appendix():
    published = read_published(made.PUBLISHED).of("PATE 2017")
    accuracy = {
        quantity: [published.lookup(quantity, dataset=dataset, teachers=250) for dataset in ("mnist", "svhn")]
        for quantity in ("teacher_accuracy", "label_accuracy")
    }
    assert accuracy == {"teacher_accuracy": [0.8386, 0.8318], "label_accuracy": [0.9318, 0.8779]}
    assert {value.value for value in published.select("epsilon_strong_composition")} == {5.8, 26}


def test_holds_what_scalable_pate_prints_for_mnist():
    published = read_published(made.PUBLISHED).of("Scalable PATE 2018")
    keys = {"dataset": "mnist", "teachers": 250, "mechanism": "confident-gnmax", "queries": 640, "delta": 1e-5}
    keys["parameters"] = {"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}
    found = [published.lookup(name, **keys) for name in ("epsilon", "student_accuracy", "baseline_accuracy")]
    assert found == [1.97, 0.985, 0.992]


def test_holds_what_papers_on_dp_sgd_print():
    published = read_published(made.PUBLISHED)
    found = {
        (each.dataset, published.lookup("epsilon", paper=each.paper, row=each.row), each.value)
        for each in published.of(*DPSGD).select("private_model_accuracy", delta=1e-5)
    }
    assert found >= {("mnist", 8, 0.97), ("cifar10", 8, 0.73), ("mnist", 1, 0.968), ("mnist", 8, 0.9851)}
    assert found >= {("mnist", 1.2, 0.981), ("mnist", 2.93, 0.981)}
    assert {each.paper for each in published.select("private_model_accuracy", delta=1e-5)} <= set(OF_RECORDS)


def test_lookup_finds_nothing_or_refuses_what_disagrees():
    published = read_published(made.PUBLISHED)
    assert published.lookup("epsilon", dataset="digits") is None
    with pytest.raises(PatebenchError, match="disagree"):
        published.lookup("epsilon", dataset="mnist", teachers=250)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (GOOD.replace("2.04", "two"), "line 2"),
        (GOOD.replace("2.04", "nan"), "out of range"),
        (GOOD.replace("2.04", "-1"), "out of range"),
        (GOOD.replace(",1,2.04", ",%,104").replace(",epsilon", ",label_accuracy"), "out of range"),
        (GOOD.replace(",1,2.04", ",percent,2.04"), "unit 'percent' is none of"),
        (GOOD.replace(",epsilon", ",epsilom"), "quantity 'epsilom'"),
        (GOOD.replace("mnist", ""), "dataset is empty"),
        (GOOD.replace(",250,", ",many,"), "line 2"),
        (GOOD.replace(",250,", ",0,"), "teachers = 0 is below 1"),
        (GOOD.replace("1e-05", "7"), "delta = 7 is not between 0 and 1"),
        (GOOD.replace("gamma=0.05", "gamma-0.05"), "parameters 'gamma-0.05' are not of the form"),
        (GOOD.replace("gamma=0.05", "gamma=0.05; gamma=1"), "parameters 'gamma=0.05; gamma=1' are not of the form"),
        (GOOD.replace("gamma=0.05", "gamma=small"), "line 2"),
        (GOOD.replace("gamma=0.05", "gamma=nan"), "hold NaN"),
        (GOOD.removesuffix("figure-4"), "configuration and experiments go together"),
        (GOOD + ",more", "17 cells"),
        (f"{GOOD}\n{GOOD}", "line 3 is wrong (the same cell"),
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


def test_latex_has_every_sign_that_papers_print():
    values = read_published(made.PUBLISHED).values
    words = "".join(getattr(value, name) for value in values for name in ("paper", "version", "table", "row", "column"))
    assert _escape(words).isascii()


def test_parameters_are_those_of_the_mechanism_in_its_order():
    """So that what names them in the records names them here."""
    values = [value for value in read_published(made.PUBLISHED).values if value.parameters is not None]
    assert len(values) > 40
    for value in values:
        if value.mechanism == "petdl":  # which is no mechanism: what it hands out is no label
            assert set(value.parameters) <= set(PetdlParameters.model_fields)
        else:
            assert value.noise == make_mechanism(value.mechanism, value.parameters).slug
