"""Figures: one file and one line here for each; every one draws whatever subset of records exists.

A figure is a function of records and published values that returns a matplotlib figure. Other packages add figures by
entry points of the group `patebench.figures`.
"""

from patebench.core.registry import Registry, called_with
from patebench.reporting.published import DISTRIBUTED_2018, NZC_2020, PATE_2017, PETDL_2019, SCALABLE_2018

FIGURES = Registry("figure", "patebench.figures", called_with("records", "published"))
FIGURES.add("methods", "patebench.reporting.figures.methods:draw", section="results")
FIGURES.add("equal-epsilon", "patebench.reporting.figures.equal_epsilon:draw", section="results")
FIGURES.add("noisy-accuracy", "patebench.reporting.figures.noisy_accuracy:draw", section=PATE_2017)
FIGURES.add("gap", "patebench.reporting.figures.gap:draw", section="learning")
FIGURES.add("distance", "patebench.reporting.figures.distance:draw", section=NZC_2020)
FIGURES.add("gaussian-accuracy", "patebench.reporting.figures.gaussian_accuracy:draw", section=SCALABLE_2018)
FIGURES.add("epsilon", "patebench.reporting.figures.epsilon:draw", section="accounting")
FIGURES.add("epsilon-gap", "patebench.reporting.figures.epsilon_gap:draw", section="accounting")
FIGURES.add("local", "patebench.reporting.figures.local:draw", section=DISTRIBUTED_2018)
FIGURES.add("frontier", "patebench.reporting.figures.frontier:draw", section="results")
FIGURES.add("clusters", "patebench.reporting.figures.clusters:draw")
FIGURES.add("pool", "patebench.reporting.figures.pool:draw")
FIGURES.add("cap", "patebench.reporting.figures.cap:draw")
FIGURES.add("label-frontier", "patebench.reporting.figures.label_frontier:draw", section="results")
FIGURES.add("petdl-ablations", "patebench.reporting.figures.petdl_ablations:draw", section=PETDL_2019)
FIGURES.add("distillation", "patebench.reporting.figures.distillation:draw", section=PATE_2017)
FIGURES.add("learning-curves", "patebench.reporting.figures.learning_curves:draw", section="learning")
FIGURES.add("generated-samples", "patebench.reporting.figures.generated_samples:draw", section="learning")
FIGURES.add("audit", "patebench.reporting.figures.audit:draw", section="audit")
