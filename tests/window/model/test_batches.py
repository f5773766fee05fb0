"""Batches among single calls: insert_many in any order, evict_until, and everything between, against a dict."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from sash import Monoid, Window, monoids
from support.cases import concat_monoid

SIZES = [(2, 4), (3, 5), (4, 4), (8, 8), (64, 16), (5, 63), (3, 64)]


class Batches:
    """A random run over a window of `fiba` and the dict it must agree with."""

    def __init__(self, seed: int, monoid: Monoid, value: Callable[[random.Random], Any]) -> None:
        self.rng = random.Random(seed)
        capacity, fanout = self.rng.choice(SIZES)
        self.window = Window(monoid, leaf_capacity=capacity, fanout=fanout)
        self.value = value
        self.held: dict[int, Any] = {}
        self.span = self.rng.choice([20, 200, 2000])

    def insert_many(self) -> None:
        rng = self.rng
        low = rng.randrange(self.span)
        times = [
            rng.randint(low, low + rng.randrange(1, self.span))
            for _ in range(rng.randrange(1, rng.choice([5, 60, 300])))
        ]
        if rng.random() < 0.6:
            times.sort()
        if rng.random() < 0.3:
            times = list(dict.fromkeys(times))
        values = [self.value(rng) for _ in times]
        self.window.insert_many(times, values)
        for time, value in zip(times, values, strict=True):
            self.held[time] = self.held[time] + value if time in self.held else value

    def insert(self) -> None:
        time, value = self.rng.randrange(self.span), self.value(self.rng)
        self.window.insert(time, value)
        self.held[time] = self.held[time] + value if time in self.held else value

    def evict(self) -> None:
        time = self.rng.choice([*self.held, self.rng.randrange(self.span)])
        assert self.window.evict(time) == (self.held.pop(time, None) is not None)

    def evict_until(self) -> None:
        edge, inclusive = self.rng.randrange(2 * self.span), self.rng.random() < 0.5
        gone = [time for time in self.held if (time <= edge if inclusive else time < edge)]
        assert self.window.evict_until(edge, inclusive=inclusive) == len(gone)
        for time in gone:
            del self.held[time]

    def query(self) -> None:
        low, high = sorted(self.rng.choices(range(-1, 2 * self.span), k=2))
        inside = [value for time, value in sorted(self.held.items()) if low <= time < high]
        expected = (
            sum(inside[1:], inside[0]) if inside and not isinstance(inside[0], str) else "".join(map(str, inside))
        )
        if inside:
            assert self.window.query(low, high, closed="left") == expected

    def step(self) -> None:
        moves = (
            [self.insert_many] * 4 + [self.evict_until] * 2 + [self.insert] * 2 + [self.evict] * 2 + [self.query] * 2
        )
        self.rng.choice(moves)()
        if self.rng.random() < 0.6:
            values = [value for _, value in sorted(self.held.items())]
            if values:
                assert self.window.query() == (values[0] if len(values) == 1 else joined(values))
        self.window.check_invariants()
        assert list(self.window.items()) == sorted(self.held.items())


def joined(values: list[Any]) -> Any:
    return "".join(values) if isinstance(values[0], str) else sum(values)


@pytest.mark.parametrize("part", range(8))
def test_batches_of_ints(part: int) -> None:
    """Sums of ints, whose batches go in by the leaf and out by the subtree."""
    for seed in range(60):
        run = Batches(1000 * part + seed, monoids.sum(), lambda rng: rng.randrange(-50, 50))
        for _ in range(14):
            run.step()


@pytest.mark.parametrize("part", range(2))
def test_batches_of_letters(part: int) -> None:
    """Concatenation in Python, whose batches go in row by row and show every value out of place."""
    for seed in range(30):
        run = Batches(1000 * part + seed, concat_monoid(), lambda rng: rng.choice("abcdefgh"))
        for _ in range(14):
            run.step()


def test_a_batch_with_ties_that_overflow() -> None:
    """A batch in any order whose equal times overflow int64 moves the window to wider entries half way through."""
    high = 2**63 - 1
    rng = random.Random(4)
    for _ in range(50):
        window = Window(monoids.sum(), leaf_capacity=4, fanout=4)
        times = [rng.randrange(12) for _ in range(40)]
        values = [rng.choice([high, -high, 1]) for _ in times]
        window.insert_many(times[:20], values[:20])
        window.insert_many(times[20:], values[20:])
        window.check_invariants()
        held: dict[int, int] = {}
        for time, value in zip(times, values, strict=True):
            held[time] = held.get(time, 0) + value
        assert dict(zip(*window._freeze()[:2], strict=True)) == held
