"""Random streams that are asked between their batches through `KeyedWindows.query`, compared with the oracle.

What is due must be the same as without the questions, so everything that `streams` compares is compared here too, and
in the end the bytes of the state with those of a stream that was never asked.
"""

import math
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from campaigns.fuzz import question_tables as kinds
from campaigns.fuzz import streams, tables
from campaigns.fuzz.aggregates import AGGREGATES
from campaigns.fuzz.oracle import aggregate, same
from campaigns.fuzz.stream_oracle import NOWHERE
from oracles.questions import Retained, between
from sash import ArgumentError, KeyedWindows, RetentionError

TICKS = {"int": 1, "s": 1, "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
# Native aggregates that commute, whose rows are combined into panes; of text they run in Python.
COMBINED = {
    "count", "count_if", "sum", "sum_exact", "mean", "product", "min", "max", "range", "maxcount", "mincount", "top_k",
    "bottom_k", "variance", "variance_0", "std", "skewness", "kurtosis", "geomean", "bit_and", "bit_or", "bit_xor",
    "all", "any", "histogram", "weighted_mean", "covariance", "correlation", "regression", "decayed_sum",
    "decayed_mean", "rate",
}  # fmt: skip
CLOSED = [None, None, "both", "left", "right", "neither"]


def make(rng: Random) -> dict:
    """Return a random case: a stream, and questions between its operations and after its end."""
    case = streams.make(rng)
    ops = []
    for op in case["ops"]:
        ops += [op, *(question(rng, case, op) for _ in range(rng.choice([0, 1, 1, 3])))]
    last = next((op for op in case["ops"][::-1] if op[0] == "push"), ("push", [], None))
    if case["flush"]:
        ops += [("flush",), question(rng, case, last)]
    return {**case, "ops": ops, "flush": False}


def question(rng: Random, case: dict, near: tuple) -> tuple:
    """Return a random question about times near those of an operation: its keys, their table, and the time or range."""
    known = [row["t"] for row in near[1] if row["t"] is not None] if near[0] == "push" else []
    middle = rng.choice(known) if known else rng.randint(-20, 60)
    asked = [
        {name: rng.choice(tables.KEYS[kind][0]) for name, kind in case["keys"]} for _ in range(rng.choice([0, 1, 3, 9]))
    ]
    kind = rng.choice(kinds.CONTAINERS)
    if kind == "pandas" and "h" in tables.used(case):
        kind = "arrow"  # large ints beside nulls would become floats
    if rng.random() < 0.6:
        return ("query", asked, kind, "at", rng.choice([None, *(moment(rng, case, middle) for _ in range(4))]))
    start, stop = sorted(moment(rng, case, middle) for _ in range(2))
    return ("query", asked, kind, "range", start, stop, rng.choice(CLOSED))


def moment(rng: Random, case: dict, middle: int) -> Any:
    """Return a time to ask about, often an edge of a pane, now and then between two seconds.

    Between two ticks of the rows, aggregates that depend on time raise, and all times are edges of panes of a second.
    """
    time = middle + rng.choice([0, 1, -1, *(rng.randint(-s, s) for s in (5, 20, max(case["windows"])))])
    if case["every"] and rng.random() < 0.7:
        width = case["resolution"] or case["every"]
        return (time - (case["offset"] or 0)) // width * width + (case["offset"] or 0)
    timed = any(AGGREGATES[agg].timed for _, (agg, _) in case["aggs"])
    between = case["unit"] in ("us", "ns") or (case["unit"] == "s" and not timed and not case["every"])
    return time + Fraction(1, 2) if between and rng.random() < 0.2 else time


def pane(case: dict) -> int | None:
    """Return the size of the panes that rows are combined into, None if they are kept as they are."""
    if not case["every"] or case["resolution"]:
        return case["resolution"]
    singly = case["retract"] or case["id"] or case["late"] == "emit"
    combined = all((agg in COMBINED and columns != ["s"]) or agg == "count" for _, (agg, columns) in case["aggs"])
    return math.gcd(case["every"], *case["windows"]) if combined and not singly else None


def argument(case: dict, time: Any) -> Any:
    """Return a time as an argument: a number, or a datetime."""
    if time is None or case["unit"] == "int":
        return time
    return pa.scalar(int(time * 2) * 500, pa.timestamp("ms")).as_py()


class Runner(streams.Runner):
    """Runs a stream that is asked beside one that is not, and the oracle."""

    def __init__(self, case: dict, wrong: bool = False) -> None:
        super().__init__(case, False)
        self.wrong_answers = wrong
        self.silent = KeyedWindows(aggs=self.aggs, **streams.arguments(case))
        self.pane = pane(case)
        self.tick = TICKS[case["unit"]]
        self.retained = Retained(
            largest=max(case["windows"]),
            closed=case["closed"] or "right",
            tick=self.tick,
            every=case["every"],
            offset=case["offset"] or 0,
        )

    def run(self) -> str | None:
        """Return the first difference in words."""
        found = super().run()
        if found is None and self.stream.to_bytes() != self.silent.to_bytes():
            return "the state is not that of a stream that was not asked"
        return found

    def step(self, op: tuple) -> str | None:
        """Run an operation; return a difference in words."""
        if op[0] == "query":
            return self.ask(op)
        found = super().step(op)
        self.repeat(op)
        if op[0] == "push" and self.oracle.horizon > NOWHERE:
            self.retained.expire(self.oracle.horizon)
        elif op[0] == "drop" and self.pushes:
            self.retained.drop(op[1])
        elif op[0] == "flush" and self.oracle.newest > NOWHERE:
            self.retained.drop(self.oracle.newest + self.tick)  # the end: everything is dropped
        return found

    def repeat(self, op: tuple) -> None:
        """Run an operation on the stream that is not asked."""
        if op[0] == "push":
            self.silent.push(streams.batch_of(self.case, op[1]), streams.at(self.case, op[2]))
        elif op[0] == "drop":
            self.silent.drop_before(streams.at(self.case, op[1]))
        elif op[0] == "flush":
            self.silent.flush()
        elif op[0] == "save":
            self.silent = KeyedWindows.from_bytes(self.silent.to_bytes(), self.aggs)

    def ask(self, op: tuple) -> str | None:
        """Ask, and compare the answer, or the error; return a difference in words."""
        before, metrics = self.stream.to_bytes(), self.stream.metrics
        try:
            found: Any = self.asked(op)
        except (ArgumentError, RetentionError) as error:
            found = error
        if self.stream.to_bytes() != before or self.stream.metrics != metrics:
            return "a question changed the state"
        return self.difference(op, found)

    def asked(self, op: tuple) -> list[dict]:
        """Return the rows that a question gives."""
        _, rows, kind, how, *times = op
        given = None
        if self.case["keys"]:
            types = {"note": pa.int64(), **{name: tables.KEYS[kind][1] for name, kind in self.case["keys"]}}
            given = kinds.contained(kind, kinds.arrow([{"note": i, **row} for i, row in enumerate(rows)], types))
        if how == "at":
            result = self.stream.query(given, at=argument(self.case, times[0]))
        else:
            start, stop = (argument(self.case, time) for time in times[:2])
            result = self.stream.query(given, start=start, stop=stop, closed=times[2])
        return kinds.rows_of(kinds.taken(kind if given is not None else "arrow", result))

    def difference(self, op: tuple, found: Any) -> str | None:
        """Compare what was found with what the documentation says, in words."""
        _, rows, kind, how, *times = op
        ranges = self.ranges(how, times)
        if not self.pushes or self.is_refused(how, times):
            wanted: Any = ArgumentError
        else:
            held = all(self.retained.holds(start, closed) for _, start, _, closed in ranges)
            wanted = list if held else RetentionError
        if not isinstance(found, wanted):
            return f"expected a {wanted.__name__}, got {found!r}"
        if wanted is not list:
            return None
        return self.compare_answers(rows if self.case["keys"] else [{}], kind, ranges, found)

    def is_refused(self, how: str, times: list) -> bool:
        """Whether rows are combined into panes and the question is not about whole ones."""
        width, offset = self.pane, self.case["offset"] or 0
        edges = [time for time in times[:2] if time is not None]
        return width is not None and (
            any((time - offset) % width != 0 for time in edges) or (how == "range" and times[2] not in (None, "left"))
        )

    def ranges(self, how: str, times: list) -> list[tuple]:
        """Return the suffix of the results, start, stop and sides of each range that is asked about."""
        case = self.case
        if how == "range":
            return [("", *times[:2], times[2] or ("left" if self.pane else "both"))]
        time = self.default() if times[0] is None else times[0]
        closed = "left" if case["every"] else case["closed"] or "right"
        return [(f"_{tables.size(case, size)}", time - size, time, closed) for size in case["windows"]]

    def default(self) -> Any:
        """The earliest instant whose windows hold the newest row, or with `every` the next boundary."""
        case, newest = self.case, self.oracle.newest
        if newest == NOWHERE:
            return 10**9
        if case["every"]:
            offset = case["offset"] or 0
            return (newest - offset) // case["every"] * case["every"] + case["every"] + offset
        return newest + (self.tick if case["closed"] == "left" else 0)

    def compare_answers(self, rows: list[dict], kind: str, ranges: list[tuple], found: list[dict]) -> str | None:
        """Compare the answers, row by row."""
        if len(rows) != len(found):
            return f"expected {len(rows)} rows, got {found}"
        case = self.case
        for i, (row, other) in enumerate(zip(rows, found, strict=True)):
            key = tuple(row.values())
            held = self.held(key)
            shown = {"note": i, **row} if case["keys"] else {}
            if {name: other[name] for name in shown} != shown:
                return f"expected {shown} to come back, got {other}"
            for name, (agg, columns) in case["aggs"]:
                for suffix, start, stop, closed in ranges:
                    answer: Any = aggregate(agg, between(held, start, stop, closed), columns, start, stop)
                    answer = b"wrong" if self.wrong_answers else answer
                    value = tables.readable({"table": kind}, {"": other[name + suffix]})[""]
                    answer = tables.readable({"table": kind}, {"": answer})[""]
                    if not same(answer, value, AGGREGATES[agg].exact, strict=False):
                        return f"{key}, {name}{suffix}: expected {answer!r}, got {value!r}"
        return None

    def held(self, key: tuple) -> list[dict]:
        """Return the rows of a key in order; with `resolution` each counts at the start of its pane."""
        rows, width, offset = self.oracle.ordered(key), self.case["resolution"], self.case["offset"] or 0
        if not width:
            return rows
        rows = [{**row, "t": (row["t"] - offset) // width * width + offset} for row in rows]
        return sorted(rows, key=lambda row: (row["t"], row["id"] if self.case["id"] else row["#"]))


def run(case: dict, wrong: bool = False) -> str | None:
    """Return the first difference of a case in words, or None."""
    try:
        runner = Runner(case, wrong)
    except Exception as error:
        return f"it raised {error!r}"
    return runner.run()


def steps(case: dict) -> int:
    """Return the number of rows pushed, and one for each other operation."""
    return streams.steps(case)


def parts(case: dict) -> list[tuple]:
    """Return what can be left out: operations, rows, keys that are asked about, aggregates, windows and keys."""
    asked = [("row", i, j) for i, op in enumerate(case["ops"]) if op[0] == "query" for j in range(len(op[1]))]
    return streams.parts(case) + asked


def without(case: dict, gone: set) -> dict:
    """Return the case without some of its parts."""
    smaller = streams.without(case, gone)
    kept = [(i, op) for i, op in enumerate(case["ops"]) if ("ops", i) not in gone]
    for place, (i, op) in enumerate(kept):
        if op[0] == "query":
            rows = [
                {name: row[name] for name, _ in smaller["keys"]}
                for j, row in enumerate(op[1])
                if ("row", i, j) not in gone
            ]
            smaller["ops"][place] = (op[0], rows, *op[2:])
    return smaller


def reproduction(case: dict) -> str:
    """Return a script that pushes the batches, asks, and prints what comes."""
    lines = [streams.reproduction({**case, "ops": []})]
    for op in case["ops"]:
        lines += source(case, op) if op[0] == "query" else streams.source(case, op)
    return "\n".join(lines)


def source(case: dict, op: tuple) -> list[str]:
    """Return a question as lines of source."""
    _, rows, _, how, *times = op
    keys = kinds.source(rows, {name: tables.KEYS[kind][1] for name, kind in case["keys"]}, "arrow")
    keys = keys.replace("column_of(", "pa.array(").removeprefix("contained('arrow', ").removesuffix(")")
    asked = [keys] if case["keys"] else []
    names = ("at",) if how == "at" else ("start", "stop", "closed")
    asked += [f"{n}={(argument(case, t) if n != 'closed' else t)!r}" for n, t in zip(names, times, strict=True)]
    return [f"print(kw.query({', '.join(asked)}))"]
