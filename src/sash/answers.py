"""A rolling engine's definition and its answers: which aggregates over which windows, and their columns.

Both engines, for tables and for streams, are made of one `Definition`; it says what the core must read of a row, and
turns the words that the core gives into Arrow columns named `<aggregate>_<window>`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import _core, monoids, policy, records, tables
from sash.errors import ArgumentError, KindError, ResultOverflowError, UnsupportedError, shown
from sash.monoid import Layout, Monoid
from sash.times import Instants

_MOST_INPUTS = 16


@dataclass(frozen=True)
class Definition:
    """What is asked for: aggregates by name, and windows by name and size in ticks."""

    monoid: Monoid
    windows: tuple[tuple[str, int], ...]
    unit: str | None

    @classmethod
    def of(cls, aggs: Any, windows: Any, unit: str | None) -> "Definition":
        """Check what was asked for."""
        if not isinstance(aggs, dict) or not aggs:
            raise KindError(f"aggs: {shown(aggs)} names no aggregates; give a dict from names to monoids.")
        _require_native(aggs)
        sizes = policy.listed(windows)
        if not sizes:
            raise ArgumentError("windows: there are none; give at least one size.")
        named = tuple((policy.name_of(size), policy.ticks_of(size, unit, "windows")) for size in sizes)
        if len({name for name, _ in named}) < len(named):
            raise ArgumentError(f"windows: {shown(windows)} has a size twice; give each once.")
        return cls(monoids.struct(**aggs), named, unit)

    @property
    def layout(self) -> Layout:
        """What the core reads of a row."""
        return self.monoid.layout()

    @property
    def largest(self) -> int:
        """The size of the largest window."""
        return max(size for _, size in self.windows)

    def engine(self, kinds: str, *, closed_left: bool, remembers: bool) -> _core.Keyed:
        """Make the core's engine for inputs of these kinds."""
        codec = None if self.unit is None else Instants(self.unit, "numpy")
        sizes = [size for _, size in self.windows]
        engine = _core.Keyed(self.monoid, kinds, self.unit is not None, codec, sizes, closed_left, remembers)
        if not engine.plain:
            raise UnsupportedError("aggs: lists and sets cannot be columns of results yet; give numbers.")
        return engine

    def kinds_in(self, table: Any) -> str:
        """Give the kinds of the inputs, by the types of their columns."""
        return f"({','.join(_kind(table, read) for read in self.layout.reads)})"

    def inputs_in(self, table: Any, kinds: str) -> records.Record:
        """Give the inputs of a table as the core takes them."""
        layout = self.layout
        if not layout.reads:
            return (table.num_rows,)
        inputs, _ = records.inputs_of(layout, {name: table.column(name) for name in self.monoid.columns})
        return records.record_of(layout, inputs, kinds, table.num_rows)


def _require_native(aggs: dict[Any, Any]) -> None:
    for name, monoid in aggs.items():
        if not isinstance(name, str):
            raise KindError(f"aggs: {shown(name)} is no name; give a str.")
        if not isinstance(monoid, Monoid):
            raise KindError(f"aggs: {name} is {shown(monoid)}, which is no Monoid; give one of sash.monoids.")
        if not monoid.parts:
            raise UnsupportedError(
                f"aggs: {name} is {monoid!r}, which runs in Python; give one that is native, or Monoid.compiled."
            )
        if any(read.column is None for part in monoid.parts for read in part.inputs):
            raise ArgumentError(f'aggs: {name} is {monoid!r}, which names no column; say which, as in sum("amount").')


def _kind(table: Any, read: Any) -> str:
    pa = tables.arrow()
    if read.form in ("hash", "truth", "any"):
        return str(read.form)
    column = table.schema.field(read.where).type
    number = pa.types.is_integer(column) or pa.types.is_boolean(column)
    if not number and not pa.types.is_floating(column) and not pa.types.is_null(column):
        raise KindError(f"aggs: the column {shown(read.where)} holds {column}; give numbers.")
    kind = read.dtype or ("int64" if number else "float64")
    if read.form == "int" and kind != "int64":
        raise KindError(f"aggs: the column {shown(read.where)} holds {column}; give integers.")
    return "float64" if read.form == "float" else kind


class Answers:
    """Answers on their way from the core into Arrow columns."""

    def __init__(self, definition: Definition, engine: _core.Keyed, rows: int) -> None:
        self.definition = definition
        self.kinds = engine.result_kinds
        self.rows = rows
        self.rooms = [records.room_for(self.kinds, rows) for _ in definition.windows]
        self.overflows = 0

    def columns(self, keep: NDArray[Any] | None = None, on_error: str = "null") -> dict[str, Any]:
        """Give the columns by name; `keep` takes some of the rows only."""
        columns: dict[str, Any] = {}
        names = [part[5] for part in self.definition.layout.parts]
        shown_windows = [(name, room) for (name, _), room in zip(self.definition.windows, self.rooms, strict=True)]
        for i, agg in enumerate(names):
            for window, room in shown_windows:
                columns[f"{agg}_{window}"] = self._column(i, room, keep, f"{agg}_{window}", on_error)
        return columns

    def _column(self, i: int, room: records.Room, keep: NDArray[Any] | None, name: str, on_error: str) -> Any:
        pa = tables.arrow()
        at = sum(len(kinds) + kinds.count("I") for kinds in self.kinds[:i])
        there = room[1][i] if keep is None else room[1][i][keep]
        there = there.view(np.bool_)
        members = []
        for kind in self.kinds[i]:
            words = room[0][at : at + 1 + (kind == "I")]
            words = words if keep is None else words[:, keep]
            at += 1 + (kind == "I")
            member, there = self._member(kind, words, there, name, on_error)
            members.append(member)
        mask = None if there.all() else ~there
        fields = self.definition.layout.parts[i][3]
        if not fields:
            return pa.array(members[0], mask=mask)
        return pa.StructArray.from_arrays(
            [pa.array(member) for member in members], list(fields), mask=None if mask is None else pa.array(mask)
        )

    def _member(self, kind: str, words: Any, there: Any, name: str, on_error: str) -> tuple[Any, Any]:
        low = words[0]
        if kind == "f":
            return low.view(np.float64), there
        if kind == "b":
            return low.astype(bool), there
        if kind == "I":
            wide = (words[1] != low >> 63) & there
            if wide.any() and on_error == "raise":
                raise ResultOverflowError(f"{name}: a result does not fit int64; use on_error='null' to pass over it.")
            self.overflows += int(wide.sum())
            there = there & ~wide
        return low, there
