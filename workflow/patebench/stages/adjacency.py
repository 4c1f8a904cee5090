"""Command `audit --adjacency`: rerun the stages of a configuration on changed private data.

The stages from `data` to `join_votes` run in this process, in a temporary folder. They run on the unchanged data, and
then again on each changed copy of the data. All ensembles of the configuration are audited, with the first seed of each
experiment. In active learning, only the queries of the first round are selected. Nothing is released.

Each changed copy is stored in npz files, which the stage `data` reads with the loader `npz`. If the configuration's
data set is a folder or table of the user, further changed copies are stored as folders or tables, and read with the
loader `folder` or `table`. These copies detect a loader whose public outputs depend on private records.
"""

import hashlib
import importlib
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import click
import numpy as np

from patebench.audit.adjacent_data import KINDS, AuditedData, ChangeFinding, Records, Traces, World, differing_keys
from patebench.cli.command import COUNT, FILE, Json, show_on_terminal, stage_command, table_of
from patebench.config.artefacts import Data, Ensemble, Round
from patebench.config.run import Run
from patebench.config.settings import DatasetSettings
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.errors import PatebenchError, in_one_line
from patebench.core.files import Artefact, nearest_file, read_any_arrays, read_arrays, read_facts, read_json
from patebench.core.formats import CHUNK, LAYOUTS, PARTITION, SAMPLES, TRUTH, VOTES
from patebench.core.progress import progress
from patebench.core.registry import imported
from patebench.core.seeds import Mode, generator
from patebench.core.spelling import command_words
from patebench.data import DATASETS
from patebench.data.division import digest_records
from patebench.data.partitions import NOBODY, read_owners
from patebench.stages.train_teachers import read_shard

#: Number of teachers per retrained chunk, unless all teachers are retrained.
_TOGETHER = 3

#: Stages before training, in order. For each stage: output option → file name. The first file identifies the job.
_BEFORE_TRAINING: Mapping[str, dict[str, str]] = {
    "data": {"private": "private.npz", "public": "public.npz"},
    "split": {"pool-out": "pool.npz", "truth-out": "truth.npz", "test-out": "test.npz"},
    "extract_features": {"out": "features.npz", "encoder": "encoder.npz"},
    "select_queries": {"out": "queries.npz"},
    "partition": {"out": "partition.npz"},
}

#: Metadata that depends on the private data or on votes; all other metadata is public.
_PRIVATE = {
    *("digest", "private", "records", "owners", "samples", "left_out", "partition", "chunks", "votes"),
    *("teacher_accuracies", "gap_histogram", "gap_mean"),
    *(f"plurality_{what}_{on}" for what in ("accuracy", *BESIDE_ACCURACY) for on in ("pool", "test")),
}

#: Files with private arrays → layouts; chunks of teachers are private too. Metadata outside `_PRIVATE` is public.
_PRIVATE_ARRAYS = {"private.npz": SAMPLES, "partition.npz": PARTITION, "votes.npz": VOTES}


def run(
    *,
    adjacency: Annotated[Path, "Configuration to rerun."],
    changes: Annotated[int, "Number of changes of each kind.", COUNT] = 1,
    thorough: Annotated[bool, "Retrain every teacher, in the chunks of the configuration."],
    as_json: Json,
) -> None:
    """Rerun the stages of a configuration on changed private data, and report every difference.

    Each change alters one record, one owner or one shard. No public output may change. Votes may change only for
    teachers whose shards change. If the partition of the records claims that a change alters at most one shard, only
    one shard may change. The exit status is 1 if a change breaks one of these rules. Only the first seed of each
    experiment is audited, and nothing is stored or released.
    """
    from patebench.config import load, validate

    config = validate(load(adjacency))
    with TemporaryDirectory(prefix="patebench-adjacency-") as folder:
        audited = list(audit(config, Path(folder), changes, thorough))
    violations, total = sum(data.violations for data in audited), sum(len(data.findings) for data in audited)
    if as_json:
        click.echo(json.dumps({"config": str(adjacency), "audited": [data.to_json() for data in audited]}, indent=1))
    else:
        for data in audited:
            headings = ("change", "what", "verdict", "altered", "shards", "votes")
            show_on_terminal(table_of(headings, map(ChangeFinding.cells, data.findings), title=data.name, numbers=2))
            click.echo("".join(f"{note}\n" for note in data.notes))
        click.echo(f"{violations or 'None'} of {total} changes altered more than the partition allows.")
    sys.exit(1 if violations else 0)


def audit(config: Run, folder: Path, changes: int = 1, thorough: bool = False) -> Iterator[AuditedData]:
    """Rerun the stages on changed private data, and yield the findings on each data set and each ensemble.

    Only the first seed of each experiment is audited. For each ensemble, each kind of change is made `changes` times.
    If `thorough` is True, all teachers are retrained after each change. The stages write to subfolders of `folder`.
    Raise PatebenchError if the votes were imported, or if the data set uses `long_tail`. With `long_tail`, a changed
    label would change which other records are selected.
    """
    label_sets = [labels for experiment in config.experiments for labels in experiment.label_sets]
    first_seeds: dict[Ensemble, None] = {}
    for experiment in config.experiments:
        ensembles = list(experiment.ensembles)
        first_seeds |= {each: None for each in ensembles if each.split.seed == ensembles[0].split.seed}
    sets: dict[Data, DataSet] = {}
    for ensemble in first_seeds:
        data = ensemble.split.data
        if ensemble.imported:
            raise PatebenchError(
                f"the votes of {ensemble.name} come from a file, so their private data cannot be changed; audit only"
                " experiments with trained teachers (key 'only')",
                code="imported-votes",
            )
        if data.settings and data.settings.long_tail:
            raise PatebenchError(
                f"{data.name} cannot be audited with 'long_tail', because changing one record changes which others are"
                " selected; leave 'long_tail' out",
                code="long-tail",
            )
        if data not in sets:
            sets[data] = DataSet(config, data, folder / f"data-{len(sets)}")
            yield sets[data].audit()
        # The first round of active learning, once per strategy for selecting queries.
        rounds = [labels.round.rounds[0] for labels in label_sets if labels.round and labels.ensemble == ensemble]
        rounds = list({each.selection.slug: each for each in reversed(rounds)}.values())
        yield _audit_ensemble(sets[data], ensemble, rounds, folder / "runs", changes, thorough)
        shutil.rmtree(folder / "runs")


class Rerun:
    """Run of the stages from `data` to the votes of an ensemble, in this process.

    The method `prepare` runs the stages before training, and stores digests of their outputs in the attribute
    `prepared`. Then, the method `vote` trains teachers. All stages write to `folder`. `data` is the data set on which
    the stages run. If `ensemble` is None, only the stage `data` runs.

    `rounds` is for active learning. It contains one first round for each strategy of query selection. The queries of
    these rounds are selected before training.
    """

    def __init__(
        self, config: Run, data: Data, folder: Path, ensemble: Ensemble | None = None, rounds: Sequence[Round] = ()
    ) -> None:
        self.folder = folder
        self.run = Run("", str(folder), config.data_root, config.download, Mode.SEEDED, None, None)
        self.run.add_data(data)
        if ensemble is not None:
            # The changed copies have a column of owners, so the partition reads no file of owners.
            partition = ensemble.partition.model_copy(update={"owners": None})
            ensemble = replace(ensemble, split=replace(ensemble.split, data=data), partition=partition)
            self.run.add_ensemble(ensemble)
            for first in rounds:
                self.run.add_round(replace(first, ensemble=ensemble))
        self.prepared = Traces({})

    def _make(self, stage: str, target: str, outputs: Mapping[str, str], **options: Any) -> None:
        """Run the command of `stage` to create the file `target`.

        The command gets the options that are configured for `target`, and also `options`. `outputs` maps each output
        option of the command to a file name in the folder of `target`. Input files are taken from this folder or, if
        missing there, from the nearest parent folder.
        """
        folder = (self.folder / target).parent
        options = {**self.run.options[target], **{option: folder / name for option, name in outputs.items()}, **options}
        words = []
        if stage == "data":
            options |= {"root": self.run.data_root, "download": self.run.download}
            # Changed data must not have the name of a built-in data set.
            options["option"] = {"loader": folder.name, **options.get("option", {})}
            words = [f"audited-{folder.name}"]
        user = f"{Path(target).parents[1]}/votes.npz" if stage == "train_teachers" else target
        label_pools = {f"{split}/pool.npz" for split in self.run.label_splits}
        users = {"features": self.run.uses_features, "encoder": self.run.uses_encoder, "private": label_pools}
        command: click.Command = importlib.import_module(f"patebench.stages.{stage}").command
        for option in command.params:
            name = option.opts[0].lstrip("-")
            if option.type is FILE and name not in options and (option.required or user in users.get(name, ())):
                options[name] = nearest_file(folder, f"{name}.npz")
        command.main([*words, *command_words(options)], standalone_mode=False)

    def prepare(self) -> "Rerun":
        """Run the stages before training, store digests of public outputs and shards as `prepared`, and return self."""
        for stage, outputs in _BEFORE_TRAINING.items():
            for target in self.run.options:
                if Path(target).name == next(iter(outputs.values())):
                    self._make(stage, target, outputs)
        shards = {}
        for path in self.folder.rglob("partition.npz"):
            partition = read_arrays(path, PARTITION)
            private = read_arrays(nearest_file(path.parent, "private.npz"), SAMPLES)
            for teacher in range(partition.meta["teachers"]):
                shards[teacher] = digest_records(*read_shard(private, partition, teacher))
        self.prepared = Traces(self.public_traces(), shards)
        return self

    def vote(self, chunks: Sequence[str]) -> Traces:
        """Train the teachers of `chunks` that are not trained yet, and return digests of all outputs so far.

        `chunks` contains ranges of teacher numbers, such as "0-2". If all chunks are listed, the stage `join_votes`
        joins the votes into one matrix.
        """
        votes: dict[int, str] = {}
        for voters, names in self.run.chunks.items():
            selections = [f"{Path(voters).parent}/queries/{slug}" for slug in self.run.selections.get(voters, [])]
            queries = [f"{place}/queries.npz" for place in (voters, *selections)]
            selected = [self.folder / target for target in queries if target in self.run.options]
            targets = [f"{voters}/chunks/{chunk}.npz" for chunk in chunks]
            files = [self.folder / target for target in targets]
            for target, file in zip(targets, files, strict=True):
                if not file.exists():
                    self._make("train_teachers", target, {"out": file.name}, selected=selected)
                chunk = read_arrays(file, CHUNK)
                owners = {"teachers": chunk["teachers"], "rows": chunk.arrays.get("row_teachers")}
                dims = {name: CHUNK.fields[name].dims[0] for name in chunk.arrays}
                for teacher in chunk["teachers"].tolist():
                    rows = [chunk[name][owners[dim] == teacher] for name, dim in dims.items() if dim in owners]
                    digest = hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()
                    votes[teacher] = votes.get(teacher, "") + digest
            if len(names) == len(chunks):
                outputs = {"out": "votes.npz", "summary": "ensemble.json"}
                self._make("join_votes", f"{voters}/votes.npz", outputs, chunk=files)
        return Traces(self.public_traces(chunks), self.prepared.shards, votes)

    def public_traces(self, chunks: Collection[str] = ()) -> dict[str, str]:
        """Return the public outputs of the stages as {name: text}, to compare them with those of another run.

        The result contains three kinds of items:

        - the list of all files;
        - the digest of each public file;
        - each public entry in the metadata of a private file.

        Files with the votes of a chunk of teachers are included only if the chunk is in `chunks`.
        """
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        files = [path for path in files if path.parent.name != "chunks" or path.stem in chunks]
        # With private labels, the truth of the pool contains them.
        private = _PRIVATE_ARRAYS | ({"truth.npz": TRUTH} if self.run.label_splits else {})
        public = {"the names of files": "\n".join(str(path.relative_to(self.folder)) for path in files)}
        for path in files:
            name = "/".join(path.parts[-2:]) if path.parent.name.startswith("round-") else path.name
            facts: Mapping[str, Any] = {}
            if path.name == "ensemble.json":
                facts = read_json(path, "join_votes")
            elif path.name in private or path.parent.name == "chunks":
                facts = read_facts(path, private.get(path.name, CHUNK))
            else:
                public[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            shown = sorted(facts.keys() - _PRIVATE)
            public |= {f"{fact} in {name}": json.dumps(facts[fact], sort_keys=True) for fact in shown}
        return public


def _read_as_loaded(path: Path) -> Artefact:
    """Return the samples in the file `path`; if the file contains both images and their features, `x` is the images."""
    samples = read_any_arrays(path, LAYOUTS)
    arrays = dict(samples.arrays)
    arrays["x"] = arrays.pop("images", arrays["x"])
    return replace(samples, arrays=arrays)


class DataSet:
    """Data set `data` of the configuration `config`, with methods that test its loader and create changed copies.

    Files are written to `folder`. The attribute `unchanged` is a run of the stage `data` on the unchanged data set, and
    `private` and `public` are the samples that this run loaded.
    """

    def __init__(self, config: Run, data: Data, folder: Path) -> None:
        self.config, self.data, self.folder = config, data, folder
        self.unchanged = Rerun(config, data, folder / "given").prepare()
        loaded = self.unchanged.folder / data.name
        self.private, self.public = (_read_as_loaded(loaded / f"{role}.npz") for role in ("private", "public"))
        names, public = self.public.meta["class_names"], dict[str, Any](self.public.arrays)
        # Store the names only if the labels do not imply them, so that a wrong number of classes is detected.
        if names != list(map(str, range(int(public["y"].max()) + 1))):
            public["class_names"] = np.array(names)
        np.savez(folder / "own-public.npz", **public)

    def with_records(self, records: Records, name: str) -> Data:
        """Return a copy of the data set in which `records` are the private records.

        The records are written to an npz file with `name` in its name. The copy has the loader `npz`, which reads this
        file.
        """
        files = {"private": str(self.folder / f"{name}-private.npz"), "public": str(self.folder / "own-public.npz")}
        arrays = dict[str, Any](records)
        if not self.private.meta.get("own_rows"):  # `row` contains positions, which the loader computes again
            del arrays["row"]
        np.savez(files["private"], **arrays)
        settings = self.data.settings or DatasetSettings.model_construct(loader="npz")
        changes = {"loader": "npz", **files, "index": None, "table": None, "images": None}
        return replace(self.data, settings=settings.model_copy(update=changes))

    def audit(self) -> AuditedData:
        """Test that no public output of the stage `data` depends on one private record; return one finding per change.

        Each change makes one private record unlike all others, for example by a new label. Before any change, the
        unchanged data are written to npz files and read again. If a public output then differs, changes cannot be
        audited, and PatebenchError is raised.
        """
        own = Rerun(self.config, self.with_records(self.private.arrays, "own"), self.folder / "own").prepare()
        if moved := differing_keys(self.unchanged.prepared.public, own.prepared.public):
            raise PatebenchError(
                f"{self.data.name}: loading an unchanged copy of the private samples changes public outputs "
                f"({', '.join(moved)}), so changes cannot be audited; audit another data set"
            )
        y = np.array(self.private["y"])
        at = int(generator(0, "adjacency", self.data.name).integers(len(y)))
        y[at] = self.public.meta["classes"]
        what = f"record {at} has the label {y[at]}, which is not a class"
        changes = [("new label", what, self.with_records({**self.private.arrays, "y": y}, "new-label"))]
        settings = self.data.settings
        if settings and (copies := DATASETS.fact(settings.loader, "unlike_others")):
            for kind, what, private in imported(copies)(self.folder, **settings.files, **settings.declared):
                changed = settings.model_copy(update={"private": str(private)})
                changes.append((kind, what, replace(self.data, settings=changed)))
        findings = [
            compare_runs(kind, what, False, self.unchanged, Rerun(self.config, data, self.folder / "changed"))
            for kind, what, data in changes
        ]
        return AuditedData(f"{self.data.name}: the data set", {"dataset": self.data.name}, [], findings)


def compare_runs(
    kind: str, what: str, claimed: bool, before: Rerun, after: Rerun, pick: Callable[[int], Sequence[str]] | None = None
) -> ChangeFinding:
    """Run the stages on changed data, compare their outputs with those on unchanged data, and return the finding.

    The outputs of the stages before training are compared first. If a public output differs, or if several shards
    differ, no teacher is trained. Otherwise, teachers are trained, and their votes are compared. If a stage refuses the
    changed data with an error, this is a finding too.

    Parameters
    ----------
    kind, what : kind and description of the change
    claimed : True if the partition claims that the change alters at most one shard. Only then is a change of several
        shards a violation
    before, after : runs on the unchanged and on the changed data
    pick : function that takes the number of the teacher whose shard changed, and returns the chunks of teachers to
        train; None: train no teachers
    """
    try:
        finding = ChangeFinding.of(kind, what, claimed, before.prepared, after.prepare().prepared)
        if pick is not None and not finding.moved:
            chunks = pick(next(iter(finding.shards_moved), 0))
            finding = ChangeFinding.of(kind, what, claimed, before.vote(chunks), after.vote(chunks))
        return finding
    except Exception as fault:
        # A refusal leaks information about the data, so it is a violation if `claimed` is True.
        why = in_one_line(fault).replace(f"{after.folder.parents[1]}/", "")
        return ChangeFinding.refused(kind, what, claimed, why)
    finally:
        shutil.rmtree(after.folder, ignore_errors=True)


def _audit_ensemble(
    data: DataSet, ensemble: Ensemble, rounds: Sequence[Round], folder: Path, changes: int, thorough: bool
) -> AuditedData:
    """Compare the outputs of the stages on changed data with those on unchanged data; return one finding per change.

    Each applicable kind of change is made `changes` times. The stages from `data` to the votes of `ensemble` write to
    subfolders of `folder`. If `thorough` is False, only a few teachers are trained for each change, among them the one
    whose shard changed.
    """
    if not thorough:
        chunk = ensemble.teachers if ensemble.teachers <= 2 * _TOGETHER else _TOGETHER
        ensemble = replace(ensemble, work=ensemble.work.model_copy(update={"chunk": chunk}))
        # Features take long to extract, so they are extracted only for teachers that vote with them.
        rounds = [first for first in rounds if ensemble.votes_in_rounds or not first.uses_features]
    labels_only = ensemble.split.parameters.protects is not None  # if True, samples are public and do not change

    def in_file_order(records: Records) -> Records:
        """Return `records` sorted by label if only labels are private, and otherwise unchanged.

        In sorted data, a record with a changed label moves to another position. So the audit also tests that the order
        of records has no effect.
        """
        if not labels_only:
            return records
        order = np.argsort(records["y"], kind="stable")
        return {name: values[order] for name, values in records.items()}

    def rerun(name: str, records: Records) -> Rerun:
        return Rerun(data.config, data.with_records(in_file_order(records), name), folder / name, ensemble, rounds)

    def chunks_to_train(teacher: int) -> list[str]:
        chunks, place = ensemble.chunks, teacher // ensemble.work.chunk
        if thorough or len(chunks) < 2:
            return chunks
        return [chunks[place], chunks[(place + len(chunks) // 2) % len(chunks)]]

    owners = ensemble.partition.owners
    records = in_file_order({**data.private.arrays, **({"owner": read_owners(Path(owners))} if owners else {})})
    base = rerun("as-it-is", records).prepare()
    partition = read_arrays(base.folder / ensemble.name / "partition.npz", PARTITION)
    protects = partition.meta["protects"]
    holders = np.full(partition.meta["samples"], NOBODY)
    holders[partition["indices"]] = np.repeat(np.arange(ensemble.teachers), np.diff(partition["offsets"]))
    split = base.folder / ensemble.split.name
    pool, test = (_read_as_loaded(split / f"{name}.npz")["x"] for name in ("pool", "test"))
    world = World(records, holders, pool, test, protects, ensemble.work.chunk)
    kinds = [kind for kind in KINDS if (kind == "label") == labels_only]
    kinds = [kind for kind in kinds if "owner" in records or not kind.startswith("owner")]
    seed, stream = ensemble.split.seed, ("adjacency", ensemble.name)
    findings: list[ChangeFinding] = []
    with progress(f"{ensemble.slug}: changed data", changes * len(kinds), "changes") as done:
        for repeat, kind in itertools.product(range(changes), kinds):
            rng = generator(seed, *stream, kind, repeat)
            at = world.choose(kind, repeat, generator(seed, *stream, repeat), rng)
            # Train the holder of the record first, so that a failure on unchanged data is not attributed to it.
            base.vote(chunks_to_train(int(holders[at])))
            what, changed = world.change(kind, at, rng)
            claims = world.claims_one_shard(kind)
            findings.append(compare_runs(kind, what, claims, base, rerun("changed", changed), chunks_to_train))
            done(len(findings))
    retrained = {i for finding in findings for i in finding.retrained}
    more = "--thorough retrains all, joins their votes and selects queries by features of the pool"
    notes = [f"Retrained: {len(retrained)} of {ensemble.teachers} teachers; {more}."]
    facts = {"dataset": data.data.name, "teachers": ensemble.teachers, "partition": ensemble.partition.slug}
    return AuditedData(ensemble.name, {**facts, "protects": protects}, notes, findings)


command = stage_command(run)
command.name = "audit"
