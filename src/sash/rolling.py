"""rolling: aggregates over the windows that end at each row of a table."""

from typing import Any

import numpy as np

from sash import _core, tables
from sash.answers import Answers, Definition
from sash.errors import ArgumentError, KindError, shown


def rolling(
    table: Any,
    *,
    keys: Any = None,
    time: str,
    windows: Any,
    aggs: Any,
    per: str = "event",
    closed: str = "right",
    on_error: str = "null",
) -> Any:
    """Give the table with a column for each aggregate and window, its rows in the order they came in.

    A row's window is (t - size, t], or [t - size, t) with `closed="left"`, among the rows of its keys; rows of one time
    are in each other's windows, as SQL's RANGE has it. Tables of pandas, polars and Arrow come back as what they were.

    >>> from sash import monoids, rolling
    >>> table = {"card": ["a", "b", "a"], "ts": [10, 11, 12], "amount": [5, 7, 9]}
    >>> sums = rolling(table, keys=["card"], time="ts", windows=[5], aggs={"total": monoids.sum("amount")})
    >>> sums["total_5"].to_pylist()
    [5, 7, 14]
    """
    if per != "event":
        raise ArgumentError(f'per: {shown(per)} is not known; give "event".')
    rows, back = tables.table_of(table, "table")
    names = key_names(keys)
    check_closed(closed)
    tables.require_columns(rows, [*names, _checked_name(time, "time")], "keys")
    definition = Definition.of(aggs, windows, tables.unit_of(rows, time))
    tables.require_columns(rows, list(definition.monoid.columns), "aggs")
    times, bad = tables.ticks(rows, time)
    kinds = definition.kinds_in(rows)
    engine = definition.engine(kinds, closed_left=closed == "left", remembers=False)
    schema, array = tables.keys_of(rows, names)
    engine.begin(schema, array, rows.num_rows)
    answers = _answers(definition, engine, times, bad, definition.inputs_in(rows, kinds))
    columns = answers.columns(on_error=on_error)
    require_new(rows, columns)
    if bad is not None:
        columns = {name: tables.spread(column, ~bad) for name, column in columns.items()}
    return back(tables.with_columns(rows, columns))


def _answers(definition: Definition, engine: _core.Keyed, times: Any, bad: Any, inputs: Any) -> Answers:
    """Go along the rows of each key once, where that is enough; otherwise by way of the engine."""
    answers = Answers(definition, engine, len(times))
    if bad is None and engine.roll(times, inputs, answers.rooms):
        return answers
    status = np.empty(len(times), dtype=np.uint8)
    late = None if bad is None else np.ascontiguousarray(bad, dtype=np.uint8)
    engine.apply(times, None, None, late, 0, inputs, status)
    answers = Answers(definition, engine, engine.arrived(times, status))
    engine.answer(answers.rooms, None)
    return answers


def require_new(table: Any, columns: dict[str, Any]) -> None:
    """Refuse results whose names the table has already."""
    for name in columns:
        if name in table.column_names:
            raise ArgumentError(f"aggs: the table has a column {shown(name)} already; give the aggregate another name.")


def key_names(keys: Any) -> list[str]:
    """Give the names of the key columns as a list."""
    if keys is None:
        return []
    return [_checked_name(name, "keys") for name in ([keys] if isinstance(keys, str) else list(keys))]


def check_closed(closed: Any) -> None:
    """Refuse what is no side of a window."""
    if closed not in ("right", "left"):
        raise ArgumentError(f'closed: {shown(closed)} is not known; give "right" or "left".')


def _checked_name(name: Any, argument: str) -> str:
    if not isinstance(name, str):
        raise KindError(f"{argument}: {shown(name)} is no name of a column; give a str.")
    return name
