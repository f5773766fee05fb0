"""Results for keys from the checkpoint of a stream, as of one committed micro-batch: `sash.spark.query`.

The driver reads the heads, decides whether the question can be answered, and which buckets its keys are in. Executors
rebuild the streams of those buckets, one at a time, and answer.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from sash import serialize
from sash.errors import ArgumentError, CorruptStateError, shown
from sash.keyed import queries
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.session_spec import require_windows
from sash.keyed.spec import Spec
from sash.monoid import Monoid
from sash.spark.retractions import MARK
from sash.spark.stream.bucket import Bucket
from sash.spark.stream.bucket_ids import buckets_of, labels
from sash.spark.stream.cache import Cache
from sash.spark.stream.definitions import current_of
from sash.spark.stream.export import require_readable
from sash.spark.stream.inspect import moment
from sash.spark.stream.log import Head
from sash.spark.stream.plan import Plan
from sash.spark.stream.snapshot import Snapshot, snapshot_of
from sash.spark.stream.stored_definition import StoredDefinition

_ANSWER = "bucket int, results binary"


@dataclass(frozen=True)
class Answer:
    """The results of a query, and the micro-batch that they are as of."""

    table: Any  # of the kind that the keys were passed as
    batch: int
    watermark: datetime | None


def query(
    checkpoint: str,
    keys: Any = None,
    *,
    at: Any = None,
    start: Any = None,
    stop: Any = None,
    closed: str | None = None,
    aggs: dict[str, Monoid] | None = None,
    batch: int | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> Answer:
    """Return the results of keys as of a time, or for a range, from the checkpoint of a stream.

    The arguments are those of `KeyedWindows.query`. All results are as of one committed micro-batch, by default the
    newest, which the answer names. Nothing is written, and the stream may run. Custom monoids are not in a checkpoint:
    `aggs` must have them. O(rows in the buckets of the keys).
    """
    times = {"at": at, "start": start, "stop": stop, "closed": closed}
    return answer(checkpoint, lambda _: (keys, times), aggs=aggs, batch=batch, operator=operator, spark=spark)


def answer(
    checkpoint: str, question: Callable[[Plan], tuple[Any, dict[str, Any]]], *, aggs: Any, **snapshot: Any
) -> Answer:
    """Return the same for a question, keys and times, that depends on the definition in the checkpoint."""
    return snapshot_of(checkpoint, partial(_answered, question=question, aggs=aggs or {}), **snapshot)


def _answered(
    snapshot: Snapshot, *, question: Callable[[Plan], tuple[Any, dict[str, Any]]], aggs: dict[str, Monoid]
) -> Answer:
    buckets = snapshot.buckets()
    heads = dict(zip(buckets, require_readable(buckets.values()), strict=True))
    plan = plan_of(_current(heads), aggs)
    require_windows(plan.spec, "query")
    keys, times = question(plan)
    stream = plan.stream()
    stream.stand_at(_greatest(heads, "newest"), _greatest(heads, "horizon"))
    asked = queries.moment_of(stream, **times)
    source = queries.source_of(plan.spec.keys, keys)
    table = queries.keys_of(source, plan.spec.keys, stream.schema)
    columns = _results(snapshot, heads, plan, table, asked)
    return Answer(queries.columns_added(source, columns), snapshot.batch, moment(snapshot.watermark_ms, 1000))


def _current(heads: dict[int, Head]) -> StoredDefinition:
    current = current_of(heads.values())
    if current is None:
        raise CorruptStateError(
            "checkpoint must name the definition of its stream, got one without any: it has no rows, or an earlier "
            "version of sash wrote it.",
            argument="checkpoint",
        )
    return current


def _greatest(heads: dict[int, Head], name: str) -> int | None:
    found = [head.position[name] for head in heads.values() if head.position.get(name) is not None]
    return max(found, default=None)


# --- the definition -------------------------------------------------------------------------------


def plan_of(stored: StoredDefinition, aggs: dict[str, Monoid]) -> Plan:
    """Return the plan of a stored definition; `aggs` has the monoids that are not built in."""
    words, condition = dict(stored.words), None
    if isinstance(words["retract"], dict):
        condition, words["retract"] = words["retract"]["condition"], MARK
    monoids = {name: _monoid(name, agg, aggs) for name, agg in stored.aggs.items()}
    spec = Spec.of(**words, aggs=monoids)
    plan = Plan(spec, stored.columns, stored.buckets, condition)
    if stored.asking is not None:
        asking = QuestionColumns.of(spec, stored.columns, *stored.asking)
        plan = replace(plan, asking=asking)
    return plan


def _monoid(name: str, stored: dict[str, Any], aggs: dict[str, Monoid]) -> Monoid:
    plain = stored["monoid"]
    if all(one["built_in"] for one in serialize.named_in(plain)):
        return serialize.monoid_from(plain)
    found = aggs.get(name)
    if not isinstance(found, Monoid) or serialize.monoid_to(found) != plain or [*found.columns] != stored["columns"]:
        version = f" version {plain['version']}" if plain["version"] else ""
        raise ArgumentError(
            f"aggs must have the custom monoid {shown(plain['name'])}{version} over {stored['columns']} as {name}, "
            f"which is not stored in the checkpoint, got {shown(found)}.",
            argument="aggs",
            column=name,
        )
    return found


# --- the buckets ----------------------------------------------------------------------------------


def _results(
    snapshot: Snapshot, heads: dict[int, Head], plan: Plan, table: pa.Table | None, asked: int | queries.Range
) -> dict[str, Any]:
    """Return the results of keys as columns, in the order of the keys."""
    groups = _rows_by_label(plan, table)
    answers = dict(_from_executors(snapshot, heads, plan, table, groups, asked))
    empty = plan.stream()
    for label, rows in groups.items():
        if label not in answers:
            answers[label] = pa.table(queries.results(empty, _part(table, rows), asked))
    parts = [answers[label] for label in groups]
    together = pa.concat_tables(parts or [pa.table(queries.results(empty, table, asked))], promote_options="permissive")
    if groups:
        order = np.argsort(np.concatenate(list(groups.values())), kind="stable")
        together = together.take(pa.array(order))
    return dict(zip(together.column_names, together.columns, strict=True))


def _rows_by_label(plan: Plan, table: pa.Table | None) -> dict[int, Any]:
    """Return the places of the keys in each bucket, by the label of the bucket."""
    if table is None:
        return {labels(plan.buckets)[0]: np.zeros(1, dtype=np.int64)}
    numbers = buckets_of(table, plan.spec.keys, plan.buckets)
    return {labels(plan.buckets)[number]: np.flatnonzero(numbers == number) for number in np.unique(numbers)}


def _part(table: pa.Table | None, rows: Any) -> pa.Table | None:
    return None if table is None else table.take(pa.array(rows))


def _from_executors(
    snapshot: Snapshot,
    heads: dict[int, Head],
    plan: Plan,
    table: pa.Table | None,
    groups: dict[int, Any],
    asked: int | queries.Range,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the label and the results of each bucket that has rows."""
    wanted = {label: heads[label].to_bytes() for label in groups if label in heads and heads[label].entries}
    if not wanted:
        return
    parts = {label: _part(table, groups[label]) for label in wanted}
    plan = replace(plan)  # without what this process has computed of it

    def answering(records: pa.Table) -> pa.Table:
        label = records.column("bucket")[0].as_py()
        store = _Records.of(wanted[label], records)
        stream = Bucket(plan, store, Cache(), label).current()
        results = pa.table(queries.results(stream, parts[label], asked))
        return pa.table({"bucket": pa.array([label], pa.int32()), "results": pa.array([_bytes_of(results)])})

    log = snapshot.log()
    log = log.where(log["bucket"].isin(sorted(wanted)))
    for label, data in log.groupBy("bucket").applyInArrow(answering, _ANSWER).toLocalIterator():
        with pa.ipc.open_stream(pa.py_buffer(bytes(data))) as stream:
            yield label, stream.read_all()


def _bytes_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


@dataclass(frozen=True)
class _Records:
    """The state store of a bucket as it was, which cannot be written to."""

    data: bytes
    records: dict[int, bytes]

    @classmethod
    def of(cls, head: bytes, rows: pa.Table) -> "_Records":
        """Return the store with a head and the records in the rows of a snapshot's log."""
        return cls(head, dict(zip(rows["seq"].to_pylist(), rows["data"].to_pylist(), strict=True)))

    def head(self) -> bytes | None:
        return self.data

    def read(self, seq: int) -> bytes | None:
        return self.records.get(seq)

    def save_head(self, data: bytes) -> None:
        raise io.UnsupportedOperation

    def write(self, seq: int, data: bytes) -> None:
        raise io.UnsupportedOperation

    def remove(self, seq: int) -> None:
        raise io.UnsupportedOperation
