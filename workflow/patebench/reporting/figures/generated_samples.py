"""What the generators of GAN students draw, one picture for each kind of label set."""

import base64
import io
from typing import TYPE_CHECKING, Any

from patebench.reporting.frames import Records, arrange
from patebench.reporting.published import Published
from patebench.reporting.style import empty, panels
from patebench.reporting.wording import in_words, parameters_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: More pictures say no more.
_MOST = 6
_SHOWN = ["dataset", "mechanism", "noise", "queries", "strategy"]


def draw(records: Records, published: Published) -> "Figure":
    """The students of the first seed, in the order of their names."""
    students = records.students
    students = students[students["picture"].notna()]
    if students.empty:
        return empty("This run has no GAN students of images,\nso there are no generated samples to show.")
    named = arrange(students, [*_SHOWN, "ensemble", "seed"])
    shown = named.drop_duplicates(_SHOWN).head(_MOST).to_dict("records")
    figure, axes = panels([_title(row) for row in shown], sharey=False)
    for axis, row in zip(axes, shown, strict=True):
        _show(axis, row["picture"])
    figure.set_figheight(0.62 * figure.get_figheight())
    return figure


def _title(row: dict[Any, Any]) -> str:
    mechanism = f"{in_words(row['mechanism'])}, {parameters_in_words(row['mechanism'], row['parameters'])}"
    return f"{in_words(row['dataset'])} · {mechanism}, T = {row['queries']} {in_words(row['strategy'])}".strip()


def _show(axis: "Axes", picture: str) -> None:
    from matplotlib.image import imread

    image: Any = imread(io.BytesIO(base64.b64decode(picture)), format="png")
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1} if image.ndim == 2 else {}
    axis.imshow(image, **grey, interpolation="nearest")
    axis.set_axis_off()
