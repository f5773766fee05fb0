"""Upserts into PostgreSQL: COPY and one statement, against statements with parameters, on a server of their own.

Each turn writes 20,000 rows of a text key, an instant, an id, three floats, two integers, a revision and `deleted`:
first as new rows, then all of them again with a greater revision. Both ways take turns on one server, in tables of
their own, from Arrow rows on the driver to the commit; Spark's part in a micro-batch is not measured. In the end the
tables must be equal. CPU time is that of this process and of the server's, which a loaded machine changes less.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from sash.spark import upsert
from sash.spark.upserts.dialect import Transaction
from tests.support.postgres_server import running
from tests.support.upsert_rows import pieces

Claim = tuple[str, float, float]

ROWS, TURNS = 20_000, 7
TYPES = {"card": "string", "ts": "timestamp", "id": "long", **dict.fromkeys("abc", "double")}
TYPES |= {**dict.fromkeys(("n", "m", "revision"), "long"), "deleted": "boolean"}
KEYS = ["card", "ts", "id"]
REVISIONS = {"new rows": 1, "a greater revision": 2}
WAYS = {"copied": Transaction.copies, "by statements": lambda transaction: False}


class Measured(NamedTuple):
    """The time of one micro-batch, and the CPU time of both processes."""

    seconds: float
    cpu_seconds: float


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    found: dict[tuple[str, str], list[Measured]] = {(way, what): [] for what in REVISIONS for way in WAYS}
    with running() as server:
        for turn in range(TURNS):
            for way in WAYS:
                for what, revision in REVISIONS.items():
                    found[way, what].append(_written(server.connect(), f"{way} {turn}", way, revision))
        _require_equal(server.connect())
    medians = {case: _median(turns) for case, turns in found.items()}
    for (way, what), (seconds, cpu) in medians.items():
        print(f"  {what}, {way}: {ROWS / seconds:,.0f} rows/s, {ROWS / cpu:,.0f} rows per second of CPU", flush=True)
    return [claim for what in REVISIONS for claim in _claims_of(what, *(medians[way, what] for way in WAYS))]


def _claims_of(what: str, copied: Measured, by_statements: Measured) -> list[Claim]:
    return [
        (f"PostgreSQL, {what}, copied: microseconds of CPU per row", copied.cpu_seconds / ROWS * 1e6, 20.0),
        (f"PostgreSQL, {what}: time copied / by statements", copied.seconds / by_statements.seconds, 0.2),
    ]


def _median(turns: list[Measured]) -> Measured:
    return Measured(*(statistics.median(times) for times in zip(*turns, strict=True)))


def _written(connect: Callable[[], Any], table: str, way: str, revision: int) -> Measured:
    """Return the time of one micro-batch."""
    schema = StructType()
    for name, kind in TYPES.items():
        schema.add(name, kind)
    sink: Any = upsert(connect=connect, table=table, keys=KEYS)
    tables, commit, on_server = pieces(_rows(revision)), Transaction.commit, [0.0]

    def committed(transaction: Transaction) -> None:
        commit(transaction)
        on_server[0] = _cpu_seconds(transaction._connection.info.backend_pid)

    with patch.multiple(Transaction, copies=WAYS[way], commit=committed):
        start, used = time.perf_counter(), time.process_time()
        sink._transact(schema, tables, "query", revision)
        return Measured(time.perf_counter() - start, time.process_time() - used + on_server[0])


def _cpu_seconds(process: int) -> float:
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


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
