"""Every structure against the oracle, step by step.

One machine drives them all. Times come from a small range, so that ties, splits and merges are common.
"""

import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from oracles.window import Oracle
from sash import KindError, OutOfOrderError, SlideError, UnsupportedError, Window
from support.cases import CONCAT, INT, MONOIDS, TIMES, MonoidCase, TimeKind
from support.structures import STRUCTURES, Structure

CLOSED = st.sampled_from(["both", "left", "right", "neither"])
PLACE = st.integers(0, 95)
PLACES = st.lists(PLACE, max_size=12)


class WindowMachine(RuleBasedStateMachine):
    """A window and its oracle, which must agree after every step.

    Places are limited to a time range that is a few nodes long; in-order structures
    count their places on from the newest time, or back from it where something is to be found.
    """

    structure: Structure
    monoids = [CONCAT]
    kinds = [INT]

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.case: MonoidCase = data.draw(st.sampled_from(self.monoids))
        self.kind: TimeKind = data.draw(st.sampled_from(self.kinds))
        self.window: Window = self.structure.window(self.case.monoid())
        self.oracle: Oracle = self.case.oracle()
        self.stretch = 12 * self.structure.kwargs.get("min_arity", 1)
        self.newest = 0  # the highest index that was ever inserted

    def time(self, index: int) -> Any:
        return self.kind.time(index)

    def value(self, data: st.DataObject) -> Any:
        return data.draw(self.case.values)

    def old_time(self, place: int) -> Any:
        """A time that may be in the window."""
        place = place % (self.stretch + 2) - 1
        return self.time(self.newest - place if self.structure.in_order else place)

    def ends(self, low: int | None, high: int | None) -> list[Any]:
        return [None if place is None else self.old_time(place) for place in (low, high)]

    def batch(self, data: st.DataObject, places: list[int]) -> tuple[list[Any], list[Any]]:
        """Times and values of a batch, in an order that the structure takes."""
        indices = [place % self.stretch for place in places]
        if self.structure.in_order:
            indices = sorted(self.newest + index // 4 for index in indices)
            self.newest = max([self.newest, *indices])
        return [self.time(i) for i in indices], [self.value(data) for _ in indices]

    def columns(self, data: st.DataObject, times: list[Any], values: list[Any]) -> tuple[Any, Any]:
        """The batch as lists or as arrays; both say the same."""
        return (self.kind.array(times) if times and data.draw(st.booleans()) else times), values

    @rule(data=st.data(), place=PLACE)
    def insert(self, data: st.DataObject, place: int) -> None:
        (time,), (value,) = self.batch(data, [place])
        self.oracle.insert(time, value)
        assert self.window.insert(time, value) is None

    @rule(data=st.data(), places=PLACES)
    def insert_many(self, data: st.DataObject, places: list[int]) -> None:
        times, values = self.batch(data, places)
        self.oracle.insert_many(times, values)
        assert self.window.insert_many(*self.columns(data, times, values)) is None

    @rule(data=st.data(), place=PLACE, length=st.integers(1, 32))
    def insert_run(self, data: st.DataObject, place: int, length: int) -> None:
        """Neighbours at once, so that wide nodes fill and split too."""
        value = self.value(data)
        times, _ = self.batch(data, [place + 4 * i if self.structure.in_order else place + i for i in range(length)])
        self.oracle.insert_many(times, [value] * length)
        self.window.insert_many(times, [value] * length)

    @precondition(lambda self: self.structure.in_order and len(self.oracle) > 0)
    @rule(data=st.data(), back=st.integers(1, 5), places=PLACES)
    def insert_out_of_order(self, data: st.DataObject, back: int, places: list[int]) -> None:
        """Refused, whether alone or as the end of a batch; the invariant then finds nothing changed."""
        (time,), (value,) = [self.time(self.newest - back)], [self.value(data)]
        if time >= self.oracle.newest:
            return
        with pytest.raises(OutOfOrderError):
            self.window.insert(time, value)
        indices = sorted(self.newest + place // 4 for place in places)
        times, values = [self.time(i) for i in indices], [self.value(data) for _ in indices]
        with pytest.raises(OutOfOrderError):
            self.window.insert_many([*times, time], [*values, value])

    @precondition(lambda self: self.structure.in_order)
    @rule(data=st.data(), places=PLACES, back=st.integers(1, 5), length=st.integers(1, 6))
    def slide_out_of_order(self, data: st.DataObject, places: list[int], back: int, length: int) -> None:
        """A slide stops at a refused time, whose round leaves no trace; with at="end" the whole call leaves none."""
        times, values = self.batch(data, places)
        at = data.draw(st.integers(0, len(times)))
        times.insert(at, self.time(self.newest - back))
        values.insert(at, self.value(data))
        by_size = self.kind.span is not None and data.draw(st.booleans())
        limit = {"size": self.kind.span(length)} if by_size else {"count": length}
        order = times if self.oracle.newest is None else [self.oracle.newest, *times]
        if order != sorted(order):
            with pytest.raises(SlideError):
                self.window.slide(times, values, **limit, at="end")
            agree(self.window, self.oracle)
        expected = []
        for time, value in zip(times, values, strict=True):
            ahead = self.oracle.copy()
            results = ahead.slide([time], [value], **limit)
            if time != ahead.newest:  # not before what stays of the window when the oldest has left
                break
            self.oracle, expected = ahead, expected + results
        if len(expected) == len(times):
            assert plain(self.window.slide(times, values, **limit)) == expected
            return
        with pytest.raises(SlideError) as caught:
            self.window.slide(*self.columns(data, times, values), **limit)
        assert caught.value.index == len(expected) and plain(caught.value.results) == expected

    @precondition(lambda self: self.window.monoid.built_in and self.case.name != "count")
    @rule(data=st.data(), places=PLACES, length=st.integers(1, 6))
    def refused_value(self, data: st.DataObject, places: list[int], length: int) -> None:
        """A null is refused, alone and behind good rows, in every call; the invariant then finds nothing changed."""
        newest = self.newest
        times, values = self.batch(data, [*places, 95])
        self.newest = newest
        values[-1] = None
        for call in (
            lambda: self.window.insert(times[-1], None),
            lambda: self.window.insert_many(times, values),
            lambda: self.window.slide(times, values, count=length),
            lambda: self.window.slide(times, values, count=length, at="end"),
        ):
            with pytest.raises(KindError):
                call()

    @rule(place=PLACE)
    def evict(self, place: int) -> None:
        time = self.old_time(place)
        if time in self.oracle and time != self.oracle.oldest and not self.structure.evicts_anywhere:
            with pytest.raises(OutOfOrderError):
                self.window.evict(time)
        else:
            assert self.window.evict(time) is self.oracle.evict(time)

    @precondition(lambda self: len(self.oracle) > 0)
    @rule()
    def evict_oldest(self) -> None:
        assert self.window.evict(self.window.oldest) is True
        self.oracle.evict(self.oracle.oldest)

    @rule(place=PLACE, inclusive=st.booleans())
    def evict_until(self, place: int, inclusive: bool) -> None:
        time = self.old_time(place if self.structure.in_order else place // 3)
        assert self.window.evict_until(time, inclusive=inclusive) == self.oracle.evict_until(time, inclusive)

    @rule(low=st.none() | PLACE, high=st.none() | PLACE, closed=CLOSED)
    def query_range(self, low: int | None, high: int | None, closed: str) -> None:
        start, stop = self.ends(low, high)
        if self.structure.ranges or start is stop is None:
            assert self.window.query(start, stop, closed=closed) == self.oracle.query(start, stop, closed)
        else:
            with pytest.raises(UnsupportedError):
                self.window.query(start, stop, closed=closed)

    @rule(low=st.none() | PLACE, high=st.none() | PLACE, closed=CLOSED)
    def items_of_range(self, low: int | None, high: int | None, closed: str) -> None:
        start, stop = self.ends(low, high)
        expected = self.oracle.items(start, stop, closed)
        assert list(self.window.items(start, stop, closed=closed)) == expected
        assert list(self.window.items(start, stop, closed=closed, reverse=True)) == expected[::-1]

    @precondition(lambda self: self.kind.span is not None)
    @rule(data=st.data(), places=PLACES, size=st.integers(1, 12))
    def slide_by_size(self, data: st.DataObject, places: list[int], size: int) -> None:
        times, values = self.batch(data, places)
        expected = self.oracle.slide(times, values, size=self.kind.span(size))
        results = self.window.slide(*self.columns(data, times, values), size=self.kind.span(size))
        assert plain(results) == expected

    @rule(data=st.data(), places=PLACES, count=st.integers(1, 12))
    def slide_by_count(self, data: st.DataObject, places: list[int], count: int) -> None:
        times, values = self.batch(data, places)
        expected = self.oracle.slide(times, values, count=count)
        assert plain(self.window.slide(*self.columns(data, times, values), count=count)) == expected

    @rule(data=st.data(), places=PLACES, length=st.integers(1, 12))
    def slide_to_end(self, data: st.DataObject, places: list[int], length: int) -> None:
        times, values = self.batch(data, places)
        by_size = self.kind.span is not None and data.draw(st.booleans())
        limit = {"size": self.kind.span(length)} if by_size else {"count": length}
        expected = self.oracle.slide_to_end(times, values, **limit)
        assert self.window.slide(*self.columns(data, times, values), **limit, at="end") == expected

    @rule(data=st.data(), places=PLACES, place=PLACE, go_on_with_copy=st.booleans())
    def copy_then_diverge(self, data: st.DataObject, places: list[int], place: int, go_on_with_copy: bool) -> None:
        """What happens to a copy does not happen to the original, nor the other way round."""
        copy, oracle = self.window.copy(), self.oracle.copy()
        assert copy == self.window and copy is not self.window
        times, values = self.batch(data, places)
        copy.insert_many(times, values)
        oracle.insert_many(times, values)
        time = self.old_time(place // 3)
        assert copy.evict_until(time) == oracle.evict_until(time)
        agree(copy, oracle)
        agree(self.window, self.oracle)
        assert (copy == self.window) is (oracle.states == self.oracle.states)
        if go_on_with_copy:
            self.window, self.oracle = copy, oracle

    @rule()
    def pickle_round_trip(self) -> None:
        loaded = pickle.loads(pickle.dumps(self.window))
        assert loaded == self.window and not loaded != self.window
        assert (loaded.structure, loaded.min_arity) == (self.window.structure, self.window.min_arity)
        self.window = loaded

    @rule(place=PLACE)
    def contains(self, place: int) -> None:
        time = self.old_time(place)
        assert (time in self.window) is (time in self.oracle)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "window"):
            agree(self.window, self.oracle)


def plain(results: Any) -> list[Any]:
    """Results as Python values, pairs as tuples, columns as rows."""
    if isinstance(results, dict):
        return [dict(zip(results, row, strict=True)) for row in zip(*map(plain, results.values()), strict=True)]
    return list(results.tolist())


def agree(window: Window, oracle: Oracle) -> None:
    """The window is sound and holds what the oracle holds."""
    window.check_invariants()
    expected = oracle.items()
    assert list(window.items()) == expected
    assert window.query() == oracle.query()
    assert len(window) == len(oracle) and bool(window) is bool(expected)
    assert list(window) == [t for t, _ in expected]
    assert list(reversed(window)) == [t for t, _ in reversed(expected)]
    assert (window.oldest, window.newest) == (oracle.oldest, oracle.newest)


def run(structure: Structure, monoids: list[MonoidCase], kinds: list[TimeKind], how: settings | None = None) -> None:
    """Drive one structure, with monoids and kinds of time drawn from these."""
    members = {"structure": structure, "monoids": monoids, "kinds": kinds}
    run_state_machine_as_test(type("Machine", (WindowMachine,), members), settings=how)


def test_concatenation_follows_the_oracle(structure: Structure) -> None:
    """A concatenation over int times agrees with the oracle after every step."""
    run(structure, [CONCAT], [INT])


def test_every_monoid_follows_the_oracle(structure: Structure) -> None:
    """Native and Python monoids over int times agree with the oracle after every step."""
    run(structure, MONOIDS, [INT])


def test_every_kind_of_time_follows_the_oracle(structure: Structure) -> None:
    """Every kind of time agrees with the oracle after every step."""
    run(structure, [CONCAT, MONOIDS[2]], TIMES)


@pytest.mark.parametrize("seed", range(2))
def test_long_runs_follow_the_oracle(structure: Structure, seed: int) -> None:
    """Windows of some hundred entries, several nodes deep at every arity, agree with the oracle all along."""
    rng = random.Random(seed)
    window, oracle = structure.window(CONCAT.monoid()), CONCAT.oracle()
    newest = 0
    for step in range(1500):
        if rng.random() < (0.75 if step < 700 else 0.5 if step < 1100 else 0.3) or not len(oracle):
            newest += rng.choice([0, 1, 1, 2])
            time, value = (newest if structure.in_order else rng.randrange(400)), rng.choice("abcdefgh")
            oracle.insert(time, value)
            window.insert(time, value)
        else:
            ends = [oracle.oldest, oracle.newest]
            anywhere = [rng.choice(list(oracle)), rng.choice(ends)]
            time = rng.choice(anywhere) if structure.evicts_anywhere else oracle.oldest
            assert window.evict(time) is oracle.evict(time) is True
        assert window.query() == oracle.query()
        if structure.ranges:
            start, stop = sorted(rng.choices(range(newest + 1 if structure.in_order else 400), k=2))
            assert window.query(start, stop) == oracle.query(start, stop)
        if step % 20 == 0:
            agree(window, oracle)


WRONG = {
    "reordered": lambda left, right: right + left,
    "lost": lambda left, right: left,
    "repeated": lambda left, right: left + right + right,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_the_model_test_can_fail(wrong: Callable[[str, str], str]) -> None:
    """An oracle that combines differently is found out, so agreement means something."""
    case = MonoidCase("wrong", CONCAT.monoid, ("", wrong), CONCAT.values)
    once = settings(max_examples=100, phases=[Phase.generate], derandomize=True, database=None)
    with pytest.raises(AssertionError):
        run(STRUCTURES[0], [case], [INT], once)
