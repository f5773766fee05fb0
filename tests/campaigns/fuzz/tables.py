"""Random tables through `rolling`, in Arrow, pandas and polars, compared with the oracle row by row."""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from campaigns.fuzz.aggregates import AGGREGATES
from campaigns.fuzz.oracle import boundaries, results, same
from campaigns.fuzz.values import PREAMBLE, describe, value
from sash import Monoid, monoids, rolling

COLUMNS = {
    "x": "int",
    "y": "float",
    "w": "float",
    "p": "positive",
    "s": "text",
    "b": "bool",
    "h": "huge",
    "z": "unfinite",
}
ARROW = {
    "x": pa.int64(), "y": pa.float64(), "w": pa.float64(), "p": pa.float64(), "s": pa.string(), "b": pa.bool_(),
    "h": pa.int64(), "z": pa.float64(), "t": pa.int64(), "id": pa.int64(), "d": pa.bool_(), "c": pa.string(),
}  # fmt: skip
KEYS: dict[str, tuple[list, Any]] = {
    "int": ([None, 0, 1, -7], pa.int64()),
    "text": ([None, "", "a", "ü"], pa.string()),
    "bool": ([None, True, False], pa.bool_()),
    "date": ([None, dt.date(2026, 1, 1), dt.date(1969, 12, 31)], pa.date32()),
    "decimal": ([None, Decimal("1.50"), Decimal("-2.00")], pa.decimal128(9, 2)),
    "small": ([0, 1, 127, -128], pa.int8()),
}
PANDAS = {pa.int64(): pd.Int64Dtype(), pa.int8(): pd.Int8Dtype()}  # otherwise ints with nulls would become floats


def aggregates(rng: Random, most: int = 4) -> list[tuple[str, tuple[str, list[str]]]]:
    """Return random aggregates of a table: a name, the aggregate and the columns that it reads."""
    chosen = []
    for i in range(rng.randint(1, most)):
        agg = rng.choice([name for name in AGGREGATES if name != "sum_object"])
        kinds = AGGREGATES[agg].kinds
        if kinds[0] == "pair":
            columns = rng.sample(["x", "y", "w"], 2) if rng.random() < 0.8 else ["y", "y"]
        elif agg == "count" and rng.random() < 0.5:
            columns = []
        else:
            columns = [rng.choice([c for c, kind in COLUMNS.items() if kind in kinds])]
        chosen.append((f"a{i}", (agg, columns)))
    return chosen


def cell(rng: Random, column: str) -> Any:
    """Return a random value of a column, null now and then."""
    return None if rng.random() < 0.15 else value(rng, COLUMNS[column])


def definition(rng: Random, every: bool) -> dict:
    """Return the arguments that tables and streams share."""
    case: dict = {
        "aggs": aggregates(rng),
        "windows": rng.sample([1, 2, 3, 6, 12, 40, 300], rng.choice([1, 1, 2, 3])),
        "closed": rng.choice([None, "right", "left"]),
        "unit": rng.choice(["int", "int", "int", "s", "us", "ns"]),
        "keys": [(f"k{i}", rng.choice(list(KEYS))) for i in range(rng.choice([0, 1, 1, 1, 2]))],
        "every": None,
        "offset": None,
    }
    if every:
        case["every"], case["closed"] = rng.choice([1, 2, 3, 6, 7]), None
        case["offset"] = rng.choice([None, None, 1, -2])
    return case


def make(rng: Random) -> dict:
    """Return a random case: the definition, the kind of table and its rows."""
    case = definition(rng, rng.random() < 0.35)
    case["table"] = rng.choice(["arrow", "arrow", "dict", "pandas", "polars"])
    spread = rng.choice([3, 20, 60, 1000])
    if case["table"] == "pandas":  # its nulls turn ints into floats, which cannot hold large ones
        case["aggs"] = [(name, (agg, columns)) for name, (agg, columns) in case["aggs"] if columns != ["h"]] or [
            ("a0", ("sum", ["x"]))
        ]
    names = used(case)
    nulls = 0.05 if case["table"] != "pandas" and rng.random() < 0.3 else 0
    base = rng.choice([0, 0, -1000])
    case["rows"] = []
    for _ in range(rng.choice([0, 1, 5, 5, 25, 25, 60, 250])):
        row = {name: rng.choice(KEYS[kind][0][: rng.choice([2, 4])]) for name, kind in case["keys"]}
        row["t"] = None if rng.random() < nulls else base + rng.randint(0, spread)
        case["rows"].append({**row, **{name: cell(rng, name) for name in names}})
    return case


def used(case: dict) -> list[str]:
    """Return the columns that the aggregates read."""
    return sorted({column for _, (_, columns) in case["aggs"] for column in columns} | {"x"})


def arrow(case: dict, rows: list[dict], more: tuple[str, ...] = ()) -> pa.Table:
    """Return rows as an Arrow table."""
    kinds = dict(case["keys"])
    columns = {}
    for name in [*kinds, "t", *used(case), *more]:
        kind = KEYS[kinds[name]][1] if name in kinds else ARROW[name]
        cells = [row[name] for row in rows]
        if name == "t" and case["unit"] != "int":
            scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[case["unit"]]
            cells, kind = [None if t is None else t * scale for t in cells], pa.timestamp(case["unit"])
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


def size(case: dict, ticks: int | None) -> Any:
    """Return a size as an argument: a number, or a text for timestamps."""
    return ticks if ticks is None or case["unit"] == "int" else f"{ticks}s"


def arguments(case: dict) -> dict[str, Any]:
    """Return the arguments of `rolling` and `KeyedWindows`, with aggregates as source."""
    found = {
        "keys": [name for name, _ in case["keys"]] or None,
        "time": "t",
        "windows": [size(case, ticks) for ticks in case["windows"]],
        "closed": case["closed"],
        "every": size(case, case["every"]),
        "offset": size(case, case["offset"]),
    }
    return {name: value for name, value in found.items() if value is not None or name == "keys"}


def agg_sources(case: dict) -> dict[str, str]:
    """Return the call that makes each aggregate."""
    sources = {}
    for name, (agg, columns) in case["aggs"]:
        sources[name] = AGGREGATES[agg].source(columns) if columns else "monoids.count()"
    return sources


def made(case: dict) -> dict[str, Any]:
    """Return the aggregates themselves."""
    scope = {"monoids": monoids, "Monoid": Monoid}
    return {name: eval(source, scope) for name, source in agg_sources(case).items()}


def label(case: dict, name: str, ticks: int) -> str:
    """Return the name of a result's column."""
    return f"{name}_{size(case, ticks)}"


def ticks(case: dict, table: pa.Table) -> list[dict]:
    """Return the rows of a table, with times as ticks."""
    return table.to_pylist() if case["unit"] == "int" else whole_seconds(table).to_pylist()


def whole_seconds(table: pa.Table) -> pa.Table:
    """Return the table with timestamps as ints of seconds."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(i).cast(pa.timestamp("s")).cast(pa.int64())
            table = table.set_column(i, field.name, column)
    return table


def given(case: dict, table: pa.Table) -> Any:
    """Return the table in the kind that the case asks for."""
    if case["table"] == "pandas":
        return table.to_pandas(types_mapper=PANDAS.get)
    if case["table"] == "polars":
        return pl.from_arrow(table)
    return {name: table[name] for name in table.column_names} if case["table"] == "dict" else table


def taken(case: dict, result: Any) -> pa.Table:
    """Return a result as an Arrow table, if it is the kind of table that it must be."""
    if case["table"] == "pandas":
        assert isinstance(result, pd.DataFrame), type(result)
        return pa.Table.from_pandas(result, preserve_index=False)
    if case["table"] == "polars":
        assert isinstance(result, pl.DataFrame), type(result)
        return result.to_arrow()
    assert isinstance(result, pa.Table), type(result)
    return result


def readable(case: dict, row: dict) -> dict:
    """Return a row as its table shows it: a NaN of pandas is a null."""
    if case["table"] != "pandas":
        return row
    return {name: without_nan(v) for name, v in row.items()}


def without_nan(value: Any) -> Any:
    """Return a value with None for NaN, also inside a pair."""
    if isinstance(value, tuple):
        return tuple(map(without_nan, value))
    return None if isinstance(value, float) and math.isnan(value) else value


def key_of(case: dict, row: dict) -> tuple:
    """Return the key of a row."""
    return tuple(row[name] for name, _ in case["keys"])


def grouped(case: dict, rows: list[dict]) -> dict[tuple, list[dict]]:
    """Return the rows that have a time, by key, in order of time and then of arrival."""
    groups: dict[tuple, list[dict]] = {}
    for row in sorted((row for row in rows if row["t"] is not None), key=lambda row: row["t"]):
        groups.setdefault(key_of(case, row), []).append(readable(case, row))
    return groups


def expected_rows(case: dict) -> list[dict]:
    """Return what `rolling` must return: a row for each row of the table."""
    groups = grouped(case, case["rows"])
    rows = []
    for row in case["rows"]:
        names = [(name, n) for name, _ in case["aggs"] for n in case["windows"]]
        found: dict = dict.fromkeys(names)
        if row["t"] is not None:
            found = results(
                groups[key_of(case, row)], case["aggs"], case["windows"], row["t"], case["closed"] or "right"
            )
        shown = {name: row[name] for name in [*(name for name, _ in case["keys"]), "t", *used(case)]}
        rows.append({**readable(case, shown), **{label(case, *name): answer for name, answer in found.items()}})
    return rows


def expected_grid(case: dict) -> list[dict]:
    """Return what `rolling` must return with `every`: a row for each key and boundary."""
    rows, largest = [], max(case["windows"])
    for key, group in grouped(case, case["rows"]).items():
        for b in boundaries([row["t"] for row in group], largest, case["every"], case["offset"] or 0):
            row = dict(zip((name for name, _ in case["keys"]), key, strict=True))
            row["window_start"] = b - case["windows"][0]
            found = results(group, case["aggs"], case["windows"], b, "left")
            rows.append({**row, "window_end": b, **{label(case, *name): answer for name, answer in found.items()}})
    return rows


def sort_key(case: dict, row: dict) -> tuple:
    """Return a key to order the rows of a grid by."""
    return (repr(key_of(case, row)), row["window_end"])


def run(case: dict, wrong: bool = False) -> str | None:
    """Return the first difference of a case in words, or None."""
    table = given(case, arrow(case, case["rows"]))
    try:
        result = taken(case, rolling(table, aggs=made(case), **arguments(case)))
    except Exception as error:
        return f"it raised {error!r}"
    found = [readable(case, row) for row in ticks(case, result)]
    expected = expected_grid(case) if case["every"] else expected_rows(case)
    expected = [readable(case, row) for row in expected]
    if case["every"]:
        expected, found = (sorted(rows, key=lambda row: sort_key(case, row)) for rows in (expected, found))
    if wrong and expected:
        expected[-1][label(case, case["aggs"][0][0], case["windows"][0])] = b"wrong"
    return difference(case, expected, found)


def difference(case: dict, expected: list[dict], found: list[dict]) -> str | None:
    """Return the first difference between rows, in words."""
    if len(expected) != len(found):
        return f"expected {len(expected)} rows, got {len(found)}: {expected} and {found}"
    exact = {label(case, name, n): AGGREGATES[agg].exact for name, (agg, _) in case["aggs"] for n in case["windows"]}
    for i, (row, other) in enumerate(zip(expected, found, strict=True)):
        if row.keys() != other.keys():
            return f"expected columns {list(row)}, got {list(other)}"
        for name, answer in row.items():
            if not same(answer, other[name], exact.get(name, True), strict=False):
                shown = dict(answer) if isinstance(answer, Counter) else answer
                return f"row {i}, {name}: expected {shown!r}, got {other[name]!r}"
    return None


def steps(case: dict) -> int:
    """Return the number of rows."""
    return len(case["rows"])


def parts(case: dict) -> list[tuple[str, int]]:
    """Return what can be left out: rows, aggregates, windows and keys."""
    return [(what, i) for what in ("rows", "aggs", "windows", "keys") for i in range(len(case[what]))]


def without(case: dict, gone: set) -> dict:
    """Return the case without some of its parts; an aggregate and a window always remain."""
    smaller = dict(case)
    for what in ("rows", "aggs", "windows", "keys"):
        smaller[what] = [part for i, part in enumerate(case[what]) if (what, i) not in gone]
    return {
        **smaller,
        "aggs": smaller["aggs"] or case["aggs"][:1],
        "windows": smaller["windows"] or case["windows"][:1],
    }


def call_source(case: dict) -> str:
    """Return the arguments of the call as source."""
    aggs = ", ".join(f"{name!r}: {source}" for name, source in agg_sources(case).items())
    return ", ".join(f"{name}={value!r}" for name, value in arguments(case).items()) + f", aggs={{{aggs}}}"


def table_source(case: dict, rows: list[dict], more: tuple[str, ...] = ()) -> str:
    """Return a table as source."""
    columns = []
    for field, column in zip(arrow(case, rows, more).schema, arrow(case, rows, more).columns, strict=True):
        kind = f"pa.timestamp('{field.type.unit}')" if pa.types.is_timestamp(field.type) else f"'{field.type}'"
        kind = "pa.decimal128(9, 2)" if pa.types.is_decimal(field.type) else kind
        cells = column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(field.type) else column.to_pylist()
        columns.append(f"{field.name!r}: pa.array({describe(cells)}, {kind})")
    return "pa.table({" + ", ".join(columns) + "})"


def reproduction(case: dict) -> str:
    """Return a script that makes the call and prints the result."""
    convert = {"pandas": ".to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.int8(): pd.Int8Dtype()}.get)"}.get(
        case["table"], ""
    )
    table = table_source(case, case["rows"]) + convert
    table = f"pl.from_arrow({table})" if case["table"] == "polars" else table
    head = PREAMBLE.replace("import pyarrow", "import polars as pl\nimport pyarrow").replace(
        "import datetime\n", "import datetime\nfrom decimal import Decimal\n"
    )
    return f"{head}\ntable = {table}\nprint(rolling(table, {call_source(case)}))"
