"""The ledger of releases: one file for each private data set, into which a draw is entered before it is made.

A ledger recognises its data by a digest of the private records, or of the counts of a table of votes, and by the name
that a user gives to the data. A digest recognises neither a changed record nor another query: only a name does. The
ledger is as private as the data. It does not contain draws that were made with another folder.
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
from patebench.core.files import Artefact, check_writable, read_json, write_json
from patebench.core.locks import alone
from patebench.core.seeds import Mode
from patebench.core.text import in_json, plural
from patebench.data.division import tallies
from patebench.mechanisms.base import Mechanism, check_abstentions, check_budget, check_drawable, keeper_of, plain

log = logging.getLogger("patebench")
_KIND = "ledger"

#: Hexadecimal digits of a digest that a ledger keeps, to recognise its data.
_DIGITS = 32

#: The (ε, δ) that the order of a ledger suits best where no limit is given with the first draw.
_NOMINAL = LedgerParameters(budget=4.0, delta=1e-5)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A draw: what it makes, by which mechanism, for how many queries, and what it costs.

    `key` is a random word that the release stores: nothing else shows whether it stands in a ledger. `ensemble` is the
    number of all teachers; None for draws that are not of labels, and in older ledgers. `votes` is the digest of the
    votes, None on the secure path, where nobody sees all. A ledger is private, so it may store one.
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
    """Where a stage enters a release: the folder of the ledgers, the limit of all releases, the name of the data.

    Without a folder nothing is written: labels from a seed are no release.
    """

    folder: Path | None
    limit: LedgerParameters | None = None
    private: str | None = None

    @classmethod
    def of(
        cls, mode: Mode, folder: Path | None, budget: float | None, delta: float | None, private: str | None
    ) -> "Place":
        """Return the place of a command's options; PatebenchError for a release without a ledger, and vice versa."""
        options = {"ledger": folder, "ledger-budget": budget, "ledger-delta": delta, "private": private}
        if mode is Mode.SEEDED and (used := [f"--{name}" for name, value in options.items() if value is not None]):
            line = f"labels from a seed are no release, and no ledger counts them; leave out {used[0]}"
            raise PatebenchError(line, code="release", where=used[0])
        if mode is Mode.RELEASE and folder is None:
            line = "is missing; a release is written down in the folder of ledgers before it is drawn"
            raise PatebenchError(line, code="missing", where="--ledger")
        limits = {"budget": budget, "delta": delta, "private": private}
        given = {name: value for name, value in limits.items() if value is not None}
        settings = LedgerSettings.checked(given, "ledger") if given else None
        return cls(folder, settings.limit if settings else None, private)

    def write_down(
        self,
        source: Artefact,
        out: Path,
        name: str,
        made: Mechanism,
        votes: Votes,
        key: str | None = None,
        **more: Any,
    ) -> list[str]:
        """Enter a draw by a mechanism on these votes of VOTES or a CHUNK, which is to become `out`.

        Returns the entry's key, for labels from a seed none, as nothing is entered. `more` are arguments of `cost`.
        """
        if self.folder is None:
            return []
        check_writable(out)
        check_drawable(made, votes)
        spent = cost(name, made, votes, shards_of(source), **more)
        known = {"key": key} if key else {}
        entry = Entry(
            what=str(out), mechanism=name, parameters=made.parameters(), queries=votes.queries, spent=spent,
            ensemble=votes.teachers, votes=None if "teachers" in more else source.digest, **known,
        )  # fmt: skip
        self.enter(records_of(source), entry)
        return [entry.key]

    def check_same_shards(self, source: Artefact, before: Artefact) -> None:
        """Refuse VOTES whose partition is not that of the draws of LABELS, whose neighbours would be others.

        Tables of several rounds are bounded together for a change of one shard, so all must have the same shards.
        """
        if self.folder is None:
            return
        ledger = Ledger.of(self.folder, records_of(source), self.private)
        own = set(before.meta["entries"])
        drawn = {each.key: each.spent.partition for each in ledger.entries if each.key in own}
        if drawn.keys() != own:
            fault = f"{before.path} is a release, and it does not stand there"
            raise ArtefactError(ledger.path, fault, "give its ledger", code="not-entered")
        if set(drawn.values()) - {shards_of(source)}:
            fault = f"it was drawn from votes of another partition than {source.path}"
            raise ArtefactError(before.path, fault, "take votes of the same teachers in all rounds", code="mismatch")

    def enter(self, records: str, entry: Entry) -> None:
        """Enter a draw from the private records of this digest; do nothing without a folder."""
        if self.folder is not None:
            enter(self.folder, records, entry, self.limit, self.private)


def records_of(source: Artefact) -> str:
    """Return a digest of the private records behind VOTES, a CHUNK or a table, whatever their data set is called.

    Votes without it have the digest of their partition, so that ensembles on the same shards share a ledger; and votes
    without either that of their counts.
    """
    known = source.meta.get("records") or source.meta["partition"]
    return str(known or tallies(counts(source["votes"], int(source.meta["classes"]), abstentions=True)))


def shards_of(source: Artefact) -> str:
    """Return what names the shards that VOTES, a CHUNK or a table are of: draws of one name have the same teachers."""
    return str(source.meta["partition"] or records_of(source))


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All draws from one private data set that were entered here.

    `records` are the digests by which the data are recognised, and `private` the name that was given to them.
    """

    path: Path
    private: str | None = None
    records: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    #: The (ε, δ) that all draws together keep.
    limit: LedgerParameters | None = None
    #: The Rényi order at which the limit is kept. The first draw fixes it, before anything was seen.
    order: float | None = None

    @property
    def spent(self) -> list[Spending]:
        return [each.spent for each in self.entries]

    def has_name(self, private: str | None) -> bool:
        """True if `private` is the name of its data; capital letters do not count."""
        return private is not None and self.private is not None and self.private.casefold() == private.casefold()

    @classmethod
    def of(cls, folder: Path, records: str, private: str | None = None) -> "Ledger":
        """Return the ledger of the records with this digest, or of the data of this name; empty if there is none.

        ArtefactError for a damaged ledger in the folder, as it may be that of these data, and for data of two ledgers.
        """
        records, known = records[:_DIGITS], cls.read_all(folder)
        found = [each for each in known if records in each.records or each.has_name(private)]
        if len(found) > 1:
            raise ArtefactError(
                found[0].path,
                f"it is a ledger of this private data, and so is {found[1].path}, and draws in two ledgers are not "
                "counted together",
                "take the file that is a copy out of the folder, or leave out a --private that names other data",
                code="two-ledgers",
            )
        if not found:
            path = folder / f"{private or records}.json"
            if path.exists():
                fix = "choose another name --private"
                raise ArtefactError(path, "it is the ledger of other private data", fix, code="taken")
            return cls(path=path)
        (ledger,) = found
        if private is not None and ledger.private is not None and not ledger.has_name(private):
            raise ArtefactError(
                ledger.path,
                f"this private data has the permanent name '{ledger.private}', and '{private}' is given",
                f"give --private {ledger.private}",
                code="other-name",
            )
        return ledger

    @classmethod
    def read_all(cls, folder: Path) -> list["Ledger"]:
        """Return all ledgers in a folder."""
        return [cls.read(path) for path in sorted(folder.glob("*.json"))]

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        fix = "restore it from a copy: without it nobody knows what was released from this data"
        try:
            content = read_json(path, _KIND)
        except ArtefactError as fault:
            raise ArtefactError(path, fault.fault, fix, code=fault.code) from None
        try:
            if content["orders"] != conversion.ORDERS.tolist():
                line = "it counts at other orders than this version"
                raise ArtefactError(path, line, "use the version that wrote it", code="older")
            entries = tuple(_entry(each) for each in content["entries"])
            kept = content["limit"]
            limit = LedgerParameters(budget=kept["epsilon"], delta=kept["delta"]) if kept else None
            order = float(content["order"])
            private, records = content.get("private"), tuple(map(str, content.get("records", [path.stem])))
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise ArtefactError(path, f"it is not as patebench writes it ({fault!r})", fix, code="damaged") from None
        return cls(path=path, private=private, records=records, entries=entries, limit=limit, order=order)

    def write(self) -> None:
        entries = [_written(each) for each in self.entries]
        known = {"private": self.private, "records": self.records}
        content = {"orders": conversion.ORDERS.tolist(), "order": self.order, "limit": self.kept, "entries": entries}
        write_json(self.path, _KIND, {**known, **content})

    @property
    def kept(self) -> dict[str, float] | None:
        """Return the limit as JSON has it."""
        return {"epsilon": self.limit.budget, "delta": self.limit.delta} if self.limit else None


def cost(
    name: str,
    made: Mechanism,
    votes: Votes,
    partition: str,
    *,
    teachers: tuple[int, int] | None = None,
    adaptive: bool = False,
    budget: tuple[float, float] | None = None,
) -> Spending:
    """Return the worst-case cost of labels of these queries in discrete noise; less if a budget (ε, δ) ends them.

    A release's own budget is a filter at one order: there and at all orders below nothing exceeds what it allows.
    """
    check_abstentions(made, votes)
    valid = valid_for_discrete_noise(made.accountants(votes))
    found = spending.worst_case(valid_for_adaptive_queries(valid) if adaptive else valid, votes.queries)
    if found is None:
        line = f"the mechanism '{name}' has no Rényi bound to write into a ledger; use another"
        raise PatebenchError(line, code="no-bound")
    divergences, failure = found
    if np.isinf(divergences).all():
        line = f"'{name}' with these parameters hides nothing (ε = ∞), so there is no release; add noise"
        raise PatebenchError(line, code="no-noise")
    if budget is not None:
        keeper = keeper_of(check_budget(name, made, votes.teachers, votes.classes), *budget)
        kept = np.where(keeper.order >= conversion.ORDERS, keeper.allowance, np.inf)
        divergences = np.minimum(divergences, kept)
    return Spending(partition=partition, divergences=divergences, failure=failure, teachers=teachers)


def enter(
    folder: Path, records: str, entry: Entry, limit: LedgerParameters | None, private: str | None = None
) -> Ledger:
    """Enter a draw before it is made; PatebenchError, and nothing written, for one that may not be made.

    Parameters
    ----------
    records : digest of the private records
    limit : what all draws together may cost; it is fixed with the first draw, and without it there may be no other
    private : the name of the private data, which stays
    """
    with alone(folder / "ledgers"):
        before = Ledger.of(folder, records, private)
        if not before.entries:
            _check_others(folder, limit, private)
        # A limit that is chosen after a draw was seen would hold at δ for each choice, not for all of them.
        kept = before.limit if before.entries else limit
        now = [*before.spent, entry.spent]
        aim = kept or _NOMINAL
        order = before.order or spending.best_order([entry.spent], aim.budget, aim.delta)
        _check(before, now, limit, kept, order)
        after = Ledger(
            path=before.path,
            private=before.private or private,
            records=tuple(dict.fromkeys((*before.records, records[:_DIGITS]))),
            entries=(*before.entries, replace(entry, when=datetime.now(UTC).isoformat(timespec="seconds"))),
            limit=kept,
            order=order,
        )
        after.write()
    log.info("%s: draw number %d of this private data", after.path, len(after.entries))
    return after


def name_ledger(path: Path, private: str) -> None:
    """Give the data of a ledger a permanent name; PatebenchError if they have another one, or other data has it."""
    LedgerSettings.checked({"private": private}, "ledger")
    if not path.is_file():
        line = "only the data of one ledger get a name; give the path of the ledger's file"
        raise PatebenchError(line, code="missing-file", where=path)
    with alone(path.parent / "ledgers"):
        ledger = Ledger.read(path)
        for each in Ledger.read_all(path.parent):
            if each.path.name != path.name and each.private == private:
                raise ArtefactError(
                    each.path, f"its data has the name '{private}'", "choose another name", code="taken"
                )
        if ledger.private not in (None, private):
            line = f"its data has the permanent name '{ledger.private}'"
            raise ArtefactError(path, line, "keep that name", code="other-name")
        replace(ledger, private=private).write()


def _check_others(folder: Path, limit: LedgerParameters | None, private: str | None) -> None:
    """Refuse a first draw without a limit beside ledgers without a name, whose data it may be in another form.

    A draw without a name is refused beside any other ledger. Elsewhere a line says that the draw is counted apart.
    """
    ledgers = Ledger.read_all(folder) if folder.exists() else []
    doubtful = [each for each in ledgers if private is None or each.private is None]
    if not ledgers:
        return
    others = plural(len(doubtful or ledgers), "other ledger")
    words = f"this private data is not recognised, and the {others} may be of the same data in another form"
    if doubtful and limit is None:
        name = (
            "name the data (ledger: {private: …} in a configuration, --private of a command)"
            if private is None
            else "name the data of the others first (patebench ledger FILE --private NAME)"
        )
        raise ArtefactError(
            folder,
            words,
            f"{name}, or give a limit (ledger: {{budget: …, delta: …}}, --ledger-budget and --ledger-delta)",
            code="not-recognised",
        )
    click.echo(f"{folder}: {words}; it is counted apart from these, unless --private gives their name", err=True)


def _check(
    before: Ledger, now: Sequence[Spending], asked: LedgerParameters | None, kept: LedgerParameters | None, order: float
) -> None:
    """Refuse a draw that the limit `kept` does not allow, and another limit than that of the first draw."""
    drawn = len(before.entries)
    if kept is None:
        if drawn and (asked is not None or _adds(before.spent, now[-1])):
            raise ArtefactError(
                before.path,
                f"{_draws(drawn)} made from this private data already ({before.entries[-1].what}) without a limit, and "
                "a limit that is given afterwards does not hold for what was seen before, so there may be no other",
                "give a limit with the first draw where several may follow (ledger: {budget: …, delta: …} in a "
                "configuration, --ledger-budget and --ledger-delta of a command)",
                code="no-limit",
            )
    elif asked is not None and asked != kept:
        raise ArtefactError(
            before.path,
            f"all releases of this private data are to keep ε = {kept.budget:g} at δ = {kept.delta:g}, and "
            f"ε = {asked.budget:g} at δ = {asked.delta:g} is asked for now",
            "keep the first limit: what was released under it was promised more",
            code="other-limit",
        )
    elif not spending.keeps(now, kept.budget, kept.delta, order):
        raise ArtefactError(
            before.path,
            f"{_together(now, kept.delta, order)} at δ = {kept.delta:g}, and all releases of this private data are to "
            f"keep ε = {kept.budget:g}",
            "use more noise, fewer queries or a smaller budget for this one",
            code="above-limit",
        )


def _together(now: Sequence[Spending], delta: float, order: float) -> str:
    """Say what this draw and those before it would cost at the order of the ledger."""
    failure = spending.together(now)[1]
    if failure >= delta:
        return f"this draw and {len(now) - 1} before it may fail with a probability of {failure:g}, which leaves no ε"
    epsilon = f"ε = {four_digits(spending.epsilon(now, delta, order))}, counted at the Rényi order of the first draw,"
    return f"this draw and {len(now) - 1} before it would cost {epsilon}" if now[1:] else f"it costs {epsilon}"


def _draws(number: int) -> str:
    return "1 draw was" if number == 1 else f"{number} draws were"


def _adds(before: Sequence[Spending], last: Spending) -> bool:
    """Return True if a teacher pays twice, unlike when chunks of teachers each cut shares of one release."""
    apart = np.maximum(spending.together(before)[0], spending.together([last])[0])
    return not np.array_equal(spending.together([*before, last])[0], apart)


def _entry(content: Mapping[str, Any]) -> Entry:
    divergences = np.array([float(value) for value in content["divergences"]])
    if divergences.shape != conversion.ORDERS.shape or not (divergences >= 0).all():
        raise ValueError("divergences are not one number of at least 0 for each order")
    teachers = None if content["teachers"] is None else (int(content["teachers"][0]), int(content["teachers"][1]))
    failure = float(content["failure"])
    if not 0 <= failure <= 1:
        raise ValueError("a failure is no probability")
    spent = Spending(partition=str(content["partition"]), divergences=divergences, failure=failure, teachers=teachers)
    facts = {name: content[name] for name in ("what", "mechanism", "parameters", "queries", "when", "key")}
    return Entry(spent=spent, ensemble=content.get("ensemble"), votes=content.get("votes"), **facts)


def _written(entry: Entry) -> dict[str, Any]:
    facts = {name: value for name, value in vars(entry).items() if name != "spent"}
    spent = entry.spent
    return {
        **facts,
        "parameters": plain({name: float(value) for name, value in entry.parameters.items()}),
        "partition": spent.partition,
        "teachers": spent.teachers,
        "failure": spent.failure,
        "divergences": [in_json(float(value)) for value in spent.divergences],
    }
