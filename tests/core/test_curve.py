"""Curves: the bounds that went in come out, and what is no curve is refused."""

import json
import math
from typing import Any

import pytest

from patebench.core.bound import Bound, Conversion, Kind
from patebench.core.curve import curves, points
from patebench.core.errors import PatebenchError


def _bound(queries: int, epsilon: float, conversion: Conversion = Conversion.TIGHT, order: float | None = 8.0) -> Bound:
    return Bound(
        epsilon=epsilon,
        delta=1e-5,
        queries=queries,
        accountant="rdp",
        kind=Kind.DATA_DEPENDENT,
        publishable=False,
        source="a theorem",
        conversion=conversion,
        order=order,
    )


def test_bounds_become_curves_and_come_back() -> None:
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
        {"epsilon": [0.5, None]},
        {"queries": 3},
        {"kind": "sure"},
        {"publishable": True},
        {"colour": "red"},
    ],
)
def test_what_is_no_curve_is_refused(changes: dict[str, Any]) -> None:
    (curve,) = curves([_bound(1, 0.5), _bound(10, 0.75)])
    with pytest.raises(PatebenchError):
        points({**curve, **changes})
    with pytest.raises(PatebenchError):
        points({name: value for name, value in curve.items() if name != "queries"})
