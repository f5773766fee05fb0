"""Random sequences of operations on `Window`, each answer compared with the oracle's."""

import copy
import functools
import pickle
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import sash
from campaigns.fuzz.aggregates import AGGREGATES, Agg
from campaigns.fuzz.oracle import Expected, WindowOracle, same
from campaigns.fuzz.values import PREAMBLE, TIMES, describe, value
from sash import Monoid, Window, monoids

COLUMNS: dict[str, Any] = {
    "list": list,
    "numpy": np.array,
    "arrow": pa.array,
    "pandas": pd.Series,
    "polars": lambda values: pl.Series(values),
}
STRUCTURES = ["fiba"] * 4 + ["paper", "classic", "reactive", "two_stacks", "daba"]
IN_ORDER = ("reactive", "two_stacks", "daba")
BATCHES = ("insert_many", "slide")
FIFO = ("two_stacks", "daba")
WEIGHTS = {
    "insert": 30, "insert_many": 6, "evict": 10, "evict_until": 4, "query": 12, "range": 14, "items": 5, "slide": 4,
    "fork": 2, "ends": 4, "contains": 4, "check": 3, "bad": 4,
}  # fmt: skip
ROW_SOURCE = (
    "monoids.struct(n=monoids.count(), total=monoids.sum('x'), top=monoids.max('y'), "
    "oldest=monoids.first('y'), best=monoids.argmax('x', 'y'))"
)


def row_answer(rows: list[dict], *_: Any) -> dict:
    """Return the answer of the struct: nulls are skipped column by column."""
    xs, ys = ([row[c] for row in rows if row[c] is not None] for c in "xy")
    both = [(row["x"], row["y"]) for row in rows if None not in row.values()]
    return {
        "n": len(rows),
        "total": sum(xs) if xs else None,
        "top": max(ys, default=None),
        "oldest": ys[0] if ys else None,
        "best": AGGREGATES["argmax"].answer(both, [], None, None),
    }


def modular(pairs: list, *_: Any) -> tuple[int, int]:
    """Return the composition of x -> a*x + b modulo 97, oldest applied first."""
    a, b = 1, 0
    for factor, shift in pairs:
        a, b = factor * a % 97, (factor * b + shift) % 97
    return (a, b)


COMPILED = (
    "Monoid.compiled(identity=(1, 0), name='modular', "
    "combine=lambda f, g: (g[0] * f[0] % 97, (g[0] * f[1] + g[1]) % 97), lower=lambda f: (f[0] % 97, f[1] % 97))"
)
CATALOGUE = {
    **AGGREGATES,
    "struct": Agg(ROW_SOURCE, row_answer, ("row",)),
    "compiled": Agg(COMPILED, modular, ("pair_int",)),
}


@functools.cache
def monoid_of(source: str) -> Monoid:
    """Return the monoid that a call makes, once: compiling one takes a second."""
    return eval(source, {"monoids": monoids, "Monoid": Monoid})


def make(rng: Random) -> dict:
    """Return a random case: a window and the operations on it."""
    name = rng.choice(list(CATALOGUE))
    agg = CATALOGUE[name]
    kinds = ["int", "float", "datetime", "aware", "datetime64", "timestamp"] if agg.timed else list(TIMES)
    structure = rng.choice(STRUCTURES)
    case = {
        "agg": name,
        "values": rng.choice(agg.kinds),
        "times": rng.choice([*kinds, "int", "int"]),
        "structure": structure,
        "options": options(rng, structure),
        "batch": rng.choice(["list", "list", "numpy", "arrow", "pandas", "polars"]),
    }
    state = {"front": 0, "wide": rng.choice([3, 12, 40, 200, 1000]), "late": rng.choice([0, 0.1, 0.5, 1.0])}
    if structure in IN_ORDER:
        state["late"] = rng.choice([0, 0, 0.02])
    names, weights = zip(*WEIGHTS.items(), strict=True)
    chosen = rng.choices(names, weights, k=rng.choice([8, 40, 40, 150, 150, 400, 1500]))
    case["ops"] = [operation(rng, kind, case, state) for kind in chosen]
    return case


def options(rng: Random, structure: str) -> dict:
    """Return the sizes of nodes: tiny ones half of the time."""
    if rng.random() < 0.4:
        return {}
    if structure == "fiba":
        return {"leaf_capacity": rng.choice([2, 3, 4, 8, 33]), "fanout": rng.choice([4, 5, 8])}
    return {"min_arity": rng.choice([2, 3, 4])} if structure in ("paper", "classic") else {}


def tick(rng: Random, state: dict) -> int:
    """Return the tick of an arrival: the next one, or a late one."""
    if rng.random() < state["late"]:
        return state["front"] - rng.randint(0, state["wide"])
    state["front"] += rng.choice([0, 1, 1, 2, 5])
    return state["front"]


def near(rng: Random, state: dict) -> int:
    """Return a tick in or around the window."""
    return state["front"] - rng.randint(-3, state["wide"] + 3)


def operation(rng: Random, kind: str, case: dict, state: dict) -> tuple:
    """Return a random operation as a tuple of plain values."""
    closed = rng.choice(["both", "left", "right", "neither"])
    if kind == "insert":
        return (kind, tick(rng, state), value(rng, case["values"]))
    if kind == "insert_many":
        n = rng.choice([0, 1, 5, 60, 300])
        return (kind, [tick(rng, state) for _ in range(n)], [value(rng, case["values"]) for _ in range(n)])
    if kind in ("evict", "contains"):
        return (kind, near(rng, state))
    if kind == "evict_until":
        return (kind, state["front"] - rng.randint(0, 2 * state["wide"]), rng.random() < 0.7)
    if kind in ("range", "items"):
        ends = sorted([near(rng, state), near(rng, state)])
        start, stop = (None if rng.random() < 0.2 else end for end in ends)
        return (kind, start, stop, closed, rng.random() < 0.5)
    if kind == "slide":
        n = rng.choice([1, 4, 30])
        rows = ([tick(rng, state) for _ in range(n)], [value(rng, case["values"]) for _ in range(n)])
        by_size = case["times"] != "text" and rng.random() < 0.6
        limits = (rng.randint(1, state["wide"] + 2), None) if by_size else (None, rng.randint(1, state["wide"]))
        return (kind, *rows, *limits, rng.choice(["each", "each", "end"]))
    if kind == "fork":
        return (kind, rng.choice(["copy", "deepcopy", "pickle", "bytes"]))
    if kind == "bad":
        return (kind, rng.choice(BAD))
    return (kind,)


BAD = ["bool time", "nan time", "none time", "other time", "closed", "lengths", "batch", "size", "none value", "range"]


class Runner:
    """Runs the operations of a case on a `Window` and on the oracle."""

    def __init__(self, case: dict, wrong: bool = False) -> None:
        self.case, self.wrong = case, wrong
        self.agg = CATALOGUE[case["agg"]]
        self.monoid = monoid_of(monoid_source(case))
        self.time, self.size, number = TIMES[case["times"]]
        structure, native = case["structure"], case["times"] != "text" and case["agg"] != "sum_object"
        in_order, fifo = structure in IN_ORDER, structure in FIFO
        self.window = Window(self.monoid, structure=structure, **case["options"])
        self.oracle = WindowOracle(self.agg, number, in_order=in_order, fifo=fifo, native=native)

    def run(self) -> tuple[int, str, str, str] | None:
        """Return the first difference: the index of the operation, what was expected and what came."""
        for index, op in enumerate(self.case["ops"]):
            expected, found = outcome(self.expect, op), outcome(self.do, op)
            if self.wrong and op[0] == "query" and expected[0] == "value":
                expected = ("value", [expected[1]])
            if not agree(expected, found, self.agg.exact):
                return index, op[0], repr(expected), repr(found)
        return None

    def ends(self, start: Any, stop: Any) -> tuple[Any, Any]:
        """Return the times of the ends of a range."""
        return tuple(None if end is None else self.time(end) for end in (start, stop))

    def less(self, size: int) -> Any:
        """Return the function that says what a slide by size drops, and where its window starts."""
        first = self.case["times"] == "pair"

        def dropped(newest: Any, time: Any) -> Any:
            start = newest[0] - size if first else newest - self.size(size)
            if time is None:
                return (start, 0) if first else start
            return (time[0] if first else time) <= start

        return dropped

    def expect(self, op: tuple) -> Any:
        """Return the oracle's answer."""
        kind, oracle, rest = op[0], self.oracle, op[1:]
        if kind == "insert":
            return oracle.insert(self.time(rest[0]), rest[1])
        if kind == "insert_many":
            return oracle.insert_many(list(map(self.time, rest[0])), rest[1])
        if kind == "contains":
            return self.time(rest[0]) in oracle.values
        if kind == "evict":
            return oracle.evict(self.time(rest[0]))
        if kind == "evict_until":
            return oracle.evict_until(self.time(rest[0]), rest[1])
        if kind == "query":
            return oracle.query()
        if kind == "range":
            return oracle.query(*self.ends(*rest[:2]), rest[2])
        if kind == "items":
            return oracle.items(*self.ends(*rest[:2]), *rest[2:])
        if kind == "slide":
            times, values, size, count, at = rest
            return oracle.slide(list(map(self.time, times)), values, size and self.less(size), count, at)
        if kind == "ends":
            times = oracle.times
            return (len(times), times[0] if times else None, times[-1] if times else None, times, times[::-1])
        return None

    def do(self, op: tuple) -> Any:
        """Return what sash answers."""
        kind, w, rest = op[0], self.window, op[1:]
        if kind == "insert":
            return w.insert(self.time(rest[0]), rest[1])
        if kind == "insert_many":
            return w.insert_many(*self.batch(*rest))
        if kind == "contains":
            return self.time(rest[0]) in w
        if kind == "evict":
            return w.evict(self.time(rest[0]))
        if kind == "evict_until":
            return w.evict_until(self.time(rest[0]), inclusive=rest[1])
        if kind == "query":
            return w.query()
        if kind == "range":
            return w.query(*self.ends(*rest[:2]), closed=rest[2])
        if kind == "items":
            return list(w.items(*self.ends(*rest[:2]), closed=rest[2], reverse=rest[3]))
        if kind == "slide":
            size = None if rest[2] is None else self.size(rest[2])
            return listed(w.slide(*self.batch(*rest[:2]), size=size, count=rest[3], at=rest[4]), rest[4])
        if kind == "ends":
            return (len(w), w.oldest, w.newest, list(w), list(reversed(w)))
        return self.do_rest(op)

    def do_rest(self, op: tuple) -> None:
        """Copy the window and change the original, try a bad call, or check the invariants."""
        if op[0] == "check":
            self.window.check_invariants()
        elif op[0] == "bad":
            self.bad(op[1])
        else:
            old = self.window
            self.window = fork(old, op[1], self.monoid)
            if old != self.window:
                raise AssertionError(f"a window is not equal to its {op[1]}")
            if len(old):
                old.evict_until(old.newest)

    def batch(self, ticks: list[int], values: list) -> tuple[Any, Any]:
        """Return a batch as lists, or as columns where a column holds the same."""
        times, make_column = list(map(self.time, ticks)), COLUMNS[self.case["batch"]]
        if not ticks or self.case["values"] not in ("int", "float", "wild", "unfinite", "huge", "positive"):
            return times, values
        return make_column(times) if self.case["times"] in ("int", "float") else times, make_column(values)

    def bad(self, what: str) -> None:
        """Make a call that must be refused and must change nothing."""
        before = outcome(self.do, ("items", None, None, "both", False))
        if not len(self.window) and what in ("other time", "batch", "range"):
            return
        try:
            self.bad_call(what)
        except sash.SashError:
            pass
        else:
            raise AssertionError(f"{what} was accepted")
        if not agree(before, outcome(self.do, ("items", None, None, "both", False)), True):
            raise AssertionError(f"{what} changed the window")

    def bad_call(self, what: str) -> None:
        """Make the bad call itself."""
        w, time, some = self.window, self.time(0), value(Random(1), self.case["values"])
        other = self.time(1) if self.case["times"] != "text" else "x"
        strange = 1.5 if self.case["times"] not in ("float", "text") else (1, 2) if other != "x" else b"1"
        if what in ("bool time", "nan time", "none time"):
            w.insert({"b": True, "n": float("nan")}.get(what[0]) if what != "none time" else None, some)
        elif what in ("other time", "range"):
            w.insert(strange, some) if what == "other time" or self.case["structure"] in FIFO else w.query(strange)
        elif what == "closed":
            w.query(time, other, closed="all")
        elif what == "lengths":
            w.insert_many([w.newest or time] * 2, [some])
        elif what == "batch":
            w.insert_many([w.newest, w.newest, None], [some] * 3)
        elif what == "size":
            w.slide([w.newest or time], [some], count=0)
        elif self.case["agg"] in ("count", "concatenation") or self.case["values"] == "row":
            raise sash.ArgumentError("no value is bad for this one")
        else:
            w.insert(w.newest or time, None)


def monoid_source(case: dict) -> str:
    """Return the call that makes the monoid of a case."""
    agg = CATALOGUE[case["agg"]]
    return agg.call if case["agg"] in ("struct", "compiled") else agg.source()


def fork(window: Window, how: str, monoid: Monoid) -> Window:
    """Return the window after a copy or a round trip; what cannot be pickled is copied."""
    custom = not monoid.built_in
    if how == "bytes":
        return Window.from_bytes(window.to_bytes(), monoid if custom else None, allow_pickle=True)
    if how == "pickle" and not custom:
        return pickle.loads(pickle.dumps(window))
    return copy.deepcopy(window) if how == "deepcopy" else window.copy()


def listed(results: Any, at: str) -> Any:
    """Return the results of a slide as a list of plain values."""
    if at == "end":
        return results
    if isinstance(results, dict):
        columns = {name: listed(column, at) for name, column in results.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    whole = results.tolist()
    return [None if isinstance(row, tuple) and row and set(row) == {None} else row for row in whole]


def outcome(call: Any, op: tuple) -> tuple:
    """Return the value of a call, or the error that it raised, as a tuple to compare."""
    try:
        return ("value", call(op))
    except Expected as error:
        return ("error", error.name, error.index, error.results)
    except sash.SlideError as error:
        return ("error", type(error.__cause__).__name__, error.index, listed(error.results, "each"))
    except sash.InvariantError as error:
        return ("broken", str(error))
    except sash.SashError as error:
        return ("error", type(error).__name__, None, None)
    except Exception as error:
        return ("broken", repr(error))


def agree(expected: tuple, found: tuple, exact: bool) -> bool:
    """Return whether two outcomes are the same."""
    return len(expected) == len(found) and all(same(a, b, exact) for a, b in zip(expected, found, strict=True))


def run(case: dict, wrong: bool = False) -> str | None:
    """Return the first difference of a case in words, or None."""
    found = Runner(case, wrong).run()
    return None if found is None else f"operation {found[0]} ({found[1]}): expected {found[2]}, got {found[3]}"


def steps(case: dict) -> int:
    """Return the number of operations; a row of a batch is one."""
    return sum(len(op[1]) if op[0] in BATCHES else 1 for op in case["ops"])


def parts(case: dict) -> list[tuple]:
    """Return what can be left out: each operation, and each row of a batch."""
    rows = [(i, j) for i, op in enumerate(case["ops"]) if op[0] in BATCHES for j in range(len(op[1]))]
    return [("ops", i) for i in range(len(case["ops"]))] + [("row", *row) for row in rows]


def without(case: dict, gone: set) -> dict:
    """Return the case without some of its parts."""
    ops = []
    for i, op in enumerate(case["ops"]):
        if ("ops", i) not in gone and op[0] in BATCHES:
            kept = [j for j in range(len(op[1])) if ("row", i, j) not in gone]
            ops.append((op[0], [op[1][j] for j in kept], [op[2][j] for j in kept], *op[3:]))
        elif ("ops", i) not in gone:
            ops.append(op)
    return {**case, "ops": ops}


def reproduction(case: dict) -> str:
    """Return a script that runs the operations and prints the answers."""
    time, size, _ = TIMES[case["times"]]
    arguments = "".join(f", {name}={n!r}" for name, n in {"structure": case["structure"], **case["options"]}.items())
    lines = [PREAMBLE, f"w = Window({monoid_source(case)}{arguments})"]
    shown = {"query": "print(w.query())", "check": "w.check_invariants()", "ends": "print(list(w))"}
    for op in case["ops"]:
        kind, rest = op[0], op[1:]
        if kind in ("insert", "evict", "contains", "evict_until"):
            end = f", {describe(rest[1])}" if kind == "insert" else ""
            end = f", inclusive={rest[1]}" if kind == "evict_until" else end
            name = "__contains__" if kind == "contains" else kind
            lines.append(f"print(w.{name}({describe(time(rest[0]))}{end}))")
        elif kind in ("range", "items"):
            start, stop = (None if end is None else time(end) for end in rest[:2])
            call = f"({describe(start)}, {describe(stop)}, closed={rest[2]!r}"
            lines.append(
                f"print(list(w.items{call}, reverse={rest[3]})))" if kind == "items" else f"print(w.query{call}))"
            )
        elif kind in ("insert_many", "slide"):
            call = f"{describe(list(map(time, rest[0])))}, {describe(rest[1])}"
            if kind == "slide":
                call += f", size={describe(size(rest[2]))}" if rest[2] else f", count={rest[3]}"
                call += f", at={rest[4]!r}"
            lines.append(f"print(w.{kind}({call}))  # as {case['batch']}")
        else:
            lines.append(shown.get(kind, f"# {kind}: {rest}"))
    return "\n".join(lines)
