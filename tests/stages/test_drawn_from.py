"""Test that labels are matched with their votes, and that publishable files do not identify the votes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.stages.ensemble import Ensemble
from tests.stages.labels import draw_release, release_labels, state_bounds, write_votes, write_weighted_votes
from tests.steps import STUDENT

from patebench.cli import cli
from patebench.config.parameters import AccountParameters, PartitionParameters, SelectionParameters, StudentParameters
from patebench.core.errors import ArtefactError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import CHUNK, LABELS, PARTITION, QUERIES, SAMPLES, TRUTH, VOTES
from patebench.data.partitions import PARTITIONS
from patebench.stages import (
    account,
    aggregate,
    collect,
    partition,
    secure_open,
    secure_share,
    secure_sum,
    select_queries,
    train_student,
)

SEEDED = {"seed": 0, "stream": "s"}
LIMIT = {"ledger_budget": 1e6, "ledger_delta": 1e-5}
MECHANISMS = [
    ("gnmax", {"sigma": 40.0}),
    ("distributed-gnmax", {"sigma": 20.0, "tolerance": 5.0}),
    ("distributed-sparse-gnmax", {"k": 1.0, "sigma": 20.0, "tolerance": 5.0}),
    ("sparse-gnmax", {"k": 1.0, "sigma": 20.0}),
]


def protecting(strategy: str, rule: str | None = None) -> dict[str, Any]:
    """Return the metadata of votes for a partition."""
    facts = {name: PARTITIONS.fact(strategy, name) for name in ("protects", "protection")}
    return {"partition_rule": rule or strategy, **facts}


def votes_of(path: Path, teachers: int, queries: int = 12, **facts: Any) -> Path:
    votes = np.arange(teachers)[:, None] % 4 + np.zeros((1, queries), int)
    return write_votes(path, votes, votes[:, :2], **facts)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), MECHANISMS, ids=lambda each: each if isinstance(each, str) else "")
@pytest.mark.parametrize("others", [50, 2000])
@pytest.mark.parametrize("with_ledger", [True, False], ids=["ledger", "alone"])
def test_a_release_is_not_accounted_with_votes_of_another_number_of_teachers(
    tmp_path: Path, name: str, parameters: dict[str, float], others: int, with_ledger: bool
) -> None:
    """Refuse them, because ε may depend on the number of teachers."""
    own, other = votes_of(tmp_path / "own.npz", 250), votes_of(tmp_path / "other.npz", others)
    labels = draw_release(own, name, parameters, tmp_path / "labels.npz")
    ledger = {"ledger": tmp_path / "labels-ledger"} if with_ledger else {}
    with pytest.raises(ArtefactError, match=rf"another teachers than .*other\.npz \(250 instead of {others}\); give"):
        state_bounds(other, labels, [], tmp_path / "bounds.json", **ledger)
    assert not (tmp_path / "bounds.json").exists()
    stated = read_json(state_bounds(own, labels, [], tmp_path / "bounds.json", **ledger), "account")
    assert stated["teachers"] == 250


def test_the_number_of_teachers_counts_for_a_table_of_your_own(tmp_path: Path) -> None:
    paths = {teachers: tmp_path / f"{teachers}.csv" for teachers in (50, 250)}
    for teachers, path in paths.items():
        np.savetxt(path, np.full((8, 2), teachers // 2), fmt="%d", delimiter=",")
    labels = draw_release(paths[50], "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    with pytest.raises(ArtefactError, match="another teachers"):
        state_bounds(paths[250], labels, [], tmp_path / "bounds.json")
    stated = read_json(state_bounds(paths[50], labels, [], tmp_path / "bounds.json"), "account")
    assert (stated["teachers"], stated["protects"]) == (50, None)
    assert "which records these depend on is not known" in stated["protection"]


@pytest.mark.parametrize(
    "facts",
    [
        protecting("hash-owners"),
        protecting("iid"),
        protecting("hash", "hash_other"),
        {},
        {**protecting("hash"), "abstentions": True},
    ],
    ids=["owners", "iid", "rule", "none", "abstentions"],
)
def test_protection_and_rule_are_those_of_the_votes_that_were_drawn_from(tmp_path: Path, facts: dict[str, Any]) -> None:
    own, other = votes_of(tmp_path / "own.npz", 50, **protecting("hash")), votes_of(tmp_path / "b.npz", 50, **facts)
    labels = draw_release(own, "sparse-gnmax", {"k": 1.0, "sigma": 20.0}, tmp_path / "labels.npz")
    with pytest.raises(ArtefactError, match=r"another (partition_rule|protects|abstentions) than .*b\.npz \("):
        state_bounds(other, labels, [], tmp_path / "bounds.json")
    with pytest.raises(ArtefactError, match="another"):
        _collect(tmp_path, other, labels)
    stated = read_json(state_bounds(own, labels, [], tmp_path / "bounds.json"), "account")
    assert stated["protection"] == PARTITIONS.fact("hash", "protection")
    assert stated["partition_rule"] == "hash"


def test_weights_of_votes_are_those_of_the_votes_that_were_drawn_from(tmp_path: Path) -> None:
    """Refuse them without a ledger too: at σ = 20, ε is 0.4970 for votes with weights and 0.3407 for others."""
    facts = protecting("hash")
    weighted = write_weighted_votes(tmp_path / "weighted.npz", **facts)
    plain = votes_of(tmp_path / "plain.npz", 50, abstentions=True, neighbours=None, **facts)
    for own, other in ((weighted, plain), (plain, weighted)):
        labels = draw_release(own, "sparse-gnmax", {"k": 1.0, "sigma": 20.0}, tmp_path / f"{own.stem}-labels.npz")
        with pytest.raises(ArtefactError, match=rf"another weighted than .*{other.stem}\.npz \("):
            state_bounds(other, labels, [], tmp_path / "bounds.json")
        assert not (tmp_path / "bounds.json").exists()
        state_bounds(own, labels, [], tmp_path / f"{own.stem}.json")


def _collect(folder: Path, votes: Path, labels: Path) -> None:
    found = read_arrays(votes, VOTES)
    write_arrays(
        folder / "truth.npz", TRUTH, {"y": np.zeros(found["votes"].shape[1], int)}, {"pool": "q", "classes": 4}
    )
    split = {"dataset": "d", "split": {"pool": 12}, "seed": 0, "model": "m", "recipe": "r", "epochs": None}
    facts = {"votes": found.digest, "teachers": 50, "partition": "hash", "training": {"model": "m"}}
    write_json(folder / "ensemble.json", "join_votes", {**split, **facts})
    collect.run(
        ensemble=folder / "ensemble.json", votes=votes, truth=folder / "truth.npz", labels=[labels], bounds=[],
        students=[], out=folder / "collected.json",
    )  # fmt: skip


def test_labels_of_the_secure_path_store_the_protection_of_each_chunk(tmp_path: Path) -> None:
    """Check that labels of a skewed partition do not claim to protect all records of one owner."""
    chunks = {name: _chunk(tmp_path / f"{name}.npz", **protecting(name)) for name in ("skew", "hash-owners")}
    sums = _summed(tmp_path, chunks["skew"], **SEEDED)
    labels = tmp_path / "labels.npz"
    secure_open.run(sums=sums, labels=labels, counts=tmp_path / "counts.npz")
    other = votes_of(tmp_path / "votes.npz", 12, **protecting("hash-owners"))
    with pytest.raises(ArtefactError, match="another partition_rule"):
        state_bounds(other, labels, [], tmp_path / "bounds.json")
    own = votes_of(tmp_path / "own.npz", 12, **protecting("skew"))
    assert read_json(state_bounds(own, labels, [], tmp_path / "bounds.json"), "account")["protects"] == []
    mixed = [_shared(tmp_path, chunks[name], name, **SEEDED)[0] for name in chunks]
    with pytest.raises(ArtefactError, match="entry 'partition_rule' does not match"):
        secure_sum.run(shares=mixed, out=tmp_path / "mixed.npz")


def _chunk(path: Path, **facts: Any) -> Path:
    votes = np.arange(12)[:, None] % 4 + np.zeros((1, 12), int)
    arrays = {"teachers": np.arange(12), "votes": votes, "test_votes": votes[:, :2]}
    known = {"partition": "p", "pool": "q", "test": "t", "classes": 4, "model": "m", "recipe": "r", "training": {}}
    write_arrays(path, CHUNK, arrays, {**known, **facts})
    return path


def _shared(folder: Path, chunk: Path, name: str = "", teachers: int = 12, **drawn: Any) -> list[Path]:
    out = [folder / f"shares-{name}-{i}" / "shares.npz" for i in range(2)]
    secure_share.run(
        chunk=chunk, mechanism="distributed-gnmax", parameters={"sigma": 20.0, "tolerance": 1.0}, teachers=teachers,
        out=out, **drawn,
    )  # fmt: skip
    return out


def _summed(folder: Path, chunk: Path, **drawn: Any) -> list[Path]:
    sums = [folder / f"sum-{i}.npz" for i in range(2)]
    for share, out in zip(_shared(folder, chunk, **drawn), sums, strict=True):
        secure_sum.run(shares=[share], out=out)
    return sums


@pytest.mark.parametrize("lost", ["teachers", "protects", "protection", "partition_rule"])
def test_labels_of_an_older_version_are_refused_in_one_line(tmp_path: Path, lost: str) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting("hash"))
    labels = read_arrays(draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz"), LABELS)
    older = {name: fact for name, fact in labels.meta.items() if name != lost}
    write_arrays(tmp_path / "older.npz", replace(LABELS, meta=()), labels.arrays, older)
    with pytest.raises(ArtefactError, match=f"lacks '{lost}'; an older version wrote it: use a release with") as fault:
        state_bounds(votes, tmp_path / "older.npz", [], tmp_path / "bounds.json")
    assert "delete" not in str(fault.value)
    with pytest.raises(ArtefactError, match=f"lacks '{lost}'"):
        _collect(tmp_path, votes, tmp_path / "older.npz")


def _changed(labels: Path, out: Path, arrays: dict[str, Any] | None = None, **facts: Any) -> Path:
    held = read_arrays(labels, LABELS)
    write_arrays(out, LABELS, {**held.arrays, **(arrays or {})}, {**held.meta, **facts})
    return out


def test_the_entry_in_the_ledger_must_match_the_labels_and_the_votes(tmp_path: Path) -> None:
    own = votes_of(tmp_path / "own.npz", 50, records="r", **protecting("hash"))
    ledger = {"ledger": tmp_path / "ledger"}
    labels = draw_release(own, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz", **ledger)
    dealt_again = votes_of(tmp_path / "dealt.npz", 50, records="r", **protecting("hash") | {"partition": "p2"})
    more = votes_of(tmp_path / "more.npz", 60, records="r", **protecting("hash"))
    fewer = votes_of(tmp_path / "fewer.npz", 50, queries=11, records="r", **protecting("hash"))
    for votes, held, differing in (
        (dealt_again, labels, "partition"),
        (own, _changed(labels, tmp_path / "a.npz", parameters={"sigma": 400.0}), "parameters"),
        (own, _changed(labels, tmp_path / "b.npz", mechanism="distributed-gnmax",
                       parameters={"sigma": 40.0, "tolerance": 0.0}), "mechanism"),
        (more, _changed(labels, tmp_path / "c.npz", teachers=60), "number of teachers"),
        (fewer, _changed(labels, tmp_path / "d.npz", {"labels": np.zeros(11, np.int32)}), "number of queries"),
    ):  # fmt: skip
        with pytest.raises(ArtefactError, match=rf"its entry for .* has another {differing} than these labels and"):
            state_bounds(votes, held, [], tmp_path / "bounds.json", **ledger)
    others = votes_of(tmp_path / "others.npz", 50, records="r", **protecting("hash") | {"test": "another"})
    with pytest.raises(ArtefactError, match=r"was drawn from other votes than .*others\.npz; give the votes"):
        state_bounds(others, labels, [], tmp_path / "bounds.json", **ledger)
    assert not (tmp_path / "bounds.json").exists()
    state_bounds(own, labels, [], tmp_path / "bounds.json", **ledger)


def test_epsilon_offers_nothing_to_publish_of_votes_that_protect_nobody(tmp_path: Path) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting("skew"))
    said = CliRunner().invoke(
        cli, ["epsilon", str(votes), *["--mechanism", "gnmax", "--sigma", "40", "--delta", "1e-5", "--json"]]
    )
    assert json.loads(said.stdout)["released"] is None
    said = CliRunner().invoke(
        cli, ["epsilon", str(votes), *["--mechanism", "gnmax", "--sigma", "40", "--delta", "1e-5"]]
    )
    assert "Nothing to publish: its partition 'skew' protects" in " ".join(said.stdout.split())


def test_without_a_ledger_a_release_says_what_was_not_checked(tmp_path: Path, capsys: Any) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting("hash"))
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    alone = read_json(state_bounds(votes, labels, [], tmp_path / "bounds.json"), "account")
    assert "No ledger was given" in alone["statement"]
    assert "No ledger was given" in capsys.readouterr().err
    ledger = {"ledger": tmp_path / "labels-ledger"}
    checked = read_json(state_bounds(votes, labels, [], tmp_path / "bounds.json", **ledger), "account")
    assert "statement" not in checked
    assert checked["bounds"] == alone["bounds"]


def _four_queries(out: Path, first: int, after: str | None) -> Path:
    """Write QUERIES of a round after labels with the digest `after`."""
    facts = {"pool": "q", "classes": 4, "strategy": "random", "student": STUDENT, "labels": after}
    facts |= {"predictions": None, "features": None}
    write_arrays(out, QUERIES, {"queries": np.arange(first, first + 4)}, facts)
    return out


def test_a_later_table_is_drawn_from_votes_that_count_in_the_same_way(tmp_path: Path) -> None:
    own = votes_of(tmp_path / "own.npz", 50, neighbours=2, **protecting("hash"))
    other = votes_of(tmp_path / "other.npz", 50, neighbours=3, **protecting("hash"))
    sparse, drawn = ("sparse-gnmax", {"k": 2.0, "sigma": 20.0}), {"release": True, "ledger": tmp_path / "l", **LIMIT}
    asked = _four_queries(tmp_path / "first.npz", 0, None)
    before = release_labels(own, *sparse, tmp_path / "round.npz", selected=asked, **drawn)
    later = _four_queries(tmp_path / "later.npz", 4, read_arrays(before, LABELS).digest)
    with pytest.raises(ArtefactError, match="entry 'neighbours' does not match"):
        release_labels(other, *sparse, tmp_path / "out.npz", selected=later, earlier=before, **drawn)
    release_labels(own, *sparse, tmp_path / "out.npz", selected=later, earlier=before, **drawn)


@pytest.mark.slow
def test_a_later_round_is_drawn_from_votes_of_the_same_teachers(tmp_path: Path) -> None:
    own = votes_of(tmp_path / "own.npz", 50, **protecting("hash"))
    labels = release_labels(own, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz", **SEEDED)
    first = read_arrays(labels, LABELS)
    drawn = {"release": True, "ledger": tmp_path / "ledger", **LIMIT}
    asked = _four_queries(tmp_path / "first.npz", 0, None)
    release_labels(own, "gnmax", {"sigma": 40.0}, tmp_path / "round.npz", selected=asked, **drawn)
    assert first.meta["teachers"] == read_arrays(tmp_path / "round.npz", LABELS).meta["teachers"] == 50
    later = _four_queries(tmp_path / "later.npz", 4, read_arrays(tmp_path / "round.npz", LABELS).digest)
    for teachers, facts in ((60, protecting("hash")), (50, protecting("iid")), (50, {})):
        other = votes_of(tmp_path / "other.npz", teachers, **facts)
        with pytest.raises(ArtefactError, match=r"entry '(teachers|partition_rule)' does not match"):
            release_labels(
                other, "gnmax", {"sigma": 40.0}, tmp_path / "out.npz", selected=later, earlier=tmp_path / "round.npz",
                **drawn,
            )  # fmt: skip
    assert not (tmp_path / "out.npz").exists()
    release_labels(
        own, "gnmax", {"sigma": 40.0}, tmp_path / "out.npz", selected=later, earlier=tmp_path / "round.npz", **drawn
    )
    accounted = {"selected": [asked, later], "ledger": tmp_path / "ledger"}
    state_bounds(own, tmp_path / "out.npz", [], tmp_path / "bounds.json", **accounted)
    tampered = _changed(tmp_path / "out.npz", tmp_path / "bad.npz", parameters={"sigma": 60.0})
    with pytest.raises(ArtefactError, match="has another parameters"):
        state_bounds(own, tampered, [], tmp_path / "bad.json", **accounted)


def test_no_file_that_may_be_published_stores_a_digest_of_private_data(tmp_path: Path) -> None:
    """Check it, because a digest confirms a guess of the last private record or of the votes."""
    made = Ensemble(tmp_path)
    partition.run(
        private=made.private, public=made.public, teachers=6, parameters=PartitionParameters(strategy="hash"), seed=0,
        stream="s", out=made.partition,
    )  # fmt: skip
    chunk = made.train(0, 5)
    votes, _ = made.join(chunk)
    drawn = {"release": True, "ledger": tmp_path / "ledger", **LIMIT}
    gnmax = {"votes": votes, "mechanism": "gnmax", "parameters": {"sigma": 1.0}}
    student = StudentParameters(method="supervised", model="logistic")
    file = {name: tmp_path / name for name in ("labels.npz", "bounds.json", "secure.npz", "counts.npz", "secure.json")}
    file |= {name: tmp_path / name for name in ("queries.npz", "round.npz", "round.json")}
    file |= {name: tmp_path / name for name in ("student.json", "predictions.npz", "later.npz")}

    aggregate.run(**gnmax, out=file["labels.npz"], **drawn)
    _account(votes, file["labels.npz"], file["bounds.json"], ledger=tmp_path / "ledger")
    chosen = {"pool": made.pool, "features": None, "student": student, "seed": 0, "stream": "s"}
    random = SelectionParameters(strategy="random", queries=40)
    select_queries.run(**chosen, labels=None, predictions=None, selection=random, out=file["queries.npz"])
    aggregate.run(**gnmax, selected=file["queries.npz"], out=file["round.npz"], **drawn)
    _account(votes, file["round.npz"], file["round.json"], selected=[file["queries.npz"]], ledger=tmp_path / "ledger")
    train_student.run(
        pool=made.pool, labels=file["round.npz"], test=made.test, parameters=student, queries=40, seed=0, stream="s",
        out=file["student.json"], predictions=file["predictions.npz"],
    )  # fmt: skip
    least = SelectionParameters(strategy="least-confident", queries=10)
    known = {"labels": file["round.npz"], "predictions": file["predictions.npz"]}
    select_queries.run(**chosen, **known, selection=least, out=file["later.npz"])
    sums = _summed(tmp_path, chunk, teachers=6, **drawn)
    secure_open.run(sums=sums, labels=file["secure.npz"], counts=file["counts.npz"])
    _account(votes, file["secure.npz"], file["secure.json"], ledger=tmp_path / "ledger")

    layouts = [(made.private, SAMPLES), (made.partition, PARTITION), (chunk, CHUNK), (votes, VOTES)]
    held = [read_arrays(path, layout) for path, layout in layouts]
    private = {each.digest for each in held} | {str(held[1].meta["records"])}
    assert len(private) == 5
    assert held[1].digest.encode() in votes.read_bytes(), "this is where a digest would be seen"
    for path in (*file.values(), *sums):
        content = path.read_bytes()
        for digest in private:
            assert digest[:16].encode() not in content, f"{path.name} holds a digest of private data"
            assert bytes.fromhex(digest[:32]) not in content, f"{path.name} holds a digest of private data"


def _account(votes: Path, labels: Path, out: Path, **more: Any) -> None:
    account.run(votes=votes, labels=labels, accounting=AccountParameters(delta=1e-5), out=out, **more)


def test_no_release_is_drawn_or_accounted_for_where_the_partition_protects_nothing(tmp_path: Path) -> None:
    """Refuse it in stages as in a configuration, for a skewed partition."""
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting("skew", "skew-0.8"))
    chunk = _chunk(tmp_path / "chunk.npz", **protecting("skew", "skew-0.8"))
    told = (
        r"its partition 'skew-0\.8' protects nobody's record: .*; use votes of a partition by one of iid, owners, hash,"
    )
    drawn = {"release": True, "ledger": tmp_path / "ledger"}
    with pytest.raises(ArtefactError, match=told):
        release_labels(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz", **drawn)
    with pytest.raises(ArtefactError, match=told):
        _shared(tmp_path, chunk, **drawn)
    for option in ("--release", "--sanitise"):
        words = ["epsilon", str(votes), "--mechanism", "gnmax", "--sigma", "40", "--delta", "1e-5", option]
        words += ["--ledger", str(tmp_path / "ledger")] if option == "--sanitise" else []
        assert "protects nobody" in str(CliRunner().invoke(cli, words).exception)
    assert not (tmp_path / "ledger").exists()
    assert not (tmp_path / "labels.npz").exists()
    shown = CliRunner().invoke(cli, words[:-3])
    assert shown.exit_code == 0
    assert "no release can be drawn from these votes" in shown.output
    # Labels from a seed are for experiments and may be of any partition; their metadata does not make them a release.
    labels = release_labels(votes, "gnmax", {"sigma": 40.0}, tmp_path / "seeded.npz", **SEEDED)
    state_bounds(votes, labels, [12], tmp_path / "bounds.json")
    changed = _changed(labels, tmp_path / "changed.npz", mode="release", votes=None)
    with pytest.raises(ArtefactError, match="protects nobody's record"):
        state_bounds(votes, changed, [], tmp_path / "published.json")
    assert not (tmp_path / "published.json").exists()


@pytest.mark.parametrize("strategy", [name for name in PARTITIONS if PARTITIONS.fact(name, "protects")])
def test_a_release_is_drawn_where_the_partition_protects_something(tmp_path: Path, strategy: str) -> None:
    votes = votes_of(tmp_path / "votes.npz", 50, **protecting(strategy))
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    stated = read_json(state_bounds(votes, labels, [], tmp_path / "bounds.json"), "account")
    assert stated["protection"] == PARTITIONS.fact(strategy, "protection")
