"""Millions of steps of windows and of the keyed engine, each answer compared with that of plain lists.

`make steps` runs it, with `STEPS=10000000`. A step is an operation on a window, or a row of a batch. Concatenation
stands for all monoids in windows, affine functions of slope 1 and -1 in the keyed engine: neither commutes, both are
exact, so that a row that is lost, doubled or misplaced shows. Nodes are tiny, and everything that is stored is checked
on the way. The oracles share no code with the engine.
"""

import argparse
import multiprocessing
import random
import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sash import KeyedWindows, Monoid, monoids
from sash.keyed import definition
from support.structures import STRUCTURES, Structure

CHECKED_EVERY = 50  # steps of a window
CASE_STEPS = 4_000
SPAN = 300  # of times in a window


class Difference(AssertionError):
    """An answer that is not the oracle's."""


def equal(got: Any, wanted: Any, what: Any) -> None:
    if got != wanted:
        raise Difference(f"{what}: got {got!r}, expected {wanted!r}")


# --- windows --------------------------------------------------------------------------------------


class Letters:
    """A window of letters as a sorted list of times and a dict."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.words: dict[int, str] = {}

    def insert(self, time: int, letter: str) -> None:
        if time not in self.words:
            insort(self.times, time)
        self.words[time] = self.words.get(time, "") + letter

    def evict(self, time: int) -> bool:
        if time not in self.words:
            return False
        self.times.remove(time)
        del self.words[time]
        return True

    def evict_until(self, time: int) -> int:
        gone = self.times[: bisect_right(self.times, time)]
        for one in gone:
            self.evict(one)
        return len(gone)

    def query(self, start: int | None = None, stop: int | None = None, closed: str = "both") -> str:
        sides = {"both": (bisect_left, bisect_right), "left": (bisect_left, bisect_left)}
        sides |= {"right": (bisect_right, bisect_right), "neither": (bisect_right, bisect_left)}
        first, last = sides[closed]
        low = 0 if start is None else first(self.times, start)
        high = len(self.times) if stop is None else last(self.times, stop)
        return "".join([self.words[time] for time in self.times[low:high]])


def concatenation() -> Monoid:
    return Monoid(identity="", combine=lambda a, b: a + b, name="concatenation")


def run_window(structure: Structure, rng: random.Random) -> int:
    """Run one window through random operations; return how many."""
    window, oracle = structure.window(concatenation()), Letters()
    newest, late, full = 0, rng.choice([0, 2, 20, SPAN]), rng.randint(1, SPAN)
    for step in range(CASE_STEPS):
        drawn = rng.random()
        if drawn < (0.7 if len(oracle.times) < full else 0.3):
            newest += rng.choice([0, 1, 1, 2])
            at = newest if structure.in_order else max(newest - int(late * rng.random() ** 2), 0)
            letter = rng.choice("abcdefgh")
            window.insert(at, letter)
            oracle.insert(at, letter)
        elif drawn < 0.75 and oracle.times:
            at = oracle.times[0] if not structure.evicts_anywhere else rng.choice([oracle.times[0], newest, newest - 9])
            equal(window.evict(at), oracle.evict(at), f"evict({at})")
        elif drawn < 0.78 and oracle.times:
            at = oracle.times[min(rng.randrange(12), len(oracle.times) - 1)]
            equal(window.evict_until(at), oracle.evict_until(at), f"evict_until({at})")
        elif drawn < 0.88 and structure.ranges:
            start, stop = (newest - rng.randrange(SPAN) for _ in range(2))
            closed = rng.choice(["both", "left", "right", "neither"])
            if start <= stop:
                found = window.query(start, stop, closed=closed)
                equal(found, oracle.query(start, stop, closed), f"query({start}, {stop}, {closed})")
        else:
            equal(window.query(), oracle.query(), "query()")
        if step % CHECKED_EVERY == 0:
            window.check_invariants()
            equal(list(window.items()), [(at, oracle.words[at]) for at in oracle.times], "items()")
    return CASE_STEPS


def windows(seed: int) -> Iterator[Counter[str]]:
    """Yield the steps of one window after the other."""
    rng = random.Random(f"windows {seed}")
    while True:
        for structure in STRUCTURES:
            yield Counter({structure.label(): run_window(structure, rng)})


# --- the keyed engine -----------------------------------------------------------------------------

SIZES = (8, 40)
LATENESS = 30
AGGS = {
    "n": monoids.count(),
    "total": monoids.sum("x"),
    "new": monoids.last("x"),
    "f": monoids.affine("a", "b"),
}
Event = tuple[int, int, int, float, float]  # time, id, x, a, b


class Events:
    """The events of every key as sorted lists, by the rules of docs/rolling.md."""

    def __init__(self) -> None:
        self.of: dict[str, list[Event]] = defaultdict(list)
        self.known: dict[tuple[str, int, int], bool] = {}  # is it deleted?
        self.newest = self.horizon = -(10**9)

    def push(self, rows: list[tuple[str, Event, bool]]) -> set[str]:
        """Apply a batch; return the keys that it touched."""
        self.horizon = max(self.horizon, self.newest - LATENESS)
        kept = [row for row in rows if row[1][0] >= self.horizon]
        self.newest = max([self.newest, *(event[0] for _, event, _ in kept)])
        gone = {(key, *event[:2]) for key, event, deleted in kept if deleted}
        for key, at, number in gone:
            if self.known.get((key, at, number)) is False:
                self.of[key] = [event for event in self.of[key] if event[:2] != (at, number)]
            self.known[key, at, number] = True
        for key, event, deleted in kept:
            if not deleted and (key, *event[:2]) not in self.known:
                self.known[key, *event[:2]] = False
                insort(self.of[key], event)
        return {key for key, _, _ in kept}

    def results(self, key: str) -> dict[tuple[int, int], tuple[Any, ...]]:
        """The results of all events of a key that can still change."""
        events = self.of[key]
        times = [event[0] for event in events]
        found, answers = {}, {}
        for event in events[bisect_left(times, self.horizon) :]:
            at = event[0]
            if at not in answers:
                high = bisect_right(times, at)
                folds = [fold(events[bisect_right(times, at - size) : high]) for size in SIZES]
                answers[at] = tuple(value for values in zip(*folds, strict=True) for value in values)
            found[event[:2]] = answers[at]
        return found

    def forget(self) -> None:
        """Drop what nothing can ask for any more."""
        oldest = self.horizon - max(SIZES)
        self.known = {one: gone for one, gone in self.known.items() if one[1] >= oldest}
        for key, events in self.of.items():
            self.of[key] = [event for event in events if event[0] >= oldest]


def fold(events: list[Event]) -> tuple[Any, ...]:
    slope, shift = 1.0, 0.0
    for _, _, _, a, b in events:
        slope, shift = a * slope, a * shift + b
    return len(events), sum(event[2] for event in events), events[-1][2], (slope, shift)


def batch_of(rng: random.Random, clock: int, made: list[tuple[str, Event]], keys: int) -> list[tuple[str, Event, bool]]:
    """A batch: mostly in order, some late, some twice, some deletes of what was made."""
    rows = []
    for _ in range(rng.choice([1, 5, 60, 200])):
        if made and rng.random() < 0.06:
            key, event = made[-1 - int(len(made) * rng.random() ** 3)]
            rows.append((key, event, rng.random() < 0.7))
            continue
        late = int(1.3 * LATENESS * rng.random()) if rng.random() < 0.1 else 0
        event = (clock + rng.randrange(8) - late, rng.randrange(4), rng.randrange(-9, 10))
        whole = (*event, rng.choice((1.0, -1.0)), rng.randrange(-40, 40) / 4)
        rows.append((f"k{int(keys * rng.random() ** 2)}", whole, False))
        made.append((rows[-1][0], whole))
    return rows


def table_of(rows: list[tuple[str, Event, bool]]) -> pa.Table:
    columns = list(zip(*((key, *event, gone) for key, event, gone in rows), strict=True))
    types = [pa.string(), *[pa.int64()] * 3, *[pa.float64()] * 2, pa.bool_()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["k", "t", "i", "x", "a", "b", "gone"])


def read(out: pa.Table, sink: dict[str, dict[tuple[int, int], tuple[Any, ...]]]) -> None:
    """Apply results to a sink, as an upsert would."""
    names = [f"{agg}_{size}" for agg in AGGS for size in SIZES]
    values = zip(*(out[name].to_pylist() for name in names), strict=True)
    gone = out["deleted"].to_pylist() if "deleted" in out.column_names else [False] * out.num_rows
    for key, at, number, deleted, row in zip(*(out[name].to_pylist() for name in "kti"), gone, values, strict=True):
        if deleted:
            sink[key].pop((at, number), None)
        else:
            sink[key][at, number] = tuple(tuple(v.values()) if isinstance(v, dict) else v for v in row)


def run_keyed(emit: str, rng: random.Random) -> int:
    """Run a stream of batches; return how many rows."""
    definition.NODE_SIZES = rng.choice([(2, 4), (3, 5), (8, 8)])
    kw = KeyedWindows(
        keys=["k"], time="t", windows=list(SIZES), aggs=AGGS, id="i", retract="gone", emit=emit, lateness=LATENESS
    )
    oracle, clock, steps = Events(), 0, 0
    made: list[tuple[str, Event]] = []
    sink: dict[str, dict[tuple[int, int], tuple[Any, ...]]] = defaultdict(dict)
    keys = rng.choice([1, 4, 30])
    while steps < CASE_STEPS:
        rows = batch_of(rng, clock, made, keys)
        clock, steps = clock + rng.choice([0, 1, 4, 9]), steps + len(rows)
        before = {key: oracle.results(key) for key in list(oracle.of)} if emit == "final" else {}
        read(kw.push(table_of(rows)), sink)
        touched = oracle.push(rows)
        if emit == "update":
            for key in touched:
                wanted = oracle.results(key)
                got = {one: sink[key].get(one) for one in sink[key] if one[0] >= oracle.horizon}
                equal(got, wanted, (key, "after", steps))
        else:  # what the horizon has passed, as it was before this batch
            for key, results in before.items():
                wanted = {one: values for one, values in results.items() if one[0] < oracle.horizon}
                equal(sink.pop(key, {}), wanted, (key, "final after", steps))
        kw.check_invariants()
        oracle.forget()
        del made[: -8 * 200]
        for key in sink:
            sink[key] = {one: values for one, values in sink[key].items() if one[0] >= oracle.horizon}
    return steps


def keyed(seed: int) -> Iterator[Counter[str]]:
    """Yield the steps of one stream after the other."""
    rng = random.Random(f"keyed {seed}")
    while True:
        for emit in ("update", "final"):
            yield Counter({f"keyed {emit}": run_keyed(emit, rng)})


# --- the campaign ---------------------------------------------------------------------------------


def work(job: int, seed: int, share: float, counts: Any) -> None:
    """Run cases until told to stop: of each kind, so that it has its share of the steps."""
    kinds = {"windows": windows(seed * 1000 + job), "keyed": keyed(seed * 1000 + job)}
    done = dict.fromkeys(kinds, 0)
    while True:
        kind = "keyed" if done["keyed"] <= share * sum(done.values()) else "windows"
        try:
            steps = next(kinds[kind])
        except AssertionError as error:
            counts.put(f"{kind}, seed {seed}, job {job}, after {done[kind]} steps: {error}")
            return
        done[kind] += sum(steps.values())
        counts.put(steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keyed", type=float, default=0.2, help="the share of steps of the keyed engine")
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    counts = context.Queue()
    for job in range(chosen.jobs):
        context.Process(target=work, args=(job, chosen.seed, chosen.keyed, counts), daemon=True).start()
    done, began, said = Counter[str](), time.monotonic(), 0.0
    while sum(done.values()) < chosen.steps:
        found = counts.get()
        if isinstance(found, str):
            sys.exit(found)
        done += found
        if time.monotonic() - said > 20:
            said = time.monotonic()
            print(f"{said - began:6.0f} s  {sum(done.values()):,} steps, 0 differences", flush=True)
    for name, steps in done.items():
        print(f"{name:20} {steps:12,}")
    print(f"{sum(done.values()):,} steps in {time.monotonic() - began:.0f} s, 0 differences")


if __name__ == "__main__":
    main()
