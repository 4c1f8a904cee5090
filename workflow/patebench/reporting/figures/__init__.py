"""Registry of figures; each is a function of records and published values that returns a matplotlib figure.

The entry of a figure can state the section or paper of the report page that shows the figure (`section`), and one
condition under which the figure is drawn:

- `needs`: kinds of results, of which the run must contain at least one;
- `varies`: a setting, of which the run must contain two values for one data set.

Other packages add figures by entry points of the group `patebench.figures`.
"""

from patebench.core.registry import Registry, called_with
from patebench.reporting.published import IMMUTABLE, NZC_2020, PATE_2017, PETDL_2019, SCALABLE_2018

FIGURES = Registry("figure", "patebench.figures", called_with("records", "published"))

_MODELS = ("students", "models")
_UTILITY, _EPSILON, _LEARNING, _SWEEP = (
    f"{__name__}.{file}_figures" for file in ("utility", "epsilon", "learning", "sweep")
)
FIGURES.add("equal-epsilon", f"{_UTILITY}:draw_equal_epsilon", section="results", needs=_MODELS)
FIGURES.add("noisy-accuracy", f"{_LEARNING}:draw_noisy_accuracy", section=PATE_2017, needs=("lnmax",))
FIGURES.add("gap", f"{_LEARNING}:draw_gap", section="learning", needs=("trained teachers",))
FIGURES.add("distance", f"{_LEARNING}:draw_distance", section=NZC_2020, needs=(*IMMUTABLE, "mnist", "svhn"))
FIGURES.add("gaussian-accuracy", f"{_LEARNING}:draw_gaussian_accuracy", section=SCALABLE_2018, needs=("gnmax",))
FIGURES.add("epsilon", f"{_EPSILON}:draw_epsilon", section="accounting", needs=("students of the pool",))
FIGURES.add("frontier", f"{_UTILITY}:draw_frontier", section="results", needs=_MODELS)
FIGURES.add("clusters", f"{_SWEEP}:draw_clusters", varies="clusters")
FIGURES.add("pool", f"{_SWEEP}:draw_pool", varies="pool")
FIGURES.add("cap", f"{_SWEEP}:draw_cap", varies="cap")
FIGURES.add("petdl-ablations", f"{_SWEEP}:draw_petdl_ablations", section=PETDL_2019, varies="PET-DL")
FIGURES.add("distillation", f"{_LEARNING}:draw_distillation", section=PATE_2017, needs=("distilled",))
FIGURES.add("audit", f"{_EPSILON}:draw_audit", section="audit", needs=("audits",))
