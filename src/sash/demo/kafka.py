"""The demo through Kafka: its events in one topic, its results in another, on a broker of its own.

Both topics are in the folder of the demo, out/kafka/. The events have one partition, in the order of their arrival, so
that micro-batches are those of the demo without Kafka, and so is every number that is verified.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash.demo.broker import Broker, BrokerError
from sash.inputs.arrow import pyarrow
from sash.pipeline.config.model import Cluster, Sink, Source
from sash.pipeline.config.read import Pipeline
from sash.pipeline.sources.generated import Demo

if TYPE_CHECKING:
    from pyarrow import Table

EVENTS, RESULTS = "payments", "results"
_SCHEMA = "card string, ts timestamp, id long, amount long, op string"
_CHUNK = 20_000
_PATIENCE_SECONDS = 60.0


def through_kafka(pipeline: Pipeline, servers: str, jars: str | None) -> Pipeline:
    """Return the demo's pipeline with topics as its source and sink; `jars` are those of Spark's connector."""
    pace = {"maxOffsetsPerTrigger": pipeline.source.options["rows_per_batch"]}
    source: dict[str, Any] = {"topic": EVENTS, "servers": servers, "schema": _SCHEMA, "options": pace}
    conf = pipeline.spark.conf if jars is None else {**pipeline.spark.conf, "spark.jars": jars}
    changed = {
        "source": Source(format="kafka", watermark=pipeline.source.watermark, **source),
        "sink": Sink(format="kafka", topic=RESULTS, servers=[servers]),
        "spark": Cluster(master=pipeline.spark.master, conf=conf),
    }
    return pipeline.model_copy(update=changed)


def produce(broker: Broker, events: Demo, rows: int) -> None:
    """Write the first `rows` events to their topic, from where a run that was killed has stopped."""
    from confluent_kafka import Producer

    broker.create(EVENTS)
    broker.create(RESULTS, config={"cleanup.policy": "compact"})
    failed: list[Any] = []
    # Neither a retry nor a restart may write an event twice: the number of records says which one is next.
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True, "linger.ms": 20})
    with _Topic(broker, EVENTS) as topic:
        first = topic.end
    for start in range(first, rows, _CHUNK):
        for key, value in _records(events, start, min(start + _CHUNK, rows)):
            producer.produce(EVENTS, value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
        left = producer.flush(_PATIENCE_SECONDS)
        if failed or left:
            raise BrokerError(f"Events could not be written to Kafka: {failed[0] if failed else 'no answer'}.")


def _records(events: Demo, start: int, stop: int) -> Iterator[tuple[str, str]]:
    names = [column.split()[0] for column in _SCHEMA.split(", ")]
    for row in pyarrow().table(events.batch(start, stop)).select(names).to_pylist():
        yield row["card"], json.dumps({**row, "ts": row["ts"].isoformat()})


@dataclass(frozen=True)
class Results:
    """The records of the results: the last value of each key, and all of them."""

    latest: "Table"
    history: "Table"

    @staticmethod
    def of(broker: Broker, columns: list[str]) -> "Results":
        """Read the topic; `columns` are those of numbers."""
        with _Topic(broker, RESULTS) as topic:
            rows = [_row(message) for message in topic.messages()]
        last = {(row["card"], row["window_end"]): row for row in rows}
        live = [row for row in last.values() if not row["deleted"]]
        return Results(_table(live, columns), _table(rows, columns))


def _row(message: Any) -> dict[str, Any]:
    """Return a record as a row; a tombstone has the identity in its key and the revision in its header."""
    value = message.value()
    row: dict[str, Any] = json.loads(message.key() if value is None else value)
    end, revision = datetime.fromisoformat(row["window_end"]), int(dict(message.headers())["revision"])
    return {**row, "window_end": end, "revision": revision, "deleted": value is None}


def _table(rows: list[dict[str, Any]], columns: list[str]) -> "Table":
    pa = pyarrow()
    schema = pa.schema(
        [
            ("card", pa.string()),
            ("window_end", pa.timestamp("us", "UTC")),
            *[(name, pa.int64()) for name in columns],
            ("revision", pa.int64()),
            ("deleted", pa.bool_()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)


class _Topic:
    """The records of a topic with one partition, up to the end that it has now."""

    def __init__(self, broker: Broker, name: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": broker.servers, "group.id": "sash-demo", "enable.auto.commit": False}
        self.consumer: Consumer = Consumer(settings)
        place = TopicPartition(name, 0)
        _, self.end = self.consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
        self.consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])

    def __enter__(self) -> "_Topic":
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def messages(self) -> Iterator[Any]:
        """Yield the records in their order."""
        read = 0
        while read < self.end:
            message = self.consumer.poll(_PATIENCE_SECONDS)
            if message is None or message.error() is not None:
                raise BrokerError(f"Results could not be read from Kafka: {message and message.error()}.")
            read = int(message.offset() or 0) + 1
            yield message


def broker_of(out: Path) -> Broker:
    """Return the broker of a demo's folder, which is not started yet."""
    return Broker(out / "kafka")
