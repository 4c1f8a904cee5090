"""Tables: one file and one line here for each; every one is written as CSV, Markdown and LaTeX.

A table is a `table.Table`: `build` makes its frame from records, `columns` say how each column reads. Other packages
add tables by entry points of the group `patebench.tables`.
"""

from patebench.core.registry import Registry

TABLES = Registry("table", "patebench.tables")
TABLES.add("utility-privacy", "patebench.reporting.tables.utility_privacy:TABLE")
TABLES.add("papers", "patebench.reporting.tables.papers:TABLE")
TABLES.add("frontier", "patebench.reporting.tables.frontier:TABLE")
TABLES.add("active-learning", "patebench.reporting.tables.active_learning:TABLE")
TABLES.add("private-models", "patebench.reporting.tables.private_models:TABLE")
TABLES.add("equal-epsilon", "patebench.reporting.tables.equal_epsilon:TABLE")
TABLES.add("bits", "patebench.reporting.tables.bits:TABLE")
TABLES.add("petdl", "patebench.reporting.tables.petdl:TABLE")
TABLES.add("distillation", "patebench.reporting.tables.distillation:TABLE")
TABLES.add("ensembles", "patebench.reporting.tables.ensembles:TABLE")
TABLES.add("noisy-accuracy", "patebench.reporting.tables.noisy_accuracy:TABLE")
TABLES.add("accountants", "patebench.reporting.tables.accountants:TABLE")
TABLES.add("disagreement", "patebench.reporting.tables.disagreement:TABLE")
TABLES.add("nzc-students", "patebench.reporting.tables.nzc_students:TABLE")
TABLES.add("nzc-ensembles", "patebench.reporting.tables.nzc_ensembles:TABLE")
TABLES.add("teacher-costs", "patebench.reporting.tables.teacher_costs:TABLE")
TABLES.add("verdicts", "patebench.reporting.tables.verdicts:TABLE")
TABLES.add("audit", "patebench.reporting.tables.audit:TABLE")
TABLES.add("bounds", "patebench.reporting.tables.bounds:TABLE")
