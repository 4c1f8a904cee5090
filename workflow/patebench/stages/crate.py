"""The command `crate`: a run packed for others, as a Workflow Run RO-Crate."""

import shutil
import tempfile
from pathlib import Path

import click

from patebench.artefacts.records import read_manifest
from patebench.cli.command import FILE, file_option, home_option, in_home, stage_command
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode

#: What a run leaves beside its manifest: pages, figures, tables and rows.
_RESULTS = ("report.html", "rows.json", "manifest.json", "figures/*", "tables/*")
#: What made it.
_WORKFLOW = ("Snakefile", "workflow/rules/*.smk", "envs/*", "config/published.csv", "CITATION.cff", "LICENSE")


def run(*, results: Path, out: Path, home: Path) -> None:
    """Pack the run whose page lies in the folder RESULTS, for others: a Workflow Run RO-Crate.

    It holds the page, figures, tables, rows and manifest, the configuration as it was run, and the workflow's rules.
    Labels, votes and private data stay where they are. Of a release no crate is made: its tables tell of private data.
    """
    from patebench.reporting.crate import write_crate

    manifest = read_manifest(results / "manifest.json")
    if Mode.RELEASE in manifest.get("labels", {}).values():
        raise PatebenchError(
            f"{results}: is a run in release mode, whose tables tell of the private data; hand out the labels and"
            " the page publishable.html alone"
        )
    if out.exists():
        raise PatebenchError(f"{out}: is there already; give the name of a new folder")
    made, workflow = _found(results, _RESULTS), _found(home, _WORKFLOW)
    if "report.html" not in made:
        raise PatebenchError(
            f"{results}: it has no report.html, so it is part of a run; give the folder of a whole one"
        )
    in_home(home, "Snakefile")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
        whole = Path(place) / "crate"
        write_crate(whole, manifest, made, workflow)
        shutil.move(whole, out)  # within one file system: there is all of it or nothing
    click.echo(f"{out}: a crate of {len(made)} results")


def _found(folder: Path, patterns: tuple[str, ...]) -> dict[str, Path]:
    """The files of a folder by their paths below it."""
    files = (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in files}


command = stage_command(
    run,
    click.argument("results", type=FILE),
    file_option("out", "A new folder, where the crate goes."),
    home_option,
)
