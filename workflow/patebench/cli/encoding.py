"""Output on a terminal that lacks Greek letters and mathematical signs."""

import codecs
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, TextIO

#: How letters and signs are spelt where a terminal has none of them.
_PLAIN = {
    **dict(zip("αβγδεμσωλ", ("alpha", "beta", "gamma", "delta", "eps", "mu", "sigma", "omega", "lambda"), strict=True)),
    **{"×": "x", "·": "*", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "inf", "√": "sqrt", "→": "->", "±": "+-"},
    **{"−": "-", "–": "-", "—": "-", "…": "...", "‘": "'", "’": "'", "“": '"', "”": '"', "Σ": "Sum", "∈": "in"},
}
_PLAIN_HANDLER = "patebench-plain"


class _Ascii:
    """A stream that spells what ASCII lacks. It shows no bytes below it, for click would write UTF-8 to them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def write_in_any_encoding() -> None:
    """Let the terminal's encoding end no command: what it lacks is spelt in plain letters."""
    codecs.register_error(_PLAIN_HANDLER, _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        reconfigure(errors=_PLAIN_HANDLER)
        if codecs.lookup(stream.encoding).name == "ascii":
            setattr(sys, name, _Ascii(stream))


def _plainly(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeEncodeError)
    return "".join(map(_spelt, fault.object[fault.start : fault.end])), fault.end


def _spelt(letter: str) -> str:
    found = _PLAIN.get(letter) or unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return found or ("-" if unicodedata.name(letter, "").startswith("BOX DRAWINGS") else "?")
