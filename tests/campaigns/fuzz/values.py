"""Random times and values of every kind, made from small ints so that a case stays readable."""

import datetime as dt
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd

NAN, INF = float("nan"), float("inf")
BASE = dt.datetime(2026, 1, 1)
AWARE = BASE.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
WILD = [NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, 1e300, 5e-324]
UNFINITE = [NAN, INF, -INF, 0.0, 1.5, -2.5]
HUGE = [2**62, -(2**62), 2**63 - 1, -(2**63), 1, -1]

# For each kind of time: the time of a tick, the size of so many ticks, and the number of a time for aggregates.
TIMES: dict[str, tuple[Any, Any, Any]] = {
    "int": (int, int, lambda t: t),
    "float": (lambda k: k / 2, lambda k: k / 2, lambda t: t),
    "datetime": (
        lambda k: BASE + dt.timedelta(seconds=k),
        lambda k: dt.timedelta(seconds=k),
        lambda t: seconds(t, BASE),
    ),
    "aware": (
        lambda k: AWARE + dt.timedelta(seconds=k),
        lambda k: dt.timedelta(seconds=k),
        lambda t: seconds(t, AWARE),
    ),
    "datetime64": (
        lambda k: np.datetime64(k, "ms"),
        lambda k: np.timedelta64(k, "ms"),
        lambda t: int(t.astype("int64")) / 1000,
    ),
    "timestamp": (
        lambda k: pd.Timestamp(BASE) + pd.Timedelta(seconds=k),
        lambda k: pd.Timedelta(seconds=k),
        lambda t: seconds(t, pd.Timestamp(BASE)),
    ),
    "pair": (lambda k: (k // 3, k % 3), lambda k: k, lambda t: t[0]),
    "text": (lambda k: f"{k + 5000:05d}", None, lambda t: 0),
}


def seconds(time: Any, base: Any) -> float:
    """Return how many seconds a time is after another."""
    return (time - base).total_seconds()


def value(rng: Random, kind: str) -> Any:
    """Return a random value of a kind; small, so that equal values and ties are frequent."""
    if kind.startswith("pair"):
        part = {"pair": "float", "pair_int": "int", "pair_wild": "wild"}[kind]
        return (value(rng, part), value(rng, "float" if part == "wild" else part))
    if kind == "row":
        return {"x": rng.choice([None, rng.randint(-9, 9)]), "y": rng.choice([None, rng.randint(-40, 40) / 8])}
    return {
        "int": lambda: rng.randint(-9, 9),
        "float": lambda: rng.randint(-40, 40) / 8,
        "wild": lambda: rng.choice(WILD),
        "unfinite": lambda: rng.choice(UNFINITE),
        "huge": lambda: rng.choice(HUGE),
        "positive": lambda: rng.randint(0, 40) / 8,
        "text": lambda: rng.choice(["", "a", "b", "ab", "ü", "zz"]),
        "bool": lambda: rng.random() < 0.6,
        "fraction": lambda: Fraction(rng.randint(-9, 9), 3),
        "none": lambda: rng.choice([None, "x", 3]),
    }[kind]()


def describe(thing: Any) -> str:
    """Return Python source for a value, which needs `np`, `pd`, `datetime`, `Fraction`, `nan` and `inf`."""
    if isinstance(thing, pd.Timestamp):
        return f"pd.Timestamp('{thing}')"
    if isinstance(thing, pd.Timedelta):
        return f"pd.Timedelta('{thing}')"
    if isinstance(thing, list):
        return "[" + ", ".join(map(describe, thing)) + "]"
    return repr(thing)


PREAMBLE = """import datetime
from fractions import Fraction
from math import inf, nan

import numpy as np
import pandas as pd
import pyarrow as pa

from sash import KeyedWindows, Monoid, Window, monoids, rolling
"""
