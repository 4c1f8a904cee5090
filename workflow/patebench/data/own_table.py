"""Load a user's own table from CSV, TSV or Parquet: either one file, or a private and a public file.

The declaration (`data.declaration`) defines the meaning and the values of each column. Numbers and dates are scaled to
0 … 1 between their declared bounds. A category becomes one column per value and one for "other". Text becomes counts of
hashed character n-grams, scaled to norm 1. The encoding of a record does not depend on other records.
"""

import csv
import fnmatch
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError, call_all
from patebench.core.text import listing, plural
from patebench.data.dataset import Dataset, LabelledSamples
from patebench.data.declaration import Feature, TableDeclaration, plain_text
from patebench.data.division import hash_names, hash_samples

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_PARQUET = (".parquet", ".pq")


def load(
    root: Path,
    download: bool,
    private: str,
    table: TableDeclaration | Mapping[str, Any] | str,
    public: str | None = None,
) -> Dataset:
    """Return the encoded records of a private and a public table, or of one table that is divided by a hash.

    Parameters
    ----------
    root, download : ignored; relative paths start from the working directory.
    private : path of the private table, or of the table to divide.
    table : the declaration of the columns, as `TableDeclaration`, a mapping or JSON text.
    public : path of the public table; None if the fraction `table.public_share` of the table `private` becomes public.

    Raises
    ------
    ArtefactError
        For an invalid value; the message names the file, the record (counted from 1 after the header) and the column.
    PatebenchError
        If the declaration is invalid. Also if `public` and `table.public_share` are both given or both missing.
    """
    declared = TableDeclaration.read(table, "table")
    if (public is None) == (declared.public_share is None):
        raise PatebenchError(
            "a table needs one source of public records; give either 'public' (a file) or 'table.public_share' (the"
            " share of the private file that becomes public)",
            code="missing",
            where="public",
        )
    paths = [Path(private)] if public is None else [Path(public), Path(private)]
    frames = call_all(partial(read_frame, path, declared.missing_values) for path in paths)
    declared = expanded(declared, frames[0], paths[0])
    parts = call_all(partial(_samples, frame, path, declared) for frame, path in zip(frames, paths, strict=True))
    notes: list[str] = []
    if public is None:
        mask = public_by_hash(frames[0], declared.owner, declared.public_share or 0)
        open_records = _in_order_of_content(_select(parts[0], mask, paths[0], "public"))
        parts = [open_records, _select(parts[0], ~mask, paths[0], "private")]
        unit = "people" if declared.owner else "positions"
        notes.append(f"{private}: made {mask.sum()} of {len(mask)} records public, selected by a hash of the {unit}")
    open_part, own_part = parts
    if own_part.owners is not None and open_part.owners is not None:
        is_in_both = np.isin(own_part.owners, open_part.owners)
        if is_in_both.any():
            notes.append(_note_people(own_part.owners, is_in_both, paths, declared))
            own_part = _select(own_part, ~is_in_both, paths[-1], "private")
    for path, part in ((paths[-1], own_part), (paths[0], open_part)):
        if lacking := [name for i, name in enumerate(declared.label.classes) if not (part.y == i).any()]:
            notes.append(f"{path}: no record has {plural(len(lacking), 'class')}: {listing(lacking)}")
    return Dataset(own_part, open_part, declared.label.classes, tuple(notes))


def _samples(frame: "pd.DataFrame", path: Path, declared: TableDeclaration) -> LabelledSamples:
    """Return the records of the table `frame`, encoded by the declaration `declared`; errors name the file `path`."""
    _check_columns(path, list(map(str, frame.columns)), declared)
    encoding: list[Callable[[], Any]] = [
        partial(encode, frame, declared, path),
        partial(_labels, frame[declared.label.column], declared, path),
    ]
    if declared.owner is not None:
        encoding.append(partial(_hash_owners, frame[declared.owner], declared.owner, path))
    x, y, *owners = call_all(encoding)
    return LabelledSamples(x, y, owners=next(iter(owners), None))


def _select(part: LabelledSamples, mask: NDArray[np.bool_], path: Path, role: str) -> LabelledSamples:
    if not mask.any():
        fix = "give more records, or change 'public_share' if it is set"
        raise ArtefactError(path, f"the {role} part has no records", fix)
    return part.where(mask)


def _in_order_of_content(part: LabelledSamples) -> LabelledSamples:
    """Return the samples of `part` in an order that depends only on their content, and without their row numbers.

    `part` are the public records of a file that also contains private records. If the file is sorted by label, the
    original positions of the public records leak private labels.
    """
    order = np.lexsort((part.y, hash_samples(part.x)))
    owners = None if part.owners is None else part.owners[order]
    return replace(part, x=part.x[order], y=part.y[order], rows=None, owners=owners)


def _note_people(
    owners: NDArray[np.int64], is_in_both: NDArray[np.bool_], paths: Sequence[Path], declared: TableDeclaration
) -> str:
    """Return a message on private records that are left out because their owners also have public records.

    `owners` (private records,) are the owners of the private records. `is_in_both` (private records,) is True for
    records to leave out. `paths` contains the public and the private file, or a single file that contains both parts.
    Raises ArtefactError if `declared.people` is "refuse".
    """
    # Public records are never left out, since that would reveal who is in the private part.
    people, records = plural(len(np.unique(owners[is_in_both])), "person"), plural(int(is_in_both.sum()), "record")
    if declared.people == "refuse":
        raise ArtefactError(
            paths[-1],
            f"ε would not protect {people} (column '{declared.owner}') with private records in this file and public"
            f" records in {paths[0]}, for example the owner of record {int(np.flatnonzero(is_in_both)[0]) + 1}",
            "make all records of a person private or all public, or set 'people: leave-out' in 'table' to drop these"
            " private records",
            code="person-in-both-parts",
        )
    return f"{paths[-1]}: left out {records} of {people} who also have public records"


def unlike_others(copies: Path, private: str, table: str, public: str | None = None) -> Iterator[tuple[str, str, Path]]:
    """Yield changed copies of the table `private`, to test that public outputs do not depend on private records.

    `patebench audit --adjacency` loads each copy and compares the public outputs with those for the original table.
    There are two kinds of copies:

    - "fewer records": one private record is missing or, with an owner column, all records of one owner.
    - "new values": one private record contains values that occur in no other record.

    The copy with fewer records is left out if public records are selected by a hash of their positions. In this case, ε
    protects only the replacement of a record.

    Yields tuples (kind of change, description, path of the copy). Copies are written to the folder `copies`.
    """
    declared, path = TableDeclaration.read(table, "table"), Path(private)
    frame = read_frame(path, declared.missing_values).astype(object)
    # Values become text, since otherwise the type of a column could change if one value is removed or changed.
    frame = frame.map(plain_text).where(frame.notna(), None)
    share = declared.public_share or 0
    record = frame.index[~public_by_hash(frame, declared.owner, share)][0]
    owners = frame.get(declared.owner)
    if owners is not None or not share:
        left = frame.index != record if owners is None else owners != owners[record]
        others = "is removed" if owners is None else "and all others of its owner are removed"
        fewer = copies / f"fewer-records{path.suffix}"
        _write(frame[left], fewer, declared)
        yield "fewer records", f"record {record + 1} of {path} {others}", fewer
    for name, feature in expanded(declared, frame, path).features.items():
        rare = 10**6 if feature.number else "1000-01-01" if feature.date else "a value of its own"
        frame.loc[record, name] = str(rare)
    changed = copies / f"new-values{path.suffix}"
    _write(frame, changed, declared)
    yield "new values", f"record {record + 1} of {path} has values that no other record has", changed


def _write(frame: "pd.DataFrame", path: Path, declared: TableDeclaration) -> None:
    """Write `frame`, whose values are text or None, to `path` in the format of its suffix."""
    if path.suffix.lower() in _PARQUET:
        frame.to_parquet(path, index=False)
    else:
        missing, separator = next(iter(declared.missing_values), ""), _SEPARATORS[path.suffix.lower()]
        frame.to_csv(path, index=False, na_rep=missing, sep=separator, quoting=csv.QUOTE_ALL)


def public_by_hash(frame: "pd.DataFrame", owner: str | None, share: float) -> NDArray[np.bool_]:
    """Return a mask (records,) that is True for public records, selected by a hash.

    If `owner` is the name of a column, the owners are hashed. All records of about the fraction `share` of the owners
    then become public. Adding or removing a record does not change which other records are public. If `owner` is None,
    the positions of the records (the index of `frame`) are hashed. About the fraction `share` of the records then
    becomes public.

    The values of a record are not hashed, since that would leak private labels. Suppose that someone knows all values
    of a private record except its label. This person could compute the hash for each label, and exclude the labels for
    which the record would be public.
    """
    names = frame.index.to_series() if owner is None else frame[owner]
    return hash_names(names.astype(object).map(plain_text).where(names.notna(), "")) < share * 2.0**63


def read_frame(path: Path, missing: tuple[str, ...]) -> "pd.DataFrame":
    """Return the table in the file `path`: values as text (CSV, TSV) or with the types of the file (Parquet).

    In CSV and TSV, the texts in `missing` become NA.
    """
    import pandas as pd

    if not path.is_file():
        raise ArtefactError(path, "this file does not exist", "give the path of a .csv, .tsv or .parquet file")
    suffix = path.suffix.lower()
    if suffix not in (*_PARQUET, *_SEPARATORS):
        raise ArtefactError(
            path, f"the file type '{path.suffix}' is not supported", "give a .csv, .tsv or .parquet file"
        )
    names: list[str] = []
    try:
        if suffix in _PARQUET:
            # With types of pyarrow, integers stay integers in columns with missing values. As objects, NaN counts as
            # missing, too, and decimals can be read.
            frame = pd.read_parquet(path, dtype_backend="pyarrow").astype(object).reset_index(drop=True)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    path,
                    sep=_SEPARATORS[suffix],
                    dtype=str,
                    keep_default_na=False,
                    na_values=list(missing),
                    encoding="utf-8-sig",
                    index_col=False,
                    skipinitialspace=True,
                )
            names = _header(path)
    except pd.errors.ParserWarning:  # otherwise the values would move to columns of other names
        fault = "its records have more values than its header has names"
        fix = "write a name for each column into the first line, and separate values by commas (.csv) or tabs (.tsv)"
        raise ArtefactError(path, fault, fix) from None
    except ImportError:
        raise ArtefactError(
            path,
            "reading Parquet requires the package pyarrow",
            "install it by pip install 'patebench[parquet]', or give a .csv file",
        ) from None
    except Exception as fault:  # parsers raise many kinds of errors
        raise ArtefactError(
            path, f"it cannot be read as a table ({fault})", "correct the file, or give another"
        ) from None
    if twice := sorted(name for name, count in Counter(names).items() if name and count > 1):
        raise ArtefactError(
            path,
            f"two of its columns have the same name: {listing(twice)}",
            "rename one of these columns",
            code="repeated-column",
        )
    if not len(frame):
        raise ArtefactError(path, "it contains only a header", "give a table with at least one record")
    return frame


def _header(path: Path) -> list[str]:
    """Return the column names of a CSV or TSV file as written; pandas would rename the second of two equal names."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream, delimiter=_SEPARATORS[path.suffix.lower()], skipinitialspace=True)
        return next((row for row in rows if any(row)), [])


def expanded(declared: TableDeclaration, public: "pd.DataFrame", path: Path) -> TableDeclaration:
    """Return `declared` with each feature pattern, such as embedding_*, replaced by the matching columns of `public`.

    A pattern matches only columns that the declaration does not name. Raises ArtefactError for a pattern without a
    match; the message names the file `path`.
    """
    columns, features = list(map(str, public.columns)), dict[str, Feature]()
    unnamed = [name for name in columns if name not in (*declared.columns, *declared.drop)]
    for pattern, feature in declared.features.items():
        is_name = "*" not in pattern or pattern in columns
        if not (names := [pattern] if is_name else fnmatch.filter(unnamed, pattern)):
            raise ArtefactError(
                path,
                f"the pattern '{pattern}' in 'table.features' matches none of the columns that are not declared by name"
                f" ({listing(unnamed) or 'there are none'})",
                "correct the pattern in the configuration",
                code="missing-column",
            )
        features |= dict.fromkeys(names, feature)
    return declared.model_copy(update={"features": features})


def _check_columns(path: Path, present: list[str], declared: TableDeclaration) -> None:
    for name in declared.columns:
        if name not in present:
            raise ArtefactError(
                path,
                f"the declared column '{name}' is not in the file; its columns are {listing(present)}",
                "correct the column in the key 'table'",
                code="missing-column",
            )
    if extra := [name for name in present if name not in (*declared.columns, *declared.drop)]:
        raise ArtefactError(
            path,
            f"columns of the file are not declared: {listing(extra)}",
            "declare them in 'table.features', or list them in 'table.drop'",
            code="undeclared-column",
        )


def encode(frame: "pd.DataFrame", declared: TableDeclaration, path: Path) -> NDArray[np.float32]:
    """Return the features of all records in `frame` as an array (records, encoded columns).

    `declared` declares the encoding of each feature. Errors name the file `path`.
    """
    parts = call_all(partial(_encode, frame[name], name, feature, path) for name, feature in declared.features.items())
    return np.concatenate(parts, axis=1, dtype=np.float32)


def _encode(column: "pd.Series[Any]", name: str, feature: Feature, path: Path) -> NDArray[np.float32]:
    """Return `column` as an array (records, encoded columns), encoded as `feature` declares."""
    absent = column.isna().to_numpy(dtype=bool)
    if absent.any() and feature.missing == "refuse":
        fix = "add it, or set 'missing: column' for this feature"
        raise _error(path, absent, name, "the value is missing", fix, "missing-value")
    encoded: NDArray[Any]
    if feature.category is not None:
        other = len(feature.category)
        encoded = _positions(column, feature.category, other)[:, None] == np.arange(other + 1)
    elif feature.text is not None:
        from sklearn.feature_extraction.text import HashingVectorizer

        hashing = HashingVectorizer(
            n_features=feature.text, analyzer="char_wb", ngram_range=(3, 5), alternate_sign=False, norm="l2"
        )
        texts = ["" if gone else plain_text(value) for value, gone in zip(column, absent, strict=True)]
        encoded = hashing.transform(texts).toarray()
    else:
        kind = "a finite number" if feature.number else "a date of the form 2024-12-31"
        values = (_numbers if feature.number else _days)(column.where(~absent))
        if (wrong := ~np.isfinite(values) & ~absent).any():
            fix = "correct it, or declare a category" if feature.number else "correct it"
            raise _error(path, wrong, name, f"{_quoted(column, wrong)} is not {kind}", fix)
        low, high = feature.number or tuple(day.toordinal() for day in feature.date or ())
        encoded = ((np.clip(np.where(absent, low, values), low, high) - low) / (high - low))[:, None]
    if feature.missing == "column":
        encoded = np.concatenate([encoded, absent[:, None]], axis=1)
    return encoded.astype(np.float32)


def _positions(column: "pd.Series[Any]", values: Sequence[str], other: int) -> NDArray[np.int64]:
    """Return the position in `values` of each entry of `column`; −1 for missing entries, `other` for unlisted ones."""
    positions = {plain_text(value): i for i, value in enumerate(values)}
    entries = zip(column, column.isna(), strict=True)
    return np.array([-1 if gone else positions.get(plain_text(value), other) for value, gone in entries], np.int64)


def _numbers(column: "pd.Series[Any]") -> NDArray[np.float64]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return numbers.to_numpy(np.float64, na_value=np.nan)


def _days(column: "pd.Series[Any]") -> NDArray[np.float64]:
    """Return each date in `column` as a number of days, where day 1 starts the year 1; NaN if an entry is not a date.

    Each entry is converted alone, since pandas would convert all entries to the unit of the most precise one.
    """
    import pandas as pd

    @cache
    def day(text: str) -> float:
        stamp = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
        return np.nan if pd.isna(stamp) else stamp.toordinal()

    present = column.notna()
    return np.array([day(str(value)) if there else np.nan for value, there in zip(column, present, strict=True)])


def _labels(column: "pd.Series[Any]", declared: TableDeclaration, path: Path) -> NDArray[np.int64]:
    labels = _positions(column, declared.label.classes, -1)
    if (wrong := labels < 0).any():
        missing = column.isna().to_numpy(dtype=bool)[wrong][0]
        what = "the label is missing" if missing else f"{_quoted(column, wrong)} is not a declared class"
        fix = "correct or remove it, or declare the class (table.label.classes)"
        raise _error(path, wrong, declared.label.column, what, fix, "undeclared-label")
    return labels


def _hash_owners(column: "pd.Series[Any]", name: str, path: Path) -> NDArray[np.int64]:
    """Return a hash of each record's owner (records,).

    Raises ArtefactError if an owner is missing, or if two owners have the same hash.
    """
    absent = column.isna().to_numpy(dtype=bool)
    if absent.any():
        raise _error(path, absent, name, "the owner is missing", "name the owner of each record", "missing-value")
    owners = [plain_text(value) for value in column]
    numbers = hash_names(owners)
    if len(np.unique(numbers)) < len(set(owners)):
        fault = f"two owners in the column '{name}' have the same hash, so they cannot be distinguished"
        raise ArtefactError(path, fault, "change the spelling of an owner")
    return numbers


def _quoted(column: "pd.Series[Any]", wrong: NDArray[np.bool_]) -> str:
    value = str(column.iloc[int(np.flatnonzero(wrong)[0])])
    return f"'{value if len(value) <= 40 else value[:40] + '…'}'"


def _error(
    path: Path, wrong: NDArray[np.bool_], column: str, what: str, fix: str, code: str = "table-value"
) -> ArtefactError:
    """Return an ArtefactError on the wrong values in `column`, those where `wrong` (records,) is True.

    The message names the first record with a wrong value and counts the others. It states `what` is wrong, and the
    `fix`.
    """
    first, count = int(np.flatnonzero(wrong)[0]) + 1, int(wrong.sum())
    more = f" (and {count - 1:,} more)" if count > 1 else ""
    return ArtefactError(path, f"record {first}{more}, column '{column}': {what}", fix, code=code)
