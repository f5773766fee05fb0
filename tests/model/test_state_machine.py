"""Every structure against the oracle, step by step.

One machine drives them all. Times come from a small range, so that ties, splits and merges are common.
"""

import pickle
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

from cases import CONCAT, INT, MONOIDS, TIMES, MonoidCase, TimeKind
from oracle import Oracle
from sash import OutOfOrderError, UnsupportedError, Window
from structures import STRUCTURES, Structure

CLOSED = st.sampled_from(["both", "left", "right", "neither"])
BATCH = st.lists(st.integers(0, 15), max_size=12)


class WindowMachine(RuleBasedStateMachine):
    """A window and its oracle, which must agree after every step."""

    structure: Structure
    monoids = [CONCAT]
    kinds = [INT]

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.case: MonoidCase = data.draw(st.sampled_from(self.monoids))
        self.kind: TimeKind = data.draw(st.sampled_from(self.kinds))
        self.window: Window = self.structure.window(self.case.monoid())
        self.oracle: Oracle = self.case.oracle()
        self.newest = 0  # the highest index that was ever inserted: where in-order times go on from

    def time(self, index: int) -> Any:
        return self.kind.time(index)

    def value(self, data: st.DataObject) -> Any:
        return data.draw(self.case.values)

    def batch(self, data: st.DataObject, steps: list[int]) -> tuple[list[Any], list[Any]]:
        """Times and values of a batch, in an order that the structure takes."""
        indices = steps
        if self.structure.in_order:
            indices = sorted(self.newest + step // 4 for step in steps)
            self.newest = max([self.newest, *indices])
        return [self.time(i) for i in indices], [self.value(data) for _ in indices]

    def columns(self, data: st.DataObject, times: list[Any], values: list[Any]) -> tuple[Any, Any]:
        """The batch as lists or as arrays; both say the same."""
        return (self.kind.array(times) if times and data.draw(st.booleans()) else times), values

    @rule(data=st.data(), step=st.integers(0, 15))
    def insert(self, data: st.DataObject, step: int) -> None:
        (time,), (value,) = self.batch(data, [step])
        self.oracle.insert(time, value)
        assert self.window.insert(time, value) is None

    @rule(data=st.data(), steps=BATCH)
    def insert_many(self, data: st.DataObject, steps: list[int]) -> None:
        times, values = self.batch(data, steps)
        self.oracle.insert_many(times, values)
        assert self.window.insert_many(*self.columns(data, times, values)) is None

    @precondition(lambda self: self.structure.in_order and len(self.oracle) > 0)
    @rule(data=st.data(), back=st.integers(1, 5), steps=BATCH)
    def insert_out_of_order(self, data: st.DataObject, back: int, steps: list[int]) -> None:
        """Refused, whether alone or as the end of a batch; the invariant then finds nothing changed."""
        (time,), (value,) = [self.time(self.newest - back)], [self.value(data)]
        if time >= self.oracle.newest:
            return
        with pytest.raises(OutOfOrderError):
            self.window.insert(time, value)
        indices = sorted(self.newest + step // 4 for step in steps)
        times, values = [self.time(i) for i in indices], [self.value(data) for _ in indices]
        with pytest.raises(OutOfOrderError):
            self.window.insert_many([*times, time], [*values, value])

    @rule(step=st.integers(0, 15))
    def evict(self, step: int) -> None:
        time = self.time(self.newest - step if self.structure.in_order else step)
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

    @rule(step=st.integers(0, 15), inclusive=st.booleans())
    def evict_until(self, step: int, inclusive: bool) -> None:
        time = self.time(self.newest - step if self.structure.in_order else step - 8)
        assert self.window.evict_until(time, inclusive=inclusive) == self.oracle.evict_until(time, inclusive)

    @rule(low=st.none() | st.integers(-1, 16), high=st.none() | st.integers(-1, 16), closed=CLOSED)
    def query_range(self, low: int | None, high: int | None, closed: str) -> None:
        base = self.newest - 8 if self.structure.in_order else 0
        start, stop = (None if i is None else self.time(base + i) for i in (low, high))
        if self.structure.ranges or start is stop is None:
            assert self.window.query(start, stop, closed=closed) == self.oracle.query(start, stop, closed)
        else:
            with pytest.raises(UnsupportedError):
                self.window.query(start, stop, closed=closed)

    @rule(low=st.none() | st.integers(-1, 16), high=st.none() | st.integers(-1, 16), closed=CLOSED)
    def items_of_range(self, low: int | None, high: int | None, closed: str) -> None:
        base = self.newest - 8 if self.structure.in_order else 0
        start, stop = (None if i is None else self.time(base + i) for i in (low, high))
        expected = self.oracle.items(start, stop, closed)
        assert list(self.window.items(start, stop, closed=closed)) == expected
        assert list(self.window.items(start, stop, closed=closed, reverse=True)) == expected[::-1]

    @precondition(lambda self: self.kind.span is not None)
    @rule(data=st.data(), steps=BATCH, size=st.integers(1, 12))
    def slide_by_size(self, data: st.DataObject, steps: list[int], size: int) -> None:
        times, values = self.batch(data, steps)
        expected = self.oracle.slide(times, values, size=self.kind.span(size))
        results = self.window.slide(*self.columns(data, times, values), size=self.kind.span(size))
        assert plain(results) == expected

    @rule(data=st.data(), steps=BATCH, count=st.integers(1, 12))
    def slide_by_count(self, data: st.DataObject, steps: list[int], count: int) -> None:
        times, values = self.batch(data, steps)
        expected = self.oracle.slide(times, values, count=count)
        assert plain(self.window.slide(*self.columns(data, times, values), count=count)) == expected

    @rule(data=st.data(), steps=BATCH, length=st.integers(1, 12))
    def slide_to_end(self, data: st.DataObject, steps: list[int], length: int) -> None:
        times, values = self.batch(data, steps)
        by_size = self.kind.span is not None and data.draw(st.booleans())
        limit = {"size": self.kind.span(length)} if by_size else {"count": length}
        expected = self.oracle.slide_to_end(times, values, **limit)
        assert self.window.slide(*self.columns(data, times, values), **limit, at="end") == expected

    @rule(data=st.data(), steps=BATCH, step=st.integers(0, 15), go_on_with_copy=st.booleans())
    def copy_then_diverge(
        self, data: st.DataObject, steps: list[int], step: int, go_on_with_copy: bool
    ) -> None:
        """What happens to a copy does not happen to the original, nor the other way round."""
        copy, oracle = self.window.copy(), self.oracle.copy()
        assert copy == self.window and copy is not self.window
        times, values = self.batch(data, steps)
        copy.insert_many(times, values)
        oracle.insert_many(times, values)
        assert copy.evict_until(self.time(step)) == oracle.evict_until(self.time(step))
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

    @rule(step=st.integers(-1, 16))
    def contains(self, step: int) -> None:
        time = self.time(self.newest - step if self.structure.in_order else step)
        assert (time in self.window) is (time in self.oracle)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "window"):
            agree(self.window, self.oracle)


def plain(results: Any) -> list[Any]:
    """Results as Python values, pairs as tuples."""
    return [tuple(r) if isinstance(r, list) else r for r in results.tolist()]


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


def run(
    structure: Structure, monoids: list[MonoidCase], kinds: list[TimeKind], how: settings | None = None
) -> None:
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
