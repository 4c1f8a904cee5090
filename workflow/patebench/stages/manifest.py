"""Stage `manifest`: record configuration, versions, hardware and times of a run."""

import csv
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from patebench.cli.command import OutputFile, stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import write_json
from patebench.core.workers import available

#: Libraries that results depend on.
LIBRARIES = (
    *("dp-accounting", "jinja2", "matplotlib", "numpy", "opendp", "pandas", "pillow", "scikit-learn", "scipy"),
    *("snakemake", "torch", "torchvision"),
)


def run(
    *,
    config: Annotated[str, "Configuration, as JSON."],
    benchmarks: Annotated[Path, "Folder of Snakemake's benchmark files."],
    out: Annotated[OutputFile, "Output file with the manifest."],
) -> None:
    """Write the manifest of a run: versions, commit, hardware, times, configuration and seeds.

    The manifest also lists the files of results from which the report is made, and the figures and tables that the
    report shows.
    """
    from patebench.config import validate
    from patebench.reporting.figures import FIGURES
    from patebench.reporting.tables import TABLES

    try:
        written = json.loads(config)
    except json.JSONDecodeError as fault:
        raise PatebenchError(
            f"--config is not valid JSON ({fault}); let the workflow run this stage, or pass the configuration as JSON"
        ) from None
    checked = validate(written, files=False)
    content = read_circumstances(benchmarks, checked.job_names())
    content |= {"config": written, "seeds": list(checked.seeds), "labels": checked.modes}
    sources = {"records": checked.record_files(), "released": checked.released(), "copies": checked.copies}
    shown = {"figures": checked.with_content(FIGURES), "tables": checked.with_content(TABLES)}
    write_json(out, "manifest", {**content, **sources, **shown})


def read_circumstances(benchmarks: Path, jobs: Iterable[str]) -> dict[str, Any]:
    """Return versions, commit, hardware and times of the run whose jobs have the names `jobs`.

    The folder `benchmarks` contains one file of times per job. Jobs without this file are left out. The entry `commit`
    contains `older_jobs`, the number of jobs that ended before the commit was made, and so ran older code.
    """
    files = {job: benchmarks / f"{job}.tsv" for job in sorted(jobs)}
    ends = {job: path.stat().st_mtime for job, path in files.items() if path.exists()}
    code = commit()
    if code is not None:
        moment = _git("show", "--no-patch", "--format=%ct", code["id"])
        code["older_jobs"] = sum(end < float(moment) for end in ends.values()) if moment else None
    versions = {"patebench": _version("patebench"), "python": platform.python_version(), "system": platform.platform()}
    versions |= {name: _version(name) for name in LIBRARIES}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in os.sysconf_names else None
    gpus = (_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines()
    hardware = {
        "processor": _processor(),
        "cores": available(),  # that this process may use
        "memory": memory,  # in bytes
        "gpus": [line.strip() for line in gpus if line.strip()],
    }
    return {"versions": versions, "commit": code, "hardware": hardware, **job_times(benchmarks, ends)}


def commit() -> dict[str, Any] | None:
    """Return a dict of `id`, the git commit of the source code, and `dirty`, True if files differ from this commit.

    Return None if the code is not in a git repository.
    """
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit_id, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain")
    return {"id": commit_id, "dirty": bool(changes)} if commit_id else None


def job_times(benchmarks: Path, ends: Mapping[str, float]) -> dict[str, Any]:
    """Return the times and peak memory of a run's jobs, summed up per rule, and the start and end of the run.

    For a job that was continued from a checkpoint, Snakemake measures only the time after the checkpoint.

    Parameters
    ----------
    benchmarks : folder of Snakemake's benchmark files, one per job
    ends : dict from the name of each job to its end (Unix time). A name starts with the rule of the job, followed by
        "/"

    Returns
    -------
    dict
        `rules` is a list of dicts, one per rule, most seconds first: number of jobs, total seconds, seconds of the
        longest job, peak memory in MB. `started` and `finished` are the start of the first and the end of the last job,
        as ISO text in UTC; None without jobs.
    """
    rules: dict[str, list[tuple[float, float]]] = {}
    starts = []
    for job, end in ends.items():
        measured = _benchmark(benchmarks / f"{job}.tsv")
        rules.setdefault(job.split("/")[0], []).extend(measured)
        starts.append(end - sum(seconds for seconds, _ in measured))
    table: list[dict[str, Any]] = [
        {
            "rule": name,
            "jobs": len(runs),
            "seconds": round(sum(seconds for seconds, _ in runs), 4),
            "longest": max((seconds for seconds, _ in runs), default=0.0),
            "memory_mb": max((memory for _, memory in runs), default=0.0),
        }
        for name, runs in rules.items()
    ]
    table.sort(key=lambda row: (-row["seconds"], row["rule"]))
    moments = {"started": min(starts, default=None), "finished": max(ends.values(), default=None)}
    return {"rules": table} | {
        name: None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
        for name, moment in moments.items()
    }


def _benchmark(path: Path) -> list[tuple[float, float]]:
    """Return (seconds, peak memory in MB) for each run of a job, from Snakemake's benchmark file `path`."""
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
        # The memory of a job that was too short to measure counts as 0 MB.
        return [(float(row["s"]), _number(row.get("max_rss"))) for row in rows]
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError, csv.Error):
        raise ArtefactError(
            path, "it is not a benchmark file of Snakemake", "delete this file and run snakemake again"
        ) from None


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:  # "-" or "NA"
        return 0.0


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git(*words: str) -> str | None:
    """Return the output of a git command in the folder of this file; None if the command fails."""
    return _output("git", "-C", str(Path(__file__).parent), *words)


def _output(*command: str) -> str | None:
    """Return a command's output; None if the command is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


command = stage_command(run)
