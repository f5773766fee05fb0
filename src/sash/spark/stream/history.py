"""The rows before a stream, as a batch DataFrame that becomes the initial state of its operator.

Spark reads the history in the first micro-batch of a new checkpoint, and in no other. All that runs here is a look at
where an export ends, before its query starts.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as spark

from sash.errors import ArgumentError, KindError, SashError, shown
from sash.keyed.panes import RECORD
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.columns import column
from sash.spark.retractions import MARK, with_mark
from sash.spark.stream.change import obstacles_of
from sash.spark.stream.initial_state import (
    INITIAL_STATE,
    PACKED_HISTORY,
    Seam,
    history_schema,
    initial_state,
    pack_export,
    pack_history,
)
from sash.spark.stream.log import Entry, Head
from sash.spark.stream.plan import Plan
from sash.spark.stream.stored_definition import DEFINITION, POSITION, StoredDefinition

WATERMARK_DELAY = "spark.watermarkDelayMs"  # in the metadata of the column that has a watermark


def require_history(history: Any, df: DataFrame) -> None:
    """Raise for a history that is not a batch of rows before a stream."""
    if not isinstance(history, DataFrame):
        raise KindError(f"history must be a batch DataFrame, got {shown(history)}.", argument="history")
    if history.isStreaming:
        raise ArgumentError("history must be a batch DataFrame, got a streaming one.", argument="history")
    if not df.isStreaming:
        raise ArgumentError(
            "history must be omitted for a batch, whose rows are all in df; it is what came before a stream.",
            argument="history",
        )


def is_export(history: DataFrame) -> bool:
    """Return whether the rows are those of a checkpoint, exported."""
    return POSITION in history.columns


def initial_state_of(history: DataFrame, columns: spark.StructType, spec: Spec, plan: Plan) -> GroupedData:
    """Return the records and heads of all buckets, for a stream with these columns."""
    packed = _export_packed(history, plan) if is_export(history) else _packed(history, columns, spec, plan)
    delay_ms = _delay_ms(columns, plan.spec.time)

    def making(rows: pa.Table) -> pa.Table:
        return initial_state(plan, delay_ms, rows)

    return packed.groupBy("bucket").applyInArrow(making, INITIAL_STATE).groupBy("bucket")


def _packed(history: DataFrame, columns: spark.StructType, spec: Spec, plan: Plan) -> DataFrame:
    names = history_schema(plan).names
    marked = _with_mark(history, spec)
    for name in names:
        _require_column(marked, name, columns)
    delay_ms = _delay_ms(columns, plan.spec.time)

    def packing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack_history(plan, delay_ms, batches)

    return _numbered(marked, names).mapInArrow(packing, PACKED_HISTORY)


def _export_packed(history: DataFrame, plan: Plan) -> DataFrame:
    names = history.columns
    if DEFINITION not in names:
        raise ArgumentError(
            f"history must have the column {DEFINITION!r} beside {POSITION!r}, as an export of a checkpoint has.",
            argument="history",
            column=DEFINITION,
        )
    _require_followed(history, plan)

    def packing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack_export(plan, names, batches)

    return _numbered(history, names).mapInArrow(packing, PACKED_HISTORY)


# --- an export ------------------------------------------------------------------------------------


def _require_followed(history: DataFrame, plan: Plan) -> None:
    """Raise for rows that are not those of one export, or whose definition the plan cannot follow."""
    position, plain = _facts(history)
    _require_exported(history, StoredDefinition.from_plain(plain))
    plain = plain | {"buckets": plan.buckets}
    if plan.wrote(plain):
        return
    newest = position.get("newest")
    rows = [] if newest is None else [Entry(0, 0, 0, 1, 0, newest)]
    obstacles = obstacles_of(plan, Head([plain], rows, position))
    if obstacles:
        raise ArgumentError(
            "history was exported from a stream by another definition, which cannot be changed to this one: "
            f"{'; '.join(obstacles)}. Use its definition, or rows of the source in its place.",
            argument="history",
        )


def _facts(history: DataFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the position and the definition that all rows of an export have."""
    found = history.select(POSITION, DEFINITION).distinct().limit(2).collect()
    if not found:
        raise ArgumentError(
            "history must have rows: an export without rows does not say where its stream was; omit history.",
            argument="history",
        )
    if len(found) > 1:
        # The smaller position would emit again what one stream has emitted, the greater one would skip what is due.
        raise ArgumentError(
            "history must be one export, got rows of several, whose streams were not at the same position.",
            argument="history",
        )
    try:
        position, definition = map(json.loads, found[0])
        StoredDefinition.from_plain(definition)
        Seam.exported_at(position)
        return position, definition
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise ArgumentError(
            f"history must be an export as it was written, but {POSITION} or {DEFINITION} cannot be read: {error!r}.",
            argument="history",
        ) from None


def _require_exported(history: DataFrame, definition: StoredDefinition) -> None:
    """Raise for a column of an export that is missing, or has another type than it was written with."""
    for field in definition.record:
        _require_one(history, field.name, "the export")
        found = schema.arrow_type(history.schema.fields[history.columns.index(field.name)].dataType)
        wanted = pa.binary() if field.name == RECORD else field.type
        if found != wanted:
            raise KindError(
                f"history must hold {wanted} in the column {shown(field.name)}, as the export does, got {found}.",
                argument="history",
                column=field.name,
            )


# --- columns --------------------------------------------------------------------------------------


def _numbered(rows: DataFrame, names: list[str]) -> DataFrame:
    """Return columns by position: Spark would take a dot in a name for a member of a struct."""
    return rows.select(*[column(name) for name in names]).toDF(*[f"c{place}" for place in range(len(names))])


def _with_mark(history: DataFrame, spec: Spec) -> DataFrame:
    try:
        return with_mark(history, spec)[0]
    except SashError:
        raise ArgumentError(
            f"history must have the columns that retract reads, {shown(spec.retract)}; it has "
            f"{', '.join(history.columns)}.",
            argument="history",
        ) from None


def _require_column(history: DataFrame, name: str, columns: spark.StructType) -> None:
    """Raise for a column that a history lacks, or that is of another type than in the stream."""
    _require_one(history, name, "df")
    found = history.schema.fields[history.columns.index(name)].dataType
    wanted = found if name == MARK else columns.fields[columns.names.index(name)].dataType
    if schema.arrow_type(found) != schema.arrow_type(wanted):
        raise KindError(
            f"history must hold {wanted.simpleString()} in the column {shown(name)}, as df does, got "
            f"{found.simpleString()}; cast it.",
            argument="history",
            column=name,
        )


def _require_one(history: DataFrame, name: str, other: str) -> None:
    if history.columns.count(name) != 1:
        raise ArgumentError(
            f"history must have one column {shown(name)}, as {other} has; it has {', '.join(history.columns)}.",
            argument="history",
            column=name,
        )


def _delay_ms(columns: spark.StructType, time: str) -> int:
    return int(columns[time].metadata[WATERMARK_DELAY])
