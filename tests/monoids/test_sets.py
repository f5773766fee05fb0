"""Stable hashes, and the sets built on them: Bloom filters and HyperLogLog."""

import datetime as dt
import math
import pickle
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import ArgumentError, KeyedWindows, KindError, Window, monoids, rolling
from support.folds import answer, lifted

INF, NAN = math.inf, math.nan
NOON = dt.datetime(2024, 5, 1, 12)


def test_equal_values_have_one_hash() -> None:
    """Numbers hash by what they are, not by their type; text and bytes differ."""
    hashed = monoids.stable_hash
    assert len({hashed(v) for v in (2, 2.0, np.int8(2), np.float32(2), Decimal(2), Decimal("2.00"))}) == 1
    assert len({hashed(v) for v in (1, True, np.True_, 1.0)}) == 1 and hashed(0.0) == hashed(-0.0)
    assert hashed(0.5) == hashed(Decimal("0.50")) and hashed(2**70) == hashed(float(2**70)) == hashed(Decimal(2**70))
    assert hashed(NAN) == hashed(-NAN) == hashed(Decimal("NaN")) == hashed(Decimal("sNaN"))
    assert hashed(Decimal("0.1")) == hashed(Decimal("0.100")) != hashed(0.1)
    assert len({hashed(v) for v in ("2", b"2", 2, "2024-05-01", dt.date(2024, 5, 1), INF, -INF, NAN)}) == 8


def test_one_instant_has_one_hash() -> None:
    """An instant hashes by its ticks, not by its type, unit or zone; nanoseconds count, also before 1970."""
    hashed = monoids.stable_hash
    aware = NOON.replace(tzinfo=dt.UTC)
    types = [NOON, aware, aware.astimezone(dt.timezone(dt.timedelta(hours=3))), pd.Timestamp(NOON), pd.Timestamp(aware)]
    units = [np.datetime64(NOON, unit) for unit in ("h", "m", "s", "ms", "us", "ns")]
    assert len({hashed(v) for v in types + units}) == 1
    assert hashed(NOON.date()) == hashed(np.datetime64("2024-05-01")) != hashed(NOON)
    fine = [np.datetime64(ticks, "ns") for ticks in (-(10**9) - 1, -(10**9), -1, 0, 1, 10**9)]
    assert len({hashed(v) for v in fine} | {hashed(v) for v in range(-2, 3)}) == 11
    assert hashed(pd.Timestamp(-1)) == hashed(fine[2])


def test_hashes_do_not_change() -> None:
    """Filters that were stored stay readable: hashes are the same in every process and release."""
    assert [monoids.stable_hash(v) % 10**6 for v in (0, -1, 0.5, "sash", b"sash", 2**64, NOON)] == [
        607535, 443936, 378133, 354391, 279271, 772052, 303148,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, [1], (1, 2), {1}, np.timedelta64(1, "s"), pd.NaT], ids=repr)
def test_what_has_no_stable_hash(value: Any) -> None:
    """What cannot be hashed is refused, with what can."""
    with pytest.raises(KindError, match=r"^value must be an int, float, str, .* to be hashed, got"):
        monoids.stable_hash(value)


@pytest.mark.parametrize("value", [10**5000, Decimal("1e5000"), Decimal("1e999999")], ids=["int", "Decimal", "long"])
def test_what_is_too_long_to_hash(value: Any) -> None:
    """Numbers of thousands of digits are refused rather than written out."""
    with pytest.raises(ArgumentError, match=r"^value must have at most .* to be hashed, got"):
        monoids.stable_hash(value)


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "Europe/Paris"), pa.date32()], ids=str
)
def test_sets_of_instants_do_not_depend_on_other_rows(kind: pa.DataType) -> None:
    """An instant is the same member beside nulls and without, in one batch and in several, in a table and a window."""
    column = pa.array([100_001, 2, 100_001, -1], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    beside = pa.concat_arrays([column, pa.nulls(1, column.type)])
    aggs = {"n": monoids.hyperloglog("v"), "set": monoids.bloom("v")}
    whole, nulls = (
        rolling({"t": range(len(each)), "v": each}, time="t", windows=[9], aggs=aggs) for each in (column, beside)
    )
    kw = KeyedWindows(keys=[], time="t", windows=[9], aggs=aggs)
    pushed = [kw.push(pa.table({"t": [at], "v": beside.slice(at, 1)})) for at in range(5)]
    windows = [Window(monoids.bloom()) for _ in range(2)]
    windows[0].insert_many(range(4), column)
    for at, value in enumerate(column.to_pylist()):
        windows[1].insert(at, value)
    for name in ("n_9", "set_9"):
        assert whole[name].to_pylist() == nulls[name].to_pylist()[:4]
        assert pa.concat_tables(pushed)[name].to_pylist() == nulls[name].to_pylist()
    assert whole["n_9"].to_pylist() == [1, 2, 2, 3]
    assert windows[0] == windows[1] and windows[0].query().bits == whole["set_9"][3].as_py()


def test_structs_read_instants_with_and_without_nulls_alike() -> None:
    """The type of a batch's values does not depend on whether one of them is null."""
    zoned = pa.array([1, 2, None], pa.timestamp("us", "UTC"))
    window = Window(monoids.struct(top=monoids.max("v"), n=monoids.hyperloglog("v")))
    window.insert_many([1, 2], {"v": zoned.slice(0, 2)})
    window.insert_many([3, 4], {"v": zoned.slice(1)})
    window.insert_many([5, 6], {"v": pl.from_arrow(zoned.slice(1))})
    assert window.query() == {"top": np.datetime64(2, "us"), "n": 2}


def test_filters_of_a_table_are_read_from_bytes() -> None:
    """A table holds a filter as bytes; `Bloom.from_bytes` reads them, given the aggregate if it has a capacity."""
    for monoid in (monoids.bloom("v"), monoids.bloom("v", capacity=100, error=0.001)):
        table = rolling({"t": [1, 2], "v": ["anna", "otto"]}, time="t", windows=[9], aggs={"x": monoid})
        first, both = (monoids.Bloom.from_bytes(value, monoid) for value in table["x_9"].to_pylist())
        assert "anna" in first and "otto" not in first and "anna" in both and "otto" in both
        window = Window(monoid)
        window.insert_many([1, 2], ["anna", "otto"])
        assert both == window.query()
    default = rolling({"t": [1], "v": ["anna"]}, time="t", windows=[9], aggs={"x": monoids.bloom("v")})["x_9"][
        0
    ].as_py()
    assert "anna" in monoids.Bloom.from_bytes(default)
    with pytest.raises(ArgumentError, match=r"^data must have the 2048 bytes of a filter of bloom\(\), got 180; pass"):
        monoids.Bloom.from_bytes(bytes(180))
    for arguments in (("anna",), (default, monoids.sum()), (default, "bloom")):
        with pytest.raises(KindError):
            monoids.Bloom.from_bytes(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("capacity, error", [(1, 0.5), (100, None), (1000, 0.001), (3000, 0.2)])
def test_bloom_by_capacity(capacity: int, error: float | None) -> None:
    """A filter of a capacity keeps its false positive rate, and has no false negatives."""
    monoid = monoids.bloom(capacity=capacity, error=error)
    found = answer(monoid, range(capacity))
    bits = math.ceil(-capacity * math.log(error or 0.01) / math.log(2) ** 2)
    assert found.size % 64 == 0 and bits <= found.size < bits + 64
    assert found.hashes == max(1, round(found.size / capacity * math.log(2)))
    assert all(value in found for value in range(capacity))
    assert sum(value in found for value in range(10**6, 10**6 + 5000)) <= 5000 * 1.5 * (error or 0.01) + 5


def test_blooms_compare_and_print() -> None:
    """Filters are equal by bits and hashes, and say how full they are."""
    one, two = answer(monoids.bloom(capacity=100), "ab"), answer(monoids.bloom(capacity=100), "ba")
    assert one == two and hash(one) == hash(two) and pickle.loads(pickle.dumps(one)) == one
    assert one != monoids.bloom(capacity=100).empty() and one != one.bits
    assert monoids.Bloom(bytes(8), 3) != monoids.Bloom(bytes(8), 4)
    assert repr(monoids.Bloom(b"\3" + bytes(7), 3)) == "Bloom(2 of 64 bits set)"
    assert repr(monoids.bloom().empty()) == "Bloom(0 of 16384 bits set)"


@pytest.mark.parametrize("lg_k", [4, 11, 14])
@pytest.mark.parametrize("distinct", [1, 10, 300, 20_000])
def test_hyperloglog_is_near(lg_k: int, distinct: int) -> None:
    """The estimate is within four standard errors, however often values are repeated."""
    monoid = monoids.hyperloglog(lg_k=lg_k)
    registers = np.zeros(1 << lg_k, np.uint8)
    for value in range(distinct):  # the union of the values' registers, without copying them all
        hashed = monoids.stable_hash(value)
        rank = 65 - lg_k - ((hashed & ((1 << (64 - lg_k)) - 1)).bit_length())
        index = hashed >> (64 - lg_k)
        registers[index] = max(registers[index], rank)
    if distinct <= 300:
        assert reduce(monoid.combine, lifted(monoid, [*range(distinct), 0])) == registers.tobytes()
    estimate = monoid.lower(registers.tobytes())
    assert isinstance(estimate, int) and abs(estimate - distinct) <= 4 * 1.04 / math.sqrt(1 << lg_k) * distinct + 0.5


def test_hyperloglog_at_its_ends() -> None:
    """No register set means no values; all full means more than any hash can count."""
    assert monoids.hyperloglog().lower(bytes(2048)) == 0
    assert monoids.hyperloglog(lg_k=4).lower(bytes([60] * 16)) > 2**60
