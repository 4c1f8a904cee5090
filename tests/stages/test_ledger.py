"""Test the ledger: a draw is entered before it is made, and the total stays within the limit."""

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.commands import invoke

from patebench.accounting import conversion, spending
from patebench.accounting.spending import Spending
from patebench.accounting.votes import Votes
from patebench.config.parameters import LedgerParameters
from patebench.core.errors import ArtefactError
from patebench.core.files import read_json, write_json
from patebench.mechanisms.base import make_mechanism
from patebench.release.ledger_file import Entry, Ledger, enter_draw, name_ledger, release_cost

PRIVATE, OTHER, THIRD = "ab" * 32, "cd" * 32, "ef" * 32
LIMIT = LedgerParameters(budget=1.0, delta=1e-5)
WIDE = LedgerParameters(budget=4.0, delta=1e-5)


def entry(scale: float = 40, what: str = "x", **spent: Any) -> Entry:
    spent = {"partition": "p", "divergences": conversion.ORDERS / scale**2, **spent}
    return Entry(what=what, mechanism="gnmax", parameters={"sigma": scale}, queries=1, spent=Spending(**spent))


def test_what_was_entered_is_read_again(tmp_path: Path) -> None:
    enter_draw(tmp_path, PRIVATE, entry(), None)
    (found,) = Ledger.of(tmp_path, PRIVATE).entries
    assert (found.what, found.mechanism, found.queries) == ("x", "gnmax", 1)
    assert found.when
    assert np.array_equal(found.spent.divergences, entry().spent.divergences)
    assert Ledger.of(tmp_path, OTHER).entries == ()
    nothing_hides = entry(divergences=np.full(len(conversion.ORDERS), np.inf))
    enter_draw(tmp_path / "infinite", PRIVATE, nothing_hides, None)
    assert spending.epsilon(Ledger.of(tmp_path / "infinite", PRIVATE).spent, 1e-5) == np.inf


def test_a_second_draw_needs_a_limit_that_was_given_with_the_first(tmp_path: Path) -> None:
    """Refuse a later limit, because its δ would be valid for each choice but not for all together."""
    enter_draw(tmp_path, PRIVATE, entry(what="first"), None)
    for limit in (None, WIDE, LIMIT):
        with refuses("no-limit"):
            enter_draw(tmp_path, PRIVATE, entry(), limit)
    assert len(Ledger.of(tmp_path, PRIVATE).entries) == 1
    for limit in (WIDE, WIDE, None):  # the limit stays
        ledger = enter_draw(tmp_path, OTHER, entry(), limit)
    assert (len(ledger.entries), ledger.limit) == (3, WIDE)
    with refuses("other-limit"):
        enter_draw(tmp_path, OTHER, entry(), LIMIT)


def test_teachers_who_cut_their_own_shares_pay_once_and_bring_no_limit(tmp_path: Path) -> None:
    enter_draw(tmp_path, PRIVATE, entry(teachers=(0, 24)), None)
    with refuses("no-limit"):
        enter_draw(tmp_path, PRIVATE, entry(teachers=(25, 49)), LIMIT)
    assert enter_draw(tmp_path, PRIVATE, entry(teachers=(25, 49)), None).limit is None
    with refuses("no-limit"):
        enter_draw(tmp_path, PRIVATE, entry(teachers=(10, 30)), None)


def test_the_limit_is_kept(tmp_path: Path) -> None:
    drawn = 0
    order = spending.best_order([entry().spent], 1.0, 1e-5)
    while spending.keeps([entry().spent] * (drawn + 1), 1.0, 1e-5, order):
        enter_draw(tmp_path, PRIVATE, entry(), LIMIT)
        drawn += 1
    with refuses("above-limit"):
        enter_draw(tmp_path, PRIVATE, entry(), LIMIT)
    ledger = Ledger.of(tmp_path, PRIVATE)
    assert drawn == len(ledger.entries) > 20
    assert 0.9 < spending.epsilon(ledger.spent, 1e-5) <= 1
    enter_draw(tmp_path, PRIVATE, entry(scale=1e4), LIMIT)  # a smaller one still fits
    with refuses("above-limit"):
        enter_draw(tmp_path / "failure", PRIVATE, entry(scale=1000, failure=1e-5), LIMIT)


def test_a_draw_that_protects_fewer_changes_than_all_earlier_ones_is_refused(tmp_path: Path) -> None:
    """The limit was stated for these changes."""
    enter_draw(tmp_path, PRIVATE, entry(protects=("replace", "add")), WIDE)
    for other in ({"protects": ("owner",)}, {"protects": ("replace",)}, {}):
        with refuses("other-unit"):
            enter_draw(tmp_path, PRIVATE, entry(partition="other", **other), WIDE)
    ledger = enter_draw(tmp_path, PRIVATE, entry(partition="other", protects=("add", "owner", "replace")), WIDE)
    assert spending.common_changes(Ledger.read(ledger.path).spent) == ("replace", "add")
    (shown,) = json.loads(invoke("ledger", tmp_path, "--json").output)
    assert (shown["protects"], shown["epsilon"] > 0) == (["replace", "add"], True)


def test_a_draw_by_other_owners_is_refused(tmp_path: Path) -> None:
    """A patient with several visits is in several shards of a partition by visit."""
    by_owner: dict[str, Any] = {"protects": ("owner", "leave")}
    enter_draw(tmp_path, PRIVATE, entry(owners="patients", **by_owner), WIDE)
    for other in ({"owners": "visits"}, {}):
        with refuses("other-unit") as caught:
            enter_draw(tmp_path, PRIVATE, entry(partition="other", **by_owner, **other), WIDE)
        assert "does not for the same owners" in str(caught.value)
    enter_draw(tmp_path, PRIVATE, entry(**by_owner), WIDE)  # same partition
    with refuses("other-unit"):
        enter_draw(tmp_path, PRIVATE, entry(partition="other", owners="patients", **by_owner), WIDE)
    enter_draw(tmp_path, OTHER, entry(owners="patients", **by_owner), WIDE)
    ledger = enter_draw(tmp_path, OTHER, entry(partition="other", owners="patients", **by_owner), WIDE)
    assert spending.common_changes(Ledger.read(ledger.path).spent) == ("owner", "leave")


def test_a_ledger_of_earlier_versions_adds_up_draws_of_one_partition_only(tmp_path: Path) -> None:
    enter_draw(tmp_path, PRIVATE, entry(), WIDE)
    path = enter_draw(tmp_path, PRIVATE, entry(), WIDE).path
    content = read_json(path, "ledger")
    entries = [{name: value for name, value in each.items() if name != "protects"} for each in content["entries"]]
    kept = {name: content[name] for name in ("private", "records", "orders", "order", "limit")}
    write_json(path, "ledger", {**kept, "entries": entries})
    assert "for one teacher’s whole shard" in invoke("ledger", tmp_path, terminal_width=200).output
    entries[0]["partition"] = "other"
    write_json(path, "ledger", {**kept, "entries": entries})
    assert "Together: no ε" in invoke("ledger", tmp_path, terminal_width=200).output
    with refuses("other-unit"):
        enter_draw(tmp_path, PRIVATE, entry(), WIDE)


def test_the_order_is_fixed_with_the_first_draw(tmp_path: Path) -> None:
    """Check the limit at this order, because outputs seen later must not choose it."""
    first = enter_draw(tmp_path, PRIVATE, entry(), WIDE)
    assert first.order is not None
    with refuses("above-limit"):  # at its order the second draw costs infinitely much
        enter_draw(tmp_path, PRIVATE, entry(divergences=np.where(conversion.ORDERS <= 3, 0.01, np.inf)), WIDE)
    assert enter_draw(tmp_path, PRIVATE, entry(), WIDE).order == first.order > 3


def test_draws_under_one_name_share_a_ledger_whatever_the_data_is(tmp_path: Path) -> None:
    for records in (PRIVATE, OTHER):
        drawn = enter_draw(tmp_path, records, entry(), LIMIT, "patients")
    assert (drawn.path.name, drawn.private, len(drawn.entries)) == ("patients.json", "patients", 2)
    # The name is permanent: it need not be given again, and no other is accepted.
    assert len(enter_draw(tmp_path, PRIVATE, entry(), LIMIT).entries) == 3
    with refuses("other-name"):
        enter_draw(tmp_path, OTHER, entry(), LIMIT, "clients")
    assert [path.name for path in tmp_path.glob("*.json")] == ["patients.json"]


def test_a_ledger_whose_suffix_is_in_capitals_still_counts(tmp_path: Path) -> None:
    drawn = enter_draw(tmp_path, PRIVATE, entry(), LIMIT)
    renamed = drawn.path.rename(drawn.path.with_suffix(".JSON"))
    again = enter_draw(tmp_path, PRIVATE, entry(), LIMIT)
    assert (again.path, len(again.entries)) == (renamed, 2)


def test_data_with_a_ledger_gets_a_name_by_a_draw_or_without_one(tmp_path: Path) -> None:
    first, second = (enter_draw(tmp_path, records, entry(), LIMIT) for records in (PRIVATE, OTHER))
    assert enter_draw(tmp_path, PRIVATE, entry(), LIMIT, "patients").path == first.path
    for path, name, fault in (
        (
            second.path,
            "patients",
            "this other ledger already uses the name 'patients' for its data; give another name as --private",
        ),
        (
            second.path,
            "Patients",
            "this other ledger already uses the name 'Patients' for its data; give another name as --private",
        ),
        (first.path, "clients", "its data has the permanent name 'patients', not 'clients'"),
        (tmp_path, "clients", "give the path of the ledger whose data you want to name"),
        (second.path, "../clients", "cannot be the name of a folder"),
    ):
        refused = invoke("ledger", path, "--private", name)
        assert fault in str(refused.exception), name
    done = invoke("ledger", second.path, "--private", "clients", terminal_width=200)
    assert done.exit_code == 0
    assert "clients" in done.output
    assert len(enter_draw(tmp_path, THIRD, entry(), LIMIT, "clients").entries) == 2
    with refuses("two-ledgers"):
        enter_draw(tmp_path, PRIVATE, entry(), LIMIT, "clients")


def test_data_that_is_not_recognised_beside_other_ledgers_needs_a_name_or_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    enter_draw(tmp_path, PRIVATE, entry(), None)
    with refuses("not-recognised"):
        enter_draw(tmp_path, OTHER, entry(), None)
    assert len(list(tmp_path.glob("*.json"))) == 1
    enter_draw(tmp_path, OTHER, entry(), LIMIT)
    assert "has no ledger yet, but the 1 other ledger" in capsys.readouterr().err
    with refuses("not-recognised"):
        enter_draw(tmp_path, THIRD, entry(), None, "patients")
    for name, path in zip(("one", "two"), sorted(tmp_path.glob("*.json")), strict=True):
        name_ledger(path, name)
    enter_draw(tmp_path, THIRD, entry(), None, "patients")
    assert "has no ledger yet, but the 2 other ledgers" in capsys.readouterr().err
    assert len(list(tmp_path.glob("*.json"))) == 3
    with refuses("no-limit"):
        enter_draw(tmp_path, "01" * 32, entry(), None, "Patients")


def test_a_copy_of_a_ledger_beside_it_is_no_second_ledger(tmp_path: Path) -> None:
    path = enter_draw(tmp_path, PRIVATE, entry(), LIMIT).path
    (tmp_path / "copy.json").write_text(path.read_text())
    with refuses("two-ledgers"):
        enter_draw(tmp_path, PRIVATE, entry(), LIMIT)


def test_a_ledger_of_earlier_versions_recognises_its_data_by_its_own_name(tmp_path: Path) -> None:
    path = enter_draw(tmp_path, PRIVATE, entry(), LIMIT).path
    content = read_json(path, "ledger")
    write_json(path, "ledger", {name: content[name] for name in ("orders", "order", "limit", "entries")})
    assert len(enter_draw(tmp_path, PRIVATE, entry(), None).entries) == 2


def test_a_damaged_ledger_allows_no_draw(tmp_path: Path) -> None:
    path = enter_draw(tmp_path, PRIVATE, entry(), LIMIT).path
    text = path.read_text()
    for damaged in ("", '{"kind": "ledger"}', text.replace("1.0", "9.0", 1), text.replace('"x"', '"y"')):
        assert damaged != text
        path.write_text(damaged)
        with pytest.raises(ArtefactError, match=rf"{path.name}: .*; restore the ledger from a backup") as refused:
            enter_draw(tmp_path, PRIVATE, entry(), LIMIT)
        assert "delete" not in str(refused.value)


def test_of_draws_at_one_time_none_is_lost(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=enter_draw, args=(tmp_path, PRIVATE, entry(what=str(i)), LIMIT)) for i in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert {each.what for each in Ledger.of(tmp_path, PRIVATE).entries} == {str(i) for i in range(8)}


def test_costs_are_those_of_discrete_noise_whatever_the_votes_are() -> None:
    votes = np.random.default_rng(0).integers(0, 10, (250, 100))
    made = make_mechanism("gnmax", {"sigma": 40.0})
    spent = [release_cost("gnmax", made, Votes.of(votes * keep, 10), "p").divergences for keep in (0, 1)]
    assert np.array_equal(*spent)
    assert (spent[0] <= 100 * conversion.ORDERS / 40**2 * (1 + 1e-12)).all()
    for name, parameters, code in (("exponential", {"epsilon": 0.4}, "no-bound"), ("gnmax", {"sigma": 0}, "no-noise")):
        with refuses(code):
            release_cost(name, make_mechanism(name, parameters), Votes.of(votes, 10), "p")


def test_a_budget_is_what_a_release_costs_at_most_and_may_be_the_limit(tmp_path: Path) -> None:
    made, votes = make_mechanism("gnmax", {"sigma": 40.0}), Votes.of(np.zeros((250, 1000), int), 10)
    without = spending.epsilon([release_cost("gnmax", made, votes, "p")], 1e-5)
    assert without > 1
    for budget in (1.0, 2.0, 4.0):
        spent = release_cost("gnmax", made, votes, "p", budget=(budget, 1e-5))
        assert min(budget, without) - 1e-9 < spending.epsilon([spent], 1e-5) <= budget
        draw = Entry(what="x", mechanism="gnmax", parameters={}, queries=1000, spent=spent)
        enter_draw(tmp_path / str(budget), PRIVATE, draw, LedgerParameters(budget=budget, delta=1e-5))


def test_the_command_shows_draws_and_their_sum(tmp_path: Path) -> None:
    for _ in range(2):
        draw = replace(entry(what="digits/labels.npz"), parameters={"threshold": np.inf})
        enter_draw(tmp_path, PRIVATE, draw, LIMIT)
    shown = invoke("ledger", tmp_path, terminal_width=200).output
    for words in ("digits/labels.npz", "threshold=inf", "Together: ε = 0.", "ε = 1 at δ = 1e-05"):
        assert words in shown
    (found,) = json.loads(invoke("ledger", tmp_path, "--json").output)
    assert found["epsilon"] == pytest.approx(spending.epsilon([entry().spent] * 2, 1e-5))
    assert len(found["draws"]) == 2
    alone = enter_draw(tmp_path / "without limit", PRIVATE, entry(), None).path
    assert "Limit" not in invoke("ledger", alone, catch_exceptions=False).output
