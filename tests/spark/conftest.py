"""One Spark for all of these tests, which `tests/conftest.py` therefore gives to one process."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sash.spark import partition, session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores and two partitions, which small data does not make one."""
    confs: dict[str, Any] = {"spark.sql.adaptive.coalescePartitions.enabled": False}
    running = session("local[2]", app="tests", **confs)
    yield running
    running.stop()


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Any]:
    """A way to change the session's settings for one test."""
    before: dict[str, str | None] = {}

    def change(**confs: Any) -> None:
        for name, value in confs.items():
            full = {
                "partitions": "spark.sql.shuffle.partitions",
                "batch": "spark.sql.execution.arrow.maxRecordsPerBatch",
                "zone": "spark.sql.session.timeZone",
            }[name]
            before.setdefault(full, spark.conf.get(full))
            spark.conf.set(full, str(value))

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def small(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Arrow batches of seven rows and stretches of ten, so that keys and ties reach over both."""
    settings(batch=7)
    monkeypatch.setattr(partition, "ROWS", 10)
    return settings
