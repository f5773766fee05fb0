"""A Kafka broker for a test session, the jars of Spark's connector, and the records of a topic as plain tuples."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sash.demo.broker import KAFKA, Broker
from sash.errors import SashError
from sash.spark.jars import fetched

# Pinned, because the connector of the newest Spark cannot be fetched everywhere: these run on 4.3.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
SECONDS = 60.0


class Record(NamedTuple):
    """A record of a topic, and where it is."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def connector_jars() -> str:
    """Return the jars of the connector, as `spark.jars` takes them.

    Where they or the broker cannot be fetched, the test is skipped with the reason; in CI it fails.
    """
    try:
        fetched([KAFKA])
        return ",".join(map(str, fetched(CONNECTOR, transitive=False)))
    except SashError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no Kafka: {error}")


def running(directory: Path) -> Iterator[Broker]:
    """Yield a broker that runs until the tests of it end."""
    connector_jars()
    with Broker(directory) as broker:
        yield broker


def produce(broker: Broker, records: Iterable[tuple[str, int, Any, Any, Any]]) -> list[Record]:
    """Write (topic, partition, key, value, headers), in this order within a partition, and return what was written."""
    from confluent_kafka import Producer

    producer, written = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5}), []

    for topic, partition, key, value, headers in records:

        def delivered(error: Any, message: Any, headers: Any = headers) -> None:
            assert error is None, error
            written.append(_record(message)._replace(headers=headers or {}))

        producer.produce(topic, value, key, partition, delivered, headers=headers)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    return written


def consumed(broker: Broker, topic: str) -> list[Record]:
    """Return all records of a topic, in the order of each partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": broker.servers, "group.id": "tests", "enable.partition.eof": True}
    consumer, found = Consumer({**settings, "enable.auto.commit": False}), []
    try:
        partitions = list(consumer.list_topics(topic, SECONDS).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in partitions])
        ends = 0
        while ends < len(partitions):
            message = consumer.poll(SECONDS)
            assert message is not None, f"no answer within {SECONDS:g} s"
            if message.error() is None:
                found.append(_record(message))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ends += 1
    finally:
        consumer.close()
    return found


def _record(message: Any) -> Record:
    place = message.topic(), message.partition(), message.offset()
    return Record(*place, message.key(), message.value(), dict(message.headers() or []))
