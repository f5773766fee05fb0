"""The sketches: errors within their bounds, any grouping, nothing, one value, pickles, and bytes others can read."""

import math
import pickle
import random
import subprocess
import sys
from functools import reduce
from pathlib import Path

import datasketches
import numpy as np
import pytest

from sash import ArgumentError, KindError, Window, monoids
from sash.monoids import state_bytes

ALL = {
    "kll": monoids.kll(q=0.5),
    "frequent_items": monoids.frequent_items(),
    "theta": monoids.theta(),
    "cpc": monoids.cpc(),
}
VALUES = {name: ["a", "b", "c", "a"] if name == "frequent_items" else [1.5, 2.0, 7.0, 1.5] for name in ALL}


def state_of(monoid, values):
    return reduce(monoid.combine, map(monoid.lift, values), monoid.identity)


def grouped(monoid, values, seed):
    """Combine in a random tree over a shuffle of the values."""
    draw = random.Random(seed)
    states = [monoid.lift(value) for value in draw.sample(values, len(values))]
    while len(states) > 1:
        i = draw.randrange(len(states) - 1)
        states[i : i + 2] = [monoid.combine(states[i], states[i + 1])]
    return states[0]


# --- all of them ----------------------------------------------------------------------------------


def test_of_nothing():
    """Nothing counts 0, has no quantile and no frequent item, and its bytes are those of an empty sketch."""
    assert {name: monoid.empty() for name, monoid in ALL.items()} == {
        "kll": None,
        "frequent_items": [],
        "theta": 0.0,
        "cpc": 0.0,
    }
    assert monoids.kll(q=[0.1, 0.9]).empty() is None
    assert monoids.kll().empty().is_empty()
    assert datasketches.kll_doubles_sketch.deserialize(monoids.kll(as_bytes=True).empty()).is_empty()
    assert datasketches.frequent_strings_sketch.deserialize(monoids.frequent_items(as_bytes=True).empty()).is_empty()
    assert datasketches.compact_theta_sketch.deserialize(monoids.theta(as_bytes=True).empty()).is_empty()
    assert datasketches.cpc_sketch.deserialize(monoids.cpc(as_bytes=True).empty()).is_empty()


def test_of_one_value():
    """One value is its own quantile, one frequent item, and one distinct value."""
    assert monoids.kll(q=[0, 0.3, 1]).lower(monoids.kll().lift(7)) == [7.0] * 3
    assert ALL["frequent_items"].lower(ALL["frequent_items"].lift("a")) == [("a", 1)]
    assert ALL["theta"].lower(ALL["theta"].lift("a")) == 1.0
    assert ALL["cpc"].lower(ALL["cpc"].lift("a")) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_identity_and_no_mutation(name):
    """The identity changes nothing on either side; a state is bytes, which nothing can change."""
    monoid = ALL[name]
    state = state_of(monoid, VALUES[name])
    assert type(state) is bytes
    assert monoid.combine(monoid.identity, state) is state
    assert monoid.combine(state, monoid.identity) is state
    assert monoid.identity == b""


@pytest.mark.parametrize("name", ALL)
def test_pickles_and_compares(name):
    """A monoid and its states survive a pickle, and built twice it is equal."""
    monoid = ALL[name]
    state = state_of(monoid, VALUES[name])
    other, loaded = pickle.loads(pickle.dumps((monoid, state)))
    assert other == monoid
    assert other.lower(other.combine(loaded, loaded)) == monoid.lower(monoid.combine(state, state))


@pytest.mark.parametrize("name", ALL)
def test_runs_in_a_window(name):
    """A window answers with them after late entries and evictions."""
    monoid = ALL[name]
    w = Window(monoid)
    values = {t: str(t % 7) if name == "frequent_items" else t % 7 for t in range(60)}
    for t in random.Random(3).sample(range(60), 60):
        w.insert(t, values[t])
    w.evict_until(19)
    assert w.query() == monoid.lower(state_of(monoid, [values[t] for t in range(20, 60)]))


@pytest.mark.parametrize("name", ALL)
def test_bytes_are_the_librarys(name):
    """A result as bytes, and any state, is what the library itself reads."""
    monoid = ALL[name]
    state = state_of(monoid, VALUES[name])
    arguments = {key: value for key, value in monoid.arguments if key != "q"}
    assert getattr(monoids, name)(**arguments, as_bytes=True).lower(state) == state == state_bytes(monoid, state)
    assert state_bytes(monoid, b"") == getattr(monoids, name)(as_bytes=True).empty()


def test_bytes_read_by_the_library():
    """The library reads each kind of bytes and finds in it what was put there."""
    kll = datasketches.kll_doubles_sketch.deserialize(state_of(ALL["kll"], [1, 2, 3]))
    assert (kll.n, kll.k, kll.get_min_value(), kll.get_max_value()) == (3, 200, 1.0, 3.0)
    items = datasketches.frequent_strings_sketch.deserialize(state_of(ALL["frequent_items"], ["a", "b", "a"]))
    assert (items.get_estimate("a"), items.total_weight) == (2, 3)
    theta = datasketches.compact_theta_sketch.deserialize(state_of(ALL["theta"], ["a", 1, 1.5]))
    assert (theta.get_estimate(), theta.is_ordered()) == (3.0, True)
    cpc = datasketches.cpc_sketch.deserialize(state_of(ALL["cpc"], range(10)))
    assert (cpc.lg_k, round(cpc.get_estimate())) == (11, 10)
    longs = state_of(monoids.frequent_items(dtype="int64"), [-5, 2**62, -5])
    read = datasketches.frequent_items_sketch.deserialize(longs, datasketches.PyLongsSerDe())
    assert (read.get_estimate(-5), read.get_estimate(2**62)) == (2, 1)


def test_state_bytes_refuses_other_monoids():
    """Only a sketch has portable bytes."""
    with pytest.raises(ArgumentError, match=r"^monoid must be one of kll, .*, got sum\(\)"):
        state_bytes(monoids.sum(), b"")


def test_without_the_library():
    """Without DataSketches the rest works, and one sentence says what to install."""
    code = """
import sys; sys.modules["datasketches"] = None
import sash
assert "theta" not in sash.monoids.BUILT_IN
try: sash.monoids.theta()
except sash.UnsupportedError as error: print(error)
"""
    source = str(Path(monoids.__file__).parent.parent.parent)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": source})
    assert run.stdout.endswith('not installed; run pip install "sash[sketches]".\n'), run.stderr


def test_import_leaves_the_library_alone():
    """Importing sash does not import DataSketches, nor does making a monoid."""
    code = "import sys, sash; sash.monoids.theta(); assert 'datasketches' not in sys.modules"
    source = str(Path(monoids.__file__).parent.parent.parent)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": source})


# --- kll ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_kll_rank_error(seed):
    """Ranks are off by no more than the stated error, in a chain and in a random tree."""
    values = np.random.default_rng(seed).normal(size=5000).tolist()
    ordered, ranks = np.sort(values), [0.01, 0.25, 0.5, 0.75, 0.99]
    monoid = monoids.kll(q=ranks)
    # The bound holds for 99 of 100 sketches; twice as wide, a failure in these ten is out of reach.
    bound = 2 * datasketches.kll_doubles_sketch.get_normalized_rank_error(200, False)
    for state in (state_of(monoid, values), grouped(monoid, values, seed)):
        for rank, quantile in zip(ranks, monoid.lower(state), strict=True):
            assert abs(np.searchsorted(ordered, quantile, "right") / len(values) - rank) <= bound


def test_kll_is_exact_up_to_k_values():
    """While a sketch holds all its values, quantiles are exact in any grouping, and q means "at least"."""
    values = random.Random(1).sample(range(200), 200)
    monoid = monoids.kll(q=[0, 0.005, 0.5, 0.501, 1])
    expected = [0.0, 0.0, 99.0, 100.0, 199.0]
    assert monoid.lower(state_of(monoid, values)) == expected
    assert all(monoid.lower(grouped(monoid, values, seed)) == expected for seed in range(5))


def test_kll_leaves_nan_out_and_keeps_infinities():
    """NaN has no rank; infinities are values."""
    monoid = monoids.kll(q=[0, 1])
    assert monoid.lift(math.nan) == b""
    assert monoid.lower(state_of(monoid, [math.nan, -math.inf, math.inf])) == [-math.inf, math.inf]


def test_kll_gives_the_sketch():
    """Without q the result is a sketch of one's own."""
    monoid = monoids.kll(k=50)
    state = state_of(monoid, [1, 2])
    monoid.lower(state).update(3.0)
    assert (monoid.lower(state).n, monoid.lower(state).k) == (2, 50)


# --- frequent items -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_frequent_items_error(seed):
    """Estimates are never too low, never too high by more than the stated share, and no heavy item is missed."""
    draw = random.Random(seed)
    values = [str(int(draw.paretovariate(0.7))) for _ in range(4000)]
    counts = {value: values.count(value) for value in set(values)}
    monoid = monoids.frequent_items(lg_max_k=6)
    share = 3.5 / 2**6 * len(values)
    assert len(counts) > 3 * 0.75 * 2**6  # far more than fit
    for state in (state_of(monoid, values), grouped(monoid, values, seed)):
        found = monoid.lower(state)
        assert found == sorted(found, key=lambda row: (-row[1], row[0]))
        assert all(counts[item] <= estimate <= counts[item] + share for item, estimate in found)
        assert {item for item, count in counts.items() if count > share} <= {item for item, _ in found}


@pytest.mark.parametrize("dtype, cast", [("str", str), ("int64", int)])
def test_frequent_items_is_exact_for_few(dtype, cast):
    """While all items fit, counts are exact in any grouping; equal counts are in the order of the items."""
    values = [cast(v) for v in [3, 1, 2, 3, 1, 3, 9, 8]]
    monoid = monoids.frequent_items(dtype=dtype)
    expected = [(cast(item), count) for item, count in [(3, 3), (1, 2), (2, 1), (8, 1), (9, 1)]]
    assert monoid.lower(state_of(monoid, values)) == expected
    assert all(monoid.lower(grouped(monoid, values, seed)) == expected for seed in range(5))


# --- theta and cpc --------------------------------------------------------------------------------


@pytest.mark.parametrize("monoid, error", [(monoids.theta(lg_k=8), 1 / 16), (monoids.cpc(lg_k=8), 0.69 / 16)], ids=repr)
def test_distinct_estimates(monoid, error):
    """Over seeds the error is that of the docstring: its root mean square close to it, none beyond four times it."""
    errors = []
    for seed in range(30):
        low = seed * 10**6
        state = state_of(monoid, [*range(low, low + 2000), *[low] * 100])
        errors.append(monoid.lower(state) / 2000 - 1)
    assert max(map(abs, errors)) < 4 * error
    assert math.sqrt(sum(e * e for e in errors) / len(errors)) < 1.5 * error


@pytest.mark.parametrize(
    "monoid", [monoids.theta(lg_k=5), monoids.cpc(lg_k=5), monoids.theta(), monoids.cpc()], ids=repr
)
def test_distinct_states_do_not_depend_on_grouping(monoid):
    """The same set of values has the same bytes, in any order and any grouping: these two are exact monoids."""
    values = [*range(700), *map(str, range(300)), *[0.5, 0.25, math.nan, "x", 1] * 20]
    state = state_of(monoid, values)
    assert monoid.exact
    assert all(grouped(monoid, values, seed) == state for seed in range(8))


@pytest.mark.parametrize("name", ["theta", "cpc"])
def test_what_counts_as_different(name):
    """NumPy's numbers are Python's, zeros and NaN are one value each, 1 and 1.0 are two, "" is none."""
    monoid = ALL[name]

    def count(*values):
        return round(monoid.lower(state_of(monoid, values)))

    assert count(1, np.int8(1), True) == 1
    assert count(0.0, -0.0) == 1
    assert count(math.nan, np.float32("nan")) == 1
    assert count(1, 1.0, "1") == 3
    assert count("") == 0
    assert monoid.lift("") == b""


def test_theta_is_the_sketch_of_other_languages():
    """A state's bytes are those that the library itself returns for the values."""
    sketch = datasketches.update_theta_sketch(12)
    for value in ("anna", 5, 2.5):
        sketch.update(value)
    assert state_of(ALL["theta"], ["anna", 5, 2.5]) == sketch.compact().serialize()


# --- refusals -------------------------------------------------------------------------------------

REFUSED = [
    (lambda: monoids.kll(k=7), ArgumentError, "^k must be an int from 8 to 65535, got 7"),
    (lambda: monoids.kll(k=1.5), KindError, "^k must be an int from 8 to 65535, got 1.5"),
    (lambda: monoids.kll(q=2), ArgumentError, "^q must be a number from 0 to 1, got 2"),
    (lambda: monoids.kll(q="a"), KindError, "^q must be a number from 0 to 1, got 'a'"),
    (lambda: monoids.kll(q=[0.5, None]), KindError, "^q must be a number from 0 to 1, got None"),
    (
        lambda: monoids.kll(q=0.5, as_bytes=True),
        ArgumentError,
        "^as_bytes must be False if q is set, got True and q=0.5",
    ),
    (lambda: monoids.theta(as_bytes=1), KindError, "^as_bytes must be a bool, got 1"),
    (lambda: monoids.theta(lg_k=4), ArgumentError, "^lg_k must be an int from 5 to 26, got 4"),
    (lambda: monoids.cpc(lg_k=27), ArgumentError, "^lg_k must be an int from 4 to 26, got 27"),
    (lambda: monoids.frequent_items(lg_max_k=2), ArgumentError, "^lg_max_k must be an int from 3 to 26, got 2"),
    (lambda: monoids.frequent_items(dtype="float64"), ArgumentError, '^dtype must be "str" or "int64", got .float64.'),
    (lambda: monoids.frequent_items().lift(3), KindError, r'^value must be a str, got 3 \(ints need dtype="int64"\)'),
    (lambda: monoids.frequent_items(dtype="int64").lift("a"), KindError, "^value must be an int, got 'a'"),
    (lambda: monoids.frequent_items().lift("\ud800"), ArgumentError, "^value must be valid Unicode"),
    (lambda: monoids.kll().lift("a"), KindError, "^value must be a number, got 'a'"),
    (lambda: monoids.theta().lift(None), KindError, "^value must be an int, a float or a str, got None"),
    (lambda: monoids.theta().lift(b"a"), KindError, "^value must be an int, a float or a str, got b'a'"),
    (lambda: monoids.cpc().lift(2**63), ArgumentError, "^value must fit int64, got 9223372036854775808"),
]


@pytest.mark.parametrize("make, error, sentence", REFUSED, ids=[sentence for *_, sentence in REFUSED])
def test_refuses_in_one_sentence(make, error, sentence):
    """A wrong argument or value is named, with what is accepted."""
    with pytest.raises(error, match=sentence) as caught:
        make()
    assert caught.value.argument == str(caught.value).split()[0]
