"""Test that each correction is shown by existing tests that are never skipped, or by printed numbers alone."""

import ast
import math
import re
from functools import cache
from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from tests.reporting import made

from patebench.accounting.independent import gaussian_dp, strong_composition
from patebench.calculator.calculations import worst_case
from patebench.mechanisms.base import make_mechanism

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "corrections.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE)))
PRINTED = made.PRINTED


def _printed(paper: str, table: str, row: str, column: str) -> float:
    found = [each for each in PRINTED.of(paper).values if (each.table, each.row, each.column) == (table, row, column)]
    (value,) = found
    return value.value


def test_every_named_test_is_there_and_runs_wherever_all_tests_do():
    for test in TESTS:
        file, name = test.split("::")
        tree = _parsed(file)
        (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        marks = [node for node in tree.body if isinstance(node, ast.Assign)]
        used = {node.attr for part in (found, *marks) for node in ast.walk(part) if isinstance(node, ast.Attribute)}
        assert not used & {"skip", "skipif", "xfail", "importorskip"}, test


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def test_every_correction_names_its_tests_and_a_paper_whose_numbers_are_printed():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"::test_\w+` \|$|^\| where \||^\|---", row)] == []
    papers = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    without_numbers = {"Distributed PATE 2018", "dp-accounting"}
    assert papers <= {value.paper for value in PRINTED.values} | without_numbers


# What follows is named on the page.


def test_one_query_of_lnmax_loses_more_than_gamma():
    """Compute exactly with Lemma 4 for two classes how often the noise overturns a gap of 248 or 250 of 250 votes."""

    def turned(gap: int) -> float:
        return (2 + 0.05 * gap) / (4 * math.exp(0.05 * gap))

    lost = math.log(turned(248) / turned(250))
    assert 0.05 < 0.09 < lost < 0.1


def test_the_26_of_strong_composition_is_that_of_twice_gamma():
    assert strong_composition(0.05, 1000, 1e-6) == pytest.approx(26, abs=1)
    assert strong_composition(0.025, 1000, 1e-6) < 12, "if a query were 0.05-DP"


def test_teachers_that_are_mostly_right_have_a_large_gap():
    """Bound the gap: the true label has a·n votes on average, all others together (1 − a)·n."""
    for dataset, least in (("MNIST", 0.677), ("SVHN", 0.663)):
        given = ("PATE 2017", "Section 4.1", dataset)
        accuracy = _printed(*given, "average test accuracy of individual teachers")
        assert 2 * accuracy - 1 > least > 3 * _printed(*given, "gap over number of teachers, as n increases (<)")


def test_the_paper_states_two_values_of_the_same_epsilon():
    assert _printed("PATE 2017", "Appendix A", "MNIST", "ε in the comparison with Abadi et al. (2016)") == 1.9
    assert _printed("PATE 2017", "Figure 4", "MNIST 100 queries", "ε") == 2.04


def test_what_may_be_published_of_100_queries():
    bound = worst_case(make_mechanism("lnmax", {"gamma": 0.05}), 100, 1e-5, release=True)[0]
    assert bound.epsilon == pytest.approx(2.504, abs=0.0005)
    assert _printed("PATE 2017", "Figure 4", "MNIST 100 queries", "ε") < bound.epsilon


def test_the_first_two_classes_are_not_the_largest_two():
    """Compare the distance to another plurality by the first two classes and by the two largest counts."""
    both = [(150, 90, 10), (90, 150, 10)]
    assert [counts[0] - counts[1] for counts in both] == [60, -60]
    assert [sorted(counts)[-1] - sorted(counts)[-2] for counts in both] == [60, 60]


def test_petdl_quotes_another_accuracy_than_pate_prints():
    row = "PATE-LNMax Papernot et al. (2017)"
    assert _printed("PET-DL 2019", "Table 1", row, "SVHN Accuracy") == 0.9077
    assert _printed("PATE 2017", "Figure 4", "SVHN 1000 queries", "Student Accuracy") == 0.9066
    assert _printed("PET-DL 2019", "Table 1", row, "SVHN Privacy Budget") == 8.19


def test_petdl_mixes_two_students():
    accuracy, size = (
        {who: _printed("PET-DL 2019", "Table 3", f"MNIST {who}", what) for who in ("T", "S1", "S2")}
        for what in ("Acc(%)", "# Params")
    )
    gained = [accuracy[who] - accuracy["T"] for who in ("S1", "S2")]
    ratio = [size["T"] / size[who] for who in ("S1", "S2")]
    assert gained == pytest.approx([0.0012, 0.0002])
    assert ratio == pytest.approx([6.83, 11.9], abs=0.01)
    stated = [
        _printed("PET-DL 2019", "Appendix B.3", "MNIST", what) for what in ("compression ratio", "accuracy increase")
    ]
    assert stated == [11.9, 0.0012]


def test_private_knn_quotes_another_row_than_pate_prints():
    table, row = "first table of the authors' ReadMe.md", "SVHN LNMAX 100 queries"
    assert _printed("Private-kNN 2020", table, row, "ε") == _printed("PATE 2017", "Figure 4", "SVHN 1000 queries", "ε")
    assert _printed("Private-kNN 2020", table, row, "Accuracy") == 0.901


PROM_PATE, LOG = "Prom-PATE 2023", "README.md and SSL/log of the authors' code"
#: Rows of the log of Prom-PATE, with queries and least ε in the worst case.
RELEASED = [
    ("CIFAR-10, e1 (threshold 600, sigma1 200, sigma2 50)", 1000, 3.349),
    ("CIFAR-100, e4 (threshold 200, sigma1 100, sigma2 25)", 2000, 8.934),
    ("CIFAR-100, e8 (threshold 122, sigma1 50, sigma2 10)", 2000, 40.29),
]


def test_released_labels_of_prom_pate_cost_more_than_stated():
    for row, queries, epsilon in RELEASED:
        sigma1, sigma2 = (float(re.search(rf"{name} (\d+)", row)[1]) for name in ("sigma1", "sigma2"))
        answered = _printed(PROM_PATE, LOG, row, "labeled data number (last run)")
        exact = gaussian_dp(math.sqrt(queries / sigma1**2 + 2 * answered / sigma2**2), 1e-5)
        assert exact == pytest.approx(epsilon, rel=2e-4)
        assert exact > 2 * _printed(PROM_PATE, LOG, row, "epsilon")


def test_prom_pate_reports_its_best_checkpoint():
    columns = "BEST_EVAL_ACC (last run)", "eval/top-1-acc of the last checkpoint"
    pairs = [tuple(_printed(PROM_PATE, LOG, row, column) for column in columns) for row, *_ in RELEASED]
    assert pairs[0] == (0.991, 0.987)
    assert all(best >= last for best, last in pairs)
    assert _printed(PROM_PATE, "Table 4", "Prom-PATE at ε = 1.019", "Accuracy on CIFAR-10") > pairs[0][1]


def test_private_evolution_had_fewer_and_noisier_steps():
    assert gaussian_dp(math.sqrt(20) / math.sqrt(2), 1e-5) > 17.8
    assert gaussian_dp(math.sqrt(5) / (2 * math.sqrt(2)), 1e-5) == pytest.approx(3.34, abs=0.005)


def test_replace_one_of_dp_accounting_charges_half_the_sensitivity():
    """Compare with the exact loss of two Gaussians whose means differ by two clipping norms."""

    def stated(accountant, relation):
        return accountant(neighboring_relation=relation).compose(GaussianDpEvent(1.0)).get_epsilon(1e-5)

    added, replaced = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    assert stated(RdpAccountant, replaced) == stated(RdpAccountant, added) < gaussian_dp(2, 1e-5)
    assert stated(PLDAccountant, added) == pytest.approx(gaussian_dp(1, 1e-5), rel=1e-6)
    assert stated(PLDAccountant, replaced) == pytest.approx(gaussian_dp(2, 1e-5), rel=1e-6)
    package = {path: path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "patebench").rglob("*.py")}
    assert [path for path, text in package.items() if re.search("REPLACE_ONE|RdpAccountant", text)] == []
