"""Kinds of windows under faults: whatever fails, what is committed is what KeyedWindows says in one process.

The log keeps what windows of rows need, and the aggregate of what has expired where one is unbounded. It is rewritten
often here, so that a delete that left without its insert would bring the insert back.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.keyed import Row
from sash import KeyedWindows
from sash.errors import CorruptStateError
from sash.keyed.spec import Spec
from sash.spark.stream import log
from sash.spark.stream.cache import Cache
from sash.spark.stream.change import change_from
from sash.spark.stream.initial_state import history_schema
from sash.spark.stream.packing import END
from support.buckets import streams
from support.buckets.cluster import Play
from support.buckets.history import initial_of, unset_revision
from support.buckets.history import seed as seed_play
from support.buckets.trial import (
    COMMUTATIVE,
    LONG_AGO,
    ORDERED,
    PYTHON,
    TICK_US,
    Asking,
    Upserts,
    duration,
    rows_of,
    unordered,
)

SEEN: Counter[str] = Counter()
PLAYS: list[Callable[[], None]] = []
FEW = settings(max_examples=settings().max_examples // 2)
SEEDS = st.integers(0, 2**16)
DELAYS = st.sampled_from([0, 1, 3])
LATENESS = st.sampled_from([0, 2, 6, 30])
EMIT = st.sampled_from(["arrival", "final", "update"])
LATER = st.sampled_from(["final", "update"])
CLOSED = st.sampled_from(["right", "left", "both", "neither"])
IDLE = st.sampled_from([4, 15, 60])
MIN_ROWS = st.sampled_from([None, None, 2])
ROWS = st.sampled_from(["1 row", "2 rows", "3 rows", "7 rows"])
SPAN = st.sampled_from([duration(3), duration(8)])
ANY = st.lists(ROWS | SPAN | st.sampled_from(["unbounded", "day to date"]), min_size=1, max_size=3, unique=True)
COUNTED = st.lists(ROWS | st.just("unbounded"), min_size=1, max_size=2, unique=True)
ON_GRID = st.lists(
    ROWS | SPAN | st.just("unbounded"), min_size=1, max_size=3, unique=True
)  # a day has millions of ticks
NATIVE = COMMUTATIVE | ORDERED


@pytest.fixture(autouse=True)
def short_logs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "LIVE_RECORDS", 4)
        patch.setattr(log, "SURPLUS_ROWS", 2)
        yield


@dataclass(frozen=True, kw_only=True)
class Kinds(Asking):
    """The arguments of a stream with windows of any kind."""

    windows: tuple[str, ...] = ("3 rows",)
    idle: int | None = 15
    min_rows: int | None = None
    zone: str | None = None

    def engine_words(self) -> dict[str, Any]:
        more = {
            "idle": None if self.idle is None else duration(self.idle),
            "min_rows": self.min_rows,
            "zone": self.zone,
        }
        given = {name: value for name, value in more.items() if value is not None}
        if not any("row" in window or window == "unbounded" for window in self.windows):
            given.pop("idle", None)
        if "day to date" not in self.windows:
            given.pop("zone", None)
        return super().engine_words() | {"windows": list(self.windows)} | given


class Pair:
    """A play of Spark and KeyedWindows, pushed side by side and compared after every micro-batch."""

    def __init__(self, asking: Kinds, seed: int, delay_ms: int = 0) -> None:
        self.asking = asking
        self.play = Play(asking.plan(), seed=seed, delay_ms=delay_ms)
        self.engine = KeyedWindows(**asking.engine_words())
        self.upserts = (Upserts(asking), Upserts(asking))
        self.least = LONG_AGO  # the watermark that the engine has at least
        self.continued = False  # the play has not seen all that the engine has

    def begin(self, history: Sequence[Row]) -> None:
        """Start the play after a history, which the engine takes as a micro-batch."""
        self.continued = True
        table = self.asking.table(history).select(history_schema(self.play.plan).names)
        initial = initial_of(self.play, table)
        assert initial == initial_of(self.play, table)
        seed_play(self.play, initial)
        times = [row["t"] for row in history if row["t"] is not None and row["i"] is not None]
        watermark_ms = max(times, default=0) * TICK_US // 1000 - self.play.delay_ms
        reached = watermark_ms * 1000 // TICK_US if watermark_ms > 0 else LONG_AGO
        for rows, self.least in ((history, LONG_AGO), ([], reached)):
            watermark = np.datetime64(self.least * TICK_US, "us")
            said = rows_of(self.engine.push(self.asking.table(rows), watermark=watermark))
            if self.asking.emit == "update":
                self.upserts[0].take([unset_revision(row) for row in said])
                self.upserts[1].take(said)

    def batch(self, rows: Sequence[Row], marker: bool = False) -> tuple[list[Row], list[Row]]:
        wm = self.play.watermark_ms
        ticks = max(self.least, wm * 1000 // TICK_US if wm > 0 else LONG_AGO)
        table = fed = self.asking.table(rows)
        newest = max((row["t"] * TICK_US for row in rows if row["t"] is not None), default=None)
        if marker:
            end = {**dict.fromkeys(table.column_names), "t": END}
            fed, newest = pa.concat_tables([table, pa.Table.from_pylist([end], schema=table.schema)]), END
        mine = rows_of(self.play.batch(fed.select(self.play.plan.schema.names), newest))
        own = rows_of(self.engine.push(table, watermark=np.datetime64(ticks * TICK_US, "us")))
        if self.asking.emit == "update":
            for upserts, said in zip(self.upserts, (mine, own), strict=True):
                upserts.take(said)
            assert self.upserts[0].left() == self.upserts[1].left()
        else:
            assert unordered(mine) == unordered(own)
        return mine, own

    def end(self) -> None:
        """Let the watermark pass everything: all is given, and nothing is left."""
        self.batch([], marker=True)
        self.batch([])
        assert self.play.empty()
        assert self.engine.metrics["live_rows"] == 0
        names = ["late"]
        if not self.continued:
            names += ["rows_in", "bad_times", "bad_ids", *([] if self.asking.emit == "update" else ["emitted"])]
        assert {name: self.play.counts[name] for name in names} == {name: self.engine.metrics[name] for name in names}
        SEEN.update({name: self.play.counts[name] for name in ("hits", "catch_ups", "rebuilds", "merges", "late")})
        SEEN.update({name: self.play.counts[name] for name in ("deleted", "revised", "emitted")})
        SEEN.update(self.play.seen)


def followed(stream: streams.Stream, seed: int, delay_ms: int, **options: Any) -> None:
    pair = Pair(Kinds(**options), seed, delay_ms)
    for rows in stream:
        pair.batch(rows)
    pair.end()


def play(test: Callable[..., None]) -> Callable[[], None]:
    PLAYS.append(test)
    return test


# --- a result for each row ------------------------------------------------------------------------


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, CLOSED, ANY, IDLE, MIN_ROWS)
def test_distinct_times(batches, seed, delay, emit, lateness, closed, windows, idle, min_rows):
    """Windows of all kinds in one definition, with aggregates for which order matters."""
    options = {"emit": emit, "lateness": lateness, "closed": closed, "aggs": NATIVE}
    options |= {"windows": tuple(windows), "idle": idle, "min_rows": min_rows, "zone": "America/New_York"}
    followed(streams.distinct(batches), seed, delay, **options)


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, CLOSED, ROWS, IDLE, st.sampled_from([int, str]))
def test_rows_with_ids_and_deletes(batches, seed, delay, emit, lateness, closed, rows, idle, ids):
    """Rows of one time are told apart by their ids; deletes shift which rows are in a window."""
    options = {"emit": emit, "lateness": lateness, "closed": closed, "ids": ids, "retract": True}
    options |= {"windows": (rows, duration(3)), "idle": idle, "aggs": NATIVE | PYTHON, "carry": ("c",)}
    followed(streams.identified(batches, ids, deletes=True), seed, delay, **options)


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, CLOSED, COUNTED, IDLE)
def test_everything_so_far_with_deletes(batches, seed, delay, emit, lateness, closed, windows, idle):
    """What has expired is one aggregate, in the log too."""
    options = {"emit": emit, "lateness": lateness, "closed": closed, "ids": int, "retract": True}
    options |= {"windows": ("unbounded", *[one for one in windows if one != "unbounded"]), "idle": idle}
    followed(streams.identified(batches, int, deletes=True), seed, delay, aggs=NATIVE, **options)


# --- a result for each boundary -------------------------------------------------------------------


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, LATER, LATENESS, ON_GRID, IDLE, st.sampled_from([3, 4, 6]), MIN_ROWS)
def test_boundaries(batches, seed, delay, emit, lateness, windows, idle, every, min_rows):
    """On a grid too, where windows that count bring no boundaries of their own."""
    options = {"emit": emit, "lateness": lateness, "every": every, "aggs": NATIVE, "ids": int, "retract": True}
    options |= {"windows": tuple(windows), "idle": idle, "min_rows": min_rows}
    followed(streams.identified(batches, int, deletes=True), seed, delay, **options)


# --- after a history ------------------------------------------------------------------------------


@play
@FEW
@given(streams.BATCHES, st.integers(0, 5), SEEDS, DELAYS, EMIT, LATENESS, COUNTED, IDLE)
def test_after_a_history(batches, cut, seed, delay, emit, lateness, windows, idle):
    """The state after a history has what windows need of it, as if it had been the first micro-batch."""
    options = {"emit": emit, "lateness": lateness, "ids": int, "retract": True, "aggs": NATIVE}
    pair = Pair(Kinds(**options, windows=tuple(windows), idle=idle), seed, delay)
    stream = streams.identified(batches, int, deletes=True)
    pair.begin([row for rows in stream[:cut] for row in rows])
    for rows in stream[cut:]:
        pair.batch(rows)
    pair.end()


# --- another definition ---------------------------------------------------------------------------

SOME = {"n": ("count",), "s": ("sum", "x")}
BEFORE = Kinds(emit="update", windows=("5 rows", "unbounded", duration(6)), idle=1000, lateness=2, aggs=SOME)


def changed(**other: Any) -> tuple[list[str], list[Row]]:
    """Change the definition of a stream, and return what stands in the way, or else what the next row brings."""
    play = Play(BEFORE.plan(), seed=3, delay_ms=0)
    for time in range(10, 40):
        play.batch(BEFORE.table([row(time, time)]).select(play.plan.schema.names), time * TICK_US)
    plan = replace(BEFORE, **other).plan()
    heads = [log.Head.from_bytes(store.committed.head) for store in play.stores.values() if store.committed.head]
    obstacles = [text for head in heads for text in change_from(plan, head.definition).obstacles(head)]
    play.plan, play.caches = replace(plan, probe=play._probe), [Cache() for _ in play.caches]
    if obstacles:
        with pytest.raises(CorruptStateError, match="cannot be changed to this one"):
            play.batch(BEFORE.table([row(40, 40)]).select(plan.schema.names), None)
        return obstacles, []
    return [], rows_of(play.batch(BEFORE.table([row(40, 40)]).select(plan.schema.names), None))


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        ({"windows": ("6 rows", "unbounded")}, "window 6rows needs rows that have expired: they are stored for 5rows"),
        ({"windows": (duration(9),)}, f"window {duration(9)} needs rows that have expired"),
        ({"windows": ("day to date",)}, "window day_to_date needs rows that have expired"),
        (
            {"aggs": {"n": ("count",)}},
            "what has expired for an unbounded window is one result of the aggregates before",
        ),
        ({"idle": 999}, 'idle is "499500us", was "500000us", and cannot change'),
        ({"closed": "both"}, 'closed is "both", was "right", and cannot change'),
    ],
)
def test_what_the_state_cannot_answer_is_refused(other, obstacle):
    obstacles, _ = changed(**other)
    assert obstacles
    assert obstacles[0].startswith(obstacle)


def test_fewer_rows_and_no_longer_everything():
    """A window that counts fewer rows, and one that is gone; the aggregates may change then."""
    _, said = changed(windows=("2 rows", "5 rows"), aggs=SOME | {"top": ("max", "x")})
    assert [(one["t"], one["n_2rows"], one["s_5rows"], one["top_2rows"]) for one in said] == [
        *[(time, 2, sum(at for at in range(time - 4, time + 1)), time) for time in range(36, 41)]
    ]


def test_everything_so_far_stays_where_the_rest_changes():
    """Another number of rows that there must be, and the same aggregate of what has expired."""
    _, said = changed(min_rows=3, windows=("unbounded", "2 rows"))
    assert [(one["t"], one["n_unbounded"], one["n_2rows"]) for one in said] == [
        *[(time, time - 9, None) for time in range(36, 41)]
    ]


def test_boundaries_of_a_span_that_is_gone_are_deleted():
    """What brought them was the span; the window that counts, and what it knew of other aggregates, brings none."""
    before = replace(BEFORE, every=3, windows=("unbounded", duration(12)), ids=int, lateness=20)
    play = Play(before.plan(), seed=3, delay_ms=0)
    for time in (*range(10, 21, 2), *range(30, 39, 2)):
        play.batch(before.table([row(time, time)]).select(play.plan.schema.names), time * TICK_US)
    after = replace(before, windows=(duration(3),), idle=None, aggs={"low": ("min", "x")})
    play.plan, play.caches = replace(after.plan(), probe=play._probe), [Cache() for _ in play.caches]
    said = rows_of(play.batch(after.table([row(60, 60)]).select(play.plan.schema.names), 60 * TICK_US))
    said += rows_of(play.batch(after.table([]).select(play.plan.schema.names), None))
    assert {one["window_end"] for one in said if one["deleted"]} == {24, 27, 30}
    assert {one["window_end"] for one in said if not one["deleted"]} == {18, 21, 33, 36, 39}


# --- named cases ----------------------------------------------------------------------------------


def row(time: int, id: int, *, gone: bool = False) -> Row:
    return {"k": "a", "t": time, "x": id, "a": 1.0, "b": 1.0, "c": "", "gone": gone, "i": id}


@pytest.mark.parametrize("windows", [("3 rows",), ("unbounded",), ("3 rows", "unbounded")], ids=" and ".join)
@pytest.mark.parametrize("seed", range(4))
def test_what_was_deleted_does_not_come_back(windows, seed):
    """A key with fewer rows than its window counts: rewriting drops a delete together with its insert, or neither.

    The rows are in records of their own, and workers lose their memory at every micro-batch.
    """
    aggs = {"n": ("count",), "s": ("sum", "x")}
    pair = Pair(Kinds(emit="final", windows=windows, idle=10**6, ids=int, retract=True, aggs=aggs), seed)
    pair.batch([row(10, 1)])
    pair.batch([row(12, 2), row(10, 1, gone=True)])
    for time in range(14, 40, 2):
        pair.play.caches = [Cache() for _ in pair.play.caches]
        pair.batch([row(time, time), row(time, time, gone=True)])
    mine, _ = pair.batch([row(60, 60)])
    mine, _ = [*mine, *pair.batch([row(70, 70)])[0]], None
    pair.end()
    assert pair.play.counts["merges"] > 0


def test_a_log_stays_as_short_as_what_is_needed():
    """A thousand rows of one key, of which the last three are needed; none of them is older than the idle time."""
    pair = Pair(Kinds(emit="final", windows=("3 rows",), idle=10**6, ids=int), 1)
    stored = []
    for time in range(10, 400):
        pair.batch([row(time, time)])
        heads = [
            log.Head.from_bytes(store.committed.head) for store in pair.play.stores.values() if store.committed.head
        ]
        stored.append(sum(entry.rows for head in heads for entry in head.entries))
    assert max(stored) < 40
    assert pair.engine.metrics["live_rows"] < 10


def test_a_key_is_forgotten_once_it_has_been_idle():
    """Its rows leave the state, and what comes later starts from nothing."""
    asking = Kinds(emit="arrival", windows=("unbounded", "5 rows"), idle=20, aggs={"n": ("count",)})
    pair = Pair(asking, 3)
    pair.batch([row(10, 1), row(11, 2)])
    pair.batch([row(40, 3) | {"k": "b"}])
    pair.batch([row(80, 4) | {"k": "b"}])
    pair.batch([])
    assert pair.engine.metrics["live_keys"] == 1
    said, _ = pair.batch([row(81, 5)])
    assert [(one["n_unbounded"], one["n_5rows"]) for one in said] == [(1, 1)]
    pair.end()


def test_idle_is_required_where_windows_count():
    """A stream could not forget any key; in one process that is the caller's business."""
    with pytest.raises(ValueError, match="idle must be set"):
        Spec.of(**replace(Kinds(), idle=None).engine_words()).require_streamable()
    KeyedWindows(**replace(Kinds(), idle=None).engine_words())


def test_what_these_tests_are_about_occurred():
    """Faults, rebuilds, late rows, deletes and revisions."""
    for test in PLAYS:
        if not SEEN["emitted"]:
            test()
    least = {"hits": 20, "catch_ups": 5, "rebuilds": 20, "merges": 20, "late": 20, "deleted": 5, "revised": 5}
    assert not {what: (SEEN[what], count) for what, count in least.items() if SEEN[what] < count}
