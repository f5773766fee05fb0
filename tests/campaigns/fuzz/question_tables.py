"""Tables of events and of questions in every kind of table, key and time, from rows of plain Python."""

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from campaigns.fuzz import tables
from campaigns.fuzz.values import describe

NANOSECONDS = {"int": 1, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
TEXT = [None, "", "a", "ü"]
WHOLE = [None, 0, 1, 100]
MOMENTS = [None, dt.datetime(2026, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59)]
DATES = [None, dt.date(2026, 1, 1), dt.date(1969, 12, 31)]
DECIMALS = [None, Decimal("1.50"), Decimal("-2.00")]
# Values of a kind of key, and the types that columns of it may have.
KEYS: dict[str, tuple[list, list[str]]] = {
    "int": (WHOLE, ["int64", "int8", "int16", "int32", "uint8", "uint32", "uint64"]),
    "text": (TEXT, ["string", "large_string", "dictionary"]),
    "bool": ([None, True, False], ["bool"]),
    "date": (DATES, ["date32"]),
    "instant": (MOMENTS, ["timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"]),
    "decimal": (DECIMALS, ["decimal128(9, 2)", "decimal128(12, 4)"]),
}
TYPES: dict[str, pa.DataType] = {
    "string": pa.string(), "large_string": pa.large_string(), "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "bool": pa.bool_(), "date32": pa.date32(), "decimal128(9, 2)": pa.decimal128(9, 2),
    "decimal128(12, 4)": pa.decimal128(12, 4), **{f"timestamp[{u}]": pa.timestamp(u) for u in ("s", "ms", "us", "ns")},
    **{name: getattr(pa, name)() for name in KEYS["int"][1]},
}  # fmt: skip
INTEGERS = {pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint32(): pd.UInt32Dtype(),
            pa.uint64(): pd.UInt64Dtype()}  # fmt: skip
CONTAINERS = ["arrow", "arrow", "chunks", "dict", "pandas", "polars", "lazy", "duckdb"]
RESULTS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame}


def time_type(unit: str, zone: str | None, whole: str = "int64") -> pa.DataType:
    """Return the type of a column of times; `whole` is that of integers."""
    return TYPES[whole] if unit == "int" else pa.timestamp(unit, zone)


def arrow(rows: list[dict], types: dict[str, pa.DataType]) -> pa.Table:
    """Return rows as an Arrow table; times are whole nanoseconds in the rows, and ticks of their unit in the table."""
    return pa.table({name: column_of([row[name] for row in rows], kind) for name, kind in types.items()})


def column_of(cells: list, kind: pa.DataType) -> pa.Array:
    """Return values as a column."""
    if pa.types.is_timestamp(kind) and not any(isinstance(cell, dt.datetime) for cell in cells):
        cells = [None if cell is None else cell // NANOSECONDS[kind.unit] for cell in cells]
    if pa.types.is_dictionary(kind):
        return pa.array(cells, pa.string()).dictionary_encode()
    if pa.types.is_decimal(kind):
        return pa.array(cells, pa.decimal128(9, 2)).cast(kind)
    return pa.array(cells, kind)


def container(rng: Random, types: dict[str, pa.DataType]) -> str:
    """Return a random kind of table that can hold these types as they are."""
    kind = rng.choice(CONTAINERS)
    zoned = any(pa.types.is_timestamp(t) and t.tz is not None for t in types.values())
    return "arrow" if kind == "duckdb" and zoned else kind  # DuckDB has zones for microseconds alone


def contained(kind: str, table: pa.Table) -> Any:
    """Return an Arrow table as one of another kind."""
    if kind == "chunks":
        middle = table.num_rows // 3
        return pa.concat_tables([table.slice(0, middle), table.slice(middle)])
    if kind == "dict":
        return {name: table[name] for name in table.column_names}
    if kind == "pandas":
        return table.to_pandas(types_mapper=INTEGERS.get)
    if kind == "duckdb":
        return duckdb.connect().from_arrow(table)
    frame = pl.from_arrow(table) if kind in ("polars", "lazy") else table
    return frame.lazy() if kind == "lazy" else frame


def taken(kind: str, result: Any) -> pa.Table:
    """Return a result as an Arrow table, if it is the kind of table that it must be."""
    assert isinstance(result, RESULTS.get(kind, pa.Table)), f"a {type(result)} came back for {kind}"
    if kind == "pandas":
        return pa.Table.from_pandas(result, preserve_index=False)
    return (result.collect() if kind == "lazy" else result).to_arrow() if kind in ("polars", "lazy") else result


def rows_of(table: pa.Table) -> list[dict]:
    """Return the rows of a table, with timestamps as whole nanoseconds and categories as text."""
    for i, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        column = table.column(i).cast(kind)
        if pa.types.is_timestamp(kind):
            cells = column.cast(pa.int64()).to_pylist()
            column = pa.chunked_array([[None if c is None else c * NANOSECONDS[kind.unit] for c in cells]], pa.int64())
        table = table.set_column(i, field.name, column)
    return table.to_pylist()


def plain(cell: Any) -> Any:
    """Return a cell of a question as `rows_of` shows it."""
    if isinstance(cell, dt.datetime):
        return (cell - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1) * 10**9
    return cell


def source(rows: list[dict], types: dict[str, pa.DataType], kind: str) -> str:
    """Return a table as Python source."""
    columns = []
    for name, wanted in types.items():
        cells = describe([row[name] for row in rows])
        columns.append(f"{name!r}: column_of({cells}, pa.{type_source(wanted)})")
    return f"contained({kind!r}, pa.table({{{', '.join(columns)}}}))"


def type_source(kind: pa.DataType) -> str:
    """Return a type as source."""
    if pa.types.is_timestamp(kind):
        return f"timestamp({kind.unit!r}, {kind.tz!r})"
    if pa.types.is_dictionary(kind):
        return "dictionary(pa.int32(), pa.string())"
    names = {"bool": "bool_()", "double": "float64()", "date32[day]": "date32()"}
    return str(kind) if pa.types.is_decimal(kind) else names.get(str(kind), f"{kind}()")


def cells_of(rng: Random, case: dict) -> dict:
    """Return random values of the columns that the aggregates read."""
    return {name: tables.cell(rng, name) for name in tables.used(case)}
