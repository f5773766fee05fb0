"""Sessions on Spark under faults: whatever fails, what is committed is what KeyedWindows and the oracle say.

As in test_bucket_play.py; here what is folded behind the horizon passes through the log besides the rows.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import CorruptStateError
from sash.spark.stream import log
from sash.spark.stream.findings import BucketState
from sash.spark.stream.log import table_of
from sash.spark.stream.open_sessions import SESSION, latest
from support.buckets import streams
from support.buckets.cluster import Cluster
from support.buckets.single import COUNT, DOWNSTREAM, Single, event, picked, plain
from support.buckets.trial import COMMUTATIVE, ORDERED, Asking, Trial

SEEN: Counter[str] = Counter()
RAN: set[str] = set()
PLAYS: list[Callable[[], None]] = []
FEW = settings(max_examples=settings().max_examples // 2)  # of what the profile says: a play is long

SEEDS = st.integers(0, 2**16)
DELAYS = st.sampled_from([0, 1, 3])
GAPS = st.sampled_from([1, 2, 4, 9, 41])
LATENESS = st.sampled_from([0, 2, 6, 30])
LATE = st.sampled_from(["drop", "emit"])
EMIT = st.sampled_from(["final", "update"])
IDS = st.sampled_from([int, str])
EXACT = COMMUTATIVE | ORDERED


@pytest.fixture(autouse=True)
def few_records():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "LIVE_RECORDS", 4)
        yield


def play(test: Callable[..., None]) -> Callable[[], None]:
    """Remember a test of this page, so that the last one knows what has been counted."""
    PLAYS.append(test)
    return test


def followed(name: str, stream: streams.Stream, seed: int, delay_ms: int, **options: Any) -> None:
    RAN.add(name)
    trial = Trial(Asking(**options), seed, delay_ms)
    for rows in stream:
        trial.batch(rows)
        stored = [table for store in trial.play.stores.values() for table in tables_of(store.committed)]
        SEEN["folded"] += sum(SESSION in table.column_names for table in stored)
        require_sound(trial.play)
    trial.end()
    trial.count_into(SEEN)


def tables_of(contents: Any) -> list[pa.Table]:
    """The records of a bucket's state."""
    if contents.head is None:
        return []
    entries = log.Head.from_bytes(contents.head).entries
    return [table_of(contents.log.get(entry.seq), entry) for entry in entries if entry.rows]


def require_sound(cluster: Cluster) -> None:
    """Nothing is wrong with the state of any bucket, as `sash checkpoint verify` sees it."""
    for label, store in cluster.stores.items():
        if store.committed.head is None:
            continue
        state = BucketState.read(label, store.committed.head)
        found = [*state.in_head(), *state.missing(store.committed.log)]
        found += [finding for seq, data in store.committed.log.items() for finding in state.in_record(seq, data)]
        assert not found


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, LATE, GAPS)
def test_plain_rows(batches, seed, delay, emit, lateness, late, gap):
    """Rows without ids in any order, with aggregates for which order does not matter."""
    options = {"emit": emit, "lateness": lateness, "late": late, "gap": gap}
    followed("test_plain_rows", streams.plain(batches), seed, delay, **options)


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, GAPS)
def test_distinct_times(batches, seed, delay, emit, lateness, gap):
    """Where order matters, distinct times give it."""
    options = {"emit": emit, "lateness": lateness, "aggs": EXACT, "gap": gap}
    followed("test_distinct_times", streams.distinct(batches), seed, delay, **options)


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, GAPS, IDS, st.booleans())
def test_ids(batches, seed, delay, emit, lateness, gap, ids, deletes):
    """Repeats and deletes: sessions that shrink, split and vanish."""
    options = {"emit": emit, "lateness": lateness, "ids": ids, "retract": deletes, "aggs": EXACT, "gap": gap}
    followed("test_ids", streams.identified(batches, ids, deletes), seed, delay, **options)


@play
@FEW
@given(streams.BATCHES, SEEDS, DELAYS, EMIT, LATENESS, GAPS)
def test_retractions_without_ids(batches, seed, delay, emit, lateness, gap):
    """A delete takes one row that is equal; a row may come again after it."""
    stream = streams.blind(batches, single=False)
    options = {"emit": emit, "lateness": lateness, "retract": True, "gap": gap}
    followed("test_retractions_without_ids", stream, seed, delay, **options)


# --- one by one -----------------------------------------------------------------------------------

OPEN = Asking(aggs=COUNT, gap=10)
RESULT = ("session_start", "session_end", "n")


@pytest.mark.parametrize("worker", [0, 1])
def test_what_is_folded_survives_its_rows(worker):
    """A session of many micro-batches is whole, though its first rows have left the log; a cold worker knows it."""
    one = Single(OPEN, workers=2)
    for time in range(0, 60, 5):
        assert one.run(plain(time), max(time // 2 - 1, 0), worker=worker if time % 10 else 0) == []
    assert len(one.store.committed.log) <= 6
    assert picked(one.run([], 40, worker=worker), *RESULT) == [(0, 65, 12)]
    assert not one.store.committed


def test_a_worker_that_is_behind_does_not_fold_twice():
    """Its own rows are behind the horizon by now, and among what others have folded."""
    one = Single(OPEN, protected=8)
    one.run(plain(0, 3, 12), worker=0)  # the last of which keeps the record
    one.run(plain(8, 9), 3, worker=1)
    one.run(plain(14), 5, worker=1)
    one.run(plain(20), 7, worker=0)
    assert one.counts["catch_ups"] == 1
    assert picked(one.run([], 40, worker=0), *RESULT) == [(0, 30, 7)]


@pytest.mark.parametrize("worker", [0, 1])
def test_a_failed_task_does_not_fold_twice(worker):
    one = Single(OPEN)
    one.run(plain(0, 3))
    one.run(plain(8), 3, worker=0, fails=DOWNSTREAM)
    one.run(plain(8), 3, worker=worker)
    assert picked(one.run([], 40, worker=worker), *RESULT) == [(0, 18, 3)]


def test_a_session_is_final_in_the_millisecond_after_its_end():
    """At its end an event would still join."""
    one = Single(OPEN)
    one.run(plain(0))
    assert one.store.committed.timers == {6}  # 5 ms + 1 µs
    assert one.run([], 5) == []
    assert picked(one.run([], 6), *RESULT) == [(0, 10, 1)]


def test_only_the_latest_of_a_session_is_kept_when_records_are_joined(monkeypatch):
    monkeypatch.setattr(log, "LIVE_RECORDS", 2)
    one = Single(Asking(aggs=COUNT, gap=100_000), protected=0)
    for time in range(0, 200, 5):
        one.run(plain(time), time // 2)
        require_sound(one.cluster)
    sessions = sum(table.num_rows for table in tables_of(one.store.committed) if SESSION in table.column_names)
    assert sessions <= 6
    assert picked(one.run([], 10**6), *RESULT) == [(0, 195 + 100_000, 40)]


def test_numbers_that_may_be_equal_keep_all():
    """-0.0 and 0.0 are keys of their own, but Arrow groups them."""
    sessions = pa.table({"k": [0.0, -0.0], SESSION: pa.array([b"a" * 8, b"b" * 8], pa.binary(8))})
    assert latest(sessions, ("k",)).num_rows == 2
    assert latest(sessions.set_column(0, "k", pa.array(["a", "a"])), ("k",))[SESSION].to_pylist() == [b"b" * 8]


def test_a_definition_of_sessions_does_not_change():
    one = Single(OPEN)
    one.run([event(0, named=False)])
    for other, message in (
        (Asking(aggs=COUNT, gap=11), 'gap is "5500us", was "5000us", and cannot change'),
        (Asking(aggs=COUNT, sizes=(4,)), 'per is None, was "session", and cannot change'),
        (Asking(aggs=COUNT | {"s": ("sum", "x")}, gap=10), "aggregate s is new, and sessions cannot change"),
        (Asking(aggs=COUNT, gap=10, emit="update"), 'emit is "update", was "final", and sessions cannot change'),
    ):
        with pytest.raises(CorruptStateError, match=message):
            one.become(other.plan(buckets=1)).run(plain(1), 1)
    later = one.become(Asking(aggs=COUNT, gap=10, lateness=8).plan(buckets=1))
    assert later.run([], 6) == []
    assert picked(later.run([], 10), *RESULT) == [(0, 10, 1)]


# --- what it was about ----------------------------------------------------------------------------

WANTED = {
    "folded": 200,
    "hits": 100,
    "catch_ups": 30,
    "rebuilds": 100,
    "merges": 30,
    "timers": 50,
    "drops": 50,
    "restarts": 30,
    "retried batches": 30,
    "mixed lineages": 50,
    "failed at step": 10,
    "failed at written": 10,
    "failed at saved": 10,
    "failed at downstream": 10,
    "late": 30,
    "repeated": 20,
    "revised": 20,
    "deleted": 10,
}


def test_what_these_tests_are_about_occurred():
    """Sessions were folded, caches were behind or of no use, records were merged and dropped, tasks failed."""
    # Under xdist the others may have run in another process: this one then runs them itself.
    for test in PLAYS:
        if test.__name__ not in RAN:
            test()
    assert not {what: (SEEN[what], least) for what, least in WANTED.items() if SEEN[what] < least}
