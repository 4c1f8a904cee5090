"""Run the reference runs, whose results `results/reference/` keeps, with Snakemake at one commit.

`make reference` runs every entry of `results/reference/runs.yaml`, each with a page of its own in `results/<folder>/`.
After an interruption, it continues with the unfinished jobs. `make reference KEEP=--keep` then replaces the kept
results by the new ones; `make test` lists the sentences that contradict them. A kept run also stores its records, from
which `make reference KEEP=--rebuild` writes its page, tables and figures again without training.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from patebench.core.files import read_json, write_json
from patebench.core.registry import nearest
from patebench.core.text import plural
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.stages.manifest import commit

ROOT = Path(__file__).parents[1]
KEPT = Path("results", "reference")
RUNS = ROOT / KEPT / "runs.yaml"

#: Maximum size of a kept table in bytes.
_MOST_BYTES = 1_000_000

#: The records of a kept run: everything that its tables, figures and page are made of.
RECORDS = "records.tar.xz"


def command(folder: str, run: Mapping[str, Any], cores: str = "all") -> list[str]:
    """Return the command that makes one folder's results in `results/<folder>/` with `cores` parallel jobs."""
    lists = {key: f"[{','.join(map(str, run[key]))}]" for key in ("only", "seeds") if key in run}
    config = [f"{key}={value}" for key, value in {"name": folder, **lists}.items()]
    file = f"config/papers/{run['config']}.yaml"
    return ["snakemake", "--cores", cores, "--rerun-incomplete", "--configfile", file, "--config", *config]


def run_all(runs: Mapping[str, Mapping[str, Any]], cores: str = "all") -> list[str]:
    """Run all `runs` in order, also after a failure; return the folders of the failed runs."""
    failed = []
    for number, (folder, run) in enumerate(runs.items(), 1):
        words = command(folder, run, cores)
        print(f"[{number} of {len(runs)}] {' '.join(words)}", flush=True)
        if subprocess.run(words, cwd=ROOT, check=False).returncode:
            failed.append(folder)
    return failed


def is_clean(made_by: Mapping[str, Any] | None) -> bool:
    """Return True if one commit without changed files ran all jobs; `made_by` is the entry `commit` of a manifest."""
    return bool(made_by and not made_by["dirty"] and made_by.get("older_jobs") == 0)


def keep(folder: str, root: Path = ROOT) -> str:
    """Replace the kept results of `folder` by those of its newest run; return the commit of this run.

    The same files as before are kept; for a new folder, the manifest and all small tables. Raises SystemExit, and
    changes no file, if a file is missing, the jobs did not all run at one clean commit, or a later run of another
    configuration has replaced a record of a shared ensemble.
    """
    made, kept = root / "results" / folder, root / KEPT / folder
    manifest = made / "manifest.json"
    if not manifest.is_file():
        raise SystemExit(f"{made}: this run is not finished; run `make reference RUNS={folder}`")
    content = read_json(manifest, "manifest")
    made_by = content["commit"]
    if not is_clean(made_by):
        raise SystemExit(
            f"{made}: its jobs did not all run at one clean commit; run all of them again in a fresh clone"
        )
    records = [path for files in content.get("records", {}).values() for path in files]
    if later := [path for path in records if (root / path).stat().st_mtime > manifest.stat().st_mtime]:
        raise SystemExit(f"{later[0]}: a later run changed this record; run `make reference RUNS={folder}` again")
    if kept.is_dir():
        names = sorted(path.relative_to(kept) for path in kept.rglob("*") if path.is_file() and path.name != RECORDS)
    else:
        small = [path for path in (made / "tables").glob("*.csv") if path.stat().st_size < _MOST_BYTES]
        names = [path.relative_to(made) for path in [manifest, *sorted(small)]]
    if missing := [str(name) for name in names if not (made / name).is_file()]:
        raise SystemExit(
            f"{made}: it lacks {', '.join(missing)}, which {KEPT / folder} keeps; delete these files there first"
        )
    for name in names:
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / name, kept / name)
    _store_records(records, root, kept / RECORDS)
    return str(made_by["id"])


def _store_records(paths: Sequence[str], root: Path, archive: Path) -> None:
    """Store the files `paths`, relative to `root`, in `archive`; equal files give the same bytes."""

    def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    if paths:
        with tarfile.open(archive, "w:xz") as stream:
            for path in sorted(paths):
                stream.add(root / path, path, filter=without_owner)


def rebuild(folder: str, root: Path = ROOT) -> Path:
    """Write page, tables and figures of a kept run from its records to `results/<folder>/`; return the page's path."""
    kept, made = root / KEPT / folder, root / "results" / folder
    if not (kept / RECORDS).is_file():
        raise SystemExit(f"{kept}: it stores no {RECORDS}; run `make reference RUNS={folder}`")
    made.mkdir(parents=True, exist_ok=True)
    content = read_json(kept / "manifest.json", "manifest")
    for kind, registry in (("figures", FIGURES), ("tables", TABLES)):  # the run may be older than the removal of some
        content[kind] = [name for name in content[kind] if name in registry]
    with tarfile.open(kept / RECORDS) as stream:
        for member in stream:
            target, stored = root / member.name, stream.extractfile(member)
            if stored is None or not target.resolve().is_relative_to((root / "results").resolve()):
                raise SystemExit(
                    f"{kept / RECORDS}: {member.name} is not a record of a run; restore the archive by git checkout"
                )
            record = stored.read()
            if target.exists() and target.read_bytes() != record:
                raise SystemExit(
                    f"{target}: it differs from the kept record; move your results to another folder first"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(record)
    write_json(made / "manifest.json", "manifest", content)
    page = made / "report.html"
    words = {"manifest": made / "manifest.json", "published": ROOT / "config" / "published.csv", "out": page}
    words |= {"captions": ROOT / "report"}
    options = [part for name, path in words.items() for part in (f"--{name}", str(path))]
    subprocess.run([Path(sys.executable).with_name("patebench"), "report", *options], cwd=root, check=True)
    return page


def _selected(wanted: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    runs: dict[str, Mapping[str, Any]] = yaml.safe_load(RUNS.read_text(encoding="utf-8"))
    for name in wanted:
        if name not in runs:
            raise SystemExit(f"no run is called {name}{nearest(name, runs)}; {RUNS.relative_to(ROOT)} lists the names")
    return {name: run for name, run in runs.items() if name in wanted or not wanted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="Folders in results/reference; all by default.")
    parser.add_argument("--cores", default="all", metavar="NUMBER", help="Number of cores; all by default.")
    parser.add_argument("--keep", action="store_true", help="Keep the results of finished runs instead of running.")
    parser.add_argument("--rebuild", action="store_true", help="Write pages again from the kept records.")
    given = parser.parse_args()
    runs = _selected(given.folders)
    if given.rebuild:
        for folder in runs if given.folders else [name for name in runs if (ROOT / KEPT / name / RECORDS).is_file()]:
            print(f"wrote {rebuild(folder)}")
        return
    if given.keep:
        commits = {keep(folder) for folder in runs}
        print(f"Kept {plural(len(runs), 'run')} of {plural(len(commits), 'commit')}: {', '.join(sorted(commits))}")
        return
    found = commit()
    if not found or found["dirty"]:
        raise SystemExit(
            "a reference run needs a clean commit: commit the changes that `git status` lists, or use a fresh clone"
        )
    if failed := run_all(runs, given.cores):
        sys.exit(f"{plural(len(failed), 'run')} of {len(runs)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
