"""The log of a bucket: whose it is, how large its records are, what is read and written, and what stays in memory."""

import json
import math
import os
import struct
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash import CorruptStateError, Monoid, monoids
from sash.keyed.spec import Spec
from sash.spark.stream import log
from sash.spark.stream.cache import IDLE_SECONDS, Cache, CachedStream, Limit
from sash.spark.stream.cache_limit import cache_limit
from sash.spark.stream.log import Head, Log
from sash.spark.stream.plan import Plan
from sash.spark.stream.query import plan_of
from support.buckets import growth
from support.buckets.memory import MemoryStore
from support.buckets.single import COUNT, Single, event, picked, plain
from support.buckets.trial import COMMUTATIVE, Asking, Trial, letters

ARRIVAL = Asking(aggs=COUNT, emit="arrival", sizes=(10**6,))

# --- whose it is ----------------------------------------------------------------------------------

OWN = Asking(emit="arrival", ids=int, retract=True)


def own_plan(buckets: int = 1, **changed: Any) -> Plan:
    """A plan with a custom aggregate, some of its arguments changed."""
    words = OWN.engine_words() | {"aggs": {"n": monoids.count(), "text": letters("x")}} | changed
    return plan_of(OWN.schema(), Spec.of(**words), buckets)


def half_full() -> Single:
    one = Single(OWN).become(own_plan())
    one.run([event(10), event(11)])
    return one


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "keys": ({"keys": ["k", "c"]}, r'keys is \["k", "c"\], was \["k"\], and cannot change'),
    "wider windows": ({"windows": ["1h"]}, "window 1h needs rows that have expired: they are stored for 4000us"),
    "no deletes": ({"retract": None}, 'retract is None, was "gone", and cannot change'),
    "no ids": ({"id": None}, 'id is None, was "i", and cannot change'),
    "closed": ({"closed": "left"}, 'closed is "left", was "right", and cannot change'),
    "boundaries": ({"every": "1ms", "emit": "final"}, 'every is "1ms", was None, and cannot change'),
    "buckets": ({"buckets": 2}, "buckets is 2, was 1, and cannot change in place; export the rows"),
    "another column": (
        {"aggs": {"n": monoids.count(), "text": letters("c")}},
        "its rows were stored without the column 'c'",
    ),
}
ANSWERED: dict[str, dict[str, Any]] = {
    "fewer windows": {"windows": ["1ms"]},
    "emission": {"emit": "final"},
    "late rows": {"late": "emit"},
    "fewer aggregates": {"aggs": {"n": monoids.count()}},
    "another aggregate": {"aggs": {"n": monoids.sum("x"), "text": letters("x")}},
    "another name": {"aggs": {"m": monoids.count(), "text": letters("x")}},
    "another version": {"aggs": {"n": monoids.count(), "text": letters("x", version="2")}},
}


@pytest.mark.parametrize(("changed", "sentence"), REFUSED.values(), ids=list(REFUSED))
def test_a_change_that_rows_cannot_answer_is_refused(changed, sentence):
    """Before anything is written, and with a sentence that names the difference and says what to do."""
    one = half_full()
    one.run([event(30)], watermark_ms=12)  # from then on there is a horizon
    before = one.store.committed
    with pytest.raises(CorruptStateError, match=sentence) as refused:
        one.become(own_plan(**changed)).run([event(12)])
    assert str(refused.value).endswith("or use the definition it was written with.")
    assert one.store.now == before


@pytest.mark.parametrize("changed", ANSWERED.values(), ids=list(ANSWERED))
def test_a_change_that_rows_can_answer_is_made(changed):
    """The bucket is rebuilt, and has the new definition from then on."""
    plan = own_plan(**changed)
    one = half_full().become(plan)
    one.run([event(12)])
    assert (one.counts["rebuilds"], one.head.fingerprint) == (1, plan.fingerprint)


def test_the_state_of_a_newer_sash_is_refused(monkeypatch):
    """The version comes first: nothing else need be as it was."""
    one = half_full()
    head = one.head
    with monkeypatch.context() as newer:
        newer.setattr(log, "VERSION", 4)
        one.store.now.head = head.to_bytes()
    with pytest.raises(
        CorruptStateError, match=r"has state of version 4, but this version of sash reads 2 and 3; use the version"
    ):
        one.run([event(12)])


@pytest.mark.parametrize("head", [b"", b"\0\0\0\0", b"\1\0\0\0" + b"1", b"\2\0\0\0" + b"{}", b"\xff\0\0\0" + b"{"])
def test_a_head_that_is_none_is_refused(head):
    """Whatever the bytes are, there is a sentence."""
    with pytest.raises(CorruptStateError, match=r"^The checkpoint has a bucket whose head cannot be read"):
        Head.from_bytes(head)


def test_a_head_comes_back_as_it_was():
    """Its records, its position and its timer."""
    one = half_full()
    head = one.head
    assert Head.from_bytes(head.to_bytes()) == head
    assert (head.next_seq, head.timer, len(head.entries)) == (1, *one.store.committed.timers, 1)


def test_one_definition_has_one_fingerprint():
    """A monoid that is made again is the same by its name and version, and a size by its name."""
    one, other = (Monoid(identity=0, combine=lambda a, b: a + b, column="x", name="own", returns="int64") for _ in "ab")
    assert own_plan(aggs={"own": one}).fingerprint == own_plan(aggs={"own": other}).fingerprint
    assert own_plan(windows=["1h"]).fingerprint == own_plan(windows=[timedelta(hours=1)]).fingerprint


def test_on_error_may_change():
    """It has no part in what is stored."""
    assert picked(half_full().become(own_plan(on_error="raise")).run([event(12)]), "n_4000us") == [3]


def test_lateness_may_grow():
    """The horizon stays where it was until the watermark has made up for it, and no boundary is shown ahead of time."""
    one = Single(Asking(aggs=COUNT, emit="update", every=10, sizes=(10,)))
    one.run(plain(3))
    assert picked(one.run(plain(11), 7), "window_end") == [10]
    other = one.become(Asking(aggs=COUNT, emit="update", every=10, sizes=(10,), lateness=20).plan(buckets=1))
    assert other.run(plain(15, 5), 7) == []  # a row at 5 is as late as it was
    assert other.counts["late"] == 1
    assert picked(other.run([], 10), "window_end", "n_5000us") == [(20, 2)]
    assert picked(other.run(plain(16), 14), "window_end", "n_5000us", "revision") == [(20, 3, 5)]


def test_lateness_may_shrink():
    """What is final by the new one is given at the next occasion."""
    one = Single(Asking(aggs=COUNT, sizes=(4,), lateness=40))
    assert one.run(plain(10), 6) == []
    other = one.become(Asking(aggs=COUNT, sizes=(4,)).plan(buckets=1))
    assert picked(other.run(plain(14), 6), "t") == [10]


# --- large records --------------------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
def test_large_records_are_split(emit, monkeypatch):
    """A large mutation is split into records; a stream that is behind, or new, replays all of them."""
    monkeypatch.setattr(log, "RECORD_BYTES", 256)
    one = Single(Asking(aggs={**COMMUTATIVE, "text": ("letters", "x")}, emit=emit, sizes=(100,)))
    whole = Single(one.asking)
    for times, worker in ((range(40), 0), (range(40, 80), 1), (range(80, 90), 0), (range(90, 99), 1)):
        said = one.run(plain(*times), worker=worker)
        monkeypatch.setattr(log, "RECORD_BYTES", 2 << 20)
        assert said == whole.run(plain(*times))
        monkeypatch.setattr(log, "RECORD_BYTES", 256)
    assert max(entry.rows for entry in one.head.entries) <= 12
    assert sum(entry.rows for entry in one.head.entries) == 99
    assert picked(one.run([], 60), "t") == picked(whole.run([], 60), "t")


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_records_come_back_as_they_were(small, monkeypatch):
    """Large ones are written in fewer bytes, small ones as they are; times need not be in order."""
    monkeypatch.setattr(log, "SMALL_BYTES", small)
    number, odd = np.arange(3000), np.arange(3000) % 2 == 1
    columns = {
        "k": pa.array(np.where(odd, "a", "é"), mask=odd),
        "t": pa.array((number * 7919) % 3000 + 10**15, pa.timestamp("us", "UTC")),
        "x": pa.array(number + 2**40, mask=~odd),
        "y": pa.array(number * 0.5, mask=odd),
        "list": pa.array([[int(at)] for at in number]),
    }
    table, store = pa.table(columns), MemoryStore()
    log_of = Log(store, Head([{"fingerprint": "x"}]))
    log_of.append(table, number)
    (found,) = log_of.tables(0)
    assert found.equals(table) and found.schema == table.schema
    assert log_of.written == store.written_bytes == log_of.head.last.size


def test_records_of_before_are_read():
    """Compressed, but with their columns as they are."""
    table, sink = pa.table({"t": [3, 4], "x": [2**40, None]}), pa.BufferOutputStream()
    sink.write(struct.pack("<Q", 5))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    assert log.table_of(sink.getvalue().to_pybytes(), log.Entry(0, 5, 5, 2, 0, 4)).equals(table)


# --- what is read and written ---------------------------------------------------------------------


def test_a_hit_reads_nothing():
    """A bucket that is in memory is used as it is."""
    one = Single(ARRIVAL)
    for time in range(20):
        one.run(plain(time))
        assert one.counts["hits"] == (time > 0)
    assert one.store.reads == 0 and one.counts["read_bytes"] == 0


def test_what_is_written_does_not_grow_with_what_is_held():
    """A micro-batch writes its own rows, and a head that is small."""
    one = Single(ARRIVAL, protected=8)
    written, heads = [], []
    for batch in range(150):
        one.run(plain(*range(10 * batch, 10 * batch + 10)))
        written.append(one.counts["written_bytes"] - one.counts["merged_bytes"])
        heads.append(len(one.store.committed.head or b""))
    assert one.counts["live_rows"] == 1500
    assert max(written) <= 1.1 * min(written)
    assert max(heads) < 6144
    assert len(one.head.entries) == log.LIVE_RECORDS


def appended(number: int, rows: int, protected: int = 8, kept: int | None = None) -> tuple[Log, MemoryStore]:
    """A log to which so many records of so many bytes were added, of which so many are seen."""
    store = MemoryStore()
    made = Log(store, Head([{"fingerprint": "own"}]))
    noise = np.random.default_rng(1)
    for record in range(number):
        times = np.full(rows, record, dtype=np.int64)
        table = pa.table({"t": times, "x": noise.integers(0, 2**62, rows)})
        made.append(table, times)
        made.drop_expired(record - (kept or number))
        made.compact(protected, lambda table: table)
    return made, store


@pytest.mark.parametrize("number", [128, 512, 1024, 2048])
def test_how_often_a_row_is_written_again(number):
    """About once for each doubling of what 64 records hold."""
    made, store = appended(number, rows=64)
    assert len(made.head.entries) == len(store.now.log) == log.LIVE_RECORDS
    first = made.written - made.merged
    assert made.merged / first < math.log2(number / log.LIVE_RECORDS) + 1


def test_rows_stay_in_their_order():
    """Merging keeps the order of records and of rows, and the newest are left alone."""
    made, _ = appended(300, rows=3)
    times = [time for table in made.tables(0) for time in table["t"].to_pylist()]
    assert times == sorted(times) and len(times) == 900
    assert [entry.rows for entry in made.head.entries[-8:]] == [3] * 8
    seqs = [entry.seq for entry in made.head.entries]
    assert seqs == sorted(seqs)


def test_what_is_expired_goes():
    """Of records that are merged only some are needed, so what is held is not much more than what is seen."""
    made, store = appended(1000, rows=10, kept=300)
    assert 300 * 10 <= sum(entry.rows for entry in made.head.entries) <= 450 * 10
    assert {entry.seq for entry in made.head.entries if entry.rows} == set(store.now.log)


# --- what stays in memory -------------------------------------------------------------------------


def cached(size: int) -> CachedStream:
    return CachedStream(SimpleNamespace(nbytes=size), 0, 0)


def test_the_least_recently_used_goes_first():
    """What is taken out and put back is the newest again."""
    cache, limit = Cache(), Limit(100, 1)
    for name in "abc":
        cache.put((name,), cached(30), limit)
    cache.put(("a",), cache.take(("a",)), limit)
    cache.put(("d",), cached(30), limit)
    assert [name for name in "abcd" if cache.take((name,)) is not None] == ["a", "c", "d"]


def test_the_cache_stays_below_its_limit():
    """But for one that is too large by itself, which goes when the next comes."""
    cache, limit = Cache(), Limit(200, workers=2)
    sizes = np.random.default_rng(1).integers(1, 60, 200).tolist()
    for name, size in enumerate(sizes):
        cache.put((name % 17,), cached(size), limit)
        held = {name: cache.take((name,)) for name in range(17)}
        there = {name: one for name, one in held.items() if one is not None}
        assert sum(one.stream.nbytes for one in there.values()) <= 100
        for name, one in there.items():
            cache.put((name,), one, limit)
    cache.put(("large",), cached(1000), limit)
    assert cache.take(("large",)) is not None
    assert cache.take((0,)) is None


def test_a_limit_of_one_query_is_not_that_of_others():
    """Those without a limit of their own share one, and a small one of another does not evict them."""
    cache, shared = Cache(), Limit(100, 1)
    for name in ("a", "b"):
        cache.put((name, 0), cached(45), shared)
    for bucket in (0, 1):
        cache.put(("small", bucket), cached(45), Limit(50, 1, own=True))
        cache.put(("large", bucket), cached(450), Limit(5000, 1, own=True))
    there = [("a", 0), ("b", 0), ("small", 0), ("small", 1), ("large", 0), ("large", 1)]
    assert [key for key in there if cache.take(key)] == [key for key in there if key != ("small", 0)]


def test_streams_that_nobody_asks_for_go():
    """The query that used them has stopped, while others of the worker continue."""
    now = [0.0]
    cache, limit = Cache(lambda: now[0]), Limit(100, 1)
    cache.put(("stopped", 0), cached(10), limit)
    for _ in range(3):
        now[0] += IDLE_SECONDS / 2
        cache.put(("running", 0), cache.take(("running", 0)) or cached(10), limit)
    assert cache.take(("stopped", 0)) is None and cache.take(("running", 0)) is not None


def test_streams_of_an_earlier_start_go():
    """Its definition may have had other code; those of other queries and operators stay."""
    cache, limit = Cache(), Limit(100, 1)
    keys = [("q", "op", "first", 0), ("q", "op", "second", 1), ("q", "another", "first", 0), ("p", "op", "first", 0)]
    for key in keys:
        cache.put(key, cached(1), limit)
    cache.drop_earlier(("q", "op", "second"))
    assert [key for key in keys if cache.take(key)] == keys[1:]


@pytest.mark.parametrize(
    ("confs", "given", "limit"),
    [
        ({"spark.master": "local[4]", "spark.driver.memory": "2g"}, None, Limit(1 << 30, 4)),
        ({"spark.master": "local[4]"}, 1000, Limit(1000, 4, own=True)),
        ({"spark.executor.pyspark.memory": "1g", "spark.executor.cores": "4", "spark.task.cpus": "2"}, None,
         Limit(512 << 20, 2)),
        ({"spark.executor.memoryOverhead": "1024"}, None, Limit(512 << 20, None)),
        ({"spark.executor.memory": "1g", "spark.executor.cores": "1"}, None, Limit(192 << 20, 1)),
    ],
)  # fmt: skip
def test_the_limit_follows_from_the_memory_of_an_executor(confs, given, limit):
    """Half of what Python has there, for all workers together."""
    assert cache_limit({"spark.master": "yarn", **confs}.get, given) == limit


def test_streams_know_what_they_hold():
    """What the cache counts is about what the process grows by, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, growth.__file__]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = {name: (counted, grown) for name, counted, grown in map(json.loads, said.stdout.splitlines())}
    assert found.keys() == growth.CASES.keys()
    assert not {name: sizes for name, sizes in found.items() if not 1 / 1.3 < sizes[0] / sizes[1] < 1.3}


def test_what_is_taken_is_gone():
    """A failure on the way leaves nothing half changed behind."""
    one = Single(ARRIVAL)
    one.run(plain(1))
    one.run(plain(2), fails=("step", 1))
    assert one.cluster.caches[0].take(("query", 0)) is None


def test_a_cache_that_is_too_small_costs_rebuilds_only():
    """What a plan allows is what a worker keeps."""
    trial = Trial(Asking(emit="update", lateness=30, carry=("c",)), seed=1, delay_ms=1, cache_limit=Limit(1))
    for batch in range(8):
        trial.batch([event(4 * batch + at, batch, named=False) | {"k": key} for at, key in enumerate("abcd")])
    trial.end()
    assert trial.play.counts["rebuilds"] > trial.play.counts["hits"]
