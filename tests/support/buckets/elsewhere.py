"""Where keys belong and whose state it is, as another process sees it: `python elsewhere.py` prints both as JSON."""

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from sash import monoids
from sash.keyed.spec import Spec
from sash.spark.stream.packing import pack
from sash.spark.stream.plan import Plan
from sash.spark.stream.query import plan_of
from support.buckets.trial import letters

KEYS = spark.StructType(
    [
        spark.StructField("text", spark.StringType()),
        spark.StructField("number", spark.LongType()),
        spark.StructField("price", spark.DecimalType(10, 2)),
        spark.StructField("day", spark.DateType()),
        spark.StructField("flag", spark.BooleanType()),
        spark.StructField("t", spark.TimestampType()),
    ]
)


def plan() -> Plan:
    aggs = {"n": monoids.count(), "text": letters("text")}
    names = [name for name in KEYS.names if name != "t"]
    return plan_of(KEYS, Spec.of(keys=names, time="t", windows=["1h"], aggs=aggs, emit="arrival"), 16)


def keys() -> list[dict[str, Any]]:
    """Some keys, nulls among them."""
    made = [
        {
            "text": None if i % 5 == 0 else f"key {i}" * (i % 3),
            "number": None if i % 7 == 0 else i // 3,
            "price": None if i % 3 == 0 else decimal.Decimal(i) / 4,
            "day": dt.date(2026, 1, 1 + i % 28),
            "flag": (True, False, None)[i % 3],
        }
        for i in range(60)
    ]
    return [{**key, "t": i} for i, key in enumerate(made)]


def buckets_of(rows: list[dict[str, Any]]) -> dict[int, int]:
    """Return the bucket of each row by its time, which identifies it."""
    table = pa.Table.from_pylist(rows, schema=plan().schema)
    found = {}
    for batch in pack(plan(), iter(table.to_batches())):
        for bucket, data in zip(batch.column("bucket").to_pylist(), batch.column("data"), strict=True):
            rows_there = pa.ipc.read_record_batch(data.as_buffer(), plan().packed)
            found |= dict.fromkeys(rows_there.column("t").cast(pa.int64()).to_pylist(), bucket)
    return found


def seen() -> dict[str, Any]:
    return {"fingerprint": plan().fingerprint, "buckets": sorted(buckets_of(keys()).items())}


if __name__ == "__main__":
    print(json.dumps(seen()))
