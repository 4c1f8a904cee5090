"""Figures: one file and one line here for each; every one draws whatever subset of records exists.

A figure is a function of records and published values that returns a matplotlib figure. Other packages add figures by
entry points of the group `patebench.figures`.
"""

from patebench.core.registry import Registry

FIGURES = Registry("figure", "patebench.figures")
FIGURES.add("noisy-accuracy", "patebench.reporting.figures.noisy_accuracy:draw")
FIGURES.add("gap", "patebench.reporting.figures.gap:draw")
FIGURES.add("distance", "patebench.reporting.figures.distance:draw")
FIGURES.add("gaussian-accuracy", "patebench.reporting.figures.gaussian_accuracy:draw")
FIGURES.add("epsilon", "patebench.reporting.figures.epsilon:draw")
FIGURES.add("epsilon-gap", "patebench.reporting.figures.epsilon_gap:draw")
FIGURES.add("local", "patebench.reporting.figures.local:draw")
FIGURES.add("frontier", "patebench.reporting.figures.frontier:draw")
FIGURES.add("clusters", "patebench.reporting.figures.clusters:draw")
FIGURES.add("pool", "patebench.reporting.figures.pool:draw")
FIGURES.add("cap", "patebench.reporting.figures.cap:draw")
FIGURES.add("label-frontier", "patebench.reporting.figures.label_frontier:draw")
FIGURES.add("petdl-ablations", "patebench.reporting.figures.petdl_ablations:draw")
FIGURES.add("distillation", "patebench.reporting.figures.distillation:draw")
FIGURES.add("learning-curves", "patebench.reporting.figures.learning_curves:draw")
FIGURES.add("generated-samples", "patebench.reporting.figures.generated_samples:draw")
FIGURES.add("audit", "patebench.reporting.figures.audit:draw")
