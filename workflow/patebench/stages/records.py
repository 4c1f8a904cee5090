"""The records that figures and tables are made from, and the manifest of a run, read and checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patebench.core.errors import ArtefactError
from patebench.core.files import read_any_json, read_json
from patebench.stages.command import Assignment, each_once, file_option, together
from patebench.stages.names import Facts, check_kind, of_baseline, of_naming, of_private_model

if TYPE_CHECKING:
    from patebench.reporting.frames import Records


def read_records(
    collected: Sequence[Path], baselines: Sequence[Path], audits: Sequence[Path], models: Sequence[Path] = ()
) -> "Records":
    """The records of all these files; ArtefactError for the first unsound one."""
    from patebench.reporting.frames import records_of

    return records_of(
        collected=[(path, read_json(path, "collect")) for path in collected],
        baselines=[(path, _compared(path)) for path in baselines],
        audits=[(path, read_json(path, "audit")) for path in audits],
        private_models=[(path, each) for path in models for each in of_private_model(path, read_any_json(path)[0])],
    )


def _compared(path: Path) -> "Facts":
    """The record of what is compared with students, and no release: its file says which."""
    content, _ = read_any_json(path)
    of_kind = {"train_baseline": of_baseline, "name_clusters": of_naming}
    check_kind(path, content, of_kind)
    return of_kind[content["kind"]](path, content)


#: The options of commands that read records, and published values beside them.
record_files = together(
    file_option("collected", "Records of an ensemble; repeat for each.", needed=False, several=True),
    file_option("baselines", "Results of baselines and namings; repeat for each.", needed=False, several=True),
    file_option("audits", "Audits of mechanisms; repeat for each.", needed=False, several=True),
    file_option(
        "models", "Results of models that are private themselves; repeat for each.", needed=False, several=True
    ),
    file_option("published", "Values that the papers print (CSV)."),
    click.option(
        "--copy", type=Assignment(number=False), multiple=True, callback=each_once,
        help="A data set, and the one that it is a changed copy of: copy=original. What papers print stands beside.",
    ),
)  # fmt: skip


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in a file; ArtefactError for any other."""
    content = read_json(path, "manifest")
    for entry in ("config", "seeds", "versions", "commit", "hardware", "rules", "started", "finished"):
        if entry not in content:
            raise ArtefactError(path, f"it lacks '{entry}'")
    return content
