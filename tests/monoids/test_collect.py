"""The monoids that keep every value: against plain Python and NumPy, in any grouping, with their corner cases."""

import math
import pickle
import random
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash import ArgumentError, KindError, Window, monoids
from sash.monoids.collect import Rope
from support.folds import answer

NAN = math.nan
finite = st.floats(-1e9, 1e9)
numbers = st.one_of(st.floats(), st.integers(-5, 5), st.sampled_from([0.0, -0.0, math.inf, -math.inf, NAN]))
words = st.text("ab", max_size=2)


def state_of(monoid, values):
    return reduce(monoid.combine, map(monoid.lift, values), monoid.identity)


def result_of(monoid, values):
    return monoid.lower(state_of(monoid, values))


def grouped(monoid, values, draw):
    """Combine the values' states two neighbours at a time, in a random order."""
    states = [monoid.lift(value) for value in values] or [monoid.identity]
    while len(states) > 1:
        i = draw.randrange(len(states) - 1)
        states[i : i + 2] = [monoid.combine(states[i], states[i + 1])]
    return states[0]


ALL = {
    "distinct": (monoids.distinct(), numbers),
    "quantile": (monoids.quantile(0.3), numbers),
    "median": (monoids.median(), numbers),
    "collect_list": (monoids.collect_list(), numbers),
    "collect_set": (monoids.collect_set(), numbers),
    "string_agg": (monoids.string_agg("; "), words),
}


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_laws(name, data):
    """States are equal however they were grouped, and the identity changes nothing on either side."""
    monoid, strategy = ALL[name]
    values = data.draw(st.lists(strategy, max_size=40))
    state = state_of(monoid, values)
    assert grouped(monoid, values, data.draw(st.randoms(use_true_random=False))) == state
    assert monoid.combine(monoid.identity, state) == state == monoid.combine(state, monoid.identity)


@pytest.mark.parametrize("name", ALL)
def test_pickles_and_compares(name):
    """A monoid and its states survive a pickle, and built twice it is equal."""
    monoid, _ = ALL[name]
    values = ["b", "a"] * 20 if name == "string_agg" else [3, 1, NAN, 2.5, NAN] * 10
    state = state_of(monoid, values)
    other, loaded = pickle.loads(pickle.dumps((monoid, state)))
    assert other == monoid
    assert other.combine(other.identity, loaded) == loaded
    assert repr(monoid.lower(loaded)) == repr(monoid.lower(state))


@pytest.mark.parametrize("name", ALL)
def test_runs_in_a_window(name):
    """Late entries, evictions and the structure's own check work with these states."""
    monoid, _ = ALL[name]
    values = {t: str(t % 7) if name == "string_agg" else t % 7 for t in range(60)}
    w = Window(monoid)
    for t in random.Random(3).sample(range(60), 60):
        w.insert(t, values[t])
        w.check_invariants()
    w.evict_until(19)
    w.check_invariants()
    assert w.query() == result_of(monoid, [values[t] for t in range(20, 60)])


def test_of_nothing():
    """An empty window has no quantile and no string, but an empty list, an empty set and no distinct value."""
    empty = {name: monoid.empty() for name, (monoid, _) in ALL.items()}
    assert empty == {
        "distinct": 0,
        "quantile": None,
        "median": None,
        "collect_list": [],
        "collect_set": set(),
        "string_agg": None,
    }


@pytest.mark.parametrize("name", ALL)
def test_null_is_no_value(name):
    """None is refused in one sentence."""
    with pytest.raises(KindError, match=r"^value must (not be|be a number, got|be a str, got) None\.$"):
        ALL[name][0].lift(None)


# --- distinct, collect_set ------------------------------------------------------------------------


def test_distinct_counts_what_python_calls_equal():
    """1, 1.0 and True are one value, the zeros are one, all NaN are one, and NumPy's numbers are Python's."""
    assert result_of(monoids.distinct(), [1, 1.0, True, np.int32(1)]) == 1
    assert result_of(monoids.distinct(), [0.0, -0.0]) == 1
    assert result_of(monoids.distinct(), [NAN, float("nan"), np.float32("nan"), -NAN]) == 1
    assert result_of(monoids.distinct(), ["a", b"a", ("a",), "a"]) == 3


def test_nan_stays_one_value_after_pickling():
    """Two states that were pickled apart still hold the same NaN."""
    monoid = monoids.collect_set()
    a, b = (pickle.loads(pickle.dumps(monoid.lift(NAN))) for _ in range(2))
    result = monoid.lower(monoid.combine(a, b))
    assert len(result) == 1
    assert math.isnan(result.pop())


def test_collect_set_keeps_the_first_of_equals():
    """Of equal values the set holds the first, and the result is the caller's own."""
    state = state_of(monoids.collect_set(), [True, 1, 2.0, 2])
    assert sorted(map(repr, monoids.collect_set().lower(state))) == ["2.0", "True"]
    monoids.collect_set().lower(state).add(9)
    assert monoids.collect_set().lower(state) == {1, 2}


def test_unhashable_is_refused():
    """A list cannot be in a set."""
    with pytest.raises(KindError, match=r"^value must be hashable, got \[1\]"):
        monoids.distinct().lift([1])


# --- lists and strings ----------------------------------------------------------------------------


def test_collect_list_keeps_order_and_kind():
    """The list is in the order of time, with the values as they came."""
    assert result_of(monoids.collect_list(), [True, "a", None.__class__, 2.5]) == [True, "a", type(None), 2.5]
    assert result_of(monoids.collect_list(), [True])[0] is True


def test_a_rope_may_be_as_deep_as_it_is_long():
    """Many values joined one by one can be listed, compared, pickled and dropped."""
    monoid = monoids.collect_list()
    left = right = monoid.identity
    for i in range(200_000):
        left = monoid.combine(left, (i,))
        right = monoid.combine((199_999 - i,), right)
    assert isinstance(left, Rope)
    assert left == right == tuple(range(200_000))
    assert hash(left) == hash(right)
    assert pickle.loads(pickle.dumps(left)) == right
    assert left != (1,) and left != [1]
    del left, right


def test_combine_of_lists_is_constant_time():
    """Joining two ropes copies neither."""
    a, b = (state_of(monoids.collect_list(), range(100)) for _ in range(2))
    joined = monoids.collect_list().combine(a, b)
    assert joined.left is a and joined.right is b


def test_a_list_with_nan_equals_its_pickle():
    """Also where there are enough values at one time to link them instead of copying."""
    window = Window(monoids.collect_list())
    window.insert_many([1] * 40 + [2], [math.nan] * 41)
    loaded = pickle.loads(pickle.dumps(window))
    assert loaded == window and Window.from_bytes(window.to_bytes(), allow_pickle=True) == window
    loaded.insert(1, 0.0)
    assert loaded != window


def test_string_agg():
    """Strings join by the separator, the empty string counts, and anything else is refused."""
    assert result_of(monoids.string_agg(), ["a", "", "b"]) == "a,,b"
    assert result_of(monoids.string_agg(), [""]) == ""
    assert result_of(monoids.string_agg(""), ["a", "b"]) == "ab"
    with pytest.raises(KindError, match=r"^value must be a str, got 3"):
        monoids.string_agg().lift(3)
    with pytest.raises(KindError, match=r"^separator must be a str, got None"):
        monoids.string_agg(None)


# --- quantiles ------------------------------------------------------------------------------------


@given(st.lists(finite, min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_numpys(values, q):
    """Every quantile of finite numbers is NumPy's, to the last bit."""
    assert result_of(monoids.quantile(q), values) == np.quantile(np.array(values), q)


@given(st.lists(finite, min_size=1, max_size=50))
def test_median_is_numpys(values):
    """The median is NumPy's up to the rounding of the mean of two."""
    rounding = max(abs(value) for value in values) * 1e-15 + 1e-300  # of the two in the middle, which may cancel
    assert result_of(monoids.median(), values) == pytest.approx(np.median(np.array(values)), rel=0, abs=rounding)


def test_nan_is_the_largest():
    """A quantile below the NaNs does not see them; on them or next to them it is NaN."""
    values = [NAN, 3, 1, 2]
    assert result_of(monoids.quantile(0), values) == 1
    assert result_of(monoids.quantile(2 / 3), values) == 3
    assert math.isnan(result_of(monoids.quantile(0.9), values))
    assert math.isnan(result_of(monoids.quantile(1), values))
    assert result_of(monoids.quantile(0.5), [*values, -NAN]) == 3


def test_quantiles_of_the_largest_floats():
    """Between two floats whose difference is infinite there are still floats."""
    largest = float(np.finfo(float).max)
    for low, high, q, expected in (
        (-1e308, 1e308, 0.5, 0.0),
        (-1e308, 1e308, 0.25, -5e307),
        (-largest, largest, 0.75, largest / 2),
    ):
        assert answer(monoids.quantile(q), [high, low]) == pytest.approx(expected)
    assert answer(monoids.median(), [-1e308, 1e308]) == 0.0


def test_infinities_and_zeros():
    """Equal infinities interpolate to themselves, and -0.0 comes before 0.0."""
    assert result_of(monoids.median(), [math.inf, math.inf]) == math.inf
    assert result_of(monoids.median(), [-math.inf, 1, math.inf]) == 1
    assert str(result_of(monoids.quantile(0), [0.0, -0.0])) == "-0.0"
    assert str(result_of(monoids.quantile(1), [0.0, -0.0])) == "0.0"


@pytest.mark.parametrize("q, error", [("a", KindError), (True, KindError), (None, KindError), (1.5, ArgumentError)])
def test_quantile_refuses(q, error):
    """A quantile needs a number from 0 to 1, and numbers as values."""
    with pytest.raises(error, match=f"^q must be a number from 0 to 1, got {q!r}"):
        monoids.quantile(q)
    with pytest.raises(ArgumentError, match=r"^q must be a number from 0 to 1, got nan"):
        monoids.quantile(NAN)
    with pytest.raises(KindError, match=r"^value must be a number, got 'a'"):
        monoids.median().lift("a")


def test_arguments_show():
    """A monoid's arguments are in its repr and distinguish it from others."""
    assert repr(monoids.quantile(0.9, "x")) == "quantile(q=0.9, column='x')"
    assert repr(monoids.string_agg("-")) == "string_agg(separator='-')"
    assert monoids.quantile(0.9) != monoids.quantile(0.8)
    assert monoids.quantile(0.5) != monoids.median()
