"""Whether the state in a checkpoint is whole: the answer of `verify_checkpoint`.

Records are read on the executors, which return what they found. Heads are read on the driver, and so are the records of
a small state: it takes seconds to start Python beside an executor.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sash.errors import SashError
from sash.spark.stream.description import rows_in
from sash.spark.stream.findings import BucketState, Finding, Tally
from sash.spark.stream.inspect import moment
from sash.spark.stream.snapshot import Snapshot, reason_of, snapshot_of

_FOUND = "bucket int, seq long, findings string"
_SMALL_BYTES = 64 << 20  # of records that heads list


@dataclass(frozen=True)
class Verification:
    """What was found in a checkpoint as of one micro-batch."""

    checkpoint: str
    query: str | None
    batch: int
    watermark: datetime | None
    buckets: int
    records: int  # that heads list
    rows: int
    leftovers: int  # records that no head lists: they are not used, and do no harm
    unchecked: int  # listed records of which only a fingerprint of their definition is known
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def by_bucket(self) -> dict[int | None, int]:
        """The number of findings in each bucket that has some."""
        return dict(Counter(finding.bucket for finding in self.findings))

    def to_plain(self) -> dict[str, Any]:
        """Return the outcome as JSON can write it."""
        plain = asdict(self) | {"watermark": None if self.watermark is None else self.watermark.isoformat()}
        return {"sound": self.sound, **plain, "findings": [finding._asdict() for finding in self.findings]}


def verify_checkpoint(
    checkpoint: str, *, batch: int | None = None, operator: int = 0, spark: SparkSession | None = None
) -> Verification:
    """Return what is wrong with the state in a checkpoint, as of one committed micro-batch; the default is the newest.

    Every record that a head lists must be there, readable, of the right attempt, and have the rows, times, columns and
    keys that it should. Nothing is written, and the stream may run.
    """
    return snapshot_of(checkpoint, _verified, batch=batch, operator=operator, spark=spark)


def _verified(snapshot: Snapshot) -> Verification:
    try:
        buckets = snapshot.buckets()
        seen, found = _records(snapshot, buckets)
    except SashError:
        raise
    except Exception as error:
        if not snapshot.is_there:
            raise  # the next attempt reads another one
        finding = Finding(None, None, "state", f"it cannot be read: {reason_of(error)}")
        return _outcome(snapshot, {}, Tally([finding]))
    tally = Tally()
    for label in sorted(buckets.keys() | seen.keys()):
        tally.add(buckets.get(label, BucketState(label, None)), seen[label], found[label])
    return _outcome(snapshot, buckets, tally)


def _outcome(snapshot: Snapshot, buckets: dict[int, BucketState], tally: Tally) -> Verification:
    entries = [entry for state in buckets.values() for entry in state.entries.values()]
    unknown = [state.written_by(entry) is None for state in buckets.values() for entry in state.entries.values()]
    return Verification(
        checkpoint=snapshot.checkpoint,
        query=snapshot.files.query_id(),
        batch=snapshot.batch,
        watermark=moment(snapshot.watermark_ms, 1000),
        buckets=len(buckets),
        records=len(entries),
        rows=sum(entry.rows for entry in entries),
        leftovers=tally.leftovers,
        unchecked=sum(unknown),
        findings=tally.findings,
    )


_Seen = defaultdict[int, list[int]]
_Found = defaultdict[int, list[Finding]]


def _records(snapshot: Snapshot, buckets: dict[int, BucketState]) -> tuple[_Seen, _Found]:
    """Return the numbers of the records in each bucket's log, and what is wrong with them."""

    def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = [_checked(buckets, *record) for record in rows_in(batch)]
        columns = [batch.column("bucket"), batch.column("seq"), pa.array(texts, pa.string())]
        return pa.RecordBatch.from_arrays(columns, names=["bucket", "seq", "findings"])

    seen, found = _Seen(list), _Found(list)
    for bucket, seq, text in sorted(_rows_of(snapshot.log(), checked, _bytes_of(buckets) <= _SMALL_BYTES)):
        seen[bucket].append(seq)
        found[bucket] += [Finding(*finding) for finding in json.loads(text)]
    return seen, found


def _rows_of(
    log: DataFrame, checked: Callable[[pa.RecordBatch], pa.RecordBatch], small: bool
) -> list[tuple[int, int, str]]:
    """Return the bucket and the number of each record, and what is wrong with it."""
    if small:
        parts = [checked(batch) for batch in log.toArrow().to_batches()]
        return [(row["bucket"], row["seq"], row["findings"]) for part in parts for row in part.to_pylist()]

    def checking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(checked, batches)

    return [tuple(row) for row in log.mapInArrow(checking, _FOUND).collect()]


def _bytes_of(buckets: dict[int, BucketState]) -> int:
    return sum(entry.size for state in buckets.values() for entry in state.entries.values())


def _checked(buckets: dict[int, BucketState], bucket: int, seq: int, data: bytes) -> str:
    state = buckets.get(bucket)
    return json.dumps([] if state is None else state.in_record(seq, data))
