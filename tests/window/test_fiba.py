"""What `fiba` promises beyond the contract: its costs in combines, its height, its memory of what it evicted."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.combines import per_round, table
from sash import Window, monoids
from sash.window.draw import svg

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(64, 16), (16, 8), (4, 4)]


def height(window: Window) -> int:
    node, levels = window.nodes(), 0
    while node and node["children"]:
        node, levels = node["children"][0], levels + 1
    return levels


def bound(distance: int, capacity: int, fanout: int) -> float:
    """A leaf, and on each level that a distance spans a node and two cumulative aggregates."""
    levels = max(0.0, math.log2((distance + 2) / capacity)) / math.log2(fanout / 4 if fanout > 8 else 2)
    return 8 + min(distance + 2, 1.25 * capacity) + (fanout + 2) * (1 + levels) * (distance >= capacity // 4)


@pytest.mark.parametrize(("capacity", "fanout"), SIZES)
@pytest.mark.parametrize("distance", [0, 1, 4, 16, 64, 256, 1024, 2**13])
def test_a_round_costs_the_logarithm_of_its_distance(distance: int, capacity: int, fanout: int) -> None:
    """Combines per round stay below a bound in d alone, at every n."""
    options = {"leaf_capacity": capacity, "fanout": fanout}
    for size in (2**14, 2**16, 2**18):
        assert per_round("fiba", options, distance, size, 2048) <= bound(distance, capacity, fanout)


def test_the_bound_is_one_that_can_be_broken() -> None:
    """The classic tree, which climbs to the root each time, breaks it at d = 0."""
    assert per_round("classic", {"min_arity": 4}, 0, 2**16, 2048) > bound(0, 4, 4)


def test_in_order_it_costs_what_two_stacks_costs() -> None:
    """One combine to append, one for the suffix, two to query, and a little for the nodes."""
    assert per_round("fiba", {}, 0, 2**16, 4096) < 4.5
    assert per_round("two_stacks", {}, 0, 2**16, 2**17) > 2.9


def test_a_query_without_an_update_costs_two_combines() -> None:
    """Once repaired, the answer is three aggregates."""
    window = Window(monoids.sum())
    window.insert_many(np.arange(100_000), np.arange(100_000))
    window.query()
    before = window.combines
    window.query()
    assert window.combines - before == 2


def test_height_follows_the_present_size() -> None:
    """A window that shrank from a million entries to ten is one of ten, from whichever end it shrank."""
    for end in ("old", "new", "both"):
        window = Window(monoids.sum(), leaf_capacity=8, fanout=4)
        window.insert_many(np.arange(100_000), np.ones(100_000, dtype=np.int64))
        assert height(window) >= 7
        if end == "old":
            window.evict_until(99_989)
        elif end == "new":
            for time in range(99_999, 9, -1):
                window.evict(time)
        else:
            window.evict_until(49_999)
            for time in range(99_999, 50_009, -1):
                window.evict(time)
        window.check_invariants()
        assert len(window) == 10 and height(window) <= 3
        window.query()
        before = window.combines
        window.insert(window.newest + 1, 1)
        window.query()
        assert window.combines - before <= 4


def test_height_is_logarithmic_after_random_updates() -> None:
    """Two children at least on every level keep the tree as low as it must be, wherever updates fall."""
    rng = random.Random(6)
    window = Window(monoids.sum(), leaf_capacity=4, fanout=4)
    for _ in range(20_000):
        time = rng.randrange(5000)
        window.evict(time) if rng.random() < 0.5 else window.insert(time, 1)
        if rng.random() < 0.01:
            assert height(window) <= math.log2(len(window) + 2) + 1
    window.check_invariants()


@pytest.mark.parametrize(("capacity", "fanout"), SIZES)
def test_a_stretch_costs_the_logarithms_of_its_ends(capacity: int, fanout: int) -> None:
    """A range query combines what its two ends and its length ask for, not what the window holds."""
    n = 2**17
    window = Window(monoids.sum(), leaf_capacity=capacity, fanout=fanout)
    window.insert_many(np.arange(n), np.arange(n))
    window.query()
    stretches = [(0, 9), (n - 9, n - 1), (5, n - 5), (n // 3, n // 2), (n - 5000, n - 3000), (100, 200)]
    for start, stop in stretches:  # repairs what the filling left
        assert window.query(start, stop) == sum(range(start, stop + 1))
    for start, stop in stretches:
        before = window.combines
        window.query(start, stop)
        cost = window.combines - before
        spans = [min(start, n - start), min(stop, n - stop), stop - start]
        levels = sum(math.log2(span + 2) for span in spans) / math.log2(fanout / 2)
        assert cost <= 2 * capacity + fanout * (levels + 2)


def test_a_batch_repairs_each_aggregate_once() -> None:
    """Inserting a run at once and asking once combines far less than asking after each row."""
    n, m, distance = 2**18, 2**12, 2**16
    times = np.concatenate([np.arange(n - distance), 10**12 + np.arange(distance)])
    run = np.arange(n, n + m)
    combines = []
    for batch in (True, False):
        window = Window(monoids.sum())
        window.insert_many(times, times)
        window.query()
        before = window.combines
        if batch:
            window.insert_many(run, run)
            answer = window.query()
        else:
            answer = window.slide(run, run, count=n + m)[-1]
        assert answer == times.sum() + run.sum()
        combines.append(window.combines - before)
    assert combines[0] < combines[1] / 4


def test_appends_and_evictions_at_an_edge_do_not_thrash() -> None:
    """Going to and fro over the edge of a leaf makes and frees one now and then, not each time."""
    for capacity, fanout in SIZES:
        window = Window(monoids.sum(), leaf_capacity=capacity, fanout=fanout)
        window.insert_many(np.arange(64 * capacity), np.ones(64 * capacity, dtype=np.int64))
        window.query()
        before = window.combines
        rounds = 50 * capacity
        for _ in range(rounds):
            window.insert(64 * capacity, 1)
            window.query()
            window.evict(64 * capacity)
            window.query()
        assert (window.combines - before) / rounds < 12


def test_the_table_in_the_documentation_is_that_of_the_code() -> None:
    """docs/algorithm.md holds the combines per round as they are counted today."""
    text = (ROOT / "docs" / "algorithm.md").read_text()
    assert text.split("<!-- combines -->\n")[1].split("\n<!-- end -->")[0] == table()


def test_the_pictures_in_the_documentation_are_those_of_the_code() -> None:
    """docs/pictures has the current drawings of the trees."""
    namespace: dict[str, object] = {"__name__": "pictures"}
    exec(compile((ROOT / "docs" / "pictures" / "draw.py").read_text(), "draw.py", "exec"), namespace)
    for name, picture in namespace["pictures"]().items():  # type: ignore[operator]
        assert (ROOT / "docs" / "pictures" / name).read_text() == picture


def test_a_picture_of_nothing() -> None:
    """An empty window has an empty picture."""
    assert "<rect" in svg(Window(monoids.sum())) and "<text" not in svg(Window(monoids.sum()))
