"""Stage `secure_share`: split the noisy votes of a chunk of teachers into shares, one file per aggregator.

Each party of a secure release runs its own stage and reads only its own files: teachers run `secure_share`, aggregators
run `secure_sum`, and anyone can run `secure_open`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from patebench.accounting.votes import Votes, WeightedVotes
from patebench.artefacts.reading import check_in_place, may_abstain, partition_facts, protects_labels_only, voting_facts
from patebench.cli.command import COUNT, OutputFile, ledgered, mechanism, seeded_or_release, stage_command
from patebench.cli.mechanism_options import MechanismCommand
from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, check_writable, read_arrays, write_arrays
from patebench.core.formats import CHUNK, SHARES, WEIGHTS
from patebench.mechanisms.base import check_covers, json_parameters
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.release.conditions import check_protects, check_size_of_delta, refuse_second_release
from patebench.release.ledger_file import Place
from patebench.secure.shares import check_range, secure_mechanism, secure_mechanisms, split_votes
from patebench.stages.secure_sum import query_arrays


def run(
    *,
    chunk: Annotated[Path, "Votes of the chunk of teachers that runs this stage."],
    mechanism: str,
    parameters: Mapping[str, float],
    teachers: Annotated[int, "Total number of teachers.", COUNT],
    out: Annotated[
        Sequence[OutputFile], "Output file with an aggregator's shares; repeat for each aggregator, in order."
    ],
    seed: int | None = None,
    stream: str | None = None,
    release: bool = False,
    ledger: Path | None = None,
    ledger_budget: float | None = None,
    ledger_delta: float | None = None,
    private: str | None = None,
) -> None:
    """Add noise to the votes of a chunk of teachers, and split the noisy votes into shares, one file per aggregator.

    With --release, the draw is entered in the ledger of the teachers' data before the noise is drawn.
    """
    if len(out) < 2:
        raise PatebenchError("with one --out, a single aggregator would see every vote; give --out at least twice")
    draws = Draws.of(release, seed, stream)
    for path in out:
        refuse_second_release(path, draws.mode)
        check_writable(path)
    place = Place.of(draws.mode, ledger, ledger_budget, ledger_delta, private)
    noise_shares = secure_mechanism(mechanism, parameters, teachers)
    source = read_arrays(chunk, CHUNK)
    check_in_place(source)
    numbers, classes = source["teachers"], int(source.meta["classes"])
    if numbers.max() >= teachers:
        raise ArtefactError(
            chunk,
            f"it contains votes of teacher {numbers.max()} (counted from 0), but --teachers is {teachers}",
            "give the number of all teachers, not only of this chunk, as --teachers",
        )
    check_protects(source, draws.mode)
    check_size_of_delta(draws.mode, teachers, ledger_delta, votes=source)
    votes = _read_votes(source, mechanism, noise_shares, teachers)
    # The worst-case cost does not depend on the votes, so dummy votes of all teachers suffice.
    dummy = _dummy_votes(votes, teachers)
    check_range(noise_shares, dummy)
    who = int(numbers.min()), int(numbers.max())
    # A random identifier, so that sets of shares are not mixed.
    session = f"{int(uniform_words(draws.source('session'), 1)[0]):016x}"
    place.write_down(source, out[0], mechanism, noise_shares, dummy, key=session, teachers=who)
    shares = split_votes(noise_shares, votes, numbers, draws, ensemble=teachers, aggregators=len(out))
    meta = {
        "pool": source.meta["pool"],
        "classes": classes,
        "mechanism": mechanism,
        "parameters": json_parameters(noise_shares.parameters()),
        "mode": str(draws.mode),
        "ensemble": teachers,
        "aggregators": len(out),
        "session": session,
        "abstentions": votes.abstentions,
        **partition_facts(source),
        **voting_facts(source),
    }
    known = {"teachers": np.asarray(numbers, dtype=np.int64), **query_arrays(source)}
    for i, (path, held) in enumerate(zip(out, shares, strict=True)):
        write_arrays(path, SHARES, {"shares": held, **known}, {**meta, "aggregator": i + 1})


def _read_votes(chunk: Artefact, name: str, mechanism: NoiseShares, teachers: int) -> Votes:
    """Return the votes in `chunk`; raise PatebenchError if secure aggregation by `mechanism` does not allow them.

    `name` is the name of `mechanism`, for messages. `teachers` is the number of teachers in the whole ensemble. In
    votes with weights, each teacher is identified by its index in this ensemble.
    """
    if "queries_files" in chunk.meta:
        raise ArtefactError(
            chunk.path,
            "it contains votes on queries selected in rounds, but secure aggregation reveals all labels at once",
            "use a single aggregating party for rounds, or select all queries beforehand",
        )
    classes = int(chunk.meta["classes"])
    if "votes" in chunk.arrays:
        votes = Votes.of(chunk["votes"], classes, abstentions=may_abstain(chunk))
    else:
        weights, labels, owners = (chunk[name] for name in WEIGHTS)
        votes = Votes.from_weights(WeightedVotes.of(weights, labels, owners, classes), teachers, classes)
        if not np.isin(owners, chunk["teachers"]).all():  # no share would contain these weights
            raise ArtefactError(
                chunk.path,
                "it contains weights of teachers that are not in its list of teachers",
                "run snakemake again to make it",
            )
    if votes.abstentions and not mechanism.abstentions:
        raise ArtefactError(
            chunk.path,
            f"its teachers may abstain, but '{name}' is proved only for teachers that vote on every query",
            f"use the mechanism {' or '.join(secure_mechanisms(abstentions=True))}",
        )
    labels_only = protects_labels_only(chunk)
    check_covers(mechanism, abstentions=False, weights=votes.weighted is not None, labels_only=labels_only)
    return votes


def _dummy_votes(votes: Votes, teachers: int) -> Votes:
    """Return votes of `teachers` teachers that do not depend on data, on as many queries and classes as `votes`.

    The dummy votes have weights if `votes` has weights, and allow abstentions if `votes` allows them.
    """
    if votes.weighted is not None:
        rows = {name: array[:0] for name, array in vars(votes.weighted).items()}
        return Votes.from_weights(WeightedVotes(**rows), teachers, votes.classes)
    zeros = np.zeros((teachers, votes.queries), dtype=np.int8)
    return Votes.of(zeros, votes.classes, abstentions=votes.abstentions)


command = stage_command(run, *mechanism, *seeded_or_release, *ledgered, cls=MechanismCommand)
