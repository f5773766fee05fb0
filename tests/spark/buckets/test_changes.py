"""Definitions that change while a stream runs: what comes after is what the new one would have said from the beginning.

The play of Spark changes its definition between two micro-batches, as a restart does, with tasks that fail before and
after. A stream in this process has the last definition from the beginning. Results that were not final at the change
must be equal in the end; what came after it must be right; and what can't be answered is refused before anything runs.
"""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructField, StructType, TimestampType

from oracles.keyed import Row
from sash import KeyedWindows, monoids
from sash.errors import CorruptStateError
from sash.keyed.horizon import Grid
from sash.keyed.spec import Spec
from sash.spark.stream import log
from sash.spark.stream.bucket_ids import buckets_of
from sash.spark.stream.cache import Cache
from sash.spark.stream.change import change_from, require_answerable
from sash.spark.stream.log import Head
from sash.spark.stream.packing import END, pack
from sash.spark.stream.query import plan_of
from support.buckets import streams
from support.buckets.cluster import Play, packed_of
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
ALL = COMMUTATIVE | ORDERED | PYTHON | {"more": ("sum", "a"), "low": ("min", "b"), "any": ("count", "b")}
SEEDS = st.integers(0, 2**16)
DELAYS = st.sampled_from([0, 1, 3])
LATENESS = st.sampled_from([0, 2, 6])
EMIT = st.sampled_from(["arrival", "final", "update"])
LATER = st.sampled_from(["final", "update"])
SIZES = st.sampled_from([(3, 8), (8, 3), (8,), (3,), (5, 8, 2), (12, 4)])
GRID_SIZES = st.sampled_from([(4, 12), (12, 4), (12,), (6,), (3, 9), (4,)])
AGGS = st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=5, unique=True)
PANES = COMMUTATIVE | {"more": ("sum", "a"), "low": ("min", "b"), "any": ("count", "b")}
PLAIN_AGGS = st.lists(st.sampled_from(sorted(PANES)), min_size=1, max_size=4, unique=True)


@pytest.fixture(autouse=True)
def few_records():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "LIVE_RECORDS", 4)
        yield


@dataclass
class Draft:
    """A change on its way: before which micro-batch, and to what."""

    at: int
    aggs: list[str]
    sizes: tuple[int, ...]
    emit: str


def drafts(aggs: Any, sizes: Any, emit: Any) -> Any:
    return st.lists(st.builds(Draft, st.integers(1, 9), aggs, sizes, emit), min_size=1, max_size=2)


class Changing:
    """A play whose definition changes."""

    def __init__(self, asking: Asking, seed: int, delay_ms: int) -> None:
        self.asking = asking
        self.play = Play(asking.plan(), seed=seed, delay_ms=delay_ms)
        self.before: dict[Any, Row] = {}  # what a table shows that was kept up to the last change
        self.after: list[Row] = []
        self.horizon = LONG_AGO
        self.was_arrival = False
        self.fed: list[tuple[pa.Table, int]] = []  # rows that were in time, and watermarks
        self.late_before = LONG_AGO * TICK_US
        self.changed_at = 0

    def change(self, asking: Asking) -> bool:
        """Continue with another definition, unless the state of some bucket cannot answer it."""
        plan = asking.plan()
        heads = [Head.from_bytes(store.committed.head) for store in self.play.stores.values() if store.committed.head]
        try:
            for head in heads:
                if head.fingerprint != plan.fingerprint:
                    assert require_answerable(plan, head).differences()
        except CorruptStateError:
            SEEN["refused"] += 1
            return False
        SEEN["changes"] += 1
        SEEN["older forms"] += sum(len(head.definitions) > 1 for head in heads)
        self.before = self.shown()
        self.was_arrival = self.was_arrival or self.asking.emit == "arrival"
        self.asking, self.after, self.changed_at = asking, [], len(self.fed)
        self.play.plan = replace(plan, probe=self.play._probe)
        self.play.caches = [Cache() for _ in self.play.caches]
        if self.fed:
            self.horizon = self.fed[-1][1] - asking.lateness
        return True

    def batch(self, rows: Sequence[Row], marker: bool = False) -> None:
        watermark = self.play.watermark_ms
        ticks = watermark * 1000 // TICK_US if watermark > 0 else LONG_AGO
        table = self.asking.table(rows)
        self.fed.append((self.in_time(table, watermark), ticks))
        newest = max((row["t"] * TICK_US for row in rows if row["t"] is not None), default=None)
        if marker:
            end = {**dict.fromkeys(table.column_names), "t": END}
            table, newest = pa.concat_tables([table, pa.Table.from_pylist([end], schema=table.schema)]), END
        self.after += rows_of(self.play.batch(table.select(self.play.plan.schema.names), newest))

    def in_time(self, table: pa.Table, watermark_ms: int) -> pa.Table:
        """The rows that are not late by the panes of the current definition: those of a later one may be longer."""
        grid = self.play.plan.definition.grid(self.play.plan.spec)
        if watermark_ms > 0:
            self.late_before = max(self.late_before, watermark_ms * 1000 - self.asking.lateness * TICK_US)
        if not isinstance(grid, Grid):
            return table
        times = table["t"].cast(pa.int64())
        ends = [None if t is None else t - (t - grid.pane_offset) % grid.pane + grid.pane for t in times.to_pylist()]
        return table.filter(pa.array([end is None or end > self.late_before for end in ends], pa.bool_()))

    def shown(self) -> dict[Any, Row]:
        """What a table shows: the latest row of each anchor, with what earlier definitions said of other columns."""
        latest = dict(self.before)
        for row in self.after:
            place = self.place(row)
            if row.get("revision", 0) >= latest.get(place, {}).get("revision", 0) or "revision" not in row:
                latest[place] = {**latest.get(place, {}), "deleted": False, **row}
        return latest

    def place(self, row: Row) -> Any:
        return tuple(row[name] for name in Upserts(self.asking).anchor)

    def deleted_in_silence(self) -> set[Any]:
        """Rows that "arrival" emitted and that were deleted before the change: it says nothing of deletes."""
        if not (self.was_arrival and self.asking.retract and self.asking.ids):
            return set()
        rows = [row for table, _ in self.fed[: self.changed_at] for row in rows_of(table) if row["gone"]]
        return {self.place(row) for row in rows} - {self.place(row) for row in self.after}

    def is_final(self, row: Row) -> bool:
        return row["window_end"] <= self.horizon if self.asking.every else row["t"] < self.horizon


def reference_of(changing: Changing) -> tuple[list[Row], list[Row]]:
    """What a stream says that had the last definition from the beginning: up to the last change, and after it."""
    engine = KeyedWindows(**changing.asking.engine_words())
    said: tuple[list[Row], list[Row]] = ([], [])
    for number, (table, ticks) in enumerate(changing.fed):
        out = rows_of(engine.push(table, watermark=np.datetime64(ticks * TICK_US, "us")))
        said[number >= changing.changed_at].extend(out)
    return said


def follow(asking: Asking, stream: streams.Stream, changes: list[Draft], seed: int, delay: int) -> None:
    """Run a stream through changes, and compare."""
    SEEN[sys._getframe(1).f_code.co_name] += 1
    changing = Changing(asking, seed, delay)
    for number, rows in enumerate(stream):
        for draft in changes:
            if draft.at == number:
                aggs = {name: ALL[name] for name in draft.aggs}
                changing.change(replace(changing.asking, aggs=aggs, sizes=draft.sizes, emit=draft.emit))
        changing.batch(rows)
    changing.batch([], marker=True)
    changing.batch([])
    assert changing.play.empty()
    compare(changing)


def compare(changing: Changing) -> None:
    emit = changing.asking.emit
    early, late = reference_of(changing)
    names = [*Upserts(changing.asking).anchor, *result_columns(changing.asking)]
    if emit == "update":
        assert max(Counter((changing.place(row), row["revision"]) for row in changing.after).values(), default=1) == 1
        wanted = {changing.place(row): row for row in [*early, *late]}
        silent = changing.deleted_in_silence()
        got = {place: row for place, row in changing.shown().items() if place not in silent}
        pending = [[row for row in rows.values() if live(row) and not changing.is_final(row)] for rows in (got, wanted)]
        assert table_of(pending[0], names) == table_of(pending[1], names)
        after = {changing.place(row): row for row in changing.after}  # revisions come in their order
        said = [[row for place, row in rows.items() if place in after and live(row)] for rows in (after, wanted)]
        assert table_of(said[0], names) == table_of(said[1], names)
        SEEN["compared"] += len(pending[1])
        SEEN["emptied"] += sum(not live(row) and place not in wanted for place, row in after.items())
        return
    every = {tuple(row) for row in map(repr_of, table_of([*early, *late], names))}
    after = [tuple(row) for row in map(repr_of, table_of(changing.after, names))]
    if emit == "arrival":  # a row comes once, as of its micro-batch
        assert sorted(after) == sorted(tuple(row) for row in map(repr_of, table_of(late, names)))
        return
    assert set(after) <= every
    assert len(after) == len(set(after))
    assert {tuple(row) for row in map(repr_of, table_of(late, names))} <= set(after)
    SEEN["compared"] += len(after)


def live(row: Row) -> bool:
    return not row["deleted"]


def result_columns(asking: Asking) -> list[str]:
    return [f"{name}_{duration(size)}" for name in asking.aggs for size in asking.sizes]


def table_of(rows: Sequence[Row], names: Sequence[str]) -> list[Any]:
    return unordered([{name: unsigned(row[name]) for name in names} for row in rows])


def unsigned(value: Any) -> Any:
    """A value without the sign of a zero: a result that changes only that is not revised."""
    if isinstance(value, tuple):
        return tuple(map(unsigned, value))
    return value + 0.0 if isinstance(value, float) else value


def repr_of(row: Any) -> Any:
    return [repr(cell) for cell in row]


# --- rows -----------------------------------------------------------------------------------------


@given(streams.BATCHES, drafts(AGGS, SIZES, EMIT), SEEDS, DELAYS, EMIT, LATENESS, SIZES)
def test_rows_of_distinct_times(batches, changes, seed, delay, emit, lateness, sizes):
    """Aggregates and windows come and go, and emission changes."""
    asking = Asking(aggs=ALL, sizes=sizes, emit=emit, lateness=lateness)
    follow(asking, streams.distinct(batches), changes, seed, delay)


@given(streams.BATCHES, drafts(AGGS, SIZES, EMIT), SEEDS, DELAYS, EMIT, LATENESS, st.sampled_from([int, str]))
def test_rows_with_deletes(batches, changes, seed, delay, emit, lateness, ids):
    """The same with ids, repeats and deletes."""
    asking = Asking(aggs=ALL, sizes=(3, 12), emit=emit, lateness=lateness, ids=ids, retract=True)
    follow(asking, streams.identified(batches, ids, deletes=True), changes, seed, delay)


# --- boundaries -----------------------------------------------------------------------------------


@given(streams.BATCHES, drafts(PLAIN_AGGS, GRID_SIZES, LATER), SEEDS, DELAYS, LATER, LATENESS)
def test_panes(batches, changes, seed, delay, emit, lateness):
    """Records of panes are taken apart, and panes become longer."""
    asking = Asking(aggs=PANES, sizes=(4, 12), emit=emit, lateness=lateness, every=6)
    follow(asking, streams.plain(batches), changes, seed, delay)


@given(streams.BATCHES, drafts(AGGS, GRID_SIZES, LATER), SEEDS, DELAYS, LATER, LATENESS, st.booleans())
def test_boundaries_of_rows(batches, changes, seed, delay, emit, lateness, deletes):
    """Rows are stored one by one, or become panes."""
    asking = Asking(aggs=ALL, sizes=(12, 4), emit=emit, lateness=lateness, every=3, ids=int, retract=deletes)
    follow(asking, streams.identified(batches, int, deletes), changes, seed, delay)


@given(streams.BATCHES, st.integers(2, 9), SEEDS, st.sampled_from([6, 30]), st.booleans())
def test_windows_that_become_smaller(batches, at, seed, lateness, deletes):
    """Boundaries that only the largest window reached are deleted with it."""
    asking = Asking(aggs=ALL, sizes=(12, 3), emit="update", lateness=lateness, every=3, ids=int, retract=deletes)
    change = Draft(at, ["n", "top"], (3,), "update")
    follow(asking, streams.identified(batches, int, deletes), [change], seed, 0)


# --- what an adversarial reading found ------------------------------------------------------------


def row(time: int, x: int, carried: str = "", b: float = 1.0, gone: bool = False) -> Row:
    return {"k": "a", "t": time, "x": x, "a": 1.0, "b": b, "c": carried, "gone": gone}


def test_ties_without_ids_all_come_again():
    """A step that adds a row of their key and time says nothing newer of them."""
    asking = Asking(aggs={"s": ("sum", "x")}, sizes=(12,), emit="update", lateness=6, carry=("c",))
    changing = Changing(asking, 1, 0)
    changing.batch([row(10, 1, "r1"), row(10, 2, "r2")])
    changing.batch([row(11, 5, "r3")])
    assert changing.change(replace(asking, aggs={"s": ("sum", "x"), "top": ("max", "x")}))
    changing.batch([row(10, 0, "new")])
    assert sorted((said["t"], said["c"], said["top_6000us"]) for said in changing.after) == [
        *[(10, "new", 2), (10, "r1", 2), (10, "r2", 2), (11, "r3", 5)]
    ]


def test_differences_are_told_as_calls_and_lateness_alone_is_one():
    """One process compares with two definitions that differ in nothing that matters to the state."""
    asking = Asking(aggs={"s": ("sum", "x")}, emit="update", lateness=4)
    plan = replace(asking, aggs={"s": ("sum", "b")}, lateness=6).plan()
    definitions = [replace(asking, lateness=ticks).plan().stored_plain for ticks in (4, 5, 6)]
    said = [change_from(plan, definition).differences() for definition in definitions]
    aggregate = "aggregate s is sum('b'), was sum('x')"
    assert said == [
        ['lateness is "3000us", was "2000us"', aggregate],
        ['lateness is "3000us", was "2500us"', aggregate],
        [aggregate],
    ]


@pytest.mark.parametrize(("sizes", "replays"), [((12,), 1), ((3,), 2)])
def test_a_changed_bucket_reads_its_log_once_and_once_more_where_windows_become_smaller(monkeypatch, sizes, replays):
    """The second is for boundaries that only the largest window reached."""
    asking = Asking(aggs=COMMUTATIVE, sizes=(12, 3), emit="update", every=3, ids=int)
    changing, read = Changing(asking, 1, 0), Counter()
    changing.batch([row(10, 1) | {"i": 1}])
    changing.batch([row(11, 1) | {"i": 2}])
    tables = log.Log.tables

    def counted(self: log.Log, start: int) -> Any:
        read["log"] += 1
        return tables(self, start)

    monkeypatch.setattr(log.Log, "tables", counted)
    assert changing.change(replace(asking, sizes=sizes))
    play = changing.play
    rows = changing.asking.table([row(13, 1) | {"i": 3}]).select(play.plan.schema.names)
    packed = packed_of([list(pack(play.plan, iter(rows.to_batches())))])
    play.task(packed, packed)
    assert read["log"] == replays


def in_two_buckets(time: int) -> tuple[Changing, str]:
    """A stream by "final" with rows of two keys in different buckets, then one of the second by "update"."""
    asking = Asking(aggs={"n": ("count",)}, sizes=(30,), emit="final")
    changing = Changing(asking, 1, 0)
    first, second = one_key_for_each(changing.play.plan)[:2]
    changing.batch([row(time, 1) | {"k": first}, row(20, 1) | {"k": second}])
    changing.batch([])
    assert changing.change(replace(asking, emit="update"))
    changing.batch([row(21, 1) | {"k": second}])
    return changing, first


def one_key_for_each(plan: Any) -> list[str]:
    """A key of each bucket."""
    keys = pa.table({"k": [f"key {number}" for number in range(100)]})
    numbers = buckets_of(keys, ["k"], plan.buckets).tolist()
    return [keys["k"][numbers.index(bucket)].as_py() for bucket in range(plan.buckets)]


def test_a_bucket_that_missed_a_change_says_what_it_waits_for():
    """From "final" to "update" and on to "arrival": it was never touched between, and has a row to emit."""
    changing, first = in_two_buckets(20)
    arrival = replace(changing.asking, emit="arrival")
    assert not changing.change(arrival)
    heads = [Head.from_bytes(store.committed.head) for store in changing.play.stores.values() if store.committed.head]
    (behind,) = [head for head in heads if head.definition["words"]["emit"] == "final"]
    said = 'emit is "arrival", and rows that came while it was "final" are not final yet'
    with pytest.raises(CorruptStateError, match=f'{said}: they would never be emitted; use emit="update" until'):
        require_answerable(arrival.plan(), behind)
    changing.batch([row(27, 1) | {"k": first}])
    changing.batch([])
    assert [said["t"] for said in changing.after if said["k"] == first] == [20, 27]
    assert changing.change(arrival)


def test_a_bucket_that_missed_a_change_and_has_no_row_to_emit_follows():
    """All that it holds was emitted as final."""
    changing, first = in_two_buckets(10)
    assert changing.change(replace(changing.asking, emit="arrival"))
    changing.batch([row(26, 1) | {"k": first}])
    assert [(said["k"], said["t"], said["n_15000us"]) for said in changing.after] == [(first, 26, 2)]


def test_results_that_could_not_be_withdrawn_are_refused():
    """Only "update" can say that a row whose result is out was deleted."""
    asking = Asking(aggs={"n": ("count",)}, emit="update", lateness=50, ids=int, retract=True)
    changing = Changing(asking, 1, 0)
    changing.batch([row(10, 1) | {"i": 1}])
    assert not changing.change(replace(asking, emit="final"))
    assert not changing.change(replace(asking, emit="arrival"))


def test_blind_deletes_keep_the_way_in_which_columns_are_read():
    """A count takes 0.0 and -0.0 for equal, and a sum does not: a delete would find another row, or none."""
    asking = Asking(aggs={"m": ("count", "b")}, emit="update", lateness=50, retract=True)
    changing = Changing(asking, 1, 0)
    changing.batch([row(10, 1, b=0.0)])
    assert not changing.change(replace(asking, aggs={"m": ("sum", "b")}))
    assert changing.change(replace(asking, sizes=(3,)))


def test_another_condition_for_deletes_is_refused():
    """Rows that are stored were marked by the condition before it; a checkpoint without one accepts any."""
    asking = Asking(aggs={"n": ("count",)}, emit="update", lateness=50, ids=int, retract=True)
    plan = asking.plan()
    play = Play(plan, seed=1, delay_ms=0)

    def resumed(condition: str | None) -> None:
        play.plan = replace(plan, condition=condition, probe=play._probe)
        play.batch(asking.table([row(10, 1) | {"i": 1}]).select(plan.schema.names), None)

    resumed(None)
    resumed("op = 'delete'")
    resumed("op = 'delete'")
    with pytest.raises(CorruptStateError) as refused:
        resumed("op = 'gone'")
    said = """: retract is "op = 'gone'", was "op = 'delete'", and cannot change. Start from a new checkpoint"""
    assert said in str(refused.value)


def test_a_window_that_is_renamed_has_a_new_column():
    """What is not final comes again under the new name; the name that a window has anyway changes nothing."""
    asking = Asking(aggs={"n": ("count",)}, sizes=(12,), emit="update", lateness=6)
    spec = Spec.of(**asking.engine_words())
    plans = [
        plan_of(asking.schema(), replace(spec, windows=windows), 3, protected=2)
        for windows in ({"6000us": "6000us"}, {"hour": "6000us"}, {"hour": "6000us", "half": "3000us"})
    ]
    assert plans[0].stored_plain == asking.plan().stored_plain
    play = Play(plans[0], seed=1, delay_ms=0)
    play.batch(asking.table([row(10, 1), row(14, 1)]).select(plans[0].schema.names), None)
    for before, plan in itertools.pairwise(plans):
        change = change_from(plan, before.stored_plain)
        assert [text.split(",")[0] for text in change.differences()] == [f"windows is {plan_text(plan)}"]
        play.plan = replace(plan, probe=play._probe)
        said = play.batch(asking.table([row(15, 1)]).select(plan.schema.names), None)
        wanted = {"n_hour"} | ({"n_half"} if plan is plans[2] else set())
        assert wanted == {name for name in said.column_names if name.startswith("n_")}
        assert said["t"].cast(pa.int64()).to_pylist()[:2] == [10 * TICK_US, 14 * TICK_US]
    assert said["n_hour"].to_pylist() == [1, 2, 4, 4]


def plan_text(plan: Any) -> str:
    return json.dumps(plan.stored.words["windows"]).split(",")[0]


def test_panes_without_keys():
    """One bucket has all rows."""
    spec = Spec.of(keys=[], time="t", windows=["4s"], aggs={"n": monoids.count()}, every="2s", emit="update")
    schema = StructType([StructField("t", TimestampType())])
    play = Play(plan_of(schema, spec, 1), seed=1, delay_ms=0, partitions=1)
    times = pa.array([second * 10**6 for second in (100, 101, 103)], pa.timestamp("us", "UTC"))
    play.batch(pa.table({"t": times}), 110 * 10**6)
    said = play.batch(pa.table({"t": times[:0]}), None)
    assert said["n_4s"].to_pylist() == [2, 3, 1]


TESTS = (
    *(test_rows_of_distinct_times, test_rows_with_deletes, test_panes, test_boundaries_of_rows),
    test_windows_that_become_smaller,
)


def test_what_these_tests_are_about_occurred():
    """Changes were made and refused, and there was something to compare."""
    for test in TESTS:
        if not SEEN[test.__name__]:
            test()
    least = {"changes": 60, "refused": 20, "older forms": 3, "compared": 200, "emptied": 5}
    assert not {what: (SEEN[what], count) for what, count in least.items() if SEEN[what] < count}
