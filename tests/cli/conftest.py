"""One Spark for the commands that run inside of the tests, which `tests/conftest.py` therefore gives to one process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sash.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that commands find running."""
    running = session("local[2]", app="tests")
    yield running
    running.stop()
