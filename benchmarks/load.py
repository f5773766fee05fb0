"""The paper's load: rounds of evict, insert and query whose inserts all fall exactly d entries from the newest.

The window is filled in order, except that its newest d entries carry far-future times. Each measured insert takes the
next time after the in-order ones, below all the far-future ones; each round evicts the oldest, inserts and queries.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sash import Monoid, Window, monoids

FAR_FUTURE = 10**15
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
        """Time the next rounds, in native code throughout, and verify each of their answers."""
        start = self.size - self.distance + self._done
        times = np.arange(start, start + rounds)
        values = self._in_order[start : start + rounds].copy()
        began = time.perf_counter_ns()
        results = self.window.slide(times, values, count=self.size)
        self.nanoseconds.append((time.perf_counter_ns() - began) / rounds)
        self._verify(results, rounds)
        self._done += rounds

    def _verify(self, results: Any, rounds: int) -> None:
        newest = self.size - self.distance + self._done + 1 + np.arange(rounds)
        oldest = self._done + 1 + np.arange(rounds)
        expected = self._prefix[newest] - self._prefix[oldest] + self._far.sum()
        if not np.array_equal(results, expected):
            raise SystemExit(f"{self.label}: a wrong answer at d = {self.distance}; nothing was measured.")

    @property
    def median(self) -> float:
        """Nanoseconds a round, the median of all slices."""
        return float(np.median(self.nanoseconds))


def measure(cases: list[Rounds], slices: int) -> dict[str, float]:
    """Run all cases in turn, slice by slice, so that a slow moment of the machine falls on all of them."""
    for _ in range(slices):
        for case in cases:
            case.run(case.rounds // slices)
    return {case.label: case.median for case in cases}
