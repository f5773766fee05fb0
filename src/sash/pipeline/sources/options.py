"""The options of a source, by name: text from Spark or a file, plain values from Python.

Each option is read once. One that is left unread at the end does not exist.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from sash.durations import nanoseconds
from sash.errors import ArgumentError, shown

_MISSING = object()


class Options:
    """The options of one source, checked as they are read.

    >>> options = Options({"rows": "1000", "late": 0.1}, "demo")
    >>> options.integer("rows", None), options.share("late", 0.0), options.share("retract", 0.0)
    (1000, 0.1, 0.0)
    >>> options.done()
    """

    def __init__(self, options: Mapping[str, Any], source: str) -> None:
        # Spark's options are case-insensitive, and None means not set.
        self._values = {name.lower(): value for name, value in options.items() if value is not None}
        self._source = source
        self._names: list[str] = []

    def has(self, name: str) -> bool:
        """Return whether an option is set."""
        return name in self._values

    def text(self, name: str, default: Any) -> Any:
        """Return an option unchecked."""
        self._names.append(name)
        return self._values.get(name, default)

    def choice(self, name: str, default: str, accepted: Sequence[str]) -> str:
        """Return an option that must be one of the accepted values."""
        value = self.text(name, default)
        if value not in accepted:
            raise _error(name, f"must be one of {', '.join(accepted)}", value)
        return str(value)

    def integer(self, name: str, default: int | None, *, least: int = 0, most: int = 2**53) -> Any:
        """Return an option that must be an integer within bounds."""
        value = self.text(name, _MISSING)
        if value is _MISSING:
            return default
        number = _number(value)
        if number is None or number != int(number) or not least <= number <= most:
            raise _error(name, f"must be an integer from {least} to {most}", value)
        return int(number)

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """Return an option that must be a number within bounds."""
        value = self.text(name, default)
        number = _number(value)
        if number is None or not least <= number <= most:
            raise _error(name, f"must be a number from {least:g} to {most:g}", value)
        return number

    def share(self, name: str, default: float, *, below: float | None = None) -> float:
        """Return an option that must be a fraction from 0 to 1, or below a bound."""
        share = self.number(name, default, least=0, most=1)
        if below is not None and share >= below:
            raise _error(name, f"must be less than {below:g}", share)
        return share

    def microseconds(self, name: str, default: str, *, least: int = 0) -> int:
        """Return an option that must be a duration, in microseconds."""
        value = self.text(name, default)
        length = nanoseconds(value, name) // 1000
        if not least <= length < 2**52:
            raise _error(name, f"must be a duration from {least} µs to 2^52 µs", value)
        return length

    def instant(self, name: str, default: str) -> int:
        """Return an option that must be a timestamp, in microseconds since 1970; UTC unless it has a time zone."""
        value = self.text(name, default)
        try:
            time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            raise _error(name, "must be a timestamp such as 2026-01-01T00:00:00Z", value) from None
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        apart = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return (apart.days * 86400 + apart.seconds) * 10**6 + apart.microseconds

    def speed(self) -> float | None:
        """Return the speed-up of a paced stream, or None for one without a pace."""
        value = self.text("speed", "max")
        number = None if value == "max" else _number(value)
        if value != "max" and (number is None or not 0 < number <= 1e9):
            raise _error("speed", 'must be a positive number such as 60, or "max" for no pace', value)
        return number

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Raise an error for options that other options rule out."""
        for name in names:
            if self.has(name):
                raise ArgumentError(f"{name} cannot be used here: {why}.", argument=name)

    def done(self) -> None:
        """Raise an error for an option that was never read."""
        for name in self._values:
            if name not in self._names:
                close = get_close_matches(name, self._names, 1)
                hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(sorted(self._names))}."
                raise ArgumentError(f"unknown option {name} of the source {self._source}; {hint}", argument=name)


def _error(name: str, condition: str, value: object) -> ArgumentError:
    return ArgumentError(f"{name} {condition}, got {shown(value)}.", argument=name)


def _number(value: Any) -> float | None:
    """Return a number, also from text, or None."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(str(value).replace("_", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
