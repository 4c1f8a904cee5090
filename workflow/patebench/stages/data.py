"""Stage `data`: load a data set and write its private and public samples."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import numpy as np
from numpy.typing import NDArray

from patebench.cli.command import FILE, Assignment, OutputFile, processes, stage_command, unique_pairs
from patebench.config.parameters import ClassParameters
from patebench.core.blocks import blocks
from patebench.core.errors import PatebenchError
from patebench.core.files import write_arrays
from patebench.core.formats import SAMPLES
from patebench.core.progress import progress
from patebench.core.spelling import DATA_VARIABLE
from patebench.core.text import plural
from patebench.core.workers import map_in_order
from patebench.data import DATASETS, check_options
from patebench.data.dataset import Dataset, with_long_tail
from patebench.features import ENCODERS, has_fixed_outputs

if TYPE_CHECKING:
    from patebench.features.principal_axes import AxesEncoder

#: Number of samples that a process encodes at a time. It is a multiple of the encoders' batch sizes, so that batches do
#: not depend on it.
_PART = 400

log = logging.getLogger("patebench")


_UNNAMED = ClassParameters()


def run(
    *,
    name: str,
    root: Path,
    download: bool,
    option: Mapping[str, Any],
    private: Annotated[OutputFile, "Output file with the private samples."],
    public: Annotated[OutputFile, "Output file with the public samples."],
    parameters: ClassParameters = _UNNAMED,
) -> None:
    """Load the data set NAME and write its private and public samples.

    Each --option KEY=VALUE is passed to the loader, such as the paths `private` and `public` of your own files. Three
    keys are not passed on. `loader` names the loader in the registry; by default it is NAME. `features` and `long_tail`
    change the loaded samples:

    `features` lists encoders that need no training, separated by commas. Outputs of these encoders replace the images.
    The output for a private record does not depend on other records. The images are stored as a second array, because
    some students are trained on images of the pool.

    `long_tail` consists of two numbers: how many private samples to keep of the first and of the last class. Between
    these classes, the number falls exponentially.

    The classes come from the public samples or from --classes or --class-names, never from private samples.

    The array `row` contains an identifier of each sample. The identifier comes from the name of the sample's file, or
    from an array `row` of the user. Otherwise, the identifier is the position among the private or public samples,
    before any selection.
    """
    options = dict(option)
    loader, encoders = str(options.pop("loader", name)), options.pop("features", None)
    ends = options.pop("long_tail", None)
    if loader != name and name in DATASETS:
        line = f"'{name}' is already the name of a built-in data set; choose another name, or leave the loader out"
        raise PatebenchError(line, code="taken")
    arguments = check_options(loader, options, parameters.names)
    data: Dataset = DATASETS.load(loader)(root=Path(root), download=download, **arguments)
    if ends is not None:
        data = with_long_tail(data, *_read_long_tail(str(ends)))
    images = {"private": data.private.x, "public": data.public.x}
    if encoders is not None:
        outputs = [_encode(data, encoder) for encoder in str(encoders).split(",")]
        public_x, private_x = (np.concatenate(side, axis=1) for side in zip(*outputs, strict=True))
        data = replace(data, private=replace(data.private, x=private_x), public=replace(data.public, x=public_x))
    for role, part, out in (("private", data.private, private), ("public", data.public, public)):
        facts = {"dataset": name, "role": role, "classes": data.classes, "class_names": list(data.class_names)}
        if role == "private" and not part.positional:
            facts["own_rows"] = True
        arrays = {"x": part.x, "y": part.y, "row": np.arange(len(part)) if part.rows is None else part.rows}
        if part.owners is not None:
            arrays["owner"] = part.owners
        if encoders is not None:
            facts["features"] = encoders
            if images[role].ndim == 4:
                arrays["images"] = images[role]
        write_arrays(out, SAMPLES, arrays, facts)
        _report(f"{name}: {len(part)} {role} samples of shape {part.x.shape[1:]} in {plural(data.classes, 'class')}")
    for note in data.notes:
        _report(f"{name}: {note}")


def _read_long_tail(text: str) -> tuple[int, int]:
    """Return the numbers of samples of the first and of the last class that the option `long_tail` states.

    Raise PatebenchError if `text` is not two positive whole numbers, separated by a comma.
    """
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.isdecimal() and int(number) for number in numbers):
        raise PatebenchError(
            f"--option long_tail={text} is not two positive whole numbers; give two, such as long_tail=5000,50"
        )
    return int(numbers[0]), int(numbers[1])


def _encode(data: Dataset, encoder: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the features of the public samples, and the features of the private records, as two arrays.

    `encoder` is the name of the encoder. The features of a private record do not depend on other records. Raise
    PatebenchError if the encoder must be trained.
    """
    import torch

    if not has_fixed_outputs(encoder):
        fixed = ", ".join(filter(has_fixed_outputs, ENCODERS))
        line = f"the encoder '{encoder}' is trained on the pool, which does not exist yet; use one of {fixed}"
        raise PatebenchError(line, code="unknown-name")
    kind: type[AxesEncoder] = ENCODERS.load(encoder)
    kind.check(data.private.x.shape[1:])
    torch.set_num_threads(1)  # so that rounding does not depend on the number of processes
    public = _in_parts(partial(_outputs, kind), data.public.x, f"{encoder} of public samples")
    return public, _in_parts(kind.outputs_alone, data.private.x, f"{encoder} of private records")


def _in_parts(
    compute: Callable[[NDArray[Any]], NDArray[np.float32]], x: NDArray[Any], what: str
) -> NDArray[np.float32]:
    """Return the outputs (samples, numbers) of `compute` for samples `x`, computed in several processes.

    `what` describes the computation in progress messages.
    """
    parts = (x[part] for part in blocks(max(len(x), 1), _PART))
    results = []
    with progress(what, len(x), "samples") as done:
        for result in map_in_order(compute, parts):
            results.append(result)
            done(min(len(results) * _PART, len(x)), len(x))
    return np.concatenate(results)


def _outputs(kind: "type[AxesEncoder]", x: NDArray[Any]) -> NDArray[np.float32]:
    return kind.outputs(x).numpy()


def _report(line: str) -> None:
    """Log `line`, and print it unless this stage was called by another command."""
    log.info(line)
    context = click.get_current_context(silent=True)
    if context is not None and context.parent is not None:
        click.echo(line)


command = stage_command(
    run,
    click.Argument(["name"]),
    click.Option(
        ["--root"],
        type=FILE,
        default="data",
        envvar=DATA_VARIABLE,
        help=f"Folder of downloaded data sets [default: {DATA_VARIABLE}, or data].",
    ),
    click.Option(["--download/--no-download"], default=True, show_default=True, help="Download a missing data set."),
    click.Option(
        ["--option"],
        type=Assignment(number=False),
        multiple=True,
        callback=unique_pairs,
        help="Option of the loader, as key=value; repeat for several.",
    ),
    processes,
)
