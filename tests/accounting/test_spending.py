"""The total cost of several draws, against sums by hand, each teacher separately, and the inverse conversion."""

import math

import numpy as np
import pytest

from patebench.accounting import conversion, spending
from patebench.accounting.accountant import RenyiAccountant, repeated
from patebench.accounting.filter import allowance
from patebench.accounting.spending import Spending
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import make_mechanism

ORDERS = conversion.ORDERS


def gaussian(scale: float, partition: str = "a", **more: object) -> Spending:
    return Spending(partition=partition, divergences=ORDERS / scale**2, **more)  # type: ignore[arg-type]


def test_one_gaussian_draw_costs_what_the_conversion_says() -> None:
    wanted = conversion.tight(ORDERS, ORDERS / 20**2, 1e-5).min()
    assert wanted <= spending.epsilon([gaussian(20)], 1e-5) <= wanted * (1 + 1e-9)


def test_the_teacher_who_pays_most_is_found() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        draws = []
        for _ in range(rng.integers(1, 8)):
            low, high = np.sort(rng.integers(0, 12, 2)).tolist()
            teachers = None if rng.random() < 0.2 else (low, high)
            draws.append(gaussian(float(rng.uniform(1, 9)), str(rng.integers(2)), failure=1e-7, teachers=teachers))
        total, failure = 0.0, 0.0
        for partition in {each.partition for each in draws}:
            mine = [each for each in draws if each.partition == partition]
            paid = []
            for teacher in range(12):
                concerned = [x for x in mine if x.teachers is None or x.teachers[0] <= teacher <= x.teachers[1]]
                paid.append((sum(float(x.divergences[40]) for x in concerned), len(concerned) * 1e-7))
            total, failure = total + max(paid)[0], failure + max(count for _, count in paid)
        found, failed = spending.together(draws)
        assert found[40] == pytest.approx(total)
        assert found[40] >= total
        assert failed == pytest.approx(failure)
        assert failed >= failure


def test_the_total_holds_for_the_changes_that_every_draw_protects() -> None:
    hashed, owners = gaussian(20, "h", protects=("replace", "add")), gaussian(20, "o", protects=("owner", "leave"))
    patients = gaussian(20, "p", protects=owners.protects, owners="patients")
    dealt, unknown = gaussian(20, "i", protects=("replace",)), gaussian(20, "h")
    for draws, wanted in (
        ([], ()),
        ([unknown, unknown], ("shard",)),
        ([hashed, hashed], ("replace", "add")),
        ([hashed, unknown], ("shard",)),
        ([hashed, gaussian(20, "other", protects=hashed.protects)], ("replace", "add")),
        ([hashed, dealt], ("replace",)),
        ([dealt, hashed, owners], ()),
        ([hashed, owners], ()),
        ([unknown, dealt], ()),
        ([owners, owners], ("owner", "leave")),
        ([patients, gaussian(20, "q", protects=owners.protects, owners="patients")], ("owner", "leave")),
        ([patients, gaussian(20, "q", protects=owners.protects, owners="visits")], ()),
        ([patients, gaussian(20, "q", protects=owners.protects)], ()),
        ([owners, gaussian(20, "q", protects=owners.protects)], ()),
        ([patients, patients, gaussian(20, "q", protects=(*owners.protects, "replace"), owners="visits")], ()),
    ):
        assert spending.common_changes(draws) == wanted


def test_failures_use_delta_up_and_nothing_hides_infinite_costs() -> None:
    assert spending.epsilon([gaussian(20, failure=6e-6)], 1e-5) > spending.epsilon([gaussian(20)], 1e-5)
    assert spending.epsilon([gaussian(20, failure=6e-6)] * 2, 1e-5) == math.inf
    assert not spending.keeps([gaussian(20, failure=6e-6)] * 2, 100, 1e-5, ORDERS[50])
    infinite = Spending(partition="a", divergences=np.full(len(ORDERS), np.inf))
    assert spending.epsilon([gaussian(20), infinite], 1e-5) == math.inf
    assert not spending.keeps([infinite], 1e9, 1e-5, spending.best_order([gaussian(20)], 1, 1e-5))


def test_a_budget_is_kept_at_its_order_and_admits_what_fits() -> None:
    order = spending.best_order([gaussian(200)], 1, 1e-5)
    admitted = 0
    while spending.keeps([gaussian(200)] * (admitted + 1), 1, 1e-5, order):
        admitted += 1
    most = max(math.floor(float(room)) for room in allowance(ORDERS, 1, 1e-5) / (ORDERS / 200**2))
    assert admitted in (most - 1, most)
    assert spending.epsilon([gaussian(200)] * admitted, 1e-5) <= 1
    assert spending.epsilon([gaussian(200)] * (admitted + 2), 1e-5) > 1


def test_the_least_worst_case_counts_at_each_order() -> None:
    def accountant(slope: float, power: float, kind: Kind = Kind.WORST_CASE) -> RenyiAccountant:
        totals = repeated(lambda orders: slope * orders**power)
        return RenyiAccountant(
            name="x", kind=kind, source="", totals=totals, orders=ORDERS, conversions=(Conversion.TIGHT,)
        )

    flat, steep, private = accountant(0.5, 0), accountant(0.01, 1), accountant(1e-9, 0, Kind.DATA_DEPENDENT)
    found = spending.worst_case([flat, steep, private], 3)
    assert found is not None
    assert np.allclose(found[0], 3 * np.minimum(0.5, 0.01 * ORDERS))
    assert found[1] == 0
    assert spending.worst_case([private], 3) is None


def test_what_holds_at_some_orders_alone_is_unknown_above_them() -> None:
    """Propose-test-release is proved at one order and gives no bound at others."""
    single = RenyiAccountant(
        name="x", kind=Kind.WORST_CASE, source="", totals=lambda T, orders: np.full((len(T), len(orders)), 0.3),
        orders=np.array([3.0, 20.0]), refine=False,
    )  # fmt: skip
    found = spending.worst_case([single], 5)
    assert found is not None
    assert (found[0][ORDERS <= 20] == 0.3).all()
    assert np.isinf(found[0][ORDERS > 20]).all()
    made = make_mechanism("ptr-gnmax", {"sigma": 10, "order": 3, "cost": 6.5, "epsilon": 12.5, "failure": 1e-5})
    votes = Votes.from_counts(np.tile([45, 5], (4, 1)))
    spent = spending.worst_case(made.accountants(votes), 4)
    assert spent is not None
    assert spent[1] == 1e-5
    assert np.isinf(spent[0][ORDERS > 3]).all()
    assert np.isfinite(spent[0][ORDERS <= 3]).all()
