"""The estimate of `sash check` against what buckets count and store."""

import pyarrow as pa
import pytest

from sash.keyed import panes
from sash.pipeline.run.state_size import estimate
from sash.spark.stream.bucket import Bucket
from sash.spark.stream.cache import Cache
from sash.spark.stream.packing import Arrived
from sash.spark.stream.plan import Plan
from support.buckets.memory import MemoryStore
from support.state_sizes import HOURS, KEYS, RATE, SHAPES, agrees, cut, events, spec_of


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_what_buckets_hold(shape):
    """One bucket, with a watermark ten minutes behind: memory within 1.3 times, the log of rows within twice."""
    table, batches = events(), 54
    plan = Plan(spec_of(shape), table.schema, buckets=1)
    store, cache, held, newest = MemoryStore(), Cache(), 0, 0
    for batch in cut(table, batches):
        rows = panes.partials_of(plan.definition, plan.spec, batch) if plan.merges else batch.select(plan.packed.names)
        bucket = Bucket(plan, store, cache, ("test", 0))
        bucket.run(Arrived(rows), max(newest - 600_000, 0))
        newest = batch["ts"].cast(pa.int64())[-1].as_py() // 1000
        held = max(held, cache.size_of(("test", 0)))
    expected = estimate(plan, "10 minutes", rows_per_second=RATE, keys=KEYS)
    small = shape == "panes"  # whose records are too small to be compressed
    counts = bucket.counts
    agrees(expected, 3600 * HOURS / batches, counts["live_rows"], held, None if small else counts["state_bytes"])
