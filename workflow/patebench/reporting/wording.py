"""Format names, parameters, selected queries, δ and ε as text for tables, figures and pages."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Adjacency, Kind
from patebench.core.spelling import number
from patebench.core.text import above_zero, at_most, decimal_places, downward, shortest_decimal, upward
from patebench.data.partitions import LABELS, Change, protected_changes
from patebench.mechanisms import MECHANISMS

if TYPE_CHECKING:
    import pandas as pd

#: An ε above this number is called weak. In `WEAK_SOURCE`, an ε up to 10 is tier 2, "reasonable", and a larger one is
#: tier 3, "weak to no formal privacy guarantees".
WEAK = 10.0
WEAK_SOURCE = "Ponomareva et al. 2023, “How to DP-fy ML”, section 5.2"

#: Names with a text of their own; other names are formatted word by word.
_NAMES: Mapping[str, str] = {
    Adjacency.REPLACE_TEACHER: "one teacher’s shard",
    Adjacency.ADD_OR_REMOVE_TEACHER: "one added or removed teacher",
    Adjacency.ADD_OR_REMOVE_RECORD: "one added or removed record",
    Adjacency.REPLACE_RECORD: "one replaced record",
    Adjacency.REPLACE_LABEL: "one label",
    **{kind: kind.words for kind in Kind},
    **{"cifar10": "CIFAR-10", "svhn": "SVHN", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"},
    **{"cifar100": "CIFAR-100", "celeba": "CelebA", "market1501": "Market-1501", "imagenet": "ImageNet"},
    **{"cifar10-jpeg": "CIFAR-10 after JPEG", "cifar10-jpeg-30000": "CIFAR-10 after JPEG, 30,000 private"},
    **{"mnist-scattering": "MNIST, encoded", "fashion-mnist-encoded": "Fashion-MNIST, encoded"},
    **{"cifar10-jpeg-imagenet": "CIFAR-10 after JPEG, encoded"},
    **{"adult": "UCI Adult", "breast_cancer": "breast cancer"},
}
#: Words within names, with their text.
_PIECES = {
    **{"pld": "PLD", "rdp": "Rényi", "gdp": "Gaussian DP"},
    **{"cnn": "CNN", "mlp": "MLP", "gan": "GAN", "vat": "VAT", "iid": "dealt at random"},
}

#: Symbols of parameters in the papers; other parameters have the words of their mechanism, or their name.
_SIGNS = {"sigma": "σ", "sigma1": "σ₁", "sigma2": "σ₂", "gamma": "γ"}


def parameter_words(mechanism: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return a text for each of the `parameters` of `mechanism`, such as "σ = 40" or "ε of a vote = 1"."""
    words = {**_SIGNS, **(MECHANISMS.load(mechanism).parameter_words() if mechanism in MECHANISMS else {})}
    return [f"{words.get(name, name)} = {_in_words(float(value))}" for name, value in parameters.items()]


def parameters_in_words(mechanism: str, parameters: Mapping[str, Any]) -> str:
    """Return the `parameters` of `mechanism` as one text, such as "T = 200, σ₁ = 150, σ₂ = 40"."""
    return ", ".join(parameter_words(mechanism, parameters))


def in_text(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return `frame` with columns of text instead of columns of dictionaries and tuples, which tables cannot show.

    The column `noise_in_words` replaces `parameters`, and `rounds_in_words` replaces `selection`. Mean recalls by class
    become text too: for example, `label_recall_in_words` replaces `label_recall_mean`.
    """
    if "parameters" in frame:
        pairs = zip(frame["mechanism"], frame["parameters"], strict=True)
        frame = frame.assign(parameters=[parameters_in_words(mechanism, parameters) for mechanism, parameters in pairs])
    if "selection" in frame:
        words: list[Any] = [rounds_in_words(rounds) or None for rounds in frame["selection"]]
        frame = frame.assign(selection=words)
    recalls = [name for name in map(str, frame) if "recall" in name and name.endswith("_mean")]
    recalled: dict[str, Any] = {name: [recall_in_words(recall) for recall in frame[name]] for name in recalls}
    frame = frame.assign(**recalled)
    named = {"parameters": "noise_in_words", "selection": "rounds_in_words"}
    return frame.rename(columns=named | {name: name.replace("_mean", "_in_words") for name in recalls})


def recall_in_words(recall: Any) -> str | None:
    """Return a recall by class as text in percent, such as "healthy 98.1, severe 4.5".

    `recall` maps class names to fractions, or to None for a class without samples. If `recall` is not a mapping but a
    missing value, return None.
    """
    if not isinstance(recall, Mapping):
        return None
    shown = {name: "—" if share is None else f"{100 * share:.1f}" for name, share in recall.items()}
    return ", ".join(f"{name} {share}" for name, share in shown.items())


def differing_words(settings: Sequence[Sequence[str]]) -> list[str]:
    """Return, for each list of words in `settings`, the words that are not in all lists, joined by commas."""
    shared = set(settings[0]).intersection(*settings[1:]) if settings else set()
    return [", ".join(word for word in words if word not in shared) for words in settings]


def queries_in_words(number: str, strategy: str = "", rounds: str = "") -> str:
    """Return a number of queries and how they were selected: "100 prototypes" or "100 labels (least confident)".

    `number` is text that contains the number, such as "100 labels" or "T = 100". `strategy` is the name of the
    selection strategy. `rounds` is the result of `rounds_in_words`. If it lists several rounds, it is shown instead of
    `strategy`.
    """
    if " + " in rounds:
        return f"{number} ({rounds})"
    if strategy == "prototypes":
        count = re.sub("[^0-9,]", "", number)
        return "1 prototype" if count == "1" else f"{count} prototypes"
    return f"{number} ({in_words(strategy)})" if strategy else number


def rounds_in_words(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Return the strategy and number of queries of each round: "random 100 + least confident 50"."""
    return " + ".join(f"{in_words(part['strategy'])} {part['queries']}" for part in rounds)


def _in_words(value: float) -> str:
    if value == float("inf"):
        return "∞"
    return number(value) if abs(value) < 1e6 else f"{value:.4g}".replace("e+", "e")


def name_words(name: str) -> list[str]:
    """Return the parts of a `name` from a configuration as text: ["small CNN", "modern"] for "small-cnn_modern"."""
    return [_NAMES[name]] if name in _NAMES else [_part_in_words(part) for part in re.split("_|, ", name)]


def in_words(name: str) -> str:
    """Return a `name` from a configuration as text: "small CNN, modern" for "small-cnn_modern"."""
    return ", ".join(name_words(name))


def _part_in_words(part: str) -> str:
    """Return one `part` of a name as text.

    The name of a mechanism becomes its label. In other names, hyphens become spaces, except in numbers such as 1e-05.
    """
    if part == LABELS:
        return "ε per label"
    if part in MECHANISMS and (label := MECHANISMS.load(part).shown.label):
        return str(label)

    def spell(name: re.Match[str]) -> str:
        return " ".join(_PIECES.get(word, word) for word in re.split(r"(?<![0-9]e)-", name[0]))

    return re.sub(r"(?<![\w-])[a-z]+(?:-[\w.+]+)*(?![\w-])", spell, part)


def owners_in_words(partition: object) -> str:
    """Return "all records of one owner" if ε protects all records of an owner together, otherwise "".

    An owner is, for example, a patient with several samples. `partition` is the name of the rule that assigns private
    records to teachers. ε protects all records of an owner if the rule assigns them to the same teacher.
    """
    return "all records of one owner" if Change.OWNER in protected_changes(partition) else ""


def delta_in_words(delta: float) -> str:
    """Return δ as short text, such as "1e-5"; it is rounded up if it has more than six significant digits."""
    return at_most(delta, 6).replace("e-0", "e-")


def epsilon_in_digits(epsilon: float, at_least: bool = False) -> str:
    """Return ε as text, such as "2.04", "0.0185", "9.2e-08" or "∞".

    By default, ε is an upper bound, which is rounded up and never 0. With `at_least`, ε is a lower bound, which is
    rounded down and can be 0.
    """
    if epsilon == math.inf:
        return "∞"
    if epsilon == 0 and not at_least:
        epsilon = above_zero(epsilon)
    shown = downward if at_least else upward
    if 0 < epsilon < 1e-3:
        power = max(math.floor(math.log10(epsilon)), -300)
        return f"{shown(shortest_decimal(epsilon).scaleb(-power), 1)}e{power:03d}"
    return shown(epsilon, decimal_places(epsilon, 3) if 0 < epsilon < 0.1 else 2)


def epsilon_in_words(epsilon: float) -> str:
    """Return an upper bound ε, rounded up, as text for sentences: "0.086", or "12.7 (weak)" if ε is above 10."""
    if epsilon < 1e-3:
        return epsilon_in_digits(epsilon)
    if epsilon <= 0.99:
        return upward(epsilon, decimal_places(epsilon, 2)).rstrip("0")
    shown = "∞" if epsilon == math.inf else upward(epsilon, 1)
    return f"{shown} (weak)" if epsilon > WEAK else shown
