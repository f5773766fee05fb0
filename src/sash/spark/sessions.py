"""session: a local Spark that is set up for sash, or the one that is already running."""

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

# Streams need these: transformWithState requires RocksDB, without a changelog every micro-batch writes the whole state,
# and without versions by lineage two attempts of one task may end up in one state.
STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
_LOOPBACK = "127.0.0.1"
SHARED_DAEMON = "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"
_LOCAL = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # Spark sets this for some operators only; workers that differ in it could not share a daemon, nor take turns.
    SHARED_DAEMON: "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # The default manager starts some fifty processes (readlink, chmod) per micro-batch on a local disk; this one also
    # renames files.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Arrow's memory needs Unsafe, which Netty no longer uses by default from Java 24 on; Spark 4.1 does not set this.
_UNSAFE = "-Dio.netty.noUnsafe=false"
# Spark takes the Python gateway for a shell and prints its warnings, unless the gateway has its own log level.
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
    """Return the running Spark session, or start one on this machine.

    A new session keeps the state of streams in RocksDB with a changelog, uses Arrow, has one shuffle partition per
    core, the time zone UTC, no UI and almost no logs, listens only on 127.0.0.1, keeps its warehouse in a temporary
    directory and finds a Java. `master` defaults to "local[*]"; `confs` are Spark settings, which override all of
    these. Under spark-submit the submission decides the master, the Java and the rest. A running session gets the
    settings for state, and `confs`.
    """
    settings = {name: _text(value) for name, value in confs.items()}
    running = SparkSession.getActiveSession()
    if running is not None:
        return _configure(running, master, settings)
    master = settings.pop("spark.master", master)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted and master is not None:
        raise ArgumentError(
            f"master must be omitted under spark-submit, which sets it, got {shown(master)}.", argument="master"
        )
    if master is None and (submitted or "SPARK_REMOTE" in os.environ):
        return _start(app, {**STATE, **settings})
    master = master or "local[*]"
    if not master.startswith("local"):
        return _start(app, {**STATE, **settings, "spark.master": master})
    with _launch_environment():
        return _start(app, {**STATE, **_LOCAL, **_local_settings(master, settings), **settings, "spark.master": master})


def _start(app: str, confs: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app)
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _configure(running: SparkSession, master: str | None, confs: dict[str, str]) -> SparkSession:
    """Change the settings of a running session, or raise for one that cannot change any more."""
    wanted = {**confs} if master is None else {**confs, "spark.master": master}
    for name, value in wanted.items():
        if running.conf.isModifiable(name) or running.conf.get(name, None) == value:
            continue
        argument = "master" if name == "spark.master" else name
        raise ArgumentError(
            f"{argument} cannot be set to {shown(value)} while a session is running; stop that one first, or omit it.",
            argument=argument,
        )
    for name, value in {**STATE, **confs}.items():
        if running.conf.isModifiable(name):
            running.conf.set(name, value)
    return running


def _local_settings(master: str, confs: dict[str, str]) -> dict[str, str]:
    """Return the settings that depend on the number of cores, a temporary directory, or the Java options in `confs`."""
    directory = Path(tempfile.mkdtemp(prefix="sash-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    logging = directory / "log4j2.properties"
    logging.write_text(_QUIET)
    options = confs.pop("spark.driver.extraJavaOptions", "")
    if "log4j" not in options and "SPARK_CONF_DIR" not in os.environ:
        options = f"-Dlog4j2.configurationFile={logging} {options}"
    return {
        "spark.driver.extraJavaOptions": f"{_UNSAFE} {options}".strip(),
        "spark.executor.extraJavaOptions": _UNSAFE,
        "spark.sql.shuffle.partitions": str(cores(master)),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }


def cores(master: str) -> int:
    """Return the number of tasks that a local master runs at once.

    >>> cores("local"), cores("local[4]"), cores("local[3,2]"), cores("local-cluster[2,3,1024]")
    (1, 4, 3, 6)
    """
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*]", master)
    if cluster:
        return int(cluster[1]) * int(cluster[2])
    threads = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?])?", master)
    if not threads:
        raise ArgumentError(
            f'master must be a local master such as "local[*]" or "local[4]", got {shown(master)}.', argument="master"
        )
    if threads[1] == "*":
        return len(os.sched_getaffinity(0))
    return int(threads[1] or 1)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float, Path)):
        raise KindError(f"confs must be text, numbers or booleans, got {shown(value)}.", argument="confs")
    return str(value)


@contextmanager
def _launch_environment() -> Iterator[None]:
    """Set the environment in which the JVM finds Java, this Python and the loopback address, and restore it."""
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
