"""Keep the ledger of releases: one file per private data set, in which every draw is entered before it is made.

A ledger identifies its data by the name that the user gives to the data, and by a digest of the private records. For
imported votes without records, the digest is of the vote counts. If the data change, the digest changes too, and only
the name still identifies the data. The ledger is as private as the data. A ledger does not count draws that were
entered in the ledgers of another folder.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from patebench.accounting import conversion, spending
from patebench.accounting.accountant import valid_for_adaptive_queries, valid_for_discrete_noise
from patebench.accounting.spending import Spending
from patebench.accounting.votes import Votes, counts
from patebench.calculator.show import four_digits
from patebench.config.parameters import LedgerParameters, LedgerSettings
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, check_writable, file_lock, read_json, write_json
from patebench.core.seeds import Mode
from patebench.core.text import in_json, plural
from patebench.data.division import digest_counts
from patebench.data.partitions import changes_in_words
from patebench.mechanisms.base import (
    Mechanism,
    check_abstentions,
    check_drawable,
    cost_per_query,
    json_parameters,
    keeper_of,
)

log = logging.getLogger("patebench")
_KIND = "ledger"

#: Number of hexadecimal digits of a digest that a ledger stores to identify its data.
_DIGITS = 32

#: The (ε, δ) for which the Rényi order of a ledger is optimised if the first draw has no limit.
_NOMINAL = LedgerParameters(budget=4.0, delta=1e-5)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Ledger entry for one draw of noise.

    Parameters
    ----------
    what : path of the output file
    mechanism, parameters, queries : name and parameters of the mechanism, and number of queries
    spent : privacy cost of the draw
    when : UTC time of the entry in ISO format
    ensemble : number of all teachers; None for draws other than labels, and in older ledgers
    votes : digest of the votes; None for secure aggregation, where no party sees all votes
    key : random identifier, which the release also stores to refer to its entry
    """

    what: str
    mechanism: str
    parameters: Mapping[str, float | str]
    queries: int
    spent: Spending
    when: str = ""
    ensemble: int | None = None
    votes: str | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True)
class Place:
    """Ledger settings of a command.

    Parameters
    ----------
    folder : folder of the ledgers; None if the noise comes from a seed. Draws from a seed are not entered in a ledger
    limit : (ε, δ) limit of all draws from the private data together
    private : name of the private data
    """

    folder: Path | None
    limit: LedgerParameters | None = None
    private: str | None = None

    @classmethod
    def of(
        cls, mode: Mode, folder: Path | None, budget: float | None, delta: float | None, private: str | None
    ) -> "Place":
        """Create the settings from the options --ledger (`folder`), --ledger-budget, --ledger-delta and --private.

        `mode` states where the noise comes from. For a release, --ledger is required. If the noise comes from a seed,
        none of the four options is allowed. Raises PatebenchError if the options do not fit the mode.
        """
        options = {"ledger": folder, "ledger-budget": budget, "ledger-delta": delta, "private": private}
        if mode is Mode.SEEDED and (used := [f"--{name}" for name, value in options.items() if value is not None]):
            line = f"labels from a seed are not a release and are not entered in a ledger; leave out {used[0]}"
            raise PatebenchError(line, code="release", where=used[0])
        if mode is Mode.RELEASE and folder is None:
            line = "--ledger is missing; give the folder of ledgers, in which a release is entered before it is drawn"
            raise PatebenchError(line, code="missing", where="--ledger")
        limits = {"budget": budget, "delta": delta, "private": private}
        options = {name: value for name, value in limits.items() if value is not None}
        settings = LedgerSettings.checked(options, "ledger") if options else None
        return cls(folder, settings.limit if settings else None, private)

    def write_down(
        self,
        source: Artefact,
        out: Path,
        name: str,
        mechanism: Mechanism,
        votes: Votes,
        key: str | None = None,
        **more: Any,
    ) -> list[str]:
        """Enter a draw in the ledger before the draw is made; return a list with the key of the entry.

        Labels from a seed are not entered, and the list is then empty.

        Parameters
        ----------
        source : file of kind VOTES or CHUNK that contains `votes`
        out : file to which the result of the draw will be written
        name : name of the mechanism
        mechanism : mechanism that draws
        votes : votes on the labelled queries
        key : key of the entry; None: a random key
        more : further arguments of `release_cost`
        """
        if self.folder is None:
            return []
        check_writable(out)
        check_drawable(mechanism, votes)
        facts: dict[str, Any] = {"protects": changes_of(source), "owners": owners_of(source)}
        spent = release_cost(name, mechanism, votes, shards_of(source), **facts, **more)
        known = {"key": key} if key else {}
        entry = Entry(
            what=str(out), mechanism=name, parameters=mechanism.parameters(), queries=votes.queries, spent=spent,
            ensemble=votes.teachers, votes=None if "teachers" in more else source.digest, **known,
        )  # fmt: skip
        self.enter(records_of(source), entry)
        return [entry.key]

    def check_same_shards(self, source: Artefact, earlier: Artefact) -> None:
        """Check that a new round of labels uses the same shards as the earlier rounds, as the ε of all rounds requires.

        `source` (kind VOTES) contains the votes of the new round, and `earlier` (kind LABELS) the labels of the earlier
        rounds. Raises ArtefactError if the shards differ, or if the ledger lacks an earlier round.
        """
        if self.folder is None:
            return
        ledger = Ledger.of(self.folder, records_of(source), self.private)
        own = set(earlier.meta["entries"])
        drawn = {entry.key: entry.spent.partition for entry in ledger.entries if entry.key in own}
        if drawn.keys() != own:
            fault = f"this ledger has no entry for the release {earlier.path}"
            fix = "give the same --ledger as for this release"
            raise ArtefactError(ledger.path, fault, fix, code="not-entered")
        if set(drawn.values()) - {shards_of(source)}:
            raise ArtefactError(
                earlier.path,
                f"these labels and {source.path} come from different partitions of the private data",
                "use votes of the same teachers in all rounds",
                code="mismatch",
            )

    def enter(self, records: str, entry: Entry) -> None:
        """Add `entry` to the ledger of the data with the digest `records`; do nothing if `folder` is None."""
        if self.folder is not None:
            enter_draw(self.folder, records, entry, self.limit, self.private)


def records_of(source: Artefact) -> str:
    """Return a digest that identifies the private data of the file `source` (VOTES, a CHUNK or a table of votes).

    The digest is of the private records or, if it is not available, of the partition into shards. If neither is
    available, the digest is of the vote counts.
    """
    known = source.meta.get("records") or source.meta["partition"]
    return str(known or digest_counts(counts(source["votes"], int(source.meta["classes"]), abstentions=True)))


def shards_of(source: Artefact) -> str:
    """Return the digest of the data's partition into shards in the file `source`; without one, `records_of(source)`."""
    return str(source.meta["partition"] or records_of(source))


def changes_of(source: Artefact) -> tuple[str, ...]:
    """Return the changes of the private data against which ε protects, such as ("replace",) for one replaced record.

    The result is read from the file `source` and contains names of `Change`. If the votes come without a partition of
    records into shards, the result is ().
    """
    return tuple(map(str, source.meta.get("protects") or ()))


def owners_of(source: Artefact) -> str | None:
    """Return the digest of the grouping of the records by owner in the file `source`; None if unknown or not by owner.

    The digest depends on private data, so it may be stored only in private files, such as the ledger.
    """
    return str(source.meta["owners"]) if source.meta.get("owners") else None


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Ledger of one private data set; `entries` has one entry for each draw.

    A draw belongs to this ledger if `records` contains the digest of its private records, or if the user gives the data
    the name `private`.
    """

    path: Path
    private: str | None = None
    records: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    #: Total (ε, δ) budget of all draws together.
    limit: LedgerParameters | None = None
    #: The Rényi order at which the limit is checked. The first draw fixes it, before any output is known.
    order: float | None = None

    @property
    def spent(self) -> list[Spending]:
        return [entry.spent for entry in self.entries]

    def has_name(self, private: str | None) -> bool:
        """Return True if the private data of the ledger have a name and it equals the name `private`, ignoring case."""
        return private is not None and self.private is not None and self.private.casefold() == private.casefold()

    @classmethod
    def of(cls, folder: Path, records: str, private: str | None = None) -> "Ledger":
        """Return the ledger in `folder` of the data with digest `records` or name `private`; if none, a new ledger.

        Raises ArtefactError in four cases:

        - two ledgers match;
        - the matching ledger has another name than `private`;
        - no ledger matches, but the file of the new ledger would replace the ledger of other data;
        - any ledger in `folder` is damaged, since the damaged file may be the ledger of these data.
        """
        records, known = records[:_DIGITS], cls.read_all(folder)
        matching = [ledger for ledger in known if records in ledger.records or ledger.has_name(private)]
        if len(matching) > 1:
            raise ArtefactError(
                matching[0].path,
                f"this file and {matching[1].path} are ledgers of the same private data, but only one is allowed",
                "remove the wrong ledger or, if the name given as --private is that of other data, leave --private out",
                code="two-ledgers",
            )
        if not matching:
            path = folder / f"{private or records}.json"
            if path.exists():
                raise ArtefactError(
                    path,
                    "this file is the ledger of other private data",
                    "give another name as --private",
                    code="taken",
                )
            return cls(path=path)
        (ledger,) = matching
        if private is not None and ledger.private is not None and not ledger.has_name(private):
            raise ArtefactError(
                ledger.path,
                f"this private data already has the name '{ledger.private}', but --private is '{private}'",
                f"give --private {ledger.private}",
                code="other-name",
            )
        return ledger

    @classmethod
    def read_all(cls, folder: Path) -> list["Ledger"]:
        """Read all ledgers (`.json` or `.JSON`) in `folder`, in the order of their file names."""
        return [cls.read(path) for path in sorted(folder.glob("*.[jJ][sS][oO][nN]"))]

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        fix = "restore the ledger from a backup; without it, earlier releases from this data are not counted"
        try:
            content = read_json(path, _KIND)
        except ArtefactError as fault:
            raise ArtefactError(path, fault.fault, fix, code=fault.code) from None
        try:
            if content["orders"] != conversion.ORDERS.tolist():
                raise ArtefactError(
                    path,
                    "its costs are stored at other Rényi orders than this version of patebench uses",
                    "use the patebench version that wrote the ledger",
                    code="older",
                )
            entries = tuple(map(_read_entry, content["entries"]))
            kept = content["limit"]
            limit = LedgerParameters(budget=kept["epsilon"], delta=kept["delta"]) if kept else None
            order = float(content["order"])
            private, records = content.get("private"), tuple(map(str, content.get("records", [path.stem])))
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise ArtefactError(path, f"this ledger is damaged ({fault!r})", fix, code="damaged") from None
        return cls(path=path, private=private, records=records, entries=entries, limit=limit, order=order)

    def write(self) -> None:
        content = {
            "private": self.private,
            "records": self.records,
            "orders": conversion.ORDERS.tolist(),
            "order": self.order,
            "limit": self.limit_in_json,
            "entries": [_entry_to_json(entry) for entry in self.entries],
        }
        write_json(self.path, _KIND, content)

    @property
    def limit_in_json(self) -> dict[str, float] | None:
        """Return the (ε, δ) limit of all draws together, as a dictionary for JSON; None if the ledger has no limit."""
        return {"epsilon": self.limit.budget, "delta": self.limit.delta} if self.limit else None


def release_cost(
    name: str,
    mechanism: Mechanism,
    votes: Votes,
    partition: str,
    *,
    protects: tuple[str, ...] = (),
    owners: str | None = None,
    teachers: tuple[int, int] | None = None,
    adaptive: bool = False,
    budget: tuple[float, float] | None = None,
) -> Spending:
    """Return the worst-case privacy cost of labelling the queries of `votes` with discrete noise, to enter in a ledger.

    Parameters
    ----------
    name : name of the mechanism, for messages
    partition : digest of the partition, the result of `shards_of`
    protects : changes of the data against which ε protects, the result of `changes_of`
    owners : digest of the grouping of the records by owner, the result of `owners_of`
    teachers : numbers of the first and last teacher, if only a chunk of the teachers votes; None: all
    adaptive : True if the queries were selected in rounds
    budget : (ε, δ) budget at which the release stops answering queries; None without a budget. With a budget, the
        returned cost is at most the budget

    Raises
    ------
    PatebenchError
        If the mechanism has no bound in Rényi DP, or has ε = ∞, or if the budget is too small for one query.
    """
    check_abstentions(mechanism, votes)
    valid = valid_for_discrete_noise(mechanism.accountants(votes))
    worst_case = spending.worst_case(valid_for_adaptive_queries(valid) if adaptive else valid, votes.queries)
    if worst_case is None:
        line = f"the mechanism '{name}' has no bound in Rényi DP, but a ledger needs one; use another mechanism"
        raise PatebenchError(line, code="no-bound")
    divergences, failure = worst_case
    if np.isinf(divergences).all():
        line = f"the mechanism '{name}' has ε = ∞ with these parameters, so its labels cannot be released; add noise"
        raise PatebenchError(line, code="no-noise")
    if budget is not None:
        keeper = keeper_of(cost_per_query(name, mechanism, votes.teachers, votes.classes), *budget)
        kept = np.where(keeper.order >= conversion.ORDERS, keeper.allowance, np.inf)
        divergences = np.minimum(divergences, kept)
    return Spending(
        partition=partition,
        divergences=divergences,
        failure=failure,
        teachers=teachers,
        protects=protects,
        owners=owners,
    )


def enter_draw(
    folder: Path, records: str, entry: Entry, limit: LedgerParameters | None, private: str | None = None
) -> Ledger:
    """Add `entry` to the ledger before the draw is made; return the ledger, or raise PatebenchError to forbid the draw.

    Parameters
    ----------
    folder : folder of the ledgers
    records : digest of the private records
    limit : (ε, δ) limit of all draws from the data together, fixed with the first draw. Without a limit, a later draw
        is allowed only if its teachers are disjoint from those of earlier draws
    private : permanent name of the private data
    """
    with file_lock(folder / "ledgers"):
        ledger = Ledger.of(folder, records, private)
        if not ledger.entries:
            _check_other_ledgers(folder, limit, private)
        # The first draw fixes the limit. A limit chosen after seeing an output would hold at δ for each fixed choice,
        # but not for a choice that depends on the output.
        stored_limit = ledger.limit if ledger.entries else limit
        spent = [*ledger.spent, entry.spent]
        aim = stored_limit or _NOMINAL
        order = ledger.order or spending.best_order([entry.spent], aim.budget, aim.delta)
        _check_limit(ledger, spent, limit, stored_limit, order)
        after = Ledger(
            path=ledger.path,
            private=ledger.private or private,
            records=tuple(dict.fromkeys((*ledger.records, records[:_DIGITS]))),
            entries=(*ledger.entries, replace(entry, when=datetime.now(UTC).isoformat(timespec="seconds"))),
            limit=stored_limit,
            order=order,
        )
        after.write()
    log.info("%s: entered this draw; the ledger now contains %s", after.path, plural(len(after.entries), "draw"))
    return after


def name_ledger(path: Path, private: str) -> None:
    """Write the permanent name `private` of the private data into the ledger file `path`.

    Raises PatebenchError if the data have another name, or if the name belongs to another ledger.
    """
    LedgerSettings.checked({"private": private}, "ledger")
    if not path.is_file():
        line = f"{path} is not a file; give the path of the ledger whose data you want to name"
        raise PatebenchError(line, code="missing-file", where=path)
    with file_lock(path.parent / "ledgers"):
        ledger = Ledger.read(path)
        for other in Ledger.read_all(path.parent):
            if other.path.name != path.name and other.has_name(private):
                raise ArtefactError(
                    other.path,
                    f"this other ledger already uses the name '{private}' for its data",
                    f"give another name as --private for the data of {path}",
                    code="taken",
                )
        if ledger.private not in (None, private):
            line = f"its data has the permanent name '{ledger.private}', not '{private}'"
            raise ArtefactError(path, line, "keep the first name", code="other-name")
        replace(ledger, private=private).write()


def _check_other_ledgers(folder: Path, limit: LedgerParameters | None, private: str | None) -> None:
    """Forbid the first draw from a data set without an ε `limit` if an existing ledger may be of the same data.

    `private` is the name of the data of the draw, or None. Only data with different names are certainly different data.
    So without a limit, ArtefactError is raised in two cases: a ledger in `folder` has no name; `private` is None and
    `folder` contains a ledger. If `folder` contains ledgers and the draw is allowed, a warning is printed.
    """
    ledgers = Ledger.read_all(folder) if folder.exists() else []
    # Two ledgers with different names are of different data.
    doubtful = [other for other in ledgers if private is None or other.private is None]
    if not ledgers:
        return
    others = plural(len(doubtful or ledgers), "other ledger")
    words = (
        f"this private data has no ledger yet, but the {others} in this folder may belong to the same data in another"
        " format"
    )
    if doubtful and limit is None:
        name = (
            "name the data (ledger: {private: …} in a configuration, --private of a command)"
            if private is None
            else "first name the data of those others (patebench ledger FILE --private NAME)"
        )
        raise ArtefactError(
            folder,
            words,
            f"{name}, or limit ε (ledger: {{budget: …, delta: …}} in a configuration, --ledger-budget and "
            "--ledger-delta of a command)",
            code="not-recognised",
        )
    click.echo(f"{folder}: {words}; the draw is counted separately, unless --private gives their name", err=True)


def _check_limit(
    ledger: Ledger,
    spent: Sequence[Spending],
    requested: LedgerParameters | None,
    limit: LedgerParameters | None,
    order: float,
) -> None:
    """Raise ArtefactError if the new draw is not allowed after the earlier draws in `ledger`.

    `spent` are the costs of the earlier draws and, last, of the new draw. `limit` is the (ε, δ) limit of the ledger,
    which the first draw fixes; None: no limit. `requested` is the limit that the command of the new draw states, or
    None. `order` is the Rényi order at which the total ε is computed.

    If the ledger has a limit, there are three errors:

    - the command states another limit;
    - earlier draws protect against a change of the data, such as a replaced record, and the new draw does not, or it
      groups the records by owner in another way;
    - the total cost exceeds the limit.

    If the ledger has no limit, the first draw is allowed. For a later draw, there are two errors:

    - the command states a limit;
    - the new cost adds to the earlier costs (`_adds_up`).
    """
    drawn = len(ledger.entries)
    before, protected = spending.common_changes(ledger.spent) if drawn else (), spending.common_changes(spent)
    made = "1 draw was" if drawn == 1 else f"{drawn} draws were"
    if limit is None:
        if drawn and (requested is not None or _adds_up(ledger.spent, spent[-1])):
            raise ArtefactError(
                ledger.path,
                f"{made} already made from this private data (the last: {ledger.entries[-1].what}) without a limit on"
                " the total ε, and no limit can be added later",
                "use other private data, and give the limit with the first draw (key 'ledger', or --ledger-budget and "
                "--ledger-delta)",
                code="no-limit",
            )
    elif requested is not None and requested != limit:
        raise ArtefactError(
            ledger.path,
            f"the first draw from this private data fixed the limit ε = {limit.budget:g} at δ = {limit.delta:g}, but "
            f"the limit ε = {requested.budget:g} at δ = {requested.delta:g} is given now",
            "give the first limit again",
            code="other-limit",
        )
    elif not protected or not set(before) <= set(protected):
        lost = set(before) - set(protected)
        # This draw protects the same changes, but of other owners.
        unknown = any(draw.owners is None for draw in spent)
        others = ", or its votes or an entry of the ledger are of an older version" if unknown else ""
        why = f" for the same owners{others}" if lost and lost <= set(spent[-1].protects) else ""
        raise ArtefactError(
            ledger.path,
            f"the earlier draws protect against {changes_in_words(lost) if lost else 'a change of the data'}, but this"
            f" draw does not{why}, so their total ε would not hold",
            "use votes of the partition of the earlier draws, or of one that protects the same changes and owners",
            code="other-unit",
        )
    elif not spending.keeps(spent, limit.budget, limit.delta, order):
        raise ArtefactError(
            ledger.path,
            f"{_describe(spent, limit.delta, order)} at δ = {limit.delta:g}, above the ledger's limit"
            f" ε = {limit.budget:g} for all releases of this private data (computed at the Rényi order of the first)",
            "draw with more noise, fewer queries or a smaller --budget",
            code="above-limit",
        )


def _describe(spent: Sequence[Spending], delta: float, order: float) -> str:
    """Return text for a message that states the ε at `delta` of all draws together.

    `spent` are the costs of the earlier draws and, last, of the new draw. ε is computed at the Rényi order `order`.
    """
    failure, number = spending.together(spent)[1], len(spent) - 1
    if failure >= delta:
        return f"this draw and {number} before it have a failure probability of up to {failure:g}, so ε = ∞"
    epsilon = f"ε = {four_digits(spending.epsilon(spent, delta, order))}"
    return f"this draw and {number} before it would cost {epsilon}" if number else f"this draw costs {epsilon}"


def _adds_up(earlier: Sequence[Spending], last: Spending) -> bool:
    """Return True if the cost of the new draw `last` adds to the costs of `earlier` draws.

    Costs do not add up if the draws use disjoint teachers of one partition.
    """
    apart = np.maximum(spending.together(earlier)[0], spending.together([last])[0])
    return not np.array_equal(spending.together([*earlier, last])[0], apart)


def _read_entry(content: Mapping[str, Any]) -> Entry:
    divergences = np.array([float(value) for value in content["divergences"]])
    if divergences.shape != conversion.ORDERS.shape or not (divergences >= 0).all():
        raise ValueError(
            f"the divergences of a draw must be {len(conversion.ORDERS)} numbers of at least 0, one per order"
        )
    teachers = None if content["teachers"] is None else (int(content["teachers"][0]), int(content["teachers"][1]))
    failure = float(content["failure"])
    if not 0 <= failure <= 1:
        raise ValueError(f"the failure probability of a draw must be from 0 to 1, not {failure:g}")
    spent = Spending(
        partition=str(content["partition"]),
        divergences=divergences,
        failure=failure,
        teachers=teachers,
        protects=tuple(map(str, content.get("protects", ()))),  # older ledgers lack it
        owners=None if content.get("owners") is None else str(content["owners"]),  # older ledgers lack it
    )
    facts = {name: content[name] for name in ("what", "mechanism", "parameters", "queries", "when", "key")}
    return Entry(spent=spent, ensemble=content.get("ensemble"), votes=content.get("votes"), **facts)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    facts = {name: value for name, value in vars(entry).items() if name != "spent"}
    spent = entry.spent
    return {
        **facts,
        "parameters": json_parameters({name: float(value) for name, value in entry.parameters.items()}),
        "partition": spent.partition,
        "protects": spent.protects,
        "owners": spent.owners,
        "teachers": spent.teachers,
        "failure": spent.failure,
        "divergences": [in_json(float(value)) for value in spent.divergences],
    }
