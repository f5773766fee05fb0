"""The oracle of every= against numbers worked out on paper and against DuckDB. Nothing here needs sash."""

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from oracles.every import EveryOracle
from oracles.every_duckdb import by_duckdb
from oracles.keyed import Aggregate, Row

AGGS: dict[str, Aggregate] = {
    "n": ("count",),
    "m": ("count", "x"),
    "s": ("sum", "x"),
    "mean": ("mean", "x"),
    "low": ("min", "x"),
    "top": ("max", "x"),
}


def oracle(**options: Any) -> EveryOracle:
    """Sums over the last 10 at every 5, without keys."""
    defaults: dict[str, Any] = {"keys": [], "time": "t", "windows": {"10": 10}, "aggs": {"s": ("sum", "x")}, "every": 5}
    return EveryOracle(**(defaults | options))


def rows(*pairs: tuple[int, int]) -> list[Row]:
    return [{"t": t, "x": x} for t, x in pairs]


def sums(out: list[Row], name: str = "s_10") -> dict[Any, Any]:
    assert len({row["window_end"] for row in out}) == len(out)
    return {row["window_end"]: row[name] for row in out}


def test_boundaries_by_hand():
    """[b - 10, b) for each b that is a multiple of 5: an event at 5 is in the windows that end at 10 and 15."""
    out = oracle().rolled(rows((0, 1), (4, 2), (5, 4), (12, 8)))
    assert sums(out) == {5: 3, 10: 7, 15: 12, 20: 8}
    assert out[0] == {"window_start": -5, "window_end": 5, "s_10": 3}


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({"every": 10, "windows": {"10": 10}}, [10]),
        ({"every": 10, "windows": {"10": 10}, "offset": 3}, [13]),
        ({"every": 10, "windows": {"10": 10}, "offset": -7}, [13]),
        ({"every": 10, "windows": {"10": 10}, "offset": 14}, [4]),
        ({"every": 4, "windows": {"10": 10}}, [4, 8, 12]),
        ({"every": 10, "windows": {"10": 6}}, []),
        ({"every": 10, "windows": {"10": 7}}, [10]),
    ],
    ids=str,
)
def test_what_sees_an_event_at_3(options, ends):
    """Boundaries in (t, t + size] on the grid, wherever it stands."""
    assert list(sums(oracle(**options).rolled(rows((3, 1))))) == ends


def test_the_largest_window_decides():
    """Where only the larger window holds something the smaller one is empty; the start is that of the first."""
    aggs: dict[str, Aggregate] = {"n": ("count",), "s": ("sum", "x")}
    out = oracle(windows={"5": 5, "10": 10}, aggs=aggs).rolled(rows((-1, 7)))
    assert out == [
        {"window_start": -5, "window_end": 0, "n_5": 1, "s_5": 7, "n_10": 1, "s_10": 7},
        {"window_start": 0, "window_end": 5, "n_5": 0, "s_5": None, "n_10": 1, "s_10": 7},
    ]


def test_late_by_the_end_of_the_pane():
    """Windows of 15 at every 10 have panes of 5: at H = 7 the pane [0, 5) is over and [5, 10) is not."""
    one = oracle(every=10, windows={"10": 15}, late="emit")
    assert one.push(rows((4, 1), (5, 2)), watermark=7) == [
        {"t": 4, "window_start": None, "window_end": None, "s_10": None, "late": True}
    ]
    assert one.push([], watermark=9) == []
    assert one.push([], watermark=10) == [
        {"window_start": -5, "window_end": 10, "t": None, "s_10": 2, "late": False},
    ]
    assert sums(one.flush()) == {20: 2}
    assert one.metrics == {"rows_in": 2, "late": 1}


def test_updates_by_hand():
    """Shown at the watermark, revised by a late event, deleted, shown again, and the rest at the end."""
    one = oracle(emit="update", lateness=100, retract="gone", id="i")

    def said(*events: tuple[int, int, int, bool], watermark: int | None = None) -> list[tuple[Any, ...]]:
        given = [{"t": t, "x": x, "i": i, "gone": gone} for t, x, i, gone in events]
        out = one.flush() if watermark == -1 else one.push(given, watermark)
        return sorted((row["window_end"], row["s_10"], row["deleted"]) for row in out)

    assert said((3, 1, 1, False)) == []
    assert said(watermark=4) == []
    assert said(watermark=5) == [(5, 1, False)]
    assert said((4, 2, 2, False), watermark=0) == [(5, 3, False)]
    assert said((4, 9, 2, False), watermark=0) == []
    assert said((3, 1, 1, True), (4, 2, 2, True), watermark=10) == [(5, None, True)]
    assert said((3, 8, 3, False)) == [(5, 8, False), (10, 8, False)]
    assert said((12, 16, 4, False)) == []
    assert said(watermark=-1) == [(15, 16, False), (20, 16, False)]
    assert sums(one.recomputed()) == {5: 8, 10: 8, 15: 16, 20: 16}


def test_resolution_by_hand():
    """At a resolution of 5 an event at 9 counts as at 5: a window of 7 that ends at 10 sees it, at 15 it does not."""
    assert sums(oracle(windows={"10": 7}).rolled(rows((9, 1)))) == {10: 1, 15: 1}
    assert sums(oracle(windows={"10": 7}, resolution=5).rolled(rows((9, 1)))) == {10: 1}
    one = oracle(windows={"10": 7}, resolution=5)
    one.push(rows((9, 1), (4, 2)), watermark=5)
    assert one.metrics["late"] == 1


def test_order_inside_a_pane():
    """Events that count as at one time stand in the order of arrival, or of their ids."""
    aggs: dict[str, Aggregate] = {"s": ("text", "x")}
    given = [{"t": t, "x": x, "i": i} for t, x, i in [(4, "a", 3), (2, "b", 2), (7, "c", 1)]]
    assert sums(oracle(aggs=aggs).rolled(given)) == {5: "ba", 10: "bac", 15: "c"}
    assert sums(oracle(aggs=aggs, resolution=5).rolled(given)) == {5: "ab", 10: "abc", 15: "c"}
    one = oracle(aggs=aggs, resolution=5, id="i")
    one.push(given)
    assert sums(one.flush()) == {5: "ba", 10: "bac", 15: "c"}


@pytest.mark.parametrize(("every", "offset"), [(5, 0), (4, 1), (7, -3), (1, 0)])
@pytest.mark.parametrize("sizes", [[10], [3, 12], [2]], ids=str)
def test_rows_are_duckdbs(sizes, every, offset):
    """Over random events, nulls and gaps among them, the oracle gives what DuckDB's join gives."""
    rng = random.Random(every)
    given = [
        {
            "k": rng.choice([None, "a", "b"]),
            "t": rng.choice([None, *range(-30, 30)]),
            "x": rng.choice([None, *range(5)]),
        }
        for _ in range(40)
    ]
    one = oracle(keys=["k"], windows={str(size): size for size in sizes}, aggs=AGGS, every=every, offset=offset)
    table = pa.Table.from_pylist(given, schema=pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64()}))
    wanted = {(row["k"], row["window_end"]): row for row in by_duckdb(table, sizes, every, offset)}
    got = one.rolled(given)
    assert {(row["k"], row["window_end"]) for row in got} == wanted.keys() and len(got) == len(wanted)
    for row in got:
        theirs = wanted[row["k"], row["window_end"]]
        assert all(same(row[name], value) for name, value in theirs.items()), (row, theirs)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)
