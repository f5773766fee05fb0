"""The rows of every= as DuckDB gives them: a series of boundaries per key, joined with the events of its windows."""

from typing import Any

import duckdb
import pyarrow as pa

SQL = {
    "n": "count(*)",
    "m": "count(x)",
    "s": "sum(x)",
    "mean": "avg(x)",
    "low": "min(x)",
    "top": "max(x)",
}

_QUERY = """
WITH spans AS (SELECT k, min(t) AS oldest, max(t) AS newest FROM events WHERE t IS NOT NULL GROUP BY k),
places AS (SELECT k, oldest, newest, ((oldest - {offset}) % {every} + {every}) % {every} AS past FROM spans),
grid AS (SELECT k, unnest(generate_series(oldest - past + {every}, newest + {largest}, {every})) AS b FROM places)
SELECT grid.k AS k, grid.b AS window_end, {columns}
FROM grid JOIN events ON grid.k IS NOT DISTINCT FROM events.k AND b - {largest} <= t AND t < b
GROUP BY grid.k, grid.b
"""


def by_duckdb(table: pa.Table, sizes: list[int], every: int, offset: int = 0) -> list[dict[str, Any]]:
    """One row per k and boundary that sees an event, in no order; `table` has k, integers t, and x."""
    columns = [f"{sql} FILTER (t >= b - {size}) AS {agg}_{size}" for size in sizes for agg, sql in SQL.items()]
    query = _QUERY.format(every=every, offset=offset, largest=max(sizes), columns=", ".join(columns))
    with duckdb.connect() as connection:
        connection.register("events", table)
        found = connection.execute(query)
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
