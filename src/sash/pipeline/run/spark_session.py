"""The Spark that a pipeline runs on: the one that its file asks for, started without noise, or the one that runs."""

import atexit
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sash.errors import SashError
from sash.pipeline.config.errors import after_its_name
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.error_text import PipelineError, told
from sash.spark import session

_STDERR = 2


def session_of(pipeline: Pipeline, *, quiet: bool = True) -> SparkSession:
    """Give the Spark that a pipeline asks for, or the one that runs.

    Java and Spark's Python workers write to the error stream as they please; quiet, that of a new one goes to a file
    that is gone with the process. What the caller does with Ctrl-C stays as it is, though Spark has a handler too.
    """
    running = SparkSession.getActiveSession() is not None
    master = None if running else pipeline.spark.master
    with _own_signals(), _silenced(quiet and not running) as log:
        try:
            return session(master, app=pipeline.name, **pipeline.spark.conf)
        except SashError as error:
            argument, said = after_its_name(error)
            where = "master" if argument == "master" else "conf"
            raise pipeline.mistake(("spark", where), said) from error
        except Exception as error:
            raise PipelineError(f"{pipeline.name}: Spark did not start: {told(error)}{_last_words(log)}") from error


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
def _silenced(quiet: bool) -> Iterator[Path | None]:
    """Have processes that are started meanwhile write their errors to a file, and give its path."""
    if not quiet:
        yield None
        return
    # py4j logs what a sink raises, traceback and all, before it is raised again.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    handle, name = tempfile.mkstemp(prefix="sash-spark-", suffix=".log")
    atexit.register(Path(name).unlink, missing_ok=True)
    kept = os.dup(_STDERR)
    os.dup2(handle, _STDERR)
    try:
        yield Path(name)
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(handle)


def _last_words(log: Path | None) -> str:
    """Give the last line that a Spark that did not start wrote."""
    lines = [] if log is None else log.read_text(errors="replace").strip().splitlines()
    return f" It last said: {lines[-1]}" if lines else ""
