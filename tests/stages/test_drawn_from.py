"""Test that labels are matched with their votes, and that publishable files do not identify the votes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stages.commands import invoke
from tests.stages.digits import Ensemble
from tests.stages.labels import (
    STUDENT,
    bounds_of,
    draw_release,
    even_votes,
    release_labels,
    write_chunk,
    write_votes,
    write_weighted_votes,
)

from patebench.config.parameters import PartitionParameters, SelectionParameters, StudentParameters
from patebench.core.errors import ArtefactError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import CHUNK, LABELS, PARTITION, QUERIES, SAMPLES, VOTES
from patebench.data.partitions import PARTITIONS
from patebench.release.ledger_file import Ledger
from patebench.stages import (
    partition,
    secure_open,
    secure_share,
    secure_sum,
    select_queries,
    train_student,
)

SEEDED = {"seed": 0, "stream": "s"}
LIMIT = {"ledger_budget": 1e6, "ledger_delta": 1e-5}
GNMAX: tuple[str, dict[str, float]] = ("gnmax", {"sigma": 40.0})
SPARSE: tuple[str, dict[str, float]] = ("sparse-gnmax", {"k": 1.0, "sigma": 20.0})
DISTRIBUTED: tuple[str, dict[str, float]] = ("distributed-gnmax", {"sigma": 20.0, "tolerance": 5.0})
TABLE: tuple[str, dict[str, float]] = ("distributed-sparse-gnmax", {"k": 1.0, "sigma": 20.0, "tolerance": 5.0})


def protecting(strategy: str, rule: str | None = None) -> dict[str, Any]:
    """Return the metadata of votes for a partition."""
    facts = {name: PARTITIONS.fact(strategy, name) for name in ("protects", "protection")}
    return {"partition_rule": rule or strategy, **facts}


def votes_of(path: Path, teachers: int, queries: int = 12, **facts: Any) -> Path:
    return write_votes(path, even_votes(teachers, queries), **facts)


def test_the_number_of_teachers_counts_for_a_table_of_your_own(tmp_path: Path) -> None:
    paths = {teachers: tmp_path / f"{teachers}.csv" for teachers in (50, 250)}
    for teachers, path in paths.items():
        np.savetxt(path, np.full((8, 2), teachers // 2), fmt="%d", delimiter=",")
    labels = draw_release(paths[50], *GNMAX, tmp_path / "labels.npz")
    with pytest.raises(ArtefactError, match="its 'teachers' is"):
        bounds_of(paths[250], labels)
    stated = bounds_of(paths[50], labels)
    assert (stated["teachers"], stated["protects"]) == (50, None)
    assert "which records these depend on is not known" in stated["protection"]


@pytest.mark.parametrize(
    ("mechanism", "teachers", "facts"),
    [
        (GNMAX, 2000, protecting("hash")),
        (TABLE, 30, protecting("hash")),
        (SPARSE, 50, protecting("hash-owners")),
        (GNMAX, 50, protecting("iid")),
        (DISTRIBUTED, 50, protecting("hash", "hash_other")),
        (SPARSE, 50, {}),
        (SPARSE, 50, {**protecting("hash"), "abstentions": True}),
    ],
)
def test_a_release_is_accounted_only_with_votes_like_those_that_it_was_drawn_from(
    tmp_path: Path, mechanism: tuple[str, dict[str, float]], teachers: int, facts: dict[str, Any]
) -> None:
    own, other = votes_of(tmp_path / "own.npz", 50, **protecting("hash")), tmp_path / "b.npz"
    votes_of(other, teachers, **facts)
    labels = draw_release(own, *mechanism, tmp_path / "labels.npz")
    fault = r"its '(teachers|partition_rule|protects|abstentions)' is .*, but that of .*b\.npz is"
    for ledger in ({}, {"ledger": tmp_path / "labels-ledger"}):
        with pytest.raises(ArtefactError, match=fault):
            bounds_of(other, labels, **ledger)
    assert not (tmp_path / "labels.json").exists()
    stated = bounds_of(own, labels)
    expected = {"teachers": 50, "partition_rule": "hash", "protection": PARTITIONS.fact("hash", "protection")}
    assert expected.items() <= stated.items()


def test_weights_of_votes_are_those_of_the_votes_that_were_drawn_from(tmp_path: Path) -> None:
    """Refuse other votes without a ledger too: at σ = 20, ε is 0.4970 for votes with weights and 0.3407 for others."""
    facts = protecting("hash")
    weighted = write_weighted_votes(tmp_path / "weighted.npz", **facts)
    plain = votes_of(tmp_path / "plain.npz", 50, abstentions=True, neighbours=None, **facts)
    for own, other in ((weighted, plain), (plain, weighted)):
        labels = draw_release(own, *SPARSE, tmp_path / f"{own.stem}-labels.npz")
        with pytest.raises(ArtefactError, match=rf"its 'weighted' is .*, but that of .*{other.stem}\.npz is"):
            bounds_of(other, labels)
        assert not labels.with_suffix(".json").exists()
        bounds_of(own, labels)


def test_labels_of_the_secure_path_store_the_protection_of_each_chunk(tmp_path: Path) -> None:
    """Check that labels of a skewed partition do not claim to protect all records of one owner."""
    chunks = {name: _chunk(tmp_path / f"{name}.npz", **protecting(name)) for name in ("skew", "hash-owners")}
    labels = tmp_path / "labels.npz"
    secure_open.run(sums=_summed(tmp_path, chunks["skew"], **SEEDED), labels=labels, counts=tmp_path / "counts.npz")
    with pytest.raises(ArtefactError, match=r"its 'partition_rule' is"):
        bounds_of(votes_of(tmp_path / "votes.npz", 12, **protecting("hash-owners")), labels)
    assert bounds_of(votes_of(tmp_path / "own.npz", 12, **protecting("skew")), labels)["protects"] == []
    mixed = [_shared(tmp_path, chunks[name], name, **SEEDED)[0] for name in chunks]
    with pytest.raises(ArtefactError, match=r"its 'partition_rule' is .*, but that of .* is"):
        secure_sum.run(shares=mixed, out=tmp_path / "mixed.npz")


def _chunk(path: Path, **facts: Any) -> Path:
    return write_chunk(path, even_votes(12), range(12), **facts)


def _shared(folder: Path, chunk: Path, name: str = "", teachers: int = 12, **drawn: Any) -> list[Path]:
    out = [folder / f"shares-{name}-{i}" / "shares.npz" for i in range(2)]
    mechanism, parameters = DISTRIBUTED
    secure_share.run(chunk=chunk, mechanism=mechanism, parameters=parameters, teachers=teachers, out=out, **drawn)
    return out


def _summed(folder: Path, chunk: Path, **drawn: Any) -> list[Path]:
    sums = [folder / f"sum-{i}.npz" for i in range(2)]
    for share, out in zip(_shared(folder, chunk, **drawn), sums, strict=True):
        secure_sum.run(shares=[share], out=out)
    return sums


@pytest.mark.parametrize("lost", ["teachers", "protects", "protection", "partition_rule"])
def test_labels_of_an_older_version_are_refused_in_one_line(tmp_path: Path, lost: str) -> None:
    votes, old = votes_of(tmp_path / "votes.npz", 50, **protecting("hash")), tmp_path / "older.npz"
    labels = read_arrays(draw_release(votes, *GNMAX, tmp_path / "labels.npz"), LABELS)
    facts = {name: fact for name, fact in labels.meta.items() if name != lost}
    write_arrays(old, replace(LABELS, meta=()), labels.arrays, facts)
    with pytest.raises(ArtefactError, match=f"lacks the entry '{lost}'; an older version wrote it") as fault:
        bounds_of(votes, old)
    assert "delete" not in str(fault.value)


def _changed(labels: Path, out: Path, arrays: dict[str, Any] | None = None, **facts: Any) -> Path:
    held = read_arrays(labels, LABELS)
    write_arrays(out, LABELS, {**held.arrays, **(arrays or {})}, {**held.meta, **facts})
    return out


def test_the_entry_in_the_ledger_must_match_the_labels_and_the_votes(tmp_path: Path) -> None:
    known = {"records": "r", **protecting("hash")}
    own, ledger = votes_of(tmp_path / "own.npz", 50, **known), {"ledger": tmp_path / "ledger"}
    labels = draw_release(own, *GNMAX, tmp_path / "labels.npz", **ledger)
    others = {
        "dealt": {"partition": "p2"},
        "more": {"teachers": 60},
        "fewer": {"queries": 11},
        "tested": {"test": "t2"},
    }
    other = {
        name: votes_of(tmp_path / f"{name}.npz", **{"teachers": 50, **known, **each}) for name, each in others.items()
    }
    distributed = {"mechanism": "distributed-gnmax", "parameters": {"sigma": 40.0, "tolerance": 0.0}}
    for votes, held, fault in (
        (other["dealt"], labels, "differs in the partition from"),
        (own, _changed(labels, tmp_path / "a.npz", parameters={"sigma": 400.0}), "differs in the parameters from"),
        (own, _changed(labels, tmp_path / "b.npz", **distributed), "differs in the mechanism from"),
        (other["more"], _changed(labels, tmp_path / "c.npz", teachers=60), "differs in the number of teachers from"),
        (other["fewer"], _changed(labels, tmp_path / "d.npz", {"labels": np.zeros(11, np.int32)}), "number of queries"),
        (other["tested"], labels, r"was drawn from other votes than .*tested\.npz"),
    ):
        with pytest.raises(ArtefactError, match=fault):
            bounds_of(votes, held, **ledger)
    with pytest.raises(ArtefactError, match="its queries differ from those of"):
        bounds_of(other["fewer"], labels)
    assert not list(tmp_path.glob("*.json"))
    bounds_of(own, labels, **ledger)


def test_without_a_ledger_a_release_says_what_was_not_checked(tmp_path: Path, capsys: Any) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting("hash"))
    labels = draw_release(votes, *GNMAX, tmp_path / "labels.npz")
    alone = bounds_of(votes, labels)
    assert "No ledger was given" in alone["statement"]
    assert "No ledger was given" in capsys.readouterr().err
    checked = bounds_of(votes, labels, ledger=tmp_path / "labels-ledger")
    assert "statement" not in checked
    assert checked["bounds"] == alone["bounds"]


def _four_queries(out: Path, first: int, after: str | None) -> Path:
    """Write QUERIES of a round after labels with the digest `after`."""
    facts = {"pool": "q", "classes": 4, "strategy": "random", "student": STUDENT, "labels": after}
    facts |= {"predictions": None, "features": None}
    write_arrays(out, QUERIES, {"queries": np.arange(first, first + 4)}, facts)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "own", "others"),
    [
        (
            ("sparse-gnmax", {"k": 2.0, "sigma": 20.0}),
            {"neighbours": 2},
            [(50, {**protecting("hash"), "neighbours": 3})],
        ),
        (GNMAX, {}, [(60, protecting("hash")), (50, protecting("iid")), (50, {})]),
    ],
    ids=["table", "labels"],
)
def test_a_later_round_is_drawn_from_votes_of_the_same_teachers(
    tmp_path: Path, mechanism: Any, own: dict[str, Any], others: list[tuple[int, dict[str, Any]]]
) -> None:
    votes, out = votes_of(tmp_path / "own.npz", 50, **protecting("hash"), **own), tmp_path / "out.npz"
    drawn = {"release": True, "ledger": tmp_path / "ledger", **LIMIT}
    first = _four_queries(tmp_path / "first.npz", 0, None)
    before = release_labels(votes, *mechanism, tmp_path / "round.npz", selected=first, **drawn)
    second = _four_queries(tmp_path / "later.npz", 4, read_arrays(before, LABELS).digest)
    for teachers, facts in others:
        other = votes_of(tmp_path / "other.npz", teachers, **facts)
        with pytest.raises(ArtefactError, match=r"its '(teachers|partition_rule|neighbours)' is .*other\.npz is"):
            release_labels(other, *mechanism, out, selected=second, earlier=before, **drawn)
    assert not out.exists()
    release_labels(votes, *mechanism, out, selected=second, earlier=before, **drawn)
    accounted = {"selected": [first, second], "ledger": tmp_path / "ledger"}
    bounds_of(votes, out, **accounted)
    tampered = _changed(out, tmp_path / "bad.npz", parameters={**mechanism[1], "sigma": 60.0})
    with pytest.raises(ArtefactError, match="differs in the parameters from"):
        bounds_of(votes, tampered, **accounted)


def test_no_file_that_may_be_published_stores_a_digest_of_private_data(tmp_path: Path) -> None:
    """Search public files for digests, which would confirm a guess of the last private record or of the votes."""
    made = Ensemble(tmp_path)
    np.save(tmp_path / "owners.npy", np.arange(len(read_arrays(made.private, SAMPLES)["y"])) // 2)
    by_hash = PartitionParameters(strategy="hash-owners", owners=str(tmp_path / "owners.npy"))
    inputs = made.files("private", "public")
    partition.run(**inputs, teachers=6, parameters=by_hash, **SEEDED, out=made.partition)
    chunk = made.train(0, 5)
    votes, _ = made.join(chunk)
    ledger = {"ledger": tmp_path / "ledger"}
    drawn = {"release": True, **ledger, **LIMIT}
    gnmax = {"mechanism": "gnmax", "parameters": {"sigma": 1.0}}
    student = StudentParameters(method="supervised", model="logistic")
    file = {name: tmp_path / f"{name}.npz" for name in ("queries", "round", "predictions", "later", "secure", "counts")}

    labels = release_labels(votes, **gnmax, out=tmp_path / "labels.npz", **drawn)
    bounds_of(votes, labels, **ledger)
    chosen = {"pool": made.pool, "features": None, "student": student, **SEEDED}
    random = SelectionParameters(strategy="random", queries=40)
    select_queries.run(**chosen, labels=None, predictions=None, selection=random, out=file["queries"])
    release_labels(votes, **gnmax, selected=file["queries"], out=file["round"], **drawn)
    bounds_of(votes, file["round"], selected=[file["queries"]], **ledger)
    train_student.run(
        pool=made.pool, labels=file["round"], test=made.test, parameters=student, queries=40, **SEEDED,
        out=tmp_path / "student.json", predictions=file["predictions"],
    )  # fmt: skip
    least = SelectionParameters(strategy="least-confident", queries=10)
    known = {"labels": file["round"], "predictions": file["predictions"]}
    select_queries.run(**chosen, **known, selection=least, out=file["later"])
    sums = _summed(tmp_path, chunk, teachers=6, **drawn)
    secure_open.run(sums=sums, labels=file["secure"], counts=file["counts"])
    bounds_of(votes, file["secure"], **ledger)
    public = [*file.values(), labels, *sums, tmp_path / "student.json"]
    public += [tmp_path / f"{name}.json" for name in ("labels", "round", "secure")]

    layouts = [(made.private, SAMPLES), (made.partition, PARTITION), (chunk, CHUNK), (votes, VOTES)]
    held = [read_arrays(path, layout) for path, layout in layouts]
    private = {each.digest for each in held} | {str(held[1].meta[name]) for name in ("records", "owners")}
    assert len(private) == 6
    assert {each.meta["owners"] for each in held[1:]} == {held[1].meta["owners"]}
    entered = [entry for each in Ledger.read_all(tmp_path / "ledger") for entry in each.entries]
    assert {entry.spent.owners for entry in entered} == {held[1].meta["owners"]}
    assert held[1].digest.encode() in votes.read_bytes(), "this is where a digest would be seen"
    for path in public:
        content = path.read_bytes()
        for digest in private:
            hidden = (digest[:16].encode(), bytes.fromhex(digest[:32]))
            assert not any(part in content for part in hidden), f"{path.name} holds a digest of private data"


def test_no_release_is_drawn_or_accounted_for_where_the_partition_protects_nothing(tmp_path: Path) -> None:
    """Refuse a release from a skewed partition in stages, as in a configuration."""
    facts = protecting("skew", "skew-0.8")
    votes, chunk = votes_of(tmp_path / "votes.npz", 50, **facts), _chunk(tmp_path / "chunk.npz", **facts)
    told = (
        r"its partition 'skew-0\.8' protects nobody's record: .*; use votes of a partition by one of iid, owners, hash,"
    )
    drawn = {"release": True, "ledger": tmp_path / "ledger"}
    with pytest.raises(ArtefactError, match=told):
        release_labels(votes, *GNMAX, tmp_path / "labels.npz", **drawn)
    with pytest.raises(ArtefactError, match=told):
        _shared(tmp_path, chunk, **drawn)
    shown = ("epsilon", votes, "--mechanism", "gnmax", "--sigma", "40", "--delta", "1e-5")
    for more in (["--release"], ["--sanitise", "--ledger", tmp_path / "ledger"]):
        assert "protects nobody" in str(invoke(*shown, *more).exception)
    assert not (tmp_path / "ledger").exists()
    assert not (tmp_path / "labels.npz").exists()
    said = " ".join(invoke(*shown).output.split())
    assert "Nothing to publish: its partition 'skew-0.8' protects" in said
    assert "no release can be drawn from these votes" in said
    assert json.loads(invoke(*shown, "--json").stdout)["released"] is None
    # Labels from a seed are for experiments and may be of any partition; their metadata does not make them a release.
    labels = release_labels(votes, *GNMAX, tmp_path / "seeded.npz", **SEEDED)
    bounds_of(votes, labels, [12])
    changed = _changed(labels, tmp_path / "changed.npz", mode="release", votes=None)
    with pytest.raises(ArtefactError, match="protects nobody's record"):
        bounds_of(votes, changed)
    assert not (tmp_path / "changed.json").exists()


@pytest.mark.parametrize("strategy", [name for name in PARTITIONS if PARTITIONS.fact(name, "protects")])
def test_a_release_is_drawn_where_the_partition_protects_something(tmp_path: Path, strategy: str) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting(strategy))
    labels = draw_release(votes, *GNMAX, tmp_path / "labels.npz")
    assert bounds_of(votes, labels)["protection"] == PARTITIONS.fact(strategy, "protection")
