"""The headline figure to point at: filters and what each point is, by Vega-Altair with the script that comes with it.

Nothing is loaded from anywhere: `script` is all that a browser needs. Without scripts, and in print, the page shows the
figure `methods`, which is drawn from the same table.
"""

import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.axes import TICKS, within
from patebench.reporting.figures.methods import style_of
from patebench.reporting.style import GREY
from patebench.reporting.words import WEAK, delta_in_words, epsilon_in_digits, in_words

if TYPE_CHECKING:
    import pandas as pd

#: The table whose rows are drawn, and the figure that the chart takes the place of.
TABLE = FIGURE = "methods"
#: What can be chosen, and how the page calls it.
FILTERS = {"dataset": "Data set", "kind": "Kind of ε", "paper": "Paper", "public": "Public data used"}
ALL = "all"
#: The columns that people read when they point at something, and how they are called.
_SHOWN = {
    **{"method": "Method", "dataset": "Data set", "accuracy": "Accuracy", "cost": "ε", "kind": "Kind of ε"},
    **{"protects": "ε protects", "delta": "δ", "detail": "Setting", "paper": "Paper", "used": "Public data used"},
}
_HEIGHT = 420
#: Into how many parts an axis of shares may be divided.
_PARTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_ABOUT = "Accuracy on the test set against ε, one point for each method; the table of these points stands below."
_COSTS = [mantissa * 10.0**power for power in range(-4, 4) for mantissa in (1, 2, 5)]
#: Ticks of ε for what is shown: these, or where two of them may not lie in between, those that Vega chooses.
_COST_TICKS = f"domain('x')[1] < 5 * domain('x')[0] ? null : {_COSTS}"
#: By which factor axes reach beyond the points.
_ROOM = 1.15
#: Columns of the legend, by the window: the chart's own width follows from the legend's, which was then cut off.
_ABREAST = {"expr": "windowSize()[0] > 760 ? 3 : windowSize()[0] > 540 ? 2 : 1"}
#: What stands beside a line or an area.
_WORDS = {"color": "#555", "baseline": "bottom", "fontSize": 11, "aria": False}
#: The markers of all figures, as Vega names or draws them.
_SHAPES = {
    **{"o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "<": "triangle-left"},
    **{">": "triangle-right", "D": "diamond", "d": "diamond", "P": "cross"},
    "X": "M-1-.5L-.5-1L0-.5L.5-1L1-.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0Z",
    "*": "M0-1L.23-.31L.95-.31L.36.12L.59.81L0 .38L-.59.81L-.36.12L-.95-.31L-.23-.31Z",
    "p": "M0-1L.95-.31L.59.81L-.59.81L-.95-.31Z",
    **dict.fromkeys("hH", "M0-1L.87-.5L.87.5L0 1L-.87.5L-.87-.5Z"),
}
#: An accuracy as the logit scale places it, and back.
_LOGIT, _SHARE = "log(datum.share / (1 - datum.share))", "1 / (1 + exp(-datum.value))"


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed, to be put into a page as it is: the last is the global `vegaEmbed`."""
    import altair as alt
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=alt.SCHEMA_VERSION.rpartition(".")[0]
    )
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def specification(frame: "pd.DataFrame") -> str:
    """The chart of the table `methods` in Vega-Lite's JSON, to be put into a page as it is."""
    text = json.dumps(_chart(frame).to_dict(), ensure_ascii=False, sort_keys=True)
    return text.replace("<", "\\u003c")


def _chart(frame: "pd.DataFrame") -> Any:
    import altair as alt

    points = _points(frame)
    first = points["dataset"].value_counts().index[0]
    choices = {name: _choice(alt, name, sorted(set(points[name])), first) for name in FILTERS}
    data = alt.InlineData(values=json.loads(points.to_json(orient="records")))
    base = alt.Chart(data).transform_calculate(upright=_LOGIT)
    for name, choice in choices.items():
        base = base.transform_filter(f"{choice.name} == '{ALL}' || datum.{name} == {choice.name}")
    points_of = base.mark_point(size=110, strokeWidth=1.8, opacity=1).encode(
        x=alt.X(
            "epsilon:Q",
            scale=alt.Scale(type="log", nice=False, padding=24),
            title="ε   (← more private)",
            axis=_axis({"expr": _COST_TICKS}),
        ),
        y=alt.Y(
            "upright:Q",
            scale=alt.Scale(zero=False, nice=False, padding=24),
            title="accuracy on the test set",
            axis=_axis([*map(_logit, _ticks(points))], f"format({_SHARE}, '.4~p')"),
        ),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in _SHOWN.items()],
        description=alt.Description("words:N"),
    )
    looks = _looks(alt, frame, {*points.loc[points["shade"] != "transparent", "method"]})
    stroke_and_shape = {name: looks[name] for name in ("stroke", "shape")}
    filled = points_of.transform_filter("datum.shade != 'transparent'").encode(**looks)
    hollow = points_of.transform_filter("datum.shade == 'transparent'").encode(
        **stroke_and_shape, fill=alt.value("transparent")
    )
    # The margin lies behind the points, which could not be pointed at otherwise.
    layers = [_margin(base), *_shade(alt, points), *_spread(alt, base, points), hollow, filled]
    chart = alt.layer(*layers)
    chart = chart.add_params(*choices.values()).properties(width="container", height=_HEIGHT, description=_ABOUT)
    fitted = {"type": "fit-x", "contains": "padding"}
    return chart.configure(background="white", autosize=fitted, font="system-ui, sans-serif").configure_view(
        stroke=None
    )


def _shade(alt: Any, points: "pd.DataFrame") -> list[Any]:
    """Where an ε is weak, and that it is; nothing where none is."""
    if not (points["epsilon"] > WEAK).any():
        return []
    weak = alt.Chart(name="weak").mark_rect(color=GREY, opacity=0.1, aria=False)
    words = alt.Chart().mark_text(**_WORDS, align="right", dx=-6, dy=-4, text=f"ε > {WEAK:g}: weak")
    return [
        weak.encode(x=alt.XDatum(WEAK, axis=alt.Axis(grid=True)), x2=alt.value("width")),
        words.encode(x=alt.value("width"), y=alt.value("height")),
    ]


def _spread(alt: Any, base: Any, points: "pd.DataFrame") -> list[Any]:
    """Bars of one deviation over the seeds, and for each data set a broken line: a model without privacy."""
    layers = []
    if points["low"].notna().any():
        bars = base.transform_filter("isValid(datum.low)").transform_calculate(
            lower=_LOGIT.replace("share", "low"), upper=_LOGIT.replace("share", "high")
        )
        bars = bars.properties(name="bars").mark_rule(color=GREY, aria=False)
        layers.append(bars.encode(x="epsilon:Q", y="lower:Q", y2="upper:Q"))
    if points["baseline"].notna().any():
        level = base.transform_filter("isValid(datum.baseline)").transform_aggregate(
            share="max(baseline)", groupby=["dataset"]
        )
        level = level.transform_calculate(upright=_LOGIT)
        broken = level.properties(name="baseline").mark_rule(color=GREY, strokeDash=[6, 4], aria=False)
        words = level.mark_text(**_WORDS, align="left", dx=6, dy=-2, text="without privacy").encode(x=alt.value(0))
        layers += [each.encode(y="upright:Q") for each in (broken, words)]
    return layers


def _margin(base: Any) -> Any:
    """An invisible box that is a little larger than what the points span: axes of a single point have ticks too."""
    box = base.transform_aggregate(
        **{f"{end}_{name}": f"{end}({name})" for end in ("min", "max") for name in ("epsilon", "upright")}
    ).transform_calculate(
        left=f"datum.min_epsilon / {_ROOM}",
        right=f"datum.max_epsilon * {_ROOM}",
        bottom=f"datum.min_upright - log({_ROOM})",
        top=f"datum.max_upright + log({_ROOM})",
    )
    return (
        box.mark_rect(opacity=0, aria=False, tooltip=None)
        .encode(x="left:Q", x2="right:Q", y="bottom:Q", y2="top:Q")
        .properties(name="margin")
    )


def _axis(values: Any, label: str = "format(datum.value, '~g')") -> dict[str, Any]:
    return {
        "values": values,
        "labelExpr": label,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
    }


def _ticks(points: "pd.DataFrame") -> list[float]:
    """Round shares for the axis; finer ones, too, for a data set whose points have fewer than two between them."""
    found = set(TICKS)
    for _, shares in points.groupby("dataset")["share"]:
        low, high = shares.min(), shares.max()
        if sum(low <= tick <= high for tick in TICKS) < 2:
            finer = ([n / parts for n in range(math.ceil(low * parts), int(high * parts) + 1)] for parts in _PARTS)
            found |= set(next((each for each in finer if len(each) > 1), [low]))
    return sorted(found)


def _looks(alt: Any, frame: "pd.DataFrame", filled: set[str]) -> dict[str, Any]:
    """Colour and shape of each method, as in all other figures; one legend for them, filled for methods in `filled`."""
    styles = {in_words(name): style for name, style in style_of(frame).items()}
    drawn: dict[str, Any] = {"symbolStrokeWidth": 1.5, "symbolOpacity": 1}
    legend = alt.Legend(orient="bottom", labelLimit=280, labelFontSize=12, columns=_ABREAST, **drawn)
    colors = alt.Scale(domain=list(styles), range=[style.color for style in styles.values()])
    shapes = alt.Scale(domain=list(styles), range=[_SHAPES.get(style.marker, "circle") for style in styles.values()])
    fill = [style.color if name in filled else "transparent" for name, style in styles.items()]
    fills = alt.Scale(domain=list(styles), range=fill)
    scales = {"stroke": (alt.Stroke, colors), "shape": (alt.Shape, shapes), "fill": (alt.Fill, fills)}
    return {name: kind("method:N", scale=scale, title=None, legend=legend) for name, (kind, scale) in scales.items()}


def _choice(alt: Any, name: str, values: list[str], first: str) -> Any:
    """A list to choose from. Points of several data sets in one picture say nothing, so it starts with one of them."""
    value = first if name == "dataset" else ALL
    return alt.param(
        name=f"chosen_{name}", value=value, bind=alt.binding_select(options=[ALL, *values], name=f"{FILTERS[name]} ")
    )


def _points(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The table's rows in words."""
    import pandas as pd

    rows, styles = [], style_of(frame)
    shares = ["accuracy_mean", "baseline_accuracy_mean"]
    for row in frame.astype(dict.fromkeys(shares, float)).to_dict("records"):
        words = {name: in_words(row[name]) for name in ("dataset", "method", "kind")}
        accuracy, cost, deviation = row["accuracy_mean"], epsilon_in_digits(row["epsilon"]), row["accuracy_std"]
        spread = "" if pd.isna(deviation) else f" ± {100 * deviation:.2f}"
        samples = "" if pd.isna(row["public_samples"]) else f" ({row['public_samples']:,.0f} samples)"
        filled = row["kind"] == "worst_case" and not row["published"]
        rows.append(
            {
                **words,
                **{name: row[name] for name in ("detail", "paper", "epsilon")},
                **{"share": within(accuracy), "accuracy": f"{100 * accuracy:.2f} %{spread}", "cost": cost},
                **{"low": within(accuracy - deviation), "high": within(accuracy + deviation)},
                "baseline": within(row["baseline_accuracy_mean"]),
                **{"protects": in_words(row["adjacency"]), "delta": delta_in_words(row["delta"])},
                "shade": styles[row["method"]].color if filled else "transparent",
                **{"public": row["public_use"], "used": f"{row['public_use']}{samples}"},
                "words": f"{words['method']}: {100 * accuracy:.1f} % at {words['kind']} ε {cost}",
            }
        )
    return pd.DataFrame(rows)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
