"""The errors that sash raises on purpose; each also is the built-in error that fits."""

from pathlib import PurePath
from typing import Any


def shown(value: object) -> str:
    """Give a value as an error names it: its repr, on one line and not too long; a path whole, to find it by."""
    if isinstance(value, PurePath):
        return repr(str(value))
    try:
        text = repr(value)
    except Exception:
        text = f"an object of type {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


class SashError(Exception):
    """Base class of every error that sash raises on purpose.

    `argument` is the name of the argument at fault and `column` that of the column, or None.
    """

    def __init__(self, message: str = "", *, argument: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.column = column


class ArgumentError(SashError, ValueError):
    """An argument of the right type has a value that cannot be used."""


class KindError(SashError, TypeError):
    """An argument has a type that cannot be used, or one that differs from what the window holds."""


class OutOfOrderError(SashError, ValueError):
    """A structure that works in order was given a time out of order."""


class UnsupportedError(SashError):
    """The window's structure cannot do what was asked."""


class ResultOverflowError(SashError, OverflowError):
    """An integer result does not fit int64. Partial aggregates never overflow."""


class ConcurrentUseError(SashError, RuntimeError):
    """A window was used while it was in the middle of another call."""


class InvariantError(SashError, AssertionError):
    """`check_invariants` found a structure that is not what it must be."""


class CorruptStateError(SashError, ValueError):
    """Bytes that were to be loaded are not those of a window, or not all of them."""


class SlideError(SashError):
    """A round of `slide` failed.

    `index` is the failed round, `results` are those of the rounds before it, and `__cause__` is what went wrong. The
    window is as it was after the round before, unless the cause is a `ResultOverflowError`: then the failed round is
    done too, and only its result is missing.
    """

    def __init__(self, message: str, index: int, results: Any) -> None:
        super().__init__(message)
        self.index = index
        self.results = results

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.index, self.results)
