"""Human-readable numbers: counts, bytes, durations, and a sparkline for a series."""

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def count(number: float) -> str:
    """Return a count with a suffix for thousands, millions or billions.

    >>> [count(n) for n in (0, 999, 12_345, 1_250_000, 3e9)]
    ['0', '999', '12.3k', '1.25M', '3G']
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # A number that would round up to a thousand of one unit is one of the next.
        if abs(number) >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Return a number of bytes in units of 1000.

    >>> [size(n) for n in (0, 999, 1_500, 25_000_000)]
    ['0 B', '999 B', '1.5 kB', '25 MB']
    """
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= least * 0.9995:
            return f"{number / least:.3g} {unit}"
    return f"{number:.0f} B"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> [duration(s) for s in (2.3e-05, 0.25, 42, 90, 7_260, 200_000)]
    ['0 s', '0.25 s', '42 s', '1 min 30 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds < 10:
        return f"{round(seconds, 3):.2g} s"
    whole = round(seconds)
    for unit, length, less, small in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // small
            return f"{whole // length} {unit}" + (f" {rest} {less}" if rest else "")
    return f"{whole} s"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Return the last values as blocks, lowest to highest, with a gap for None.

    >>> sparkline([0, 1, 2, None, 7])
    '▁▂▃ █'
    """
    recent = list(values)[-width:]
    finite = [value for value in recent if value is not None and math.isfinite(value)]
    if not finite:
        return " " * len(recent)
    low, high = min(finite), max(finite)
    return "".join(_block(value, low, high) for value in recent)


def _block(value: float | None, low: float, high: float) -> str:
    if value is None or not math.isfinite(value):
        return " "
    # A single value, or several equal ones, are drawn in the middle.
    share = (value - low) / (high - low) if high > low else 0.5
    return _BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)]
