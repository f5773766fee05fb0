"""The rebalancing lemma on random runs, and the bounds on height and occupancy, all read off nodes()."""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from sash import Window, monoids
from support.structures import Structure

Node = dict[str, Any]


def walk(node: Node | None) -> Iterator[Node]:
    """Every node of a tree, the root first."""
    if node is not None:
        yield node
        for child in node["children"]:
            yield from walk(child)


def coins_of(node: Node, mu: int) -> int:
    """The lemma's reserve of a node, from its arity alone."""
    arity, is_root = len(node["keys"]) + 1, node["spine"] == "root"
    if arity == 2 * mu + 1:
        return 4
    if arity == 2 * mu or (arity == mu - 1 and not is_root):
        return 2
    return 1 if arity == mu and not is_root else 0


def reserve(root: Node | None, mu: int) -> int:
    return sum(coins_of(node, mu) for node in walk(root))


def depths_of_leaves(node: Node, depth: int = 1) -> set[int]:
    if not node["children"]:
        return {depth}
    return set().union(*(depths_of_leaves(child, depth + 1) for child in node["children"]))


def random_moves(seed: int, length: int) -> Iterator[tuple[str, int]]:
    """Inserts and evicts that grow the window, churn it and drain it, near the ends and inside."""
    rng = random.Random(seed)
    present: list[int] = []
    for step in range(length):
        growth = 0.8 if step < length // 3 else 0.5 if step < 2 * length // 3 else 0.25
        if not present or rng.random() < growth:
            ends = [min(present) - 1, max(present) + 1] if present else [0]
            time = rng.choice([rng.choice(ends), rng.randrange(-200, 200)])
            if time not in present:
                present.append(time)
            yield "insert", time
        else:
            time = rng.choice([min(present), max(present), rng.choice(present)])
            present.remove(time)
            yield "evict", time


@pytest.mark.parametrize("seed", range(3))
def test_no_operation_is_billed_more_than_two_coins(tree: Structure, seed: int) -> None:
    """Coins after + spent - coins before is at most 2 for every single insert and evict."""
    mu, window = tree.kwargs["min_arity"], tree.window(monoids.sum())
    coins = spent = 0
    for move, time in random_moves(seed, 600):
        window.insert(time, 1) if move == "insert" else window.evict(time)
        after = reserve(window.nodes(), mu)
        assert after + (window.spent - spent) - coins <= 2, (move, time)
        assert window.spent >= spent
        coins, spent = after, window.spent
    assert spent > 0


def test_two_coins_are_needed(tree: Structure) -> None:
    """Some operation is billed two whole coins, so the bound is not slack."""
    mu, window = tree.kwargs["min_arity"], tree.window(monoids.sum())
    coins = spent = 0
    billed = []
    for move, time in random_moves(7, 600):
        window.insert(time, 1) if move == "insert" else window.evict(time)
        after = reserve(window.nodes(), mu)
        billed.append(after + window.spent - spent - coins)
        coins, spent = after, window.spent
    assert max(billed) == 2


def test_stored_coins_are_the_lemmas(tree: Structure) -> None:
    """The coins that nodes() shows are those that the arities demand."""
    mu, window = tree.kwargs["min_arity"], tree.window(monoids.sum())
    for move, time in random_moves(11, 400):
        window.insert(time, 1) if move == "insert" else window.evict(time)
        assert all(node["coins"] == coins_of(node, mu) for node in walk(window.nodes()))


def test_occupancy_and_height(tree: Structure) -> None:
    """Arity lies in [mu, 2 mu], leaves are equally deep, the height is at most 1 + log_mu((n + 1) / 2)."""
    mu, window = tree.kwargs["min_arity"], tree.window(monoids.sum())
    for move, time in random_moves(13, 600):
        window.insert(time, 1) if move == "insert" else window.evict(time)
        root = window.nodes()
        if root is None:
            assert len(window) == 0
            continue
        for node in walk(root):
            arity = len(node["keys"]) + 1
            assert (2 if node is root else mu) <= arity <= 2 * mu
            assert len(node["values"]) == arity - 1
            assert len(node["children"]) in (0, arity)
        (height,) = depths_of_leaves(root)
        assert height <= 1 + math.log((len(window) + 1) / 2, mu) + 1e-9
        assert sum(len(node["keys"]) for node in walk(root)) == len(window)


def test_keys_are_in_order(tree: Structure) -> None:
    """The keys read in order are the window's times."""
    window = tree.window(monoids.sum())

    def in_order(node: Node) -> Iterator[int]:
        for i, child in enumerate(node["children"] or [None] * (len(node["keys"]) + 1)):
            yield from in_order(child) if child else ()
            yield from node["keys"][i : i + 1]

    for move, time in itertools.islice(random_moves(17, 300), 200):
        window.insert(time, 1) if move == "insert" else window.evict(time)
    assert len(window) > 10
    assert list(in_order(window.nodes())) == list(window) == sorted(window)


def test_spines_are_the_outermost_nodes() -> None:
    """The outermost nodes below the root, and no others, are on the spines."""
    window = Window(monoids.sum(), structure="paper", min_arity=2)
    window.insert_many(range(300), [1] * 300)

    def check(node: Node, left: bool, right: bool) -> None:
        for i, child in enumerate(node["children"]):
            on_left, on_right = left and i == 0, right and i == len(node["children"]) - 1
            assert child["spine"] == ("left" if on_left else "right" if on_right else None)
            check(child, on_left, on_right)

    root = window.nodes()
    assert root["spine"] == "root"
    check(root, True, True)


def test_combining_at_a_present_time_costs_nothing(tree: Structure) -> None:
    """An insert at a present time leaves shape, coins and spent as they are."""
    window = tree.window(monoids.sum())
    window.insert_many(range(100), [1] * 100)
    spent = window.spent
    shape = [node["keys"] for node in walk(window.nodes())]
    for time in range(100):
        window.insert(time, 1)
    assert [node["keys"] for node in walk(window.nodes())] == shape
    assert window.spent == spent and window.query() == 200


def test_nodes_of_an_empty_tree(tree: Structure) -> None:
    """An empty tree has no nodes to show."""
    window = tree.window(monoids.sum())
    assert window.nodes() is None
    window.insert(1, 1)
    window.evict(1)
    assert window.nodes() is None


def test_only_trees_have_coins_and_spend_them(structure: Structure) -> None:
    """Nodes have coins only in the paper's trees; elsewhere spent stays 0."""
    window = structure.window(monoids.sum())
    window.insert_many(range(50), [1] * 50)
    window.evict_until(30)
    if structure.tree:
        assert window.nodes()["keys"] and window.spent > 0
        return
    assert window.spent == 0
    assert "coins" not in window.nodes()
    assert structure.window(monoids.sum()).nodes() is None
