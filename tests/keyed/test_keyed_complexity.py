"""What a late row and a delete cost in KeyedWindows, checked by counting combines and never by the clock.

`repairs` counts the combines that make or change the stored summaries of a key's tree. A row at distance d from the
newest makes those stale that lie on the way from it to the right spine, of which there are O(log d), whatever the
number of rows held. Each measurement is the push of that row and of the next row in order, whose window covers all.
"""

from math import log2
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from sash import KeyedWindows, Monoid, monoids
from sash.keyed import definition

MANY = 2**17
STEP = 1000  # between rows in order, so that there is room for late ones
FOREVER = 2**40
SAMPLES = 6

NODES = {"default": (0, 0), "eight": (8, 8)}
ABOUT = {"default": (64, 16), "eight": (8, 8)}  # rows of a leaf and children of a node, as the bound has them
AGGS = {"sum": monoids.sum("x"), "last": monoids.last("x")}

EACH_NODE = pytest.mark.parametrize("nodes", NODES)
EACH_AGG = pytest.mark.parametrize("agg", AGGS)
EACH_WAY = pytest.mark.parametrize("way", ["late", "delete"])


def bound(nodes: str, distance: int) -> float:
    """Repairs of one row at this distance: a leaf and two nodes, and a node for each level up to the spine."""
    leaf, fanout = ABOUT[nodes]
    return leaf + 2 * fanout + fanout / log2(fanout / 2) * log2(distance)


def table(times: Any, gone: bool = False) -> pa.Table:
    times = np.asarray(times, dtype=np.int64)
    return pa.table(
        {"k": np.zeros(len(times), dtype=np.int64), "t": times, "x": times, "gone": np.full(len(times), gone)}
    )


class Cost(NamedTuple):
    """What one row cost: repairs with those of the next row in order, and all combines of its own push."""

    repairs: int
    combines: int


class RetainedRows:
    """A stream that holds n rows of one key in a window that covers them all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes: str, agg: Monoid, n: int) -> None:
        monkeypatch.setattr(definition, "NODE_SIZES", NODES[nodes])
        self.kw = KeyedWindows(
            keys=["k"],
            time="t",
            windows=[FOREVER],
            aggs={"v": agg, "n": monoids.count()},
            emit="arrival",
            lateness=FOREVER,
            retract="gone",
        )
        self.kw.push(table(np.arange(n) * STEP))
        self.newest, self.rows = (n - 1) * STEP, n
        self.deleted: set[int] = set()

    def append(self) -> None:
        """A row in order: it reads all summaries, so that what was stale is repaired."""
        self.newest += STEP
        self.rows += 1
        assert self.kw.push(table([self.newest]))[f"n_{FOREVER}"].to_pylist() == [self.rows]

    def time_at(self, distance: int) -> int:
        """The time of a row in order that has so many after it; the late rows among them are few."""
        return self.newest - distance * STEP

    def deletable(self, distance: int) -> int:
        """The time of a row at about this distance that was not deleted before."""
        time = next(time for time in range(self.time_at(distance), 0, -STEP) if time not in self.deleted)
        self.deleted.add(time)
        return time

    def cost(self, way: str, distance: int, count: int = 1) -> Cost:
        """What a late row at this distance costs, or the delete of one, or `count` from there on, evenly spread."""
        self.append()
        before, combines = self.kw.repairs, self.kw.combines
        first = self.deletable(distance) if way == "delete" else self.time_at(distance) + STEP // 2 + self.rows % 97
        times = [first + at * STEP * distance // count for at in range(count)]
        self.kw.push(table(times, gone=way == "delete"))
        assert self.kw.metrics["unmatched"] == 0
        self.rows += -count if way == "delete" else count
        own = self.kw.combines - combines
        self.append()
        return Cost(self.kw.repairs - before, own)

    def costs(self, way: str, distance: int, samples: int = SAMPLES) -> list[Cost]:
        return [self.cost(way, distance) for _ in range(samples)]


@EACH_NODE
@EACH_AGG
@EACH_WAY
def test_repairs_follow_the_distance(monkeypatch, nodes, agg, way):
    """A late row, or a delete, at distance d has O(log d) summaries repaired in a window of 2^17 rows."""
    held = RetainedRows(monkeypatch, nodes, AGGS[agg], MANY)
    for power in range(4, 17):
        worst = max(cost.repairs for cost in held.costs(way, 2**power))
        assert worst <= bound(nodes, 2**power), power
    held.kw.check_invariants()


@EACH_NODE
@EACH_AGG
@EACH_WAY
def test_repairs_ignore_the_size(monkeypatch, nodes, agg, way):
    """At one distance a large window costs what a small one costs, on average up to a quarter of a leaf."""
    for distance in (2**6, 2**12):
        costs = []
        for n in (2**13, 2**15, 2**17):
            held = RetainedRows(monkeypatch, nodes, AGGS[agg], n)
            costs.append(sum(cost.repairs for cost in held.costs(way, distance, 4 * SAMPLES)) / (4 * SAMPLES))
        assert max(costs) - min(costs) <= ABOUT[nodes][0] / 4, (distance, costs)


@EACH_NODE
@EACH_AGG
def test_combines_of_a_far_row(monkeypatch, nodes, agg):
    """The push of a late row, its answer included, takes at 2^16 at most four times the combines of one at 2^4."""
    held = RetainedRows(monkeypatch, nodes, AGGS[agg], MANY)
    near, far = (max(cost.combines for cost in held.costs("late", 2**power)) for power in (4, 16))
    assert 0 < far <= 4 * near


@EACH_NODE
@EACH_AGG
def test_the_bound_can_be_broken(monkeypatch, nodes, agg):
    """Repairs in proportion to the rows behind a late one are far above the bound, and so is a row in every leaf."""
    held = RetainedRows(monkeypatch, nodes, AGGS[agg], MANY)
    far = 2**16
    assert far > 100 * bound(nodes, far)
    spread = held.cost("late", far, count=2 * far // ABOUT[nodes][0])
    assert spread.repairs > 20 * bound(nodes, far)
