"""A partition's rows through the engine, cut anywhere, without Spark."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import sash
from sash import monoids
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch import in_order, partition
from sash.spark.batch.request import request_of
from support.spark_events import FOLDS, ORDERED, SIZES, assert_same, events, monoids_of, oracle

ENDS = {"old": monoids.first("x"), "new": monoids.last("x")}
OPTIONS: dict[str, Any] = {"windows": list(SIZES), "aggs": monoids_of(FOLDS), "per": "event", "on_error": "null"}


def request(table: pa.Table, keys: list[str], **options: Any) -> partition.Request:
    shape = spark.StructType([spark.StructField(field.name, schema.spark_type(field.type)) for field in table.schema])
    return request_of(shape, Spec.of(keys=keys, time="t", **(OPTIONS | options)))[0]


def cut(table: pa.Table, rng: np.random.Generator) -> list[pa.RecordBatch]:
    """The table in batches of random sizes, some of them empty."""
    cuts = np.sort(rng.integers(0, table.num_rows + 1, 1 + table.num_rows // 4)).tolist()
    whole = table.combine_chunks()
    parts = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    return [batch for part in parts for batch in (part.to_batches() or [pa.RecordBatch.from_pylist([], part.schema)])]


def through(wanted: partition.Request, batches: list[pa.RecordBatch], memory: int = 0) -> pa.Table:
    """The answers of a partition that does not fit into memory, or, if there is more of that, does."""
    return pa.Table.from_batches(list(partition.answers_of(partition.replace(wanted, memory=memory), iter(batches))))


@pytest.mark.parametrize("rows", [1, 5, 40, 10**6])
@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_any_cut_gives_the_answers_of_the_whole(monkeypatch, keys, closed, rows):
    """Batches and chunks of any size, ties and keys across them: the brute force's answers."""
    monkeypatch.setattr(partition, "ROWS", rows)
    for seed in range(3):
        table = events(seed, 120, skewed=seed % 2 == 0, bad_times=seed % 3 == 0)
        got = through(request(table, keys, closed=closed), cut(table, np.random.default_rng(seed)))
        assert_same(got, oracle(table, keys, FOLDS, closed))


@pytest.mark.parametrize("keys", [["text"], ["int", "day"], []], ids=["one", "two", "none"])
def test_rows_that_fit_are_answered_in_any_order(keys):
    """In one call, in the order in which they came."""
    for seed in range(3):
        table = events(seed, 120, skewed=seed % 2 == 0, bad_times=True)
        got = through(request(table, keys), cut(table, np.random.default_rng(seed)), partition.MEMORY)
        assert got["row"].to_pylist() == table["row"].to_pylist()
        assert_same(got, oracle(table, keys, FOLDS))


@pytest.mark.parametrize("memory", [0, partition.MEMORY])
def test_ids_order_rows_of_equal_times(memory):
    """Whatever the order in which they come, where the monoid depends on it; sums have no use for it."""
    rng = np.random.default_rng(8)
    table = pa.table({"k": [1] * 60, "t": np.arange(60) // 6, "id": [f"{i:02}" for i in range(60)], "x": np.arange(60)})
    by_id = {row["id"]: row for row in sash.rolling(table, time="t", windows=[3], aggs=ENDS).to_pylist()}
    shuffled = table.take(pa.array(rng.permutation(60)))
    wanted = request(table, ["k"], aggs=ENDS, windows=[3], id="id")
    got = through(wanted, shuffled.to_batches(max_chunksize=7), memory).to_pylist()
    assert [row for row in got if row != by_id[row["id"]]] == []
    assert len(got) == 60
    assert request(table, ["k"], aggs={"s": monoids.sum("x")}, windows=[3], id="id").ids == ()


@pytest.mark.parametrize("memory", [0, partition.MEMORY])
@pytest.mark.parametrize("nested", [False, True])
def test_ids_say_which_rows_of_one_time_the_last_ones_are(memory, nested):
    """Also of sums, and with ids that Arrow cannot sort, which compare as Spark compares them."""
    n = 30
    ids = pa.array([[i] for i in range(n)]) if nested else pa.array(range(n))
    table = pa.table({"k": [1] * n, "t": [1] * n, "id": ids, "x": [3**i for i in range(n)]})
    wanted = request(table, ["k"], aggs={"s": monoids.sum("x")}, windows=["2 rows"], id="id")
    for seed in range(3):
        shuffled = table.take(pa.array(np.random.default_rng(seed).permutation(n)))
        got = through(wanted, shuffled.to_batches(max_chunksize=4), memory).sort_by("x")
        assert got.column(got.num_columns - 1).to_pylist() == [3**i + (3 ** (i - 1) if i else 0) for i in range(n)]


def test_what_is_sorted_is_not_held_besides(monkeypatch):
    """Of a partition that does not fit, neither what came first stays, nor a run while the next one is read."""
    monkeypatch.setattr(partition, "ROWS", 1000)
    monkeypatch.setattr(in_order, "PIECE", 2**13)
    memory = 2**21
    wanted = partition.replace(request(_wide(0), ["k"], aggs={"n": monoids.count()}, windows=[5]), memory=memory)
    before = pa.total_allocated_bytes()
    live = 0
    for _ in partition.answers_of(wanted, (batch for i in range(200) for batch in _wide(i).to_batches())):
        live = max(live, pa.total_allocated_bytes() - before)
    assert 200 * _wide(0).nbytes > 6 * memory
    assert live < memory // 2


def _wide(i: int) -> pa.Table:
    rng = np.random.default_rng(i)
    return pa.table({"k": rng.integers(0, 9, 1000), "t": rng.integers(0, 10**6, 1000), "w": [f"{i:060}"] * 1000})


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_order_is_kept(monkeypatch, rows):
    """A monoid that is not commutative, at distinct times."""
    monkeypatch.setattr(partition, "ROWS", rows)
    table = events(3, distinct=True, skewed=True)
    wanted = request(table, ["text"], aggs=monoids_of(ORDERED))
    assert_same(through(wanted, cut(table, np.random.default_rng(3))), oracle(table, ["text"], ORDERED))


def test_null_times_come_first_and_stay(monkeypatch):
    """Rows without a time, which are sorted to the front of their key, have no results and change none."""
    monkeypatch.setattr(partition, "ROWS", 4)
    table = events(5, bad_times=True)
    nulls = np.asarray(table["t"].is_null())
    got = through(request(table, ["text"]), cut(table, np.random.default_rng(5)))
    assert_same(got, oracle(table, ["text"], FOLDS))
    assert 5 < nulls.sum() < 50


def test_a_key_of_ties_waits(monkeypatch):
    """Rows of one key and time are all answered alike, however many batches they fill."""
    monkeypatch.setattr(partition, "ROWS", 3)
    table = pa.table({"k": ["a"] * 50, "t": pa.array([1] + [7] * 48 + [9]), "x": [1] * 50})
    wanted = request(table, ["k"], aggs={"s": monoids.sum("x")}, windows=[5])
    got = through(wanted, table.to_batches(max_chunksize=2))
    assert got["s_5"].to_pylist() == [1] + [48] * 48 + [49]


@pytest.mark.parametrize("window", [10, 5_000])
def test_memory_is_bounded(window):
    """Of an endless key the rows of its largest window are retained, and as many new ones; none is lost."""
    n, batch = 40_000, 100
    table = pa.table({"k": [1] * n, "t": np.arange(n), "x": np.ones(n, dtype=np.int64), "wide": ["w" * 50] * n})
    wanted = request(table, ["k"], aggs={"n": monoids.count()}, windows=[window])
    chunks = partition.EventChunks(partition.replace(wanted, rows=500))
    retained, answered = [], []
    for part in table.to_batches(max_chunksize=batch):
        answered += [out["n_" + str(window)] for out in chunks.take(part)]
        context = 0 if chunks.context is None else chunks.context.num_rows
        retained.append(context + sum(rows.num_rows for rows in chunks.waiting))
    answered += [out["n_" + str(window)] for out in chunks.end()]
    assert max(retained) <= 2 * max(window, 500) + 2 * batch
    assert pa.concat_arrays(answered).to_pylist() == [min(i + 1, window) for i in range(n)]


def test_rows_are_computed_twice_at_most(monkeypatch):
    """A context is never longer than the new rows behind it, so that a long window costs no more than a short one."""
    computed = 0
    real = partition.rolling

    def counting(table: Any, **options: Any) -> Any:
        nonlocal computed
        computed += table.num_rows
        return real(table, **options)

    monkeypatch.setattr(partition, "rolling", counting)
    monkeypatch.setattr(partition, "ROWS", 100)
    n = 20_000
    table = pa.table({"k": [1] * n, "t": np.arange(n)})
    through(request(table, ["k"], aggs={"n": monoids.count()}, windows=[n]), table.to_batches(max_chunksize=50))
    assert computed <= 3 * n


def test_wide_rows_make_short_chunks(monkeypatch):
    """The size of a chunk in bytes is limited too."""
    monkeypatch.setattr(partition, "BYTES", 10_000)
    table = pa.table({"k": [1] * 100, "t": range(100), "wide": ["w" * 1000] * 100})
    wanted = request(table, ["k"], aggs={"n": monoids.count()}, windows=[5])
    chunks = partition.EventChunks(wanted)
    answers = [sum(out.num_rows for out in chunks.take(part)) for part in table.to_batches(max_chunksize=1)]
    assert sum(answers) > 80
    assert max(answers) <= 12


def test_results_of_any_length_are_computed_in_chunks(monkeypatch):
    """They may take more memory than their rows; numbers, and structs of them, do not."""
    computed = []
    real = partition.rolling
    monkeypatch.setattr(partition, "rolling", lambda table, **words: (computed.append(table), real(table, **words))[1])
    monkeypatch.setattr(partition, "ROWS", 10)
    table = pa.table({"k": np.arange(200) % 50, "t": np.arange(200), "x": np.ones(200)})
    numbers = {"s": monoids.sum("x"), "both": monoids.struct(n=monoids.count(), top=monoids.max("x"))}
    for aggs, most in ((numbers, 200), (numbers | {"all": monoids.collect_list("x")}, 30)):
        computed.clear()
        got = through(request(table, ["k"], aggs=aggs, windows=[9]), table.to_batches(), partition.MEMORY)
        assert got.num_rows == 200
        assert max(read.num_rows for read in computed) <= most
    assert len(computed) > 10


def test_times_at_the_ends_of_int64(monkeypatch):
    """Windows that reach below the smallest time hold all there is."""
    monkeypatch.setattr(partition, "ROWS", 1)
    times = [-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1]
    table = pa.table({"t": pa.array(times, pa.int64())})
    wanted = request(table, [], aggs={"n": monoids.count()}, windows=[2, 2**62 - 1])
    got = through(wanted, table.to_batches(max_chunksize=1))
    whole = sash.rolling(table, time="t", windows=[2, 2**62 - 1], aggs={"n": monoids.count()})
    assert got.to_pylist() == whole.to_pylist()


def test_no_batches_and_empty_ones():
    """An empty partition gives nothing."""
    table = events(1)
    empty = pa.RecordBatch.from_pylist([], table.schema)
    assert list(partition.answers_of(request(table, ["text"]), iter([]))) == []
    assert list(partition.answers_of(request(table, ["text"]), iter([empty, empty]))) == []
