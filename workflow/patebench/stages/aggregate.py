"""Stage `aggregate`: label the whole pool, or the queries selected in one round."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from patebench.artefacts.reading import OF_ROUNDS, Selected, check_distinct, check_in_place, partition_facts
from patebench.artefacts.votes_file import read_source, report_sizes, table_options
from patebench.cli.command import OutputFile, ledgered, mechanism, seeded_or_release, stage_command
from patebench.cli.mechanism_options import MechanismCommand
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import LABELS, PARTITION_FACTS, VOTING_FACTS
from patebench.core.seeds import Mode
from patebench.mechanisms.base import (
    NO_ANSWER,
    check_abstentions,
    check_adaptive,
    check_releasable,
    cost_per_query,
    json_parameters,
    labels_within,
    make_mechanism,
)
from patebench.release.conditions import (
    check_protects,
    check_size_of_delta,
    refuse_second_release,
    table_facts,
)
from patebench.release.ledger_file import Place


def run(
    *,
    votes: Annotated[Path, "Votes of the ensemble, or your own table of votes."],
    mechanism: str,
    parameters: Mapping[str, float],
    out: Annotated[OutputFile, "Output file with the labels."],
    seed: int | None = None,
    stream: str | None = None,
    release: bool = False,
    budget: Annotated[float | None, "ε budget, at --delta; answering stops before the budget is exceeded."] = None,
    delta: Annotated[float | None, "δ of the budget."] = None,
    selected: Annotated[Path | None, "Queries of this round; leave out to label the whole pool."] = None,
    earlier: Annotated[Path | None, "Labels of earlier rounds, from the second round on."] = None,
    ledger: Path | None = None,
    ledger_budget: float | None = None,
    ledger_delta: float | None = None,
    private: str | None = None,
    classes: int | None = None,
    teachers: int | None = None,
) -> None:
    """Label queries with a mechanism at one noise setting.

    The queries are the whole pool or, with --selected, the queries of one round. With --seed and --stream the labels
    are reproducible, for experiments. With --release the noise is discrete and comes from the operating system. A
    release is drawn only once: it is entered in the ledger of the private data before it is drawn, and an existing file
    is never overwritten. With --budget, queries are answered in order until the next query could exceed the budget.

    With --earlier, the output contains the labels of the earlier rounds, followed by the new labels. If the teachers do
    not answer a query of a round, some mechanisms use the student's prediction as label, if this prediction is
    confident. This choice depends only on public predictions.
    """
    draws, checked = Draws.of(release, seed, stream), make_mechanism(mechanism, parameters)
    if release:
        check_releasable(mechanism, type(checked))
    place = Place.of(draws.mode, ledger, ledger_budget, ledger_delta, private)
    refuse_second_release(out, draws.mode)
    source, all_votes = read_source(votes, classes is not None, classes, teachers)
    report_sizes(source, all_votes)
    check_in_place(source)
    check_protects(source, draws.mode)
    check_abstentions(checked, all_votes)
    check_size_of_delta(draws.mode, all_votes.teachers, delta, ledger_delta, votes=source)
    facts: dict[str, Any] = {
        "votes": None if release else source.digest,  # in a release, the digest would confirm a guess of the votes
        "pool": source.meta["pool"],
        "classes": all_votes.classes,
        "mechanism": mechanism,
        "parameters": json_parameters(checked.parameters()),
        "mode": str(draws.mode),
        "rounds": [],
        "teachers": all_votes.teachers,
        "abstentions": all_votes.abstentions,
        **partition_facts(source),
        **table_facts(checked, source),
    }
    limit = _read_budget(budget, delta)
    if selected is None:
        if earlier is not None:
            raise PatebenchError("--earlier is only for queries selected in a round; give --selected too")
        if "queries_files" in source.meta:
            raise ArtefactError(
                votes,
                "its queries were selected in rounds, but --selected is missing",
                "give the queries of the last round as --selected",
            )
        cost = cost_per_query(mechanism, checked, all_votes.teachers, all_votes.classes) if limit else None
        facts["entries"] = place.write_down(source, out, mechanism, checked, all_votes, budget=limit)
        arrays = checked.draw(all_votes, draws.source())
        if limit is not None and cost is not None:
            arrays["labels"], asked = labels_within(cost, arrays["labels"], *limit)
            if "reports" in arrays:
                arrays["reports"][:, asked:] = NO_ANSWER
            facts["budget"] = {"epsilon": limit[0], "delta": limit[1], "asked": asked}
        if "queries" in source.arrays:
            arrays["queries"] = source["queries"]
    else:
        check_adaptive(mechanism, checked)
        if limit is not None:
            raise PatebenchError("a budget is not supported for queries selected in a round; leave out --budget")
        queries = Selected.read([selected], source)
        before = _read_earlier_labels(earlier, queries.files[0], source, facts)
        if before is not None and draws.mode is Mode.RELEASE:
            place.check_same_shards(source, before)
        chosen = queries.votes(all_votes)
        facts |= queries.facts()
        facts["entries"] = place.write_down(source, out, mechanism, checked, chosen, adaptive=True)
        released = checked.draw(chosen, draws.source())
        # Queries that the teachers do not answer keep the student's own prediction.
        own = np.where(released["labels"] == NO_ANSWER, checked.student_labels(chosen), NO_ANSWER)
        arrays = {"labels": np.maximum(released["labels"], own), "queries": queries.positions, "kept": own != NO_ANSWER}
        arrays |= {name: released[name] for name in ("noisy_counts",) if name in released}
        if before is not None:  # append this round to the earlier rounds
            arrays = {name: np.concatenate([before[name], array]) for name, array in arrays.items()}
            facts |= {name: before.meta[name] + facts[name] for name in ("rounds", "queries_files", "entries")}
            facts["earlier"] = before.digest
    write_arrays(out, LABELS, arrays, facts)


def _read_budget(epsilon: float | None, delta: float | None) -> tuple[float, float] | None:
    """Return the budget (`epsilon`, `delta`); None if both are None. Raise PatebenchError if only one is given."""
    if epsilon is None:
        if delta is not None:
            raise PatebenchError(
                "--delta is the δ of a budget, but --budget is missing; give --budget, or leave --delta out"
            )
        return None
    if delta is None:
        raise PatebenchError("--budget needs a δ; give --delta too")
    return epsilon, delta


def _read_earlier_labels(
    earlier: Path | None, selected: Artefact, votes: Artefact, facts: dict[str, Any]
) -> Artefact | None:
    """Return the labels of all earlier rounds from the file `earlier`; None in the first round.

    `selected` contains the queries of the new round, and `votes` the votes on these queries. `facts` is the metadata of
    the new labels. Raise ArtefactError if the earlier labels are not those of the preceding rounds, or if their
    metadata differ from `facts`, for example in the mechanism.
    """
    before = None if earlier is None else read_arrays(earlier, LABELS)
    if selected.meta["labels"] != (before.digest if before else None):
        if earlier is None:
            fault = "its queries were selected with labels of an earlier round, but --earlier is missing"
            raise ArtefactError(selected.path, fault, "give these labels as --earlier")
        fault = f"its queries were selected with other labels than {earlier}, which is given as --earlier"
        raise ArtefactError(selected.path, fault, OF_ROUNDS)
    asked = votes.meta.get("queries_files")
    if asked is not None and asked[:-1] != (before.meta["queries_files"] if before else []):
        fault = (
            f"it contains votes of other earlier rounds than the labels {earlier}"
            if earlier
            else f"it contains votes of {len(asked)} rounds, but the queries {selected.path} are of the first round"
        )
        raise ArtefactError(votes.path, fault, OF_ROUNDS)
    if before is not None:
        # If teachers vote in each round, the earlier labels were drawn from the votes of the previous round.
        if asked is not None and facts["votes"] is not None:
            before.require("votes", votes.meta["earlier_votes"], f"the earlier rounds of {votes.path}")
        else:
            before.require("votes", facts["votes"], str(votes.path))
        for entry in ("mechanism", "parameters", "mode"):
            before.require(entry, facts[entry], "this round")
        for entry in ("teachers", "abstentions", *PARTITION_FACTS, *VOTING_FACTS):
            before.require(entry, facts.get(entry), str(votes.path))
        check_distinct(np.concatenate([before["queries"], selected["queries"]]), selected.path)
    return before


command = stage_command(run, *table_options, *mechanism, *seeded_or_release, *ledgered, cls=MechanismCommand)
