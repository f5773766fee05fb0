"""Upserts whose driver is killed: readers see whole micro-batches only, and the next run completes them."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pytest
from deltalake import DeltaTable

from sash.spark import upserted_files, upserted_table
from support.upsert_rows import count_files, put_files

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
MODULES = {"sqlite3": sqlite3, "duckdb": duckdb, "psycopg": psycopg}

# Each run kills itself and its JVM at a moment of its second micro-batch; the next resumes from the checkpoint.
KILLED = """
import os, signal, sys
from pathlib import Path
from sash.spark import session
from sash.spark.upserts import delta
from support.upsert_rows import count_files
moment, at = sys.argv[2], 1
def die():
    print("killed", moment, flush=True)
    os.killpg(0, signal.SIGKILL)
commit, present = delta.DeltaUpsert._commit, []
def dying(sink, write):
    if present == [at] and moment == "before the commit":
        die()
    commit(sink, write)
    if present == [at] and moment == "after the commit":
        die()
delta.DeltaUpsert._commit = dying
count_files(session("local[2]"), Path(sys.argv[1]), present)
"""


def test_a_killed_driver_leaves_a_table_that_the_next_completes(spark, tmp_path):
    """Killed before the commit of the table, then between it and Spark's: readers see whole micro-batches only."""
    put_files(tmp_path, [range(0, 40, number + 1) for number in range(3)])

    def run(moment):
        command = [sys.executable, "-c", KILLED, str(tmp_path), moment]
        done = subprocess.run(
            command, capture_output=True, text=True, start_new_session=True, timeout=300, check=False, env=ENVIRONMENT
        )
        return done.returncode, done.stdout.strip()

    def totals(files):
        return {k: sum(k % (number + 1) == 0 for number in range(files)) for k in range(40)}

    def held():
        return {row["k"]: row["revision"] for row in upserted_table(tmp_path / "t").to_pylist()}

    assert run("before the commit") == (-signal.SIGKILL, "killed before the commit")
    assert held() == totals(1)
    assert run("after the commit") == (-signal.SIGKILL, "killed after the commit")
    assert held() == totals(2) and len(upserted_files(tmp_path / "t")) == 1
    count_files(spark, tmp_path, [])
    assert held() == totals(3) and DeltaTable(tmp_path / "t").version() == 3  # created, and one for each micro-batch
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database:
        assert dict(database.execute("SELECT k, revision FROM t").fetchall()) == totals(3)


# No Spark: the second piece of a micro-batch's rows never comes, because its reader is killed in the transaction.
KILLED_INSIDE = """
import os, signal, sys
import pyarrow as pa
from pyspark.sql.types import StructType
from sash.spark import upsert
def tables():
    yield rows
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
rows = pa.table({"k": pa.array(range(int(sys.argv[3])), pa.int32())})
names = {"table": "t", "keys": "k", "revision": None, "deleted": None}
if sys.argv[5] == "target":
    sink = upsert(sys.argv[1], **names)
else:
    sink = upsert(connect=lambda: __import__(sys.argv[5]).connect(sys.argv[1]), **names)
sink._transact(StructType().add("k", "integer"), tables(), "query", int(sys.argv[4]))
"""


@pytest.mark.parametrize("by", ["target", *MODULES])
def test_a_driver_killed_in_a_transaction_leaves_the_table_as_it_was(tmp_path, request, by):
    """By a path or a connection, neither the rows nor the micro-batch's number are there until both are."""
    path = request.getfixturevalue("postgres_dsn") if by == "psycopg" else str(tmp_path / "results.db")

    def run(fate, count, batch):
        command = [sys.executable, "-c", KILLED_INSIDE, path, fate, str(count), str(batch), by]
        return subprocess.run(command, check=False).returncode

    def held():
        with closing(MODULES.get(by, sqlite3).connect(path)) as database:
            return database.execute("SELECT (SELECT count(*) FROM t), batch FROM _sash_batches").fetchall()

    assert run("live", 100, 0) == 0 and held() == [(100, 0)]
    assert run("kill", 5_000, 1) == -signal.SIGKILL and held() == [(100, 0)]
    assert run("live", 5_000, 1) == 0 and held() == [(5_000, 1)]
