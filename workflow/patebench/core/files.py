"""Read and write artefact files: atomically, with checks on every read, and without pickle.

An array artefact is an uncompressed `.npz` that plain NumPy opens. Its member `meta.json` holds the kind, facts about
the artefact and a SHA-256 digest of all content. A JSON artefact also holds a kind and a digest. The bytes of a file
depend only on its content (there are no time stamps), so equal experiments give equal files.
"""

import errno
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError, is_own_file
from patebench.core.fields import show

META = "meta.json"
#: Maximum wait for a lock in seconds.
PATIENCE_S = 60.0
_KINDS = {"i": "signed integer", "u": "unsigned integer", "f": "floating point", "b": "boolean"}

#: Advice by error number of a failed write.
_REFUSALS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space and run the same command again"),
    errno.EFBIG: "raise the limit on the size of files and run the same command again",
    **dict.fromkeys((errno.EIO, errno.ESTALE), "check that its folder still exists and run the same command again"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make its folder writable or choose another folder"),
}


#: Advice about an undamaged file of the wrong kind, which must not be deleted.
_RIGHT = "give the right file"
#: Advice if a stage's output does not fit the layout of its kind.
_NOT_WRITTEN = "this is a bug in the stage that wrote the file: please report it with the log"
#: Entries of metadata that contain digests or identifiers, which mean nothing to a user → words for messages.
_SOURCES: Mapping[str, str] = {
    **{name: f"another {name}" for name in ("encoder", "partition", "pool")},
    **{name: f"other {name}" for name in ("labels", "votes")},
    **dict.fromkeys(("private", "public"), "other samples"),
    **dict.fromkeys(("queries_files", "selected"), "other queries"),
    "test": "another test set",
    "sessions": "other shares",
}
#: Exceptions that reading a damaged archive may raise besides ValueError. For example, a flipped bit may request a
#: password (RuntimeError) or too much memory (MemoryError).
UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, RuntimeError, MemoryError)


@dataclass(frozen=True)
class Field:
    """Requirements on one array of an artefact.

    Parameters
    ----------
    kinds : NumPy's one-letter kinds of the allowed data types
    dims : names of the axes. Axes of the same name have equal lengths in all arrays of the artefact. A trailing "..."
        stands for any further axes
    low : smallest allowed value
    below : name of an integer in the metadata; all values must be smaller than this integer
    optional : True if the artefact may lack the array
    """

    kinds: str
    dims: tuple[str, ...]
    low: float | None = None
    below: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class Layout:
    """Arrays and metadata that an artefact of one kind must contain.

    Parameters
    ----------
    kind : name of the kind, such as "labels", stored in the metadata.
    fields : name of each array → its requirements.
    meta : names of the entries of the metadata.
    parents : names of the entries that contain the digests of the artefacts from which this one was made.
    older : advice to the user if an entry of the metadata is missing. Usually, an older version wrote the file.
    again : advice to the user for other errors in the file; by default to recreate the file.
    """

    kind: str
    fields: Mapping[str, Field]
    meta: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    older: str | None = None
    again: str | None = None


@dataclass(frozen=True)
class Artefact:
    """Checked artefact, read from the file `path`: arrays by name, metadata `meta`, and digest of all content."""

    path: Path
    arrays: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any]
    digest: str

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def require(self, entry: str, expected: object, other: str) -> None:
        """Raise ArtefactError unless the metadata entry `entry` has the value `expected`.

        `expected` comes from another artefact and is usually a digest. Different digests mean that the two artefacts do
        not belong together. The message calls the other artefact `other`, and contains both values unless they are
        digests.
        """
        held = self.meta.get(entry)
        if held == expected:
            return
        fault = f"its '{entry}' is {show(held)}, but that of {other} is {show(expected)}"
        if entry in _SOURCES:
            fault = f"it was made with {_SOURCES[entry]} than {other}"
        elif show(held) == show(expected):  # long values, which are shortened
            fault = f"its '{entry}' differs from that of {other}"
        fix = "give files that belong together, or delete this one and run snakemake again to recreate it"
        if self.meta.get("mode") == "release":
            fix = "give files of one release"
        raise ArtefactError(self.path, fault, fix, code="mismatch")


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` after the block; delete it if the block fails.

    The file is flushed to disk before it is renamed, so that it survives a power failure. Raises ArtefactError if the
    file cannot be written, for instance on a full disk.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except BaseException as fault:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(fault, OSError) and fault.errno in _REFUSALS:
            raise _refused(path, fault) from None
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, and rename it to `path` after the block; delete it if the block fails.

    Raises PatebenchError if `path` exists.
    """
    if path.exists():
        raise PatebenchError(f"{path} already exists; give the name of a new folder", code="exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as place:
        folder = Path(place) / "new"
        folder.mkdir()
        yield folder
        folder.rename(path)


def claim(path: Path) -> bool:
    """Create an empty file at `path` and return True; return False if the file exists already.

    If several processes claim the same path, exactly one gets True. After the return, the file survives a power
    failure. Raises ArtefactError if the file cannot be written.
    """
    try:
        path.touch(exist_ok=False)
        _sync(path.parent)
    except FileExistsError:
        return False
    except OSError as fault:
        if fault.errno in _REFUSALS:
            raise _refused(path, fault) from None
        raise
    return True


def _refused(path: Path, fault: OSError) -> ArtefactError:
    number = fault.errno or 0
    fix = _REFUSALS.get(number, "check that its folder exists and is writable")
    return ArtefactError(path, f"it cannot be written ({os.strerror(number)})", fix, code="not-writable")


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock the file `path` during the block, so that no other process can lock it.

    While another process holds the lock, wait up to `PATIENCE_S`; then raise ArtefactError. The lock is a second file
    beside `path`, because `flock` does not work on all shared file systems. A lock is taken over if the process that
    holds it ran on this host and has ended.
    """
    from filelock import SoftFileLock, Timeout

    lock = SoftFileLock(path.with_name(f".{path.name}.lock"), timeout=PATIENCE_S)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.acquire()
    except Timeout:
        fault = f"process {lock.pid} has locked this file for {PATIENCE_S:g} s"
        fix = f"wait until that process ends; if it no longer runs, delete {lock.lock_file}"
        raise ArtefactError(path, fault, fix, code="locked") from None
    except OSError as refused:
        why = os.strerror(refused.errno) if refused.errno else str(refused)
        fix = "check that its folder exists and is writable"
        raise ArtefactError(path, f"it cannot be locked ({why})", fix, code="not-writable") from None
    with held:
        yield


def check_writable(path: Path) -> None:
    """Raise ArtefactError if the file `path` cannot be written; call it before expensive work."""
    try:
        with atomic(path.with_name(f".{path.name}.try")) as temporary:
            temporary.touch()
        path.with_name(f".{path.name}.try").unlink()
    except OSError as fault:
        raise _refused(path, fault) from None


def _sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_text(path: Path | str, text: str) -> None:
    """Write `text` to the file `path` atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_arrays(path: Path | str, layout: Layout, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> str:
    """Write `arrays` and the metadata `meta` as an array artefact and return its digest.

    Raises ArtefactError, before writing, if an array or a meta entry does not fit `layout`.
    """
    path = Path(path)
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    facts = {**meta, "kind": layout.kind}
    try:
        _check(path, layout, arrays, facts)
    except ArtefactError as refused:
        raise ArtefactError(path, f"it was not written: {refused.fault}", _NOT_WRITTEN, code=refused.code) from None
    digest = _digest(arrays, facts)
    with atomic(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(META), _canonical({**facts, "digest": digest}))
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return digest


def read_arrays(path: Path | str, layout: Layout) -> Artefact:
    """Read an array artefact; raise ArtefactError if it is damaged or does not fit `layout`."""
    try:
        return _read_arrays(Path(path), layout)
    except ArtefactError as fault:
        if layout.again is None or fault.has_own_fix:
            raise
        raise ArtefactError(path, fault.fault, layout.again, code=fault.code) from None


def _read_arrays(path: Path, layout: Layout) -> Artefact:
    meta = _read_meta(path)
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {}
            for name in sorted(name for name in archive.namelist() if name.endswith(".npy")):
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    except ValueError as fault:
        if "allow_pickle" in str(fault) or "Object arrays" in str(fault):
            raise ArtefactError(
                path, "it contains pickled Python objects, which patebench never loads", code="pickled"
            ) from None
        raise ArtefactError(path, f"it is damaged ({fault})", code="damaged") from None
    except UNREADABLE as fault:
        raise _damaged(path, fault) from None
    digest = meta.pop("digest", None)
    _check(path, layout, arrays, meta)
    if digest != _digest(arrays, meta):
        raise ArtefactError(
            path, "its checksum does not match its content, so it is damaged or was edited", code="checksum"
        )
    return Artefact(path, arrays, meta, str(digest))


def read_facts(path: Path | str, layout: Layout) -> dict[str, Any]:
    """Return the metadata of an array artefact; the arrays are neither read nor checked.

    Raises ArtefactError if the metadata are damaged or do not fit `layout`.
    """
    path = Path(path)
    meta = _read_meta(path)
    _check_meta(path, layout, meta)
    return meta


def read_any_arrays(path: Path | str, layouts: Mapping[str, Layout]) -> Artefact:
    """Read an array artefact whose kind is one of the keys of `layouts`.

    Raises ArtefactError for another kind, and for a file that is damaged or does not fit the layout of its kind.
    """
    kind = str(_read_meta(Path(path)).get("kind"))
    if kind not in layouts:
        kinds = " or ".join(f"'{name}'" for name in layouts)
        raise ArtefactError(path, f"it is a file of kind '{kind}' instead of {kinds}", _RIGHT, code="kind")
    return read_arrays(path, layouts[kind])


def _read_meta(path: Path) -> dict[str, Any]:
    _check_present(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if META not in archive.namelist():
                raise ArtefactError(path, f"it has no {META}, so it is not a patebench artefact", code="not-ours")
            meta = json.loads(archive.read(META), parse_constant=_no_constant)
    except (ValueError, *UNREADABLE) as fault:
        raise _damaged(path, fault) from None
    if not isinstance(meta, dict):
        raise ArtefactError(path, f"it is damaged: its {META} is not a JSON object", code="damaged")
    return meta


def _damaged(path: Path, fault: Exception) -> ArtefactError:
    words = str(fault) or type(fault).__name__
    ours = "" if is_own_file(path) else ", or not a patebench artefact"
    return ArtefactError(path, f"it is truncated or damaged{ours} ({words})", code="damaged")


def write_json(path: Path | str, kind: str, payload: Mapping[str, Any]) -> None:
    """Write `payload` atomically as a JSON artefact of this `kind`; raise ValueError for NaN and infinities."""
    content = {"kind": kind, **payload}
    digest = hashlib.sha256(_canonical(content)).hexdigest()
    text = json.dumps({**content, "digest": digest}, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def read_json(path: Path | str, kind: str) -> dict[str, Any]:
    """Return the content of a JSON artefact; raise ArtefactError if it is damaged or of another `kind`."""
    content, _ = read_any_json(path)
    if content["kind"] != kind:
        raise _wrong_kind(Path(path), content["kind"], kind)
    return content


def read_any_json(path: Path | str) -> tuple[dict[str, Any], str]:
    """Return the content and the digest of a JSON artefact of any kind; raise ArtefactError if it is damaged."""
    path = Path(path)
    _check_present(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError, MemoryError) as fault:
        raise ArtefactError(path, f"it is truncated or not valid JSON ({fault})", code="damaged") from None
    if not isinstance(content, dict):
        raise ArtefactError(path, f"it contains a JSON {type(content).__name__}, not an object", _RIGHT, code="kind")
    if "kind" not in content:
        raise ArtefactError(path, "it has no 'kind', so it is not a patebench artefact", code="not-ours")
    stored, computed = content.pop("digest", None), hashlib.sha256(_canonical(content)).hexdigest()
    if stored != computed:
        raise ArtefactError(
            path, "its checksum does not match its content, so it is damaged or was edited", code="checksum"
        )
    return content, computed


def _wrong_kind(path: Path, kind: object, expected: str) -> ArtefactError:
    return ArtefactError(
        path, f"it is a file of kind '{kind}' instead of '{expected}'", f"give a file of kind '{expected}'", code="kind"
    )


def nearest_file(folder: Path, name: str) -> Path:
    """Return the path of the file `name` in `folder` or in the nearest parent folder that contains the file.

    If no folder contains the file, return `folder`/`name`.
    """
    return next((path for place in (folder, *folder.parents) if (path := place / name).exists()), folder / name)


def _check_present(path: Path) -> None:
    if not path.is_file():
        raise ArtefactError(
            path, "this file does not exist", "give the right path, or run snakemake to create it", code="missing-file"
        )
    if path.stat().st_size == 0:
        raise ArtefactError(path, "it is empty", code="empty")


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not allowed in an artefact")


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False).encode(errors="surrogatepass")


def _digest(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> str:
    state = hashlib.sha256(_canonical(meta))
    for name, array in arrays.items():
        state.update(f"{name} {array.dtype.str} {array.shape}".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def _check_meta(path: Path, layout: Layout, meta: Mapping[str, Any]) -> None:
    if meta.get("kind") != layout.kind:
        raise _wrong_kind(path, meta.get("kind"), layout.kind)
    for entry in layout.meta:
        if entry not in meta:
            raise ArtefactError(path, f"its {META} lacks the entry '{entry}'", layout.older, code="layout")


def _check(path: Path, layout: Layout, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    _check_meta(path, layout, meta)
    needed = {name for name, field in layout.fields.items() if not field.optional}
    if missing := needed - set(arrays):
        raise ArtefactError(
            path, f"it lacks the array '{min(missing)}', so another version wrote it or it is incomplete", code="layout"
        )
    if extra := set(arrays) - set(layout.fields):
        raise ArtefactError(
            path, f"it contains the array '{min(extra)}', which no file of kind '{layout.kind}' may have", code="layout"
        )
    for limit in sorted({field.below for field in layout.fields.values() if field.below}):
        if not isinstance(meta[limit], int):
            raise ArtefactError(
                path, f"its {META} has {limit} = {meta[limit]!r}, which is not an integer", code="layout"
            )
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        if fault := _fault_of(array, layout.fields[name], meta, lengths):
            raise ArtefactError(path, f"its array '{name}' is invalid, because it {fault}", code="layout")


def _fault_of(array: NDArray[Any], field: Field, meta: Mapping[str, Any], lengths: dict[str, int]) -> str | None:
    """Return why `array` does not meet the requirements in `field`, or None if it does.

    `lengths` (name of an axis → length) contains the axes of all arrays checked before; the axes of `array` are added.
    """
    if array.dtype.kind not in field.kinds:
        wanted = " or ".join(_KINDS[kind] for kind in field.kinds)
        return f"has dtype {array.dtype} instead of a {wanted} type"
    axes = [axis for axis in field.dims if axis != "..."]
    if array.ndim < len(axes) or (array.ndim > len(axes) and "..." not in field.dims):
        return f"has shape {array.shape} instead of ({', '.join(field.dims)})"
    for axis, length in zip(axes, array.shape, strict=False):
        # Axes of the same name must have the same length in all arrays.
        if lengths.setdefault(axis, length) != length:
            return f"has {length} {axis}, but another of its arrays has {lengths[axis]}"
    if array.size == 0:
        return "is empty"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return "contains NaN or infinite values"
    if field.low is not None and array.min() < field.low:
        return f"contains {array.min()}, but values must be at least {field.low:g}"
    if field.below is not None and array.max() >= meta[field.below]:
        return f"contains {array.max()}, but values must be below {field.below} = {meta[field.below]}"
    return None
