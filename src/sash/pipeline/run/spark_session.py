"""The Spark session of a pipeline: a new one as its file describes, or the one that is running."""

import atexit
import logging
import os
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
from sash.spark import session

_STDERR = 2


def session_of(pipeline: Pipeline, *, quiet: bool = True) -> SparkSession:
    """Return the running Spark session, or start the one that a pipeline describes.

    Java and Spark's Python workers write to stderr. With `quiet`, the stderr of a new session goes to a temporary file
    that is removed when the process exits. The caller's handler for Ctrl-C is restored, because Spark installs its own.
    """
    running = SparkSession.getActiveSession() is not None
    master = None if running else pipeline.spark.master
    with _own_signals(), _silenced(quiet and not running) as log:
        try:
            return session(master, app=pipeline.name, **pipeline.spark.conf)
        except SashError as error:
            raise pipeline.mistake(_key_of(pipeline, error.argument), str(error)) from error
        except Exception as error:
            reason = cause_of(error) + _last_line(log)
            raise PipelineError(f"{pipeline.name}: Spark could not be started: {reason}") from error


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


def _last_line(log: FilePath | None) -> str:
    """Return the last line that Spark logged before it failed to start."""
    lines = [] if log is None else log.read_text(errors="replace").strip().splitlines()
    return f" Its last log line: {lines[-1]}" if lines else ""
