"""Random questions to random events through `rolling(at=)`, in every kind of table, compared with the oracle."""

import warnings
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from campaigns.fuzz import question_tables as kinds
from campaigns.fuzz import tables
from campaigns.fuzz.aggregates import AGGREGATES
from campaigns.fuzz.oracle import aggregate, same
from oracles.questions import asked
from sash import SashWarning, rolling

SIZES = [1, 2, 3, 6, 12, 40, 300]
ZONES = [None, None, "UTC", "Europe/Berlin", "Asia/Kolkata"]


def make(rng: Random) -> dict:
    """Return a random case: the definition, the events, the questions, and the kinds of both tables."""
    instants = rng.random() < 0.6
    zone = rng.choice(ZONES) if instants else None
    case: dict = {
        "aggs": tables.aggregates(rng),
        "windows": rng.sample(SIZES, rng.choice([1, 1, 2, 3])),
        "closed": rng.choice([None, "right", "left"]),
        "keys": [key_of(rng, i) for i in range(rng.choice([0, 1, 1, 1, 2, 3]))],
        "units": tuple(rng.choice(["s", "ms", "us", "ns"]) if instants else "int" for _ in range(2)),
        "zones": (zone, rng.choice(ZONES[2:]) if zone else None),
        "whole": rng.choice(["int64", "int64", "int32", "int16"]),
        "name": rng.choice(["t", "q"]),
        "clash": rng.random() < 0.3,
        "text": rng.random() < 0.2,
    }
    case["tables"] = [kinds.container(rng, types) for types in (event_types(case), question_types(case))]
    if "pandas" in case["tables"]:  # its nulls turn ints into floats, which cannot hold large ones
        case["aggs"] = [(name, agg) for name, agg in case["aggs"] if agg[1] != ["h"]] or [("a0", ("sum", ["x"]))]
    fill(rng, case)
    return case


def key_of(rng: Random, i: int) -> tuple[str, str, str, str]:
    """Return a random key column: its name, kind, and type in both tables."""
    kind = rng.choice(list(kinds.KEYS))
    types = kinds.KEYS[kind][1]
    return (f"k{i}", kind, rng.choice(types), rng.choice(types))


def fill(rng: Random, case: dict) -> None:
    """Add random rows and questions; times meet often, and lie close to the ends of windows."""
    spread = rng.choice([3, 20, 60, 1000])
    choice = rng.choice([2, 4])
    nulls = 0.05 if rng.random() < 0.4 else 0
    base = rng.choice([0, 0, -1000])

    def row(unit: str, low: int) -> dict:
        keys = {name: rng.choice(kinds.KEYS[kind][0][:choice]) for name, kind, *_ in case["keys"]}
        return {**keys, "t": None if rng.random() < nulls else time(rng, unit, base + rng.randint(low, spread))}

    units = case["units"]
    case["rows"] = [row(units[0], 0) | kinds.cells_of(rng, case) for _ in range(rng.choice([0, 1, 5, 25, 60, 250]))]
    case["asked"] = [row(units[1], -spread // 2) for _ in range(rng.choice([0, 1, 5, 25, 60]))]
    case["asked"] = [{**question, "note": i, "x": -i} for i, question in enumerate(case["asked"])]
    case["asked"] += [dict(rng.choice(case["asked"])) for _ in range(3) if case["asked"]]


def time(rng: Random, unit: str, second: int) -> int:
    """Return a whole second in nanoseconds, or a tick or half a second beside it; or a plain number."""
    if unit == "int":
        return second
    tick = kinds.NANOSECONDS[unit]
    beside = rng.choice([0, 0, 0, tick, -tick, 5 * 10**8 if tick < 10**9 else 0])
    return second * 10**9 + beside


def event_types(case: dict) -> dict[str, pa.DataType]:
    """Return the types of the events' columns."""
    types = {name: kinds.TYPES[kind] for name, _, kind, _ in case["keys"]}
    types["t"] = kinds.time_type(case["units"][0], case["zones"][0])
    return types | {name: tables.ARROW[name] for name in tables.used(case)}


def question_types(case: dict) -> dict[str, pa.DataType]:
    """Return the types of the questions' columns, which may have one that the events have too."""
    types = {"note": pa.int64(), "t": kinds.time_type(case["units"][1], case["zones"][1], case["whole"])}
    types |= {name: kinds.TYPES[kind] for name, _, _, kind in case["keys"]}
    return types | ({"x": pa.int64()} if case["clash"] else {})


def question_table(case: dict) -> pa.Table:
    """Return the questions as an Arrow table."""
    table = kinds.arrow(case["asked"], question_types(case))
    return table.rename_columns([case["name"] if name == "t" else name for name in table.column_names])


def arguments(case: dict) -> dict[str, Any]:
    """Return the arguments of `rolling`, without the tables and aggregates."""
    instants = case["units"][0] != "int"
    found = {
        "keys": [name for name, *_ in case["keys"]] or None,
        "time": "t",
        "windows": [f"{n}s" if instants else n for n in case["windows"]],
        "closed": case["closed"],
        "at_time": case["name"] if case["name"] != "t" else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def answered(case: dict) -> list[dict]:
    """Return what `rolling` must return: each question with its answers."""
    second = 1 if case["units"][0] == "int" else 10**9
    names = [name for name, *_ in case["keys"]]
    groups: dict[tuple, list[dict]] = {}
    for row in case["rows"]:
        shown = dict(tables.readable({"table": case["tables"][0]}, row))
        shown["t"] = None if row["t"] is None else Fraction(row["t"], second)
        groups.setdefault(tuple(row[name] for name in names), []).append(shown)
    questions = [
        (tuple(row[name] for name in names), None if row["t"] is None else Fraction(row["t"], second))
        for row in case["asked"]
    ]
    windows = {str(label): n for label, n in zip(arguments(case)["windows"], case["windows"], strict=True)}
    return asked(groups, questions, windows, folds(case), case["closed"] or "right")


def folds(case: dict) -> dict[str, Callable]:
    """Return the aggregates as folds of rows."""

    def fold(name: str, columns: list[str]) -> Callable:
        return lambda rows, start, stop: aggregate(name, rows, columns, number(start), number(stop))

    return {label: fold(*agg) for label, agg in case["aggs"]}


def number(time: Any) -> Any:
    """Return a whole Fraction as an int, which is what times mostly are."""
    return int(time) if time == int(time) else time


def run(case: dict, wrong: bool = False) -> str | None:
    """Return the first difference of a case in words, or None."""
    events = kinds.contained(case["tables"][0], kinds.arrow(case["rows"], event_types(case)))
    questions = kinds.contained(case["tables"][1], question_table(case))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SashWarning)  # sums that do not fit are null
            result = rolling(events, at=questions, aggs=tables.made(case), **arguments(case))
        result = kinds.taken(case["tables"][1], result)
    except Exception as error:
        return f"it raised {error!r}"
    expected = answered(case)
    if wrong and expected:
        expected[-1] = dict.fromkeys(expected[-1], b"wrong")
    return difference(case, expected, kinds.rows_of(result)) or changed_types(case, result)


def changed_types(case: dict, result: pa.Table) -> str | None:
    """Return in words which column of the questions came back with another type; Arrow tables keep all."""
    if case["tables"][1] not in ("arrow", "chunks", "dict"):
        return None
    given = question_table(case).schema
    found = result.schema
    return None if list(found)[: len(given)] == list(given) else f"expected the columns {given}, got {found}"


def difference(case: dict, expected: list[dict], found: list[dict]) -> str | None:
    """Return the first difference between rows, in words."""
    if len(expected) != len(found):
        return f"expected {len(expected)} rows, got {len(found)}"
    types = question_types(case)
    for i, (answers, row, other) in enumerate(zip(expected, case["asked"], found, strict=True)):
        shown = {case["name"] if name == "t" else name: kinds.plain(row[name]) for name in types}
        if list(other) != [*shown, *results(case)]:
            return f"expected the columns {[*shown, *results(case)]}, got {list(other)}"
        if {name: other[name] for name in shown} != shown:
            return f"question {i}: expected {shown} to come back, got {other}"
        for name, answer in answers.items():
            agg = dict(case["aggs"])[name.partition("_")[0]][0]
            value = tables.readable({"table": case["tables"][1]}, {"": other[name]})[""]
            answer = tables.readable({"table": case["tables"][1]}, {"": answer})[""]
            if not same(answer, value, AGGREGATES[agg].exact, strict=False):
                return f"question {i}, {name}: expected {answer!r}, got {value!r}"
    return None


def results(case: dict) -> list[str]:
    """Return the names of the results, aggregate by aggregate."""
    return [f"{name}_{window}" for name, _ in case["aggs"] for window in arguments(case)["windows"]]


def steps(case: dict) -> int:
    """Return the number of rows and questions."""
    return len(case["rows"]) + len(case["asked"])


def parts(case: dict) -> list[tuple[str, int]]:
    """Return what can be left out: rows, questions, aggregates, windows and keys."""
    return [(what, i) for what in ("rows", "asked", "aggs", "windows", "keys") for i in range(len(case[what]))]


def without(case: dict, gone: set) -> dict:
    """Return the case without some of its parts; an aggregate and a window always remain."""
    smaller = tables.without(case, gone)
    smaller["asked"] = [row for i, row in enumerate(case["asked"]) if ("asked", i) not in gone]
    return smaller


def reproduction(case: dict) -> str:
    """Return a script that makes the call and prints the result; run it in tests/."""
    aggs = ", ".join(f"{name!r}: {source}" for name, source in tables.agg_sources(case).items())
    more = "".join(f", {name}={value!r}" for name, value in arguments(case).items())
    asked = [{case["name"] if k == "t" else k: v for k, v in row.items()} for row in case["asked"]]
    types = {case["name"] if name == "t" else name: kind for name, kind in question_types(case).items()}
    return "\n".join(
        [
            "import datetime\nfrom decimal import Decimal\nfrom math import inf, nan\n\nimport pyarrow as pa\n",
            "from campaigns.fuzz.question_tables import column_of, contained",
            "from sash import Monoid, monoids, rolling\n",
            f"events = {kinds.source(case['rows'], event_types(case), case['tables'][0])}",
            f"questions = {kinds.source(asked, types, case['tables'][1])}",
            f"print(rolling(events, at=questions{more}, aggs={{{aggs}}}))",
        ]
    )
