"""The Python interface: what can be done with votes and labels of your own, as functions of values.

    import patebench

    patebench.bounds(counts, "gnmax", sigma=40, delta=1e-5)        # every ε, the least that you may publish first
    patebench.label(counts, "gnmax", sigma=40, release=True)       # labels to hand out
    patebench.audit("gnmax", sigma=40, teachers=250, classes=10, delta=1e-5)
    patebench.calibrate("gnmax", epsilon=1, delta=1e-5, queries=286)
    patebench.train_student(pool, labels, classes=10).predict(x)

Votes are counts (queries × classes), a matrix (teachers × queries) of labels 0 … classes − 1 with `classes`, or
`Votes`. A matrix with more teachers than queries may be a transposed one: confirm it with `teachers`. A mechanism is a
name of `MECHANISMS` with its parameters as keywords, or a `Mechanism`, which has them; make one with `make_mechanism`
where a parameter is called as an argument is. ε is always for data sets that differ in one
teacher's shard, in nats. What is wrong is one line of a `PatebenchError`.

A thin layer: the work is done by the functions named in each docstring. Nothing here reads or writes a file.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.accounting.accountant import check_queries
from patebench.accounting.votes import Votes, check_table
from patebench.audit import verdict
from patebench.calculator.calculations import Calibration, queries_for, solve
from patebench.core.bound import Bound, check_delta, large_delta
from patebench.core.checks import MOST_CLASSES, check_array, check_real, check_truth, check_whole, quote
from patebench.core.entropy import Draws
from patebench.core.errors import PatebenchError
from patebench.core.seeds import generator
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, check_abstentions, check_releasable, make_mechanism

if TYPE_CHECKING:
    from patebench.students.interface import StudentTrainer

#: Largest seed of streams that `core.seeds` derives, as long as those that numpy proposes.
_LARGEST_SEED = 2**128 - 1


def bounds(
    votes: Votes | ArrayLike,
    mechanism: str | Mechanism,
    *,
    delta: float,
    queries: int | None = None,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
    **parameters: float,
) -> list[Bound]:
    """Every bound on ε of labelling these votes: the least that depends on no votes first, then those that do.

    `queries` states the cost of the first so many; by default of all. With `release` only those bounds are stated that
    hold for the discrete noise of `label(…, release=True)`; without, those for continuous noise. A `data_dependent`
    bound tells of the votes and may not be published. Each bound names the theorem that it follows from. None is
    drawn at random: sanitised bounds are drawn by `patebench epsilon --sanitise`.

    Raises PatebenchError for votes, a mechanism, a parameter, δ or a number of queries that will not do, and for
    `release` of a mechanism without a discrete form, or at a δ of at least 1/teachers; without `release` such a δ is a
    warning. See `Mechanism.bounds`.
    """
    _, made = _named(mechanism, parameters, check_truth("release", release))
    delta = check_delta(delta)
    every = _votes(votes, classes, teachers)
    _check_size_of_delta(delta, every.teachers, release)
    (count,) = check_queries([every.queries if queries is None else check_whole("queries", queries)], every.queries)
    found = made.bounds(every.at(slice(count)), [count], delta, discrete=release)
    ordered = sorted(found, key=lambda bound: (not bound.publishable, bound.epsilon))
    return [bound.said_of(release) for bound in ordered]


def label(
    votes: Votes | ArrayLike,
    mechanism: str | Mechanism,
    *,
    seed: int | None = None,
    release: bool = False,
    classes: int | None = None,
    teachers: int | None = None,
    **parameters: float,
) -> Labels:
    """One label for each query (queries,), drawn by the mechanism; −1 (`NO_ANSWER`) where it keeps silent.

    With `seed` the same labels can be drawn again: they are for experiments, since whoever knows the seed can take the
    noise off. With `release=True` noise is discrete, comes from the operating system's entropy and cannot be drawn
    again: for labels to hand out. Each call is then a release of its own, and all calls on the same votes are paid for
    together.

    Raises PatebenchError unless exactly one of both is given, for votes, a mechanism or a parameter that will not do,
    and for `release` of a mechanism without a discrete form. See `Mechanism.release` and `core.entropy`.
    """
    if (seed is None) != check_truth("release", release):
        raise PatebenchError("give either seed=…, for labels to draw again, or release=True, for labels to hand out")
    _, made = _named(mechanism, parameters, release)
    draws, given = (
        Draws(None if seed is None else check_whole("seed", seed, 0, _LARGEST_SEED), "label"),
        _votes(votes, classes, teachers),
    )
    check_abstentions(made, given)
    return made.release(given, draws.source())


def audit(
    mechanism: str | Mechanism,
    *,
    teachers: int,
    classes: int,
    delta: float,
    queries: int | Sequence[int] = (),
    runs: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    **parameters: float,
) -> "Audit":
    """What a mechanism loses at least, whatever so many teachers vote among so many classes, beside all that it states.

    One query is always audited, and each number in `queries` of queries together. The search for the worst pair of
    adjacent votes is exact. The code is also run `runs` times on each of two such votes, drawn from `seed`, and what
    that shows holds with this `confidence`. Each of the `findings` has the `stated` bounds, each with its `verdict`:
    `holds`, `violated` or `vacuous`.

    Raises PatebenchError for a mechanism, a parameter or a number that will not do. See `audit.verdict.run_audit`.
    """
    from patebench.config.parameters import AuditParameters

    name, made = _named(mechanism, parameters)
    together = [check_whole("queries", T) for T in np.atleast_1d(check_array("queries", queries)).tolist()]
    settings = AuditParameters.checked({"runs": runs, "confidence": confidence})
    base = check_whole("seed", seed, 0, _LARGEST_SEED)
    delta = check_delta(delta)
    size = check_whole("teachers", teachers), check_whole("classes", classes, 2, MOST_CLASSES)
    _check_size_of_delta(delta, size[0], release=False)
    found = verdict.run_audit(
        name, made, *size, together, delta, settings.runs, settings.confidence,
        lambda stream: generator(base, "audit", stream),
    )  # fmt: skip
    return Audit(**vars(found))


class Audit(verdict.Audit):
    """An audit, which prints as tables: `print(patebench.audit(…))`."""

    def __str__(self) -> str:
        from rich.console import Console

        from patebench.audit.audit_text import render

        console = Console(width=120, highlight=False, markup=False, color_system=None)
        with console.capture() as captured:
            console.print(render(self))
        return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def calibrate(
    mechanism: str | Mechanism,
    *,
    epsilon: float,
    delta: float,
    queries: int | None = None,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
    **parameters: float,
) -> Calibration:
    """The least noise for so many `queries`, or, without `queries`, the most queries at the given noise.

    The target (ε, δ) is kept whatever the votes are, with `release` by what is stated of the discrete noise of
    `label(…, release=True)`, else by the bounds of continuous noise. For the noise give all parameters but the one to
    find, for the queries all of them, or a `Mechanism`. `classes` and `teachers` are needed where the cost depends on
    them. The result has the `parameters`, `queries` and `bounds`, the least ε first, and `released`, the bound to tell
    if the labels are drawn with `release=True`.

    Raises PatebenchError where nothing keeps the target, what is given leaves more or less than one thing to find, and
    for `release` of a mechanism without a discrete form. See `calculator.calibrate.solve`.
    """
    kind = MECHANISMS.load(mechanism) if isinstance(mechanism, str) else type(mechanism)
    epsilon, release, delta = check_real("epsilon", epsilon), check_truth("release", release), check_delta(delta)
    classes = None if classes is None else check_whole("classes", classes, 2, MOST_CLASSES)
    teachers = None if teachers is None else check_whole("teachers", teachers)
    for size, known in (("classes", classes), ("teachers", teachers)):
        if known is None and size in getattr(kind, "cost_needs", ()):
            raise PatebenchError(f"what {kind.__name__} costs depends on the number of {size}; give {size}=…")
    count = None if queries is None else check_whole("queries", queries)
    _check_size_of_delta(delta, None if teachers is None else check_whole("teachers", teachers), release)
    if isinstance(mechanism, str):
        return solve(mechanism, parameters, epsilon, delta, count, classes, teachers, release)
    name, made = _named(mechanism, parameters)
    if count is not None:
        raise PatebenchError(f"{name} has all its parameters, so no noise is left to find; leave out the queries")
    return queries_for(made, name, epsilon, delta, classes, teachers, release)


def train_student(
    pool: ArrayLike,
    labels: ArrayLike,
    *,
    method: str = "consistency",
    classes: int | None = None,
    seed: int = 0,
    **options: Any,
) -> "Student":
    """A student that learns from a public `pool` and the `labels` that were released for some of its samples.

    `pool` holds images of bytes, (samples, channels, height, width) or grey ones (samples, height, width), or a table
    of numbers (samples, features). `labels` (samples,) has a label 0 … classes − 1 for each, −1 where there is none.
    `classes` is by default one more than the largest label. `method` is a name of `students.STUDENTS`; `options` are
    `model`, `recipe` and `epochs`, which the method chooses by the pool if they are left out. The same arguments give
    the same student on the same machine.

    The pool and the labels are all it sees, so it costs no more ε than they did.

    Raises PatebenchError for arrays of another shape, type or range, an unknown name, and an option that the method
    does not take. See `students.student_training.train`.
    """
    from patebench.students.interface import StudentConfig, StudentData

    config = StudentConfig.checked({"method": method, **options})
    samples = _samples(pool)
    known, number = _labels(labels, len(samples), classes)
    data = StudentData(pool=samples, labels=known, classes=number)
    from patebench.students.student_training import train  # brings torch, after all that can be wrong was looked at

    trainer, curve = train(data, config, seed=check_whole("seed", seed, 0))
    return Student(trainer, curve, samples.shape[1:])


@dataclass(frozen=True, eq=False)
class Student:
    """A trained student; `curve` is its learning curve, a row for each epoch, and `shape` that of one sample."""

    trainer: "StudentTrainer"
    curve: list[dict[str, float]]
    shape: tuple[int, ...]

    def log_probabilities(self, x: ArrayLike) -> NDArray[np.float64]:
        """ln of the probabilities (samples, classes) of the classes, for samples of the pool's kind and shape."""
        samples = _samples(x)
        if samples.shape[1:] != self.shape:
            raise PatebenchError(f"samples have shape {samples.shape[1:]}, and those of the pool have {self.shape}")
        return self.trainer.log_probabilities(samples)

    def predict(self, x: ArrayLike) -> NDArray[np.int64]:
        """The likeliest class (samples,) of each sample."""
        likeliest: NDArray[np.int64] = np.argmax(self.log_probabilities(x), axis=1)
        return likeliest


def _named(mechanism: object, parameters: dict[str, float], release: bool = False) -> tuple[str, Mechanism]:
    """What messages and tables call a mechanism, and itself; for a `release` it needs a discrete form."""
    if isinstance(mechanism, str):
        name, made = mechanism, make_mechanism(mechanism, parameters)
    elif isinstance(mechanism, Mechanism):
        name, made = type(mechanism).__name__, mechanism
        if parameters:
            raise PatebenchError(f"{name} has its parameters already; leave out {', '.join(parameters)}")
    else:
        what = f"the class {mechanism.__name__}" if isinstance(mechanism, type) else quote(mechanism)
        raise PatebenchError(f"a mechanism is a name, such as 'gnmax', or a Mechanism with its parameters, not {what}")
    if release:
        check_releasable(name, type(made))
    return name, made


def _check_size_of_delta(delta: float, teachers: int | None, release: bool) -> None:
    """Refuse a release at a δ of at least 1/n for n `teachers`; warn about other uses, and where n is not known."""
    if fault := large_delta(delta, teachers):
        if release and teachers is not None:
            raise PatebenchError(fault)
        warnings.warn(fault, stacklevel=3)


def _votes(votes: Votes | ArrayLike, classes: int | None, teachers: int | None) -> Votes:
    """The votes, whose number of teachers is confirmed where a bare table may be misread."""
    teachers = None if teachers is None else check_whole("teachers", teachers)
    found = _read(votes, classes)
    if teachers is not None or not isinstance(votes, Votes):
        try:
            check_table(found, teachers, "teachers=")
        except PatebenchError as fault:
            raise PatebenchError(f"the table of votes {fault}") from None
    return found


def _read(votes: Votes | ArrayLike, classes: int | None) -> Votes:
    if isinstance(votes, Votes):
        if classes not in (None, votes.classes):
            raise PatebenchError(f"the votes are among {votes.classes} classes, not {classes}; leave classes out")
        return votes
    table = check_array("votes", votes)
    if classes is not None:
        return Votes.of(table, check_whole("classes", classes, 2, MOST_CLASSES))
    try:
        return Votes.from_counts(table)
    except PatebenchError as fault:
        raise PatebenchError(f"{fault} (if these are votes, teachers × queries, give classes=…)") from None


def _samples(x: ArrayLike) -> NDArray[Any]:
    """Images of bytes (samples, channels, height, width) or a table of single precision; always a copy."""
    given = check_array("samples", x)
    images = given.ndim in (3, 4) and given.dtype == np.uint8
    table = given.ndim == 2 and given.dtype.kind in "fiu"
    if given.size == 0 or not (images or table):
        raise PatebenchError(
            f"samples are {given.dtype} of shape {given.shape}; images must be uint8 (samples, channels, height, width)"
            " or (samples, height, width), tables numbers (samples, features)"
        )
    if images:
        return np.array(given[:, None] if given.ndim == 3 else given, order="C")
    numbers = np.array(given, dtype=np.float32, order="C")
    if not np.isfinite(numbers).all():
        raise PatebenchError("samples hold NaN or infinite values; fill or drop them first")
    return numbers


def _labels(labels: ArrayLike, samples: int, classes: int | None) -> tuple[NDArray[np.int64], int]:
    """Labels of the whole pool, and the number of classes."""
    given = check_array("labels", labels)
    if given.shape != (samples,) or given.dtype.kind not in "iu":
        raise PatebenchError(
            f"labels are {given.dtype} of shape {given.shape}; whole numbers of shape ({samples},) are needed, one for "
            "each sample of the pool, −1 where it has none"
        )
    least, largest = int(given.min()), int(given.max())
    if largest >= MOST_CLASSES:
        raise PatebenchError(f"labels go up to {largest}, and there may be {MOST_CLASSES:,} classes; count them from 0")
    number = max(largest + 1, 2) if classes is None else check_whole("classes", classes, 2, MOST_CLASSES)
    if largest == NO_ANSWER:
        raise PatebenchError("no sample of the pool has a label, so there is nothing to learn from")
    if least < NO_ANSWER or largest >= number:
        raise PatebenchError(f"labels run from {least} to {largest}; −1 and 0 to {number - 1} are allowed")
    return given.astype(np.int64), number
