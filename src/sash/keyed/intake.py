"""What a stream takes in: batches of rows, or of panes that were combined elsewhere.

An intake reads a batch, refusing it before anything has changed, and applies it to the core.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sash.errors import KindError, shown
from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.definition import Definition
from sash.keyed.identities import hashes as identities_of
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core

# What became of a row; the numbers are the core's.
INSERTED, REPEATED, DELETED, UNMATCHED, AWAITED, LATE, WITHDRAWN = range(7)
Status = NDArray[np.uint8]


class Batch(NamedTuple):
    """Rows with a usable time (and id, where there must be one), ready for the core."""

    table: "pa.Table"
    times: NDArray[np.int64]
    inputs: Any
    counts: Counter[str]  # of all rows, and of those left out


class Intake(Protocol):
    """What a stream needs of an intake."""

    schema: "pa.Schema"  # of a batch

    def read(self, table: "pa.Table") -> Batch:
        """Read a batch, or refuse it."""

    def reread(self, table: "pa.Table") -> Batch:
        """Read rows that were read before."""

    def apply(self, keys: "_core.KeyBatch", batch: Batch, late: NDArray[np.bool_]) -> tuple[Status, Counter[str]]:
        """Apply a batch, and return what became of each row, and counts."""


class RowIntake:
    """Batches of rows."""

    def __init__(self, spec: Spec, definition: Definition, engine: "_core.Keyed", schema: "pa.Schema") -> None:
        self.spec, self.definition, self.engine = spec, definition, engine
        self.compared = definition.compared(spec)
        named = [*spec.keys, spec.time, *(name for name in (spec.id, spec.retract) if isinstance(name, str))]
        names = dict.fromkeys([*named, *spec.carry, *definition.columns])
        self.schema = arrow.pyarrow().schema([schema.field(name) for name in names])
        self._fitting: pa.Schema | None = None  # of a batch that could be read as it is

    def read(self, table: "pa.Table") -> Batch:
        """Read a batch, or refuse it."""
        if not self._fits(table):
            table = with_types(table, self.schema)
            self._fitting = table.schema
        rows, times, bad = self._readable(table)
        inputs = self._inputs(rows, strict=self.spec.on_error == "raise")
        bad["rows_in"] = table.num_rows
        return Batch(rows, times, inputs, bad)

    def _fits(self, table: "pa.Table") -> bool:
        """Return whether a batch has the columns of the last one."""
        return self._fitting is not None and table.schema.equals(self._fitting)

    def reread(self, table: "pa.Table") -> Batch:
        """Read rows that were read before: all of them have a time."""
        times, _ = arrow.ticks(table, self.spec.time)
        return Batch(table, times, self._inputs(table), Counter())

    def apply(self, keys: "_core.KeyBatch", batch: Batch, late: NDArray[np.bool_]) -> tuple[Status, Counter[str]]:
        """Apply a batch, and return what became of each row, and counts."""
        ids, deletes, columns, identities = batch.inputs
        status = np.empty(len(batch.times), dtype=np.uint8)
        self.engine.apply(keys, batch.times, ids, deletes, late.view(np.uint8), columns, status, identities)
        named = {"late": LATE, "repeated": REPEATED, "unmatched": UNMATCHED}
        codes = status.tobytes()
        return status, Counter({name: codes.count(code) for name, code in named.items()})

    def _readable(self, table: "pa.Table") -> tuple["pa.Table", NDArray[np.int64], Counter[str]]:
        """Return the rows that have a time, and an id where they must, and how many have not."""
        times, bad = arrow.ticks(table, self.spec.time)
        counts = Counter(bad_times=0 if bad is None else int(bad.sum()))
        if self.spec.id is not None and table.column(self.spec.id).null_count:
            nameless = np.asarray(table.column(self.spec.id).is_null(), dtype=bool)
            counts["bad_ids"] = int((nameless if bad is None else nameless & ~bad).sum())
            bad = nameless if bad is None else bad | nameless
        if bad is None or not bad.any():
            return table, times, counts
        return table.filter(arrow.pyarrow().array(~bad)), np.ascontiguousarray(times[~bad]), counts

    def _inputs(self, table: "pa.Table", *, strict: bool = False) -> tuple[Any, Status | None, Any, Any]:
        """Return the ids, the deletes, the aggregated columns, and what else deletes compare."""
        ids = None if self.spec.id is None else arrow.ids_of(table.column(self.spec.id))
        deletes = None if self.spec.retract is None else self._deletes(table)
        identities = identities_of(table, self.compared) if self.compared else None
        return ids, deletes, self.definition.inputs_in(table, strict=strict), identities

    def _deletes(self, table: "pa.Table") -> Status:
        column = arrow.evaluated(table, self.spec.retract)
        if not arrow.pyarrow().types.is_boolean(column.type):
            raise KindError(
                f"retract must hold booleans, but {shown(self.spec.retract)} holds {column.type}.", argument="retract"
            )
        return np.ascontiguousarray(np.asarray(column.fill_null(False), dtype=np.uint8))


class PaneIntake:
    """Batches of panes (keyed/panes.py), of a stream whose rows have the columns of `schema`."""

    def __init__(self, spec: Spec, definition: Definition, engine: "_core.Keyed", schema: "pa.Schema") -> None:
        self.spec, self.definition, self.engine = spec, definition, engine
        self.schema = panes.schema_of(spec, engine, schema)

    def read(self, table: "pa.Table") -> Batch:
        """Read a batch, or refuse it."""
        batch = self.reread(with_types(table, self.schema))
        return batch._replace(counts=Counter(rows_in=int(self._rows(batch.inputs).sum())))

    def reread(self, table: "pa.Table") -> Batch:
        """Read panes, all of which have a time; their columns are in order, and had another name once."""
        table = table.rename_columns(self.schema.names)
        times, _ = arrow.ticks(table, self.spec.time)
        return Batch(table, times, panes.records_of(table), Counter())

    def apply(self, keys: "_core.KeyBatch", batch: Batch, late: NDArray[np.bool_]) -> tuple[Status, Counter[str]]:
        """Join panes with those that are stored, and return what became of each, and how many rows were late."""
        status = np.empty(len(batch.times), dtype=np.uint8)
        self.engine.join(keys, batch.times, batch.inputs, late.view(np.uint8), status)
        return status, Counter(late=int(self._rows(batch.inputs)[status == LATE].sum()))

    def _rows(self, records: NDArray[np.uint8]) -> NDArray[np.int64]:
        return panes.row_counts(records, self.engine.record_words)


def with_types(table: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Return a batch whose columns have the types of the first one's, or raise if some values have no such form."""
    for field in schema:
        arrow.require_columns(table, [field.name], "batch")
        column = table.column(field.name)
        if column.type == field.type:
            continue
        at = table.column_names.index(field.name)
        table = table.set_column(at, field.name, _cast(column, field))
    return table


def _cast(column: "pa.ChunkedArray", field: "pa.Field") -> "pa.ChunkedArray":
    cast = arrow.cast_exactly(column, field.type)
    if cast is None:
        raise KindError(
            f"batch must hold {field.type} in the column {shown(field.name)} as before, got {column.type}; cast it.",
            argument="batch",
            column=field.name,
        )
    return cast
