"""Write an archive of Spark's classes, which a Java that starts many times need not load and verify each time.

    python tools/class_archive.py .venv/spark.jsa

Java uses it with -XX:SharedArchiveFile and ignores one that another Java or other jars have made. A session with it
starts in half the time.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from sash.spark import session


def main(archive: Path) -> None:
    """Start Spark, use what tests use most, and have Java write the classes of it when it exits."""
    archive.unlink(missing_ok=True)
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
    os.environ["SPARK_SUBMIT_OPTS"] = f"{java} -XX:ArchiveClassesAtExit={archive.absolute()}"
    spark = session("local[2]")
    process = spark.sparkContext._gateway.proc
    with tempfile.TemporaryDirectory() as folder:
        use(spark, Path(folder))
    spark.stop()
    process.stdin.close()  # which ends the JVM
    process.wait()


def use(spark: SparkSession, folder: Path) -> None:
    """Run a batch and a stream with state."""
    rows = spark.range(10).selectExpr("id", "timestamp_seconds(id) AS t", "CAST(id AS string) AS text")
    rows.write.parquet(str(folder / "in"))
    rows.groupBy("text").count().orderBy("text").toArrow()
    stream = spark.readStream.schema(rows.schema).parquet(str(folder / "in")).withWatermark("t", "1 minute")
    written = stream.groupBy("t", "text").count().writeStream.format("parquet").option("path", str(folder / "out"))
    query = written.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
