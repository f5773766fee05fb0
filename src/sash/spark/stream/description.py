"""What a checkpoint holds, and by which definition: the answer of `describe_checkpoint`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from sash.errors import CorruptStateError
from sash.inputs import arrow
from sash.keyed.emit import LOWEST
from sash.keyed.expired import apart
from sash.spark.stream.definitions import current_of
from sash.spark.stream.findings import BucketState, definition_of
from sash.spark.stream.inspect import moment
from sash.spark.stream.log import Head, table_of
from sash.spark.stream.snapshot import Snapshot, snapshot_of
from sash.spark.stream.stored_definition import StoredDefinition, call_of

_SPANS = "bucket int, rows long, oldest long"


@dataclass(frozen=True)
class BucketSize:
    """A bucket, and the rows and bytes of its records."""

    bucket: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class DescribedDefinition:
    """A definition by which buckets were written; an older version of sash stored its fingerprint only."""

    fingerprint: str
    buckets: int  # whose current definition it is
    current: bool
    arguments: dict[str, Any] | None
    aggs: dict[str, str] | None
    columns: dict[str, str] | None
    stored: list[str] | None  # the columns of the records
    panes: bool | None


@dataclass(frozen=True)
class Description:
    """What a checkpoint holds as of one micro-batch."""

    checkpoint: str
    query: str | None
    batch: int
    watermark: datetime | None
    versions: list[int]
    buckets: int
    records: int
    rows: int  # of the records, among them some that have expired
    rows_retained: int | None
    bytes: int
    oldest: datetime | None  # of the rows that are retained
    newest: datetime | None
    horizon: datetime | None
    retained_since: datetime | None
    timers: int
    next_timer: datetime | None
    largest: BucketSize | None
    smallest: BucketSize | None
    unreadable: list[int]  # buckets whose heads cannot be read
    definitions: list[DescribedDefinition]

    def to_plain(self) -> dict[str, Any]:
        """Return the description as JSON can write it."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def describe_checkpoint(
    checkpoint: str, *, batch: int | None = None, operator: int = 0, spark: SparkSession | None = None
) -> Description:
    """Return what a checkpoint holds, and by which definition, as of one committed micro-batch.

    The default is the newest. Nothing is written, and the stream may run.
    """
    return snapshot_of(checkpoint, _described, batch=batch, operator=operator, spark=spark)


def _described(snapshot: Snapshot) -> Description:
    buckets = snapshot.buckets()
    heads = {label: state.head for label, state in buckets.items() if state.head is not None}
    entries = [entry for head in heads.values() for entry in head.entries]
    sizes = [_size(label, head) for label, head in heads.items()]
    current = current_of(heads.values())
    horizon = max((at for head in heads.values() if (at := head.position.get("horizon")) is not None), default=None)
    bound = LOWEST if current is None else current.retained_after(horizon)
    spans = spans_of(snapshot, buckets, bound)
    timers = [head.timer for head in heads.values() if head.timer is not None]
    known = all(state.definition is not None for state in buckets.values() if state.entries)
    return Description(
        checkpoint=snapshot.checkpoint,
        query=snapshot.files.query_id(),
        batch=snapshot.batch,
        watermark=moment(snapshot.watermark_ms, 1000),
        versions=sorted({head.version for head in heads.values()}),
        buckets=len(buckets),
        records=sum(bool(entry.rows) for entry in entries),
        rows=sum(entry.rows for entry in entries),
        rows_retained=sum(span.rows for span in spans) if known else None,
        bytes=sum(entry.size for entry in entries),
        oldest=moment(min((span.oldest for span in spans if span.oldest is not None), default=None)),
        newest=moment(max((entry.newest for entry in entries if entry.rows), default=None)),
        horizon=moment(horizon),
        retained_since=None if bound == LOWEST else moment(bound + 1),
        timers=len(timers),
        next_timer=moment(min(timers, default=None), 1000),
        largest=max(sizes, key=lambda size: (size.rows, size.bytes), default=None),
        smallest=min(sizes, key=lambda size: (size.rows, size.bytes), default=None),
        unreadable=sorted(set(buckets) - set(heads)),
        definitions=_definitions(heads.values(), current),
    )


def _size(label: int, head: Head) -> BucketSize:
    return BucketSize(label, sum(entry.rows for entry in head.entries), sum(entry.size for entry in head.entries))


def _definitions(heads: Iterable[Head], current: StoredDefinition | None) -> list[DescribedDefinition]:
    """Return each definition that a bucket has as its current one, the newest first."""
    heads = list(heads)
    counts = Counter(head.fingerprint for head in heads)
    plain = {head.fingerprint: head.definition for head in heads}
    newest = None if current is None else current.fingerprint
    order = sorted(counts, key=lambda fingerprint: (fingerprint != newest, -counts[fingerprint], fingerprint))
    return [_definition(plain[one], counts[one], one == newest or len(order) == 1) for one in order]


def _definition(plain: dict[str, Any], buckets: int, current: bool) -> DescribedDefinition:
    stored = definition_of(plain)
    if stored is None:
        return DescribedDefinition(str(plain["fingerprint"]), buckets, current, None, None, None, None, None)
    return DescribedDefinition(
        stored.fingerprint,
        buckets,
        current,
        stored.words | {"buckets": stored.buckets},
        {name: call_of(agg) for name, agg in stored.aggs.items()},
        {field.name: str(field.type) for field in stored.columns},
        list(stored.logged),
        stored.panes is not None,
    )


# --- the rows -------------------------------------------------------------------------------------


class Span(NamedTuple):
    """The rows of a record that are retained, and the oldest time among them."""

    bucket: int
    rows: int
    oldest: int | None


def spans_of(snapshot: Snapshot, buckets: dict[int, BucketState], bound: int) -> list[Span]:
    """Return the span of each record that can be read, counted on the executors."""

    def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [span for bucket, seq, data in rows_in(batch) if (span := _span(buckets, bucket, seq, data, bound))]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, kind) for column, kind in zip(_columns(found), _TYPES, strict=True)],
                names=["bucket", "rows", "oldest"],
            )

    if not any(state.entries for state in buckets.values()):
        return []
    return [Span(*row) for row in snapshot.log().mapInArrow(counting, _SPANS).collect()]


_TYPES = (pa.int32(), pa.int64(), pa.int64())


def rows_in(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
    """Yield the bucket, the number and the bytes of each record in a batch of a snapshot's log."""
    for bucket, seq, data in zip(*(batch.column(name) for name in ("bucket", "seq", "data")), strict=True):
        yield bucket.as_py(), seq.as_py(), data.as_py()


def _span(buckets: dict[int, BucketState], bucket: int, seq: int, data: bytes, bound: int) -> Span | None:
    state = buckets.get(bucket)
    entry = None if state is None else state.entries.get(seq)
    definition = None if state is None or entry is None else state.written_by(entry)
    if entry is None or definition is None:
        return None
    try:
        times, _ = arrow.ticks(apart(table_of(data, entry))[1], definition.words["time"])
    except (CorruptStateError, pa.ArrowException, KeyError, OSError):
        return None  # `verify_checkpoint` reports it
    held = times[times > bound]
    return Span(bucket, len(held), int(held.min()) if len(held) else None)


def _columns(spans: list[Span]) -> list[tuple[Any, ...]]:
    return list(zip(*spans, strict=True)) if spans else [(), (), ()]


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
