"""The specification of rolling aggregates: the arguments that `rolling`, `KeyedWindows` and Spark share."""

from dataclasses import dataclass, fields
from typing import Any

from sash import durations
from sash.errors import ArgumentError, KindError, shown
from sash.keyed import kinds
from sash.keyed.zones import zone_name
from sash.monoids.syntax import monoids_of
from sash.times import is_integer

CHOICES = {
    "emit": ("arrival", "final", "update"),
    "late": ("drop", "emit"),
    "on_error": ("null", "raise"),
    "closed": ("right", "left", "both", "neither"),
}

_LATER = ("zone", "min_rows", "idle")  # which earlier versions do not know, and do not miss where they are not used


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The arguments of a call, checked as far as possible without a table."""

    keys: tuple[str, ...]
    time: str
    windows: dict[str, Any]  # sizes by the names that end the columns of their results
    aggs: dict[str, Any]
    every: Any = None
    emit: str = "arrival"
    lateness: Any = None
    late: str = "drop"
    retract: Any = None
    id: str | None = None
    carry: tuple[str, ...] = ()
    closed: str = "right"
    offset: Any = None
    resolution: Any = None
    on_error: str = "null"
    zone: str | None = None
    min_rows: int | None = None
    idle: Any = None

    @classmethod
    def of(cls, *, per: Any = "event", **words: Any) -> "Spec":
        """Check the arguments of a call; None means the default, which depends on `every` for some."""
        if per != "event":
            raise ArgumentError(
                f'per must be "event", got {shown(per)}; for slide boundaries use every=.',
                argument="per",
            )
        sliding = words.get("every") is not None
        defaults = {"emit": "final" if sliding else "arrival", "closed": "left" if sliding else "right"}
        words |= {name: default for name, default in defaults.items() if words.get(name) is None}
        for name, known in CHOICES.items():
            if name in words and words[name] not in known:
                raise ArgumentError(
                    f"{name} must be one of {', '.join(known)}, got {shown(words[name])}.",
                    argument=name,
                )
        words["aggs"] = monoids_of(words["aggs"])
        words["keys"] = column_names(words["keys"], "keys")
        words["carry"] = column_names(words.get("carry"), "carry")
        words["windows"] = named_windows(words["windows"])
        for name in ("time", "id"):
            if words.get(name) is not None or name == "time":
                require_name(words.get(name), name)
        if words.get("zone") is not None:
            words["zone"] = zone_name(words["zone"])
        asked = cls(**words)
        asked._require_grid() if sliding else asked._require_events()
        asked._require_kinds()
        return asked

    @property
    def starts_inside(self) -> bool:
        """Whether a row at the time where a window begins is in it."""
        return self.closed in ("left", "both")

    @property
    def ends_inside(self) -> bool:
        """Whether a row at the time of the anchor is in its windows."""
        return self.closed in ("right", "both")

    @property
    def needs_exact_times(self) -> str | None:
        """Why an instant between two ticks of the rows has other results than either of them; None: it has not."""
        if any(agg.timed for agg in self.aggs.values()):
            return "aggregates depend on time"
        ends = any(kinds.is_to_date(one) or kinds.is_ahead(one) for one in self.windows.values())
        inexact = ends or self.idle is not None or self.closed in ("both", "neither")
        return "these windows would be others between two of them" if inexact else None

    @property
    def counts(self) -> bool:
        """Whether some windows are of rows, or unbounded."""
        return any(map(kinds.counts, self.windows.values()))

    @property
    def step(self) -> str | None:
        """The calendar period whose starts are the boundaries, if it is one."""
        return None if self.every is None else kinds.calendar_step(self.every, self.zone)

    def require_backward(self) -> None:
        """Raise for windows that begin at their anchor: a stream does not know what comes."""
        for window in self.windows.values():
            if kinds.is_ahead(window):
                raise ArgumentError(
                    f"windows must end at their row in a stream, got {shown(window)}; use it with rolling on a table.",
                    argument="windows",
                )

    def require_streamable(self) -> None:
        """Raise for what a stream that must not grow for good cannot have: windows ahead, and keys that never go."""
        self.require_backward()
        if self.counts and self.idle is None:
            raise ArgumentError(
                'idle must be set where windows count rows or are unbounded, such as "30 days": a stream forgets a key '
                "that has had no rows for so long, and would otherwise keep all keys for good.",
                argument="idle",
            )

    def _require_kinds(self) -> None:
        windows = self.windows.values()
        plain = not any(kinds.counts(one) or kinds.is_to_date(one) or kinds.is_ahead(one) for one in windows)
        if self.every is not None:
            self._require_kinds_on_grid(plain)
        if self.zone is not None and self.every is None and not any(map(kinds.is_to_date, self.windows.values())):
            raise ArgumentError(
                f"zone must be left out without every= and windows to date, got {shown(self.zone)}.", argument="zone"
            )
        if self.idle is not None and not self.counts:
            raise ArgumentError(
                f"idle must be left out without windows of rows or 'unbounded', got {shown(self.idle)}.",
                argument="idle",
            )
        if self.min_rows is not None and not (is_integer(self.min_rows) and self.min_rows > 0):
            raise ArgumentError(f"min_rows must be a positive int, got {shown(self.min_rows)}.", argument="min_rows")

    def _require_kinds_on_grid(self, plain: bool) -> None:
        for window in self.windows.values():
            if kinds.is_ahead(window):
                raise ArgumentError(
                    f"windows must end at their boundary with every=, got {shown(window)}.", argument="windows"
                )
        if self.step is not None and self.offset is not None:
            raise ArgumentError(
                f"offset must be left out because every={shown(self.every)} is a calendar period, got "
                f"{shown(self.offset)}.",
                argument="offset",
            )
        if self.resolution is not None and not (plain and self.step is None):
            raise ArgumentError(
                "resolution must be left out with calendar periods and with windows that are not spans of time, got "
                f"{shown(self.resolution)}.",
                argument="resolution",
            )

    def _require_events(self) -> None:
        for name in ("offset", "resolution"):
            if getattr(self, name) is not None:
                raise ArgumentError(
                    f"{name} must be left out without every=, got {shown(getattr(self, name))}.",
                    argument=name,
                )

    def _require_grid(self) -> None:
        if self.emit == "arrival":
            raise ArgumentError(
                "emit must be 'final' or 'update' with every=, got 'arrival'.",
                argument="emit",
            )
        if self.closed != "left":
            raise ArgumentError(
                f"closed must be 'left' with every=, whose windows are [b - size, b), got {shown(self.closed)}.",
                argument="closed",
            )
        if self.carry:
            raise ArgumentError(
                f"carry must be left out with every=, whose results are for boundaries, got {shown(list(self.carry))}.",
                argument="carry",
            )

    def words(self) -> dict[str, Any]:
        """Return the arguments as plain data, without the aggregates; a condition is only marked as one."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "aggs"}
        if not (self.retract is None or isinstance(self.retract, str)):
            plain["retract"] = {"condition": str(self.retract)}
        plain["windows"] = plain_windows(self.windows)
        for name in ("every", "lateness", "offset", "resolution", "idle"):
            plain[name] = plain_size(plain[name])
        return {name: value for name, value in plain.items() if value is not None or name not in _LATER}


def named_windows(windows: Any) -> dict[str, Any]:
    """Return window sizes by name: those of a dict, or else one or several sizes, which name themselves.

    >>> named_windows(["1h", "15 minutes"]), named_windows({"hour": "1h"})
    ({'1h': '1h', '15minutes': '15 minutes'}, {'hour': '1h'})
    """
    if isinstance(windows, dict):
        for name in windows:
            if not isinstance(name, str) or not name:
                raise KindError(f"windows must have names that are text, got {shown(name)}.", argument="windows")
        named = dict(windows)
    else:
        sizes = durations.listed(windows)
        named = {durations.name_of(size): size for size in sizes}
        if len(named) < len(sizes):
            raise ArgumentError(f"windows must be distinct, got {shown(sizes)}.", argument="windows")
    if not named:
        raise ArgumentError("windows must hold at least one size, got none.", argument="windows")
    return named


def plain_windows(windows: dict[str, Any]) -> Any:
    """Return windows as plain data: a list of sizes, or a dict if some have names of their own."""
    plain = {name: plain_size(size) for name, size in windows.items()}
    return list(plain.values()) if all(name == durations.name_of(size) for name, size in plain.items()) else plain


def plain_size(size: Any) -> Any:
    """Return a size as equivalent text or number."""
    return size if size is None or isinstance(size, (str, int)) else durations.name_of(size)


def column_names(names: Any, argument: str) -> tuple[str, ...]:
    """Return column names as a tuple; one name or None are fine too."""
    if names is None:
        return ()
    listed = [names] if isinstance(names, str) or not hasattr(names, "__iter__") else list(names)
    return tuple(require_name(name, argument) for name in listed)


def require_name(name: Any, argument: str) -> str:
    """Return a column name, or raise if it is not a str."""
    if not isinstance(name, str):
        raise KindError(
            f"{argument} must be a column name (str), got {shown(name)}.",
            argument=argument,
        )
    return name
