"""Monoids that depend on time: every kind of it, spans of nothing, and times that have no distance."""

import datetime as dt
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from sash import KindError, Window, monoids
from support.folds import answer

INF = math.inf
NOON = dt.datetime(2024, 5, 1, 12)


def minutes(*numbers: int) -> list[dt.datetime]:
    return [NOON + dt.timedelta(minutes=n) for n in numbers]


INSTANTS = {
    "datetime": minutes(0, 1, 3),
    "aware": [time.replace(tzinfo=dt.UTC) for time in minutes(0, 1, 3)],
    "datetime64": [np.datetime64(time, "ms") for time in minutes(0, 1, 3)],
    "Timestamp": [pd.Timestamp(time) for time in minutes(0, 1, 3)],
    "seconds": [0, 60, 180],
    "floats": [0.5, 60.5, 180.5],
    "pairs": [(0, "x"), (60, "y"), (180, "z")],
    "Fraction": [Fraction(0), Fraction(60), Fraction(180)],
}


@pytest.mark.parametrize("kind", INSTANTS)
def test_timed_monoids_know_every_kind_of_time(kind: str) -> None:
    """Spans are seconds where times are instants, and the unit of the times otherwise."""
    times = INSTANTS[kind]
    stretch = times[0], times[2]
    values = [8.0, 2.0]
    assert answer(monoids.decayed_sum(60), values, times[:2], stretch) == 8.0 / 8 + 2.0 / 4
    assert answer(monoids.decayed_mean(60), values, times[:2], stretch) == (8.0 / 2 + 2.0) / (1 / 2 + 1)
    assert answer(monoids.time_weighted_mean(), values, times[:2], stretch) == (8.0 * 60 + 2.0 * 120) / 180
    assert answer(monoids.rate(), [90.0, 90.0], times[:2], stretch) == 1.0


def test_nanoseconds_count_in_a_struct_that_runs_in_python() -> None:
    """A field that only Python computes does not cost the others the nanoseconds of pandas' Timestamps."""
    fields = {"mean": monoids.time_weighted_mean("v"), "rate": monoids.rate("v"), "sum": monoids.decayed_sum(1e-9, "v")}
    native, python = Window(monoids.struct(**fields)), Window(monoids.struct(**fields, all=monoids.collect_list("v")))
    for window in (native, python):
        for ticks, v in ((0, 1.0), (1, 2.0), (3, 5.0)):
            window.insert(pd.Timestamp(10**18 + ticks), {"v": v})
    expected = {"mean": (1 * 1 + 2 * 2) / 3, "rate": 8 / 3e-9, "sum": 1 / 8 + 2 / 4 + 5}
    assert native.query() == pytest.approx(expected)
    assert {name: python.query()[name] for name in fields} == pytest.approx(expected)
    assert monoids.decayed_sum(pd.Timedelta(5, "ns")) == monoids.decayed_sum(5e-9)


def test_dates_are_days() -> None:
    """A date is an instant too."""
    days = [dt.date(2024, 2, 28), dt.date(2024, 3, 1)]
    assert answer(monoids.decayed_sum(dt.timedelta(days=1)), [4.0, 0.0], days, (days[0], days[1])) == 1.0


def test_timed_without_a_span() -> None:
    """At one instant the mean is the last value, a rate is not known, and nothing has decayed."""
    mean = monoids.time_weighted_mean()
    assert answer(mean, [INF, 4.0], [5, 5], (5, 5)) == 4.0
    assert answer(mean, [INF, 4.0], [5, 5], (5, 7)) == 4.0
    assert answer(monoids.rate(), [4.0], [5], (5, 5)) is None
    assert answer(monoids.decayed_sum(1), [4.0, 1.0], [5, 5], (5, 5)) == 5.0
    assert answer(monoids.decayed_sum(1), [4.0], [0], (0, 10**6)) == 0.0


def test_times_that_cannot_be_subtracted() -> None:
    """A timed monoid says what is wrong with times that have no distance."""
    with pytest.raises(KindError, match=r"^time must be a number or a datetime for this monoid, got 'a' and 'b'"):
        answer(monoids.time_weighted_mean(), [1, 2], ["a", "b"], ("a", "b"))
