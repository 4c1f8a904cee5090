"""Registry of tables; each is a `table.Table` and is written as CSV, Markdown and LaTeX.

The entry of a table has these facts:

- `section`: the section or paper of the report page that shows the table;
- `needs`: kinds of results; the table is written if the run contains at least one of them.

Other packages add tables by entry points of the group `patebench.tables`.
"""

from patebench.core.registry import Registry, instance_of
from patebench.reporting.published import DISTRIBUTED_2018, IMMUTABLE, NZC_2020, PATE_2017, PETDL_2019, PRINTED

TABLES = Registry("table", "patebench.tables", instance_of("patebench.reporting.tables.table:Table"))

_MODELS = ("students", "models")
_UTILITY, _ACCOUNTING, _LEARNING, _PAPER = (
    f"{__name__}.{file}_tables" for file in ("utility", "accounting", "learning", "paper")
)
TABLES.add("utility-privacy", f"{_UTILITY}:UTILITY_PRIVACY", section="results", needs=("students",))
TABLES.add("papers", f"{_PAPER}:PAPERS", section="papers", needs=PRINTED)
TABLES.add("active-learning", f"{_LEARNING}:ACTIVE_LEARNING", section="learning", needs=("rounds",))
TABLES.add("private-models", f"{_UTILITY}:PRIVATE_MODELS", section="results", needs=("models",))
TABLES.add("equal-epsilon", f"{_UTILITY}:EQUAL_EPSILON", section="results", needs=_MODELS)
TABLES.add("bits", f"{_UTILITY}:BITS", section="results", needs=("namings",))
TABLES.add("petdl", f"{_LEARNING}:PETDL", section=PETDL_2019, needs=("PET-DL",))
TABLES.add("distillation", f"{_LEARNING}:PLAIN_AND_SOFT", section=PATE_2017, needs=("distilled",))
TABLES.add("ensembles", f"{_LEARNING}:ENSEMBLES", section="learning", needs=("collected",))
TABLES.add("noisy-accuracy", f"{_LEARNING}:NOISY_ACCURACY", section="results", needs=("labels",))
TABLES.add("accountants", f"{_ACCOUNTING}:ACCOUNTANTS", section="accounting", needs=("labels",))
TABLES.add("nzc-students", f"{_PAPER}:NZC_STUDENTS", section=NZC_2020, needs=IMMUTABLE)
TABLES.add("nzc-ensembles", f"{_PAPER}:NZC_ENSEMBLES", section=NZC_2020, needs=IMMUTABLE)
TABLES.add("teacher-costs", f"{_ACCOUNTING}:TEACHER_COSTS", section=DISTRIBUTED_2018, needs=("local mechanisms",))
TABLES.add("verdicts", f"{_PAPER}:VERDICTS", section="papers", needs=PRINTED)
TABLES.add("audit", f"{_ACCOUNTING}:AUDIT", section="audit", needs=("audits",))
TABLES.add("bounds", f"{_ACCOUNTING}:BOUNDS", section="accounting", needs=("labels",))
