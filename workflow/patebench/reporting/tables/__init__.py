"""Tables: one file and one line here for each; every one is written as CSV, Markdown and LaTeX.

A table is a `table.Table`: `build` makes its frame from records, `columns` say how each column reads. Other packages
add tables by entry points of the group `patebench.tables`.
"""

from patebench.core.registry import Registry, instance_of
from patebench.reporting.published import DISTRIBUTED_2018, NZC_2020, PATE_2017, PETDL_2019

TABLES = Registry("table", "patebench.tables", instance_of("patebench.reporting.tables.table:Table"))
TABLES.add("methods", "patebench.reporting.tables.methods:TABLE", section="results")
TABLES.add("utility-privacy", "patebench.reporting.tables.utility_privacy:TABLE", section="results")
TABLES.add("papers", "patebench.reporting.tables.papers:TABLE", section="papers")
TABLES.add("frontier", "patebench.reporting.tables.frontier:TABLE", section="results")
TABLES.add("active-learning", "patebench.reporting.tables.active_learning:TABLE", section="learning")
TABLES.add("private-models", "patebench.reporting.tables.private_models:TABLE", section="results")
TABLES.add("equal-epsilon", "patebench.reporting.tables.equal_epsilon:TABLE", section="results")
TABLES.add("bits", "patebench.reporting.tables.bits:TABLE", section="results")
TABLES.add("petdl", "patebench.reporting.tables.petdl:TABLE", section=PETDL_2019)
TABLES.add("distillation", "patebench.reporting.tables.distillation:TABLE", section=PATE_2017)
TABLES.add("ensembles", "patebench.reporting.tables.ensembles:TABLE", section="learning")
TABLES.add("noisy-accuracy", "patebench.reporting.tables.noisy_accuracy:TABLE", section="results")
TABLES.add("accountants", "patebench.reporting.tables.accountants:TABLE", section="accounting")
TABLES.add("disagreement", "patebench.reporting.tables.disagreement:TABLE", section="accounting")
TABLES.add("nzc-students", "patebench.reporting.tables.nzc_students:TABLE", section=NZC_2020)
TABLES.add("nzc-ensembles", "patebench.reporting.tables.nzc_ensembles:TABLE", section=NZC_2020)
TABLES.add("teacher-costs", "patebench.reporting.tables.teacher_costs:TABLE", section=DISTRIBUTED_2018)
TABLES.add("verdicts", "patebench.reporting.tables.verdicts:TABLE", section="papers")
TABLES.add("audit", "patebench.reporting.tables.audit:TABLE", section="audit")
TABLES.add("bounds", "patebench.reporting.tables.bounds:TABLE", section="accounting")
