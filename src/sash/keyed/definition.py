"""A rolling engine's definition: which aggregates over which windows.

All engines are made of one `Definition`; it says what the core must read of a row, and which aggregates Python runs
itself.
"""

from dataclasses import dataclass, field
from typing import Any

from sash import _core, durations, monoids
from sash.errors import ArgumentError, KindError, shown
from sash.inputs import arrow, record
from sash.keyed.horizon import Grid
from sash.keyed.spec import Asked
from sash.monoid import Layout, Monoid, Read
from sash.times import Instants

_ORDERED = ("min", "max", "first", "last")  # give a value of their column, whatever it holds
_LISTED = ("first_k", "last_k", "top_k", "bottom_k")
_SKETCHES = ("kll", "frequent_items", "theta", "cpc")
NODE_SIZES = (0, 0)  # most rows of a leaf and most children of a node; 0: what suits the rows. Tests make them tiny.
_WIDEST_PANE = 64  # words of a record: where it is larger, rows are kept singly


@dataclass(frozen=True)
class Definition:
    """What is asked for: aggregates by name, and windows by name and size in ticks."""

    names: tuple[str, ...]
    native: Monoid  # a struct of those that the core runs, or of a count that nobody sees
    shown: tuple[str, ...]  # of its fields
    foreign: tuple[tuple[str, Monoid, Any], ...]  # those that Python runs, with the types of their results
    windows: tuple[tuple[str, int], ...]
    unit: str | None
    kinds: str
    learned: dict[str, Any] = field(default_factory=dict)  # types that only results tell, once they have

    @classmethod
    def of(cls, asked: Asked, table: Any) -> "Definition":
        """Check what was asked for against a table's columns."""
        unit = arrow.unit_of(table, asked.time)
        require_monoids(asked.aggs)
        arrow.require_columns(table, [name for agg in asked.aggs.values() for name in agg.columns], "aggs")
        native = {name: agg for name, agg in asked.aggs.items() if _is_native(agg, table)}
        other = [(name, agg, _result_type(name, agg, table)) for name, agg in asked.aggs.items() if name not in native]
        struct = monoids.struct(**native) if native else monoids.struct(rows=monoids.count())
        kinds = f"({','.join(_kind(table, read) for read in struct.layout().reads)})"
        return cls(tuple(asked.aggs), struct, tuple(native), tuple(other), _sizes(asked.windows, unit), unit, kinds)

    @property
    def layout(self) -> Layout:
        """What the core reads of a row."""
        return self.native.layout()

    @property
    def largest(self) -> int:
        """The size of the largest window."""
        return max(size for _, size in self.windows)

    @property
    def foreign_columns(self) -> list[str]:
        """The columns that Python reads."""
        return list(dict.fromkeys(name for _, monoid, _ in self.foreign for name in monoid.columns))

    @property
    def columns(self) -> list[str]:
        """All columns that aggregates read."""
        return list(dict.fromkeys([*(self.native.columns if self.shown else ()), *self.foreign_columns]))

    def grid(self, asked: Asked) -> Grid | None:
        """Give the slide boundaries, if there are any."""
        if asked.every is None:
            return None
        every = durations.ticks_of(asked.every, self.unit, "every")
        offset = 0 if asked.offset is None else durations.ticks_of(asked.offset, self.unit, "offset", least=-(2**62))
        finest = None if asked.resolution is None else durations.ticks_of(asked.resolution, self.unit, "resolution")
        if finest is not None and every % finest:  # a pane would lie across a boundary that is final already
            raise ArgumentError(
                f"resolution: {shown(asked.resolution)} does not divide every={shown(asked.every)}; give one that does."
            )
        return Grid.of(every, offset, (size for _, size in self.windows), finest)

    def engine(self, asked: Asked, *, remembers: bool, named: bool = False) -> _core.Keyed:
        """Make the core's engine."""
        grid = self.grid(asked)
        frame = {
            "sizes": [size for _, size in self.windows],
            "closed_left": asked.closed == "left",
            "remembers": remembers,
            "named": named,
            "every": 0 if grid is None else grid.every,
            "offset": 0 if grid is None else grid.offset,
            "pane": 0 if grid is None or asked.resolution is None else grid.pane,
            "pane_offset": 0 if grid is None else grid.pane_offset,
            "merged": False,
            "rounded": asked.resolution is not None,
            "shown": bool(self.shown),
            "leaf_capacity": NODE_SIZES[0],
            "fanout": NODE_SIZES[1],
        }
        engine = self._made(frame)
        if grid is not None and self._merges(asked, engine.record_words):
            engine = self._made(frame | {"pane": grid.pane, "merged": True})
        return engine

    def _made(self, frame: dict[str, Any]) -> _core.Keyed:
        codec = None if self.unit is None else Instants(self.unit, "numpy")
        return _core.Keyed(self.native, self.kinds, self.unit is not None, codec, frame)

    def merges(self, asked: Asked) -> bool:
        """Tell whether rows are combined into panes on the way in."""
        return asked.every is not None and self._merges(asked, self.engine(asked, remembers=False).record_words)

    def _merges(self, asked: Asked, words: int) -> bool:
        singly = asked.retract is not None or asked.id is not None or asked.late == "emit"
        exact = self.native.commutative and not self.foreign
        return exact and not singly and (words <= _WIDEST_PANE or asked.resolution is not None)

    def inputs_in(self, table: Any) -> record.Record:
        """Give the inputs of a table as the core takes them."""
        layout = self.layout
        if not layout.reads:
            return (table.num_rows,)
        inputs, _ = record.inputs_of(layout, {name: table.column(name) for name in self.native.columns})
        return record.record_of(layout, inputs, self.kinds, table.num_rows)


def _sizes(windows: tuple[Any, ...], unit: str | None) -> tuple[tuple[str, int], ...]:
    if not windows:
        raise ArgumentError("windows: there are none; give at least one size.")
    named = tuple((durations.name_of(size), durations.ticks_of(size, unit, "windows")) for size in windows)
    if len({name for name, _ in named}) < len(named):
        raise ArgumentError(f"windows: {shown(list(windows))} has a size twice; give each once.")
    return named


# --- which aggregates, and who runs them ----------------------------------------------------------


def require_monoids(aggs: Any) -> None:
    """Refuse what is no dict from names to monoids that say what they read."""
    if not isinstance(aggs, dict) or not aggs:
        raise KindError(f"aggs: {shown(aggs)} names no aggregates; give a dict from names to monoids.")
    for name, monoid in aggs.items():
        if not isinstance(name, str):
            raise KindError(f"aggs: {shown(name)} is no name; give a str.")
        if not isinstance(monoid, Monoid):
            raise KindError(f"aggs: {name} is {shown(monoid)}, which is no Monoid; give one of sash.monoids.")
        unnamed = any(read.column is None for part in monoid.parts for read in part.inputs)
        if unnamed or not (monoid.parts or monoid.columns):
            raise ArgumentError(f'aggs: {name} is {monoid!r}, which names no column; say which, as in sum("amount").')


def _is_native(monoid: Monoid, table: Any) -> bool:
    """Tell whether the core runs it: decimals, and the order of what is no number, are for Python."""
    pa = arrow.pyarrow()
    if not monoid.parts:
        return False
    for part in monoid.parts:
        for read in part.inputs:
            kind = table.schema.field(read.column).type
            if read.form != "number" or _is_number(kind):
                continue
            if pa.types.is_decimal(kind) or part.op in (*_ORDERED, *_LISTED):
                return False
    return True


def _is_number(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_integer(kind) or is_a.is_boolean(kind) or is_a.is_floating(kind) or is_a.is_null(kind))


def _kind(table: Any, read: Read) -> str:
    pa = arrow.pyarrow()
    if read.form in ("hash", "truth", "any"):
        return str(read.form)
    column = table.schema.field(read.where).type
    if not _is_number(column):
        raise KindError(
            f"aggs: the column {shown(read.where)} holds {column}; give numbers.",
            argument="aggs",
            column=str(read.where),
        )
    number = pa.types.is_integer(column) or pa.types.is_boolean(column)
    kind = read.dtype or ("int64" if number else "float64")
    if read.form == "int" and kind != "int64":
        raise KindError(
            f"aggs: the column {shown(read.where)} holds {column}; give integers.",
            argument="aggs",
            column=str(read.where),
        )
    return "float64" if read.form == "float" else kind


def _result_type(name: str, monoid: Monoid, table: Any) -> Any:
    """Give the Arrow type of a Python monoid's results, or None where only the results tell."""
    pa = arrow.pyarrow()
    if monoid.returns is not None:
        try:
            return monoid.returns if isinstance(monoid.returns, pa.DataType) else pa.type_for_alias(monoid.returns)
        except ValueError:
            raise ArgumentError(
                f"aggs: {name} returns {shown(monoid.returns)}, which is no type of Arrow; give one such as 'float64'."
            ) from None
    if not monoid.built_in:
        return None
    of = {"distinct": pa.int64(), "median": pa.float64(), "string_agg": pa.string(), "quantile": pa.float64()}
    if monoid.name in of:
        return of[monoid.name]
    if monoid.name in _SKETCHES:
        return _sketch_type(monoid)
    read = table.schema.field(monoid.columns[0]).type
    if monoid.name in _ORDERED:
        return read
    return pa.list_(read) if monoid.name in ("collect_list", "collect_set", *_LISTED) else None


def _sketch_type(monoid: Monoid) -> Any:
    """Give the Arrow type of a sketch's results; of the sketches themselves there is none."""
    pa = arrow.pyarrow()
    arguments = dict(monoid.arguments)
    if arguments.get("as_bytes"):
        return pa.binary()
    if monoid.name == "frequent_items":
        item = pa.string() if arguments["dtype"] == "str" else pa.int64()
        return pa.list_(pa.struct([("item", item), ("estimate", pa.int64())]))
    if monoid.name == "kll" and not isinstance(arguments["q"], float):
        return None if arguments["q"] is None else pa.list_(pa.float64())
    return pa.float64()
