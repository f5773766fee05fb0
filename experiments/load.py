"""The loads: windows that are filled, advanced round by round in native code, and checked before they are timed.

The `advance` of a load times rounds of evict, insert and query; creating times and values is not included. The clock is
that of the thread: time during which another process uses the core does not count. Before a case is timed, the same
load on a small window is compared with the tests' oracle after every round, and the large one with a plain
recomputation; afterwards the large one is compared again.
"""

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import exp
from typing import Any

import numpy as np

from benchmarks.load import CHUNK, FAR_FUTURE, SEED
from experiments.case import Case, Row, row_of
from experiments.series import ALL, MONOIDS
from tests.oracles.window import Oracle

_PERIOD = 2**16
_WARM, _TRIED = 1024, 2048  # rounds before the first sample: to settle, and to estimate the speed
_SMALL, _STEPS = 40, 60  # the window that the oracle follows, and for how long

Span = tuple[int, int]  # times from the first up to but excluding the second


class WrongAnswerError(Exception):
    """A window returned a wrong answer; it is not measured."""


@lru_cache
def values_of(monoid: str) -> "Values":
    """Return the values that a monoid is measured with."""
    return Values(monoid)


class Values:
    """The value at each time: random integers from 1 to 999, always the same."""

    def __init__(self, monoid: str) -> None:
        """Draw one period of values, which then repeat."""
        drawn = np.random.default_rng(SEED).integers(1, 1000, _PERIOD)
        self._monoid = monoid
        self._block = drawn.astype(np.float64) if monoid == "geomean" else drawn
        self._prefix = np.concatenate([[0], np.cumsum(self._addends(self._block))])

    def _addends(self, values: np.ndarray) -> np.ndarray:
        return np.log(values) if self._monoid == "geomean" else values

    def at(self, times: Any) -> np.ndarray:
        """Return the values at these times."""
        return self._block[np.asarray(times) % _PERIOD]

    def _total(self, span: Span) -> float:
        (turns, at), (more_turns, to) = (divmod(t, _PERIOD) for t in span)
        return (more_turns - turns) * self._prefix[-1] + self._prefix[to] - self._prefix[at]

    def agree(self, answer: Any, spans: Iterable[Span]) -> bool:
        """Tell whether this is the aggregate of all times in these spans."""
        spans = [span for span in spans if span[1] > span[0]]
        count = sum(stop - start for start, stop in spans)
        some = np.concatenate([np.linspace(start, stop - 1, 25).astype(np.int64) for start, stop in spans])
        return self._agree(answer, count, sum(map(self._total, spans)), some)

    def agree_at(self, answer: Any, times: np.ndarray) -> bool:
        """Tell whether this is the aggregate of just these times."""
        total = self._addends(self.at(times)).sum()
        return self._agree(answer, len(times), total, times[:: max(1, len(times) // 50)])

    def _agree(self, answer: Any, count: int, total: float, some: np.ndarray) -> bool:
        if self._monoid == "bloom":
            return all(int(value) in answer for value in self.at(some))
        if self._monoid == "geomean":
            return bool(np.isclose(answer, exp(total / count), rtol=1e-9))
        return bool(answer == total)


class Rounds:
    """The paper's load: every insert falls exactly d entries from the newest.

    The window is filled in order, except that its newest d entries carry far-future times. Each insert takes the next
    time after the in-order ones. At d = n one entry is left below the far-future ones: the tree is a stack.
    """

    granule = 1  # rounds come in multiples of this

    def __init__(self, series: str, monoid: str, n: int, d: int) -> None:
        """Fill the window."""
        self.n, self.far = n, min(d, n - 1)
        self.settled = n - self.far
        self.values = values_of(monoid)
        self.monoid = MONOIDS[monoid]()
        self.series = ALL[series]
        self.next = self.settled
        self.window = self.filled(self.settled)

    def filled(self, settled: int) -> Any:
        """Return a window with the `settled` newest in-order entries and all far-future ones."""
        window = self.series.window(self.monoid)
        for times in (np.arange(self.next - settled, self.next), FAR_FUTURE + np.arange(self.far)):
            window.insert_many(times, self.values.at(times))
        window.query()
        return window

    def advance(self, rounds: int) -> float:
        """Run some rounds and return the nanoseconds per round."""
        spent, chunk = 0, max(CHUNK // self.granule, 1) * self.granule
        for at in range(0, rounds, chunk):
            times = self.upcoming(min(chunk, rounds - at))
            arguments = self.arguments(times)
            began = time.thread_time_ns()
            self.go(*arguments)
            spent += time.thread_time_ns() - began
            self.next += len(times)
        return spent / rounds

    def upcoming(self, rounds: int) -> np.ndarray:
        """Return the times of the next rounds."""
        return np.arange(self.next, self.next + rounds)

    def arguments(self, times: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of `go`, created before the clock starts."""
        return times, self.values.at(times)

    def go(self, times: np.ndarray, values: np.ndarray) -> None:
        """Run the rounds in native code."""
        self.window._run_rounds(times, values, self.n, None, None, 0)

    def spans(self, settled: int) -> list[Span]:
        """Return the times of the newest in-order entries and of the far-future ones."""
        return [(self.next - settled, self.next), (FAR_FUTURE, FAR_FUTURE + self.far)]

    def right(self) -> bool:
        """Return whether the window agrees with a plain recomputation."""
        return self.values.agree(self.window.query(), self.spans(self.settled))

    def step(self, oracle: Oracle) -> bool:
        """Advance one round, the oracle too, and return whether they agree."""
        (moment,) = self.upcoming(1).tolist()
        self.advance(1)
        oracle.slide([moment], [self.values.at(moment).item()], count=self.n)
        return same(self.window.query(), oracle.query())


class Shared(Rounds):
    """A small window in addition to the big one: a separate tree (`twin`), or a range of the big one's (`range`)."""

    def __init__(self, series: str, monoid: str, n: int, small: int, variant: str) -> None:
        """Fill both; d is half the small window."""
        super().__init__(series, monoid, n, small // 2)
        self.small, self.small_settled = small, small - self.far
        self.twin = self.filled(self.small_settled) if variant == "twin" else None

    def arguments(self, times: np.ndarray) -> tuple[Any, ...]:
        """Add where the small window starts, round by round."""
        return times, self.values.at(times), times - self.small_settled + 1

    def go(self, times: np.ndarray, values: np.ndarray, starts: np.ndarray) -> None:  # type: ignore[override]
        """Run the rounds of both in native code, one after the other."""
        if self.twin is None:
            self.window._run_rounds(times, values, self.n, starts, None, 0)
        else:
            self.window._run_rounds(times, values, self.n, None, self.twin, self.small)

    def small_answer(self) -> Any:
        """Return the small window's aggregate."""
        start = self.next - self.small_settled
        return self.window.query(start, None) if self.twin is None else self.twin.query()

    def right(self) -> bool:
        """Return whether both agree with a plain recomputation."""
        return super().right() and self.values.agree(self.small_answer(), self.spans(self.small_settled))

    def step(self, oracle: Oracle) -> bool:
        """Compare the small window's answer too."""
        return super().step(oracle) and same(self.small_answer(), oracle.query(self.next - self.small_settled))


class Batches(Rounds):
    """Rounds of m entries at a time: evict the m oldest, insert m in order at distance d, query once."""

    def __init__(self, series: str, monoid: str, n: int, d: int, m: int) -> None:
        """Fill the window."""
        super().__init__(series, monoid, n, d)
        self.granule = m

    def arguments(self, times: np.ndarray) -> tuple[Any, ...]:
        """Add the times up to which each batch evicts."""
        return times, self.values.at(times), times[:: self.granule] - self.settled + self.granule - 1

    def go(self, times: np.ndarray, values: np.ndarray, cuts: np.ndarray) -> None:  # type: ignore[override]
        """Run the batches in native code."""
        self.window._run_batches(times, values, cuts, self.granule)

    def step(self, oracle: Oracle) -> bool:
        """Advance one batch."""
        times = self.upcoming(self.granule)
        self.advance(self.granule)
        for oldest in list(oracle)[: self.granule]:
            oracle.evict(oldest)
        oracle.insert_many(times.tolist(), self.values.at(times).tolist())
        return same(self.window.query(), oracle.query())


# --- checking and timing --------------------------------------------------------------------------


def same(answer: Any, expected: Any) -> bool:
    """Return whether two answers are equal, floats up to rounding."""
    if isinstance(expected, float):
        return bool(np.isclose(answer, expected, rtol=1e-9))
    return bool(answer == expected)


def follow(small: Rounds) -> None:
    """Compare a load on a small window with the oracle after every round."""
    monoid = small.monoid
    oracle = Oracle(monoid.identity, monoid.combine, monoid.lift, monoid.lower)
    held = list(small.window)
    oracle.insert_many(held, small.values.at(held).tolist())
    for _ in range(_STEPS):
        if not small.step(oracle):
            raise WrongAnswerError(f"{small.series.label}, {monoid.name}: the answer differs from that of the oracle.")


def small_of(case: Case) -> tuple[int, int]:
    """Return a small n and d in about the proportion of the case."""
    n = min(case.n, _SMALL)
    return n, min(case.d, max(5, case.d * n // case.n)) if case.d else 0


def require_right(case: Case, load: Rounds) -> None:
    """Raise if a plain recomputation contradicts the window."""
    if not load.right():
        raise WrongAnswerError(f"{case.series}, {case.monoid}, n = {case.n}, d = {case.d}: a wrong answer.")


def timed(
    case: Case, turns: Iterable[int], small: Rounds, make: Callable[[], Rounds], whole_turns: bool = False
) -> Row:
    """Check, warm up, check, take one sample in each turn, check.

    `small` is the load on a window that the oracle can follow, `make` returns the one that is timed. With `whole_turns`
    a sample covers the window once or more, so that each includes what happens once per turn.
    """
    follow(small)
    load = make()
    step = case.n if whole_turns else load.granule
    load.advance(_up(_WARM, step))
    ns = load.advance(_up(_TRIED, step))
    require_right(case, load)
    rounds = case.rounds or _up(int(case.slice_ms * 1e6 / ns), step)
    samples = [load.advance(rounds) for _ in turns]
    require_right(case, load)
    return row_of(case, samples, "ns", rounds)


def _up(rounds: int, step: int) -> int:
    return max(1, -(-rounds // step)) * step
