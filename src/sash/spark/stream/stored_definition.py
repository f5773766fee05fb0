"""The definition of a stream as it is stored with its state: plain data, from which everything else can be read.

A head names the definitions that its records were written by, so that another version of the package, or another
definition, knows what the records hold.
"""

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import pyarrow as pa

from sash import serialize
from sash.keyed.definition import Definition
from sash.keyed.spec import Spec

CHANGEABLE = ("lateness", "on_error")  # without an effect on what is stored or emitted
HEADER_WORDS = 2  # of a pane's record: which parts have seen a value, and how many rows it is of


class PaneField(NamedTuple):
    """An aggregate in the records of panes: what it computes, and how many words and parts it takes."""

    what: str
    words: int
    parts: int


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

    @classmethod
    def of(cls, spec: Spec, definition: Definition, columns: pa.Schema, logged: list[str], buckets: int) -> Self:
        """Return the definition of a stream whose rows have these columns, and whose records have those."""
        grid, merges = definition.grid(spec), definition.merges(spec)
        return cls(
            fingerprint_of(spec, columns, buckets),
            spec.words(),
            aggregates_of(spec),
            columns,
            tuple(logged),
            _pane_fields(spec, definition, columns) if merges else None,
            (grid.pane, grid.pane_offset) if merges and grid is not None else None,
            buckets,
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the definition as JSON can write it."""
        return {
            "fingerprint": self.fingerprint,
            "words": self.words,
            "aggs": self.aggs,
            "columns": base64.b64encode(self.columns.serialize().to_pybytes()).decode(),
            "logged": list(self.logged),
            "panes": None if self.panes is None else [list(field) for field in self.panes],
            "pane": self.pane,
            "buckets": self.buckets,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the definition that plain data describes."""
        panes, pane = plain["panes"], plain["pane"]
        return cls(
            plain["fingerprint"],
            plain["words"],
            plain["aggs"],
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(plain["columns"]))),
            tuple(plain["logged"]),
            None if panes is None else tuple(PaneField(*field) for field in panes),
            None if pane is None else (pane[0], pane[1]),
            plain["buckets"],
        )

    def kind_of(self, name: str) -> pa.DataType | None:
        """Return the type of a column that comes in, or None if there is none of the name."""
        return self.columns.field(name).type if name in self.columns.names else None


def aggregates_of(spec: Spec) -> dict[str, Any]:
    """Return the aggregates as plain data."""
    return {
        name: {"monoid": serialize.monoid_to(monoid), "columns": list(monoid.columns)}
        for name, monoid in spec.aggs.items()
    }


def fingerprint_of(spec: Spec, schema: pa.Schema, buckets: int) -> str:
    """Return a hash of everything that matters to what a bucket stores and emits."""
    words = {name: value for name, value in spec.words().items() if name not in CHANGEABLE}
    words["aggs"] = {name: (serialize.monoid_to(monoid), monoid.columns) for name, monoid in spec.aggs.items()}
    words["columns"] = [(field.name, str(field.type)) for field in schema]
    words["buckets"] = buckets
    return _hash_of(words)


def _pane_fields(spec: Spec, definition: Definition, columns: pa.Schema) -> tuple[PaneField, ...]:
    """Return what a record of a pane holds, in its order; each aggregate is measured in a record of its own."""
    fields = []
    for name in definition.shown:
        outer, _, inner = name.partition(".")
        monoid = spec.aggs[name] if name in spec.aggs else dict(spec.aggs[outer].arguments)[inner]
        alone = replace(spec, aggs={name: monoid})
        engine = Definition.of(alone, columns.empty_table()).engine(alone, remembers=False)
        kinds = [str(columns.field(column).type) for column in monoid.columns]
        what = [None if monoid.built_in else name, serialize.monoid_to(monoid), list(monoid.columns), kinds]
        fields.append(PaneField(_hash_of(what), engine.record_words - HEADER_WORDS, len(monoid.parts)))
    return tuple(fields)


def _hash_of(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, default=str).encode()).hexdigest()[:16]
