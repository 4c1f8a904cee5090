"""The Python interface: functions for your own votes and labels.

    import patebench

    patebench.bounds(counts, "gnmax", sigma=40, delta=1e-5)        # every ε, the smallest publishable one first
    patebench.label(counts, "gnmax", sigma=40, release=True)       # labels for release
    patebench.audit("gnmax", sigma=40, teachers=250, classes=10, delta=1e-5)
    patebench.calibrate("gnmax", epsilon=1, delta=1e-5, queries=286)
    patebench.train_student(pool, labels, classes=10).predict(x)

Pass votes as counts (queries × classes), or together with `classes` as a matrix (teachers × queries) of labels
0 … classes − 1. Arrays, DataFrames and `Votes` are accepted. A matrix with more teachers than queries may be transposed
by mistake, so pass `teachers` to confirm the shape. A mechanism is a name in `MECHANISMS` with parameters as keywords,
or a `Mechanism`. Use `make_mechanism` if a parameter has the same name as an argument. Every ε (in nats) is for data
sets that differ in one teacher's shard. All errors are `PatebenchError`s of one line.

Each function checks the arguments and calls the function or method named in the docstring. No file is read or written.
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
from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Labels, Mechanism, check_abstentions, check_releasable, make_mechanism

if TYPE_CHECKING:
    import pandas as pd

    from patebench.students.classifier import Student

#: Largest seed: 128 bits, as NumPy recommends for seeds.
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
    """Return all bounds on ε for labels drawn from `votes`: publishable bounds first, both groups sorted by ε.

    A `data_dependent` bound leaks information about the votes and may not be published. Each bound names a theorem.
    Sanitised bounds, which need random noise, are available from `patebench epsilon --sanitise`. See
    `Mechanism.bounds`.

    Parameters
    ----------
    votes, mechanism, classes, teachers : see `patebench.api`
    delta : δ of all bounds
    queries : the bounds cover the first `queries` queries; by default all
    release : return bounds for the discrete noise of `label(…, release=True)` instead of continuous noise
    parameters : parameters of the mechanism, if it is given by name

    Raises
    ------
    PatebenchError
        For invalid arguments. With `release`, also for a mechanism without a discrete form, and for δ ≥ 1/teachers.
        Without `release`, δ ≥ 1/teachers gives a warning.
    """
    _, checked = _resolve_mechanism(mechanism, parameters, check_truth("release", release))
    delta = check_delta(delta)
    all_votes = _convert_votes(votes, classes, teachers)
    _check_size_of_delta(delta, all_votes.teachers, release)
    wanted = all_votes.queries if queries is None else check_whole("queries", queries)
    (count,) = check_queries([wanted], all_votes.queries)
    stated = checked.bounds(all_votes.first(count), [count], delta, discrete=release)
    ordered = sorted(stated, key=lambda bound: (not bound.publishable, bound.epsilon))
    return [bound.state_for(release) for bound in ordered]


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
    """Draw one label per query with the mechanism; −1 (`NO_ANSWER`) if the mechanism does not answer a query.

    Give either `seed` or `release`. See `Mechanism.draw` and `core.entropy`.

    Parameters
    ----------
    votes, mechanism, classes, teachers : see `patebench.api`
    seed : seed for reproducible labels, for experiments only: anyone who knows the seed can subtract the noise
    release : draw labels for a release, with discrete noise from the operating system's entropy. Each call is another
        release, so publish the ε of all calls on the same votes together.
    parameters : parameters of the mechanism, if it is given by name

    Returns
    -------
    (queries,) int array
        If `votes` is a DataFrame, a Series indexed by query.

    Raises
    ------
    PatebenchError
        For invalid arguments, and for a release with a mechanism without a discrete form.
    """
    if (seed is None) != check_truth("release", release):
        raise PatebenchError("label() needs either seed=… (reproducible labels) or release=True (labels for release)")
    _, checked = _resolve_mechanism(mechanism, parameters, release)
    draws = Draws(None if seed is None else check_whole("seed", seed, 0, _LARGEST_SEED), "label")
    all_votes = _convert_votes(votes, classes, teachers)
    check_abstentions(checked, all_votes)
    labels = checked.draw(all_votes, draws.source())["labels"]
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
    """Audit a mechanism: compute lower bounds on its ε, and refute each stated bound that is below a lower bound.

    The audit covers one query and each number of queries in `queries`. It searches for the worst pair of neighbouring
    votes and computes the ε of this pair exactly. It also draws many labels from two neighbouring votes and derives a
    lower bound on ε from these labels. The result has a list of `findings`, each with its `stated` bounds. Each stated
    bound has a `verdict`: `holds` (not contradicted), `violated`, `disagrees` (labels do not follow the stated
    distribution, so the bound may not apply), or `vacuous` (too large to test). See `audit.verdict.run_audit`.

    Parameters
    ----------
    mechanism : see `patebench.api`
    teachers, classes : numbers of teachers and classes of the votes that the audit constructs
    delta : δ of all bounds
    queries : further numbers of queries to audit
    runs : number of labels drawn from each of the two neighbouring votes
    confidence : probability with which the ε lower bound from drawn labels is valid
    seed : seed for drawing labels

    Raises
    ------
    PatebenchError
        For invalid arguments.
    """
    from patebench.config.parameters import AuditParameters

    name, checked = _resolve_mechanism(mechanism, parameters)
    together = [check_whole("queries", T) for T in np.atleast_1d(check_array("queries", queries)).tolist()]
    settings = AuditParameters.checked({"runs": runs, "confidence": confidence})
    base = check_whole("seed", seed, 0, _LARGEST_SEED)
    delta = check_delta(delta)
    size = check_whole("teachers", teachers), check_whole("classes", classes, 2, MOST_CLASSES)
    _check_size_of_delta(delta, size[0], release=False)
    streams = partial(generator, base, "audit")
    setting = AuditSetting(name, checked, *size, delta, settings.runs, settings.confidence, streams)
    return Audit(**vars(verdict.run_audit(setting, together)))


class Audit(verdict.Audit):
    """Result of an audit; `print` shows it as tables."""

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
    """Find the smallest noise or the most queries for which the worst-case ε at `delta` is at most `epsilon`.

    To find the noise, give `queries` and all parameters of the mechanism except one. To find the number of queries,
    omit `queries` and give all parameters, or a `Mechanism`. See `calculator.calculations.solve`.

    Parameters
    ----------
    mechanism : see `patebench.api`
    classes, teachers : needed if the privacy cost depends on these numbers
    release : use bounds for the discrete noise of `label(…, release=True)` instead of continuous noise

    Returns
    -------
    Calibration
        The `parameters`, the number `queries`, the `bounds` (smallest ε first), and `released`, the bound to publish
        for labels drawn with `release=True`.

    Raises
    ------
    PatebenchError
        If the target cannot be reached, if no number or several numbers are left to find, or for a release with a
        mechanism without a discrete form.
    """
    kind = MECHANISMS.load(mechanism) if isinstance(mechanism, str) else type(mechanism)
    epsilon, release, delta = check_real("epsilon", epsilon), check_truth("release", release), check_delta(delta)
    classes = None if classes is None else check_whole("classes", classes, 2, MOST_CLASSES)
    teachers = None if teachers is None else check_whole("teachers", teachers)
    for size, known in (("classes", classes), ("teachers", teachers)):
        if known is None and size in getattr(kind, "cost_needs", ()):
            raise PatebenchError(f"the cost of {kind.__name__} depends on the number of {size}; give {size}=…")
    count = None if queries is None else check_whole("queries", queries)
    _check_size_of_delta(delta, teachers, release)
    if isinstance(mechanism, str):
        return solve(mechanism, parameters, epsilon, delta, count, classes, teachers, release)
    name, checked = _resolve_mechanism(mechanism, parameters)
    if count is not None:
        raise PatebenchError(
            f"all parameters of {name} are given, so only the number of queries can be found; leave out queries=…"
        )
    return queries_for(checked, name, epsilon, delta, classes, teachers, release)


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

    Training uses only the pool and the labels, so it costs no additional ε. The student is a scikit-learn classifier.

    Parameters
    ----------
    pool : byte images (samples, channels, height, width) or (samples, height, width), or a table (samples, features) of
        numbers, also as a DataFrame
    labels : (samples,) int array or Series: labels 0 … classes − 1, and −1 for samples without a label
    method, classes, seed, options : the parameters of `Student`

    Raises
    ------
    PatebenchError
        For arrays of a wrong shape, type or range, an unknown method, model or recipe, or an option of another method.
    """
    from patebench.students.interface import StudentConfig

    config = StudentConfig.checked({"method": method, **options})
    from patebench.students.classifier import Student  # brings scikit-learn

    chosen = {name: getattr(config, name) for name in StudentConfig.model_fields}
    return Student(**chosen, classes=classes, seed=seed).fit(pool, labels)


def _resolve_mechanism(mechanism: object, parameters: dict[str, float], release: bool = False) -> tuple[str, Mechanism]:
    """Return the name and the object of `mechanism`, which is a name with `parameters` or a `Mechanism`.

    Raises PatebenchError for an invalid mechanism. If `release` is True, the mechanism must have a discrete form.
    """
    if isinstance(mechanism, str):
        name, checked = mechanism, make_mechanism(mechanism, parameters)
    elif isinstance(mechanism, Mechanism):
        name, checked = type(mechanism).__name__, mechanism
        if parameters:
            raise PatebenchError(
                f"the {name} object already contains its parameters; leave out {', '.join(parameters)}"
            )
    else:
        what = f"the class {mechanism.__name__}" if isinstance(mechanism, type) else quote(mechanism)
        raise PatebenchError(f"mechanism must be a name, such as 'gnmax', or a Mechanism object, not {what}")
    if release:
        check_releasable(name, type(checked))
    return name, checked


def _check_size_of_delta(delta: float, teachers: int | None, release: bool) -> None:
    """Warn if `delta` is not below 1/`teachers`; raise PatebenchError instead if `release` is True.

    If `teachers` is None, `delta` is compared with 1/100, and there is only a warning.
    """
    if fault := large_delta(delta, teachers):
        if release and teachers is not None:
            raise PatebenchError(fault)
        warnings.warn(fault, stacklevel=3)


def _convert_votes(votes: Votes | ArrayLike, classes: int | None, teachers: int | None) -> Votes:
    """Return `votes` as checked `Votes`; raise PatebenchError for an invalid table or one that seems transposed."""
    teachers = None if teachers is None else check_whole("teachers", teachers)
    converted = _read_votes(votes, classes)
    if teachers is not None or not isinstance(votes, Votes):
        try:
            check_table(converted, teachers, "teachers=")
        except PatebenchError as fault:
            raise PatebenchError(f"votes: {fault}") from None
    return converted


def _read_votes(votes: Votes | ArrayLike, classes: int | None) -> Votes:
    if isinstance(votes, Votes):
        if classes not in (None, votes.classes):
            raise PatebenchError(
                f"classes = {classes}, but the votes have {plural(votes.classes, 'class')}; leave out classes=…"
            )
        return votes
    table = check_array("votes", votes)
    if classes is not None:
        return Votes.of(table, check_whole("classes", classes, 2, MOST_CLASSES))
    try:
        return Votes.from_counts(table)
    except PatebenchError as fault:
        raise PatebenchError(f"{fault}; or give classes=… if each row contains the votes of a teacher") from None
