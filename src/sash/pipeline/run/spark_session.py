"""The Spark session of a pipeline: a new one as its file describes, or the one that is running."""

import atexit
import logging
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any

from pyspark.sql import SparkSession

from sash.errors import SashError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.config.toml_lines import Path
from sash.pipeline.run.error_text import PipelineError, cause_of
from sash.pipeline.run.kafka import uses_kafka
from sash.spark import session
from sash.spark.jars import with_kafka_connector

_STDERR = 2
# In a JVM that lives for seconds the compiler's best efforts take half of the time and never pay.
_BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_UNRESOLVED = re.compile(r"unresolved dependency: ([^\s#]+)#([^\s;]+);(\S+): ([^\],]*)")


def session_of(pipeline: Pipeline, *, quiet: bool = True, brief: bool = False) -> SparkSession:
    """Return the running Spark session, or start the one that a pipeline describes.

    Java and Spark's Python workers write to stderr. With `quiet`, the stderr of a new session goes to a temporary file
    that is removed when the process exits. The caller's handler for Ctrl-C is restored, because Spark installs its own.
    A new session for a pipeline with Kafka loads Spark's connector. A `brief` one, for a command of some seconds that
    reads files only, does not, and compiles less.
    """
    running = SparkSession.getActiveSession() is not None
    master = None if running else pipeline.spark.master
    with _own_signals(), _silenced(quiet and not running) as log:
        try:
            return session(master, app=pipeline.name, **_confs(pipeline, running, brief))
        except SashError as error:
            raise pipeline.mistake(_key_of(pipeline, error.argument), str(error)) from error
        except Exception as error:
            reason = _unresolved(log) or cause_of(error) + _last_line(log)
            raise PipelineError(f"{pipeline.name}: Spark could not be started: {reason}") from error


def session_without_pipeline(*, quiet: bool = True, brief: bool = False) -> SparkSession:
    """Return the running Spark session, or start one on this machine; `quiet` and `brief` as in `session_of`."""
    running = SparkSession.getActiveSession() is not None
    with _own_signals(), _silenced(quiet and not running) as log:
        try:
            return session(app="sash", **(_BRIEF if brief and not _is_elsewhere(running) else {}))
        except SashError:
            raise
        except Exception as error:
            raise PipelineError(f"Spark could not be started: {cause_of(error)}{_last_line(log)}") from error


def _confs(pipeline: Pipeline, running: bool, brief: bool) -> dict[str, Any]:
    """Return the settings of the session; with the Kafka connector if it is needed and this process starts Spark."""
    confs = pipeline.spark.conf
    if _is_elsewhere(running):
        return confs
    if brief:
        return {**_BRIEF, **confs}
    return with_kafka_connector(confs) if uses_kafka(pipeline) else confs


def _is_elsewhere(running: bool) -> bool:
    """Return whether Spark has been started, or is started by another process than this one."""
    return running or "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def _key_of(pipeline: Pipeline, argument: str | None) -> Path:
    """Return the key of the file that an argument of `session` comes from."""
    if argument == "master":
        return "spark", "master"
    return ("spark", "conf", argument) if argument in pipeline.spark.conf else ("spark", "conf")


@contextmanager
def _own_signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _silenced(quiet: bool) -> Iterator[FilePath | None]:
    """Redirect the stderr of processes started meanwhile to a file, and yield its path."""
    if not quiet:
        yield None
        return
    # py4j logs an error of a sink, with its traceback, before it is raised again.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    handle, name = tempfile.mkstemp(prefix="sash-spark-", suffix=".log")
    atexit.register(FilePath(name).unlink, missing_ok=True)
    stderr = os.dup(_STDERR)
    os.dup2(handle, _STDERR)
    try:
        yield FilePath(name)
    finally:
        os.dup2(stderr, _STDERR)
        os.close(stderr)
        os.close(handle)


def _unresolved(log: FilePath | None) -> str | None:
    """Return a sentence about a package that could not be resolved, if that is why Spark did not start."""
    found = None if log is None else _UNRESOLVED.search(log.read_text(errors="replace"))
    if found is None:
        return None
    group, name, version, why = found.groups()
    return (
        f"{group}:{name}:{version} could not be fetched ({why}); set spark.conf.spark.jars to jars that you have, or "
        "spark.conf.spark.jars.packages to another version."
    )


def _last_line(log: FilePath | None) -> str:
    """Return the last line that Spark logged before it failed to start."""
    lines = [] if log is None else log.read_text(errors="replace").strip().splitlines()
    return f" Its last log line: {lines[-1]}" if lines else ""
