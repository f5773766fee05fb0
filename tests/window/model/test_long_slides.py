"""Long slides by count, whose rounds a structure runs many at a time, against a dict that is summed in each round."""

import pickle
import random
from math import exp, log
from typing import Any

import pytest

from sash import Monoid, SlideError, Window, monoids
from support.structures import STRUCTURES, Structure

RUNNING = [s for s in STRUCTURES if s.name in ("fiba", "two_stacks", "daba")]
COUNTS = [2, 3, 7, 40, 300, 1100]

MONOIDS = {
    "sum": (monoids.sum, sum),
    "float sum": (lambda: monoids.sum(dtype=float), lambda values: float(sum(values))),
    "min": (monoids.min, min),
    "max": (monoids.max, max),
    "count": (monoids.count, len),
    "geomean": (monoids.geomean, lambda values: exp(sum(map(log, values)) / len(values))),
}


class Model:
    """A window, and the dict that it must agree with; values of one time are kept as a list."""

    def __init__(self, structure: Structure, name: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.monoid, self.answer = MONOIDS[name][0](), MONOIDS[name][1]
        self.exact = name != "geomean"
        self.structure, self.window = structure, structure.window(self.monoid)
        self.count = self.rng.choice(COUNTS)
        self.held: dict[int, list[int]] = {}

    def row(self) -> int:
        """The next time: an append as a rule, else a tie, or a late one near the end or anywhere."""
        newest, rng = max(self.held, default=0), self.rng
        kind = rng.random()
        if self.structure.in_order or not self.held:
            return newest + (kind < 0.97) * rng.randint(1, 5)
        if kind < self.appends:
            return newest + rng.randint(1, 5)
        if kind < 0.97:
            return newest - rng.randrange(rng.choice([2, 20, 200]))
        return rng.choice(list(self.held)) + rng.randrange(2)

    def round(self, time: int, value: int) -> Any:
        while len(self.held) >= self.count:
            del self.held[min(self.held)]
        self.held.setdefault(time, []).append(value)
        return self.answer([v for values in self.held.values() for v in values])

    def slide(self, rows: int) -> None:
        self.appends = self.rng.choice([0.1, 0.8, 0.97])
        times, values, expected = [], [], []
        for _ in range(rows):
            times.append(self.row())
            values.append(self.rng.randint(1, 99))
            expected.append(self.round(times[-1], values[-1]))
        results = self.window.slide(times, values, count=self.count).tolist()
        assert results == (expected if self.exact else pytest.approx(expected, rel=1e-9))

    def change(self) -> None:
        """A change between two slides, which the next one starts from."""
        rng = self.rng
        move = rng.choice(["none", "oldest", "copy", "pickle", "newest", "inside", "insert"])
        if move == "copy":
            self.window = self.window.copy()
        elif move == "pickle":
            self.window = pickle.loads(pickle.dumps(self.window))
        elif move == "oldest" or (self.structure.in_order and move != "none"):
            self.evict(min(self.held))
        elif move == "newest":
            for _ in range(rng.randint(1, 9)):
                self.evict(max(self.held))
        elif move == "inside":
            self.evict(rng.choice(list(self.held)))
        elif move == "insert":
            time = rng.choice(list(self.held)) + rng.randrange(3)
            self.held.setdefault(time, []).append(5)
            self.window.insert(time, 5)

    def evict(self, time: int) -> None:
        if len(self.held) > 1:
            del self.held[time]
            assert self.window.evict(time)

    def check(self) -> None:
        self.window.check_invariants()
        assert list(self.window) == sorted(self.held)


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("running", RUNNING, ids=Structure.label)
def test_long_slides_agree_with_a_dict(running: Structure, name: str) -> None:
    """Every round of every slide, whatever happened to the window before it."""
    for seed in range(12):
        model = Model(running, name, seed)
        for _ in range(6):
            model.slide(model.rng.choice([1, 10, 700]))
            model.check()
            model.change()
            model.check()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("running", RUNNING, ids=Structure.label)
def test_a_result_that_does_not_fit_stops_a_long_slide(running: Structure, late: bool) -> None:
    """The round stays done, all earlier results are there, and the slide goes on from the next row."""
    for bad in range(60, 75):
        times = [t - 3 * (late and not running.in_order and t % 4 == 0) for t in range(2, 402, 2)]
        values = [1] * 200
        values[bad] = 2**63 - 1
        window = running.window(monoids.sum())
        with pytest.raises(SlideError) as caught:
            window.slide(times, values, count=50)
        assert caught.value.index == bad
        assert list(caught.value.results) == [min(i + 1, 50) for i in range(bad)]
        assert list(window) == sorted(times[: bad + 1])[-50:]
        window.check_invariants()
        with pytest.raises(SlideError):
            window.slide(times[bad + 1 :], values[bad + 1 :], count=50)
        window.check_invariants()


@pytest.mark.parametrize("running", RUNNING, ids=Structure.label)
def test_partials_beyond_int64_are_exact(running: Structure) -> None:
    """Results that fit are right, however far partial sums are from fitting."""
    for count in (10, 1000, 1500):
        # Any `count` in a row add up to little, and half of them to far more than int64 holds.
        values = [(2**62 if i // (count // 2) % 2 else -(2**62)) + i % 7 for i in range(4 * count)]
        window = running.window(monoids.sum())
        window.insert_many(range(count), values[:count])
        expected = [sum(values[i + 1 - count : i + 1]) for i in range(count, 4 * count)]
        assert window.slide(range(count, 4 * count), values[count:], count=count).tolist() == expected
        window.check_invariants()
        assert window.copy().query() == expected[-1]


@pytest.mark.parametrize("running", RUNNING, ids=Structure.label)
def test_an_invalid_value_inside_a_long_slide(running: Structure) -> None:
    """A value that a monoid refuses stops the slide before its round."""
    for bad in range(60, 75):
        values = [1.0] * 200
        values[bad] = -1.0
        window = running.window(monoids.geomean())
        with pytest.raises(SlideError) as caught:
            window.slide(range(200), values, count=50)
        assert caught.value.index == bad
        assert list(window) == list(range(bad - 50, bad))
        window.check_invariants()
        assert window.query() == pytest.approx(1.0)


def test_long_slides_of_a_monoid_in_python_agree() -> None:
    """The same rows through Python callables, one round at a time."""
    for running in RUNNING:
        times = list(range(0, 2000, 2))
        pair = Monoid(identity="", combine=lambda a, b: a + b)
        window: Window = running.window(pair)
        expected = ["".join(chr(65 + i % 26) for i in range(max(0, k - 19), k + 1)) for k in range(1000)]
        assert list(window.slide(times, [chr(65 + i % 26) for i in range(1000)], count=20)) == expected
        window.check_invariants()
