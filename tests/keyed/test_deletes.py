"""Deletes without ids: which row they remove, what a batch may hold, and what is emitted."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sash import KeyedWindows, Monoid, monoids
from support.keyed_batches import engine, marked, picked

LAST = 2**63 - 1
OWN = Monoid(identity="", combine=lambda a, b: a + b, column="v", name="own", returns="string")


def rows(values: list[Any], gone: list[bool], kind: Any = None, **more: Any) -> pa.Table:
    """Rows of one key and time."""
    count = len(values)
    columns = {"k": ["a"] * count, "t": [5] * count, "v": pa.array(values, kind), "gone": gone}
    return pa.table(columns | more)


AGGREGATES = {
    "count": (monoids.count("v"), [2, 3], None),
    "count_if": (monoids.count_if("v"), [2, 3], None),
    "all": (monoids.all("v"), [2, 3], None),
    "any": (monoids.any("v"), [2, 3], None),
    "mean of large ints": (monoids.mean("v"), [2**53, 2**53 + 1], None),
    "distinct": (monoids.distinct("v"), ["x", "y"], None),
    "own": (OWN, ["x", "y"], None),
    "max of text": (monoids.max("v"), ["x", "y"], None),
    "sum of decimals": (monoids.sum("v"), [Decimal("1.5"), Decimal("2.5")], None),
    "lists": (monoids.collect_list("v"), [[1, 2], [1]], None),
    "floats": (monoids.count("v"), [0.5, 0.25], None),
    "categories": (monoids.count("v"), ["x", "y"], pa.dictionary(pa.int8(), pa.string())),
    "days": (monoids.count("v"), [1, 2], pa.date32()),
    "durations": (monoids.count("v"), [1, 2], pa.duration("s")),
}


@pytest.mark.parametrize("every", [None, 5])
@pytest.mark.parametrize("name", AGGREGATES)
def test_a_delete_removes_a_row_that_is_equal_in_what_is_aggregated(name: str, every: int | None) -> None:
    """Whoever computes the aggregate, and however little of the column it reads; also in a copy."""
    monoid, (one, two), kind = AGGREGATES[name]
    kw = engine(aggs={"x": monoid, "n": monoids.count()}, retract="gone", every=every, emit="final", lateness=9)
    kw.push(rows([one, one], [False] * 2, kind))
    kw = KeyedWindows.from_bytes(kw.to_bytes(), kw.spec.aggs)
    kw.push(rows([two, None], [True, True], kind))
    assert (kw.metrics["unmatched"], kw.metrics["live_rows"]) == (2, 2)
    kw.push(rows([one], [True], kind))
    assert (kw.metrics["unmatched"], kw.metrics["live_rows"]) == (2, 1)
    kw.check_invariants()


def test_a_null_is_equal_to_a_null() -> None:
    """And to nothing else."""
    kw = engine(aggs={"x": monoids.count("v")}, retract="gone")
    kw.push(rows([None, 0], [False, False], pa.int64()))
    kw.push(rows([None], [True], pa.int64()))
    assert (kw.metrics["unmatched"], kw.metrics["live_rows"]) == (0, 1)


@pytest.mark.parametrize("gone", [[False, True], [True, False]])
def test_a_batch_may_hold_a_row_and_its_delete_in_any_order(gone: list[bool]) -> None:
    """What a batch deletes is looked for among its own rows too, whatever their order."""
    kw = engine(aggs={"x": monoids.sum("v")}, retract="gone", emit="arrival")
    assert kw.push(rows([7, 7], gone)).num_rows == 0
    assert (kw.metrics["unmatched"], kw.metrics["live_rows"]) == (0, 0)


def carried(values: list[int], gone: list[bool], names: list[str]) -> pa.Table:
    return rows(values, gone, c=names)


def test_what_remains_of_a_key_and_time_is_emitted_instead_of_a_delete() -> None:
    """Without ids two events may have one identity: an upsert must be left with the one that remains."""
    kw = engine(aggs={"x": monoids.sum("v")}, retract="gone", emit="update", carry=["c"], lateness=9)
    first = kw.push(carried([0, 3], [False, False], ["zero", "three"]))
    assert picked(first, "c", "x_10", "deleted") == [("zero", 3, False), ("three", 3, False)]
    second = kw.push(carried([0], [True], ["zero"]))  # its results do not change, but what stands for it may
    assert picked(second, "c", "x_10", "revision", "deleted") == [("three", 3, 2, False)]
    third = kw.push(carried([3, 4], [True, False], ["three", "four"]))
    assert picked(third, "c", "x_10", "deleted") == [("four", 4, False)]
    last = kw.push(carried([4], [True], ["four"]))
    assert picked(last, "t", "x_10", "deleted") == [(5, None, True)]
    assert kw.metrics["deleted"] == 1


def test_two_events_that_share_their_identity_are_deleted_once() -> None:
    """One row for each identity."""
    kw = engine(aggs={"x": monoids.sum("v")}, retract="gone", emit="update", lateness=9)
    kw.push(rows([1, 2], [False, False]))
    assert picked(kw.push(rows([2, 1], [True, True])), "deleted") == [(True,)]


# --- deletes that wait ----------------------------------------------------------------------------


def test_a_delete_of_the_last_instant_is_dropped_with_all_else() -> None:
    """No horizon passes it, so it was due again and again: the flush never ended."""
    kw = engine(id="i", retract="gone")
    kw.push(marked([(5, 1, 0, True), (LAST, 1, 1, True)]))
    assert kw.flush().num_rows == 0
    kw.check_invariants()
    assert kw.metrics["live_keys"] == 0


def test_a_delete_of_the_last_instant_waits_when_all_before_it_is_dropped() -> None:
    """It is not before it; its row is withdrawn when it comes."""
    kw = engine(id="i", retract="gone")
    kw.push(marked([(5, 1, 0, True), (LAST, 1, 1, True)]))
    kw.drop_before(LAST)
    kw.check_invariants()
    assert kw.push(marked([(LAST, 1, 1, False)])).num_rows == 0
    assert kw.metrics["repeated"] == 1
