"""What finding a session costs, checked by counting combines and never by the clock.

A long session is found by walks that skip whole subtrees by their widest gap, and folded by their summaries. So a late
event, a delete, a split and a merge cost O(log n) combines, whatever the number of rows.
"""

from math import log2

import numpy as np
import pyarrow as pa
import pytest

from sash import KeyedWindows, monoids
from sash.keyed import definition

GAP, STEP = 1000, 900
NODES = {"default": (0, 0), "eight": (8, 8)}
ABOUT = {"default": (64, 16), "eight": (8, 8)}  # rows of a leaf and children of a node
AGGS = {"sum": monoids.sum("x"), "last": monoids.last("x")}

EACH_NODE = pytest.mark.parametrize("nodes", NODES)
EACH_AGG = pytest.mark.parametrize("agg", AGGS)


def table(times: list[int], gone: bool = False) -> pa.Table:
    at = np.asarray(times, dtype=np.int64)
    return pa.table({"k": np.zeros(len(at), dtype=np.int64), "t": at, "x": at, "gone": np.full(len(at), gone)})


class LongSession:
    """A stream with one session of n rows, none of which is folded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes: str, agg: str, n: int) -> None:
        monkeypatch.setattr(definition, "NODE_SIZES", NODES[nodes])
        self.n = n
        self.kw = KeyedWindows(
            keys=["k"], time="t", per="session", gap=GAP, aggs={"v": AGGS[agg], "n": monoids.count()},
            emit="update", lateness=2**50, retract="gone",
        )  # fmt: skip
        self.kw.push(table([at * STEP for at in range(n)]))
        self.push([(n - 1) * STEP + 1])

    def push(self, times: list[int], gone: bool = False) -> tuple[int, list[int]]:
        """Return what a push costs, and how many rows the sessions have that came out."""
        before = self.kw.combines
        out = self.kw.push(table(times, gone))
        return self.kw.combines - before, [count for count in out["n"].to_pylist() if count is not None]


def bound(nodes: str, n: int, walks: int) -> float:
    """Combines of so many walks and folds: two leaves, and the children of two nodes on each level, of each of them."""
    leaf, fanout = ABOUT[nodes]
    return walks * (3 * leaf + 2 * fanout * (2 + log2(n) / log2(fanout / 2)))


@EACH_NODE
@EACH_AGG
def test_a_late_event_in_a_long_session(monkeypatch, nodes, agg):
    """At any place; before and after it the session is found, folded, and compared."""
    for n in (2**12, 2**17):
        held = LongSession(monkeypatch, nodes, agg, n)
        for place in (1, n // 3, n // 2, n - 3):
            cost, counts = held.push([place * STEP + 7])
            assert counts == [held.kw.metrics["live_rows"]]
            assert cost <= bound(nodes, n, 4), (n, place)
        held.kw.check_invariants()


@EACH_NODE
@EACH_AGG
def test_splits_and_merges(monkeypatch, nodes, agg):
    """A delete in the middle makes two sessions of many rows, and an event makes them one again."""
    n = 2**17
    held = LongSession(monkeypatch, nodes, agg, n)
    middle = n // 2 * STEP
    cost, counts = held.push([middle], gone=True)
    assert (sum(counts), len(counts)) == (n, 2)
    assert cost <= bound(nodes, n, 6)
    cost, counts = held.push([middle + 5])
    assert counts == [n + 1]
    assert cost <= bound(nodes, n, 6)


@EACH_NODE
def test_what_a_late_event_costs_grows_with_the_logarithm(monkeypatch, nodes):
    """A session of 2^17 rows costs at most twice what one of 2^11 costs."""
    costs = []
    for n in (2**11, 2**17):
        held = LongSession(monkeypatch, nodes, "sum", n)
        held.push([n // 2 * STEP + 7])
        costs.append(max(held.push([n // 2 * STEP + 8 + at])[0] for at in range(6)))
    assert 0 < costs[1] <= 2 * costs[0], costs


def test_an_event_of_another_key_costs_nothing_here(monkeypatch):
    held = LongSession(monkeypatch, "default", "sum", 2**12)
    before = held.kw.combines
    held.kw.push(table([3]).set_column(0, "k", pa.array([1])))
    assert held.kw.combines - before <= 8


@pytest.mark.parametrize("emit", ["final", "update"])
def test_a_stream_in_order_costs_some_combines_for_each_row(monkeypatch, emit):
    """Rows that are folded as the horizon passes them, batch by batch, in one session without end."""
    monkeypatch.setattr(definition, "NODE_SIZES", (0, 0))
    kw = KeyedWindows(
        keys=["k"], time="t", per="session", gap=GAP, aggs={"v": monoids.sum("x")}, emit=emit, lateness=50 * STEP
    )
    rows = 2**15
    for start in range(0, rows, 128):
        kw.push(table([at * STEP for at in range(start, start + 128)]), watermark=(start + 128) * STEP)
        assert kw.metrics["live_rows"] <= 128 + 50
    assert kw.combines <= 8 * rows


def test_the_bound_can_be_broken(monkeypatch):
    """A walk that looks at every row is far above it."""
    assert 2**17 > 20 * bound("default", 2**17, 6)
