"""Loads: rounds of evict, insert and query with inserts at chosen distances.

The paper's load pins the distance at exactly d. The window is filled in order, except that its newest d entries carry
far-future times. Each measured insert takes the next time after the in-order ones, below all the far-future ones; each
round evicts the oldest, inserts and queries.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sash import Monoid, Window, monoids

FAR_FUTURE = 10**15
CHUNK = 2**16  # rounds per call: streams arrive in batches, and fresh pages for millions of results should not count
SEED = 20191


@dataclass
class Rounds:
    """One window under the paper's load, ready to be timed slice by slice."""

    label: str
    structure: str
    distance: int
    size: int
    rounds: int
    min_arity: int | None = None
    monoid: Monoid = field(default_factory=monoids.sum)
    nanoseconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fill the window."""
        rng = np.random.default_rng(SEED)
        self._in_order = rng.integers(-1000, 1000, self.size - self.distance + self.rounds)
        self._far = rng.integers(-1000, 1000, self.distance)
        self._prefix = np.concatenate([[0], np.cumsum(self._in_order)])
        self._done = 0
        self.window = Window(self.monoid, structure=self.structure, min_arity=self.min_arity)
        settled = self.size - self.distance
        self.window.insert_many(np.arange(settled), self._in_order[:settled])
        self.window.insert_many(FAR_FUTURE + np.arange(self.distance), self._far)

    def run(self, rounds: int) -> None:
        """Time the next rounds, in native code throughout, and verify their answers."""
        start = self.size - self.distance + self._done
        times = np.arange(start, start + rounds)
        values = self._in_order[start : start + rounds].copy()
        spent = 0
        for at in range(0, rounds, CHUNK):
            rows = slice(at, min(at + CHUNK, rounds))
            began = time.perf_counter_ns()
            results = self.window.slide(times[rows], values[rows], count=self.size)
            spent += time.perf_counter_ns() - began
            self._verify(results, len(results))
            self._done += len(results)
        self.nanoseconds.append(spent / rounds)

    def _verify(self, results: Any, rounds: int) -> None:
        if self.monoid.name == "bloom":
            held = self._in_order[self._done + rounds : self.size - self.distance + self._done + rounds]
            right = all(int(value) in results[-1] for value in held[:: max(1, len(held) // 50)])
        else:
            newest = self.size - self.distance + self._done + 1 + np.arange(rounds)
            oldest = self._done + 1 + np.arange(rounds)
            expected = self._prefix[newest] - self._prefix[oldest] + self._far.sum()
            right = np.array_equal(np.asarray(results, dtype=np.int64), expected)
        if not right:
            raise SystemExit(f"{self.label}: a wrong answer at d = {self.distance}; nothing was measured.")

    @property
    def median(self) -> float:
        """Nanoseconds per round, the median of all slices."""
        return float(np.median(self.nanoseconds))


@dataclass
class Scattered(Rounds):
    """Rounds whose inserts fall between existing entries, at a distance that is uniform below `distance`."""

    def __post_init__(self) -> None:
        """Fill the window with gaps between its times."""
        rng = np.random.default_rng(SEED)
        self._done = 0
        self._gap = 2**20
        self.window = Window(self.monoid, structure=self.structure, min_arity=self.min_arity)
        self._values = rng.integers(-1000, 1000, self.size + self.rounds)
        self.window.insert_many(np.arange(self.size) * self._gap, self._values[: self.size])
        places = self.size - 1 - rng.integers(0, self.distance, self.rounds)
        self._times = places * self._gap + 1 + np.arange(self.rounds) % (self._gap - 1)

    def run(self, rounds: int) -> None:
        """Time the next rounds, and compare the last answer with a plain sum."""
        rows = slice(self._done, self._done + rounds)
        times, values = self._times[rows], self._values[self.size :][rows].copy()
        began = time.perf_counter_ns()
        results = self.window.slide(times, values, count=self.size)
        self.nanoseconds.append((time.perf_counter_ns() - began) / rounds)
        self._done += rounds
        expected = self._values[self._done : self.size].sum() + self._values[self.size :][: self._done].sum()
        if results[-1] != expected:
            raise SystemExit(f"{self.label}: a wrong answer at scattered distances; nothing was measured.")


def measure(cases: list[Rounds], slices: int) -> dict[str, float]:
    """Run all cases in turn, slice by slice, so that a slow moment of the machine affects all of them."""
    for _ in range(slices):
        for case in cases:
            case.run(case.rounds // slices)
    return {case.label: case.median for case in cases}
