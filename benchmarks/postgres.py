"""Upserts into PostgreSQL: COPY and one statement, against statements with parameters, on a server of their own.

Each turn writes 20,000 rows of a text key, an instant, an id, three floats, two integers, a revision and `deleted`:
first as new rows, then all of them again with a greater revision. Both ways take turns on one server, in tables of their
own, from Arrow rows on the driver to the commit; Spark's part in a micro-batch is not measured. The tables must be equal
in the end. The time of a loaded machine depends on the load, so the CPU time of both processes is printed too.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from sash.spark import upsert
from sash.spark.upserts.dialect import Transaction
from tests.support.postgres_server import running
from tests.support.upsert_rows import Pieces

Claim = tuple[str, float, float]

ROWS, TURNS = 20_000, 7
BOUND_PER_S = 50_000
TYPES = {"card": "string", "ts": "timestamp", "id": "long", **dict.fromkeys("abc", "double")}
TYPES |= {**dict.fromkeys(("n", "m", "revision"), "long"), "deleted": "boolean"}
KEYS = ["card", "ts", "id"]
WAYS = {"copied": Transaction.copies, "by statements": lambda transaction: False}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    seconds: dict[tuple[str, int], list[float]] = {(way, revision): [] for way in WAYS for revision in (1, 2)}
    with running() as server:
        for turn in range(TURNS):
            for way in WAYS:
                for revision in (1, 2):
                    seconds[way, revision].append(_written(server.connect(), f"{way} {turn}", way, revision))
        _require_equal(server.connect())
    medians = {case: statistics.median(found) for case, found in seconds.items()}
    for (way, revision), median in medians.items():
        what = "new rows" if revision == 1 else "a greater revision"
        best = ROWS / min(seconds[way, revision])
        print(f"  {ROWS} rows {way}, {what}: {ROWS / median:,.0f} rows/s, at best {best:,.0f}", flush=True)
    return [
        *_of("new rows", medians["copied", 1], medians["by statements", 1]),
        *_of("a greater revision", medians["copied", 2], medians["by statements", 2]),
    ]


def _of(what: str, copied: float, by_statements: float) -> list[Claim]:
    return [
        (f"PostgreSQL, {what}: {BOUND_PER_S:,} rows/s / measured", BOUND_PER_S * copied / ROWS, 1.0),
        (f"PostgreSQL, {what}: time copied / by statements", copied / by_statements, 0.2),
    ]


def _written(connect: Callable[[], Any], table: str, way: str, revision: int) -> float:
    """Return the seconds of one micro-batch."""
    schema = StructType()
    for name, kind in TYPES.items():
        schema.add(name, kind)
    sink: Any = upsert(connect=connect, table=table, keys=KEYS)
    pieces = Pieces(_rows(revision))
    with patch.object(Transaction, "copies", WAYS[way]):
        start = time.perf_counter()
        sink._transact(schema, pieces, "query", revision)
        return time.perf_counter() - start


def _rows(revision: int) -> pa.Table:
    rng, numbers = np.random.default_rng(revision), np.arange(ROWS)
    columns: dict[str, Any] = {
        "card": pa.array([f"card-{number % 500:06}" for number in numbers]),
        "ts": pa.array(1_767_225_600_000_000 + numbers * 1_234_567, pa.timestamp("us", "UTC")),
        "id": numbers * 7_919 + 10**12,
        **{name: rng.normal(100, 20, ROWS) for name in "abc"},
        **{name: rng.integers(0, 10**6, ROWS) for name in "nm"},
        "revision": np.full(ROWS, revision),
        "deleted": rng.random(ROWS) < 0.01,
    }
    return pa.table(columns).take(rng.permutation(ROWS))


def _require_equal(connect: Callable[[], Any]) -> None:
    """Raise if the last tables differ between the ways, or from what was written."""
    copied, by_statements = (f'"{way} {TURNS - 1}__rows"' for way in WAYS)
    with connect() as connection:
        for one, other in ((copied, by_statements), (by_statements, copied)):
            query = f"SELECT count(*) FROM (SELECT * FROM {one} EXCEPT SELECT * FROM {other}) AS differing"
            assert connection.execute(query).fetchone() == (0,)
        totals = connection.execute(f"SELECT count(*), sum(n), min(revision) FROM {copied}").fetchone()
    assert totals == (ROWS, sum(_rows(2)["n"].to_pylist()), 2), totals
