"""Command `crate`: pack a run for publication as a Workflow Run RO-Crate.

The crate is written with the library `rocrate`. It follows Process Run Crate 0.5, Workflow Run Crate 0.5 (Leo et al.
2024, *Recording provenance of workflow runs with RO-Crate*) and Workflow RO-Crate 1.0.
"""

import hashlib
import io
import json
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from patebench.artefacts.records import read_manifest
from patebench.cli.command import FILE, file_in_home, home_option, stage_command
from patebench.core.errors import PatebenchError
from patebench.core.files import new_folder
from patebench.core.seeds import Mode

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

#: Results of a run, besides the figures and tables that its manifest names.
_RESULTS = ("report.html", "rows.json", "manifest.json")
#: Files that the command `leaderboard` writes.
_BOARD = ("*.md", "*.csv", "*.svg", "entries/*.json")
#: Files of the workflow.
_WORKFLOW = ("Snakefile", "workflow/rules/*.smk", "envs/*", "config/published.csv", "CITATION.cff", "LICENSE")
_PROFILES = (
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
_LICENCE = "https://spdx.org/licenses/Apache-2.0"
_AUTHORS = "#patebench-developers"
_README = """`report.html` is the report page of the run. `rows.json` contains all results for other programs, and
`manifest.json` the versions, hardware and times. `configuration.json` is the configuration: to repeat the run, call
`snakemake --cores all --configfile configuration.json` in a checkout of patebench. `ro-crate-metadata.json` is the
machine-readable description (RO-Crate, Workflow Run Crate).
"""
#: Path of the configuration in the crate.
_CONFIGURATION = "configuration.json"
#: Values printed in papers, an input of figures and tables.
_PRINTED = "config/published.csv"


def run(
    *,
    results: Path,
    votes: Annotated[Sequence[Path], "Folder of export_votes to include; repeat for several."] = (),
    leaderboard: Annotated[Path | None, "Folder that the command leaderboard wrote, to include."] = None,
    out: Annotated[Path, "New folder for the crate."],
    home: Path,
) -> None:
    """Pack the run whose page is in the folder RESULTS as a Workflow Run RO-Crate, for publication.

    The crate contains the page of the run, figures, tables, `rows.json`, the manifest, the configuration, and the rules
    of the workflow. Labels and private data are not included. Votes are included only from folders of `export_votes`
    (--votes). With --leaderboard, the entries and pages that the command `leaderboard` wrote are packed too. A run in
    release mode is refused, because its tables leak information on the private data.
    """
    manifest = read_manifest(results / "manifest.json", "figures", "tables")
    if Mode.RELEASE in manifest.get("labels", {}).values():
        raise PatebenchError(
            f"{results} contains a run in release mode, whose tables leak information on the private data; publish only"
            " its labels and its page publishable.html"
        )
    # The folder may also contain figures and tables of an earlier run.
    shown = [f"{kind}/{name}.*" for kind in ("figures", "tables") for name in manifest[kind]]
    pages, workflow = _list_files(results, [*_RESULTS, *shown]), _list_files(home, _WORKFLOW)
    if "report.html" not in pages:
        raise PatebenchError(f"{results} contains no report.html; give the folder with the page of a complete run")
    pages |= {f"votes/{folder.name}/{place}": path for folder in votes for place, path in _read_export(folder).items()}
    if leaderboard is not None:
        board = _list_files(leaderboard, _BOARD)
        if "index.md" not in board:
            raise PatebenchError(f"{leaderboard} contains no leaderboard; write one with `patebench leaderboard --out`")
        pages |= {f"leaderboard/{place}": path for place, path in board.items()}
    file_in_home(home, "Snakefile")
    with new_folder(out) as folder:
        write_crate(folder, manifest, pages, workflow)
    click.echo(f"{out} contains the crate of {len(pages)} results")


def _list_files(folder: Path, patterns: Iterable[str]) -> dict[str, Path]:
    files = (path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in files}


def _read_export(folder: Path) -> dict[str, Path]:
    """Return the files that `export_votes` wrote to `folder`, by name; raise PatebenchError if `folder` was changed."""
    files = _list_files(folder, ("*",))
    try:
        entries = json.loads(files["croissant.json"].read_bytes())["distribution"]
        stated = {entry["name"]: entry["sha256"] for entry in entries}
    except (KeyError, ValueError, TypeError):
        stated = {}
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    if not stated or found != {**stated, "croissant.json": found.get("croissant.json")}:
        line = "its files differ from those that croissant.json lists; export the votes again with export_votes"
        raise PatebenchError(line, code="not-exported", where=str(folder))
    return files


def write_crate(
    folder: Path, manifest: Mapping[str, Any], results: Mapping[str, Path], workflow: Mapping[str, Path]
) -> None:
    """Write the run that `manifest` describes as an RO-Crate into the empty folder `folder`.

    Parameters
    ----------
    results : dict from path in the crate to path of the file, for the results of the run
    workflow : the same for the Snakefile and the other files of the workflow

    Raises
    ------
    PatebenchError : the library `rocrate` is not installed
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise PatebenchError(
            "rocrate is not installed; install the version in envs/requirements.txt with pip"
        ) from None
    crate = ROCrate(version="1.1")
    name = manifest["config"].get("name") or "default"
    crate.name = f"patebench run {name}"
    crate.description = (
        f"Results of the configuration '{name}' of patebench, a benchmark of private learning with teacher ensembles:"
        " tables, figures, the page, rows for other programs, and the manifest of versions, hardware and times."
    )
    crate.license = crate.add(_entity(crate, _LICENCE, "CreativeWork", name="Apache License 2.0"))
    crate.datePublished = manifest["finished"] or manifest["started"] or "1970-01-01"
    authors = crate.add(_entity(crate, _AUTHORS, "Organization", name="The patebench developers"))
    crate.root_dataset["author"] = crate.root_dataset["publisher"] = authors
    crate.root_dataset["conformsTo"] = [
        crate.add(_entity(crate, url, "CreativeWork", name=words, version=version)) for url, words, version in _PROFILES
    ]
    outputs = [_file(crate, source, place) for place, source in sorted(results.items())]
    config = json.dumps(manifest["config"], indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    inputs = [_text(crate, config, _CONFIGURATION, "configuration of the run", "application/json")]
    inputs += [_file(crate, source, place) for place, source in sorted(workflow.items()) if place == _PRINTED]
    readme = f"# {crate.name}\n\n{crate.description}\n\n" + _README
    _text(crate, readme, "README.md", "contents of this folder", "text/markdown")["about"] = crate.root_dataset
    main = _workflow(crate, manifest, workflow, authors)
    _add_parameters(crate, main, inputs, outputs)
    _add_action(crate, manifest, main, inputs, outputs)
    crate.write(folder)


def _entity(crate: "ROCrate", identifier: str, kind: str, **properties: Any) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(crate, identifier, properties={"@type": kind, **properties})


def _file(crate: "ROCrate", source: Path, place: str) -> Any:
    form = mimetypes.guess_type(place)[0] or "text/plain"
    words = {"name": place, "contentSize": str(source.stat().st_size), "encodingFormat": form}
    return crate.add_file(source, place, properties=words)


def _text(crate: "ROCrate", text: str, place: str, name: str, form: str) -> Any:
    return crate.add_file(io.StringIO(text), place, properties={"name": name, "encodingFormat": form})


def _workflow(crate: "ROCrate", manifest: Mapping[str, Any], files: Mapping[str, Path], authors: Any) -> Any:
    versions = manifest["versions"]
    words = {
        "name": "patebench",
        "version": versions["patebench"],
        "license": {"@id": _LICENCE},
        "encodingFormat": "text/x-snakemake",
        "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
    }
    if commit := manifest["commit"]:
        words["softwareVersion"] = commit["id"]
    main = crate.add_workflow(
        files["Snakefile"],
        "Snakefile",
        main=True,
        lang="snakemake",
        lang_version=versions["snakemake"],
        properties=words,
    )
    main["author"] = authors
    for place, source in sorted(files.items()):
        if place not in ("Snakefile", _PRINTED):
            _file(crate, source, place)
    return main


def _add_parameters(crate: "ROCrate", main: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Describe each input and output file as a formal parameter (RO-Crate) of the workflow `main`."""
    for way, files in (("input", inputs), ("output", outputs)):
        for file in files:
            file["exampleOfWork"] = crate.add_formal_parameter(
                file["name"], "File", identifier=f"#{way}-{file.id}", valueRequired=way == "input",
                properties={"conformsTo": {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"}},
            )  # fmt: skip
        main[way] = [file["exampleOfWork"] for file in files]


def _add_action(
    crate: "ROCrate", manifest: Mapping[str, Any], main: Any, inputs: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Add the run of the workflow to the crate as an action: its inputs, outputs, seeds, hardware and times."""
    hardware = manifest["hardware"]
    where = f"{hardware['cores']} cores, {hardware['processor']}, graphics cards: {len(hardware['gpus'])}"
    words = {
        "name": crate.name,
        "description": f"Base seeds {', '.join(map(str, manifest['seeds']))}; {where}.",
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    for name, when in (("startTime", manifest["started"]), ("endTime", manifest["finished"])):
        if when:
            words[name] = when
    action = crate.add_action(main, identifier="#run", object=list(inputs), result=list(outputs), properties=words)
    action["agent"] = {"@id": _AUTHORS}
    crate.root_dataset["mentions"] = action


command = stage_command(run, click.Argument(["results"], type=FILE), home_option)
