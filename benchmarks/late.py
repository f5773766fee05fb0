"""The cost of late rows, deletes and awaited deletes in a stream of one key, against the same rows in order.

Each case has two streams in one process, the case and the same stream in order, which take turns by groups of batches.
Ratios are those of the times per row. The earlier engine does the same in a separate process (`benchmarks.baseline`)
for the column "before"; only the figures of the current engine are claims.
"""

import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import baseline
from benchmarks.baseline import BASELINE, CURRENT, Spread
from benchmarks.streams import Rows, boundaries_of, digest, windows_of
from sash import KeyedWindows, monoids

Claim = tuple[str, float, float]

SIZE = 2**22
FILLED = 2**16  # rows per push while a window is filled
SMALL = {"size": 256, "batch": 100}  # the case that is compared with the oracle
PUSHES = 1_000


class Case(NamedTuple):
    """A load that is compared with the same load in order."""

    sentence: str
    bound: float
    words: dict[str, Any]
    pushes: int = 10  # per turn
    turns: int = baseline.TURNS
    total: bool = False  # the total of all turns counts, not their median: it includes rare events

    @property
    def before(self) -> int:
        """Return the pushes per turn of the earlier engine, which takes many times as long."""
        return max(1, self.pushes // 10)

    def small(self, size: int) -> dict[str, Any]:
        """Return the options of a small case that the oracle can follow."""
        words = {**self.words, **SMALL}
        for name in ("window", "every"):
            if words.get(name, 0) > 10:
                words[name] = words[name] * SMALL["size"] // size
        return words


def _cases(size: int) -> list[Case]:
    named = {"batch": 10_000, "deletes": 0.01, "named": True}
    found = []
    for emit, how in (("arrival", ""), ("final", ", final"), ("update", ", update, window of 10 rows")):
        window = 10 if emit == "update" else size
        for late, bound in ((0.01, 2.0), (0.10, 5.0)):
            words = {"batch": 10_000, "late": late, "emit": emit, "window": window}
            sentence = f"{late:.0%} late, batches of 10,000{how}, {PUSHES:,} pushes / in order"
            found.append(Case(sentence, bound, words, PUSHES // 20, 20, total=True))
    return [
        *found,
        Case("1% late, batches of 100 / in order", 1.5, {"batch": 100, "late": 0.01}, 200),
        Case("1% deletes, 1% of the window awaited / in order", 2.5, {**named, "awaited": 0.01}),
        Case(
            "1% deletes, every = window / 64, update / in order",
            3.0,
            {**named, "every": size // 64, "emit": "update"},
            pushes=13,  # 2^17 rows, nearly, so that two boundaries are reached in each turn
        ),
    ]


def claims(size: int = SIZE, chosen: str = "") -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    sides = baseline.available()
    found = []
    print(f"  window of {size} rows; ns per row of the case, in order, and their ratio (quartiles)", flush=True)
    for case in _cases(size):
        if chosen in case.sentence:
            found += _against_order(case, size, sides)
    if chosen in "one row":
        found += one_row(size, sides)
    if chosen in "a late event":
        found += late_events(sides)
    return found


def _against_order(case: Case, size: int, sides: list[str]) -> list[Claim]:
    with baseline.workers("benchmarks.late:Pair", sides, case.small(size), size=size, **case.words) as started:
        turns = {CURRENT: {"pushes": case.pushes}, BASELINE: {"pushes": case.before}}
        measured = baseline.alternate(started, case.turns, **turns)
    ratios = {side: _report(case, side, rows) for side, rows in measured.items()}
    return [(case.sentence, ratios[CURRENT], case.bound)]


def _report(case: Case, side: str, rows: list[list[float]]) -> float:
    """Print the measurements of a side and return its ratio."""
    late, in_order = (list(column) for column in zip(*rows, strict=True))
    ratios = Spread.of([a / b for a, b in rows])
    total = sum(late) / sum(in_order)
    parts = f"{Spread.of(late).text(digits=0):>24} {Spread.of(in_order).text(digits=0):>20} {ratios.text(digits=2):>22}"
    print(f"  {_side(side)}  {parts} all {total:6.2f}  {case.sentence}", flush=True)
    return total if case.total else ratios.median


def _side(side: str) -> str:
    return "today " if side == CURRENT else "before"


# --- a case and the same in order -----------------------------------------------------------------


class Pair:
    """Two streams of the same columns, one of which has late rows or deletes."""

    def __init__(self, size: int, batch: int, awaited: float = 0.0, **words: Any) -> None:
        self.case = Stream(size, batch, **words)
        self.in_order = Stream(size, batch, **{**words, "late": 0.0, "deletes": 0.0})
        for stream in (self.case, self.in_order):
            stream.fill(size)
        if awaited:
            self.case.push(self.case.rows.awaited(round(awaited * size)))
        self._turns = 0

    def turn(self, pushes: int) -> list[float]:
        """Return the nanoseconds per row of the case and of the stream in order, over some pushes each."""
        self._turns += 1
        both = [self.case, self.in_order]
        spent = {stream: stream.timed(pushes) for stream in (both if self._turns % 2 else both[::-1])}
        return [spent[stream] for stream in both]

    def answers(self) -> str:
        """Verify both streams of a small case, and return a hash of their results."""
        return " ".join(stream.verified(20) for stream in (self.case, self.in_order))


class Stream:
    """KeyedWindows without keys, and the rows pushed into it."""

    def __init__(
        self, size: int, batch: int, emit: str = "arrival", window: int = 0, every: int = 0, **words: Any
    ) -> None:
        self.rows = Rows(size, batch, keeps=size <= SMALL["size"], **words)
        gap = self.rows.gap
        self.emit, self.window, self.every = emit, (window or size) * gap, every * gap
        named = {"id": "id", "retract": "gone"} if self.rows.named else {}
        grid = {"every": self.every} if every else {}
        aggs = {"total": monoids.sum("x"), "top": monoids.max("x")}
        self.engine = KeyedWindows(
            keys=[], time="t", windows=[self.window], aggs=aggs, emit=emit, lateness=size * gap, **named, **grid
        )
        self.out: list[pa.Table] = []

    def fill(self, rows: int) -> None:
        """Push the first rows, in order."""
        while rows:
            self.push(self.rows.in_order(min(rows, FILLED)))
            rows -= min(rows, FILLED)

    def push(self, batch: pa.Table) -> pa.Table:
        """Push a batch; keep its results if they will be verified."""
        out = self.engine.push(batch)
        if self.rows.keeps:
            self.out.append(out)
        return out

    def timed(self, pushes: int) -> float:
        """Return the nanoseconds per row of the next batches."""
        spent, rows = 0, 0
        for _ in range(pushes):
            batch = self.rows.next()
            began = time.perf_counter_ns()
            self.engine.push(batch)
            spent += time.perf_counter_ns() - began
            rows += batch.num_rows
        if self.engine.metrics["late"]:
            raise SystemExit(f"{self.engine.metrics['late']} rows were too late; nothing was measured.")
        return spent / rows

    # --- verified

    def verified(self, pushes: int) -> str:
        """Push some batches, compare all results with the oracle, and return a hash of them."""
        if self.emit == "arrival":
            self._require_arrived(self.out[-1])
        for _ in range(pushes):
            out = self.push(self.rows.next())
            if self.emit == "arrival":
                self._require_arrived(out)
        if self.emit != "arrival":
            self.out.append(self.engine.flush())
            self._require_settled()
        if self.engine.metrics["late"]:
            raise SystemExit("rows of the small case were too late; nothing was measured.")
        return digest(self.out)

    def _require_arrived(self, out: pa.Table) -> None:
        """Compare the answers of a push with the contents of the windows after it."""
        ends = out["t"].to_numpy()
        self._require(out, windows_of(*self.rows.held(), ends, self.window))

    def _require_settled(self) -> None:
        """Compare the final results, the newest revision of each anchor."""
        every = pa.concat_tables(out.select([*self._anchor, *self._names, *self._marks]) for out in self.out)
        frame = every.to_pandas().drop_duplicates(self._anchor, keep="last").sort_values(self._anchor)
        if self._marks:
            frame = frame[~frame["deleted"]]
        found = pa.Table.from_pandas(frame, preserve_index=False)
        times, values = self.rows.held()
        ends = boundaries_of(times, self.window, self.every) if self.every else times
        if not np.array_equal(found[self._anchor[0]].to_numpy(), ends):
            raise SystemExit("anchors are missing in the small case; nothing was measured.")
        self._require(found, windows_of(times, values, ends, self.window, "left" if self.every else "right"))

    def _require(self, out: pa.Table, expected: tuple[Any, Any]) -> None:
        for name, wanted in zip(self._names, expected, strict=True):
            if not np.array_equal(out[name].to_numpy(), wanted):
                raise SystemExit(f"{name}, {self.emit}: a wrong answer in the small case; nothing was measured.")

    @property
    def _names(self) -> list[str]:
        return [f"total_{self.window}", f"top_{self.window}"]

    @property
    def _anchor(self) -> list[str]:
        return ["window_end"] if self.every else ["t"]

    @property
    def _marks(self) -> list[str]:
        return ["deleted"] if self.emit == "update" else []


# --- one late row in a separate batch -------------------------------------------------------------

NEAR, FAR = 2**4, 2**20


def one_row(size: int, sides: list[str]) -> list[Claim]:
    """One late row alone, with 2^4 or 2^20 rows after it: time in the core, and combines."""
    near, far = NEAR, min(FAR, size // 4)
    small = {"size": SMALL["size"], "distances": [near, 64]}
    with baseline.workers("benchmarks.late:OneRow", sides, small, size=size, distances=[near, far]) as started:
        measured = baseline.alternate(started)
    found: list[Claim] = []
    for side, rows in measured.items():
        ns, counts = ([[turn[what][d] for turn in rows] for d in (0, 1)] for what in ("ns", "combines"))
        spread = " ".join(Spread.of(column).text(digits=0) for column in ns)
        counted = "" if counts[0][0] is None else f", combines {np.mean(counts[0]):.1f} and {np.mean(counts[1]):.1f}"
        ratio = float(np.median(ns[1]) / np.median(ns[0]))
        print(f"  {_side(side)}  ns in the core for one late row, d = {near}, {far}: {spread}", end="")
        print(f", {ratio:.2f} x{counted}", flush=True)
        if side == CURRENT:
            found = [(f"one late row, d = {far} / {near}, time in the core", ratio, 15.0)]
            if counts[0][0] is not None:
                more = float(np.mean(counts[1]) / np.mean(counts[0]))
                found.append((f"one late row, d = {far} / {near}, combines", more, 4.0))
    return found


class OneRow:
    """A stream into which single late rows are pushed, alternately near and far."""

    def __init__(self, size: int, distances: list[int]) -> None:
        self.stream = Stream(size, 1)
        self.stream.fill(size)
        self.distances = distances
        self.clock = Clocked(self.stream.engine._stream.engine)
        self.stream.engine._stream.engine = self.clock

    def turn(self, pushes: int = 10) -> dict[str, list[float | None]]:
        """Return the medians of the nanoseconds in the core, and the mean of combines, at each distance."""
        spent: list[list[float]] = [[] for _ in self.distances]
        counted: list[list[int]] = [[] for _ in self.distances]
        for _ in range(pushes):
            for distance, ns, combines in zip(self.distances, spent, counted, strict=True):
                self._push(distance, ns, combines)
        means = [float(np.mean(combines)) if combines else None for combines in counted]
        return {"ns": [float(np.median(ns)) for ns in spent], "combines": means}

    def _push(self, distance: int, ns: list[float], combines: list[int]) -> None:
        # First push as many rows in order as the near distance, so that no other late row is among them.
        self.stream.push(self.stream.rows.in_order(min(self.distances)))
        row = self.stream.rows.one_late(distance)
        before, self.clock.ns = getattr(self.stream.engine, "combines", None), 0
        self.stream.push(row)
        ns.append(self.clock.ns)
        if before is not None:
            combines.append(self.stream.engine.combines - before)

    def answers(self) -> str:
        """Verify the answers of some late rows, and return a hash of them."""
        for _ in range(4):
            for distance in self.distances:
                self._push(distance, [], [])
                self.stream._require_arrived(self.stream.out[-1])
        return digest(self.stream.out)


class Clocked:
    """An engine of the core with every method timed.

    A push of one row spends most of its time in Python, on Arrow tables, and that share is the same at all distances.
    So only the time inside the core's own methods counts, minus the time of reading the clock.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.ns = 0
        empty = [-time.perf_counter_ns() + time.perf_counter_ns() for _ in range(1_000)]
        self._reading = int(np.median(empty))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the engine; methods are timed."""
        found = getattr(self._engine, name)
        if not callable(found):
            return found

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter_ns()
            result = found(*arguments, **named)
            self.ns += time.perf_counter_ns() - began - self._reading
            return result

        return timed


# --- a late event in update -----------------------------------------------------------------------


def late_events(sides: list[str]) -> list[Claim]:
    """An update by an event that changes ten anchors, with 2^12 and 2^18 rows stored, and by ones that change more."""
    cases = [(2**12, 10), (2**18, 10), (2**18, 5_000), (2**18, 50_000)]
    small = {"cases": [(SMALL["size"], 10), (SMALL["size"], 64)]}
    with baseline.workers("benchmarks.late:Updates", sides, small, cases=cases) as started:
        measured = baseline.alternate(started)
    for side, rows in measured.items():
        spreads = [Spread.of([row[i] for row in rows]) for i in range(len(cases))]
        small, large, some, many = (spread.median for spread in spreads)
        print(f"  {_side(side)}  a late event in update, ten anchors: {spreads[0].text()} µs of 2^12 rows, ", end="")
        print(f"{spreads[1].text()} of 2^18; 5,000 anchors {some:.0f}, 50,000 {many:.0f}", flush=True)
    return [
        ("a late event of ten anchors: 2^18 rows stored / 2^12", large / small, 1.2),
        ("a late event, 2^18 rows: 50,000 anchors / 5,000", many / some, 15.0),
    ]


class Updates:
    """Streams in "update"; late events in each change a fixed number of anchors."""

    def __init__(self, cases: list[tuple[int, int]]) -> None:
        self.anchors = [anchors for _, anchors in cases]
        self.streams = [Stream(size, 1, emit="update") for size, _ in cases]
        for stream, (size, _) in zip(self.streams, cases, strict=True):
            stream.fill(size)

    def turn(self) -> list[float]:
        """Return the median microseconds of an event in each stream."""
        return [float(np.median([self._late_us(i) for _ in range(5)])) for i in range(len(self.streams))]

    def _late_us(self, i: int) -> float:
        """Push as many rows in order as there should be anchors, then time an event just before them."""
        stream, anchors = self.streams[i], self.anchors[i]
        stream.push(stream.rows.in_order(anchors))
        late = stream.rows.one_late(anchors)
        began = time.perf_counter_ns()
        out = stream.push(late)
        spent = time.perf_counter_ns() - began
        if out.num_rows != anchors + 1:
            raise SystemExit(f"update: {out.num_rows} rows instead of {anchors + 1}; nothing was measured.")
        return spent / 1e3

    def answers(self) -> str:
        """Verify small streams, and return a hash of their results."""
        for i, stream in enumerate(self.streams):
            for _ in range(5):
                self._late_us(i)
            stream.out.append(stream.engine.flush())
            stream._require_settled()
        return " ".join(digest(stream.out) for stream in self.streams)
