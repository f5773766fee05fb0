"""Queries of a stream: results for keys as of a time or for a range, whenever somebody asks.

They read what is held and change nothing. What can be answered follows from the last expiry: a question that reaches
behind it raises RetentionError, even where no row happens to be missing.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sash.errors import ArgumentError, RetentionError, shown
from sash.inputs import arrow, tables
from sash.keyed.answers import Answers
from sash.keyed.emit import HIGHEST, LOWEST
from sash.keyed.kinds import Kind
from sash.keyed.questions import asked, keys_in, require_has
from sash.keyed.result_columns import require_new
from sash.keyed.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

SIDES = ("both", "left", "right", "neither")  # which ends of a range are part of it


class Range(NamedTuple):
    """A range of times in ticks, and which rows are in it."""

    start: int
    stop: int
    first: int  # rows from this time
    last: int  # to this one

    @classmethod
    def of(cls, start: int, stop: int, closed: str) -> "Range":
        """Return the range between two times that has the ends that `closed` says."""
        return cls(start, stop, start + (closed not in ("both", "left")), stop - (closed not in ("both", "right")))


def query(stream: Stream, keys: Any, *, at: Any, start: Any, stop: Any, closed: Any) -> Any:
    """Return the table of keys with the results of each as of a time, or for a range."""
    moment = moment_of(stream, at=at, start=start, stop=stop, closed=closed)
    source = source_of(stream.spec.keys, keys)
    columns = results(stream, keys_of(source, stream.spec.keys, stream.schema), moment)
    return columns_added(source, columns)


def moment_of(stream: Stream, *, at: Any, start: Any, stop: Any, closed: Any) -> int | Range:
    """Return the instant or the range that the arguments of a query name, or raise if a stream cannot answer it."""
    ranged = start is not None or stop is not None
    if ranged and (start is None or stop is None or at is not None):
        raise ArgumentError(
            f"start and stop must be passed together and without at, got start={shown(start)}, stop={shown(stop)} and "
            f"at={shown(at)}.",
            argument="stop" if stop is None else "start" if start is None else "at",
        )
    if closed is not None and not ranged:
        raise ArgumentError(f"closed must be passed with start and stop, got {shown(closed)}.", argument="closed")
    return _range(stream, start, stop, closed) if ranged else _instant(stream, at)


def results(stream: Stream, table: "pa.Table | None", moment: int | Range) -> dict[str, Any]:
    """Return the results of the keys in a table as columns; None stands for the one key of streams without keys."""
    return _results_between(stream, table, moment) if isinstance(moment, Range) else _results_at(stream, table, moment)


def columns_added(source: tables.Source | None, columns: dict[str, Any]) -> Any:
    """Return what the keys were passed as, with the columns of results."""
    if source is None:
        return arrow.pyarrow().table(columns)
    require_new(source.column_names, columns)
    return source.extended(columns)


# --- keys -----------------------------------------------------------------------------------------


def source_of(names: tuple[str, ...], keys: Any) -> tables.Source | None:
    """Return what reads a table of keys, or None if all rows have one key."""
    if not names and keys is None:
        return None
    if not names or keys is None:
        wanted = f"a table with the columns {list(names)}" if names else "left out, because all rows have one key"
        raise ArgumentError(f"keys must be {wanted}, got {shown(keys)}.", argument="keys")
    source = tables.source_of(keys, "keys")
    require_has(source.column_names, names, "keys")
    return source


def keys_of(source: tables.Source | None, names: tuple[str, ...], schema: "pa.Schema") -> "pa.Table | None":
    """Return keys in the types that a schema has for them."""
    return None if source is None else keys_in(source.read(names), names, schema, "keys")


# --- times ----------------------------------------------------------------------------------------


def _instant(stream: Stream, at: Any) -> int:
    """Return the instant of a question; the default is the first one whose window holds the newest row."""
    grid, left = stream.panes, not stream.spec.ends_inside
    if at is None:
        newest = stream.position.newest
        if newest is None:
            return max(stream.dropped, 0)
        time = min(_first_after(stream, newest), HIGHEST)
    else:
        time = stream.tick(at, "at", up=left)
        _require_edge(stream, time, "at", at)
    earliest = stream.answerable
    if grid is not None:
        earliest = -(-(earliest - grid.pane_offset) // grid.pane) * grid.pane + grid.pane_offset
    _require_retained(stream, time, earliest, "at", at)
    return time


def _first_after(stream: Stream, newest: int) -> int:
    """Return the first instant that has results with the newest row: with every=, the next boundary."""
    boundaries = stream.definition.grid(stream.spec)
    if boundaries is not None:
        return boundaries.next_boundary(newest)
    return newest + (not stream.spec.ends_inside)


def _range(stream: Stream, start: Any, stop: Any, closed: Any) -> Range:
    if closed is not None and closed not in SIDES:
        raise ArgumentError(f"closed must be one of {', '.join(SIDES)}, got {shown(closed)}.", argument="closed")
    first = stream.tick(start, "start", up=closed not in ("right", "neither"))
    last = stream.tick(stop, "stop", up=closed in ("left", "neither"))
    if stream.tick(start, "start") > stream.tick(stop, "stop"):
        raise ArgumentError(f"stop must not be before start={shown(start)}, got {shown(stop)}.", argument="stop")
    if stream.panes is not None:
        if closed not in (None, "left"):
            raise ArgumentError(
                f"closed must be 'left', because rows are combined into panes [p, p + size), got {shown(closed)}.",
                argument="closed",
            )
        closed = "left"
        _require_edge(stream, first, "start", start)
        _require_edge(stream, last, "stop", stop)
    range_ = Range.of(first, last, closed or "both")
    earliest = LOWEST if stream.dropped == LOWEST else stream.dropped + 1
    _require_retained(stream, range_.first, earliest, "start", start)
    return range_


def _require_edge(stream: Stream, time: int, argument: str, given: Any) -> None:
    grid = stream.panes
    if grid is not None and (time - grid.pane_offset) % grid.pane:
        before = grid.late_before(time)
        raise ArgumentError(
            f"{argument} must be an edge of a pane, such as {stream.time_text(before)} or "
            f"{stream.time_text(before + grid.pane)}, because rows are combined into panes, got {shown(given)}.",
            argument=argument,
        )


def _require_retained(stream: Stream, time: int, earliest: int, argument: str, given: Any) -> None:
    if earliest == LOWEST or time >= earliest:
        return
    got = f"the default, {stream.time_text(time)}" if given is None else shown(given)
    raise RetentionError(
        f"{argument} must be {stream.time_text(earliest)} or later, because earlier rows are dropped, got {got}.",
        argument=argument,
    )


# --- results --------------------------------------------------------------------------------------


def _anchors(stream: Stream, table: "pa.Table | None", time: int) -> "_core.Anchors":
    times = np.full(1 if table is None else table.num_rows, time, dtype=np.int64)
    return asked(stream.engine, table, stream.spec.keys, times)


def _results_at(stream: Stream, table: "pa.Table | None", time: int) -> dict[str, Any]:
    anchors = _anchors(stream, table, time)
    answers = Answers.of(stream.definition, stream.engine, anchors, stream.retained.values)
    return answers.columns(on_error=stream.spec.on_error)[0]


def _results_between(stream: Stream, table: "pa.Table | None", range_: Range) -> dict[str, Any]:
    definition = replace(stream.definition, windows=(("", Kind("span", range_.stop - range_.start)),))
    anchors = _anchors(stream, table, range_.stop)
    answers = Answers.of_range(definition, stream.engine, anchors, stream.retained.values, range_)
    return answers.columns(on_error=stream.spec.on_error)[0]
