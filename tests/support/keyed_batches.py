"""Small engines and small batches, which the tests of KeyedWindows share."""

from typing import Any

import pyarrow as pa

from sash import KeyedWindows, monoids


def engine(**options: Any) -> KeyedWindows:
    """Count and sum of x per key k over the last 10 units, unless told otherwise."""
    defaults: dict[str, Any] = {
        "keys": ["k"],
        "time": "t",
        "windows": [10],
        "aggs": {"n": monoids.count(), "total": monoids.sum("x")},
        "per": "event",
        "emit": "arrival",
        "lateness": 0,
    }
    return KeyedWindows(**(defaults | options))


def sliding(**options: Any) -> KeyedWindows:
    """Count and sum of x per key k over the last 10 units, at every 5, each once it is final, unless told otherwise."""
    defaults: dict[str, Any] = {
        "keys": ["k"],
        "time": "t",
        "windows": [10],
        "aggs": {"n": monoids.count(), "total": monoids.sum("x")},
        "every": 5,
        "lateness": 0,
    }
    return KeyedWindows(**(defaults | options))


def batch(t: list[Any], x: list[Any] | None = None, k: list[Any] | None = None, **more: Any) -> pa.Table:
    columns = {
        "k": pa.array(k if k is not None else ["a"] * len(t), pa.string()),
        "t": pa.array(t, pa.int64()),
        "x": pa.array(x if x is not None else [1] * len(t), pa.int64()),
    }
    return pa.table(columns | more)


def picked(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def marked(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows of (time, x, id, delete)."""
    t, x, i, gone = map(list, zip(*rows, strict=True))
    return batch(t, x, i=pa.array(i, pa.int64()), gone=pa.array(gone, pa.bool_()))


NOTHING = batch([])
