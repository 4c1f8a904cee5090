"""Tables: one file and one line here for each; every one is written as CSV, Markdown and LaTeX.

A table module has `COLUMNS`, which say how each column reads, and `build`, which makes the frame.
"""

from collections.abc import Sequence
from pathlib import Path

from patebench.core.registry import Registry

TABLES = Registry("table")
TABLES.add("utility-privacy", "patebench.reporting.tables.utility_privacy:TABLE")
TABLES.add("frontier", "patebench.reporting.tables.frontier:TABLE")
TABLES.add("active-learning", "patebench.reporting.tables.active_learning:TABLE")
TABLES.add("distillation", "patebench.reporting.tables.distillation:TABLE")
TABLES.add("ensembles", "patebench.reporting.tables.ensembles:TABLE")
TABLES.add("noisy-accuracy", "patebench.reporting.tables.noisy_accuracy:TABLE")
TABLES.add("accountants", "patebench.reporting.tables.accountants:TABLE")
TABLES.add("disagreement", "patebench.reporting.tables.disagreement:TABLE")
TABLES.add("nzc-students", "patebench.reporting.tables.nzc_students:TABLE")
TABLES.add("nzc-ensembles", "patebench.reporting.tables.nzc_ensembles:TABLE")
TABLES.add("entities", "patebench.reporting.tables.entities:TABLE")
TABLES.add("audit", "patebench.reporting.tables.audit:TABLE")
TABLES.add("bounds", "patebench.reporting.tables.bounds:TABLE")


def write_table(
    name: str,
    collected: Sequence[Path],
    baselines: Sequence[Path],
    published: Path,
    csv: Path,
    markdown: Path,
    latex: Path,
    audits: Sequence[Path] = (),
) -> None:
    """Write the table `name` of collected records as CSV (full precision), Markdown and LaTeX (booktabs).

    Raises PatebenchError for an unknown name and ArtefactError for a file that is not sound.
    """
    TABLES.check(name)
    from patebench.core.files import write_text
    from patebench.reporting.frames import load_records
    from patebench.reporting.published import read_published

    table = TABLES.load(name)
    frame = table.build(load_records(collected, baselines, audits), read_published(published))
    write_text(csv, table.csv(frame))
    write_text(markdown, table.markdown(frame))
    write_text(latex, table.latex(frame))
