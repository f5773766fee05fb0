"""session: a local Spark that is set up for sash, or the one that runs already."""

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sash.errors import ArgumentError, KindError, shown
from sash.spark.java import java_home

# What streams need: without RocksDB there is no transformWithState, and without a changelog every micro-batch writes
# the whole state.
STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_LOOPBACK = "127.0.0.1"
_LOCAL = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Spark's other way of writing a checkpoint starts some fifty processes in a micro-batch on a local disk, readlink
    # and chmod. This one renames files too.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Arrow's memory needs it, and from Java 24 on Netty does without unless told; Spark 4.1 leaves that to us.
_UNSAFE = "-Dio.netty.noUnsafe=false"
# Spark takes the gateway of Python for a shell and shows its warnings, unless the gateway has a level of its own.
_QUIET = """
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def session(master: str | None = None, app: str = "sash", **confs: Any) -> SparkSession:
    """Give the Spark session that runs, or start one on this machine.

    A new one keeps streams' state in RocksDB with a changelog, uses Arrow, has one shuffle partition a core, the time
    zone UTC, no UI and hardly any logs, listens on 127.0.0.1 only and keeps its warehouse in a temporary directory.
    `master` is "local[*]" unless told; `confs` are any of Spark's settings and come before all of these. It finds a
    Java by itself. Under spark-submit the master, the Java and the rest are those of the submission. A session that
    runs already gets the settings for state, and `confs`.
    """
    given = {name: _text(value) for name, value in confs.items()}
    running = SparkSession.getActiveSession()
    if running is not None:
        return _adapted(running, master, given)
    master = given.pop("spark.master", master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted and master is not None:
        raise ArgumentError(
            f"master: {shown(master)} would come before that of spark-submit; leave it out.",
            argument="master",
        )
    if master is None and (submitted or "SPARK_REMOTE" in os.environ):
        return _started(app, {**STATE, **given})
    master = master or "local[*]"
    if not master.startswith("local"):
        return _started(app, {**STATE, **given, "spark.master": master})
    with _launching():
        return _started(app, {**STATE, **_LOCAL, **_of_machine(master, given), **given, "spark.master": master})


def _started(app: str, confs: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app)
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _adapted(running: SparkSession, master: str | None, confs: dict[str, str]) -> SparkSession:
    """Give a running session the settings that can still be made, and refuse the others."""
    wanted = {**confs} if master is None else {**confs, "spark.master": master}
    for name, value in wanted.items():
        if running.conf.isModifiable(name) or running.conf.get(name, None) == value:
            continue
        raise ArgumentError(
            f"{'master' if name == 'spark.master' else name}: {shown(value)} comes too late, because a session is "
            "running already; stop that one first, or leave it out.",
            argument="master" if name == "spark.master" else name,
        )
    for name, value in {**STATE, **confs}.items():
        if running.conf.isModifiable(name):
            running.conf.set(name, value)
    return running


def _of_machine(master: str, given: dict[str, str]) -> dict[str, str]:
    """Give the settings that need a number of cores, a place for files, or what was given itself."""
    room = Path(tempfile.mkdtemp(prefix="sash-spark-"))
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    logging = room / "log4j2.properties"
    logging.write_text(_QUIET)
    options = given.pop("spark.driver.extraJavaOptions", "")
    if "log4j" not in options and "SPARK_CONF_DIR" not in os.environ:
        options = f"-Dlog4j2.configurationFile={logging} {options}"
    return {
        "spark.driver.extraJavaOptions": f"{_UNSAFE} {options}".strip(),
        "spark.executor.extraJavaOptions": _UNSAFE,
        "spark.sql.shuffle.partitions": str(cores(master)),
        "spark.sql.warehouse.dir": str(room / "warehouse"),
    }


def cores(master: str) -> int:
    """Give how many tasks a local master runs at once.

    >>> cores("local"), cores("local[4]"), cores("local[3,2]"), cores("local-cluster[2,3,1024]")
    (1, 4, 3, 6)
    """
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*]", master)
    if cluster:
        return int(cluster[1]) * int(cluster[2])
    threads = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?])?", master)
    if not threads:
        raise ArgumentError(
            f'master: {shown(master)} is no local master; give one such as "local[*]" or "local[4]".',
            argument="master",
        )
    if threads[1] == "*":
        return len(os.sched_getaffinity(0))
    return int(threads[1] or 1)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float, Path)):
        raise KindError(
            f"confs: {shown(value)} is no setting of Spark's; give text, a number or a bool.",
            argument="confs",
        )
    return str(value)


@contextmanager
def _launching() -> Iterator[None]:
    """Have the JVM find Java, this Python and the loopback address, and leave the environment as it was."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    try:
        yield
    finally:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
