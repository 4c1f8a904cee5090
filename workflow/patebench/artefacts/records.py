"""The records that figures and tables are made from, and the manifest of a run, read and checked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patebench.artefacts.provenance import (
    PRIVATE_MODEL_KINDS,
    Facts,
    check_kind,
    of_baseline,
    of_naming,
    of_private_model,
    take,
)
from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_any_json, read_arrays, read_json
from patebench.core.formats import LABELS, POOL
from patebench.core.seeds import Mode
from patebench.core.spelling import parameters_slug
from patebench.release.conditions import mechanism_of

if TYPE_CHECKING:
    from patebench.reporting.frames import Records
    from patebench.reporting.publishable import Release, Student


def read_records(files: Iterable[Path]) -> "Records":
    """Return the records in all these files; raises ArtefactError for the first unsound one.

    `files` may be collected records of ensembles, baselines, named clusters, audits and private models, in any order.
    """
    from patebench.reporting.frames import records_of

    return records_of((path, record) for path in files for record in _records_in(path))


def _records_in(path: Path) -> "Sequence[Facts]":
    content, _ = read_any_json(path)
    check_kind(path, content, _READERS)
    return _READERS[content["kind"]](path, content)


def _collected(path: Path, content: "Facts") -> "list[Facts]":
    records = content.get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ArtefactError(path, "its 'records' is not a list of objects")
    return records


def _audited(path: Path, content: "Facts") -> "list[Facts]":
    """Return a record for each bound that an audit compared, and for each lower bound that it found."""
    try:
        names = ("dataset", "teachers", "classes", "mechanism", "parameters", "runs", "confidence")
        facts = {name: content[name] for name in names}
        noise = parameters_slug({name: float(value) for name, value in facts["parameters"].items()})
        bounds = [bound for finding in content["findings"] for bound in finding["bounds"]]
        return [{"record": "audit", **facts, "noise": noise, **bound} for bound in bounds]
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ArtefactError(path, f"it is no audit as patebench writes it ({fault})") from None


#: Which artefacts hold records, by kind, and how they are read.
_READERS: "Mapping[str, Callable[[Path, Facts], Sequence[Facts]]]" = {
    "collect": _collected,
    "train_baseline": lambda path, content: [of_baseline(path, content)],
    "name_clusters": lambda path, content: [of_naming(path, content)],
    "audit": _audited,
    **dict.fromkeys(PRIVATE_MODEL_KINDS, of_private_model),
}
#: The kinds of artefacts that `read_records` reads.
RECORD_KINDS = tuple(_READERS)


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
