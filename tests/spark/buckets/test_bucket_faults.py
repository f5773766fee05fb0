"""Faults one by one: what a failed attempt leaves in memory, what timers write, what is dropped and merged."""

import pytest

from sash.keyed.stream import Stream
from sash.spark.stream import log
from support.buckets.single import COUNT, DOWNSTREAM, Single, event, picked, plain
from support.buckets.trial import TICK_US, Asking

ARRIVAL = Asking(aggs=COUNT, emit="arrival", sizes=(100,))
FINAL = Asking(aggs=COUNT, sizes=(4,))


@pytest.fixture
def two_records(monkeypatch):
    monkeypatch.setattr(log, "LIVE_RECORDS", 2)


# --- what nonces are for --------------------------------------------------------------------------


def after_failed_data(checked: bool) -> list[int]:
    """A worker is left with a record that was rolled back, whose number another one has when it comes again."""
    one = Single(ARRIVAL, checked=checked, protected=0)
    one.run(plain(1), worker=0, fails=DOWNSTREAM)
    for time in (1, 2, 3):  # the last of them merges the first two
        one.run(plain(time), worker=1)
    return picked(one.run(plain(4), worker=0), "n_50000us")


def test_what_failed_data_leave_is_not_used(two_records):
    """With numbers of records alone a row is lost, with nonces none is."""
    assert after_failed_data(checked=False) == [3]
    assert after_failed_data(checked=True) == [4]


def test_what_a_failed_timer_leaves_is_not_used():
    """The same, but what was rolled back is a timer's, and the bucket was empty in between."""
    one = Single(FINAL)
    one.run(plain(10), worker=1)
    one.run([], 6, worker=0, fails=DOWNSTREAM)
    assert picked(one.run([], 6, worker=1), "t") == [10]
    one.run([], 50, worker=1)
    assert not one.store.committed
    one.run(plain(110), 50, worker=1)
    one.run(plain(111), 50, worker=1)
    assert picked(one.run([], 60, worker=0), "t") == [110, 111]


@pytest.mark.parametrize("point", ["step", "written", "saved", "downstream"])
@pytest.mark.parametrize("worker", [0, 1])
def test_a_failed_task_is_as_if_it_had_not_been(point, worker):
    """Wherever it fails and wherever it is run again, rows count once and results come once."""
    one = Single(FINAL)
    one.run(plain(10), fails=(point, 1))
    assert not one.store.committed
    one.run(plain(10), worker=worker)
    one.run(plain(11), 5, fails=(point, 1))
    one.run(plain(11), 5, worker=worker)
    one.run([], 6, fails=(point, 1))
    assert picked(one.run([], 6, worker=worker), "t", "n_2000us") == [(10, 1), (11, 2)]


# --- timers ---------------------------------------------------------------------------------------


def test_a_timer_writes_a_record_of_its_own():
    """It has no rows and nothing stored, and a nonce by which others know it."""
    one = Single(FINAL)
    one.run(plain(10))
    (before,) = one.head.entries
    writes = one.store.writes
    one.run([], 6)
    assert one.counts["timers"] == 1
    assert one.head.entries[0] == before
    assert (one.head.last.seq, one.head.last.rows, one.head.last.size) == (1, 0, 0)
    assert one.head.last.nonce != before.nonce
    assert one.store.writes == writes and list(one.store.committed.log) == [0]


@pytest.mark.parametrize("worker", [0, 1])
def test_a_timer_whose_task_failed_gives_its_results_again(worker):
    """The worker that survives has given them already, and must not believe that it has."""
    one = Single(FINAL)
    one.run(plain(10), worker=0)
    one.run([], 6, worker=0, fails=DOWNSTREAM)
    assert picked(one.run([], 6, worker=worker), "t") == [10]
    assert one.counts["rebuilds"] == 1


def test_a_timer_is_for_the_millisecond_after_its_anchor():
    """An anchor in the middle of a millisecond is final with the next one; the lateness comes on top."""
    one = Single(Asking(aggs=COUNT, sizes=(4,), lateness=3))
    one.run(plain(10, 11))
    assert one.store.committed.timers == {7}  # 5 ms + 1 µs + 1.5 ms
    assert picked(one.run([], 7), "t") == [10]
    assert one.store.committed.timers == {8}  # 5.5 ms + 1 µs + 1.5 ms
    assert picked(one.run([], 8), "t") == [11]


@pytest.mark.parametrize(("options", "released"), [({}, 2), ({"every": 2}, 3), ({"emit": "update"}, 2)])
def test_rows_that_another_operator_releases_are_judged_by_the_run_before(options, released):
    """They come when the watermark has passed them, which makes them final at once, and late only in the next run."""
    asking = Asking(aggs=COUNT, sizes=(4,), **options)
    assert len(Single(asking).run(plain(10, 14), 10)) == 0
    one = Single(asking, chained=True)
    one.run(plain(8), 2)
    assert len(one.run(plain(10, 14), 10)) >= released and one.counts["late"] == 0
    one.run(plain(19, 20), 10)
    assert one.counts["late"] == 1


@pytest.mark.parametrize("grid", [{}, {"every": 10}])
def test_times_before_1970_are_final_once_the_watermark_passes_it(grid):
    """Spark reports no watermark before it: until then nothing is late, and nothing is lost."""
    one = Single(Asking(aggs=COUNT, sizes=(10,), **grid))
    assert [one.run(plain(time)) for time in (-300, -200, -305)] == [[], [], []]
    assert one.counts["late"] == 0 and one.store.committed.timers == {1}
    assert len(one.run([], 1)) == 3
    assert not one.store.committed


def test_rows_come_before_timers():
    """A bucket with rows in the micro-batch at which its timer is due runs once, and has another timer then."""
    one = Single(FINAL)
    one.run(plain(10))
    assert picked(one.run(plain(14), 6), "t") == [10]
    assert (one.counts["timers"], one.store.committed.timers) == (0, {8})


# --- records that go ------------------------------------------------------------------------------


def test_records_go_wherever_they_stand():
    """An old row that came late has a record that goes before older ones."""
    one = Single(ARRIVAL)
    one.run(plain(210))
    one.run(plain(20, 21))
    one.run(plain(215))
    assert list(one.store.committed.log) == [0, 1, 2]
    one.run(plain(216), 61)  # from 122 ticks back, only what is after 22
    assert list(one.store.committed.log) == [0, 2, 3]
    one.run(plain(320), 160)
    assert list(one.store.committed.log) == [4]
    assert one.counts["live_rows"] == 1


@pytest.mark.parametrize("worker", [0, 1])
def test_a_delete_whose_record_is_gone_does_not_bring_back_its_row(worker, monkeypatch):
    """Its row stands in a record that others keep alive; whoever replays that skips it."""
    asking = Asking(aggs=COUNT, emit="arrival", sizes=(20,), ids=int, retract=True)
    one = Single(asking)
    one.run([event(10), event(30)], worker=worker)
    one.run([event(10, delete=True)], worker=0)
    one.run([event(31)], 15, worker=0)  # 30 ticks: what is at 10 is seen no more
    assert [entry.seq for entry in one.head.entries] == [0, 2]
    replayed = []
    replay = Stream.replay
    monkeypatch.setattr(Stream, "replay", lambda self, table: (replayed.append(table), replay(self, table)))
    assert picked(one.run([event(32)], 15, worker=1), "n_10000us") == [3]
    times = [time for table in replayed for time in table["t"].cast("int64").to_pylist()]
    assert times and min(times) > 10 * TICK_US
    assert one.counts["live_rows"] == 3


@pytest.mark.parametrize("worker", [0, 1])
def test_a_delete_finds_its_insert_in_another_record(worker, monkeypatch):
    """Without ids, of a micro-batch that is split into records: as many deletes as equal inserts, and one row more."""
    monkeypatch.setattr(log, "RECORD_BYTES", 300)
    one = Single(Asking(aggs=COUNT, emit="arrival", sizes=(30,), retract=True))
    both = [event(9, at, delete=delete, named=False) for at in range(60) for delete in (True, False)]
    assert picked(one.run([*both, event(9, 60, named=False)]), "n_15000us")[-1] == 1
    assert len(one.head.entries) > 4
    assert picked(one.run(plain(10), worker=worker), "n_15000us") == [2]


def test_a_merge_between_a_cache_and_the_head_forces_a_rebuild(two_records):
    """The last record that a cached stream includes is no longer in the log."""
    one = Single(ARRIVAL, protected=0)
    one.run(plain(1), worker=0)
    one.run(plain(2), worker=1)
    assert one.counts["rebuilds"] == 1
    one.run(plain(3), worker=1)
    assert (one.counts["hits"], one.counts["merges"]) == (1, 1)
    assert picked(one.run(plain(4), worker=0), "n_50000us") == [4]
    assert one.counts["rebuilds"] == 1


def test_a_worker_that_is_behind_reads_what_it_missed():
    """The newest records are not merged, so that it finds its place."""
    one = Single(ARRIVAL, protected=4)
    for time, worker in ((1, 0), (2, 1), (3, 1), (4, 1)):
        one.run(plain(time), worker=worker)
    reads = one.store.reads
    assert picked(one.run(plain(5), worker=0), "n_50000us") == [5]
    assert (one.counts["catch_ups"], one.store.reads - reads) == (1, 3)


# --- revisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("asking", [Asking(sizes=(3,), lateness=20), Asking(every=10, sizes=(10,), lateness=20)])
def test_revisions_grow_though_nothing_was_left(asking):
    """What was deleted may come again, so its revision is remembered while it can."""
    asking = Asking(**{**vars(asking), "aggs": COUNT, "emit": "update", "retract": True})
    one = Single(asking)
    row, gone = event(20, named=False), event(20, named=False, delete=True)
    said = [*one.run([row], 15), *one.run([gone], 15), *one.run([row], 15), *one.run([gone], 15)]
    assert picked(said, "revision", "deleted") == [(1, False), (2, True), (3, False), (4, True)]
    assert one.store.committed.head is not None
    one.run([], 60)
    assert not one.store.committed


def test_an_empty_bucket_counts_as_nothing():
    """Gauges are of what is there after the micro-batch."""
    one = Single(FINAL)
    one.run(plain(10))
    assert (one.counts["records"], one.counts["live_rows"]) == (1, 1)
    one.run([], 50)
    assert [one.counts[name] for name in ("records", "state_bytes", "live_rows", "live_keys")] == [0, 0, 0, 0]
