"""The definition of a stream as it is stored with its state: plain data, from which everything else can be read.

A head names the definitions that its records were written by, so that another version of the package, or another
definition, knows what the records hold.
"""

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import pyarrow as pa

from sash import durations, monoids, serialize
from sash.errors import SashError
from sash.keyed.definition import Definition
from sash.keyed.emit import LOWEST, clamped
from sash.keyed.expired import EXPIRED
from sash.keyed.horizon import Grid
from sash.keyed.kinds import Kind
from sash.keyed.panes import RECORD
from sash.keyed.question_columns import ASKED, QuestionColumns, stored_fields
from sash.keyed.spec import Spec
from sash.monoid import Monoid
from sash.spark.stream.open_sessions import SESSION

CHANGEABLE = ("lateness", "on_error")  # without an effect on what is stored or emitted
POSITION, DEFINITION = "_sash_position", "_sash_definition"  # columns of an export: constant, JSON
HEADER_WORDS = 2  # of a pane's record: which parts have seen a value, and how many rows it is of


class PaneField(NamedTuple):
    """An aggregate in the records of panes: what it computes, and how many words and parts it takes."""

    what: str
    words: int
    parts: int


class StoredQuestions(NamedTuple):
    """The columns of the questions that come beside the events."""

    columns: pa.Schema
    time: str
    id: str | None

    def to_plain(self) -> dict[str, Any]:
        """Return them as JSON can write them."""
        return {"columns": _text_of(self.columns), "time": self.time, "id": self.id}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what plain data describes."""
        return cls(_schema_of(plain["columns"]), plain["time"], plain["id"])


@dataclass(frozen=True)
class StoredDefinition:
    """A definition as plain data; `panes` is None where rows are stored one by one."""

    fingerprint: str
    words: dict[str, Any]  # the arguments of `rolling`, without the aggregates
    aggs: dict[str, Any]  # the monoid of each, and the columns that it reads
    columns: pa.Schema  # of the rows that come in
    logged: tuple[str, ...]  # columns of the records
    panes: tuple[PaneField, ...] | None
    pane: tuple[int, int] | None  # their length and offset in ticks
    buckets: int
    compared: tuple[str, ...] = ()  # by deletes without ids: the columns, and how they are read
    asking: StoredQuestions | None = None

    @classmethod
    def of(
        cls,
        spec: Spec,
        definition: Definition,
        columns: pa.Schema,
        logged: list[str],
        buckets: int,
        condition: str | None = None,
        asking: QuestionColumns | None = None,
    ) -> Self:
        """Return the definition of a stream whose rows have these columns, and whose records have those.

        `condition` is what the column for deletes stands for, as text.
        """
        grid, merges = definition.grid(spec), definition.merges(spec)
        return cls(
            fingerprint_of(spec, columns, buckets, asking),
            spec.words() | ({} if condition is None else {"retract": {"condition": condition}}),
            aggregates_of(spec),
            columns,
            tuple(logged),
            _pane_fields(spec, definition, columns) if merges else None,
            (grid.pane, grid.pane_offset) if merges and isinstance(grid, Grid) else None,
            buckets,
            _compared(spec, definition),
            None if asking is None else StoredQuestions(asking.schema, asking.time, asking.id),
        )

    @property
    def longest(self) -> list[str]:
        """The names of the windows that rows are stored for: of those that are spans of time, the longest."""
        windows = self._windows.windows
        spans = [(kind.size, name) for name, kind in windows if kind.kind == "span"]
        return [name for name, kind in windows if kind.kind != "span" or (kind.size, name) == max(spans)]

    @property
    def on_calendar(self) -> bool:
        """Whether windows or boundaries follow the calendar of a zone."""
        return self._spec.step is not None or any(kind.kind == "period" for kind in self.kinds)

    def to_plain(self) -> dict[str, Any]:
        """Return the definition as JSON can write it."""
        return {
            "fingerprint": self.fingerprint,
            "words": self.words,
            "aggs": self.aggs,
            "columns": _text_of(self.columns),
            "logged": list(self.logged),
            "panes": None if self.panes is None else [list(field) for field in self.panes],
            "pane": self.pane,
            "buckets": self.buckets,
            "compared": list(self.compared),
            **({} if self.asking is None else {"asking": self.asking.to_plain()}),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the definition that plain data describes."""
        panes, pane = plain["panes"], plain["pane"]
        return cls(
            plain["fingerprint"],
            plain["words"],
            plain["aggs"],
            _schema_of(plain["columns"]),
            tuple(plain["logged"]),
            None if panes is None else tuple(PaneField(*field) for field in panes),
            None if pane is None else (pane[0], pane[1]),
            plain["buckets"],
            tuple(plain["compared"]),
            StoredQuestions.from_plain(plain["asking"]) if "asking" in plain else None,
        )

    @property
    def record(self) -> pa.Schema:
        """The columns of the records, with their types."""
        width = (HEADER_WORDS + sum(field.words for field in self.panes or ())) * 8
        own = {RECORD: pa.field(RECORD, pa.binary(width))} if self.panes is not None else {}
        return pa.schema([own[name] if name in own else self.columns.field(name) for name in self.logged])

    def record_of(self, table: pa.Table) -> pa.Schema:
        """Return the columns of a record: more of them where questions, or what has expired, are among its rows."""
        fields = list(self.record)
        if ASKED in table.column_names and self.asking is not None:
            others = (*self.words["keys"], self.asking.time)
            fields += [*stored_fields(self.asking.columns, others).values(), pa.field(ASKED, pa.bool_())]
        if EXPIRED in table.column_names and self.counts:
            fields.append(table.schema.field(EXPIRED))
        if SESSION in table.column_names and "gap" in self.words:
            fields.append(table.schema.field(SESSION))
        return pa.schema(fields)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What the windows are."""
        return tuple(kind for _, kind in self._windows.windows)

    @property
    def counts(self) -> bool:
        """Whether rows are retained however old they are, or their aggregate, because windows count them."""
        return any(kind.counts for kind in self.kinds)

    @property
    def lateness(self) -> int:
        """The lateness in ticks."""
        lateness = self.words["lateness"]
        return 0 if lateness is None else self._ticks("lateness", lateness, least=0)

    def retained_after(self, horizon: int | None) -> int:
        """Return the time at or before which no row is needed once the horizon is there, whatever its key."""
        if horizon is None or self.counts:
            return LOWEST
        if "gap" in self.words:
            return clamped(horizon - 1)  # what is before it is part of an open session
        grid = self._windows.grid(self._spec)
        anchor = horizon if grid is None else grid.next_boundary(horizon)
        return self._windows.engine(self._spec, remembers=False).frame.dropped_at(clamped(anchor), clamped(horizon))

    def pane_start(self, time: int) -> int:
        """Return when the pane of a time starts, or the time itself where rows are stored one by one."""
        return time if self.pane is None else time - (time - self.pane[1]) % self.pane[0]

    @cached_property
    def _spec(self) -> Spec:
        """The windows alone, over a count."""
        named = ("time", "windows", "every", "offset", "closed", "zone", "idle", "per", "gap")
        words = {name: self.words[name] for name in named if name in self.words}
        emit = "arrival" if self.words["every"] is None and "gap" not in self.words else "final"
        return Spec.of(keys=(), aggs={"rows": monoids.count()}, emit=emit, **words)

    @cached_property
    def _windows(self) -> Definition:
        return Definition.of(self._spec, self.columns.empty_table())

    def _ticks(self, name: str, size: Any, least: int = 1) -> int:
        return durations.ticks_of(size, self.columns.field(self.words["time"]).type.unit, name, least=least)

    def kind_of(self, name: str) -> pa.DataType | None:
        """Return the type of a column that comes in, or None if there is none of the name."""
        return self.columns.field(name).type if name in self.columns.names else None


def _text_of(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def aggregates_of(spec: Spec) -> dict[str, Any]:
    """Return the aggregates as plain data."""
    return {
        name: {"monoid": serialize.monoid_to(monoid), "columns": list(monoid.columns)}
        for name, monoid in spec.aggs.items()
    }


def call_of(agg: dict[str, Any]) -> str:
    """Return an aggregate of a stored definition as a call, such as `sum('amount')`."""
    monoid = agg["monoid"]
    if monoid["built_in"]:
        try:
            return repr(serialize.monoid_from(monoid))
        except (SashError, KeyError):
            pass  # of another version of sash
    version = f", version {monoid['version']}" if monoid["version"] else ""
    return f"{monoid['name']}({', '.join(map(repr, agg['columns']))}{version})"


def fingerprint_of(spec: Spec, schema: pa.Schema, buckets: int, asking: QuestionColumns | None = None) -> str:
    """Return a hash of everything that matters to what a bucket stores and emits."""
    words = {name: value for name, value in spec.words().items() if name not in CHANGEABLE}
    words["aggs"] = {name: (serialize.monoid_to(monoid), monoid.columns) for name, monoid in spec.aggs.items()}
    words["columns"] = [(field.name, str(field.type)) for field in schema]
    words["buckets"] = buckets
    if asking is not None:
        words["asking"] = [[(field.name, str(field.type)) for field in asking.schema], asking.time, asking.id]
    return _hash_of(words)


def _compared(spec: Spec, definition: Definition) -> tuple[str, ...]:
    """Return what deletes compare: forms of a column differ in the sign of a zero."""
    if spec.retract is None or spec.id is not None:
        return ()
    reads = [f"{read.where} as {read.form} {read.dtype}" for read in definition.layout.reads if definition.shown]
    return tuple(sorted({*reads, *(f"{name} by its hash" for name in definition.compared(spec))}))


def _pane_fields(spec: Spec, definition: Definition, columns: pa.Schema) -> tuple[PaneField, ...]:
    """Return what a record of a pane holds, in its order; each aggregate is measured in a record of its own."""
    fields = []
    for name in definition.shown:
        outer, _, inner = name.partition(".")
        monoid = spec.aggs[name] if name in spec.aggs else dict(spec.aggs[outer].arguments)[inner]
        alone = replace(spec, aggs={name: monoid})
        engine = Definition.of(alone, columns.empty_table()).engine(alone, remembers=False)
        kinds = [_kind_in_pane(columns.field(column).type, monoid) for column in monoid.columns]
        what = [None if monoid.built_in else name, serialize.monoid_to(monoid), list(monoid.columns), kinds]
        fields.append(PaneField(_hash_of(what), engine.record_words - HEADER_WORDS, len(monoid.parts)))
    return tuple(fields)


def _kind_in_pane(kind: pa.DataType, monoid: Monoid) -> str:
    """Return what a type is in a record: numbers of any width have the same states."""
    numbers = all(read.form in ("number", "int", "float") for part in monoid.parts for read in part.inputs)
    if numbers and pa.types.is_signed_integer(kind):
        return "int"
    return "float" if numbers and kind in (pa.float32(), pa.float64()) else str(kind)


def _hash_of(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, default=str).encode()).hexdigest()[:16]
