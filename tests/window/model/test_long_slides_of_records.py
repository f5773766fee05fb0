"""Long slides of records, whose rounds run many at a time, against the same rounds one by one."""

import gc
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sash import Monoid, Window, monoids

NAN, INF = float("nan"), float("inf")


def five(column: str | None = None, **columns: str) -> Monoid:
    """The struct of the benchmark; its parts read one column, or one each."""
    read = {name: columns.get(name, column) for name in ("total", "least", "most", "spread")}
    return monoids.struct(
        n=monoids.count(),
        total=monoids.sum(column=read["total"]),
        least=monoids.min(column=read["least"]),
        most=monoids.max(column=read["most"]),
        spread=monoids.std(column=read["spread"]),
    )


STRUCTS = {
    "five": five(),
    "mean": monoids.mean(),
    "std": monoids.std(),
    "variance": monoids.variance(ddof=0),
    "counts": monoids.struct(n=monoids.count(), m=monoids.count()),
    "moments": monoids.struct(a=monoids.skewness(), b=monoids.kurtosis(), c=monoids.range()),
    "extremes": monoids.struct(a=monoids.mincount(), b=monoids.maxcount(), c=monoids.geomean(), d=monoids.product()),
}
EXACT = {
    "five": {"n": monoids.count(), "a": monoids.sum(), "b": monoids.min(), "c": monoids.max(), "d": monoids.std()},
    "mean": {"a": monoids.mean()},
    "variance": {"a": monoids.variance()},
    "moments": {"a": monoids.skewness()},
    "extremes": {"a": monoids.mincount(), "b": monoids.range(), "c": monoids.geomean()},
}
DECAYED = monoids.decayed_sum(half_life=10)


def rounds(window: Window, times: Any, values: Any, count: int) -> list[Any]:
    """The results of a slide, one call for each step."""
    results = []
    for time, value in zip(times, values, strict=True):
        while len(window) >= count:
            window.evict(window.oldest)
        window.insert(time, value)
        results.append(window.query())
    return results


def listed(results: Any) -> list[Any]:
    """The rows of a slide's results, as queries show them."""
    if not isinstance(results, dict):
        return results.tolist()
    columns = [column.tolist() for column in results.values()]
    return [dict(zip(results, row, strict=True)) for row in zip(*columns, strict=True)]


def parts_of(row: Any) -> list[Any]:
    """The numbers of a result."""
    if isinstance(row, (dict, tuple)):
        return [part for item in (row.values() if isinstance(row, dict) else row) for part in parts_of(item)]
    return [row]


def agree(found: list[Any], expected: list[Any]) -> bool:
    """Whether results are the same but for rounding, which differs with the steps between rounds."""
    ours, theirs = ([part for row in rows for part in parts_of(row)] for rows in (found, expected))
    there = [[part is not None for part in parts] for parts in (ours, theirs)]
    numbers = [[part for part in parts if part is not None] for parts in (ours, theirs)]
    return there[0] == there[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-7, abs=1e-7, nan_ok=True)


def times_of(rng: random.Random, rows: int, start: int) -> list[int]:
    """Times that go up as a rule; others are late or there already."""
    times, newest = [], start
    share = rng.choice([0.0, 0.02, 0.3])
    for _ in range(rows):
        late = rng.random() < share
        times.append(newest - rng.choice([0, 1, 2, 30]) if late else newest + rng.randint(1, 3))
        newest = max(newest, times[-1])
    return times


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("name", STRUCTS)
def test_slides_agree_with_rounds(name: str, real: bool) -> None:
    """Results and entries, for windows of any size and rows of any order."""
    for seed in range(8):
        rng = random.Random(seed)
        ours, theirs = Window(STRUCTS[name]), Window(STRUCTS[name])
        count, start = rng.choice([1, 2, 3, 40, 64, 65, 300]), 0
        for _ in range(3):
            times = times_of(rng, rng.choice([1, 10, 400]), start)
            start = max(start, *times)
            values = [rng.uniform(0.5, 9) if real else rng.randint(1, 9) for _ in times]
            assert agree(listed(ours.slide(times, values, count=count)), rounds(theirs, times, values, count))
            assert list(ours) == list(theirs)
            ours.check_invariants()


@pytest.mark.parametrize("name", EXACT)
def test_rounds_that_run_together_are_the_same_to_the_last_bit(name: str) -> None:
    """Results and combines are those of a record with one part more, whose results need times: that runs none."""
    ours_of, theirs_of = monoids.struct(**EXACT[name]), monoids.struct(**EXACT[name], decayed=DECAYED)
    for count in (2, 5, 50, 64, 65, 1500):
        rng = random.Random(count)
        values = [rng.lognormvariate(0, 5) for _ in range(4 * count + 300)]
        ours, theirs = Window(ours_of), Window(theirs_of)
        found, expected = (window.slide(range(len(values)), values, count=count) for window in (ours, theirs))
        for column in found:
            assert repr(found[column].tolist()) == repr(expected[column].tolist())
        assert ours.combines == theirs.combines


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -0.0, 1e300, 5e-324])
def test_floats_that_are_not_ordinary(bad: float) -> None:
    """A value that spoils a result is forgotten with the round that evicts it."""
    for name in ("five", "mean", "std"):
        for place in (0, 70, 71, 130):
            values = [float(i % 7) for i in range(300)]
            values[place] = bad
            ours, theirs = Window(STRUCTS[name]), Window(STRUCTS[name])
            found = listed(ours.slide(range(300), values, count=90))
            assert agree(found, rounds(theirs, range(300), values, 90))
            ordinary = parts_of(found[-1])
            assert all(abs(part) < 1000 for part in ordinary)
            ours.check_invariants()


@pytest.mark.parametrize("column", ["a", "b", "both"])
def test_nulls_inside_a_long_slide(column: str) -> None:
    """Rows with nulls take the general way, and the ones before and after them run together."""
    monoid = five(total="a", least="b", most="b", spread="a")
    for share in (0.005, 0.1, 0.9, 1.0):
        rng = random.Random(7)
        values: list[dict[str, Any]] = [{"a": rng.randint(1, 9), "b": rng.random()} for _ in range(600)]
        for value in values:
            for name in ("a", "b"):
                if column in (name, "both") and rng.random() < share:
                    value[name] = None
        ours, theirs = Window(monoid), Window(monoid)
        warm = [{"a": 1, "b": 1.0}] * 10
        for window in (ours, theirs):
            window.insert_many(range(10), {name: [row[name] for row in warm] for name in ("a", "b")})
        columns = {
            "a": np.ma.MaskedArray([v["a"] or 0 for v in values], [v["a"] is None for v in values]),
            "b": np.ma.MaskedArray([v["b"] or 0.0 for v in values], [v["b"] is None for v in values]),
        }
        found = listed(ours.slide(range(10, 610), columns, count=70))
        assert agree(found, rounds(theirs, range(10, 610), values, 70))
        ours.check_invariants()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_rows_of_any_width(width: int) -> None:
    """Rows of more than two columns are stored elsewhere, also where one time has several of them."""
    names = ["total", "least", "most", "spread"]
    monoid = five(**{name: "abcd"[i % width] for i, name in enumerate(names)})
    rng = random.Random(width)
    times = times_of(rng, 800, 0)
    columns = {name: [rng.randint(-99, 99) for _ in times] for name in "abcd"[:width]}
    values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ours, theirs = Window(monoid), Window(monoid)
    assert agree(listed(ours.slide(times, columns, count=100)), rounds(theirs, times, values, 100))
    assert list(ours) == list(theirs)
    ours.check_invariants()


def test_sums_beyond_int64_inside_a_run() -> None:
    """The sum of a struct is exact, whatever the sizes of its parts; a result that needs it is a Python int."""
    values = [2**62] * 100 + [-(2**62)] * 100 + [1] * 100
    ours, theirs = Window(five()), Window(five())
    assert agree(listed(ours.slide(range(300), values, count=80)), rounds(theirs, range(300), values, 80))
    mean = Window(monoids.mean()).slide(range(300), values, count=80)
    assert mean.tolist() == [float(np.mean([float(v) for v in values[max(0, i - 79) : i + 1]])) for i in range(300)]


def test_records_that_do_not_commute_agree() -> None:
    """Where order matters each round is one by itself."""
    monoid = monoids.struct(a=monoids.first(), b=monoids.last(), c=monoids.sum())
    times = times_of(random.Random(3), 700, 0)
    ours, theirs = Window(monoid), Window(monoid)
    assert agree(listed(ours.slide(times, times, count=100)), rounds(theirs, times, times, 100))


def test_a_change_between_slides() -> None:
    """Evicts at both ends and inside, and inserts anywhere, between slides."""
    for seed in range(10):
        rng = random.Random(seed)
        ours, theirs = Window(five()), Window(five())
        start, count = 0, rng.choice([30, 200])
        for _ in range(12):
            times = list(range(start + 1, start + rng.choice([2, 50, 150])))
            start = times[-1]
            values = [rng.randint(-9, 9) for _ in times]
            assert agree(listed(ours.slide(times, values, count=count)), rounds(theirs, times, values, count))
            held = list(ours)
            gone = rng.choice([ours.oldest, ours.newest, rng.choice(held)])
            time = rng.choice(held) + rng.choice([0, 0, 1000])
            for window in (ours, theirs):
                if len(held) > 2:
                    window.evict(gone)
                window.insert(time, 5)
            start = max(start, time)
            ours.check_invariants()
            assert agree([ours.query()], [theirs.query()])


@pytest.fixture(params=[True, False])
def collects(request: pytest.FixtureRequest) -> Iterator[bool]:
    """With and without Python's collector of cycles, which is left as it was."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_a_slide_leaves_the_collector_as_it_was(collects: bool) -> None:
    """It is paused while results are made that are lists, also where the slide fails."""
    window = Window(monoids.approx_quantile(q=[0.5, 1]))
    found = window.slide(range(300), [float(i) for i in range(300)], count=1)
    assert found.tolist() == [[float(i), float(i)] for i in range(300)]
    assert gc.isenabled() == collects
    with pytest.raises(Exception, match="values"):
        window.slide(range(300, 302), [1.0, "two"], count=1)
    assert gc.isenabled() == collects
