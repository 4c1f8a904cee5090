"""The experiments of a configuration, added to a run.

Settings are compared with the registries, with the mechanisms' own rules and with each other.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patebench.baselines import DPSGD_FORMS, KNN_FORMS, form_of
from patebench.config.artefacts import Data, Ensemble, Experiment, LabelSet, Round, Setting, Split
from patebench.config.checks import (
    Agreement,
    check_among,
    check_exists,
    check_pool,
    check_registered,
    entries,
    places,
)
from patebench.config.parameters import (
    AuditParameters,
    ClassParameters,
    DistilParameters,
    DpsgdParameters,
    DpsgdTraining,
    PetdlParameters,
    PrivateKnnParameters,
    PrivateKnnTraining,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
)
from patebench.config.run import Run, audit_name
from patebench.config.settings import (
    AuditSettings,
    DatasetSettings,
    EnsembleSettings,
    ExperimentSettings,
    PetdlSettings,
)
from patebench.core.errors import PatebenchError, located
from patebench.core.fields import key_path
from patebench.core.seeds import Mode
from patebench.core.text import plural
from patebench.data import DATASETS, public_samples, reads_own_files
from patebench.data.dataset import OWN_DATA
from patebench.data.partitions import PARTITIONS, protecting
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, check_adaptive, check_budget, check_releasable, make_mechanism
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.models import MODELS, RECIPES, by_recipe, check_compressible, on_queries
from patebench.petdl import FORMS
from patebench.students import STRATEGIES, STUDENTS, initial_strategy, refuse_choice
from patebench.teachers.teacher_outputs import PROBABILITIES

Grid = Mapping[str, Mapping[str, Sequence[float]]]

#: Stands for the number of classes, which the data set tells later: whether a cost is known does not depend on it.
_ANY_CLASSES = 2

#: The strategies by which an experiment's own queries are chosen, before any teacher votes: those that stand for
#: clusters, and those that records are neighbours of.
_CLUSTERS, _NEIGHBOURS = "prototypes", "random"


@dataclass(frozen=True)
class Expansion:
    """Adds the experiments of one configuration to a run; `own` are the user's data sets."""

    run: Run
    own: Mapping[str, Data]
    agreement: Agreement = field(default_factory=Agreement)

    def experiment(self, name: str, settings: ExperimentSettings, seeds: Sequence[int]) -> Experiment:
        """Add all that one experiment asks for; PatebenchError for the first mistake."""
        where, found = key_path("experiments", name), Experiment(name)
        check_pool(f"{where}.queries", settings.queries or (), settings.pool)
        for asked in settings.queries or [None]:
            _Expanded(self, found, where, settings, asked).add(seeds)
        return found

    def aggregators(self, mechanism: str) -> int | None:
        """Return how many aggregators share a mechanism's votes; None if one party sums them."""
        return self.run.aggregators if MECHANISMS.load(mechanism).secure else None


@dataclass(frozen=True)
class _Expanded:
    """One experiment; `where` is the path of its key, `asked` the number of queries that are put to the teachers.

    None stands for the whole pool.
    """

    all: Expansion
    found: Experiment
    where: str
    settings: ExperimentSettings
    asked: int | None

    def add(self, seeds: Sequence[int]) -> None:
        settings, where = self.settings, self.where
        accounting = settings.accounting
        sizes = [size for each in settings.ensembles for size in each.teachers]
        self.run.check_size_of_delta(f"{where}.accounting.delta", accounting.delta, max(sizes, default=None))
        for key in ("dpsgd", "private_knn", "petdl"):
            for path, each in entries(f"{where}.{key}", getattr(settings, key)):
                if each.delta is not None:
                    self.run.check_size_of_delta(f"{path}.delta", each.delta, None)
        queries = self._queries()
        if not settings.mechanisms and not settings.rounds and not settings.petdl:
            raise PatebenchError(f"{where}.mechanisms: is missing; add the mechanisms that aggregate votes")
        grid = mechanism_settings(f"{where}.mechanisms", settings.mechanisms)
        budget = (accounting.budget, accounting.delta) if accounting.budget else None
        self._check_mechanisms(grid, budget is not None)
        pools: list[LabelSet] = []
        for seed in seeds:
            split = Split(self._data(), seed, SplitParameters.of(settings))
            ensembles = list(self._ensembles(split))
            pool = [
                LabelSet(ensemble, setting, self.mode, budget, aggregators=self.all.aggregators(setting.mechanism))
                for ensemble, setting in itertools.product(ensembles, grid)
            ]
            for labels in pool:
                self._add_labels(labels, queries)
            self._students(pool)
            self._rounds(ensembles)
            self._distil(ensembles)
            self._petdl(ensembles)
            self._baselines(split)
            self._namings(split)
            self._dpsgd(split)
            self._private_knn(split)
            pools += pool
        if settings.audit:
            self._audits(settings.audit, pools)

    @property
    def run(self) -> Run:
        return self.all.run

    @property
    def mode(self) -> Mode:
        return self.all.run.mode

    def _add_labels(self, labels: LabelSet, queries: Sequence[int]) -> None:
        delta = self.settings.accounting.delta
        self.all.agreement.settle(labels.name, f"{self.where}.accounting.delta", delta)
        self.run.add_labels(labels, queries, delta)
        self.found.label_sets[labels] = None
        self.found.ensembles[labels.ensemble] = None

    def _queries(self) -> tuple[int, ...]:
        """The numbers of queries accounted for: of a release all, as its labels are handed out together."""
        where, pool = f"{self.where}.accounting.queries", self.asked or self.settings.pool
        for path, count in places(where, self.settings.accounting.queries):
            if self.asked and count > pool:
                raise PatebenchError(
                    f"{path}: is {count}, but {plural(pool, 'query')} are put to the teachers; leave it out"
                )
        wanted = self.settings.accounting.queries or (pool,)
        check_pool(where, wanted, pool)
        for path, count in places(where, wanted):
            if self.mode is Mode.RELEASE and count != pool:
                raise PatebenchError(
                    f"{path}: is {count}, but a release hands out the labels of all {plural(pool, 'query')}, "
                    "whose ε is another; leave it out"
                )
        return tuple(sorted(wanted))

    def _data(self) -> Data:
        name, own = self.settings.dataset, self.all.own
        built_in = (each for each in DATASETS if not reads_own_files(each))
        check_among(f"{self.where}.dataset", name, [*built_in, *own], "a data set")
        if name not in own and (public := public_samples(name)) is not None:
            pool, test = self.settings.pool, self.settings.test or 1
            if pool + test > public:
                key, value, most = ("test", test, public - pool) if pool < public else ("pool", pool, public - 1)
                raise PatebenchError(
                    f"{self.where}.{key}: is {value}, but {name} has {public} public samples for the pool and a test "
                    f"set; ask for at most {most}"
                )
        return own.get(name, Data(name))

    def _check_mechanisms(self, grid: Iterable[Setting], budget: bool) -> None:
        """Whether the mechanisms suit the ensembles, and can be released and keep a budget, where that is asked for."""
        sizes = [size for each in self.settings.ensembles for size in each.teachers]
        for setting in grid:
            name = setting.mechanism
            with located(key_path(f"{self.where}.mechanisms", name)):
                if self.mode is Mode.RELEASE:
                    check_releasable(name, MECHANISMS.load(name))
                mechanism = make_mechanism(name, dict(setting.parameters))
                self._check_abstentions(name, mechanism)
                for teachers in sizes:
                    mechanism.per_query_cost(teachers, _ANY_CLASSES)  # refuses what so few teachers can not do
                    if isinstance(mechanism, NoiseShares):
                        mechanism.needed(teachers)
                if budget:
                    check_budget(name, mechanism, min(sizes), _ANY_CLASSES)
                    if self.all.aggregators(name):
                        raise PatebenchError(
                            "the secure path opens all queries at once, so it can not stop at a budget"
                        )

    def _check_abstentions(self, name: str, mechanism: Mechanism, teachers: Sequence[int] | None = None) -> None:
        """Refuse teachers that may keep silent, among the meant ones, for a mechanism that is not proven for them."""
        meant = [each for each in self.settings.ensembles if teachers is None or {*each.teachers} & {*teachers}]
        silent = [each.model for each in meant if each.model in MODELS and on_queries(each.model)]
        if silent and not mechanism.abstentions:
            able = ", ".join(other for other in MECHANISMS if MECHANISMS.load(other).abstentions)
            raise PatebenchError(
                f"'{name}' is proven for teachers that vote on every query, and those of '{silent[0]}' keep silent on "
                f"most; use one of {able}"
            )

    def _ensembles(self, split: Split) -> Iterator[Ensemble]:
        for where, settings in entries(f"{self.where}.ensembles", self.settings.ensembles):
            check_registered(_strategy_place(where, settings), settings.partition.strategy, PARTITIONS)
            if settings.partition.owners is not None:
                check_exists(f"{where}.partition.owners", settings.partition.owners)
            partition = settings.partition.chosen_in(self.mode)
            if self.mode is Mode.RELEASE:
                _check_protects(where, settings)
            training = checked_training(where, settings, teachers=True)
            work = TeacherParameters.of(settings)
            for key in ("soft", "keep_weights", "hints"):
                if on_queries(training.model) and getattr(work, key):
                    raise PatebenchError(f"{where}.{key}: '{training.model}' trains no network; leave it out")
            most = self.asked or self.settings.pool
            if training.neighbours is not None and training.neighbours > most:
                raise PatebenchError(f"{where}.neighbours: is {training.neighbours}, and there are {most} queries")
            for teachers in settings.teachers:
                ensemble = Ensemble(split, teachers, partition, training, work, self._asked(training))
                for above, parameters in ((where, work), (f"{where}.partition", partition)):
                    for key in parameters.not_in_path():
                        self.all.agreement.settle(ensemble.name, f"{above}.{key}", getattr(parameters, key))
                yield ensemble

    def _asked(self, training: TrainingParameters) -> SelectionParameters | None:
        """What is put to the teachers, where it is not the whole pool."""
        if self.asked is None:
            return None
        strategy = _CLUSTERS if training.neighbours is None else _NEIGHBOURS
        return SelectionParameters(strategy=strategy, queries=self.asked)

    def _refuse_in_release(self, where: str, why: str) -> None:
        if self.mode is Mode.RELEASE:
            raise PatebenchError(f"{where}: {why}, and this configuration makes a release; leave it out")

    def _check_whole_pool(self, where: str) -> None:
        """Refuse, where only some queries are put to the teachers, what needs votes on every sample."""
        if self.asked:
            raise PatebenchError(
                f"{where}: needs votes on the whole pool, and {self.where}.queries is {self.asked}; "
                "leave one of both out"
            )

    def _students(self, pool: Sequence[LabelSet]) -> None:
        """Add students of some of these labels."""
        counted = self._queries()
        for where, settings in entries(f"{self.where}.students", self.settings.students):
            parameters = checked_student(where, settings)
            teachers = _teachers(where, settings.teachers, (labels.ensemble for labels in pool))
            numbers = settings.queries or (max(counted),)
            for path, count in places(f"{where}.queries", numbers):
                check_among(path, count, counted, "among this experiment's accounting.queries")
            wanted = mechanism_settings(f"{where}.mechanisms", settings.mechanisms)
            declared = dict.fromkeys(labels.setting.name for labels in pool)
            for setting in wanted:
                path = f"{where}.mechanisms.{setting.mechanism}"
                check_among(path, setting.name, declared, "among this experiment's mechanisms")
            for labels in pool:
                if labels.ensemble.teachers in teachers and labels.setting in wanted:
                    for queries in numbers:
                        self.run.add_student(labels, parameters, queries)

    def _rounds(self, ensembles: Sequence[Ensemble]) -> None:
        """Add the labels and the student of each round, for every ensemble, mechanism and strategy."""
        for where, settings in entries(f"{self.where}.rounds", self.settings.rounds):
            if self.asked:
                raise PatebenchError(
                    f"{where}: selects queries of its own, and {self.where}.queries is {self.asked}; "
                    "leave one of both out"
                )
            parameters = checked_student(where, settings)
            for path, strategy in places(f"{where}.strategy", settings.strategy):
                check_registered(path, strategy, STRATEGIES)
            teachers = _teachers(where, settings.teachers, ensembles)
            check_pool(f"{where}.queries", [sum(settings.queries)], ensembles[0].split.parameters.pool)
            grid = mechanism_settings(f"{where}.mechanisms", settings.mechanisms)
            for setting in grid:
                with located(f"{where}.mechanisms.{setting.mechanism}"):
                    if self.mode is Mode.RELEASE:
                        check_releasable(setting.mechanism, MECHANISMS.load(setting.mechanism))
                    mechanism = make_mechanism(setting.mechanism, dict(setting.parameters))
                    check_adaptive(setting.mechanism, mechanism)
                    if self.all.aggregators(setting.mechanism):
                        raise PatebenchError(
                            "the secure path opens all queries at once, so it has no rounds; leave out the rounds, or "
                            "`secure`"
                        )
                    self._check_abstentions(setting.mechanism, mechanism, teachers)
            chosen = [ensemble for ensemble in ensembles if ensemble.teachers in teachers]
            for ensemble, setting, strategy in itertools.product(chosen, grid, settings.strategy):
                for each in _selections(ensemble, setting, strategy, settings.queries, parameters, self.mode):
                    labels = LabelSet(ensemble, setting, self.mode, round=each)
                    self._add_labels(labels, (each.total,))
                    self.run.add_student(labels, parameters, each.total)

    def _distil(self, ensembles: Sequence[Ensemble]) -> None:
        """Add networks that learn from the probabilities of each of the ensembles."""
        for where, settings in entries(f"{self.where}.distillation", self.settings.distillation):
            self._refuse_in_release(where, "is not private")
            self._check_whole_pool(where)
            check_pool(f"{where}.samples", settings.samples, ensembles[0].split.parameters.pool)
            teachers = _teachers(where, settings.teachers, ensembles)
            training = checked_training(where, settings)
            parameters = DistilParameters(**training.model_dump(), samples=tuple(sorted(settings.samples)))
            for ensemble in ensembles:
                if ensemble.teachers in teachers:
                    if not ensemble.work.soft:
                        raise PatebenchError(
                            f"{where}: needs the probabilities of {ensemble.slug}; give that ensemble soft: [1, 5]"
                        )
                    self.run.add_distilled(ensemble, parameters)

    def _petdl(self, ensembles: Sequence[Ensemble]) -> None:
        """Add a student of PET-DL for each chosen ensemble and each combination of values."""
        for where, settings in entries(f"{self.where}.petdl", self.settings.petdl):
            self._refuse_in_release(where, "draws noise from a seed")
            self._check_whole_pool(where)
            for path, form in places(f"{where}.form", settings.form):
                check_registered(path, form, FORMS)
            check_pool(f"{where}.samples", settings.samples or (), ensembles[0].split.parameters.pool)
            teachers = _teachers(where, settings.teachers, ensembles)
            grid = list(_petdl_parameters(where, settings, self.settings.accounting.delta))
            for ensemble in (each for each in ensembles if each.teachers in teachers):
                _check_hints(where, ensemble, grid)
                for parameters in grid:
                    self.run.add_petdl(ensemble, parameters)
                self.found.ensembles[ensemble] = None

    def _baselines(self, split: Split) -> None:
        if self.settings.baseline:
            self.run.add_baseline(split, checked_training(f"{self.where}.baseline", self.settings.baseline))
        if wanted := self.settings.true_label_baseline:
            where = f"{self.where}.true_label_baseline"
            check_pool(f"{where}.queries", wanted.queries, split.parameters.pool)
            training = checked_training(where, wanted)
            for queries in wanted.queries:
                self.run.add_baseline(split, training, queries)

    def _namings(self, split: Split) -> None:
        """Add clusters of each number, selected as the queries of an ensemble are, and named by true labels."""
        if wanted := self.settings.public_reference:
            check_pool(f"{self.where}.public_reference.clusters", wanted.clusters, split.parameters.pool)
            for clusters in wanted.clusters:
                self.run.add_naming(split, SelectionParameters(strategy=_CLUSTERS, queries=clusters))

    def _dpsgd(self, split: Split) -> None:
        """Add a model for each ε."""
        for where, settings in entries(f"{self.where}.dpsgd", self.settings.dpsgd):
            self._refuse_in_release(where, "draws noise from a seed")
            with located(f"{where}.form"):
                form_of(DPSGD_FORMS, settings.form)
            if settings.model is not None:
                check_registered(f"{where}.model", settings.model, MODELS)
            if settings.compression is not None:
                with located(f"{where}.compression"):
                    check_compressible(settings.model)
            trained = DpsgdTraining.of(settings).model_dump()
            for epsilon in settings.epsilon:
                privacy = {"epsilon": epsilon, "delta": settings.delta or self.settings.accounting.delta}
                self.run.add_dpsgd(split, DpsgdParameters.checked({**trained, **privacy}, where))

    def _private_knn(self, split: Split) -> None:
        """Add a student for each entry."""
        for where, settings in entries(f"{self.where}.private_knn", self.settings.private_knn):
            self._refuse_in_release(where, "draws noise from a seed")
            with located(f"{where}.form"):
                form_of(KNN_FORMS, settings.form)
            check_registered(f"{where}.student", settings.student, STUDENTS)
            check_pool(f"{where}.queries", [settings.queries], split.parameters.pool)
            given = PrivateKnnTraining.of(settings).model_dump()
            delta = settings.delta or self.settings.accounting.delta
            self.run.add_private_knn(split, PrivateKnnParameters.checked({**given, "delta": delta}, where))

    def _audits(self, settings: AuditSettings, pool: Sequence[LabelSet]) -> None:
        """Add an audit of each mechanism; by default at the largest number of queries accounted for."""
        where, counted = f"{self.where}.audit", self._queries()
        teachers = _teachers(where, settings.teachers, (labels.ensemble for labels in pool))
        queries = settings.queries or (max(counted),)
        for path, count in places(f"{where}.queries", queries):
            check_among(path, count, counted, "among this experiment's accounting.queries")
        delta = self.settings.accounting.delta
        agreed = {"runs": settings.runs, "confidence": settings.confidence, "delta": delta}
        for ensemble, setting in dict.fromkeys((labels.ensemble, labels.setting) for labels in pool):
            if ensemble.teachers in teachers:
                world = ensemble.split.data, ensemble.teachers, setting
                name = audit_name(*world)
                for key, value in agreed.items():
                    self.all.agreement.settle(name, f"{where}.{key}", value)
                self.run.add_audit(*world, sorted(queries), delta, AuditParameters.of(settings))


def own_data(name: str, settings: DatasetSettings, reserved: Iterable[str]) -> Data:
    """A data set of the user's own; PatebenchError for a name that is taken."""
    where = key_path("datasets", name)
    if name in {*DATASETS, *reserved}:
        raise PatebenchError(f"{where}: the name '{name}' is taken; call your data set otherwise")
    loaders = [each for each in DATASETS if reads_own_files(each)]
    check_among(f"{where}.loader", settings.loader, loaders, "a loader")
    if settings.copy_of is not None:
        originals = [each for each in DATASETS if not reads_own_files(each)]
        check_among(f"{where}.copy_of", settings.copy_of, originals, "a built-in data set")
    return Data(name, settings.loader, _files(settings), ClassParameters.of(settings), settings.copy_of)


def check_own_files(name: str, settings: DatasetSettings) -> None:
    """Refuse a data set of the user's own whose files are not there, or one and the same."""
    where = key_path("datasets", name)
    for role, path in _files(settings):
        check_exists(f"{where}.{role}", path)
    if Path(settings.private).samefile(settings.public):
        raise PatebenchError(
            f"{where}.public: {settings.public} is the private part too, and a sample that is public is no teacher's; "
            f"give other samples; {OWN_DATA}"
        )


def _files(settings: DatasetSettings) -> tuple[tuple[str, str], ...]:
    return ("private", settings.private), ("public", settings.public)


def check_single(experiments: Iterable[Experiment]) -> None:
    """Refuse several releases without a limit for all: of one data set they cost more together than each alone.

    Of several data sets the second would not be recognised beside the ledger of the first.
    """
    found: dict[str, set[str]] = {}
    for labels in (labels for experiment in experiments for labels in experiment.label_sets):
        found.setdefault(labels.ensemble.split.data.dataset, set()).add(labels.name)
    if sum(map(len, found.values())) > 1:
        sets = " and ".join(f"{plural(len(folders), 'label set')} of {data}" for data, folders in found.items())
        raise PatebenchError(
            f"mode: is release, and this configuration makes {sets}, which cost more together than each alone; keep "
            "one data set, one seed, one ensemble, one noise setting and one round, or give a limit for all of them "
            "together: ledger: {budget: …, delta: …}"
        )


def mechanism_settings(where: str, grid: Grid) -> list[Setting]:
    """Every mechanism with every combination of its parameters' values."""
    found = []
    for name, values in grid.items():
        here = key_path(where, name)
        with located(here):
            allowed = MECHANISMS.load(name).parameter_names()
        for parameter in values:
            check_among(f"{here}.{parameter}", parameter, allowed, f"a parameter of {name}")
        columns = [[(place, key, value) for place, value in places(f"{here}.{key}", values[key])] for key in values]
        for row in itertools.product(*columns):
            with located(row[0][0] if len(row) == 1 else here):
                mechanism = make_mechanism(name, {key: value for _, key, value in row})
            found.append(Setting(name, tuple(mechanism.parameters().items())))
    return found


def checked_training(where: str, settings: TrainingParameters, *, teachers: bool = False) -> TrainingParameters:
    """The parameters of a training, which is known to the registries: of `teachers`, or of what predicts any sample."""
    check_registered(f"{where}.model", settings.model, MODELS)
    if not teachers:
        check_learner(f"{where}.model", settings.model)
    check_registered(f"{where}.recipe", settings.recipe, RECIPES)
    if settings.neighbours is not None and not on_queries(settings.model):
        raise PatebenchError(f"{where}.neighbours: '{settings.model}' votes on every query; leave it out")
    if settings.epochs is not None and not by_recipe(settings.model):
        raise PatebenchError(f"{where}.epochs: '{settings.model}' is not trained in epochs; leave it out")
    return settings.training


def check_learner(where: str, model: str) -> None:
    """Refuse a model that votes on given queries alone, where one is needed that learns."""
    if on_queries(model):
        raise PatebenchError(f"{where}: '{model}' votes on queries and predicts nothing else; only teachers can be it")


def checked_student(where: str, settings: StudentParameters) -> StudentParameters:
    """What the configuration chooses for a student's method, which accepts it."""
    check_registered(f"{where}.method", settings.method, STUDENTS)
    for key, registry in (("model", MODELS), ("recipe", RECIPES)):
        if (name := getattr(settings, key)) is not None:
            with located(f"{where}.{key}"):
                registry.check(name)
                refuse_choice(settings.method, key)
            if registry is MODELS:
                check_learner(f"{where}.{key}", name)
    return StudentParameters.of(settings)


def _selections(
    ensemble: Ensemble,
    setting: Setting,
    strategy: str,
    sizes: Sequence[int],
    student: StudentParameters,
    mode: Mode,
) -> Iterator[Round]:
    """Yield the rounds, each of which selects its number of queries by the student of the round before.

    Before there is a student, teachers that vote on queries alone are asked about prototypes: a random sample may stand
    for few of them.
    """
    first = initial_strategy(strategy)
    if ensemble.votes_in_rounds and first != strategy:
        first = _CLUSTERS
    before: Round | None = None
    for size in sizes:
        selection = SelectionParameters(strategy=strategy if before else first, queries=size)
        before = Round(ensemble, setting, selection, student, mode, before)
        yield before


def _petdl_parameters(where: str, settings: PetdlSettings, delta: float) -> Iterator[PetdlParameters]:
    """Every combination of the values that are listed, at that δ unless another is given."""
    given = {name: getattr(settings, name) for name in PetdlParameters.model_fields if name != "delta"}
    columns = {name: values for name, values in given.items() if values is not None}
    for row in itertools.product(*columns.values()):
        chosen = dict(zip(columns, row, strict=True))
        yield PetdlParameters.checked({**chosen, "delta": settings.delta or delta}, where)


def _check_hints(where: str, ensemble: Ensemble, grid: Iterable[PetdlParameters]) -> None:
    """Refuse an ensemble whose teachers do not say of the pool what is to be learnt."""
    kept = ensemble.work.hints
    if kept is None:
        raise PatebenchError(
            f"{where}: needs what each teacher of {ensemble.slug} says of the pool; give that ensemble hints: block2,"
            " or probabilities for teachers without blocks"
        )
    if kept == PROBABILITIES and any(each.hint_epochs for each in grid):
        raise PatebenchError(
            f"{where}.hint_epochs: needs hints, and {ensemble.slug} keeps probabilities alone; give that ensemble"
            " hints: block2, or hint_epochs: 0"
        )


def _teachers(where: str, wanted: Sequence[int] | None, ensembles: Iterable[Ensemble]) -> Sequence[int]:
    """Which of the ensembles are meant, by their number of teachers; all, where nothing is said."""
    sizes = sorted({ensemble.teachers for ensemble in ensembles})
    for place, size in places(f"{where}.teachers", wanted or ()):
        check_among(place, size, sizes, "a number of teachers of this experiment's ensembles")
    return wanted or sizes


def _check_protects(where: str, settings: EnsembleSettings) -> None:
    """Refuse for a release a partition that protects nobody, or that would tell of the private data."""
    strategy = settings.partition.chosen_in(Mode.RELEASE).strategy
    if not PARTITIONS.fact(strategy, "protects"):
        raise PatebenchError(
            f"{_strategy_place(where, settings)}: '{strategy}' protects {PARTITIONS.fact(strategy, 'protection')}, and"
            f" this configuration makes a release; choose one of {protecting()}"
        )
    if settings.partition.every_class:
        raise PatebenchError(
            f"{where}.partition.every_class: would tell which classes the private data lack, and this configuration"
            " makes a release; leave it out"
        )


def _strategy_place(where: str, settings: EnsembleSettings) -> str:
    """The path of a partition's strategy: with other settings it has a key of its own."""
    others = settings.partition.model_fields_set - {"strategy"}
    return f"{where}.partition.strategy" if others else f"{where}.partition"
