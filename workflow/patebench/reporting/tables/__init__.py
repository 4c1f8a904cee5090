"""Tables: one file and one line here for each; every one is written as CSV, Markdown and LaTeX.

A table is a `table.Table`: `build` makes its frame from records, `columns` say how each column reads. Other packages
add tables by entry points of the group `patebench.tables`.
"""

from patebench.core.registry import Registry, instance_of
from patebench.reporting.published import DISTRIBUTED_2018, NZC_2020, PATE_2017, PETDL_2019
from patebench.reporting.sections import IMMUTABLE, PRINTED

TABLES = Registry("table", "patebench.tables", instance_of("patebench.reporting.tables.table:Table"))
TABLES.add("methods", f"{__name__}.methods:TABLE", section="results", needs=("students", "models"))
TABLES.add("utility-privacy", f"{__name__}.utility_privacy:TABLE", section="results", needs=("students",))
TABLES.add("papers", f"{__name__}.papers:TABLE", section="papers", needs=PRINTED)
TABLES.add("frontier", f"{__name__}.frontier:TABLE", section="results", needs=("students",))
TABLES.add("active-learning", f"{__name__}.active_learning:TABLE", section="learning", needs=("rounds",))
TABLES.add("private-models", f"{__name__}.private_models:TABLE", section="results", needs=("models",))
TABLES.add("equal-epsilon", f"{__name__}.equal_epsilon:TABLE", section="results", needs=("students", "models"))
TABLES.add("bits", f"{__name__}.bits:TABLE", section="results", needs=("namings",))
TABLES.add("petdl", f"{__name__}.petdl:TABLE", section=PETDL_2019, needs=("PET-DL",))
TABLES.add("distillation", f"{__name__}.distillation:TABLE", section=PATE_2017, needs=("distilled",))
TABLES.add("ensembles", f"{__name__}.ensembles:TABLE", section="learning", needs=("collected",))
TABLES.add("noisy-accuracy", f"{__name__}.noisy_accuracy:TABLE", section="results", needs=("labels",))
TABLES.add("accountants", f"{__name__}.accountants:TABLE", section="accounting", needs=("labels",))
TABLES.add("disagreement", f"{__name__}.disagreement:TABLE", section="accounting", needs=("labels",))
TABLES.add("nzc-students", f"{__name__}.nzc_students:TABLE", section=NZC_2020, needs=IMMUTABLE)
TABLES.add("nzc-ensembles", f"{__name__}.nzc_ensembles:TABLE", section=NZC_2020, needs=IMMUTABLE)
TABLES.add(
    "teacher-costs",
    f"{__name__}.teacher_costs:TABLE",
    section=DISTRIBUTED_2018,
    needs=("local mechanisms",),
)
TABLES.add("verdicts", f"{__name__}.verdicts:TABLE", section="papers", needs=PRINTED)
TABLES.add("audit", f"{__name__}.audit:TABLE", section="audit", needs=("audits",))
TABLES.add("bounds", f"{__name__}.bounds:TABLE", section="accounting", needs=("labels",))
