"""Figures: one file and one line here for each; every one draws whatever subset of records exists."""

from collections.abc import Sequence
from pathlib import Path

from patebench.core.registry import Registry

FIGURES = Registry("figure")
FIGURES.add("noisy-accuracy", "patebench.reporting.figures.noisy_accuracy:draw")
FIGURES.add("gap", "patebench.reporting.figures.gap:draw")
FIGURES.add("distance", "patebench.reporting.figures.distance:draw")
FIGURES.add("gaussian-accuracy", "patebench.reporting.figures.gaussian_accuracy:draw")
FIGURES.add("epsilon", "patebench.reporting.figures.epsilon:draw")
FIGURES.add("epsilon-gap", "patebench.reporting.figures.epsilon_gap:draw")
FIGURES.add("local", "patebench.reporting.figures.local:draw")
FIGURES.add("frontier", "patebench.reporting.figures.frontier:draw")
FIGURES.add("distillation", "patebench.reporting.figures.distillation:draw")
FIGURES.add("learning-curves", "patebench.reporting.figures.learning_curves:draw")
FIGURES.add("generated-samples", "patebench.reporting.figures.generated_samples:draw")
FIGURES.add("audit", "patebench.reporting.figures.audit:draw")


def draw_figure(
    name: str,
    collected: Sequence[Path],
    baselines: Sequence[Path],
    published: Path,
    png: Path,
    pdf: Path,
    audits: Sequence[Path] = (),
) -> None:
    """Draw the figure `name` from collected records into a PNG and a PDF file.

    Raises PatebenchError for an unknown name and ArtefactError for a file that is not sound.
    """
    FIGURES.check(name)
    from patebench.reporting.frames import load_records
    from patebench.reporting.published import read_published
    from patebench.reporting.style import save, themed

    records = load_records(collected, baselines, audits)
    with themed():
        save(FIGURES.load(name)(records, read_published(published)), Path(png), Path(pdf))
