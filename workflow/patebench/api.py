"""The Python interface: what can be done with votes and labels of your own, as functions of values.

    import patebench

    patebench.bounds(counts, "gnmax", sigma=40, delta=1e-5)        # every ε, the least that you may publish first
    patebench.label(counts, "gnmax", sigma=40, release=True)       # labels to hand out
    patebench.audit("gnmax", sigma=40, teachers=250, classes=10, delta=1e-5)
    patebench.calibrate("gnmax", epsilon=1, delta=1e-5, queries=286)
    patebench.train_student(pool, labels, classes=10).predict(x)

Votes are counts (queries × classes), a matrix (teachers × queries) of labels 0 … classes − 1 with `classes`, each as an
array or a DataFrame, or `Votes`. A matrix with more teachers than queries may be a transposed one: confirm it with
`teachers`. A mechanism is a name of `MECHANISMS` with its parameters as keywords, or a `Mechanism`, which has them;
make one with `make_mechanism` where a parameter is called as an argument is. ε is always for data sets that differ in
one teacher's shard, in nats. What is wrong is one line of a `PatebenchError`.

A thin layer: the work is done by the functions named in each docstring. Nothing here reads or writes a file.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from patebench.accounting.accountant import check_queries
from patebench.accounting.votes import Votes, check_table
from patebench.audit import verdict
from patebench.audit.runs import AuditSetting
from patebench.calculator.calculations import Calibration, queries_for, solve
from patebench.core.bound import Bound, check_delta, large_delta
from patebench.core.checks import MOST_CLASSES, check_array, check_real, check_truth, check_whole, frame_of, quote
from patebench.core.entropy import Draws
from patebench.core.errors import PatebenchError
from patebench.core.seeds import generator
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Labels, Mechanism, check_abstentions, check_releasable, make_mechanism

if TYPE_CHECKING:
    import pandas as pd

    from patebench.students.classifier import Student

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
) -> "Labels | pd.Series[int]":
    """Draw one label for each query (queries,) by the mechanism; −1 (`NO_ANSWER`) where it abstains.

    Labels of a DataFrame of votes are a Series, whose index names the queries.

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
    labels = made.release(given, draws.source())
    if (frame := frame_of(votes)) is None:
        return labels
    import pandas as pd

    return pd.Series(labels, index=frame.index if classes is None else frame.columns, name="label")


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
    streams = partial(generator, base, "audit")
    setting = AuditSetting(name, made, *size, delta, settings.runs, settings.confidence, streams)
    return Audit(**vars(verdict.run_audit(setting, together)))


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
    """Train a student on a public `pool` and the `labels` that were released for some of its samples.

    The pool and the labels are all it sees, so it costs no more ε than they did. It is a classifier of scikit-learn.

    Parameters
    ----------
    pool : images of bytes, (samples, channels, height, width) or grey ones (samples, height, width), or a table
        (samples, features) of numbers, also as a DataFrame.
    labels : (samples,) int array or Series: labels 0 … classes − 1, and −1 for samples without a label.
    method, classes, seed, options : the parameters of `Student`.

    Raises
    ------
    PatebenchError
        For arrays of another shape, type or range, an unknown name, and an option that the method does not take.
    """
    from patebench.students.interface import StudentConfig

    config = StudentConfig.checked({"method": method, **options})
    from patebench.students.classifier import Student  # brings scikit-learn

    chosen = {name: getattr(config, name) for name in StudentConfig.model_fields}
    return Student(**chosen, classes=classes, seed=seed).fit(pool, labels)


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
