"""The exceptions that sash raises. Each also derives from the matching built-in exception."""

from pathlib import PurePath
from typing import Any

_SINGLE = ("time", "value", "at", "start", "stop", "watermark", "horizon")  # arguments that are one thing


def shown(value: object) -> str:
    """Return the repr of a value for an error message: on one line, at most 80 characters, but a path in full."""
    if isinstance(value, PurePath):
        return repr(str(value))
    try:
        text = repr(value)
    except Exception:
        text = f"an object of type {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


def row_place(argument: str, row: int) -> str:
    """Return how a message names one row of an argument: `times[3]`, but `time` where the argument is a single one.

    >>> row_place("times", 3), row_place("time", 0)
    ('times[3]', 'time')
    """
    return argument if argument_name(argument) in _SINGLE else f"{argument}[{row}]"


def argument_name(place: str) -> str:
    """Return the name of the argument that a place lies in.

    >>> argument_name("times[3]"), argument_name("time")
    ('times', 'time')
    """
    return place.partition("[")[0]


class SashError(Exception):
    """Base class of all sash exceptions.

    `argument` is the name of the invalid argument and `column` that of the invalid column, or None.
    """

    def __init__(self, message: str = "", *, argument: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.column = column


class SashWarning(UserWarning):
    """Something that sash could not compute, and returned as null."""


class ArgumentError(SashError, ValueError):
    """An argument has the right type but an invalid value."""


class KindError(SashError, TypeError):
    """An argument has an invalid type, or one that differs from the type of the window's entries."""


class OutOfOrderError(SashError, ValueError):
    """A time arrived out of order at a structure that requires times in order."""


class UnsupportedError(SashError):
    """The operation is not supported by the window's structure, or needs a package that is not installed."""


class ResultOverflowError(SashError, OverflowError):
    """An integer result does not fit int64. Partial aggregates never overflow."""


class ConcurrentUseError(SashError, RuntimeError):
    """A window was used during another call on the same window."""


class RetentionError(SashError, ValueError):
    """A question reaches behind the rows that are retained."""


class InvariantError(SashError, AssertionError):
    """`check_invariants` found a broken invariant."""


class CorruptStateError(SashError, ValueError):
    """The bytes to load are not a saved window, or are truncated or corrupted."""


class SlideError(SashError):
    """A round of `slide` failed.

    `index` is the failed round, `results` holds the results of the rounds before it, and `__cause__` is the original
    exception. The window is as it was after the previous round, unless the cause is a `ResultOverflowError`: then the
    failed round is complete too, and only its result is missing.
    """

    def __init__(self, message: str, index: int, results: Any) -> None:
        super().__init__(message)
        self.index = index
        self.results = results

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.index, self.results)
