"""Options as sources get them: by name, as text from Spark or a file, as plain values from Python.

Each is read once, by the name that errors give. What is left unread at the end is a name that nobody knows.
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
    """The options of one source, each read and checked by its name.

    >>> options = Options({"rows": "1000", "late": 0.1}, "demo")
    >>> options.whole("rows", None), options.share("late", 0.0), options.share("retract", 0.0)
    (1000, 0.1, 0.0)
    >>> options.done()
    """

    def __init__(self, given: Mapping[str, Any], source: str) -> None:
        # Spark's options know no case, and an option left at None was not given.
        self._given = {name.lower(): value for name, value in given.items() if value is not None}
        self._source = source
        self._known: list[str] = []

    def has(self, name: str) -> bool:
        """Tell whether an option was given."""
        return name in self._given

    def text(self, name: str, default: Any) -> Any:
        """Give an option as it came."""
        self._known.append(name)
        return self._given.get(name, default)

    def choice(self, name: str, default: str, accepted: Sequence[str]) -> str:
        """Give an option that is one of a few words."""
        value = self.text(name, default)
        if value not in accepted:
            words = ", ".join(accepted)
            raise ArgumentError(f"{name}: {shown(value)} is not known; give one of {words}.")
        return str(value)

    def whole(self, name: str, default: int | None, *, least: int = 0, most: int = 2**53) -> Any:
        """Give an option that is a whole number."""
        value = self.text(name, _MISSING)
        if value is _MISSING:
            return default
        number = _number(value)
        if number is None or number != int(number) or not least <= number <= most:
            raise ArgumentError(f"{name}: {shown(value)} is no whole number from {least} to {most}; give one.")
        return int(number)

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """Give an option that is a number."""
        value = self.text(name, default)
        number = _number(value)
        if number is None or not least <= number <= most:
            raise ArgumentError(f"{name}: {shown(value)} is no number from {least:g} to {most:g}; give one.")
        return number

    def share(self, name: str, default: float, *, below: float | None = None) -> float:
        """Give an option that is a share of all rows, from 0 to 1, or below some bound."""
        share = self.number(name, default, least=0, most=1)
        if below is not None and share >= below:
            raise ArgumentError(f"{name}: {shown(share)} is not below {below:g}; give a smaller share.")
        return share

    def microseconds(self, name: str, default: str, *, least: int = 0) -> int:
        """Give an option that is a duration, in microseconds."""
        value = self.text(name, default)
        length = nanoseconds(value, name) // 1000
        if not least <= length < 2**52:
            raise ArgumentError(f"{name}: {shown(value)} is out of range; give a duration of at least {least} µs.")
        return length

    def instant(self, name: str, default: str) -> int:
        """Give an option that is an instant, in microseconds since 1970 in UTC; without a zone it is UTC."""
        value = self.text(name, default)
        try:
            time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            raise ArgumentError(
                f"{name}: {shown(value)} is no instant; give one such as 2026-01-01T00:00:00Z."
            ) from None
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        apart = aware - datetime(1970, 1, 1, tzinfo=UTC)
        return (apart.days * 86400 + apart.seconds) * 10**6 + apart.microseconds

    def speed(self) -> float | None:
        """Give the speed-up of a paced stream, or None where rows come as fast as they are taken."""
        value = self.text("speed", "max")
        number = None if value == "max" else _number(value)
        if value != "max" and (number is None or not 0 < number <= 1e9):
            raise ArgumentError(
                f'speed: {shown(value)} is no speed-up; give a number such as 60, or "max" for no pace.'
            )
        return number

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Refuse options that make no sense beside others."""
        for name in names:
            if self.has(name):
                raise ArgumentError(f"{name}: {shown(self._given[name])} cannot be used here, because {why}.")

    def done(self) -> None:
        """Refuse what was given and never read."""
        for name in self._given:
            if name not in self._known:
                close = get_close_matches(name, self._known, 1)
                hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(self._known))}."
                raise ArgumentError(f"{name}: the source {self._source} has no such option; {hint}")


def _number(value: Any) -> float | None:
    """Give a number, also one in text, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(str(value).replace("_", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
