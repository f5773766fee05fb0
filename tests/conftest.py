"""What every test shares: the hypothesis profiles, one parameter per structure, and which worker gets what.

HYPOTHESIS_PROFILE picks the profile: "default" fits a working day, "ci" (the choice where CI is set) repeats itself
exactly, "long" is for a night.
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

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

# JVMs that live for seconds spend a third of their time on code that would pay after minutes, and as much on classes
# that an archive has ready.
ARCHIVE = Path(sys.prefix) / "spark.jsa"  # of tools/class_archive.py
JAVA = [
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    *([f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable"] if ARCHIVE.exists() else []),
]
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(JAVA))

# Which tests share a worker, by the beginnings of their paths; the first that fits counts, "" is none.
GROUPS = {
    # Their last test asks what the others have met.
    "tests/spark/buckets/test_kinds_play.py": "kinds play",
    "tests/spark/buckets/test_questions_play.py": "questions play",
    "tests/spark/buckets/": "",
    "tests/spark/faults/": "processes",
    "tests/spark/upserts/test_upsert_delta_lake.py": "processes",
    "tests/spark/": "spark",
    "tests/pipeline/sources/test_spark_source.py": "spark",
    "tests/pipeline/run/test_kafka.py": "kafka",
    "tests/pipeline/run/test_kafka_parts.py": "spark",
    "tests/pipeline/run/test_history.py": "spark",
    "tests/pipeline/run/test_run.py": "spark",
    "tests/pipeline/run/test_postgresql.py": "spark",
    "tests/pipeline/run/test_testing.py": "spark",
    "tests/cli/test_demo_kafka.py": "kafka",
    "tests/cli/": "processes",
}
# The order of groups, and into how many parts the tests of any other file are dealt.
FIRST, PARTS = ("processes", "spark", "kafka"), 16


class OneSpark(LoadGroupScheduling):
    """Tests of Spark in groups, each with a session that stays warm; every other test where there is room.

    The groups go first, because one that starts late ends last. Of other files a part at a time is handed out: to look
    for the next test costs more than most tests do.

    The mark for this, xdist_group, does nothing here: pytest-xdist 3.8 puts it into `_nodeid`, which pytest 9.2 has no
    more.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = next((group for start, group in GROUPS.items() if nodeid.startswith(start)), "")
        return group or f"{nodeid.partition('::')[0]} {crc32(nodeid.encode()) % PARTS}"

    def _assign_work_unit(self, node: Any) -> None:
        for group in FIRST[::-1]:
            if group in self.workqueue:
                self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)


def pytest_collection_finish() -> None:
    """Keep what is there for good out of every later collection of garbage: fifteen thousand tests, and all modules."""
    gc.collect()
    gc.freeze()


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
def kafka_commands() -> Iterator[Any]:
    """A process that runs commands in one session with Kafka's connector."""
    from support.command_server import CommandServer

    server = CommandServer()
    yield server
    server.stop()


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
