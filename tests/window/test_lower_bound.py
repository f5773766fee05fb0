"""The paper's lower bound as a program: a window sorts, so it cannot be faster than sorting.

With x⊗y = x a query gives the first element. Inserting a permutation whose elements are at most d out of
order, then asking and evicting, sorts it with 3m operations.
"""

import itertools
import math
import random

import pytest

from sash import Monoid, Window, monoids
from support.structures import Structure


def left(x: int | None, y: int | None) -> int | None:
    """x⊗y = x, with None added as the identity that a monoid needs."""
    return y if x is None else x


def left_monoid() -> Monoid:
    return Monoid(identity=None, combine=left, name="left")


def displacement(permutation: tuple[int, ...]) -> int:
    """The greatest number of earlier and larger elements: the out-of-order distance of the insertions."""
    return max(sum(earlier > x for earlier in permutation[:i]) for i, x in enumerate(permutation))


def shuffled_within(m: int, d: int, seed: int) -> list[int]:
    """A random permutation of 0..m-1 that is at most d out of order, made as in the proof of the lemma."""
    rng = random.Random(seed)
    permutation: list[int] = []
    for x in reversed(range(m)):
        permutation.insert(rng.randrange(min(len(permutation), d) + 1), x)
    return permutation


def sort_with(window: Window, permutation: list[int] | tuple[int, ...]) -> list[int]:
    """m inserts, then m queries and m evicts."""
    for x in permutation:
        window.insert(x, x)
    out = []
    for _ in permutation:
        first = window.query()
        out.append(first)
        assert window.evict(first) is True
    assert len(window) == 0
    return out


def test_every_short_permutation_is_sorted(unordered: Structure) -> None:
    """All permutations of six elements come out sorted."""
    for permutation in itertools.permutations(range(6)):
        assert sort_with(unordered.window(left_monoid()), permutation) == list(range(6))


@pytest.mark.parametrize("d", [0, 1, 2, 8, 64, 399])
def test_long_permutations_are_sorted(unordered: Structure, d: int) -> None:
    """Permutations at most d out of order come out sorted, by the Python monoid and by the native first."""
    m = 400
    permutation = shuffled_within(m, d, seed=d)
    assert displacement(tuple(permutation)) <= d
    assert sort_with(unordered.window(left_monoid()), permutation) == list(range(m))
    assert sort_with(unordered.window(monoids.first()), permutation) == list(range(m))


@pytest.mark.parametrize("m, d", [(5, 0), (5, 1), (6, 2), (6, 3), (6, 6)])
def test_there_are_as_many_permutations_as_the_lemma_says(m: int, d: int) -> None:
    """d! (d + 1)^(m - d) permutations are at most d out of order, and the paper's tree sorts each of them."""
    within = [p for p in itertools.permutations(range(m)) if displacement(p) <= d]
    assert len(within) == math.factorial(d) * (d + 1) ** (m - d)
    for permutation in within:
        window = Window(left_monoid(), structure="paper", min_arity=2)
        assert sort_with(window, permutation) == list(range(m))


def test_sorting_meets_the_lower_bound() -> None:
    """Sorting takes O(m log d) combines in all, which is the lower bound."""
    m, mu = 2**12, 2
    for d in (0, 1, 4, 16, 64, 256, 1024):
        window = Window(monoids.first(), structure="paper", min_arity=mu)
        assert sort_with(window, shuffled_within(m, d, seed=d)) == list(range(m))
        assert window.combines <= m * (25 + 10 * math.log2(d + 2)), d


def test_in_order_structures_sort_what_is_sorted(ordered: Structure) -> None:
    """At distance 0 there is nothing to sort, and the in-order structures hand it through."""
    assert sort_with(ordered.window(left_monoid()), list(range(300))) == list(range(300))
