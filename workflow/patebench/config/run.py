"""Plan the run of a configuration: the jobs, and the options of the commands that make the output files.

The rules in `workflow/rules` define the graph of jobs. A rule reads the options of its command from a `Run`. It also
reads from there the input files that do not follow from the path of the output file, such as the results to collect.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from patebench.config.artefacts import Data, Ensemble, Experiment, LabelSet, Options, Round, Setting, Split
from patebench.config.parameters import (
    AuditParameters,
    DistilParameters,
    DpsgdParameters,
    FeatureMethodParameters,
    KeptOutputs,
    LedgerSettings,
    PetdlParameters,
    PrivateKnnParameters,
    SelectionParameters,
    StudentParameters,
    TrainingParameters,
    baseline_slug,
)
from patebench.core.bound import large_delta
from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, nearest
from patebench.core.seeds import Mode, stream_name
from patebench.core.spelling import LEDGER_VARIABLES, shell_words
from patebench.core.text import listing
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.local_mechanisms import LocalMechanism
from patebench.models import on_features
from patebench.students import needs_features, reads_table, selects_by_features

#: Folder of the ledgers, below the results.
LEDGER = "ledger"
#: Names of folders directly below the results that are not data sets.
RESERVED = ("benchmarks", "figures", LEDGER, "logs", "reference", "tables")


@dataclass
class Run:
    """Options and targets of a checked configuration.

    Files and folders are paths below `results`, except the user's own files and where stated.

    Attributes
    ----------
    options : output file → options of its command. For a rule with several outputs, the key is the first output.
    jobs : names of all jobs, in the form "stage/folder".
    chunks : folder of votes → ranges of teacher numbers, such as "0-24"; one job trains the teachers of one range.
    selections : ensemble → name of the folder of its queries, in a list of length 1. Only ensembles whose queries are
        selected before the teachers vote are included.
    uses_features : output files (votes, queries, students) whose jobs read the pool's features.
    uses_encoder : output files (votes, students, models) whose jobs read the encoder of the pool's features.
    label_splits : splits in which only labels are private. Their pools consist of training samples.
    own_files : data set, split or ensemble → the user's own files that its job reads: samples, an encoder, owners of
        samples, or imported votes.
    encoded_datasets : data sets whose samples are features of encoders.
    without_pool : ensembles with imported votes on unknown samples, which have no true labels.
    audited_votes : audit of imported votes on unknown samples → path of the votes, including `results`, in a list of
        length 1. Such an audit reads the number of classes from the votes.
    gathered : folder of votes → kind of result ("labels", "students" or "distilled") → result folders, which one job
        collects. The result folders are paths below the folder of votes, stored as keys of a dict with the values None.
    records : kind of record, such as "audits" → files from which figures and tables are made.
    contents : subject of figures and tables, such as "students" → set of pairs (data set with results, value). For a
        subject whose values are compared, such as the size of the pool, `value` is one of the values; otherwise None.
    copies : modified data set → built-in data set of which it is a copy.
    modes : path of a labels file, including `results` → "seeded" or "release".
    warnings : settings that are valid but probably not intended, each with the path of its key.
    """

    name: str
    results: str
    data_root: str
    download: bool
    mode: Mode
    ledger: LedgerSettings | None
    aggregators: int | None
    seeds: tuple[int, ...] = ()
    experiments: tuple[Experiment, ...] = ()

    options: dict[str, Options] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    chunks: dict[str, list[str]] = field(default_factory=dict)
    selections: dict[str, list[str]] = field(default_factory=dict)
    uses_features: set[str] = field(default_factory=set)
    uses_encoder: set[str] = field(default_factory=set)
    label_splits: set[str] = field(default_factory=set)
    own_files: dict[str, list[str]] = field(default_factory=dict)
    encoded_datasets: set[str] = field(default_factory=set)
    without_pool: set[str] = field(default_factory=set)
    audited_votes: dict[str, list[str]] = field(default_factory=dict)
    gathered: dict[str, dict[str, dict[str, None]]] = field(default_factory=dict)
    records: dict[str, list[str]] = field(default_factory=dict)
    contents: dict[str, set[tuple[str, Any]]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def pages(self) -> str:
        """Return the folder of the report with its figures and tables."""
        return f"{self.results}/{self.name}".rstrip("/")

    @property
    def label(self) -> str:
        """Return the name of this configuration in logs and benchmark files; "default" if it has no name."""
        return self.name or "default"

    def command_options(self, file: str) -> str:
        """Return the options of the command that makes `file`, a path below the results, quoted for a shell.

        Raises PatebenchError if no experiment needs the file.
        """
        if file not in self.options:
            path, similar = f"{self.results}/{file}", nearest(file, self.options)
            line = f"no experiment of this configuration makes {path}{similar}; correct the path"
            raise PatebenchError(line, code="unknown-target")
        return shell_words(self.options[file])

    def record_files(self) -> dict[str, list[str]]:
        """Return the input files of tables and figures, as a dict from kind of result to paths.

        The kinds are "collected" (results from one ensemble's votes), "baselines", "audits" and "models".
        """
        kinds = ("collected", "baselines", "audits", "models")
        return {kind: [f"{self.results}/{path}" for path in self.records.get(kind, [])] for kind in kinds}

    def with_content(self, registry: Registry) -> list[str]:
        """Return the names of the figures or tables in `registry` that this run can fill, in the order of the registry.

        An entry can state a condition. `needs` lists kinds of results, such as "students": the run must have at least
        one of these kinds. `varies` names a setting, such as "pool": for one data set, the run must use at least two
        values of this setting.
        """
        return [name for name in registry if self._has_content(registry, name)]

    def _has_content(self, registry: Registry, name: str) -> bool:
        needs, varied = registry.fact(name, "needs"), registry.fact(name, "varies")
        if varied:
            datasets = [dataset for dataset, _ in self.contents.get(varied, ())]
            return len(set(datasets)) < len(datasets)
        return needs is None or any(word in self.contents or word in self.records for word in needs)

    def access_options(self) -> str:
        """Return the command options `root`, the folder of data sets, and `download`, quoted for a shell."""
        return shell_words({"root": self.data_root, "download": self.download})

    def ledger_environment(self) -> dict[str, str]:
        """Return the environment variables with the total budget of all releases and the name of the private data.

        Commands that draw a release read these variables. A variable is empty if its setting is missing.
        """
        ledger = self.ledger.model_dump() if self.ledger and self.mode is Mode.RELEASE else {}
        return {variable: str(ledger.get(name) or "") for name, variable in LEDGER_VARIABLES.items()}

    def released(self) -> dict[str, list[str]]:
        """Return the input files of the report's page on released labels, as a dict from kind of file to paths.

        The kinds are "labels", "bounds", "students" and "pools". The dict is empty if nothing is released.
        """
        if self.mode is not Mode.RELEASE:
            return {}

        def files(kind: str, name: str) -> list[str]:
            folders = [(voters, below) for voters, kinds in self.gathered.items() for below in kinds.get(kind, [])]
            return [os.path.join(self.results, *folder, name) for folder in folders]

        if not (labels := files("labels", "labels.npz")):
            return {}
        return {
            "labels": labels,
            "bounds": files("labels", "bounds.json"),
            "students": files("students", "student.json"),
            "pools": [f"{self.results}/{pool}" for pool in self.options if pool.endswith("/pool.npz")],
        }

    def check_size_of_delta(self, where: str, delta: float, teachers: int | None) -> None:
        """Check that `delta`, given at the key `where`, is below 1/`teachers`.

        If `teachers` is None, the number is unknown and assumed to be 100. If the check fails, a warning is added to
        the run. In release mode with a known number of teachers, PatebenchError is raised instead.
        """
        if fault := large_delta(delta, teachers):
            if self.mode is Mode.RELEASE and teachers is not None:
                raise PatebenchError(fault, code="large-delta", where=where)
            if (line := f"{where}: {fault}") not in self.warnings:
                self.warnings.append(line)

    # Each of the following methods adds an artefact and all artefacts that it needs.

    def add_data(self, data: Data) -> None:
        own = data.settings
        self._add("data", data.name, "private.npz", own.options() if own else {})
        self._note_subject(data, data.name)
        if own:
            self.own_files[data.name] = list(own.files.values())
            if own.features:
                self.encoded_datasets.add(data.name)
            if own.original is not None:
                self.copies[data.name] = own.original
                self._note_subject(data, own.original)

    def add_split(self, split: Split) -> None:
        self.add_data(split.data)
        if split.parameters.protects:
            self.label_splits.add(split.name)
        self._add("split", split.name, "pool.npz", {**split.parameters.options(), **split.random(split.name)})

    def add_selection(self, split: Split, selection: SelectionParameters) -> str:
        """Add the job that selects queries of `split` before any teacher votes; return the folder of the queries."""
        folder = f"{split.name}/queries/{selection.slug}"
        self._add("select_queries", folder, "queries.npz", {**selection.options(), **split.random(folder)})
        if selects_by_features(selection.strategy):
            self._add_features(split, f"{folder}/queries.npz", self.uses_features)
        return folder

    def add_ensemble(self, ensemble: Ensemble) -> None:
        split, name = ensemble.split, ensemble.name
        if ensemble.imported:
            if ensemble.has_pool:
                self.add_split(split)
            else:
                self.without_pool.add(name)
            of_table = {} if ensemble.has_pool else {"dataset": split.data.name, "seed": split.seed}
            options = {"teachers": ensemble.teachers, **ensemble.imported.options(), **of_table}
            self._add("import_votes", name, "votes.npz", options)
            return
        self.add_split(split)
        empty = {"empty": True} if ensemble.votes_by_query else {}
        unit = {"protects": split.parameters.protects} if split.parameters.protects else {}
        options = {"teachers": ensemble.teachers, **ensemble.partition.options(), **empty, **unit, **split.random(name)}
        self._add("partition", name, "partition.npz", options)
        if ensemble.partition.owners:
            self.own_files[name] = [ensemble.partition.owners]
        if not ensemble.votes_by_query:
            self._note_subject(split.data, "trained teachers")
        if ensemble.queries:
            self.add_selection(split, ensemble.queries)
            self.selections[name] = [ensemble.queries.slug]
        if not ensemble.votes_in_rounds:
            self._add_votes(ensemble, name)

    def _add_votes(self, ensemble: Ensemble, folder: str) -> None:
        """Add the jobs that train the teachers of `ensemble` and write their votes to `folder`.

        If the teachers vote in every round of active learning, `folder` is the folder of one round. Otherwise, it is
        the folder of the ensemble.
        """
        work, split = ensemble.work, ensemble.split
        options = {**ensemble.training.options(), **KeptOutputs.of(work).options(), **split.random(folder)}
        for chunk in ensemble.chunks:
            target = f"chunks/{chunk}.npz"
            self._add("train_teachers", folder, target, {"teachers": chunk, **options}, job=f"{folder}/{chunk}")
        self.chunks[folder] = ensemble.chunks
        if ensemble.votes_by_query:
            self._add_features(split, f"{folder}/votes.npz", self.uses_features, self.uses_encoder)
        elif on_features(ensemble.training.model):
            self._add_features(split, f"{folder}/votes.npz", self.uses_encoder)
        self._add("join_votes", folder, "votes.npz", {})

    def add_round(self, round: Round) -> None:
        for part in round.rounds:
            self._add("select_queries", part.name, "queries.npz", part.options())
            if part.uses_features:
                self._add_features(part.ensemble.split, f"{part.name}/queries.npz", self.uses_features)
            if part.ensemble.votes_in_rounds:
                self._add_votes(part.ensemble, part.name)

    def add_labels(self, labels: LabelSet, queries: Sequence[int], delta: float) -> None:
        """Add the jobs that make a label set, and the job that computes its bounds on ε at `delta`.

        There are bounds for each number of queries in `queries`. For a release or a round of active learning, `queries`
        is ignored, and the bounds are for all queries of the label set.
        """
        self.add_ensemble(labels.ensemble)
        if labels.round:
            self.add_round(labels.round)
        noise = labels.noise_options(f"{self.results}/{LEDGER}")
        if labels.aggregators:
            self._add_secure(labels, noise)
        else:
            limit = dict(zip(("budget", "delta"), labels.budget, strict=True)) if labels.budget else {}
            self._add("aggregate", labels.name, "labels.npz", {**labels.setting.options(), **limit, **noise})
        self.modes[f"{self.results}/{labels.name}/labels.npz"] = str(labels.mode)
        if not labels.round:
            data, mechanism = labels.ensemble.split.data, labels.setting.mechanism
            self._note_subject(data, "labels")
            if labels.ensemble.has_pool:  # else there is no accuracy, which the figures of mechanisms show
                self._note_subject(data, mechanism)
            if issubclass(MECHANISMS.load(mechanism), LocalMechanism):
                self._note_subject(data, "local mechanisms")
        account: Options = {"delta": delta}
        if labels.mode is Mode.RELEASE:
            account |= {"ledger": noise["ledger"]}
        elif not labels.round:
            account = {"queries": tuple(queries), **account, **noise}
        self._add("account", labels.name, "bounds.json", account, merged_option="queries")
        self._add_collection(labels.voters, "labels", labels.name)

    def _add_secure(self, labels: LabelSet, noise: Options) -> None:
        """Add the jobs of secure aggregation: they make the teachers' shares, each aggregator's sum, and the labels.

        `noise` contains the command options for the source of the noise.
        """
        share = {**labels.setting.options(), "teachers": labels.ensemble.teachers, **noise}
        for chunk in labels.ensemble.chunks:
            target = f"secure/aggregator-1/{chunk}.npz"
            self._add("secure_share", labels.name, target, share, job=f"{labels.name}/{chunk}")
        for i in range(1, (labels.aggregators or 0) + 1):
            target = f"secure/aggregator-{i}/sum.npz"
            self._add("secure_sum", labels.name, target, {}, job=f"{labels.name}/{i}")
        self._add("secure_open", labels.name, "labels.npz", {})

    def add_student(self, labels: LabelSet, parameters: StudentParameters, queries: int) -> None:
        """Add the job that trains a student on the labels of the first `queries` queries.

        In active learning, the student is stored in the folder of its labels; otherwise, in a folder below that folder.
        """
        split = labels.ensemble.split
        name = labels.name if labels.round else f"{labels.name}/{parameters.slug_of(queries)}"
        for word in ("students", parameters.method, "rounds" if labels.round else "students of the pool"):
            self._note_subject(split.data, word)
        clusters = labels.ensemble.queries.queries if labels.ensemble.queries else None
        cap = dict(labels.setting.parameters).get("k")
        for word, value in (("pool", split.parameters.pool), ("clusters", clusters), ("cap", cap)):
            if value is not None:
                self._note_subject(split.data, word, value)
        options = {"queries": queries, **parameters.options(), **split.random(name)}
        self._add("train_student", name, "student.json", options)
        if needs_features(parameters.method):
            self._add_features(split, f"{name}/student.json", self.uses_encoder)
        if labels.read_by_features and not reads_table(parameters.method):
            self._add_features(split, f"{name}/student.json", self.uses_features)
        self._add_collection(labels.voters, "students", name)

    def add_distilled(self, ensemble: Ensemble, parameters: DistilParameters) -> None:
        self.add_ensemble(ensemble)
        name = f"{ensemble.name}/distillation/{parameters.slug}"
        options = {**parameters.options(), **ensemble.split.random(name)}
        self._note_subject(ensemble.split.data, "distilled")
        self._add("distil", name, "distillation.json", options, merged_option="samples")
        self._add_collection(ensemble.name, "distilled", name)

    def add_petdl(self, ensemble: Ensemble, parameters: PetdlParameters) -> None:
        """Add the job that trains a student by PET-DL.

        All PET-DL students of an ensemble use the same random stream, for a fair comparison.
        """
        self.add_ensemble(ensemble)
        name = f"{ensemble.name}/petdl/{parameters.slug}"
        self._note_subject(ensemble.split.data, "PET-DL", parameters.slug)
        options = {**parameters.options(), **ensemble.split.random(f"{ensemble.name}/petdl")}
        self._add("train_petdl", name, "petdl.json", options, record_kind="models")
        self._add_collection(ensemble.name)

    def add_baseline(self, split: Split, training: TrainingParameters, true_labels: int | None = None) -> None:
        """Add the job that trains a non-private model on `true_labels` true labels of the pool.

        If `true_labels` is None, the model is trained on all private data instead.
        """
        self.add_split(split)
        name = f"{split.name}/baseline/{baseline_slug(training, true_labels)}"
        options = {"true-labels": true_labels, **training.options(), **split.random(name)}
        self._add("train_baseline", name, "baseline.json", options, record_kind="baselines")

    def add_naming(self, split: Split, selection: SelectionParameters) -> None:
        """Add the public baseline: clusters of the pool, each labelled by the most frequent true label in it.

        `selection` contains the number of clusters.
        """
        self.add_split(split)
        folder = self.add_selection(split, selection)
        self._note_subject(split.data, "namings")
        self._add_features(split, f"{folder}/naming.json")
        self._add("name_clusters", folder, "naming.json", {}, record_kind="baselines")

    def add_private_model(
        self,
        stage: str,
        split: Split,
        parameters: DpsgdParameters | PrivateKnnParameters | FeatureMethodParameters,
        *,
        encoder: bool = True,
    ) -> None:
        """Add the model that the command `stage` trains on the private data with differential privacy.

        `encoder` is True if the training reads the encoder of the pool's features.
        """
        self.add_split(split)
        kind = stage.removeprefix("train_")
        name, file = f"{split.name}/{kind.replace('_', '-')}/{parameters.slug}", f"{kind}.json"
        self._add(stage, name, file, {**parameters.options(), **split.random(name)}, record_kind="models")
        if encoder:
            self._add_features(split, f"{name}/{file}", self.uses_encoder)

    def add_audit(
        self, data: Data, teachers: int, setting: Setting, queries: Sequence[int], delta: float, audit: AuditParameters
    ) -> None:
        """Add the audit of the mechanism in `setting`, for each number of queries in `queries`.

        The audit constructs the votes of neighbouring data sets and trains no teachers, so one audit serves all seeds.
        `audit` contains the number of runs and the confidence level.
        """
        name = audit_name(data, teachers, setting)
        numbers = {"teachers": teachers, "queries": tuple(queries), "delta": delta}
        options = {**setting.options(), **numbers, **audit.options(), "seed": 0, "stream": stream_name(name)}
        self._add("audit", name, "audit.json", options, record_kind="audits", merged_option="queries")

    def _add_features(self, split: Split, file: str, *file_sets: set[str]) -> None:
        """Add the job that computes the pool's features and stores their encoder.

        `file` is an output of another job, which reads the features or the encoder. `file` is added to each set in
        `file_sets`, such as `uses_features`.
        """
        network = {}
        if split.encoder_file:
            network, self.own_files[split.name] = {"network": split.encoder_file}, [split.encoder_file]
        self._add("extract_features", split.name, "features.npz", {**network, **split.random(f"{split.name}/features")})
        for files in file_sets:
            files.add(file)

    def _add_collection(self, voters: str, kind: str = "", name: str = "") -> None:
        """Add the job that gathers, in one file, the results made from the votes in the folder `voters`.

        If `kind` is given, the job also gathers the result of this kind in the folder `name`. Kinds are "labels",
        "students" and "distilled".
        """
        kinds = self.gathered.setdefault(voters, {})
        below = name.removeprefix(voters).lstrip("/")
        if kind:
            kinds.setdefault(kind, {})[below] = None
        self._add("collect", voters, "collected.json", {}, record_kind="collected")

    def _note_subject(self, data: Data, subject: str, value: Any = None) -> None:
        """Record that `data` has results on `subject`, such as "labels", for figures and tables on this subject.

        If the subject is a setting that figures compare, such as "pool", `value` is its value; otherwise None.
        """
        self.contents.setdefault(subject, set()).add((data.name, value))

    def _add(
        self,
        stage: str,
        folder: str,
        file: str,
        options: Options,
        *,
        job: str | None = None,
        record_kind: str = "",
        merged_option: str = "",
    ) -> None:
        """Add the job that makes the output `file` in `folder` by the command of `stage` with `options`.

        The job is called `stage`/`job`; by default, `job` is `folder`. `record_kind` is the kind of result, if figures
        and tables read the file. Several experiments may add the same file with the same options. Only the option
        `merged_option` may differ: its values are merged. Raises PatebenchError if another option differs.
        """
        target = f"{folder}/{file}"
        known = self.options.get(target)
        if known is None:
            self.jobs.append(f"{stage}/{job or folder}")
            if record_kind:
                self.records.setdefault(record_kind, []).append(target)
        else:
            if merged_option in options:
                merged = {merged_option: tuple(sorted({*known[merged_option], *options[merged_option]}))}
                known, options = {**known, **merged}, {**options, **merged}
            if known != options:
                names = sorted(name for name in {**known, **options} if known.get(name) != options.get(name))
                raise PatebenchError(
                    f"two experiments write {target} with different values of {listing(names)}; give both the same"
                    " values"
                )
        self.options[target] = options

    def job_names(self) -> list[str]:
        """Return the names of all jobs (stage/folder), which are also the names of their benchmark files."""
        return [*self.jobs, f"manifest/{self.label}", f"report/{self.label}"]


def audit_name(data: Data, teachers: int, setting: Setting) -> str:
    """Return the folder for the audit of the mechanism `setting` with `teachers` teachers and the classes of `data`."""
    return f"{data.name}/audit/teachers-{teachers}/{setting.name}"
