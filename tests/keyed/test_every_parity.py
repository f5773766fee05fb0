"""The promise with every=: brute force, rolling, "final" and the last revisions of "update" agree, row for row.

Random events with common ties, disorder, cuts, watermarks and grids; aggregates that need order among them, and runs of
commutative ones alone, which are kept in panes. What the tests are about is counted, and the last one asserts it.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles.every import EveryOracle
from oracles.keyed import Aggregate, Row
from sash import KeyedWindows, rolling
from support.keyed_streams import (
    COMMUTATIVE,
    CUTS,
    EXACT,
    JITTER,
    ROUNDED,
    Pair,
    Push,
    agree,
    aimed,
    disordered,
    events,
    monoids_of,
    pure,
    pushes,
    rows_of,
    table_of,
    undone,
)

SEEN: Counter[str] = Counter()
RAN: set[str] = set()
PARITY: list[Callable[[], None]] = []


def parity(test: Callable[[], None]) -> Callable[[], None]:
    """Remember that a test of this page ran, so that the last one knows what has been counted."""
    PARITY.append(test)
    return test


# --- grids and streams ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Where results are: every so often, over windows of these sizes, shifted, and as coarse as asked for."""

    every: int
    sizes: tuple[int, ...]
    offset: int = 0
    resolution: int | None = None

    def words(self) -> dict[str, Any]:
        coarse = {} if self.resolution is None else {"resolution": self.resolution}
        return {"every": self.every, "offset": self.offset, **coarse}

    def sees(self, time: int) -> bool:
        return any((b - self.offset) % self.every == 0 for b in range(time + 1, time + max(self.sizes) + 1))


GRIDS = st.sampled_from(
    [
        Grid(5, (10,)),  # panes of 5
        Grid(4, (3, 8), 1),  # no multiple, panes of 1
        Grid(6, (10, 4), -2),  # panes of 2
        Grid(3, (2,)),  # shorter than the way between boundaries
        Grid(1, (5,)),
        Grid(4, (8, 2, 12), -13),
    ]
)
# A boundary is the end of a pane here, so that none is final before the panes that it sees are over.
COARSE = st.sampled_from([Grid(6, (10, 4), -2, 6), Grid(6, (4,), 1, 3), Grid(4, (7, 3), 0, 4), Grid(4, (8,), 0, 2)])

TIMES = st.integers(-10, 12)
FEW = st.integers(-2, 4)  # so that a delete often finds its insert
PLAIN = pushes(events(st.sampled_from([*range(-10, 13), None]), st.just(0), deletes=False))
IDENTIFIED = pushes(events(TIMES, st.integers(0, 3), deletes=False))
RETRACTED = pushes(events(FEW, st.integers(0, 1), deletes=True))
BLIND = pushes(events(FEW, st.just(0), deletes=True))
LATENESS = st.sampled_from([0, 2, 6, 30])
LATE = st.sampled_from(["drop", "emit"])
IN_PANES = COMMUTATIVE | ROUNDED
EXTREMES: dict[str, Aggregate] = {"top": ("max", "x"), "low": ("min", "x")}  # which many an event leaves as they were
AGGS = st.sampled_from([IN_PANES, EXACT | ROUNDED, EXTREMES])
TO_THE_BIT = st.sampled_from([COMMUTATIVE, EXACT, EXTREMES])  # so that one event for an equal one is no change at all

# --- an engine and its oracle ---------------------------------------------------------------------


class Counting(Pair):
    """A pair that remembers what its stream was about, and what "update" said last."""

    oracle: EveryOracle

    def __init__(self, grid: Grid, aggs: dict[str, Aggregate], **options: Any) -> None:
        super().__init__(aggs, grid.sizes, **grid.words(), **options)
        self.grid = grid
        self.latest: dict[tuple[Any, int], Row] = {}
        self.highest = 0

    def push(self, push: Push) -> tuple[list[Row], list[Row]]:
        reached = self.oracle.watermark
        got, wanted = super().push(push)
        times = [(row["k"], row["t"]) for row in push.rows if row["t"] is not None]
        SEEN["ties"] += len(times) - len(set(times))
        horizon = -99 if self.oracle.horizon is None else self.oracle.horizon
        accepted = [time for _, time in times if self.oracle.pane_end(time) > horizon]
        SEEN["late"] += len(times) - len(accepted)
        SEEN["in time by the pane alone"] += sum(time < horizon for time in accepted)
        SEEN["between windows"] += sum(not self.grid.sees(time) for time in accepted)
        SEEN["on a boundary"] += sum((time - self.grid.offset) % self.grid.every == 0 for time in accepted)
        if self.oracle.emit == "update":
            self.upsert([row for row in got if not row.get("late")], reached)
            behind = [time for time in accepted if reached is not None and time < reached - self.grid.every]
            SEEN["in silence"] += bool(behind) and not got
        return got, wanted

    def upsert(self, got: list[Row], reached: int | None) -> None:
        """Take the rows of one push, each of which must be newer than all before."""
        assert all(row["revision"] > self.highest for row in got)
        assert len({(row["k"], row["window_end"]) for row in got}) == len(got)
        for row in got:
            before = self.latest.get((row["k"], row["window_end"]))
            SEEN["revisions above 1"] += before is not None and not row["deleted"] and not before["deleted"]
            SEEN["deleted"] += row["deleted"]
            SEEN["full again"] += before is not None and before["deleted"]
            SEEN["behind the watermark"] += before is None and reached is not None and row["window_end"] <= reached
            self.latest[row["k"], row["window_end"]] = row
        self.highest = max((row["revision"] for row in got), default=self.highest)

    def flush(self) -> tuple[list[Row], list[Row]]:
        got, wanted = super().flush()
        if self.oracle.emit == "update":
            self.upsert(got, None)
        return got, wanted


def plainly(rows: Sequence[Row]) -> list[Row]:
    """Rows by key, boundary and what late rows have, without what only the engine knows."""

    def kept(row: Row) -> Row:
        dropped = {"revision", "deleted"} if row.get("late") else {"revision"}
        return {name: value for name, value in row.items() if name not in dropped}

    return sorted(
        map(kept, rows), key=lambda row: str([row[name] for name in ("k", "window_end", "t", "i") if name in row])
    )


def bare(rows: Sequence[Row], oracle: EveryOracle) -> list[Row]:
    """Results alone: keys, boundaries and values."""
    names = ["k", "window_end", *oracle.columns()]
    return plainly([{name: row[name] for name in names} for row in rows if not row.get("late")])


def ending(stream: list[Push], pair: Counting, aggs: dict[str, Aggregate]) -> list[Row]:
    """What a stream has said by its end, each push being what the oracle says."""
    everything: list[Row] = []
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(plainly(got), plainly(wanted), aggs)
        everything += got
    got, wanted = pair.flush()
    assert agree(plainly(got), plainly(wanted), aggs)
    assert pair.engine.metrics["live_rows"] == 0
    if pair.oracle.emit == "final":
        return everything + got
    assert pair.engine.metrics["deleted"] == pair.oracle.metrics["deleted"]
    return [row for row in pair.latest.values() if not row["deleted"]]


def follow(stream: list[Push], grid: Grid, aggs: dict[str, Aggregate], **options: Any) -> None:
    """Brute force = "final" = the last revisions of "update" = rolling, over what was accepted."""
    pairs = [Counting(grid, aggs, emit=emit, **options) for emit in ("final", "update")]
    final, update = (bare(ending(stream, pair, aggs), pair.oracle) for pair in pairs)
    oracle = pairs[0].oracle
    brute = bare(oracle.recomputed(), oracle)
    assert agree(final, brute, aggs)
    assert agree(update, brute, aggs)
    # Rolling has no ids: rows that stand in their order have it as their order of arrival.
    accepted = [event.row for event in (oracle.in_order(oracle.accepted) if oracle.id else oracle.accepted)]
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": list(grid.sizes), **grid.words()}
    offline = rolling(table_of(accepted), aggs=monoids_of(aggs), **asked)
    assert agree(bare(rows_of(offline), oracle), brute, aggs)
    SEEN["empty beside full"] += sum(row.get(f"n_{size}") == 0 for row in brute for size in grid.sizes)


# --- each push is what the oracle says, and all agree in the end ----------------------------------


@parity
@given(PLAIN, GRIDS, LATENESS, LATE, AGGS)
def test_plain_streams(stream, grid, lateness, late, aggs):
    """Without ids events of one time stand in the order of arrival; nulls, late rows and state on the way."""
    RAN.add("test_plain_streams")
    follow(stream, grid, aggs, lateness=lateness, late=late)


@parity
@given(PLAIN, GRIDS, LATENESS)
def test_streams_in_panes(stream, grid, lateness):
    """Commutative aggregates alone, which are kept in panes."""
    RAN.add("test_streams_in_panes")
    follow(stream, grid, IN_PANES, lateness=lateness)


@parity
@given(PLAIN, COARSE, LATENESS, LATE)
def test_streams_at_a_resolution(stream, grid, lateness, late):
    """Panes that do not divide the windows: every event counts as at its pane's start, in every engine."""
    RAN.add("test_streams_at_a_resolution")
    follow(stream, grid, IN_PANES, lateness=lateness, late=late)


@parity
@given(IDENTIFIED, GRIDS, LATENESS, LATE, AGGS)
def test_streams_with_ids(stream, grid, lateness, late, aggs):
    """Events of one time stand in the order of their ids, and a repeated insert counts once."""
    RAN.add("test_streams_with_ids")
    follow(stream, grid, aggs, lateness=lateness, late=late, id="i")


@parity
@given(RETRACTED, GRIDS, LATENESS, TO_THE_BIT)
def test_streams_with_retractions(stream, grid, lateness, aggs):
    """A delete wins over its insert whichever came first, and boundaries come and go."""
    RAN.add("test_streams_with_retractions")
    follow(undone(stream), grid, aggs, lateness=lateness, retract="gone", id="i")


@parity
@given(IDENTIFIED, GRIDS, st.sets(st.integers(0, 15)), st.sets(st.integers(0, 30), min_size=8))
def test_windows_that_become_empty_and_full_again(stream, grid, spared, again):
    """All but a few events go, and some come again under other ids."""
    RAN.add("test_windows_that_become_empty_and_full_again")
    rows = [row for push in stream for row in push.rows]
    gone = [{**row, "gone": True} for row in rows if row["row"] not in spared]
    back = [{**row, "i": row["i"] + 10} for row in gone if row["row"] in again]
    ends = [Push([], 12, False), Push(gone, 15, True), Push([{**row, "gone": False} for row in back], None, False)]
    follow([*stream, *ends], grid, EXACT, lateness=60, retract="gone", id="i")


@parity
@given(BLIND, GRIDS, LATENESS)
def test_deletes_without_ids(stream, grid, lateness):
    """A delete takes one equal event; of equal ones it cannot matter which, where order does not."""
    RAN.add("test_deletes_without_ids")
    follow(pure(stream), grid, COMMUTATIVE, lateness=lateness, retract="gone")


@parity
@given(st.lists(events(TIMES, st.just(0), deletes=False), max_size=40), GRIDS | COARSE, AGGS)
def test_rolling_in_its_order(rows, grid, aggs):
    """`rolling` gives keys in the order of their first row, and of each the boundaries ascending."""
    RAN.add("test_rolling_in_its_order")
    aggs = IN_PANES if grid.resolution else aggs
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    windows = {str(size): size for size in grid.sizes}
    oracle = EveryOracle(keys=["k"], time="t", windows=windows, aggs=aggs, **grid.words())
    got = rolling(table_of(rows), keys=["k"], time="t", windows=list(grid.sizes), aggs=monoids_of(aggs), **grid.words())
    assert agree(rows_of(got), oracle.rolled(rows), aggs)


# --- what must not matter -------------------------------------------------------------------------

IN_TIME = st.lists(events(TIMES, st.integers(0, 50), deletes=False), max_size=30)
WITHIN = st.sampled_from([1, 4, 12])


def streamed(
    rows: list[Row], cuts: list[int], grid: Grid, aggs: dict[str, Aggregate], emit: str = "final", **options: Any
) -> list[Row]:
    """What a stream cut at these places has said by its end: all of "final", or the last revisions of "update"."""
    live = options.pop("live", [])
    kw = KeyedWindows(
        keys=["k"], time="t", windows=list(grid.sizes), aggs=monoids_of(aggs), emit=emit, **grid.words(), **options
    )
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    out: list[Row] = []
    for start, stop in itertools.pairwise(edges):
        out += rows_of(kw.push(table_of(rows[start:stop])))
        live.append(kw.metrics["live_rows"])
    out += rows_of(kw.flush())
    assert kw.metrics["late"] == 0
    if emit == "update":
        latest = {(row["k"], row["window_end"]): row for row in sorted(out, key=lambda row: row["revision"])}
        out = [{**row, "deleted": None} for row in latest.values() if not row["deleted"]]
    return plainly([{name: value for name, value in row.items() if name != "deleted"} for row in out])


def deduplicated(rows: list[Row], *names: str) -> list[Row]:
    kept = {tuple(row[name] for name in names): row for row in rows}.values()
    return [aimed(row, [{}] * number) for number, row in enumerate(kept)]


@parity
@given(IN_TIME, JITTER, JITTER, CUTS, CUTS, WITHIN, GRIDS)
def test_order_of_arrival_does_not_matter_with_ids(rows, one, other, cuts, more_cuts, lateness, grid):
    """Permuting arrivals within lateness changes nothing in "final" and in the last revisions, whatever the cuts."""
    RAN.add("test_order_of_arrival_does_not_matter_with_ids")
    rows = deduplicated(rows, "k", "t", "i")
    orders = [disordered(rows, jitter, lateness) for jitter in (one, other)]
    SEEN["permuted"] += orders[0] != orders[1]
    options: dict[str, Any] = {"lateness": lateness, "id": "i"}
    final = streamed(orders[0], cuts, grid, EXACT, **options)
    assert streamed(orders[1], more_cuts, grid, EXACT, **options) == final
    assert streamed(orders[1], cuts, grid, EXACT, emit="update", **options) == final


@parity
@given(IN_TIME, JITTER, JITTER, CUTS, CUTS, WITHIN, GRIDS, st.booleans())
def test_order_of_arrival_does_not_matter_without_ids(rows, one, other, cuts, more_cuts, lateness, grid, distinct):
    """Without ids the same holds where the times of a key are distinct, and at any times in panes."""
    RAN.add("test_order_of_arrival_does_not_matter_without_ids")
    rows = deduplicated(rows, "k", "t") if distinct else deduplicated(rows, "k", "t", "i")
    aggs = EXACT if distinct else COMMUTATIVE
    orders = [disordered(rows, jitter, lateness) for jitter in (one, other)]
    final = streamed(orders[0], cuts, grid, aggs, lateness=lateness)
    assert streamed(orders[1], more_cuts, grid, aggs, lateness=lateness) == final
    assert streamed(orders[1], more_cuts, grid, aggs, emit="update", lateness=lateness) == final


@parity
@given(IN_TIME, JITTER, CUTS, CUTS, WITHIN, GRIDS, st.sampled_from([COMMUTATIVE, EXACT]))
def test_cuts_do_not_matter(rows, jitter, cuts, more_cuts, lateness, grid, aggs):
    """Splitting a batch changes nothing, ties without ids included."""
    RAN.add("test_cuts_do_not_matter")
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    arrived = disordered(rows, jitter, lateness)
    final = streamed(arrived, cuts, grid, aggs, lateness=lateness)
    assert streamed(arrived, more_cuts, grid, aggs, lateness=lateness) == final
    assert streamed(arrived, list(range(len(rows))), grid, aggs, lateness=lateness) == final
    assert streamed(arrived, list(range(len(rows))), grid, aggs, emit="update", lateness=lateness) == final
    SEEN["cuts"] += cuts != more_cuts


@parity
@given(IN_TIME, JITTER, CUTS, WITHIN, GRIDS, st.sampled_from(["final", "update"]))
def test_panes_do_not_matter(rows, jitter, cuts, lateness, grid, emit):
    """An aggregate that needs order has the events kept one by one, and the others answer the same."""
    RAN.add("test_panes_do_not_matter")
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    arrived = disordered(rows, jitter, lateness)
    panes: list[int] = []
    each: list[int] = []
    together = streamed(arrived, cuts, grid, IN_PANES, emit=emit, lateness=lateness, live=panes)
    singly = streamed(arrived, cuts, grid, IN_PANES | {"old": ("first", "x")}, emit=emit, lateness=lateness, live=each)
    SEEN["held together"] += sum(some < all_ for some, all_ in zip(panes, each, strict=True))
    names = list(together[0]) if together else []
    assert agree([{name: row[name] for name in names} for row in singly], together, IN_PANES)


@parity
@given(IN_TIME, JITTER, CUTS, WITHIN, GRIDS, st.sampled_from([1, -7, 2**40, 2**62, -(2**62)]))
def test_where_the_grid_stands_does_not_matter(rows, jitter, cuts, lateness, grid, by):
    """Times and offset shifted together shift the boundaries, and an offset is the same modulo every."""
    RAN.add("test_where_the_grid_stands_does_not_matter")
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    arrived = disordered(rows, jitter, lateness)
    away = [{**row, "t": row["t"] + by} for row in arrived]
    shifted = Grid(grid.every, grid.sizes, (grid.offset + by) % grid.every - 5 * grid.every)
    here = streamed(arrived, cuts, grid, COMMUTATIVE, lateness=lateness)
    there = streamed(away, cuts, shifted, COMMUTATIVE, lateness=lateness)
    moved = ("window_start", "window_end")
    back = [{name: value - by if name in moved else value for name, value in row.items()} for row in there]
    assert plainly(back) == here


# --- what it was about ----------------------------------------------------------------------------

WANTED = {
    "ties": 300,
    "late": 300,
    "in time by the pane alone": 20,
    "between windows": 50,
    "on a boundary": 300,
    "empty beside full": 100,
    "revisions above 1": 40,
    "behind the watermark": 20,
    "deleted": 40,
    "full again": 5,
    "in silence": 2,
    "held together": 5,
    "permuted": 2,
    "cuts": 5,
}


def test_what_these_tests_are_about_occurred():
    """Late rows, ties, revisions, deleted boundaries that came back and empty windows beside full ones came up."""
    # Under xdist the others may have run in another process: this one then runs them itself.
    for test in PARITY:
        if test.__name__ not in RAN:
            test()
    assert not {what: (SEEN[what], least) for what, least in WANTED.items() if SEEN[what] < least}
