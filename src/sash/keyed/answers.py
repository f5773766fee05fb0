"""The answers of a rolling engine, from the core and from Python, as Arrow columns named `<aggregate>_<window>`."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.errors import ArgumentError, ResultOverflowError
from sash.inputs import arrow, record
from sash.keyed import python_aggregates, python_results
from sash.keyed.definition import Definition, column_name
from sash.times import Instants

Values = Callable[[list[str], NDArray[np.int64]], Any]  # columns by name, of rows by their places, as a table


class Answers:
    """The answers for some anchors, before they become Arrow columns."""

    def __init__(self, definition: Definition, engine: _core.Keyed, rows: int) -> None:
        self.definition = definition
        self.engine = engine
        self.rows = rows
        self.shapes = definition.shapes(engine)
        words = sum(shape[2] for shape in self.shapes)
        self.rooms = [
            (np.empty((words, rows), dtype=np.int64), np.empty((len(self.shapes), rows), dtype=np.uint8))
            for _ in definition.windows
        ]
        self.errors: list[Exception] = []  # of results that are null because of them
        self.others: dict[tuple[str, int], list[Any]] = {}  # of Python, by aggregate and window

    @classmethod
    def of(cls, definition: Definition, engine: _core.Keyed, anchors: _core.Anchors, values: Values) -> "Answers":
        """Return the answers for anchors."""
        answers = cls(definition, engine, len(anchors))
        parts = engine.answer(anchors, answers.rooms, bool(definition.foreign))
        if parts is not None:
            least = engine.frame.min_rows
            answers._fold(python_aggregates.Spans.of(parts, len(definition.windows)), anchors, values, least)
        return answers

    @classmethod
    def of_range(
        cls,
        definition: Definition,
        engine: _core.Keyed,
        anchors: _core.Anchors,
        values: Values,
        span: tuple[int, int, int, int],
    ) -> "Answers":
        """Return the answers for the rows of a range: (start, stop, time of the first row, time of the last row)."""
        answers = cls(definition, engine, len(anchors))
        start, stop, first, last = span
        parts = engine.answer_range(anchors, first, last, start, stop, answers.rooms, bool(definition.foreign))
        if parts is not None:
            answers._fold(python_aggregates.Spans.of(parts, 1), anchors, values)
        return answers

    @classmethod
    def of_watched(
        cls, definition: Definition, engine: _core.Keyed, anchors: _core.Anchors, values: Values
    ) -> "Answers":
        """Return what Python computes for anchors that are watched; what the core does is left blank."""
        answers = cls(definition, engine, len(anchors))
        parts = anchors.spans()
        if parts is not None:
            least = engine.frame.min_rows
            answers._fold(python_aggregates.Spans.of(parts, len(definition.windows)), anchors, values, least)
        return answers

    def fold_sessions(self, spans: python_aggregates.Spans, sessions: _core.Anchors, values: Values) -> None:
        """Compute what Python does of the results of sessions, which have these rows."""
        starts, lasts = (np.frombuffer(part, dtype=np.int64) for part in (sessions.times(), sessions.seqs()))
        edges = (starts, arrow.plus(lasts, self.definition.largest))
        ranges = list(zip(*map(self._times, edges), strict=True))
        self._fold_ranges(spans, values, lambda _: ranges)

    def _fold(self, spans: python_aggregates.Spans, anchors: _core.Anchors, values: Values, least: int = 0) -> None:
        ends = np.frombuffer(anchors.times(), dtype=np.int64)[spans.order]
        self._fold_ranges(spans, values, lambda window: self._ranges(spans, window, ends), least)

    def _fold_ranges(
        self,
        spans: python_aggregates.Spans,
        values: Values,
        ranges: Callable[[int], list[tuple[Any, Any]]],
        least: int = 0,
    ) -> None:
        definition = self.definition
        rows = values(definition.foreign_columns, spans.seqs)
        times = self._times(spans.times)
        for name, monoid, _ in definition.foreign:
            columns = [read.column for part in monoid.parts for read in part.inputs] or monoid.columns
            unreadable: dict[int, Exception] = {}
            read = [  # a pair may be one column twice
                python_aggregates.values_of(rows.column(column), column, unreadable) for column in columns
            ]
            with python_results.exact_decimals() if monoid.built_in else nullcontext():
                fold = python_aggregates.Fold(monoid, read, times, unreadable)
                for window in range(len(definition.windows)):
                    self._put(name, window, spans.order, fold.results(spans, window, ranges(window), least))

    def _ranges(self, spans: python_aggregates.Spans, window: int, ends: NDArray[np.int64]) -> list[tuple[Any, Any]]:
        """Return the times between which a timed monoid sees each anchor's window."""
        timed = any(monoid.timed for _, monoid, _ in self.definition.foreign)
        starts = self._starts(spans, window, ends) if timed else ends
        _, kind = self.definition.windows[window]
        stops = ends + kind.size if kind.kind == "ahead" else ends
        return list(zip(self._times(starts), self._times(stops), strict=True))

    def _starts(self, spans: python_aggregates.Spans, window: int, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        _, kind = self.definition.windows[window]
        if kind.kind == "ahead":
            return ends
        if kind.kind == "span":
            return arrow.minus(ends, kind.size)
        if kind.kind == "period":
            return np.frombuffer(self.engine.frame.first_times(window, np.ascontiguousarray(ends)), dtype=np.int64)
        some = spans.start[window] < spans.stop[window]  # a count of rows is seen from its first row on
        starts = ends.copy()
        starts[some] = spans.times[spans.start[window][some]]
        return starts

    def _put(self, name: str, window: int, order: NDArray[np.uint32], results: list[Any]) -> None:
        placed: list[Any] = [None] * self.rows
        for at, result in zip(order.tolist(), results, strict=True):
            placed[at] = result
        self.others[name, window] = placed

    def _times(self, ticks: NDArray[np.int64]) -> list[Any]:
        """Return times as a timed monoid sees them."""
        if not any(monoid.timed for _, monoid, _ in self.definition.foreign):
            return [None] * len(ticks)
        if self.definition.unit is None:
            return list(ticks.tolist())
        codec = Instants(self.definition.unit, "numpy")
        return [codec.decode(tick) for tick in ticks.tolist()]

    def extra(self) -> NDArray[np.int64] | None:
        """Return a hash of what Python computed for each anchor, or None if there is nothing."""
        return python_aggregates.hashed(self.others.values(), self.rows) if self.others else None

    def columns(self, keep: NDArray[Any] | None = None, on_error: str = "null") -> tuple[dict[str, Any], Counter[str]]:
        """Return the columns by name, and how many results overflowed or failed; `keep` selects rows."""
        columns: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        numbers = self._numbers() if keep is None else {}
        for agg in self.definition.names:
            for window, (size, _) in enumerate(self.definition.windows):
                name = column_name(agg, size)
                column = numbers.get((agg, window))
                columns[name] = self._aggregate(agg, window, name, keep, on_error, counts) if column is None else column
        return columns, counts

    def _numbers(self) -> dict[tuple[str, int], Any]:
        """Return the columns of numbers that all fit and are not null, on the memory that the core wrote.

        In a small batch Arrow would take longer to copy them than the core took to compute them.
        """
        pa, rows = arrow.pyarrow(), self.rows
        kinds = {"f": pa.float64(), "i": pa.int64(), "I": pa.int64()}
        found = {}
        for window, (words, there) in enumerate(self.rooms):
            whole, buffer = there.all(), pa.py_buffer(words)
            for agg, i, at, kind in self.definition.plain_results:
                if not (whole or there[i].all()) or (kind == "I" and (words[at + 1] != words[at] >> 63).any()):
                    continue
                found[agg, window] = pa.Array.from_buffers(kinds[kind], rows, [None, buffer], 0, at * rows)
        return found

    def _aggregate(
        self, agg: str, window: int, name: str, keep: NDArray[Any] | None, on_error: str, counts: Counter[str]
    ) -> Any:
        fields = self.definition.structs.get(agg)
        if fields is not None:
            pa = arrow.pyarrow()
            inner = [self._aggregate(f"{agg}.{one}", window, name, keep, on_error, counts) for one in fields]
            return pa.StructArray.from_arrays([_whole(one) for one in inner], list(fields))
        if (agg, window) in self.others:
            return self._other(agg, window, name, keep, on_error, counts)
        return self._column(self.definition.shown.index(agg), self.rooms[window], keep, name, on_error, counts)

    # --- of Python

    def _other(
        self, agg: str, window: int, name: str, keep: NDArray[Any] | None, on_error: str, counts: Counter[str]
    ) -> Any:
        values = self.others[agg, window]
        values = values if keep is None else [values[i] for i in keep.tolist()]
        (kind,) = (kind for other, _, kind in self.definition.foreign if other == agg)
        learned = self.definition.learned
        column, errors = python_results.column_of(values, kind or learned.get(agg), name)
        if errors and on_error == "raise":
            raise errors[0]
        self.errors += errors
        overflows = sum(isinstance(error, ResultOverflowError) for error in errors)
        counts.update(overflows=overflows, failures=len(errors) - overflows)
        if not arrow.pyarrow().types.is_null(column.type):
            learned[agg] = column.type
        return column

    # --- of the core

    def _column(
        self, i: int, room: record.Room, keep: NDArray[Any] | None, name: str, on_error: str, counts: Counter[str]
    ) -> Any:
        shape, kinds, width = self.shapes[i]
        at = sum(shape[2] for shape in self.shapes[:i])
        words, there = room[0][at : at + width], room[1][i]
        if keep is not None:
            words, there = words[:, keep], there[keep]
        there = there.view(np.bool_)
        if shape == "list":
            return _list_column(kinds, words, there)
        if shape == "bytes":
            return _bytes_column(words, there)
        if self.definition.layout.parts[i].op == "geomean":
            _count_failures(words[0], there, name, on_error, counts)
        return self._plain_column(i, kinds, words, there, name, on_error, counts)

    def _plain_column(
        self, i: int, kinds: str, words: Any, there: Any, name: str, on_error: str, counts: Counter[str]
    ) -> Any:
        pa = arrow.pyarrow()
        members, at = [], 0
        for kind in kinds:
            member, there = _member(kind, words[at : at + 1 + (kind == "I")], there, name, on_error, counts)
            at += 1 + (kind == "I")
            members.append(member)
        mask = None if there.all() else ~there
        fields = self.definition.layout.parts[i].fields
        if not fields:
            return pa.array(members[0], mask=mask)
        return pa.StructArray.from_arrays(
            [pa.array(member) for member in members], list(fields), mask=None if mask is None else pa.array(mask)
        )


def _count_failures(words: Any, there: Any, name: str, on_error: str, counts: Counter[str]) -> None:
    """Count the geometric means of windows with a negative value, which the core marks by a 1 beside a null."""
    failed = (words == 1) & ~there
    if failed.any() and on_error == "raise":
        raise ArgumentError(
            f"{name} must be the geometric mean of values that are not negative; use on_error='null' to get null.",
            column=name,
        )
    counts["failures"] += int(failed.sum())


def _member(kind: str, words: Any, there: Any, name: str, on_error: str, counts: Counter[str]) -> tuple[Any, Any]:
    low = words[0]
    if kind == "f":
        return low.view(np.float64), there
    if kind == "b":
        return low.astype(bool), there
    if kind == "I":
        wide = (words[1] != low >> 63) & there
        if wide.any() and on_error == "raise":
            raise _overflow(name, "int64")
        counts["overflows"] += int(wide.sum())
        there = there & ~wide
    return low, there


def _list_column(kinds: str, words: NDArray[np.int64], there: NDArray[np.bool_]) -> Any:
    """Return a column of lists; their lengths come first."""
    pa = arrow.pyarrow()
    lengths = np.where(there, words[0], 0)
    inside = np.arange(len(words) - 1) < lengths[:, None]
    flat = np.ascontiguousarray(words[1:].T)[inside]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = pa.array(flat.view(np.float64) if kinds == "f" else flat.astype(bool) if kinds == "b" else flat)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=None if there.all() else pa.array(~there))


def _bytes_column(words: NDArray[np.int64], there: NDArray[np.bool_]) -> Any:
    pa = arrow.pyarrow()
    size = 8 * len(words)
    data = pa.py_buffer(np.ascontiguousarray(words.T).tobytes())
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), words.shape[1], [None, data])
    column = fixed.cast(pa.binary())
    return column if there.all() else arrow.spread(column.filter(pa.array(there)), there)


def _overflow(name: str, kind: str) -> ResultOverflowError:
    return ResultOverflowError(
        f"{name} must fit {kind}; use on_error='null' to get null for results that do not.", column=name
    )


def _whole(column: Any) -> Any:
    return column if isinstance(column, arrow.pyarrow().Array) else arrow.one_array(column)
