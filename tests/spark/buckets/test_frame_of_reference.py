"""Rows on their way to a history's buckets come back as they were, whatever their types and values."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.stream.frame_of_reference import from_bytes, to_bytes

INTEGERS = [kind() for kind in (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)]
TIMES = [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("us"), pa.date32(), pa.date64(), pa.time64("us")]
WORDS = st.integers(0, 2**64 - 1)


@given(st.sampled_from(INTEGERS), st.lists(st.none() | WORDS | st.integers(0, 300), min_size=1), WORDS)
def test_integers_of_any_range(kind, values, base):
    """Close to each other and far apart, at both ends of a type; what is under a null does not matter."""
    whole = np.array([0 if value is None else (value + base) % 2**64 for value in values], dtype=np.uint64)
    column = pa.array(whole.astype(kind.to_pandas_dtype()), mask=np.array([value is None for value in values]))
    batch = pa.record_batch({"a": column, "b": column.slice(0)})
    assert from_bytes(to_bytes(batch)).equals(batch)
    part = batch.slice(len(values) // 2)
    assert not part.num_rows or from_bytes(to_bytes(part)).equals(part)


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_times(kind):
    width = 32 if kind == pa.date32() else 64
    day = 86_400_000 if kind == pa.date64() else 1
    values = pa.array([5 * day, None, 700 * day], pa.int32() if width == 32 else pa.int64()).view(kind)
    batch = pa.record_batch({"t": values})
    assert from_bytes(to_bytes(batch)).equals(batch)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 99), min_size=1), st.booleans())
def test_times_in_any_order(ticks, in_order):
    """As steps from one to the next, which wrap around at the ends of a word."""
    values = pa.array(sorted(ticks) if in_order else ticks, pa.int64()).view(pa.timestamp("us", "UTC"))
    batch = pa.record_batch({"t": values})
    assert from_bytes(to_bytes(batch)).equals(batch)
    part = batch.slice(len(ticks) // 2)
    assert from_bytes(to_bytes(part)).equals(part)


def test_what_fields_say_of_themselves_comes_back():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False, metadata={"least": "5"}), pa.field("b", pa.string())])
    batch = pa.record_batch([pa.array([2**62]), pa.array(["x"])], schema=schema)
    assert from_bytes(to_bytes(batch)).schema.equals(schema, check_metadata=True)
    far = pa.record_batch([pa.array([0, 2**62]), pa.array(["x", None])], schema=schema)
    assert from_bytes(to_bytes(far)).equals(far)


def test_rows_without_any_come_back():
    batch = pa.record_batch({"t": pa.array([], pa.timestamp("us")), "x": pa.array([], pa.int64())})
    assert from_bytes(to_bytes(batch)).equals(batch)


def test_other_columns_travel_as_they_are():
    columns = {
        "text": ["a", None, "é"],
        "real": [1.5, float("nan"), None],
        "flag": [True, None, False],
        "list": [[1], [], None],
        "none": pa.nulls(3, pa.int64()),
        "when": [dt.datetime(2026, 1, 1)] * 3,
    }
    batch = pa.record_batch(columns)
    assert repr(from_bytes(to_bytes(batch)).to_pylist()) == repr(batch.to_pylist())


def test_rows_of_small_range_take_a_fraction_of_their_size():
    rng = np.random.default_rng(1)
    batch = pa.record_batch({"k": rng.integers(0, 2**16, 10_000) + 2**50, "t": np.arange(10_000) + 10**15})
    assert len(to_bytes(batch)) < batch.nbytes / 3


def test_times_in_order_take_their_steps():
    """However far they reach."""
    times = pa.array(np.arange(10_000) * 10**9, pa.timestamp("us"))
    assert len(to_bytes(pa.record_batch({"t": times}))) < times.nbytes / 20
