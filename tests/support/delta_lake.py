"""Spark 4.2 with Delta Lake, for tests in processes of their own: Delta Lake has no release for a newer Spark yet."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sash.errors import SashError
from sash.spark.jars import fetched
from sash.spark.java import cache

PYSPARK = "4.2.0"
DELTA_LAKE = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")


def environment() -> dict[str, str]:
    """Return the environment of a Python that imports PySpark 4.2, and everything else from where this one does.

    Where PySpark or the jars cannot be fetched, the test is skipped with the reason; in CI it fails.
    """
    try:
        fetched(DELTA_LAKE, transitive=False)
        return {**os.environ, "PYTHONPATH": str(_pyspark())}
    except (SashError, subprocess.SubprocessError) as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no Delta Lake: {error}")


def settings() -> dict[str, Any]:
    """Return the settings of a session with Delta Lake, for tables of a few rows."""
    return {
        "spark.jars": ",".join(map(str, fetched(DELTA_LAKE, transitive=False))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": 1,
        "spark.sql.codegen.wholeStage": False,  # to compile code takes longer than to run it once
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


def _pyspark() -> Path:
    """Return the folder of PySpark, installed once per user; renamed when complete, so that nobody sees half of it."""
    place = cache() / f"pyspark-{PYSPARK}"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        command = [*pip, "--no-compile", "--target", str(draft), f"pyspark=={PYSPARK}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        draft.rename(place)
    except OSError:
        if not place.exists():  # otherwise another process was quicker
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place
