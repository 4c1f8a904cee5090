"""Test that bounds and curves can be stored as JSON, and that invalid ones are refused."""

import json
import math
from typing import Any

import pytest

from patebench.core.bound import Bound, Conversion, Kind, curves, points
from patebench.core.errors import PatebenchError

FACTS: dict[str, Any] = {
    "epsilon": 2.435,
    "delta": 1e-5,
    "queries": 286,
    "accountant": "gdp",
    "kind": Kind.WORST_CASE,
    "publishable": True,
    "source": "Scalable PATE, Section 4.1",
    "conversion": Conversion.TIGHT,
    "order": 12.5,
}


@pytest.mark.parametrize("epsilon", [0.0, 2.435, math.inf])
def test_json_and_back(epsilon: float) -> None:
    bound = Bound(**{**FACTS, "epsilon": epsilon}, label="Gaussian DP", variant=True, exact=True)
    record = bound.to_json()
    assert Bound.from_json(json.loads(json.dumps(record, allow_nan=False))) == bound
    assert (record["adjacency"], record["kind"], record["label"]) == ("replace_teacher", "worst_case", "Gaussian DP")
    assert record["epsilon"] == ("inf" if math.isinf(epsilon) else epsilon)


def test_an_accountant_without_a_label_is_called_by_its_name() -> None:
    assert Bound(**FACTS).label == "gdp"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -0.1}, "must be at least 0"),
        ({"epsilon": math.nan}, "must be at least 0"),
        ({"delta": 0.0}, r"not in \(0, 1\)"),
        ({"delta": 1.0}, r"not in \(0, 1\)"),
        ({"delta": math.nan}, r"not in \(0, 1\)"),
        ({"kind": Kind.DATA_DEPENDENT}, "cannot be publishable"),
        ({"kind": Kind.CLAIMED}, "cannot be publishable"),
    ],
)
def test_an_invalid_bound_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        Bound(**{**FACTS, **changes})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": "much"}, "value in a stored bound is invalid"),
        ({"epsilon": None}, "value in a stored bound is invalid"),
        ({"kind": "sure"}, "value in a stored bound is invalid"),
        ({"label": None}, "bound has label = "),
        ({"publishable": 1}, "bound has publishable = "),
        ({"sigma": 40}, "has the fields"),
        ({"adjacency": ...}, "has the fields"),
    ],
)
def test_a_malformed_record_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        Bound.from_json(without_gaps({**Bound(**FACTS).to_json(), **change}))


def without_gaps(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not ...}


def _bound(queries: int, epsilon: float, conversion: Conversion = Conversion.TIGHT, order: float | None = 8.0) -> Bound:
    facts = {"delta": 1e-5, "accountant": "rdp", "kind": Kind.DATA_DEPENDENT, "publishable": False, "source": "theorem"}
    return Bound(epsilon=epsilon, queries=queries, conversion=conversion, order=order, **facts)


def test_curves_contain_all_bounds() -> None:
    tight = [_bound(1, 0.5), _bound(10, 0.75), _bound(100, math.inf)]
    classic = [_bound(1, 1.5, Conversion.CLASSIC), _bound(10, 1.75, Conversion.CLASSIC, 9.0)]
    mixed = [tight[2], classic[0], tight[0], classic[1], tight[1]]
    found = json.loads(json.dumps(curves(mixed), allow_nan=False))
    assert [curve["queries"] for curve in found] == [[1, 10, 100], [1, 10]]
    assert found[0]["epsilon"] == [0.5, 0.75, "inf"]
    assert [points(curve) for curve in found] == [
        [_bound(1, 0.5, order=None), _bound(10, 0.75, order=None), _bound(100, math.inf, order=None)],
        [_bound(1, 1.5, Conversion.CLASSIC, None), _bound(10, 1.75, Conversion.CLASSIC, None)],
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": [0.5]},
        {"epsilon": [0.5, -1.0]},
        {"queries": 3},
        {"queries": ...},
        {"kind": "sure"},
        {"colour": "red"},
    ],
)
def test_an_invalid_curve_is_refused(changes: dict[str, Any]) -> None:
    (curve,) = curves([_bound(1, 0.5), _bound(10, 0.75)])
    with pytest.raises(PatebenchError):
        points(without_gaps({**curve, **changes}))
