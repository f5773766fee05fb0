"""Approximate quantiles: within their error of NumPy's, the same in any order, and in every form of their state."""

import math
import pickle
import random
import struct as packing
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash import ArgumentError, CorruptStateError, KeyedWindows, KindError, Window, monoids, rolling
from sash.monoids import approx_quantile
from sash.monoids.quantile_sketch import scale_of
from sash.testing import check_monoid

NAN, INF = math.nan, math.inf
SHARES = [0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]
TINY = 2.0**-1022  # the smallest normal float

Generator = np.random.Generator
DRAWS: dict[str, Callable[[Generator, int], Any]] = {
    "latencies": lambda rng, n: rng.lognormal(3, 1.5, n),
    "of both signs": lambda rng, n: rng.normal(0, 100, n),
    "negative": lambda rng, n: -rng.pareto(1.5, n) - 1,
    "uniform": lambda rng, n: rng.uniform(0, 1, n),
    "whole": lambda rng, n: rng.integers(-20, 200, n).astype(float),
    "all the same": lambda rng, n: np.full(n, 41.7),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.7, 0.0, rng.exponential(5, n)),
    "with a sentinel": lambda rng, n: np.where(rng.random(n) < 0.01, 1e308, rng.lognormal(0, 1, n)),
    "of every size": lambda rng, n: 10.0 ** rng.uniform(-9, 9, n),
}


def window_of(monoid: Any, values: Any, **options: Any) -> Window:
    window = Window(monoid, **options)
    window.insert_many(np.arange(len(values)), np.asarray(values, dtype=float))
    window.check_invariants()
    return window


def require_near(found: Any, values: Any, shares: Any, error: float) -> None:
    """Within the error of the exact quantile, relative to the larger of the two values that this lies between."""
    for share, quantile in zip(shares, found, strict=True):
        exact = float(np.quantile(values, share))
        between = [float(np.quantile(values, share, method=method)) for method in ("lower", "higher")]
        size = abs(exact) if min(between) >= 0 or max(between) <= 0 else max(map(abs, between))
        assert abs(quantile - exact) <= error * size * (1 + 1e-9), (share, quantile, exact)


# --- the error ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [0.001, 0.01, 0.05, 0.5])
@pytest.mark.parametrize("draw", DRAWS)
def test_quantiles_are_within_the_error_of_numpys(draw: str, error: float) -> None:
    """Of few values and many, in the order of arrival and out of it."""
    rng = np.random.default_rng(7)
    monoid = approx_quantile(q=SHARES, relative_error=error)
    for size in (1, 2, 3, 100, 129, 3000):
        values = DRAWS[draw](rng, size)
        require_near(window_of(monoid, values).query(), values, SHARES, error)


@pytest.mark.parametrize("distance", [0, 40])
def test_every_window_of_a_slide(distance: int) -> None:
    """Late rows included, for windows that are lists and windows that are counters."""
    rng = np.random.default_rng(distance)
    values, times = rng.lognormal(0, 2, 900), np.arange(900) + rng.integers(0, distance + 1, 900) * 10
    for size in (50, 400):
        found = Window(approx_quantile(q=[0.5, 0.99])).slide(times, values, size=size)
        held: dict[int, list[float]] = {}
        for time, value, answer in zip(times.tolist(), values.tolist(), found, strict=True):
            held.setdefault(time, []).append(value)
            newest = max(held)
            for old in [t for t in held if t <= newest - size]:
                del held[old]
            require_near(answer, [v for some in held.values() for v in some], [0.5, 0.99], 0.01)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60), st.floats(0, 1))
@settings(deadline=None, max_examples=150)
def test_any_few_floats(values: list[float], share: float) -> None:
    """The result lies between the two values at its rank, each wider by the error."""
    found = window_of(approx_quantile(q=share), values).query()
    ordered, place = sorted(values), share * (len(values) - 1)
    low, high = ordered[math.floor(place)], ordered[min(math.floor(place) + 1, len(values) - 1)]
    slack = 0.01 * max(abs(low), abs(high)) * (1 + 1e-9) + 5e-324
    assert low - slack <= found <= high + slack


def test_buckets_are_narrow_enough() -> None:
    """Their middles are within the error of both ends, with none to spare for the next width."""
    for error in (0.001, 0.002, 0.01, 0.05, 0.3, 0.5):
        scale = scale_of(error)
        widest = max(b / a for a, b in zip(scale.bounds, scale.bounds[1:], strict=False))
        assert (widest - 1) / (widest + 1) <= error * (1 + 1e-12)
        assert 2 ** (1 / max(scale.per_octave - 1, 0.5)) > (1 + error) / (1 - error)
    assert len(scale_of(0.01).middles) == 35


def test_buckets_at_their_bounds() -> None:
    """A bound belongs to the bucket above it, in the core as in Python, down to the smallest float."""
    scale = scale_of(0.01)
    bounds = [math.ldexp(bound, exponent) for exponent in (-1022, -1, 0, 1023) for bound in scale.bounds[:-1]]
    values = sorted({math.nextafter(b, side) for b in bounds for side in (0, INF)} | set(bounds) | {5e-324, 1e-310})
    monoid = approx_quantile(q=0.5)
    for value in values:
        for signed in (value, -value):
            window = Window(monoid)
            for time, other in enumerate((-INF, signed, INF)):
                window.insert(time, other)
            state = reduce(monoid.combine, map(monoid.lift, (-INF, signed, INF)))
            assert window.query() == monoid.lower(state)
            assert abs(window.query() - signed) <= max(0.01 * value, 5e-324)


# --- values that are no ordinary numbers ----------------------------------------------------------


@pytest.mark.parametrize("draw", [*DRAWS, "tiny"])
@pytest.mark.parametrize("size", [65, 129, 257, 1025, 8193])  # shares of one less are exact
def test_every_rank_is_in_the_bucket_of_its_value(draw: str, size: int) -> None:
    """In whatever order shares are asked for, also at the ends of the blocks of counters that a search skips."""
    rng, scale = np.random.default_rng(size), scale_of(0.01)
    values = 10.0 ** rng.uniform(-323, -307, size) if draw == "tiny" else DRAWS[draw](rng, size)
    ranks = rng.choice(size, 100)
    found = window_of(approx_quantile(q=(ranks / (size - 1)).tolist()), values).query()
    least, greatest = float(values.min()), float(values.max())
    inside = [scale.value_of(scale.key_of(float(value))) for value in np.sort(values)[ranks]]
    expected = [min(max(value, least), greatest) for value in inside]
    for i, rank in enumerate(ranks):
        assert found[i] == (least if rank == 0 else greatest if rank == size - 1 else expected[i]), rank


def test_the_ends_are_exact() -> None:
    values = np.random.default_rng(1).normal(size=5000)
    assert window_of(approx_quantile(q=[0, 1]), values).query() == [values.min(), values.max()]
    assert window_of(approx_quantile(q=0.3), [41.7] * 1000).query() == 41.7


@pytest.mark.parametrize("many", [1, 100])
def test_infinities_and_nan(many: int) -> None:
    """Infinities are exact, NaN is the largest value, and zeros have no sign but at the ends."""
    values = [-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN] * many
    found = window_of(approx_quantile(q=[0, 3 / 7, 5 / 6, 1]), values).query()
    assert found[:3] == [-INF, 0.0, INF] and math.isnan(found[3])
    assert window_of(approx_quantile(q=0.5), [INF] * 200).query() == INF
    assert math.isnan(window_of(approx_quantile(q=0.5), [-INF, INF]).query())  # as NumPy has it between these


def test_of_nothing_and_of_nulls() -> None:
    assert Window(approx_quantile()).query() is None and Window(approx_quantile(q=[0.1, 0.9])).query() is None
    rows = Window(monoids.struct(n=monoids.count(), p=approx_quantile("x", 0.5), ps=approx_quantile("x", [0, 1])))
    rows.insert_many([1, 2, 3], [{"x": None}, {"x": 4}, {"x": None}])
    assert rows.query() == {"n": 3, "p": 4.0, "ps": [4.0, 4.0]}
    rows.evict(2)
    assert rows.query() == {"n": 2, "p": None, "ps": None}


def test_too_many_buckets_drop_what_is_nearest_to_zero() -> None:
    """The largest values keep their error; the others count as zero, and never pass the smallest value."""
    rng = np.random.default_rng(3)
    size = 10.0 ** rng.uniform(-250, 250, 6000)
    kept = np.sort(size)[-scale_of(0.01).most // 2]  # far fewer values than buckets are larger
    for values in (size, size * rng.choice([-1, 1], 6000), -size):
        found = window_of(approx_quantile(q=SHARES), values).query()
        for share, quantile in zip(SHARES, found, strict=True):
            low, high = (float(np.quantile(values, share, method=method)) for method in ("lower", "higher"))
            if share in (0, 1) or min(abs(low), abs(high)) >= kept:
                require_near([quantile], values, [share], 0.01)
            else:
                near = low - 0.01 * abs(low) <= quantile <= high + 0.01 * abs(high)
                assert near or quantile in (0, values.min(), values.max())
    assert window_of(approx_quantile(q=0.001), size).query() == size.min()


# --- order and grouping ---------------------------------------------------------------------------

WIDE = {"narrow": 2.0, "wide": 60.0, "too wide": 290.0}


@pytest.mark.parametrize("spread", WIDE)
def test_every_order_gives_the_same_state(spread: str) -> None:
    """Not only about the same: to the last bit, also where buckets were dropped on the way."""
    rng = np.random.default_rng(11)
    values = 10.0 ** rng.uniform(-WIDE[spread], WIDE[spread], 4000) * rng.choice([-1, 1, 1], 4000)
    monoid = approx_quantile(q=SHARES)
    whole = window_of(monoid, values).query()
    for structure in ({"structure": "fiba"}, {"leaf_capacity": 2, "fanout": 4}, {"structure": "paper"}):
        assert window_of(monoid, rng.permutation(values), **structure).query() == whole
    ties = Window(monoid)
    ties.insert_many(rng.integers(0, 7, 4000), rng.permutation(values))
    ties.check_invariants()
    assert ties.query() == whole
    assert pickle.loads(pickle.dumps(ties)).query() == whole == Window.from_bytes(ties.to_bytes()).query()


@pytest.mark.parametrize("spread", WIDE)
def test_the_python_definition_is_the_same(spread: str) -> None:
    """In random trees over a shuffle of the values."""
    rng = np.random.default_rng(5)
    values = 10.0 ** rng.uniform(-WIDE[spread], WIDE[spread], 1800) * rng.choice([-1, 1], 1800)
    monoid, draw = approx_quantile(q=SHARES), random.Random(2)
    states = [monoid.lift(value) for value in values.tolist()]
    draw.shuffle(states)
    while len(states) > 1:
        states = [
            states[i] if i + 1 == len(states) else monoid.combine(states[i], states[i + 1])
            for i in range(0, len(states), 2)
        ]
    assert monoid.lower(states[0]) == window_of(monoid, values).query()


@pytest.mark.parametrize("error", [0.01, 0.5])
def test_laws_of_states_that_drop_buckets(error: float) -> None:
    """With an error of one half 33 values are enough."""
    values = st.floats(allow_nan=False) | st.floats(-300, 300).map(lambda e: 10.0**e) | st.just(NAN)
    check_monoid(approx_quantile(q=[0.1, 0.5], relative_error=error), values=values)


@pytest.mark.parametrize("spread", WIDE)
def test_evictions_and_late_rows_at_random(spread: str) -> None:
    rng = np.random.default_rng(23)
    window, held = Window(approx_quantile(q=SHARES), leaf_capacity=2, fanout=4), {}  # type: ignore[var-annotated]
    for step in range(600):
        time, value = int(rng.integers(step, step + 300)), float(10 ** rng.uniform(-WIDE[spread], WIDE[spread]))
        window.insert(time, value)
        held.setdefault(time, []).append(value)
        if step % 3 == 0:
            gone = int(rng.choice(sorted(held)))
            assert window.evict(gone)
            del held[gone]
        if step % 100 == 99:
            window.check_invariants()
            again = window_of(approx_quantile(q=SHARES), [v for some in held.values() for v in some])
            assert window.query() == again.query()


# --- bytes ----------------------------------------------------------------------------------------


def entries_of(window: Window) -> tuple[Any, ...]:
    kinds, times, entries, rows, wide = window.__reduce__()[1][1:]
    return kinds, times, entries, rows, wide


def test_changed_bytes_are_refused_or_sound() -> None:
    """Every byte of a list, of counters and of pairs: what is loaded answers, and keeps its invariants."""
    rng = np.random.default_rng(1)
    for count, width in ((5, 2.0), (400, 1.0), (400, 200.0)):
        window = Window(approx_quantile(q=[0.1, 0.5, 0.9]))
        for value in 10 ** rng.uniform(-width, width, count):
            window.insert(1, float(value))
        kinds, times, entries, rows, wide = entries_of(window)
        loaded = 0
        for at in range(0, len(entries), 1 + len(entries) // 900):
            for bit in (1, 128):
                changed = bytearray(entries)
                changed[at] ^= bit
                other = Window(window.monoid)
                try:
                    other._unpack(kinds, times, bytes(changed), rows, wide)  # type: ignore[attr-defined]
                except CorruptStateError:
                    continue
                loaded += 1
                assert len(other.query()) == 3
                other.insert(1, 2.5)
                other.insert(2, -2.5)
                other.check_invariants()
        assert loaded < 1200
        for cut in range(0, len(entries), 7):
            with pytest.raises(CorruptStateError):
                Window(window.monoid)._unpack(kinds, times, entries[:cut], rows, wide)  # type: ignore[attr-defined]


def test_a_record_of_fewer_rows_than_values_is_refused() -> None:
    """Its room would follow from its rows, and its values would not fit."""
    rows_at = 1 + 8 + 4 + 8  # behind a flag, nulls, the words in use, and which parts have seen a value
    for count in (6, 100, 400):
        window = Window(approx_quantile(q=[0.5, 0.9]))
        for value in range(1, count + 1):
            window.insert(1, float(value))
        kinds, times, entries, rows, wide = entries_of(window)
        assert packing.unpack_from("<q", entries, rows_at) == (count,)
        for fewer in (1, count - 1):
            changed = bytearray(entries)
            packing.pack_into("<q", changed, rows_at, fewer)
            with pytest.raises(CorruptStateError):
                Window(window.monoid)._unpack(kinds, times, bytes(changed), rows, wide)  # type: ignore[attr-defined]


def test_more_values_than_counters_can_count() -> None:
    """Two states of 2^31 values each, made of the bytes of one: their sum has counts of 43 bits."""
    window = Window(approx_quantile(q=[0, 0.25, 0.5, 0.75, 1]))
    for value in [1.0] * 100 + [2.0] * 100:
        window.insert(1, value)
    kinds, _, entries, _, wide = entries_of(window)
    record = entries.replace(packing.pack("<q", 200), packing.pack("<q", 2**31))
    assert record.count(packing.pack("<I", 100)) == 2
    record = record.replace(packing.pack("<I", 100), packing.pack("<I", 2**30))
    four = Window(window.monoid)
    four._unpack(kinds, packing.pack("<4q", 1, 2, 3, 4), record * 4, 4, wide)  # type: ignore[attr-defined]
    for held in (4, 3, 2, 1):
        four.check_invariants()
        assert four.query() == pytest.approx([1.0, 1.0, 1.5, 2.0, 2.0], rel=0.01)
        assert four.evict(held)
    assert four.query() is None


# --- tables and streams ---------------------------------------------------------------------------


def table_of(rng: Generator, rows: int) -> dict[str, Any]:
    return {
        "k": rng.choice(["a", "b", "c"], rows).tolist(),
        "t": np.sort(rng.integers(0, rows, rows)).tolist(),
        "x": rng.lognormal(0, 2, rows).tolist(),
    }


AGGS = {"ps": approx_quantile("x", [0.5, 0.99]), "p": approx_quantile("x", 0.95), "exact": monoids.quantile(0.95, "x")}


@pytest.mark.parametrize("arguments", [{}, {"every": 10}, {"every": 20, "resolution": 10}])
def test_rolling_and_streams_agree(arguments: dict[str, Any]) -> None:
    """Row for row, exactly, however the rows arrive; and within the error of the exact quantile."""
    rng = np.random.default_rng(9)
    data, names = table_of(rng, 900), [f"{agg}_{window}" for window in (40, 400) for agg in AGGS]
    import pyarrow as pa

    table = pa.table(data)
    options: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": [40, 400], **arguments}
    aggs = AGGS if "resolution" not in arguments else {name: AGGS[name] for name in ("ps", "p")}
    whole = rolling(table, aggs=aggs, **options)
    names = [name for name in names if name in whole.column_names]
    stream = KeyedWindows(aggs=aggs, emit="final", lateness=1000, **options)
    parts = [stream.push(table.take(rng.permutation(np.arange(i, i + 100)))) for i in range(0, 900, 100)]
    streamed = pa.concat_tables([*parts, stream.flush()])
    time = "t" if "every" not in arguments else "window_end"
    order = [("k", "ascending"), (time, "ascending")]
    rows = [frozenset_of(t.sort_by(order), ["k", time, *names]) for t in (whole, streamed)]
    assert rows[0] == rows[1] and len(rows[0]) > 90
    if "exact" in aggs:
        near, exact = whole["p_400"].to_numpy(), whole["exact_400"].to_numpy()
        assert np.all(np.abs(near - exact) <= 0.01 * exact)


def frozenset_of(table: Any, names: list[str]) -> list[str]:
    return sorted(map(repr, zip(*(table[name].to_pylist() for name in names), strict=True)))


def test_deletes() -> None:
    """A retracted row leaves nothing behind: the results are those of a stream that never had it."""
    rng = np.random.default_rng(4)
    import pyarrow as pa

    data = table_of(rng, 400) | {"id": list(range(400)), "gone": [False] * 400}
    table, aggs = pa.table(data), {"ps": approx_quantile("x", [0.5, 0.99])}
    options: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": [100], "aggs": aggs, "lateness": 10**6}
    with_deletes = KeyedWindows(id="id", retract="gone", emit="final", **options)
    with_deletes.push(table)
    dropped = rng.random(400) < 0.3
    with_deletes.push(table.filter(pa.array(dropped)).set_column(4, "gone", pa.array([True] * int(dropped.sum()))))
    without = KeyedWindows(id="id", retract="gone", emit="final", **options)
    without.push(table.filter(pa.array(~dropped)))
    names = ["k", "t", "id", "ps_100"]
    assert frozenset_of(with_deletes.flush(), names) == frozenset_of(without.flush(), names)


# --- arguments ------------------------------------------------------------------------------------


def test_the_median() -> None:
    """Exact by default, approximate where an error is set."""
    values = np.random.default_rng(1).lognormal(0, 1, 999)
    exact = float(np.median(values))
    assert window_of(monoids.median(), values).query() == exact
    near = window_of(monoids.median(relative_error=0.02), values).query()
    assert near != exact and near == pytest.approx(exact, rel=0.02)
    assert repr(monoids.median("x", relative_error=0.02)) == "median(relative_error=0.02, column='x')"


def test_how_it_is_written() -> None:
    monoid = approx_quantile("latency", [0.5, 0.99], relative_error=0.02)
    assert repr(monoid) == "approx_quantile(q=(0.5, 0.99), relative_error=0.02, column='latency')"
    assert eval(repr(monoid), {"approx_quantile": approx_quantile}) == monoid
    assert approx_quantile("latency", np.array([0.5, 0.99]), relative_error=0.02) == monoid
    assert pickle.loads(pickle.dumps(monoid)) == monoid


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: approx_quantile(q=1.5), ArgumentError, "q must be a number from 0 to 1, got 1.5."),
    (lambda: approx_quantile(q="a"), KindError, "q must be a number from 0 to 1, got 'a'."),
    (lambda: approx_quantile(q=[0.5, None]), KindError, "q must be a number from 0 to 1, got None."),
    (lambda: approx_quantile(q=[]), ArgumentError, "q must be a number or a list of 1 to 100 numbers, got []."),
    (
        lambda: approx_quantile(relative_error=0),
        ArgumentError,
        "relative_error must be a number from 0.001 to 0.5, got 0.",
    ),
    (
        lambda: approx_quantile(relative_error="1 %"),
        KindError,
        "relative_error must be a number from 0.001 to 0.5, got '1 %'.",
    ),
    (
        lambda: monoids.median(relative_error=True),
        KindError,
        "relative_error must be a number from 0.001 to 0.5, got True.",
    ),
    (lambda: approx_quantile(5), KindError, "column must be a str or None, got 5."),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED)
def test_refused_arguments(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message
