"""Settings of the Spark session that these tests share; `tests/conftest.py` starts it in one process."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sash.spark.batch import partition


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
    """Arrow batches of seven rows and chunks of ten, so that keys and ties reach over both; each batch goes to disk."""
    settings(batch=7)
    monkeypatch.setattr(partition, "ROWS", 10)
    monkeypatch.setattr(partition, "MEMORY", 0)
    return settings
