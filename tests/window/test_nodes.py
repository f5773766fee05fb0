"""What `nodes()` says about every structure: each stored aggregate, and parts of large trees.

The operator joins letters, so an aggregate spells the entries that it covers.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sash import KindError, Monoid, Window, monoids
from support.cases import concat_monoid
from support.structures import STRUCTURES, Structure

Node = dict[str, Any]
KIND = pytest.mark.parametrize("kind", STRUCTURES, ids=Structure.label)
SMALL = [one for one in STRUCTURES if one.name in ("fiba", "paper", "classic") and one.kwargs]


def letter(time: int) -> str:
    return chr(0x4E00 + time)  # so many that each time has its own


def walk(node: Node | None) -> Iterator[Node]:
    if node is not None:
        yield node
        for child in node["children"]:
            yield from walk(child)


def aggregates(window: Window) -> list[str]:
    """Everything that a window stores, in any order."""
    nodes = window.nodes()
    if nodes is None:
        return []
    if "cuts" in nodes:
        return [*(one for one in nodes["aggregates"] if one is not None), *nodes["totals"].values()]
    stored = [node["aggregate"] for node in walk(nodes) if node["aggregate"] is not None]
    return stored + [end["aggregate"] for end in nodes.get("ends", ())]


def churned(structure: Structure, steps: int, seed: int) -> Iterator[Window]:
    """Yield a window after each of many random changes and queries."""
    chance, window, newest = random.Random(seed), structure.window(concat_monoid()), 0
    for _ in range(steps):
        if len(window) and chance.random() < 0.4:
            times = list(window)
            window.evict(chance.choice(times) if structure.evicts_anywhere else times[0])
        else:
            time = newest + 1 if structure.in_order else chance.randrange(60)
            newest = max(newest, time)
            if time not in window:
                window.insert(time, letter(time))
        if chance.random() < 0.7:
            window.query()
        yield window


@KIND
def test_each_aggregate_is_that_of_neighbors(kind: Structure) -> None:
    """Every aggregate that is shown spells a run of present entries, whatever happened before."""
    seen = 0
    for window in churned(kind, 300, 1):
        whole = "".join(map(letter, window))
        if kind.name == "reactive":  # whose root joins the end of the ring with its start
            whole += whole
        for aggregate in aggregates(window):
            assert aggregate
            assert aggregate in whole
            seen += 1
    assert seen > 300


@KIND
def test_all_entries_are_shown_in_order(kind: Structure) -> None:
    """The values of nodes, or of elements, are all entries; looking changes nothing and combines nothing."""
    for window in churned(kind, 150, 2):
        combines = window.combines
        nodes = window.nodes()
        shown = [] if nodes is None else nodes["values"] if "cuts" in nodes else values_of(nodes)
        assert sorted(shown) == [letter(time) for time in window]
        assert window.combines == combines
        window.check_invariants()


def values_of(nodes: Node) -> list[str]:
    return [value for node in walk(nodes) for value in node["values"]]


COPIED = {
    "objects": concat_monoid,
    "numbers": monoids.sum,
    "records": monoids.variance,
    "wide": lambda: monoids.approx_quantile(q=0.5),
}


@pytest.mark.parametrize("monoid", COPIED.values(), ids=COPIED)
@KIND
def test_a_copy_goes_on_as_its_original(kind: Structure, monoid: Callable[[], Monoid]) -> None:
    """A copy has the same nodes and aggregates, and changes and queries do the same to both, with as many combines."""
    chance, window, newest = random.Random(6), kind.window(monoid()), 0
    both = (window, window.copy())
    for step in range(300):
        if len(window) and chance.random() < (0.2 if step % 100 < 60 else 0.6):
            times = list(window)
            time = chance.choice(times) if kind.evicts_anywhere and chance.random() < 0.5 else times[0]
            for one in both:
                one.evict(time)
        else:
            late = not kind.in_order and chance.random() < 0.4
            time = chance.uniform(0, newest) if late else float(newest + 1)
            newest = max(newest, int(time))
            for one in both:
                one.insert(time, letter(step) if monoid is concat_monoid else step % 7)
        if chance.random() < 0.6:
            for one in both:
                one.query()
        assert unnamed(both[1].nodes()) == unnamed(window.nodes())
        assert both[1].combines == window.combines
        if chance.random() < 0.1:
            both = (window, window.copy())
    both[1].check_invariants()


def unnamed(node: Node | None) -> Node | None:
    """Nodes without their ids, which are of their own."""
    if node is None or "cuts" in node:
        return node
    return {**node, "id": None, "children": [unnamed(child) for child in node["children"]]}


@pytest.mark.parametrize("name", ["two_stacks", "daba"])
def test_parts_of_a_queue(name: str) -> None:
    """The cuts stand in order, within the queue, and an empty queue shows nothing."""
    kind = next(one for one in STRUCTURES if one.name == name)
    assert kind.window(concat_monoid()).nodes() is None
    for window in churned(kind, 300, 3):
        nodes = window.nodes()
        if nodes is None:
            assert len(window) == 0
            continue
        places = list(nodes["cuts"].values())
        assert places == sorted(places)
        assert all(0 <= place <= len(nodes["keys"]) for place in places)
        assert len(nodes["keys"]) == len(nodes["aggregates"]) == len(nodes["values"])
        stored = [one for one in nodes["aggregates"] if one is not None] + list(nodes["totals"].values())
        assert stored and all(one in "".join(nodes["values"]) for one in stored)


@pytest.mark.parametrize("kind", [one for one in SMALL if one.name == "fiba"], ids=Structure.label)
def test_ends_of_fiba_cover_the_window(kind: Structure) -> None:
    """After a query the longest suffix, the middle and the prefix are the whole window, and nothing is stale."""
    for window in churned(kind, 200, 4):
        if not len(window):
            continue
        window.query()
        ends = {(end["part"], end["level"], end["position"]): end["aggregate"] for end in window.nodes()["ends"]}
        suffix = max((text for (part, *_), text in ends.items() if part == "suffix"), key=len, default="")
        prefix = max((text for (part, *_), text in ends.items() if part == "prefix"), key=len, default="")
        middle = next((text for (part, *_), text in ends.items() if part == "middle"), "")
        assert suffix + middle + prefix == "".join(map(letter, window))
        for node in walk(window.nodes()):
            assert node["spine"] or node["aggregate"]


@pytest.mark.parametrize("kind", SMALL, ids=Structure.label)
def test_ids_are_those_of_nodes(kind: Structure) -> None:
    """A node keeps its id as long as it exists, and no two have the same."""
    window = kind.window(concat_monoid())
    for time in range(200):
        window.insert(time, letter(time))
    before = {node["id"]: node for node in walk(window.nodes())}
    assert len(before) == sum(1 for _ in walk(window.nodes()))
    window.insert(200, letter(200))
    after = {node["id"]: node for node in walk(window.nodes())}
    assert len(after.keys() - before.keys()) <= 3
    same = [name for name in before if name in after and before[name]["keys"] == after[name]["keys"]]
    assert len(same) > len(before) - 5


@pytest.mark.parametrize("kind", [*SMALL, STRUCTURES[-1]], ids=Structure.label)
def test_around_shows_the_same_nodes_and_says_what_is_left_out(kind: Structure) -> None:
    """With `around`, the ways to the times and the spines are as ever; the rest has its counts and its ends."""
    window, chance, size = kind.window(concat_monoid()), random.Random(5), 1500
    for time in range(size):
        window.insert(time, letter(time))
    for time in chance.sample(range(1, size - 1), 500):
        window.evict(time)
    whole = {node["id"]: node for node in walk(window.nodes())}
    for _ in range(20):
        times = chance.choices(range(size), k=2)
        part = window.nodes(times)
        assert sum(1 for _ in walk(part)) < len(whole) * 0.7
        for node in walk(part):
            full = whole[node["id"]]
            assert (node["keys"], node["aggregate"], node["spine"]) == (full["keys"], full["aggregate"], full["spine"])
            if "entries" in node:
                assert node["children"] == []
                below = [time for one in walk(full) if one["values"] for time in one["keys"]]
                assert (node["entries"], node["first"], node["last"]) == (len(below), min(below), max(below))
                assert node["nodes"] == sum(1 for _ in walk(full))
                inside = [time for time in times if node["first"] < time < node["last"]]
                assert not [time for time in inside if time in window]
            else:
                assert [child["id"] for child in node["children"]] == [child["id"] for child in full["children"]]


class Time:
    """A time that counts how often any is compared."""

    compares = 0

    def __init__(self, time: int) -> None:
        self.time = time

    def __lt__(self, other: "Time") -> bool:
        Time.compares += 1
        return self.time < other.time


@pytest.mark.parametrize("kind", SMALL, ids=Structure.label)
def test_around_compares_the_times_on_the_way_only(kind: Structure) -> None:
    """What is left out is counted without comparing its times, of which there are thousands."""
    window = kind.window(concat_monoid())
    for time in range(3000):
        window.insert(Time(time), letter(time))
    before = Time.compares
    window.nodes([Time(1000)])
    assert Time.compares - before < 200


def test_around_must_be_times() -> None:
    """A value that is not a time is refused, as it is everywhere."""
    window = Window(concat_monoid())
    window.insert(1, "a")
    with pytest.raises(KindError, match="around"):
        window.nodes(["b"])
    with pytest.raises(TypeError):
        window.nodes(1)
    assert window.nodes([])["keys"] == [1]
