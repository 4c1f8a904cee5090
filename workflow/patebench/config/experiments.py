"""Expand the experiments of a configuration into label sets, students, audits and other targets of a run.

The settings are checked against the requirements of the mechanisms and against each other.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from patebench.baselines import DPSGD_FORMS
from patebench.baselines.on_features import FEATURE_METHODS, protects_only_labels
from patebench.config.artefacts import Data, Ensemble, Experiment, LabelSet, Round, Setting, Split
from patebench.config.parameters import (
    AuditParameters,
    DistilParameters,
    DpsgdParameters,
    FeatureMethodParameters,
    ImportParameters,
    PartitionParameters,
    PetdlParameters,
    PrivateKnnParameters,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
)
from patebench.config.run import Run, audit_name
from patebench.config.settings import AuditSettings, DatasetSettings, EnsembleSettings, ExperimentSettings
from patebench.core.errors import PatebenchError, call_all, located
from patebench.core.fields import Parameters, key_path, show
from patebench.core.registry import nearest
from patebench.core.seeds import Mode
from patebench.core.text import plural
from patebench.data import DATASETS, reads_own_files
from patebench.data.dataset import OWN_DATA
from patebench.data.partitions import PARTITIONS, Change, protecting
from patebench.features import DEFAULT as DEFAULT_ENCODER
from patebench.features import check_trainable
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import (
    Mechanism,
    check_adaptive,
    check_covers,
    check_releasable,
    cost_per_query,
    make_mechanism,
)
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.models import on_queries, weighted
from patebench.students import initial_strategy
from patebench.teachers.teacher_outputs import PROBABILITIES

T = TypeVar("T")
P = TypeVar("P", bound=Parameters)
Grid = Mapping[str, Mapping[str, Sequence[float]]]

#: Values that folder names do not contain, such as δ: (folder of an artefact, last part of the key) → (key, value).
#: Experiments with the same folder for an artefact share this artefact, so they must agree on these values.
SharedValues = dict[tuple[str, str], tuple[str, object]]

#: Number of classes in checks of a mechanism's cost; any number gives the same result.
_ANY_CLASSES = 2

#: Keys of an experiment that are refused if only labels are private, because no privacy theorem covers them.
_OF_RECORDS = ("audit", "distillation", "petdl", "dpsgd", "private_knn", "public_reference")

#: Strategies that select the `queries` of an experiment, for ensembles without and with the key `neighbours`.
_CLUSTERS, _NEIGHBOURS = "prototypes", "random"


def expand(
    run: Run,
    own: Mapping[str, DatasetSettings],
    shared: SharedValues,
    name: str,
    settings: ExperimentSettings,
    seeds: Sequence[int],
) -> Experiment:
    """Add the artefacts of the experiment `name` to `run` for each seed; return the label sets and ensembles added.

    `own` contains the user's data sets by name. `shared` contains values that earlier experiments set for artefacts; if
    this experiment has the same artefacts, it must set the same values. Raises PatebenchError if a setting is invalid.
    """
    where, experiment = key_path("experiments", name), Experiment(name)
    _check_pool(f"{where}.queries", settings.queries or (), settings.pool)
    for selected in settings.queries or [None]:
        _Expansion(run, own, shared, experiment, where, settings, selected).add(seeds)
    return experiment


@dataclass(frozen=True)
class _Expansion:
    """Builder that adds the artefacts of one experiment to `run`.

    `selected` is the number of queries on which the teachers vote, or None if they vote on the whole pool.
    """

    run: Run
    own: Mapping[str, DatasetSettings]
    shared: SharedValues
    experiment: Experiment
    where: str
    settings: ExperimentSettings
    selected: int | None

    def add(self, seeds: Sequence[int]) -> None:
        settings, where, accounting = self.settings, self.where, self.settings.accounting
        sizes = [size for ensembles in settings.ensembles for size in ensembles.teachers]
        sizes += [votes.teachers for votes in settings.votes]
        if not sizes:
            line = "the key is missing; add at least one ensemble of teachers, or the votes of an ensemble in a file"
            raise PatebenchError(line, code="missing", where=f"{where}.ensembles")
        self.run.check_size_of_delta(f"{where}.accounting.delta", accounting.delta, max(sizes))
        for key in ("dpsgd", "private_knn", "feature_methods", "petdl"):
            for path, models in _keyed_entries(f"{where}.{key}", getattr(settings, key)):
                self._refuse_in_release(path, "its noise is drawn from a seed")
                if models.delta is not None:
                    self.run.check_size_of_delta(f"{path}.delta", models.delta, None)
        if not settings.mechanisms and not settings.rounds and not settings.petdl:
            line = "the key is missing; add at least one mechanism, which aggregates the votes"
            raise PatebenchError(line, code="missing", where=f"{where}.mechanisms")
        if settings.protects:
            self._check_labels_only()
        if settings.encoder_file is not None:
            _check_exists(f"{where}.encoder_file", settings.encoder_file)
        queries = self._queries()
        grid = mechanism_settings(f"{where}.mechanisms", settings.mechanisms)
        budget = (accounting.budget, accounting.delta) if accounting.budget else None
        self._check_mechanisms(grid, sizes, budget is not None)
        label_sets: list[LabelSet] = []
        for seed in seeds:
            split = Split(self._data(), seed, SplitParameters.of(settings), settings.encoder_file)
            ensembles = [*self._ensembles(split), *self._imported(split)]
            of_pool = [
                LabelSet(ensemble, setting, self.run.mode, budget, aggregators=self._aggregators(setting.mechanism))
                for ensemble, setting in itertools.product(ensembles, grid)
            ]
            for labels in of_pool:
                self._add_labels(labels, queries)
            self._students(of_pool, queries)
            self._rounds(ensembles)
            self._distil(ensembles)
            self._petdl(ensembles)
            self._comparisons(split)
            label_sets += of_pool
        if settings.audit:
            self._audits(settings.audit, label_sets, queries)

    def _check_labels_only(self) -> None:
        """Raise PatebenchError if a setting, such as an audit, is not supported for private labels of public samples.

        Called only for experiments that protect labels alone.
        """
        self._refuse_in_release(f"{self.where}.protects", "the ledger of releases adds up the ε of whole records")
        for key in _OF_RECORDS:
            if getattr(self.settings, key):
                line = f"no theorem covers this key if only labels are private ({self.where}.protects); leave it out"
                raise PatebenchError(line, code="labels", where=f"{self.where}.{key}")
        for where, ensembles in _keyed_entries(f"{self.where}.ensembles", self.settings.ensembles):
            if Change.REPLACE not in PARTITIONS.fact(ensembles.partition.strategy, "protects"):
                line = "if only labels are private, records are assigned to teachers at random; leave 'partition' out"
                raise PatebenchError(line, code="labels", where=f"{where}.partition")

    def _add_labels(self, labels: LabelSet, queries: Sequence[int]) -> None:
        delta = self.settings.accounting.delta
        self._check_agreement(labels.name, f"{self.where}.accounting.delta", delta)
        self.run.add_labels(labels, queries, delta)
        self.experiment.label_sets[labels] = None
        self.experiment.ensembles[labels.ensemble] = None

    def _aggregators(self, mechanism: str) -> int | None:
        """Return the number of parties that sum secret shares of votes for `mechanism`; None if there are no shares."""
        return self.run.aggregators if issubclass(MECHANISMS.load(mechanism), NoiseShares) else None

    def _queries(self) -> tuple[int, ...]:
        """Return the numbers T for which ε of the first T queries is computed, in ascending order."""
        where, pool = f"{self.where}.accounting.queries", self.selected or self.settings.pool
        wanted = self.settings.accounting.queries or (pool,)
        for path, count in _keyed_values(where, wanted):
            if self.selected and count > pool:
                line = f"{count} exceeds the {plural(pool, 'query')} that the teachers vote on; leave {count} out"
                raise PatebenchError(line, code="bound", where=path)
            _check_pool(path, [count], pool)
            if self.run.mode is Mode.RELEASE and count != pool:
                line = f"a release states ε only for all {plural(pool, 'query')}; leave {count} out"
                raise PatebenchError(line, code="release", where=path)
        return tuple(sorted(wanted))

    def _data(self) -> Data:
        name = self.settings.dataset
        built_in = (dataset for dataset in DATASETS if not reads_own_files(dataset))
        check_among(f"{self.where}.dataset", name, [*built_in, *self.own], "a data set")
        data = Data(name, self.own.get(name))
        if data.settings and data.settings.long_tail:
            where = f"{key_path('datasets', name)}.long_tail"
            self._refuse_in_release(where, "it selects records by their private labels")
            if self.settings.protects:
                line = f"'long_tail' selects samples by labels, which are private ({self.where}.protects); leave it out"
                raise PatebenchError(line, code="labels", where=where)
        return data

    def _check_mechanisms(self, grid: Iterable[Setting], sizes: Sequence[int], budget: bool) -> None:
        """Raise PatebenchError if a mechanism in `grid` does not support this experiment.

        The experiment has ensembles of `sizes` teachers; `budget` is True if answering stops at an ε budget.
        """
        for setting in grid:
            with located(key_path(f"{self.where}.mechanisms", setting.mechanism)):
                mechanism = self._supported_mechanism(setting)
                for teachers in sizes:
                    mechanism.per_query_cost(teachers, _ANY_CLASSES)  # refuses too few teachers
                    if isinstance(mechanism, NoiseShares):
                        mechanism.needed(teachers)
                if budget:
                    cost_per_query(setting.mechanism, mechanism, min(sizes), _ANY_CLASSES)
                    self._check_not_secure(setting, "answering cannot stop at a budget; leave 'accounting.budget' out")

    def _supported_mechanism(self, setting: Setting, teachers: set[int] | None = None) -> Mechanism:
        """Return the mechanism of `setting`; raise PatebenchError if the mechanism does not support this experiment.

        The mechanism must support the following features if the experiment uses them: releases, abstaining teachers,
        weighted votes, and privacy of labels alone. If `teachers` is given, only ensembles with these numbers of
        teachers are considered.
        """
        if self.run.mode is Mode.RELEASE:
            check_releasable(setting.mechanism, MECHANISMS.load(setting.mechanism))
        mechanism = make_mechanism(setting.mechanism, dict(setting.parameters))
        ensembles = [each for each in self.settings.ensembles if teachers is None or teachers & {*each.teachers}]
        have_weights = any(weighted(each.model) for each in ensembles)
        may_abstain = any(on_queries(each.model) for each in ensembles)
        labels_only = self.settings.protects is not None
        check_covers(mechanism, abstentions=may_abstain, weights=have_weights, labels_only=labels_only)
        if have_weights and (k := dict(setting.parameters)["k"]) != 1:
            line = f"k = {k:g} only raises ε, since each record's vector of votes has norm 1; use k = 1"
            raise PatebenchError(line, code="weights")
        return mechanism

    def _check_not_secure(self, setting: Setting, why: str) -> None:
        if self._aggregators(setting.mechanism):
            line = f"secure aggregation reveals the labels of all queries at once, so {why}"
            raise PatebenchError(line, code="secure")

    def _ensembles(self, split: Split) -> Iterator[Ensemble]:
        for where, settings in _keyed_entries(f"{self.where}.ensembles", self.settings.ensembles):
            if settings.partition.owners is not None:
                _check_exists(f"{where}.partition.owners", settings.partition.owners)
            partition = settings.partition.chosen_in(self.run.mode, names_owners=split.data.names_owners)
            if self.run.mode is Mode.RELEASE:
                _check_protects(where, settings, partition)
            work, training, queries = TeacherParameters.of(settings), settings.training, None
            most = self.selected or self.settings.pool
            if training.neighbours is not None and training.neighbours > most:
                line = f"{training.neighbours} exceeds the number of queries, {most}; use at most {most}"
                raise PatebenchError(line, code="bound", where=f"{where}.neighbours")
            if weighted(training.model) and self.selected is None:
                line = f"the key is missing; set the number of queries on which '{training.model}' teachers vote"
                raise PatebenchError(line, code="missing", where=f"{self.where}.queries")
            if self.selected is not None:
                strategy = _CLUSTERS if training.neighbours is None else _NEIGHBOURS
                queries = SelectionParameters(strategy=strategy, queries=self.selected)
            for teachers in settings.teachers:
                ensemble = Ensemble(split, teachers, partition, training, work, queries)
                for above, parameters in ((where, work), (f"{where}.partition", partition)):
                    for key in parameters.not_in_path():
                        self._check_agreement(ensemble.name, f"{above}.{key}", getattr(parameters, key))
                yield ensemble

    def _imported(self, split: Split) -> Iterator[Ensemble]:
        """Yield the ensembles whose votes are read from a file."""
        for where, settings in _keyed_entries(f"{self.where}.votes", self.settings.votes):
            self._refuse_in_release(where, "published votes protect nobody")
            self._check_whole_pool(where, "the file determines the queries")
            if split.data.settings and split.data.settings.original is None:
                line = (
                    f"the data set '{split.data.name}' may be private, and votes are imported only for public data"
                    " sets; for a copy of a public data set, set copy_of to the original; otherwise leave the votes out"
                )
                raise PatebenchError(line, code="private-data", where=where)
            votes = ImportParameters.of(settings)
            training = TrainingParameters.checked({"model": votes.name}, record=True)  # no registered model
            ensemble = Ensemble(split, settings.teachers, PartitionParameters(), training, imported=votes)
            if not ensemble.has_pool and (self.settings.students or self.settings.rounds):
                line = "a student needs samples, but a plain table of votes has none; leave 'students' and 'rounds' out"
                raise PatebenchError(line, code="no-samples", where=where)
            self._check_agreement(ensemble.name, f"{where}.file", settings.file)
            self.run.own_files[ensemble.name] = [str(Path(self.run.data_root, settings.file))]
            yield ensemble

    def _check_agreement(self, folder: str, where: str, value: object) -> None:
        """Raise PatebenchError if another experiment sets a different value for the artefact in `folder`.

        `where` is the configuration key and `value` its value in this experiment. The value is stored, to compare it
        with the values in later experiments.
        """
        place, known = self.shared.setdefault((folder, where.rsplit(".", 1)[-1]), (where, value))
        if known != value:
            line = (
                f"{show(value)} differs from {show(known)} at {place}, and both apply to {folder}; give both keys the"
                " same value"
            )
            raise PatebenchError(line, code="disagreement", where=where)

    def _refuse_in_release(self, where: str, why: str) -> None:
        if self.run.mode is Mode.RELEASE:
            line = f"{why}, so a release cannot use this key; leave the key out"
            raise PatebenchError(line, code="release", where=where)

    def _check_whole_pool(self, where: str, why: str = "the teachers must vote on the whole pool") -> None:
        """Raise PatebenchError about the key `where` if the teachers vote on selected queries only.

        `why` is the reason in the message, such as "the teachers must vote on the whole pool".
        """
        if self.selected:
            line = f"{why}, but {self.where}.queries selects {self.selected} queries; leave out one of the two keys"
            raise PatebenchError(line, code="queries", where=where)

    def _accounted_queries(self, where: str, numbers: Sequence[int] | None, accounted: Sequence[int]) -> Sequence[int]:
        """Return the numbers of queries for the students or audits declared at the key `where`.

        `numbers` are the numbers in the configuration. If `numbers` is None, the result is the largest number in
        `accounted`, which contains the numbers of queries for which ε is computed. Raises PatebenchError if `numbers`
        contains a number that is not in `accounted`.
        """
        for path, count in _keyed_values(f"{where}.queries", numbers or ()):
            check_among(path, count, accounted, "among this experiment's accounting.queries")
        return numbers or (max(accounted),)

    def _students(self, label_sets: Sequence[LabelSet], accounted: Sequence[int]) -> None:
        """Add the students of this experiment.

        A student learns from the labels of the first T queries of one of `label_sets`. `accounted` contains the allowed
        values of T: the numbers of queries for which ε is computed.
        """
        for where, settings in _keyed_entries(f"{self.where}.students", self.settings.students):
            parameters = StudentParameters.of(settings)
            chosen = {*_select_ensembles(where, settings.teachers, [labels.ensemble for labels in label_sets])}
            numbers = self._accounted_queries(where, settings.queries, accounted)
            wanted = dict.fromkeys(mechanism_settings(f"{where}.mechanisms", settings.mechanisms))
            declared = dict.fromkeys(labels.setting.name for labels in label_sets)
            for setting in wanted:
                path = f"{where}.mechanisms.{setting.mechanism}"
                check_among(path, setting.name, declared, "among this experiment's mechanisms")
            for labels in label_sets:
                if labels.ensemble in chosen and labels.setting in wanted:
                    for queries in numbers:
                        self.run.add_student(labels, parameters, queries)

    def _rounds(self, ensembles: Sequence[Ensemble]) -> None:
        """Add the rounds of active learning with `ensembles`: a label set and a student for each round."""
        for where, settings in _keyed_entries(f"{self.where}.rounds", self.settings.rounds):
            self._check_whole_pool(where, "rounds select their own queries")
            parameters = StudentParameters.of(settings)
            chosen = _select_ensembles(where, settings.teachers, ensembles)
            _check_pool(f"{where}.queries", [sum(settings.queries)], self.settings.pool)
            grid = mechanism_settings(f"{where}.mechanisms", settings.mechanisms)
            for setting in grid:
                with located(f"{where}.mechanisms.{setting.mechanism}"):
                    mechanism = self._supported_mechanism(setting, {ensemble.teachers for ensemble in chosen})
                    check_adaptive(setting.mechanism, mechanism)
                    self._check_not_secure(setting, "rounds are not possible; leave out 'secure' or 'rounds'")
            for ensemble, setting, strategy in itertools.product(chosen, grid, settings.strategy):
                for round in _plan_rounds(ensemble, setting, strategy, settings.queries, parameters, self.run.mode):
                    labels = LabelSet(ensemble, setting, self.run.mode, round=round)
                    self._add_labels(labels, (round.total,))
                    self.run.add_student(labels, parameters, round.total)

    def _distil(self, ensembles: Sequence[Ensemble]) -> None:
        """Add the networks that learn from labels and from probabilities of teachers in `ensembles` (distillation)."""
        for where, settings in _keyed_entries(f"{self.where}.distillation", self.settings.distillation):
            self._refuse_in_release(where, "distillation is not private")
            self._check_whole_pool(where)
            _check_pool(f"{where}.samples", settings.samples, self.settings.pool)
            chosen = _select_ensembles(where, settings.teachers, ensembles)
            parameters = DistilParameters.of(settings)
            parameters = parameters.model_copy(update={"samples": tuple(sorted(parameters.samples))})
            for ensemble in chosen:
                if not ensemble.work.soft:
                    line = f"the ensemble {ensemble.slug} stores no probabilities of teachers; add 'soft: [1, 5]' to it"
                    raise PatebenchError(line, code="knowledge", where=where)
                self.run.add_distilled(ensemble, parameters)

    def _petdl(self, ensembles: Sequence[Ensemble]) -> None:
        for where, settings in _keyed_entries(f"{self.where}.petdl", self.settings.petdl):
            self._check_whole_pool(where)
            _check_pool(f"{where}.samples", settings.samples or (), self.settings.pool)
            chosen = _select_ensembles(where, settings.teachers, ensembles)
            grid = self._combinations(where, settings, PetdlParameters)
            for ensemble in chosen:
                _check_stored_outputs(where, ensemble, grid)
                for parameters in grid:
                    self.run.add_petdl(ensemble, parameters)
                self.experiment.ensembles[ensemble] = None

    def _combinations(self, where: str, settings: Any, model: type[P]) -> list[P]:
        """Return one instance of the class `model` for each combination of the values that `settings` lists.

        If `settings` has no δ, the δ of the experiment is used.
        """
        values = {name: getattr(settings, name) for name in model.model_fields}
        values["delta"] = settings.delta or self.settings.accounting.delta
        columns = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
        rows = itertools.product(*columns.values())
        return [model.checked(dict(zip(columns, row, strict=True)), where) for row in rows]

    def _comparisons(self, split: Split) -> None:
        """Add the jobs of the models with which students are compared: baselines and other private methods."""
        settings, pool = self.settings, self.settings.pool
        if settings.baseline:
            self.run.add_baseline(split, settings.baseline.training)
        if wanted := settings.true_label_baseline:
            _check_pool(f"{self.where}.true_label_baseline.queries", wanted.queries, pool)
            for queries in wanted.queries:
                self.run.add_baseline(split, wanted.training, queries)
        if named := settings.public_reference:
            _check_pool(f"{self.where}.public_reference.clusters", named.clusters, pool)
            for clusters in named.clusters:
                self.run.add_naming(split, SelectionParameters(strategy=_CLUSTERS, queries=clusters))
        for where, entry in _keyed_entries(f"{self.where}.dpsgd", settings.dpsgd):
            for dpsgd in self._combinations(where, entry, DpsgdParameters):
                if dpsgd.form == "fine-tuned":
                    with located(f"{where}.form"):
                        check_trainable(settings.encoder or DEFAULT_ENCODER)
                self.run.add_private_model("train_dpsgd", split, dpsgd, encoder=DPSGD_FORMS[dpsgd.form].from_encoder)
        for where, knn_entry in _keyed_entries(f"{self.where}.private_knn", settings.private_knn):
            _check_pool(f"{where}.queries", [knn_entry.queries], pool)
            for knn in self._combinations(where, knn_entry, PrivateKnnParameters):
                self.run.add_private_model("train_private_knn", split, knn)
        for where, method_entry in _keyed_entries(f"{self.where}.feature_methods", settings.feature_methods):
            if protects_only_labels(method_entry.method) != bool(settings.protects):
                units = ("whole records", "only labels")
                own, wanted_unit = units if settings.protects else units[::-1]
                raise PatebenchError(
                    f"the method '{method_entry.method}' protects {own}, but this experiment protects {wanted_unit}"
                    f" ({self.where}.protects); leave the method out, or change 'protects'",
                    code="labels",
                    where=f"{where}.method",
                )
            numbers = {key: getattr(method_entry, key) for key in ("prototypes", "candidates", "clusters")}
            # A small pool reduces the default number of candidates, but not that of clusters, which must be checked.
            numbers["clusters"] = numbers["clusters"] or getattr(
                FEATURE_METHODS.load(method_entry.method), "clusters", None
            )
            for key, number in numbers.items():
                _check_pool(f"{where}.{key}", [number] if number else [], pool)
            for method in self._combinations(where, method_entry, FeatureMethodParameters):
                self.run.add_private_model("train_on_features", split, method)

    def _audits(self, settings: AuditSettings, label_sets: Sequence[LabelSet], accounted: Sequence[int]) -> None:
        """Add an audit for each pair of a mechanism and an ensemble in `label_sets`.

        `settings` may limit the numbers of teachers. `accounted` contains the numbers of queries for which ε is
        computed.
        """
        where, delta = f"{self.where}.audit", self.settings.accounting.delta
        chosen = {*_select_ensembles(where, settings.teachers, [labels.ensemble for labels in label_sets])}
        queries = sorted(self._accounted_queries(where, settings.queries, accounted))
        agreed = {"runs": settings.runs, "confidence": settings.confidence, "delta": delta}
        for ensemble, setting in dict.fromkeys((labels.ensemble, labels.setting) for labels in label_sets):
            if ensemble in chosen:
                audited = ensemble.split.data, ensemble.teachers, setting
                for key, value in agreed.items():
                    self._check_agreement(audit_name(*audited), f"{where}.{key}", value)
                self.run.add_audit(*audited, queries, delta, AuditParameters.of(settings))
                if not ensemble.has_pool:
                    self.run.audited_votes[audit_name(*audited)] = [f"{self.run.results}/{ensemble.name}/votes.npz"]


def check_own_files(name: str, settings: DatasetSettings) -> None:
    """Raise PatebenchError if a file of the data set `name` is missing, or if one file is both private and public."""
    where = key_path("datasets", name)
    call_all(partial(_check_exists, f"{where}.{role}", path) for role, path in settings.files.items())
    if settings.private and settings.public and Path(settings.private).samefile(settings.public):
        line = f"{settings.public} is also the private file; give a file with other samples; {OWN_DATA}"
        raise PatebenchError(line, code="same-file", where=f"{where}.public")


def mechanism_settings(where: str, grid: Grid) -> list[Setting]:
    """Return the settings in `grid`: for each mechanism, one setting per combination of the listed values.

    `where` is the key of `grid` in the configuration, for error messages.
    """
    settings = []
    for name, values in grid.items():
        here = key_path(where, name)
        with located(here):
            allowed = MECHANISMS.load(name).parameter_names()
        for parameter in values:
            check_among(f"{here}.{parameter}", parameter, allowed, f"a parameter of {name}")
        columns = [
            [(place, key, value) for place, value in _keyed_values(f"{here}.{key}", values[key])] for key in values
        ]
        for row in itertools.product(*columns):
            with located(row[0][0] if len(row) == 1 else here):
                mechanism = make_mechanism(name, {key: value for _, key, value in row})
            settings.append(Setting(name, tuple(mechanism.parameters().items())))
    return settings


def check_among(where: str, value: object, allowed: Collection[Any], what: str) -> None:
    """Raise PatebenchError if `value` is not in `allowed`.

    `where` is the configuration key of the value. `what` is a phrase for the message that describes allowed values,
    such as "a data set".
    """
    if value not in allowed:
        names = list(map(str, allowed))
        line = f"{show(value)} is not {what}{nearest(value, names)}; choose one of {', '.join(names)}"
        raise PatebenchError(line, code="unknown-name", where=where)


def _keyed_entries(where: str, values: Sequence[T]) -> list[tuple[str, T]]:
    """Return each entry of the list `values` with its key, such as "ensembles[0]" if `where` is "ensembles"."""
    return [(key_path(where, i), value) for i, value in enumerate(values)]


def _keyed_values(where: str, values: Sequence[T]) -> list[tuple[str, T]]:
    """Return each value of the list `values` with its key, such as "sigma[0]" if `where` is "sigma".

    If `values` has only one entry, its key is `where`, as for a value that is written without a list.
    """
    return [(where, values[0])] if len(values) == 1 else _keyed_entries(where, values)


def _check_pool(where: str, numbers: Sequence[int], pool: int) -> None:
    """Raise PatebenchError if one of `numbers`, given at the key `where`, exceeds `pool`, the size of the pool."""
    for place, value in _keyed_values(where, numbers):
        if value > pool:
            line = f"{value} exceeds the size of the pool, {plural(pool, 'sample')}; use at most {pool}"
            raise PatebenchError(line, code="bound", where=place)


def _check_exists(where: str, path: str) -> None:
    if not Path(path).exists():
        line = f"{path} does not exist; give an existing path, absolute or relative to {Path.cwd()}"
        raise PatebenchError(line, code="missing-file", where=where)


def _plan_rounds(
    ensemble: Ensemble,
    setting: Setting,
    strategy: str,
    sizes: Sequence[int],
    student: StudentParameters,
    mode: Mode,
) -> Iterator[Round]:
    """Yield consecutive rounds of active learning; round i selects `sizes[i]` queries by the strategy `strategy`.

    In the first round, there is no student yet. If `strategy` needs one, another strategy selects the queries of the
    first round.
    """
    first = initial_strategy(strategy)
    # Few records may be near a random sample, so prototypes (samples near cluster means) are selected first.
    if ensemble.votes_in_rounds and first != strategy:
        first = _CLUSTERS
    previous: Round | None = None
    for size in sizes:
        selection = SelectionParameters(strategy=strategy if previous else first, queries=size)
        previous = Round(ensemble, setting, selection, student, mode, previous)
        yield previous


def _check_stored_outputs(where: str, ensemble: Ensemble, grid: Iterable[PetdlParameters]) -> None:
    """Raise PatebenchError if `ensemble` does not store the teachers' outputs from which students of PET-DL learn.

    Students need each teacher's probabilities. They also need hints (outputs of a hidden layer) if an entry of `grid`
    has epochs of hint learning.
    """
    kept = ensemble.work.hints
    if kept is None:
        line = (
            f"the ensemble {ensemble.slug} does not store each teacher's outputs; add 'hints: block2' to it or, for"
            " a model without blocks, 'hints: probabilities'"
        )
        raise PatebenchError(line, code="knowledge", where=where)
    if kept == PROBABILITIES and any(parameters.hint_epochs for parameters in grid):
        line = f"the ensemble {ensemble.slug} stores no hints; change its 'hints' to 'block2', or set 'hint_epochs: 0'"
        raise PatebenchError(line, code="knowledge", where=f"{where}.hint_epochs")


def _select_ensembles(where: str, teachers: Sequence[int] | None, ensembles: Sequence[Ensemble]) -> list[Ensemble]:
    """Return the `ensembles` whose number of teachers is in `teachers`; if `teachers` is None, return all.

    Raises PatebenchError if `teachers` contains a number that no ensemble has. The key "`where`.teachers" of the
    configuration is named in the message.
    """
    sizes = sorted({ensemble.teachers for ensemble in ensembles})
    for place, size in _keyed_values(f"{where}.teachers", teachers or ()):
        check_among(place, size, sizes, "a number of teachers of this experiment's ensembles")
    return [ensemble for ensemble in ensembles if ensemble.teachers in (teachers or sizes)]


def _check_protects(where: str, settings: EnsembleSettings, partition: PartitionParameters) -> None:
    """Raise PatebenchError if a release must not use `partition`, the partition of an ensemble.

    A release needs a partition strategy that protects a record or an owner. It must not use the option `every_class`,
    which stops the run if a shard lacks a class: such a stop leaks private data. `where` and `settings` (the ensemble
    as written in the configuration) determine the key in the message.
    """
    if not PARTITIONS.fact(partition.strategy, "protects"):
        # The strategy is a separate key if there are other settings.
        own_key = ".strategy" if settings.partition.model_fields_set - {"strategy"} else ""
        line = (
            f"'{partition.strategy}' protects {PARTITIONS.fact(partition.strategy, 'protection')}, so it cannot be used"
            f" for a release; choose one of {protecting()}"
        )
        raise PatebenchError(line, code="unprotected", where=f"{where}.partition{own_key}")
    if partition.every_class:
        line = "the run stops if a shard lacks a class, and this stop leaks private data; leave 'every_class' out"
        raise PatebenchError(line, code="release", where=f"{where}.partition.every_class")
