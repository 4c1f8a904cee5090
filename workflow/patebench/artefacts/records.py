"""The records that figures and tables are made from, and the manifest of a run, read and checked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patebench.artefacts.provenance import Facts, check_kind, of_baseline, of_naming, of_private_model, take
from patebench.artefacts.releases import mechanism_of
from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_any_json, read_arrays, read_json
from patebench.core.formats import LABELS, POOL
from patebench.core.seeds import Mode

if TYPE_CHECKING:
    from patebench.reporting.frames import Records
    from patebench.reporting.publishable import Release, Student


def read_records(
    collected: Sequence[Path], baselines: Sequence[Path], audits: Sequence[Path] = (), models: Sequence[Path] = ()
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


def read_releases(
    labels: Sequence[Path] = (),
    bounds: Sequence[Path] = (),
    students: Sequence[Path] = (),
    pools: Sequence[Path] = (),
) -> "list[Release]":
    """Return the releases in these files, in the order of the labels.

    Bounds, students and pools belong to the labels whose digests they name. Raises ArtefactError for labels that are no
    release, and for a file that belongs to none.
    """
    from patebench.reporting.publishable import Release

    released = [read_arrays(path, LABELS) for path in labels]
    for each in released:
        each.require("mode", str(Mode.RELEASE), "a page to publish")
    known_pools = dict(map(_pool, pools))
    known_bounds = dict(_of_labels(path, "account", released) for path in bounds)
    learnt: dict[str, list[Student]] = {}
    for path in students:
        digest, content = _of_labels(path, "train_student", released)
        learnt.setdefault(digest, []).append(_student(path, content))
    found = []
    for each in released:
        for what, known, digest in (("bounds", known_bounds, each.digest), ("pool", known_pools, each.meta["pool"])):
            if digest not in known:
                raise ArtefactError(each.path, f"its {what} are not among the given files", "give them too")
        account = known_bounds[each.digest]
        release = Release(
            labels=each["labels"].tolist(),
            facts={**each.meta, "parameters": mechanism_of(each.meta).parameters()},
            bounds=[Bound.from_json(bound) for bound in account["bounds"]],
            protection=account.get("protection"),
            pool=known_pools[each.meta["pool"]],
            students=learnt.get(each.digest, []),
        )
        found.append(release)
    return found


def _pool(path: Path) -> "tuple[str, Facts]":
    pool = read_arrays(path, POOL)
    return pool.digest, dict(pool.meta)


def _of_labels(path: Path, kind: str, released: Sequence[Artefact]) -> "tuple[str, Facts]":
    """The content of a file about one of these label sets, and the digest of that."""
    content = read_json(path, kind)
    if content.get("labels") not in {each.digest for each in released}:
        raise ArtefactError(path, "it is of labels that are not among the given ones", "give these labels too")
    return content["labels"], content


def _student(path: Path, content: "Facts") -> "Student":
    from patebench.reporting.publishable import Student

    facts = take(path, content, ("method", "model", "queries", "answered", "accuracy"))
    return Student(labels=facts.pop("answered"), **facts)


def read_manifest(path: Path, *more: str) -> dict[str, Any]:
    """Read a manifest; ArtefactError if the file is none, or lacks an entry, or one of these further ones."""
    content = read_json(path, "manifest")
    for entry in ("config", "seeds", "versions", "commit", "hardware", "rules", "started", "finished", *more):
        if entry not in content:
            raise ArtefactError(path, f"it lacks '{entry}'")
    return content
