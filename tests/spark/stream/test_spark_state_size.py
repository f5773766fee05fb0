"""The estimate of `sash check` against what a stream on Spark counts and stores."""

from collections import defaultdict

import pyarrow.parquet as pq

from sash.pipeline.run.state_size import estimate
from sash.spark import metrics
from sash.spark.stream.query import plan_of, roll_stream
from support.state_sizes import HOURS, KEYS, RATE, agrees, cut, events, spec_of


def noted_in(path):
    """A probe that writes down what each bucket takes in its worker's memory."""

    def probe(point, key, counts):
        from sash.spark.stream.cache import WORKER  # that of the worker

        if point == "saved":
            with path.open("a") as lines:
                lines.write(f"{key[-1]} {WORKER.size_of(key)}\n")

    return probe


def test_the_estimate_is_what_a_stream_on_spark_holds(spark, tmp_path):
    """The same through Spark, with its own watermark."""
    (tmp_path / "in").mkdir()
    batches, spec = 6, spec_of("rows with ids")
    for at, batch in enumerate(cut(events(), batches)):
        pq.write_table(batch, tmp_path / "in" / f"{at}.parquet")
    source = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).option("maxFilesPerTrigger", 1)
    rows = source.parquet(str(tmp_path / "in")).withWatermark("ts", "10 minutes")
    results = roll_stream(rows, spec, 2, probe=noted_in(tmp_path / "sizes"))
    writer = results.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    real = [one for one in metrics(query) if one["rows_in"]][-1]
    sizes = defaultdict(int)
    for line in (tmp_path / "sizes").read_text().splitlines():
        bucket, size = line.split()
        sizes[bucket] = max(sizes[bucket], int(size))
    expected = estimate(plan_of(rows.schema, spec, 2), "10 minutes", rows_per_second=RATE, keys=KEYS)
    held = sum(sizes.values())
    agrees(expected, 3600 * HOURS / batches, real["live_rows"], held, real["state_bytes"])
