"""Figures: one file and one line here for each; every one draws whatever subset of records exists.

A figure is a function of records and published values that returns a matplotlib figure. Other packages add figures by
entry points of the group `patebench.figures`.
"""

from patebench.core.registry import Registry, called_with
from patebench.reporting.published import DISTRIBUTED_2018, NZC_2020, PATE_2017, PETDL_2019, SCALABLE_2018
from patebench.reporting.sections import IMMUTABLE

FIGURES = Registry("figure", "patebench.figures", called_with("records", "published"))
FIGURES.add("methods", f"{__name__}.methods:draw", section="results", needs=("students", "models"))
FIGURES.add("equal-epsilon", f"{__name__}.equal_epsilon:draw", section="results", needs=("students", "models"))
FIGURES.add("noisy-accuracy", f"{__name__}.noisy_accuracy:draw", section=PATE_2017, needs=("lnmax",))
FIGURES.add("gap", f"{__name__}.gap:draw", section="learning", needs=("trained teachers",))
FIGURES.add("distance", f"{__name__}.distance:draw", section=NZC_2020, needs=(*IMMUTABLE, "mnist", "svhn"))
FIGURES.add("gaussian-accuracy", f"{__name__}.gaussian_accuracy:draw", section=SCALABLE_2018, needs=("gnmax",))
FIGURES.add("epsilon", f"{__name__}.epsilon:draw", section="accounting", needs=("students of the pool",))
FIGURES.add("epsilon-gap", f"{__name__}.epsilon_gap:draw", section="accounting", needs=("students of the pool",))
FIGURES.add("local", f"{__name__}.local:draw", section=DISTRIBUTED_2018, needs=("local mechanisms",))
FIGURES.add("frontier", f"{__name__}.frontier:draw", section="results", needs=("students", "models"))
FIGURES.add("clusters", f"{__name__}.clusters:draw", varies="clusters")
FIGURES.add("pool", f"{__name__}.pool:draw", varies="pool")
FIGURES.add("cap", f"{__name__}.cap:draw", varies="cap")
FIGURES.add("label-frontier", f"{__name__}.label_frontier:draw", section="results", needs=("labels",))
FIGURES.add("petdl-ablations", f"{__name__}.petdl_ablations:draw", section=PETDL_2019, varies="PET-DL")
FIGURES.add("distillation", f"{__name__}.distillation:draw", section=PATE_2017, needs=("distilled",))
FIGURES.add(
    "learning-curves",
    f"{__name__}.learning_curves:draw",
    section="learning",
    needs=("students", "models"),
)
FIGURES.add("generated-samples", f"{__name__}.generated_samples:draw", section="learning", needs=("gan",))
FIGURES.add("audit", f"{__name__}.audit:draw", section="audit", needs=("audits",))
