"""Bad input gets an error of the stated class and leaves the window as it was.

The message is one sentence that names the argument and what was given.
"""

import datetime as dt
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sash import (
    ArgumentError,
    KindError,
    Monoid,
    OutOfOrderError,
    SashError,
    SlideError,
    UnsupportedError,
    Window,
    monoids,
)
from support.faults import snapshot
from support.structures import Structure

NAN = float("nan")
NAIVE = dt.datetime(2024, 5, 1, 12)
AWARE = NAIVE.replace(tzinfo=dt.UTC)


def refuses(call: Callable[[], Any], error: Any, *words: str) -> None:
    """The call raises this error, in one sentence that holds these words."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, SashError)
    assert "\n" not in message and message.endswith("."), message
    for word in words:
        assert word in message, (word, message)


def filled(structure: Structure) -> Window:
    window = structure.window(monoids.sum())
    window.insert_many([1, 2, 3, 5, 8], [10, 20, 30, 50, 80])
    return window


@pytest.mark.parametrize("time", [NAN, None, True])
def test_a_window_that_was_always_empty_refuses_bad_times(structure, time):
    """As one that has entries does."""
    window = structure.window(monoids.sum())
    for call in (lambda: window.evict(time), lambda: window.evict_until(time), lambda: time in window):
        refuses(call, KindError, "time must")
    assert not window.evict(1) and 1 not in window and window.evict_until(1) == 0


BAD_TIMES = [
    (1.5, KindError, "1.5"),
    (NAN, (KindError, ArgumentError), "nan"),
    (None, KindError, "None"),
    (True, KindError, "True"),
    (np.bool_(True), KindError, "True"),
    ("9", KindError, "'9'"),
    (NAIVE, KindError, "2024"),
    (np.datetime64("2024-05-01"), KindError, "2024"),
    (np.datetime64("NaT"), (KindError, ArgumentError), "NaT"),
    ((9, 9), KindError, "(9, 9)"),
    (Fraction(19, 2), KindError, "19"),
    (2**63, ArgumentError, "9223372036854775808"),
    (-(2**63) - 1, ArgumentError, "9223372036854775809"),
    ([9], KindError, "[9]"),
]


@pytest.mark.parametrize("time, error, shown", BAD_TIMES, ids=repr)
def test_bad_times_in_an_int_window(structure: Structure, time: Any, error: Any, shown: str) -> None:
    """Every call that takes a time raises for one that is not an int64."""
    window = filled(structure)
    before = snapshot(window)
    refuses(lambda: window.insert(time, 1), error, "time", shown)
    refuses(lambda: window.insert_many([9, time], [1, 1]), error, "time", shown)
    refuses(lambda: window.slide([9, time], [1, 1], count=9), error, "time", shown)
    if time is not None:
        refuses(lambda: window.evict_until(time), error, "time", shown)
        refuses(lambda: window.evict(time), error, "time", shown)
        if structure.ranges:
            refuses(lambda: window.query(time, 8), error, "start", shown)
            refuses(lambda: window.query(1, time), error, "stop", shown)
    assert snapshot(window) == before


@pytest.mark.parametrize("time", [None, True, NAN, np.datetime64("NaT"), pd.NaT, np.float64("nan")], ids=repr)
def test_what_is_never_a_time(structure: Structure, time: Any) -> None:
    """None, bool, NaN and NaT are refused by a new window too, which then takes any kind."""
    window = structure.window(monoids.sum())
    error = (ArgumentError, KindError)
    refuses(lambda: window.insert(time, 1), error, "time")
    refuses(lambda: window.insert_many([time], [1]), error, "time")
    window.insert("any kind", 1)
    assert list(window.items()) == [("any kind", 1)]


def test_nan_is_a_wrong_value_and_none_a_wrong_type() -> None:
    """NaN and NaT raise ArgumentError, None and bool KindError."""
    window = Window(monoids.sum(), structure="paper")
    for time in (NAN, np.datetime64("NaT"), pd.NaT):
        refuses(lambda t=time: window.insert(t, 1), ArgumentError)
    for time in (None, True):
        refuses(lambda t=time: window.insert(t, 1), KindError)


KINDS = {
    "int": 1,
    "float": 1.5,
    "naive": NAIVE,
    "aware": AWARE,
    "datetime64": np.datetime64(NAIVE),
    "Timestamp": pd.Timestamp(NAIVE),
    "aware Timestamp": pd.Timestamp(AWARE),
    "pair": (1, 2),
    "str": "one",
}
NAIVE_KINDS = {"naive", "datetime64", "Timestamp"}
MAY_MIX = [NAIVE_KINDS, {"aware", "aware Timestamp"}]
MIXTURES = [
    (one, other)
    for one, other in itertools.permutations(KINDS, 2)
    if (one, other) != ("float", "int") and not any({one, other} <= group for group in MAY_MIX)
]


@pytest.mark.parametrize("first, second", MIXTURES)
def test_kinds_of_time_do_not_mix(first: str, second: str) -> None:
    """The first time decides the kind, and another kind is refused; the window stays as it was."""
    window = Window(monoids.sum(), structure="paper", min_arity=2)
    window.insert(KINDS[first], 7)
    time = 2.5 if second == "float" else KINDS[second]
    refuses(lambda: window.insert(time, 1), KindError, "time")
    refuses(lambda: window.insert_many([KINDS[first], time], [1, 1]), KindError, "time")
    # Objects are compared where they are searched for, and nobody knows there which argument they were.
    refuses(lambda: window.query(time, None), KindError, "time" if first == "str" else "start")
    assert list(window.items()) == [(KINDS[first], 7)]
    window.check_invariants()


def test_a_batch_mixes_no_kinds_either(structure: Structure) -> None:
    """A batch is refused where its rows do not fit each other."""
    window = structure.window(monoids.sum())
    refuses(lambda: window.insert_many([1, "2"], [1, 1]), KindError, "time", "2")
    refuses(lambda: window.insert_many([1, True], [1, 1]), KindError, "time", "True")
    refuses(lambda: window.insert_many([1, 2], [1, None]), KindError, "value", "None")
    refuses(lambda: window.insert_many([2**53 + 1, 2.0**54], [1, 2]), ArgumentError, "times[0]", "representable")
    assert len(window) == 0
    window.insert_many([1, 2], [1, 2])
    refuses(lambda: window.insert_many([3, 4.5], [1, 1]), KindError, "times[1]", "4.5")


def test_the_first_batch_as_a_whole_decides_the_kinds(structure: Structure) -> None:
    """Ints and floats in one batch are floats, for times as for values, whichever comes first."""
    for times, values in (([1, 2.5], [1, 2]), ([1, np.float64(2.5)], [1, 2.5]), ([1.0, 2.5], [1.0, 2])):
        window = structure.window(monoids.sum())
        window.insert_many(times, values)
        assert list(window.items()) == [(1.0, values[0]), (2.5, values[1])]
        assert all(isinstance(time, float) for time in window)


@pytest.mark.parametrize("value", [1.5, None, "1", 2**63, -(2**63) - 1, NAN, [1]], ids=repr)
def test_bad_values_in_an_int_window(structure: Structure, value: Any) -> None:
    """A value that is not an int64 raises."""
    window = filled(structure)
    before = snapshot(window)
    error = (ArgumentError, KindError)
    refuses(lambda: window.insert(9, value), error, "value", repr(value))
    refuses(lambda: window.insert_many([9, 10], [1, value]), error, "value", repr(value))
    refuses(lambda: window.slide([9, 10], [1, value], count=9), error, "value", repr(value))
    assert snapshot(window) == before


@pytest.mark.parametrize("value", [None, "1", [1]], ids=repr)
def test_bad_values_in_a_float_window(structure: Structure, value: Any) -> None:
    """A float window raises KindError for a value that is not a number."""
    window = structure.window(monoids.sum())
    window.insert(1, 0.5)
    refuses(lambda: window.insert(9, value), KindError, "value", repr(value))
    assert list(window.items()) == [(1, 0.5)]


def test_a_failed_first_insert_fixes_no_kind(structure: Structure) -> None:
    """After a first insert that failed, a new window still takes times and values of any kind."""
    window = structure.window(monoids.sum())
    refuses(lambda: window.insert(1, None), KindError, "value")
    refuses(lambda: window.insert(None, 1), KindError, "time")
    refuses(lambda: window.insert_many([1, 2], [3, None]), KindError, "value")
    refuses(lambda: window.insert_many([1, "2"], [3, 4]), KindError, "time")
    refuses(lambda: window.slide([1, 2], [3, None], count=2), KindError, "value")
    assert len(window) == 0 and window.query() == 0 and window.oldest is None
    window.insert(NAIVE, 0.5)
    window.insert(NAIVE, 0.25)
    assert list(window.items()) == [(NAIVE, 0.75)]


@pytest.mark.parametrize("times, values", [([9, 10], [1]), ([9], [1, 2]), ([], [1]), (np.arange(9, 12), [1, 2])])
def test_mismatched_lengths(structure: Structure, times: Any, values: Any) -> None:
    """Times and values of different lengths are refused, with both lengths named."""
    window = filled(structure)
    before = snapshot(window)
    words = ("values", str(len(times)), str(len(values)))
    refuses(lambda: window.insert_many(times, values), ArgumentError, *words)
    refuses(lambda: window.slide(times, values, count=3), ArgumentError, *words)
    refuses(lambda: window.slide(times, values, size=3, at="end"), ArgumentError, *words)
    assert snapshot(window) == before


@pytest.mark.parametrize("bad", [1, None, 2.5], ids=repr)
def test_batches_that_are_no_sequences(bad: Any) -> None:
    """A single thing where a batch belongs is refused."""
    window = Window(monoids.sum(), structure="paper")
    refuses(lambda: window.insert_many(bad, [1]), KindError, "times", repr(bad))
    refuses(lambda: window.insert_many([1], bad), KindError, "values", repr(bad))
    assert len(window) == 0


@pytest.mark.parametrize("name", ["paper", "classic"])
@pytest.mark.parametrize("arity, error", [(1, ArgumentError), (0, ArgumentError), (-3, ArgumentError)])
def test_min_arity_too_small(name: str, arity: int, error: type[Exception]) -> None:
    """min_arity below 2 is refused."""
    refuses(lambda: Window(monoids.sum(), structure=name, min_arity=arity), error, "min_arity", str(arity), "2")


@pytest.mark.parametrize("arity", [2.0, 2.5, "4", True, [4]], ids=repr)
def test_min_arity_of_a_wrong_type(arity: Any) -> None:
    """min_arity must be an int."""
    call = lambda: Window(monoids.sum(), structure="paper", min_arity=arity)  # noqa: E731
    refuses(call, KindError, "min_arity", repr(arity))


@pytest.mark.parametrize("name", ["two_stacks", "daba", "reactive"])
def test_min_arity_where_there_are_no_nodes(name: str) -> None:
    """min_arity is refused by structures that have no arity."""
    refuses(lambda: Window(monoids.sum(), structure=name, min_arity=4), ArgumentError, "min_arity", "4", name)


@pytest.mark.parametrize("name", ["btree", "", "PAPER"])
def test_unknown_structure(name: str) -> None:
    """An unknown structure is refused with the list of known ones."""
    known = ["paper", "classic", "two_stacks", "daba", "reactive"]
    refuses(lambda: Window(monoids.sum(), structure=name), ArgumentError, "structure", repr(name), *known)


@pytest.mark.parametrize("given", [None, 4, ["paper"]], ids=repr)
def test_structure_of_a_wrong_type(given: Any) -> None:
    """A structure that is not a string raises."""
    refuses(
        lambda: Window(monoids.sum(), structure=given),
        (ArgumentError, KindError),
        "structure",
        repr(given),
    )


@pytest.mark.parametrize("monoid", [sum, None, monoids.sum, 0], ids=["sum", "None", "monoids.sum", "int"])
def test_what_is_no_monoid(monoid: Any) -> None:
    """A window needs a Monoid; a function that would make one is none."""
    refuses(lambda: Window(monoid), KindError, "monoid")


def test_monoid_of_wrong_parts() -> None:
    """combine must be callable, lift and lower callable or None."""
    refuses(lambda: Monoid(identity=0, combine="+"), KindError, "combine", "'+'")
    refuses(lambda: Monoid(identity=0, combine=max, lift=3), KindError, "lift", "3")
    refuses(lambda: Monoid(identity=0, combine=max, lower="x"), KindError, "lower", "'x'")


def test_unknown_dtype() -> None:
    """A dtype that no monoid knows is refused."""
    refuses(lambda: monoids.sum(dtype="complex64"), (ArgumentError, KindError), "dtype", "complex64")


BAD_SLIDES = [
    ({}, ArgumentError, ["size", "count"]),
    ({"size": 3, "count": 3}, ArgumentError, ["size", "count", "3"]),
    ({"count": 0}, ArgumentError, ["count", "0"]),
    ({"count": -2}, ArgumentError, ["count", "-2"]),
    ({"count": 2.5}, KindError, ["count", "2.5"]),
    ({"count": "3"}, KindError, ["count", "'3'"]),
    ({"count": True}, KindError, ["count", "True"]),
    ({"size": 0}, ArgumentError, ["size", "0"]),
    ({"size": -1}, ArgumentError, ["size", "-1"]),
    ({"size": 1.5}, KindError, ["size", "1.5"]),
    ({"size": "3"}, KindError, ["size", "'3'"]),
    ({"size": dt.timedelta(1)}, KindError, ["size", "1"]),
    ({"size": 3, "at": "middle"}, ArgumentError, ["at", "'middle'", "each", "end"]),
    ({"count": 3, "at": None}, (ArgumentError, KindError), ["at", "None"]),
]


@pytest.mark.parametrize("arguments, error, words", BAD_SLIDES, ids=lambda x: str(x) if isinstance(x, dict) else "")
def test_bad_slides(structure: Structure, arguments: Any, error: Any, words: list[str]) -> None:
    """slide takes either a positive size or a count of at least 1, and at="each" or "end"."""
    window = filled(structure)
    before = snapshot(window)
    refuses(lambda: window.slide([9, 10], [1, 1], **arguments), error, *words)
    assert snapshot(window) == before


SIZES_OF_OTHER_KINDS = [
    (1.5, dt.timedelta(seconds=1)),
    (NAIVE, 3),
    (NAIVE, 1.5),
    (np.datetime64("2024-05-01T00:00"), 3),
    (NAIVE, dt.timedelta(0)),
    (1.5, 0.0),
    (1.5, NAN),
    (Fraction(1, 2), "3"),
]


@pytest.mark.parametrize("time, size", SIZES_OF_OTHER_KINDS, ids=repr)
def test_sizes_that_do_not_suit_the_times(structure: Structure, time: Any, size: Any) -> None:
    """A size that cannot be subtracted from the window's times, or is not positive, is refused."""
    window = structure.window(monoids.sum())
    window.insert(time, 7)
    with pytest.raises(SashError) as caught:
        window.slide([time], [1], size=size)
    # Whether objects subtract is found out in the first round.
    error = caught.value.__cause__ if isinstance(caught.value, SlideError) else caught.value
    assert isinstance(error, (ArgumentError, KindError)) and "size" in str(error)
    assert list(window.items()) == [(time, 7)]


@pytest.mark.parametrize("closed", ["open", "", "BOTH"])
def test_unknown_closed(structure: Structure, closed: str) -> None:
    """closed is one of four words."""
    window = filled(structure)
    words = ("closed", repr(closed), "both", "left", "right", "neither")
    if structure.ranges:
        refuses(lambda: window.query(1, 5, closed=closed), ArgumentError, *words)
    refuses(lambda: list(window.items(1, 5, closed=closed)), ArgumentError, *words)
    assert window.query() == 190


def test_out_of_order_names_both_times(ordered: Structure) -> None:
    """A late insert into an in-order structure names the late time and the newest, and changes nothing."""
    window = filled(ordered)
    before = snapshot(window)
    refuses(lambda: window.insert(4, 1), OutOfOrderError, "4", "8")
    refuses(lambda: window.insert_many([9, 11, 10], [1, 1, 1]), OutOfOrderError, "10", "11")
    assert snapshot(window) == before
    if not ordered.evicts_anywhere:
        refuses(lambda: window.evict(3), OutOfOrderError, "3", "1")
        assert window.evict(4) is False
        assert snapshot(window) == before


def test_ranges_where_there_are_none(structure: Structure) -> None:
    """A structure without range queries says so, even when empty, and still answers for the whole window."""
    window = filled(structure)
    if not structure.ranges:
        refuses(lambda: structure.window(monoids.sum()).query(2, 5), UnsupportedError)
    if structure.ranges:
        assert window.query(2, 5) == 100
    else:
        refuses(lambda: window.query(2, 5), UnsupportedError, "range queries")
        refuses(lambda: window.query(2), UnsupportedError, "range queries")
        refuses(lambda: window.query(stop=5), UnsupportedError, "range queries")
    assert window.query(None, None) == 190


def test_the_family_of_errors() -> None:
    """Every error is a SashError and also what Python itself would raise."""
    assert issubclass(ArgumentError, ValueError) and issubclass(KindError, TypeError)
    assert issubclass(OutOfOrderError, ValueError)
    for error in (ArgumentError, KindError, OutOfOrderError, UnsupportedError):
        assert issubclass(error, SashError)
