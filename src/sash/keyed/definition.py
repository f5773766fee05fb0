"""The definition of a rolling engine: which aggregates over which windows, for columns of which types.

It says what the core reads of a row, and which aggregates Python computes itself.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sash import _core, durations, monoids
from sash.errors import ArgumentError, KindError, shown
from sash.inputs import arrow, record
from sash.keyed import python_results, zones
from sash.keyed.horizon import CalendarGrid, Grid
from sash.keyed.identities import is_exact
from sash.keyed.kinds import Kind, kind_of
from sash.keyed.readable import HASHED, require_input_types, require_kind
from sash.keyed.spec import Spec
from sash.monoid import Layout, Monoid, Read
from sash.times import Instants

NODE_SIZES = (0, 0)  # most rows of a leaf and most children of a node; 0: the default. Tests make them tiny.
_WIDEST_PANE = 64  # words of a record; if it is wider, rows are stored one by one


@dataclass(frozen=True)
class Definition:
    """Aggregates by name, and windows by name and size in ticks."""

    names: tuple[str, ...]
    native: Monoid  # a struct of those that the core runs, or of a count that nobody sees
    shown: tuple[str, ...]  # of its fields; those of a struct are named `struct.field`
    foreign: tuple[tuple[str, Monoid, Any], ...]  # those that Python runs, with the types of their results
    windows: tuple[tuple[str, Kind], ...]
    unit: str | None
    kinds: str
    booleans: frozenset[str] = frozenset()  # fields of `native` that return a value of a boolean column
    structs: dict[str, tuple[str, ...]] = field(default_factory=dict)  # fields of the aggregates that are structs
    blurred: tuple[str, ...] = ()  # columns of which the core reads less than their values
    learned: dict[str, Any] = field(default_factory=dict)  # types that are known once there are results
    _shapes: list[tuple[str, str, int]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, spec: Spec, table: Any) -> "Definition":
        """Check a spec against the columns of a table."""
        unit = arrow.unit_of(table, spec.time)
        require_monoids(spec.aggs)
        require_distinct(spec.aggs, spec.windows)
        arrow.require_columns(table, [name for agg in spec.aggs.values() for name in agg.columns], "aggs")
        aggs, structs = _without_structs(spec.aggs)
        native = {name: agg for name, agg in aggs.items() if _is_native(agg, table)}
        other = [
            (name, agg, python_results.type_of(name, agg, table.schema))
            for name, agg in aggs.items()
            if name not in native
        ]
        for _, agg, _ in other:
            require_input_types(agg, table)
        _require_bounded(spec, [name for name, _, _ in other])
        struct = monoids.struct(**native) if native else monoids.struct(rows=monoids.count())
        kinds = {read: _kind(table, read) for read in struct.layout().reads}
        exact = {read.where for read, kind in kinds.items() if is_exact(kind, table.schema.field(read.where).type)}
        read = [name for agg in spec.aggs.values() for name in agg.columns]
        return cls(
            tuple(spec.aggs),
            struct,
            tuple(native),
            tuple(other),
            _windows(spec, unit),
            unit,
            f"({','.join(kinds[read] for read in struct.layout().reads)})",
            frozenset(name for name, agg in native.items() if _returns_booleans(agg, table)),
            structs,
            tuple(dict.fromkeys(name for name in read if name not in exact)),
        )

    @cached_property
    def layout(self) -> Layout:
        """What the core reads of a row."""
        return self.native.layout()

    @cached_property
    def largest(self) -> int:
        """The size of the largest window that is a span of time; 0 if there is none."""
        return max((kind.size for _, kind in self.windows if kind.kind == "span"), default=0)

    @property
    def unbounded(self) -> bool:
        """Whether a window is unbounded."""
        return any(kind.kind == "unbounded" for _, kind in self.windows)

    @property
    def timed(self) -> bool:
        """Whether an aggregate depends on times, and not only on their order."""
        return self.native.timed or any(monoid.timed for _, monoid, _ in self.foreign)

    @property
    def foreign_columns(self) -> list[str]:
        """The columns that Python reads."""
        return list(dict.fromkeys(name for _, monoid, _ in self.foreign for name in monoid.columns))

    @property
    def columns(self) -> list[str]:
        """All columns that aggregates read."""
        return list(dict.fromkeys([*(self.native.columns if self.shown else ()), *self.foreign_columns]))

    def compared(self, spec: Spec) -> list[str]:
        """Return the columns that deletes compare besides what the core reads: none if rows have ids."""
        return list(self.blurred) if spec.retract is not None and spec.id is None else []

    def grid(self, spec: Spec) -> Grid | CalendarGrid | None:
        """Return the slide boundaries, or None."""
        if spec.every is None:
            return None
        if spec.step is not None:
            return CalendarGrid(spec.step, self.calendar(spec.step, spec, "every"))
        every = durations.ticks_of(spec.every, self.unit, "every")
        offset = 0 if spec.offset is None else durations.ticks_of(spec.offset, self.unit, "offset", least=-(2**62))
        finest = None if spec.resolution is None else durations.ticks_of(spec.resolution, self.unit, "resolution")
        if finest is not None and every % finest:  # a pane would lie across a boundary that is final already
            raise ArgumentError(
                f"resolution must divide every={shown(spec.every)}, got {shown(spec.resolution)}.",
                argument="resolution",
            )
        return Grid.of(every, offset, (kind.size for _, kind in self.windows if kind.kind == "span"), finest)

    def calendar(self, period: str, spec: Spec, argument: str = "windows") -> _core.Calendar:
        """Return the calendar of a period in the zone of a spec."""
        if self.unit is None:
            raise ArgumentError(
                f"{argument} must be an int because the times are ints, got {shown(getattr(spec, argument))}.",
                argument=argument,
            )
        return zones.calendar(period, spec.zone, self.unit)

    def idle(self, spec: Spec) -> int:
        """Return the gap after which windows that count start from nothing, or 0 if none does."""
        return 0 if spec.idle is None else durations.ticks_of(spec.idle, self.unit, "idle")

    def engine(self, spec: Spec, *, remembers: bool, named: bool = False) -> _core.Keyed:
        """Return a new engine of the core."""
        grid = self.grid(spec)
        fixed = grid if isinstance(grid, Grid) else None
        frame = {
            "windows": [self._extent(kind, spec) for _, kind in self.windows],
            "starts_inside": spec.starts_inside,
            "ends_inside": spec.ends_inside,
            "remembers": remembers,
            "named": named,
            "every": 0 if fixed is None else fixed.every,
            "offset": 0 if fixed is None else fixed.offset,
            "periods": grid.calendar if isinstance(grid, CalendarGrid) else None,
            "pane": 0 if fixed is None or spec.resolution is None else fixed.pane,
            "pane_offset": 0 if fixed is None else fixed.pane_offset,
            "idle": self.idle(spec),
            "min_rows": spec.min_rows or 0,
            "gap": 0 if spec.gap is None else self.largest,
            "merged": False,
            "rounded": spec.resolution is not None,
            "identified": bool(self.compared(spec)),
            "shown": bool(self.shown),
            "leaf_capacity": NODE_SIZES[0],
            "fanout": NODE_SIZES[1],
        }
        engine = self._made(frame)
        if fixed is not None and self._merges(spec, engine.record_words):
            engine = self._made(frame | {"pane": fixed.pane, "merged": True})
        return engine

    def _extent(self, kind: Kind, spec: Spec) -> tuple[str, Any]:
        """Return how far a window reaches, as the core reads it."""
        if kind.kind == "period":
            return kind.kind, self.calendar(kind.period, spec, "windows")
        return kind.kind, kind.size

    def _made(self, frame: dict[str, Any]) -> _core.Keyed:
        codec = None if self.unit is None else Instants(self.unit, "numpy")
        return _core.Keyed(self.native, self.kinds, self.unit is not None, codec, frame)

    def merges(self, spec: Spec) -> bool:
        """Return whether rows are combined into panes as they arrive."""
        return spec.every is not None and self._merges(spec, self.engine(spec, remembers=False).record_words)

    def _merges(self, spec: Spec, words: int) -> bool:
        singly = spec.retract is not None or spec.id is not None or spec.late == "emit"
        spans = spec.step is None and all(kind.kind == "span" for _, kind in self.windows)
        exact = spans and self.native.commutative and not self.foreign
        return exact and not singly and (words <= _WIDEST_PANE or spec.resolution is not None)

    def shapes(self, engine: _core.Keyed) -> list[tuple[str, str, int]]:
        """Return the forms of the core's results, in which a value of a boolean column is a boolean."""
        return self._shapes or self._shapes_of(engine)

    def _shapes_of(self, engine: _core.Keyed) -> list[tuple[str, str, int]]:
        shapes = list(engine.result_shapes)
        for i, name in enumerate(self.shown):
            shape, kinds, words = shapes[i]
            shapes[i] = (shape, "b" + kinds[1:] if name in self.booleans else kinds, words)
        self._shapes[:] = shapes
        return shapes

    @cached_property
    def plain_results(self) -> list[tuple[str, int, int, str]]:
        """The results that are numbers: their names, places among the parts and the words, and kinds."""
        found, at = [], 0
        for i, (shape, kinds, words) in enumerate(self._shapes[: len(self.shown)]):
            part = self.layout.parts[i]
            if shape == "words" and kinds in ("f", "i", "I") and not part.fields and part.op != "geomean":
                found.append((self.shown[i], i, at, kinds))
            at += words
        return found

    def inputs_in(self, table: Any, *, strict: bool = False) -> record.Record:
        """Return the inputs of a table in the form that the core reads.

        `strict` raises for values without a result; otherwise the results of their windows are null.
        """
        layout = self.layout
        if not layout.reads:
            return (table.num_rows,)
        direct = None if strict and any(part.op == "geomean" for part in layout.parts) else self._words_in(table)
        if direct is not None:
            return direct
        inputs, _ = record.inputs_of(layout, {name: table.column(name) for name in self.native.columns})
        return record.record_of(layout, inputs, self.kinds, table.num_rows, strict=strict)

    @cached_property
    def _reads(self) -> list[tuple[str, str]]:
        """The columns that the core reads, and as what."""
        kinds = self.kinds[1:-1].split(",")
        return [(str(read.where), kind) for read, kind in zip(self.layout.reads, kinds, strict=True)]

    def _words_in(self, table: Any) -> record.Record | None:
        """Return the inputs of a table where they are in its memory as the core reads them, or None."""
        columns = []
        for name, kind in self._reads:
            column = table.column(name)
            if kind not in ("int64", "float64") or not arrow.is_stored_as(column.type, kind):
                return None
            found = arrow.words_of(column)
            if found is None:
                return None
            words, nulls = found
            columns.append((words, None if nulls is None else nulls.view(np.uint8)))
        return table.num_rows, *columns


def column_name(agg: str, window: str) -> str:
    """Return the name of a result; that of a range or a session has no window's name in it."""
    return f"{agg}_{window}" if window else agg


def _windows(spec: Spec, unit: str | None) -> tuple[tuple[str, Kind], ...]:
    if spec.gap is not None:
        return (("", Kind("span", durations.ticks_of(spec.gap, unit, "gap"))),)
    return tuple((name, kind_of(window, unit)) for name, window in spec.windows.items())


def _require_bounded(spec: Spec, foreign: list[str]) -> None:
    """Raise for aggregates whose states the core cannot keep when their rows expire."""
    if foreign and "unbounded" in map(durations.name_of, spec.windows.values()):
        raise ArgumentError(
            f"aggs must be native with the window 'unbounded', but {shown(foreign[0])} runs in Python.",
            argument="aggs",
            column=foreign[0],
        )


# --- which aggregates, and who runs them ----------------------------------------------------------


def require_monoids(aggs: Any) -> None:
    """Raise unless aggs is a dict from names to monoids that name their columns."""
    if not isinstance(aggs, dict) or not aggs:
        raise KindError(f"aggs must be a dict from names to monoids, got {shown(aggs)}.", argument="aggs")
    for name, monoid in aggs.items():
        if not isinstance(name, str):
            raise KindError(f"aggs must have names of type str, got {shown(name)}.", argument="aggs")
        if not isinstance(monoid, Monoid):
            raise KindError(f"aggs must hold monoids, but {name} is {shown(monoid)}.", argument="aggs", column=name)
        unnamed = any(read.column is None for part in monoid.parts for read in part.inputs)
        if unnamed or not (monoid.parts or monoid.columns):
            raise ArgumentError(
                f'aggs must name their columns, as in sum("amount"), but {name} is {monoid!r}.',
                argument="aggs",
                column=name,
            )


def require_distinct(aggs: dict[str, Any], windows: dict[str, Any]) -> None:
    """Raise if two results would have the same column, as `a` over `b_c` and `a_b` over `c` have."""
    names: set[str] = set()
    for name in (f"{agg}_{window}" for agg in aggs for window in windows):
        if name in names:
            raise ArgumentError(
                f"windows must have other names: the results would have two columns {shown(name)}.",
                argument="windows",
                column=name,
            )
        names.add(name)


def _without_structs(aggs: dict[str, Monoid]) -> tuple[dict[str, Monoid], dict[str, tuple[str, ...]]]:
    """Return the aggregates with the fields of structs in place of the structs, and the fields of each struct."""
    structs = {name: dict(agg.arguments) for name, agg in aggs.items() if agg.built_in and agg.name == "struct"}
    plain = {name: agg for name, agg in aggs.items() if name not in structs}
    for name, fields in structs.items():
        for inner, agg in fields.items():
            if f"{name}.{inner}" in plain:
                raise ArgumentError(
                    f"aggs must have other names: {name}.{inner} is also a field of {name}.",
                    argument="aggs",
                    column=f"{name}.{inner}",
                )
            plain[f"{name}.{inner}"] = agg
    return plain, {name: tuple(fields) for name, fields in structs.items()}


def _is_native(monoid: Monoid, table: Any) -> bool:
    """Return whether the core computes it; decimals, and the order of other types than numbers, are for Python."""
    pa = arrow.pyarrow()
    if not monoid.parts:
        return False
    for part in monoid.parts:
        for read in part.inputs:
            kind = table.schema.field(read.column).type
            if read.form != "number" or _is_number(kind):
                continue
            if pa.types.is_decimal(kind) or part.op in python_results.OF_ANY_TYPE:
                return False
    return True


def _is_number(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_integer(kind) or is_a.is_boolean(kind) or is_a.is_floating(kind) or is_a.is_null(kind))


def _returns_booleans(monoid: Monoid, table: Any) -> bool:
    part = monoid.parts[0]
    if part.op not in python_results.OF_ANY_TYPE:
        return False
    return bool(arrow.pyarrow().types.is_boolean(table.schema.field(part.inputs[-1].column).type))


def _kind(table: Any, read: Read) -> str:
    pa = arrow.pyarrow()
    if read.form == "hash":
        require_kind(table, str(read.where), HASHED)
    if read.form in ("hash", "truth", "any"):
        return str(read.form)
    column = table.schema.field(read.where).type
    if not _is_number(column):
        raise KindError(
            f"aggs must read numbers, but the column {shown(read.where)} holds {column}.",
            argument="aggs",
            column=str(read.where),
        )
    number = pa.types.is_integer(column) or pa.types.is_boolean(column)
    kind = read.dtype or ("int64" if number else "float64")
    if read.form == "int" and kind != "int64":
        raise KindError(
            f"aggs must read integers, but the column {shown(read.where)} holds {column}.",
            argument="aggs",
            column=str(read.where),
        )
    return "float64" if read.form == "float" else kind
