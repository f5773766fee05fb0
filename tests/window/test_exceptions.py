"""A failing callback leaves the window exactly as it was, wherever it fails, in every structure."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from oracles.window import Oracle
from sash import Monoid, OutOfOrderError, SashError, SlideError, Window, monoids
from support.faults import Boom, Fuse, at_every_call, snapshot
from support.structures import Structure

LENGTH = 120


def oracle_of_strings() -> Oracle:
    return Oracle("", lambda left, right: left + right)


class Run:
    """A long random run in which every operation first fails at each of its callbacks."""

    def __init__(self, structure: Structure, window: Window, fuse: Fuse, time: Callable[[int], Any], seed: int) -> None:
        self.structure, self.window, self.fuse, self.time = structure, window, fuse, time
        self.rng = random.Random(seed)
        self.oracle = oracle_of_strings()
        self.newest = 0
        self.failures: dict[str, int] = {}

    def letter(self) -> str:
        return self.rng.choice("abcdefgh")

    def indices(self, k: int) -> list[int]:
        if not self.structure.in_order:
            return [self.rng.randrange(60) for _ in range(k)]
        indices = list(itertools.accumulate((self.rng.choice([0, 1, 1, 2]) for _ in range(k)), initial=self.newest))[1:]
        self.newest = indices[-1]
        return indices

    def evictable(self) -> int:
        if self.structure.evicts_anywhere and self.rng.random() < 0.7:
            return int(self.rng.choice(list(self.oracle)))
        return int(self.oracle.oldest)

    def attempt(self, name: str, call: Callable[[], Any], expected: Any) -> None:
        """The call fails wherever it can, changes nothing by that, then succeeds with the oracle's answer."""
        failures, result = at_every_call(self.window, self.fuse, call)
        assert result == expected, name
        self.failures[name] = self.failures.get(name, 0) + failures
        assert [value for _, value in self.window.items()] == [value for _, value in self.oracle.items()]
        self.query_with_failures()

    def query_with_failures(self) -> None:
        """A query that failed at its first combine, its second and so on returns the right result when repeated.

        Nothing looks at the window before it: a structure that repairs its aggregates lazily does all of it here.
        """
        for failures in itertools.count():
            self.fuse.set(failures + 1)
            try:
                result = self.window.query()
            except Boom:
                continue
            finally:
                self.fuse.set(None)
            self.window.check_invariants()
            assert result == self.oracle.query()
            self.failures["query"] = self.failures.get("query", 0) + failures
            return

    def insert(self) -> None:
        (index,), value = self.indices(1), self.letter()
        self.oracle.insert(index, value)
        self.attempt("insert", lambda: self.window.insert(self.time(index), value), None)

    def insert_many(self) -> None:
        indices = self.indices(self.rng.randrange(1, 6))
        values = [self.letter() for _ in indices]
        self.oracle.insert_many(indices, values)
        self.attempt("insert_many", lambda: self.window.insert_many([self.time(i) for i in indices], values), None)

    def evict(self) -> None:
        index = self.evictable()
        self.oracle.evict(index)
        self.attempt("evict", lambda: self.window.evict(self.time(index)), True)

    def evict_until(self) -> None:
        index, inclusive = self.rng.choice(list(self.oracle)[:6]), self.rng.random() < 0.5
        gone = self.oracle.evict_until(index, inclusive)
        self.attempt("evict_until", lambda: self.window.evict_until(self.time(index), inclusive=inclusive), gone)

    def query(self) -> None:
        self.attempt("query", self.window.query, self.oracle.query())

    def query_range(self) -> None:
        low, high = sorted(self.rng.choices(list(self.oracle), k=2))
        closed = self.rng.choice(["both", "left", "right", "neither"])
        if self.structure.ranges:
            expected = self.oracle.query(low, high, closed)
            call = lambda: self.window.query(self.time(low), self.time(high), closed=closed)  # noqa: E731
            self.attempt("query range", call, expected)

    def step(self) -> None:
        moves = [self.insert] * 4 + [self.insert_many] + [self.query]
        if len(self.oracle) > 3:
            moves += [self.evict] * 4 + [self.query_range]
        if len(self.oracle) > 12:
            moves += [self.evict] * 2 + [self.evict_until]
        self.rng.choice(moves)()


def test_a_failing_combine_changes_nothing(structure: Structure) -> None:
    """A combine that raises at any call leaves contents, shape and answers as before; a retry succeeds."""
    fuse = Fuse()
    run = Run(structure, structure.window(fuse.monoid()), fuse, lambda i: i, seed=1)
    for _ in range(LENGTH):
        run.step()
    assert run.failures["insert"] > 0 and sum(run.failures.values()) > 100


def test_a_failing_lift_changes_nothing(structure: Structure) -> None:
    """A lift that raises at any of its calls leaves the window as before, and a retry succeeds."""
    fuse = Fuse()
    run = Run(structure, structure.window(fuse.monoid(at="lift")), fuse, lambda i: i, seed=2)
    for _ in range(LENGTH):
        run.step()
    assert run.failures["insert"] > 20 and run.failures["insert_many"] > 20


def test_a_failing_lower_changes_nothing(structure: Structure) -> None:
    """A lower that raises comes out of query and items and leaves the window as before."""
    fuse = Fuse()
    run = Run(structure, structure.window(fuse.monoid(at="lower")), fuse, lambda i: i, seed=3)
    for _ in range(LENGTH):
        run.step()
    assert run.failures["query"] > 5
    failures, items = at_every_call(run.window, fuse, lambda: list(run.window.items()))
    assert failures == len(run.window) and items == run.oracle.items()


def test_a_failing_comparison_changes_nothing(structure: Structure) -> None:
    """A comparison of times that raises at any call leaves the window as before, and a retry succeeds."""
    fuse = Fuse()
    run = Run(structure, structure.window(fuse.monoid(at="nothing")), fuse, fuse.time, seed=4)
    for _ in range(LENGTH // 2):
        run.step()
    assert run.failures["insert"] > 20


def slid(structure: Structure, at: str = "combine") -> tuple[Window, Oracle, Fuse]:
    """A window that has slid for a while, its oracle, and the fuse of its monoid."""
    fuse = Fuse()
    window, oracle = structure.window(fuse.monoid(at=at)), oracle_of_strings()
    times, values = list(range(20)), list("abcdefghijklmnopqrst")
    window.slide(times, values, count=9)
    oracle.slide(times, values, count=9)
    return window, oracle, fuse


@pytest.mark.parametrize("limit", [{"count": 7}, {"count": 9}, {"size": 6}, {"size": 40}], ids=str)
@pytest.mark.parametrize("at", ["combine", "lift", "lower"])
def test_slide_stops_after_the_last_whole_round(structure: Structure, limit: dict[str, int], at: str) -> None:
    """A round that fails is undone; SlideError has its number, the results before it, and the cause."""
    times = [20, 22, 23, 23, 25, 26, 31] if structure.in_order else [20, 25, 18, 25, 31, 14, 22]
    values = list("ABCDEFG")
    expected = slid(structure)[1].slide(times, values, **limit)
    for k in itertools.count(1):
        window, oracle, fuse = slid(structure, at)
        fuse.set(k)
        results, error = attempt_slide(window, fuse, times, values, **limit)
        if error is None:
            assert results == expected and k > 3
            return
        index = error.index
        assert list(error.results) == expected[:index]
        assert oracle.slide(times[:index], values[:index], **limit) == expected[:index]
        window.check_invariants()
        assert list(window.items()) == oracle.items() and window.query() == oracle.query()
        assert window.slide(times[index:], values[index:], **limit).tolist() == expected[index:]


def attempt_slide(window: Window, fuse: Fuse, *args: Any, **limit: Any) -> tuple[Any, SlideError | None]:
    """The results of a slide as a list, or the error it stopped with, which Boom must have caused."""
    try:
        results = window.slide(*args, **limit)
    except SlideError as error:
        fuse.set(None)
        if not isinstance(error.__cause__, Boom):
            raise
        return None, error
    fuse.set(None)
    return (results if limit.get("at") == "end" else results.tolist()), None


def test_slide_to_the_end_is_all_or_nothing(structure: Structure) -> None:
    """With at="end" there is one round: a failure anywhere in it undoes it all."""
    times, values = [20, 21, 21, 24, 30], list("ABCDE")
    window, oracle, fuse = slid(structure)
    before = snapshot(window)
    for k in itertools.count(1):
        fuse.set(k)
        result, error = attempt_slide(window, fuse, times, values, size=8, at="end")
        if error is None:
            break
        assert snapshot(window) == before
    assert k > 1 and result == oracle.slide_to_end(times, values, size=8)


def test_slide_of_late_times_stops_in_order(ordered: Structure) -> None:
    """A late time in a slide over an in-order structure stops it after the last whole round."""
    window, oracle, _ = slid(ordered)
    with pytest.raises(SlideError) as caught:
        window.slide([20, 21, 5, 22], list("ABCD"), count=9)
    assert caught.value.index == 2
    assert list(caught.value.results) == oracle.slide([20, 21], list("AB"), count=9)
    assert isinstance(caught.value.__cause__, OutOfOrderError)
    assert list(window.items()) == oracle.items()


@pytest.mark.parametrize("limit", [{"count": 1}, {"count": 2}, {"count": 5}, {"size": 9}], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "min", "last", "count", "geomean"])
def test_a_refused_time_leaves_native_aggregates_alone(ordered: Structure, name: str, limit: dict[str, int]) -> None:
    """The value of a time that a slide refuses is neither added nor taken away."""
    window = ordered.window(getattr(monoids, name)())
    window.insert_many([2, 4], [10, 20])
    before, result = list(window.items()), window.query()
    if limit != {"count": 1}:  # the round of a window of one entry leaves nothing to be out of order with
        with pytest.raises(SlideError) as caught:
            window.slide([3], [3], **limit)
        assert caught.value.index == 0 and isinstance(caught.value.__cause__, OutOfOrderError)
    with pytest.raises(SlideError):
        window.slide([5, 1], [1, 2], **limit, at="end")
    window.check_invariants()
    assert list(window.items()) == before and window.query() == result


def test_the_users_own_error_comes_out(structure: Structure) -> None:
    """insert, evict and query raise the very exception of the callback, not a wrapper."""
    error = Boom("mine")

    def explode(left: str, right: str) -> str:
        raise error

    window = structure.window(Monoid(identity="", combine=explode))
    window.insert(1, "a")
    with pytest.raises(Boom) as caught:
        window.insert(1, "b")
    assert caught.value is error and not isinstance(error, SashError)
    assert list(window.items()) == [(1, "a")]


def test_unbroken_after_many_failures(structure: Structure) -> None:
    """A thousand failed calls in a row leave no trace."""
    window, oracle, fuse = slid(structure)
    before = snapshot(window)
    for k in range(1000):
        fuse.set(1)
        with pytest.raises(Boom):
            window.insert(19, "x") if k % 2 else window.insert_many([19, 40], ["x", "y"])
    fuse.set(None)
    assert snapshot(window) == before
    window.insert(19, "x")
    oracle.insert(19, "x")
    assert window.query() == oracle.query()
