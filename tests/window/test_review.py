"""Cases that were once wrong, or nearly: each is one behaviour that a reader might doubt."""

import math
import pickle
import threading
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sash import (
    ArgumentError,
    ConcurrentUseError,
    KindError,
    Monoid,
    SashError,
    SlideError,
    Window,
    monoids,
)
from support.faults import Boom
from support.structures import Structure

HIGH = 2**63 - 1
NAIVE, AWARE = datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)


def total(structure: Structure) -> Window:
    return structure.window(monoids.sum())


@pytest.mark.parametrize("at", ["each", "end"])
@pytest.mark.parametrize("size", [timedelta(0), timedelta(-1)], ids=str)
def test_object_times_need_a_size_above_zero(structure: Structure, size: timedelta, at: str) -> None:
    """A size of nothing would empty the window before its query."""
    window = total(structure)
    with pytest.raises(ArgumentError, match="size"):
        window.slide([date(2020, 1, 1)], [1], size=size, at=at)
    assert len(window) == 0
    with pytest.raises(ArgumentError, match="size"):
        total(structure).slide([Fraction(1), Fraction(2)], [1, 1], size=0, at=at)


def test_kinds_decided_while_a_batch_is_read(structure: Structure) -> None:
    """An iterator that inserts into the window it feeds decides the kinds, and the batch follows or is refused."""
    window = total(structure)

    def times():
        window.insert(1.5, 1)
        yield 2

    window.insert_many(times(), [1])
    assert list(window) == [1.5, 2.0]
    other = total(structure)

    def words():
        other.insert("a", 1)
        yield 2

    with pytest.raises(KindError):
        other.insert_many(words(), [1])
    assert list(other) == ["a"]


def test_columns_of_other_kinds_are_refused_by_the_core(structure: Structure) -> None:
    """The core trusts no one about what a column holds."""
    window = total(structure)
    window.insert(1, 1)
    with pytest.raises(ConcurrentUseError):
        window._insert_many(("float", None, "int64"), np.array([1.0]), np.array([1]))
    with pytest.raises(ConcurrentUseError):
        window._insert_many(("int", None, "int64"), np.array([1.0]), np.array([1]))
    with pytest.raises(ConcurrentUseError):
        window._insert_many(("int", None, "int64"), np.array([1, 2]), np.array([1]))
    assert list(window.items()) == [(1, 1)]


def test_threads_decide_kinds_one_after_the_other(structure: Structure) -> None:
    """Two threads whose first batches differ in kind: one determines the kinds, the other raises."""
    for _ in range(20):
        window, errors = total(structure), []
        start = threading.Barrier(2)

        def fill(times, window=window, errors=errors, start=start):
            start.wait()
            try:
                window.insert_many(times, [1] * len(times))
            except SashError as error:
                errors.append(error)

        threads = [threading.Thread(target=fill, args=(times,)) for times in ([1, 2], [1.5, 2.5])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        window.check_invariants()
        assert len(window) + 2 * len(errors) in (2, 4) and len(window) >= 2


def test_a_pickle_keeps_times_in_two_parts(structure: Structure) -> None:
    """Values of one time in several elements of a structure are one entry in a pickle."""
    big = 2**62 + 2**61
    window = total(structure)
    window.insert(1, 5)
    window.insert(2, big)
    window.evict(1)
    window.insert(2, big)
    window.insert(3, -big)
    twin = pickle.loads(pickle.dumps(window))
    twin.check_invariants()
    assert twin.query() == window.query() == big and twin == window


def test_numpy_ints_do_not_wrap_around(structure: Structure) -> None:
    """Where the Python definition of a sum runs, NumPy's ints are Python's."""
    window = total(structure)
    window.insert("a", np.int64(2**62))
    window.insert("b", np.int64(2**62))
    assert window.query() == 2**63
    window = structure.window(monoids.sum(dtype=object))
    window.insert_many([1, 2], [np.int64(HIGH), np.int64(HIGH)])
    assert window.query() == 2 * HIGH


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([AWARE]),
        pd.DatetimeIndex([AWARE]),
        pa.array([AWARE], pa.timestamp("us", "UTC")),
        pa.array([AWARE], pa.timestamp("ms", "+02:00")),
        pl.Series([AWARE]),
    ],
    ids=["pandas", "index", "arrow", "offset", "polars"],
)
def test_naive_and_aware_columns_do_not_mix(structure: Structure, column) -> None:
    """A column with a time zone goes into an aware window, and into no other."""
    window = total(structure)
    window.insert(NAIVE, 1)
    with pytest.raises(KindError, match="time zone"):
        window.insert_many(column, [2])
    assert len(window) == 1
    window = total(structure)
    window.insert_many(column, [2])
    assert window.oldest == AWARE and AWARE in window
    window.insert_many(column, [3])
    assert window.query() == 5
    with pytest.raises(KindError, match="must be a datetime with a time zone"):
        window.insert(NAIVE, 1)


@pytest.mark.parametrize(
    ("times", "values"),
    [
        (np.array([["2020", "2021"], ["2022", "2023"]], "M8[us]"), [1, 2]),
        ([1, 2], np.array([[10, 11], [12, 13]])),
        (np.array(5), [1]),
        ({1: 2}, [1]),
        ([1], {3}),
        ([1, 2], np.ma.masked_array([1, 99], mask=[False, True])),
        ([1, 2], pd.array([1, None], dtype="Int64")),
        ([1, 2], pl.Series([1, None])),
        ([1, 2], pa.array([1, None])),
    ],
    ids=["2-d times", "2-d values", "0-d", "dict", "set", "masked", "pandas null", "polars null", "arrow null"],
)
@pytest.mark.parametrize("monoid", [monoids.sum(), monoids.bloom()], ids=repr)
def test_what_is_no_column(structure: Structure, monoid: Monoid, times, values) -> None:
    """Tables, unordered rows and nulls are refused in one sentence, and nothing is inserted."""
    window = structure.window(monoid)
    with pytest.raises(SashError) as caught:
        window.insert_many(times, values)
    assert "\n" not in str(caught.value) and len(window) == 0 and window._kinds is None


def test_a_batch_for_a_bloom_filter_is_all_or_nothing(structure: Structure) -> None:
    """A value without a stable hash is found before the first is inserted."""
    window = structure.window(monoids.bloom())
    with pytest.raises(KindError):
        window.insert_many([1, 2], ["a", [1]])
    assert len(window) == 0


class Shaky:
    """A time whose comparisons fail for good once it is broken."""

    broken = False

    def __init__(self, number: int, fragile: bool = False) -> None:
        self.number, self.fragile = number, fragile

    def __lt__(self, other: "Shaky") -> bool:
        if (self.fragile or other.fragile) and self is not other:
            Shaky.broken = True
        if Shaky.broken:
            raise Boom
        return self.number < other.number


@pytest.mark.parametrize("call", ["insert_many", "slide"])
def test_comparisons_that_stay_broken(structure: Structure, call: str) -> None:
    """A batch is undone without comparing its times, which may be what failed."""
    times = [Shaky(i) for i in range(12)]
    window = structure.window(Monoid(identity="", combine=lambda a, b: a + b))
    window.insert_many(times, list("abcdefghijkl"))
    batch = [Shaky(20), Shaky(21), Shaky(22, fragile=True)]
    with pytest.raises((Boom, SlideError)):
        if call == "slide":
            window.slide(batch, list("xyz"), count=12, at="end")
        else:
            window.insert_many(batch, list("xyz"))
    Shaky.broken = False
    window.check_invariants()
    assert [value for _, value in window.items()] == list("abcdefghijkl")


def test_a_failed_insert_keeps_the_shape_of_fiba() -> None:
    """A split comes after the last comparison."""

    def shape(node):
        return node["keys"], [shape(child) for child in node["children"]]

    class Fused:
        calls, limit = 0, 0

        def __init__(self, number: int) -> None:
            self.number = number

        def __lt__(self, other: "Fused") -> bool:
            Fused.calls += 1
            if Fused.calls == Fused.limit:
                raise Boom
            return self.number < other.number

    for at in range(200):
        Fused.limit = 0
        window = Window(Monoid(identity="", combine=lambda a, b: a + b), leaf_capacity=4, fanout=4)
        window.insert_many([Fused(i) for i in range(0, 80, 2)], ["x"] * 40)
        before = shape(window.nodes())
        Fused.calls, Fused.limit = 0, at + 1
        try:
            window.insert(Fused(37), "y")
        except Boom:
            assert shape(window.nodes()) == before
        else:
            assert at > 3
            return
    pytest.fail("the insert never ran out of comparisons")


@pytest.mark.parametrize(("times", "size"), [([-(2**63), 5], 2**64), ([1.0, float("inf")], float("inf"))], ids=str)
def test_a_size_beyond_all_times_drops_nothing(structure: Structure, times, size) -> None:
    """What is longer than any two times are apart keeps everything."""
    assert list(total(structure).slide(times, [1, 10], size=size)) == [1, 11]


def test_a_very_long_timedelta_drops_nothing(structure: Structure) -> None:
    """A timedelta too long for the window's ticks does not wrap around."""
    times = [datetime(2020, 1, 1), datetime(2020, 1, 3)]
    for size in (timedelta(days=213503983), timedelta.max):
        assert list(total(structure).slide(times, [1, 10], size=size)) == [1, 11]


def test_times_are_listed_without_lowering_values(structure: Structure) -> None:
    """Iterating over times does not call the monoid."""

    def refuse(state: str) -> str:
        raise Boom

    window = structure.window(Monoid(identity="", combine=lambda a, b: a + b, lower=refuse))
    window.insert_many([1, 2, 3], ["a", "b", "c"])
    assert list(window) == [1, 2, 3] and list(reversed(window)) == [3, 2, 1]


def test_a_change_before_the_first_step_is_noticed(structure: Structure) -> None:
    """An iterator belongs to the window as it was when it was made; a call that failed changed nothing."""
    window = total(structure)
    window.insert_many(range(600), [1] * 600)
    iterator = iter(window)
    window.evict_until(9)
    with pytest.raises(RuntimeError):
        next(iterator)
    iterator = iter(window)
    with pytest.raises(SashError):
        window.insert("x", 1)
    assert len(list(iterator)) == 590


def test_sums_of_floats_at_one_time_are_sound(structure: Structure) -> None:
    """Values of one time are combined before they are added to others, and check_invariants knows."""
    window = total(structure)
    for time, value in [(1, 0.1), (2, 0.2), (2, 0.3), (3, 0.7), (3, 0.1)]:
        window.insert(time, value)
        window.check_invariants()


def test_nan_inside_a_state_is_sound(structure: Structure) -> None:
    """A NaN that is recomputed is a new object: `check_invariants` compares it by what it is."""
    window = structure.window(monoids.struct(mean=monoids.mean(), all=monoids.collect_list()))
    means = structure.window(monoids.mean())
    variances = structure.window(monoids.struct(v=monoids.variance(), s=monoids.skewness(), c=monoids.sum()))
    for i in range(40):
        window.insert(i, math.nan if i % 3 else 1.0)
        means.insert((i, "an object"), math.nan if i % 3 else 1.0)
        variances.insert(i, [math.nan, 1.0, -math.inf][i % 3])
        variances.query()
        variances.check_invariants()
    for each in (window, means):
        each.query()
        each.check_invariants()


def test_nan_equals_itself_in_windows(structure: Structure) -> None:
    """A window that holds NaN is equal to its copy and its pickle."""
    window = total(structure)
    window.insert_many([1, 2], [float("nan"), 1.0])
    assert window == window.copy() == pickle.loads(pickle.dumps(window))


def test_monoids_with_other_identities_differ() -> None:
    """Monoids with different results for an empty window differ."""
    assert Monoid(identity=0, combine=max) != Monoid(identity=-5, combine=max)


def test_native_forms_cannot_be_invented() -> None:
    """The core runs a native form only on the values it reads."""
    with pytest.raises(ArgumentError, match="native"):
        Monoid(identity=0, combine=max, native=(("int64", "sum_float64"),))


class Named(Window):
    """A subclass with a constructor of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(monoids.sum(), structure="paper", min_arity=2)
        self.name = name


def test_subclasses_copy_and_pickle() -> None:
    """A subclass keeps its class, its attributes and its entries."""
    window = Named("mine")
    window.insert_many([1, 2], [3, 4])
    for twin in (window.copy(), pickle.loads(pickle.dumps(window))):
        assert type(twin) is Named and twin.name == "mine" and twin == window and twin.min_arity == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.slide([1], [1], count=2**64),
        lambda w: w.evict_until(0, inclusive=1),
        lambda w: list(w.items(reverse=1)),
        lambda w: w.evict_until(0, inclusive=np.True_),
    ],
    ids=["count", "inclusive", "reverse", "numpy"],
)
def test_truth_and_large_numbers_are_taken_as_python_does(structure: Structure, call) -> None:
    """What Python takes for true, or for a large number, is taken here too."""
    call(total(structure))


@pytest.mark.parametrize("time", [np.timedelta64(5, "s"), np.array([1, 2])], ids=repr)
def test_what_numpy_calls_a_number_and_is_none(structure: Structure, time) -> None:
    """A timedelta64 is ordered, and so an object; an array is not a time."""
    window = total(structure)
    if isinstance(time, np.ndarray):
        with pytest.raises(KindError, match="time"):
            window.insert(time, 1)
    else:
        window.insert(time, 1)
        assert window.oldest == time
    with pytest.raises(KindError, match="count"):
        total(structure).slide([1], [1], count=np.timedelta64(5, "s"))


def test_instants_that_could_not_be_shown_are_refused(structure: Structure) -> None:
    """What a window takes in it can give out again."""
    window = total(structure)
    window.insert(NAIVE, 1)
    with pytest.raises(ArgumentError, match="9999"):
        window.insert(np.datetime64("20000-01-01", "us"), 1)
    assert window.newest == NAIVE


def test_messages_stay_short_and_on_one_line(structure: Structure) -> None:
    """A value in a message is short and has no line breaks."""

    class Loud:
        def __repr__(self) -> str:
            return "loud\n" * 500

    with pytest.raises(KindError) as caught:
        total(structure).insert_many(Loud(), [1])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250
