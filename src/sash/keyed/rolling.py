"""rolling: aggregates over the windows that end at each row of a table, or at each boundary of a grid."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.errors import SashWarning, shown
from sash.inputs import arrow, tables
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition, require_monoids
from sash.keyed.progress import shown_on_terminal
from sash.keyed.questions import asked, instants_in, keys_in, require_askable, require_has, widened
from sash.keyed.result_columns import boundary_columns, require_new, require_unlike, result_names
from sash.keyed.spec import Spec

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def rolling(
    table: Any,
    *,
    keys: Any = None,
    time: str,
    windows: Any,
    aggs: Any,
    per: str = "event",
    every: Any = None,
    closed: str | None = None,
    offset: Any = None,
    resolution: Any = None,
    on_error: str = "null",
    at: Any = None,
    at_time: str | None = None,
    zone: Any = None,
    min_rows: int | None = None,
    idle: Any = None,
) -> Any:
    """Return the table with a column for each aggregate and window, its rows in their original order.

    A row's window is (t - size, t], or [t - size, t) with `closed="left"`, among the rows with the same keys; rows with
    equal times are in each other's windows, as in SQL's RANGE. With `every` there is instead a row for each key and
    boundary b of that grid, with the windows [b - size, b), as long as the largest of them is not empty. With `at`,
    another table with key and time columns, every row and column of that table comes back, with the results as of its
    time t, of the windows (t - size, t] or [t - size, t): a point-in-time join. Its times may lie anywhere, in any
    order; a key without rows has counts of 0 and null for the rest, a null time has null results. `at_time` is its time
    column if that has another name.

    A window is a duration, or a number where times are numbers; "100 rows", the last up to this one; "day to date",
    from the start of the calendar day (or week, month, quarter, year) in `zone`; "unbounded", everything up to t; or
    "next 1h", which is [t, t + size). `closed` is "right", "left", "both" or "neither". `min_rows` makes the results of
    windows with fewer rows null. After a gap of more than `idle`, windows of rows and "unbounded" start from nothing.

    Returns the same kind of table it was given (as `at`, if there is one): pandas,
    polars, lazy or not, and Arrow for all else. A result that fails or does not fit its type is null, and a SashWarning
    says how many there are and why; with `on_error="raise"` the first one raises.

    >>> from sash import monoids, rolling
    >>> table = {"card": ["a", "b", "a"], "ts": [10, 11, 12], "amount": [5, 7, 9]}
    >>> sums = rolling(table, keys=["card"], time="ts", windows=[5], aggs={"total": monoids.sum("amount")})
    >>> sums["total_5"].to_pylist()
    [5, 7, 14]
    >>> labels = {"card": ["b", "a", "c"], "ts": [14, 11, 11]}
    >>> asked = rolling(table, at=labels, keys="card", time="ts", windows=[5], aggs={"total": monoids.sum("amount")})
    >>> asked["total_5"].to_pylist()
    [7, 5, None]
    """
    emit = None if every is None else "final"
    spec = Spec.of(
        keys=keys, time=time, windows=windows, aggs=aggs, per=per, every=every, emit=emit,
        closed=closed, offset=offset, resolution=resolution, on_error=on_error,
        zone=zone, min_rows=min_rows, idle=idle,
    )  # fmt: skip
    require_monoids(spec.aggs)
    require_askable(at, at_time, every)
    source = tables.source_of(table, "table")
    read = [name for agg in spec.aggs.values() for name in agg.columns]
    for names, argument in ((spec.keys, "keys"), ([spec.time], "time"), (read, "aggs")):
        arrow.require_columns(source, names, argument)
    rows = source.read([*spec.keys, spec.time, *read])
    if at is not None:
        questions = tables.source_of(at, "at")
        return questions.extended(_of_questions(questions, at_time or spec.time, rows, spec))
    definition = Definition.of(spec, rows)
    if every is not None:
        return source.like(_of_boundaries(rows, spec, definition))
    require_new(source.column_names, result_names(definition, spec))
    return source.extended(_of_rows(rows, spec, definition))


class _Rows:
    """The rows of a table, and the engine that they go through."""

    def __init__(self, table: Any, spec: Spec, definition: Definition) -> None:
        self.table = table
        self.definition = definition
        self.times, self.bad = arrow.ticks(table, spec.time)
        self.engine = definition.engine(spec, remembers=False)
        self.inputs = definition.inputs_in(table)
        self.keys = arrow.key_batch(self.engine, table, spec.keys, 0)

    def apply(self) -> NDArray[np.uint8]:
        """Put all rows that have a time into their windows."""
        status = np.empty(len(self.times), dtype=np.uint8)
        late = None if self.bad is None else np.ascontiguousarray(self.bad, dtype=np.uint8)
        self.engine.apply(self.keys, self.times, None, None, late, self.inputs, status)
        return status

    def values(self, names: list[str], seqs: NDArray[np.int64]) -> Any:
        """Return columns of rows by their places."""
        return self.table.select(names).take(arrow.pyarrow().array(seqs))


def _of_rows(table: Any, spec: Spec, definition: Definition) -> dict[str, Any]:
    rows = _Rows(table, spec, definition)
    total = len(rows.times)
    with shown_on_terminal("rolling", total * len(definition.windows), lambda: rows.engine.progress):
        answers = _row_answers(rows, definition, rows.engine)
    columns = columns_of(answers, spec)
    if rows.bad is not None:
        columns = {name: arrow.spread(column, ~rows.bad) for name, column in columns.items()}
    return columns


def _row_answers(rows: _Rows, definition: Definition, engine: _core.Keyed) -> Answers:
    """Return the answers for each row: by one pass along each key if possible, else through the engine."""
    answers = Answers(definition, engine, len(rows.times))
    plain = rows.bad is None and not definition.foreign
    if plain and engine.roll(rows.keys, rows.times, rows.inputs, None, answers.rooms):
        return answers
    status = rows.apply()
    return Answers.of(definition, engine, engine.arrived(rows.keys, rows.times, status), rows.values)


def _of_questions(source: tables.Source, time: str, events: Any, spec: Spec) -> dict[str, Any]:
    """Return the results as of each row of a table of questions."""
    require_has(source.column_names, (*spec.keys, time), "at")
    table = source.read([*spec.keys, time])
    events = widened(events, table, time, spec)
    definition = Definition.of(spec, events)
    require_new(source.column_names, result_names(definition, spec))
    times, bad = instants_in(table, time, spec, events.schema)
    keys = keys_in(table, spec.keys, events.schema, "at") if spec.keys else None
    if bad is not None:
        times, keys = times[~bad], None if keys is None else keys.filter(arrow.pyarrow().array(~bad))
    rows = _Rows(_timely(events, spec.time), spec, definition)
    anchors = asked(rows.engine, keys, spec.keys, times)
    with shown_on_terminal("rolling", len(times) * len(definition.windows), lambda: rows.engine.progress):
        answers = _question_answers(rows, definition, anchors)
    columns = columns_of(answers, spec)
    return columns if bad is None else {name: arrow.spread(column, ~bad) for name, column in columns.items()}


def _timely(table: Any, time: str) -> Any:
    """Return the rows of a table that have a time."""
    column = table.column(time)
    return table.filter(column.is_valid()) if column.null_count else table


def _question_answers(rows: _Rows, definition: Definition, anchors: _core.Anchors) -> Answers:
    answers = Answers(definition, rows.engine, len(anchors))
    if not definition.foreign and rows.engine.roll(rows.keys, rows.times, rows.inputs, anchors, answers.rooms):
        return answers
    rows.apply()
    return Answers.of(definition, rows.engine, anchors, rows.values)


def _of_boundaries(table: Any, spec: Spec, definition: Definition) -> Any:
    require_unlike(result_names(definition, spec))
    rows = _Rows(table, spec, definition)
    rows.apply()
    anchors = rows.engine.boundaries(_LOWEST, _HIGHEST, None)
    with shown_on_terminal("rolling", len(anchors), lambda: rows.engine.progress):
        answers = Answers.of(definition, rows.engine, anchors, rows.values)
    bounds = boundary_columns(definition, rows.engine, spec, table.schema, anchors)
    return arrow.with_columns(bounds, columns_of(answers, spec))


def columns_of(answers: Answers, spec: Spec) -> dict[str, Any]:
    """Return the columns of answers; warn if some are null because something failed."""
    columns, counts = answers.columns(on_error=spec.on_error)
    failed, overflowed = counts["failures"], counts["overflows"]
    if failed or overflowed:
        first = f" The first error was {shown(answers.errors[0])}." if answers.errors else ""
        warnings.warn(
            f"{failed + overflowed} results are null: {failed} failed and {overflowed} did not fit their type.{first} "
            "Pass on_error='raise' to raise instead.",
            SashWarning,
            stacklevel=4,
        )
    return columns
