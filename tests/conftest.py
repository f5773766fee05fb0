"""What every test shares: the hypothesis profiles, one parameter per structure, and which worker gets what.

HYPOTHESIS_PROFILE picks the profile: "default" fits a working day, "ci" (the choice where CI is set) repeats itself
exactly, "long" is for a night.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from support.structures import STRUCTURES, Structure

QUIET = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("default", max_examples=60, stateful_step_count=40, **QUIET)
settings.register_profile(
    "ci", max_examples=60, stateful_step_count=40, derandomize=True, database=None, print_blob=True, **QUIET
)
settings.register_profile("long", max_examples=2000, stateful_step_count=100, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

# JVMs that live for seconds spend a third of their time on code that would pay after minutes.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Which tests share a worker, by the beginnings of their paths; the first that fits counts, "" is none.
GROUPS = {
    "tests/spark/buckets/": "",
    "tests/spark/faults/": "faults",
    "tests/spark/upserts/test_upsert_delta_lake.py": "faults",
    "tests/spark/": "spark",
    "tests/pipeline/sources/test_spark_source.py": "spark",
    "tests/pipeline/run/test_kafka.py": "kafka",
    "tests/pipeline/run/test_kafka_parts.py": "spark",
    "tests/pipeline/run/test_run.py": "spark",
    "tests/pipeline/run/test_postgresql.py": "spark",
    "tests/pipeline/run/test_testing.py": "spark",
    "tests/cli/test_demo_kafka.py": "kafka",
    "tests/cli/": "cli",
}


class OneSpark(LoadGroupScheduling):
    """Tests of Spark on one worker, those with processes of their own on another; every other test where there is room.

    So there is one JVM for each of the groups, whether tests share it or start it themselves.

    The mark for this, xdist_group, does nothing here: pytest-xdist 3.8 puts it into `_nodeid`, which pytest 9.2 has no
    more.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((group for start, group in GROUPS.items() if nodeid.startswith(start)), "") or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have `--dist loadgroup` keep Spark together."""
    return OneSpark(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two cores and two partitions, which small data does not make one."""
    from sash.spark import session

    confs: dict[str, Any] = {"spark.sql.adaptive.coalescePartitions.enabled": False}
    running = session("local[2]", app="tests", **confs)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server for all tests of a process."""
    from support.postgres_server import running

    with running() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: Any, request: pytest.FixtureRequest) -> str:
    """A connection string whose tables are in a schema of the test's own."""
    return str(postgres.schema(f"test_{abs(hash(request.node.nodeid)):x}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once per structure when it asks for `structure`, or for one narrowed to what it needs."""
    wanted = {
        "structure": STRUCTURES,
        "tree": [s for s in STRUCTURES if s.tree],
        "ranged": [s for s in STRUCTURES if s.ranges],
        "unordered": [s for s in STRUCTURES if not s.in_order],
        "ordered": [s for s in STRUCTURES if s.in_order],
    }
    for name, structures in wanted.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, structures, ids=[Structure.label(s) for s in structures])
