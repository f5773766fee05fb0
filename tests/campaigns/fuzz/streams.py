"""Random streams through `KeyedWindows`, compared batch by batch with the oracle."""

from random import Random
from typing import Any

import pyarrow as pa

import sash
from campaigns.fuzz import tables
from campaigns.fuzz.aggregates import AGGREGATES
from campaigns.fuzz.oracle import same
from campaigns.fuzz.stream_oracle import Batch, StreamOracle
from campaigns.fuzz.values import PREAMBLE
from sash import KeyedWindows

BAD = ["no column", "text time", "watermark", "text value"]
COUNTED = ("rows_in", "bad_times", "bad_ids", "late")


def make(rng: Random) -> dict:
    """Return a random case: the definition of a stream, and its batches."""
    case = tables.definition(rng, rng.random() < 0.45)
    emits = ["final", "update", "update"] if case["every"] else ["arrival", "final", "update", "update"]
    case |= {
        "emit": rng.choice(emits),
        "lateness": rng.choice([0, 2, 5, 20]),
        "late": rng.choice(["drop", "drop", "emit"]),
        "id": rng.choice([None, None, "int", "text"]),
        "retract": rng.random() < 0.4,
        "resolution": None,
        "carry": False,
    }
    if case["every"] and not case["id"] and not case["retract"] and rng.random() < 0.3:
        case["resolution"] = rng.choice([n for n in (1, 2, 3, 6) if case["every"] % n == 0])
    case["carry"] = case["emit"] != "arrival" and not case["every"] and rng.random() < 0.3
    sizes = rng.choice([[0, 1, 3, 8, 25], [0, 1, 3, 8, 25], [0, 1, 2], [1, 120]])
    state = {
        "front": 0,
        "rows": [],
        "sizes": sizes,
        "spread": rng.choice([1, 5, 30]),
        "jump": rng.choice([0, 0.02, 0.2]),
    }
    case["ops"] = [operation(rng, case, state) for _ in range(rng.choice([2, 6, 20]))]
    case["flush"] = rng.random() < 0.8
    return case


def operation(rng: Random, case: dict, state: dict) -> tuple:
    """Return a random operation: mostly a batch."""
    what = rng.choices(["push", "save", "check", "drop", "bad"], [20, 2, 3, 1, 1])[0]
    if what == "drop":
        pane = case["resolution"] or case["every"] or 1
        return (what, (state["front"] - rng.randint(0, 30)) // pane * pane + (case["offset"] or 0))
    if what == "bad":
        return (what, rng.choice(BAD))
    if what != "push":
        return (what, rng.random() < 0.5) if what == "save" else (what,)
    rows = [row_of(rng, case, state) for _ in range(rng.choice(state["sizes"]))]
    state["rows"] += rows
    watermark = state["front"] - rng.randint(-3, 8) if rng.random() < 0.2 else None
    return (what, rows, watermark)


def row_of(rng: Random, case: dict, state: dict) -> dict:
    """Return a random row, or a delete or a repetition of an earlier one."""
    if state["rows"] and rng.random() < (0.25 if case["retract"] else 0.05):
        row = dict(rng.choice(state["rows"][-60:]))
        return {**row, "d": rng.random() < 0.8} if case["retract"] else row
    if rng.random() < 0.5:
        state["front"] += rng.choice([0, 1, 1, 2])
    if rng.random() < state["jump"]:
        state["front"] += rng.choice([10, 70])
    time = state["front"] - (rng.randint(0, state["spread"]) if rng.random() < 0.5 else 0)
    number = None if rng.random() < 0.02 else rng.randint(0, 3)
    row = {name: rng.choice(tables.KEYS[kind][0][:3]) for name, kind in case["keys"]}
    row["t"] = None if rng.random() < 0.02 else time
    row |= {name: tables.cell(rng, name) for name in tables.used(case)}
    row["id"] = number if case["id"] != "text" or number is None else f"i{number}"
    return {**row, "d": rng.choice([False, False, False, None]), "c": rng.choice(["p", "q", None])}


def arguments(case: dict) -> dict[str, Any]:
    """Return the arguments of `KeyedWindows`, without the aggregates."""
    more = {
        "emit": case["emit"],
        "lateness": tables.size(case, case["lateness"]),
        "late": case["late"],
        "id": "id" if case["id"] else None,
        "retract": "d" if case["retract"] else None,
        "carry": ["c"] if case["carry"] else (),
        "resolution": tables.size(case, case["resolution"]),
    }
    return {**tables.arguments(case), **{name: value for name, value in more.items() if value not in (None, ())}}


def batch_of(case: dict, rows: list[dict]) -> pa.Table:
    """Return the rows of a batch as an Arrow table."""
    table = tables.arrow(case, rows, ("d", "c"))
    return table.append_column("id", pa.array([row["id"] for row in rows], id_type(case)))


def id_type(case: dict) -> pa.DataType:
    """Return the type of the ids."""
    return pa.string() if case["id"] == "text" else pa.int64()


def at(case: dict, time: int | None) -> Any:
    """Return a time as an argument: a number, or a timestamp."""
    return time if time is None or case["unit"] == "int" else pa.scalar(time, pa.timestamp("s")).as_py()


class Runner:
    """Runs the operations of a case on `KeyedWindows` and on the oracle."""

    def __init__(self, case: dict, wrong: bool = False) -> None:
        self.case, self.wrong = case, wrong
        self.aggs = tables.made(case)
        self.stream = KeyedWindows(aggs=self.aggs, **arguments(case))
        self.oracle = StreamOracle(case)
        self.emitted = self.deleted = self.pushes = 0

    def run(self) -> str | None:
        """Return the first difference in words."""
        for index, op in enumerate([*self.case["ops"], *([("flush",)] if self.case["flush"] else [])]):
            try:
                found = self.step(op)
            except Exception as error:
                found = f"it raised {error!r}"
            if found:
                return f"operation {index} ({op[0]}): {found}"
        return None

    def step(self, op: tuple) -> str | None:
        """Run an operation; return a difference in words."""
        kind = op[0]
        if kind == "check":
            self.stream.check_invariants()
        elif kind == "save":
            pass_aggs = op[1] or not all(agg.built_in for agg in self.aggs.values())
            self.stream = KeyedWindows.from_bytes(self.stream.to_bytes(), self.aggs if pass_aggs else None)
        elif kind == "bad":
            return self.bad(op[1])
        elif kind == "drop":
            self.stream.drop_before(at(self.case, op[1]))
            self.oracle.drop_before(op[1])
        elif kind == "push":
            self.pushes += 1
            rows = [dict(row) for row in op[1]]
            found = self.stream.push(batch_of(self.case, rows), at(self.case, op[2]))
            return self.compare(self.oracle.push(rows, op[2]), found)
        else:
            return self.compare(self.oracle.flush(), self.stream.flush())
        return None

    def bad(self, what: str) -> str | None:
        """Push a batch that must be refused; what follows shows whether it changed anything."""
        row = {name: None for name, _ in self.case["keys"]} | dict.fromkeys([*tables.used(self.case), "d", "c"])
        table, watermark = batch_of(self.case, [{**row, "t": 10**6, "id": None}]), None
        if what == "no column":
            table = table.drop_columns(["t"])
        elif what == "watermark":
            watermark = "soon"
        else:
            name = "t" if what == "text time" else "x"
            table = table.set_column(table.column_names.index(name), name, pa.array(["late"]))
        if what == "text value" and (not self.pushes or not self.reads("x")):
            return None  # text can be aggregated, or is not read
        try:
            self.stream.push(table, watermark)
        except sash.SashError:
            return None
        return f"a bad batch was accepted: {what}"

    def reads(self, column: str) -> bool:
        """Return whether an aggregate reads a column."""
        return any(column in columns for _, (_, columns) in self.case["aggs"])

    def compare(self, expected: Batch, table: pa.Table) -> str | None:
        """Return a difference between what is due and what came."""
        found = tables.ticks(self.case, table)
        if self.wrong and expected.must:
            expected.must[-1]["values"] = {("wrong", 0): 1}
        if self.case["emit"] == "arrival":
            problem = self.compare_ordered(expected.must, found)
        else:
            problem = self.compare_groups(expected, found)
        return problem or self.compare_columns(table.column_names) or self.compare_metrics(found)

    def compare_ordered(self, expected: list[dict], found: list[dict]) -> str | None:
        """Compare rows in the order of the batch."""
        if len(expected) != len(found):
            return f"expected {len(expected)} rows, got {len(found)}: {plain(expected)} and {found}"
        for result, row in zip(expected, found, strict=True):
            if not self.matches(result, row):
                return f"expected {plain([result])}, got {row}"
        return None

    def compare_groups(self, expected: Batch, found: list[dict]) -> str | None:
        """Compare rows in any order: all that must come, and no other than those that may."""
        groups: dict[tuple, tuple[list, list, list]] = {}
        for result in expected.must:
            groups.setdefault(self.group(result), ([], [], []))[0].append(result)
        for result in expected.may:
            groups.setdefault(self.group(result), ([], [], []))[1].append(result)
        for row in found:
            groups.setdefault(self.found_group(row), ([], [], []))[2].append(row)
        for group, (must, may, rows) in groups.items():
            rest = list(rows)
            for result in must:
                match = next((row for row in rest if self.matches(result, row)), None)
                if match is None:
                    return f"{group}: expected {plain(must)}, got {rows}"
                rest.remove(match)
            for row in rest:
                match = next((result for result in may if self.matches(result, row)), None)
                if match is None:
                    return f"{group}: did not expect {row} besides {plain(must)}"
                may.remove(match)
        return None

    def group(self, result: dict) -> tuple:
        """Return what rows are compared by: key, time or boundary, and id."""
        by_id = result["row"]["id"] if self.case["id"] and not self.case["every"] else None
        return (repr(result["key"]), result["at"], by_id)

    def found_group(self, row: dict) -> tuple:
        """Return the same of a row that came."""
        time = row["window_end"] if self.case["every"] and not row.get("late") else row["t"]
        shows_id = self.case["id"] and not self.case["every"]
        return (
            repr(tables.key_of(self.case, row)),
            ("late", time) if row.get("late") else time,
            row["id"] if shows_id else None,
        )

    def matches(self, result: dict, row: dict) -> bool:
        """Return whether a row that came is an expected result."""
        case, is_late = self.case, isinstance(result["at"], tuple)
        if row.get("late", False) != is_late or row.get("deleted", False) != result.get("deleted", False):
            return False
        if case["emit"] == "update" and row["revision"] != self.oracle.number:
            return False
        if not self.matches_row(result, row, is_late):
            return False
        for name, (agg, _) in case["aggs"]:
            for n in case["windows"]:
                value = None if result["values"] is None else result["values"].get((name, n), "wrong")
                if not same(value, row[tables.label(case, name, n)], AGGREGATES[agg].exact, strict=False):
                    return False
        return True

    def matches_row(self, result: dict, row: dict, is_late: bool) -> bool:
        """Return whether the columns that are not results are right."""
        case = self.case
        if case["every"] and not is_late:
            return row["window_start"] == result["at"] - case["windows"][0]
        names = ["t"]
        if case["emit"] == "arrival":
            names += [*tables.used(case), "d", "c", "id"]
        if case["carry"] and not result.get("deleted"):
            names.append("c")
        return all(same(result["row"][name], row[name]) for name in names)

    def compare_columns(self, names: list[str]) -> str | None:
        """Compare the names of the columns."""
        case = self.case
        if not names and (not self.pushes or case["emit"] == "arrival"):
            return None  # nothing was pushed, or nothing since the state was restored, so no column is known
        expected = [name for name, _ in case["keys"]]
        if case["emit"] == "arrival":
            expected += ["t", *tables.used(case), "d", "c", "id"]
        elif case["every"]:
            expected += ["window_end", "window_start"]
            names = [name for name in names if case["late"] != "emit" or name not in ("t", "id")]
        else:
            expected += ["t", *(["id"] if case["id"] else []), *(["c"] if case["carry"] else [])]
        expected += [tables.label(case, name, n) for name, _ in case["aggs"] for n in case["windows"]]
        expected += ["revision", "deleted"] if case["emit"] == "update" else []
        expected += ["late"] if case["late"] == "emit" else []
        return None if set(names) == set(expected) else f"expected columns {expected}, got {names}"

    def compare_metrics(self, found: list[dict]) -> str | None:
        """Compare the counters that the documentation defines."""
        self.emitted += sum(not row.get("late") for row in found)
        self.deleted += sum(bool(row.get("deleted")) for row in found)
        names = [
            *COUNTED,
            *(["repeated"] if self.case["id"] and not self.case["retract"] and not self.case["every"] else []),
        ]
        names += ["unmatched"] if self.case["retract"] and not self.case["id"] and not self.case["every"] else []
        expected = {name: self.oracle.metrics[name] for name in names}
        expected |= {"emitted": self.emitted, "deleted": self.deleted}
        metrics = {name: self.stream.metrics[name] for name in expected}
        return None if metrics == expected else f"expected the metrics {expected}, got {metrics}"


def plain(results: list[dict]) -> list:
    """Return results in a form that is short to read."""
    return [{"at": r["at"], "values": r["values"], "deleted": r.get("deleted", False)} for r in results]


def run(case: dict, wrong: bool = False) -> str | None:
    """Return the first difference of a case in words, or None."""
    try:
        runner = Runner(case, wrong)
    except Exception as error:
        return f"it raised {error!r}"
    return runner.run()


def steps(case: dict) -> int:
    """Return the number of rows pushed, and one for each other operation."""
    return sum(len(op[1]) if op[0] == "push" else 1 for op in case["ops"])


def parts(case: dict) -> list[tuple]:
    """Return what can be left out: operations, rows, aggregates, windows and keys."""
    found: list[tuple] = [("ops", i) for i in range(len(case["ops"]))]
    found += [("row", i, j) for i, op in enumerate(case["ops"]) if op[0] == "push" for j in range(len(op[1]))]
    return found + [(what, i) for what in ("aggs", "windows", "keys") for i in range(len(case[what]))]


def without(case: dict, gone: set) -> dict:
    """Return the case without some of its parts."""
    smaller = {**tables.without({**case, "rows": []}, gone), "ops": []}
    for i, op in enumerate(case["ops"]):
        if ("ops", i) in gone:
            continue
        rows = [row for j, row in enumerate(op[1]) if ("row", i, j) not in gone] if op[0] == "push" else None
        smaller["ops"].append(op if rows is None else (op[0], rows, op[2]))
    return smaller


def reproduction(case: dict) -> str:
    """Return a script that pushes the batches and prints what comes."""
    more = {k: v for k, v in arguments(case).items() if k not in tables.arguments(case)}
    lines = [PREAMBLE.replace("import datetime\n", "import datetime\nfrom decimal import Decimal\n")]
    words = [tables.call_source(case), *(f"{k}={v!r}" for k, v in more.items())]
    lines.append(f"kw = KeyedWindows({', '.join(words)})")
    for op in [*case["ops"], *([("flush",)] if case["flush"] else [])]:
        lines += source(case, op)
    return "\n".join(lines)


def source(case: dict, op: tuple) -> list[str]:
    """Return an operation as lines of source."""
    if op[0] == "push":
        table = tables.table_source(case, op[1], ("d", "c"))
        ids = f"pa.array({[row['id'] for row in op[1]]}, '{id_type(case)}')"
        return [
            f"batch = {table}.append_column('id', {ids})",
            f"print(kw.push(batch, {at(case, op[2])!r}).to_pylist())",
        ]
    if op[0] == "save":
        return ["kw = KeyedWindows.from_bytes(kw.to_bytes())"]
    if op[0] == "bad":
        return [f"# a bad batch: {op[1]}"]
    if op[0] == "drop":
        return [f"kw.drop_before({at(case, op[1])!r})"]
    return ["kw.check_invariants()" if op[0] == "check" else "print(kw.flush().to_pylist())"]
