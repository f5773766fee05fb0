"""The kinds of generated events: card payments, bike trips, sensors; and their random numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.inputs.arrow import pyarrow

Numbers = NDArray[np.int64]
_MERCHANTS = ("groceries", "dining", "fuel", "online", "travel")
_TRIP_US, _LONGEST_TRIP_US = 15 * 60 * 10**6, 2 * 3600 * 10**6


def uniform(seed: int, purpose: str, n: Numbers) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each n: a hash of (seed, purpose, n), so the same in any order of calls.

    SplitMix64 rather than NumPy's generators, whose distributions may change between versions.
    """
    words = n.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + _salt(seed, purpose)
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


@lru_cache
def _salt(seed: int, purpose: str) -> np.uint64:
    """Return the start of the sequence for one purpose, far from that of any other."""
    return np.uint64(int.from_bytes(blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest(), "big"))


def standard_normal(seed: int, purpose: str, n: Numbers) -> NDArray[np.float64]:
    """Return a sample of the normal distribution for each n (Box-Muller)."""
    radius: NDArray[np.float64] = np.sqrt(-2 * np.log1p(-uniform(seed, purpose + "/radius", n)))
    return radius * np.cos(2 * np.pi * uniform(seed, purpose + "/angle", n))


def _no_time(_seed: int, n: Numbers) -> Numbers:
    return np.zeros(n.size, dtype=np.int64)


def _payment(seed: int, n: Numbers, _keys: Numbers, _happened: Numbers) -> dict[str, Any]:
    """Return amounts in cents, many small and few large, and merchants."""
    pa = pyarrow()
    cents = np.maximum(np.exp(np.log(2500) + 0.9 * standard_normal(seed, "amount", n)), 1).astype(np.int64)
    spent_on = (uniform(seed, "merchant", n) ** 1.5 * len(_MERCHANTS)).astype(np.int64)
    return {"amount": pa.array(cents), "merchant": pa.array(_MERCHANTS).take(pa.array(spent_on))}


def _trip_time(seed: int, n: Numbers) -> Numbers:
    taken: NDArray[np.float64] = _TRIP_US * np.exp(0.6 * standard_normal(seed, "trip", n) - 0.18)
    return np.minimum(taken, _LONGEST_TRIP_US).astype(np.int64)


def _trip(seed: int, n: Numbers, _keys: Numbers, _happened: Numbers) -> dict[str, Any]:
    """Return the prices of trips in cents, and their durations in seconds."""
    pa, seconds = pyarrow(), _trip_time(seed, n) // 10**6
    return {"amount": pa.array(100 + seconds // 60 * 20), "seconds": pa.array(seconds)}


def _reading(seed: int, n: Numbers, keys: Numbers, happened: Numbers) -> dict[str, Any]:
    """Return a sine wave with a period of a minute, shifted by sensor, with noise."""
    wave = 20 + 5 * np.sin(2 * np.pi * (happened / 60e6 + keys / 7))
    return {"amount": pyarrow().array(np.round(wave + 0.2 * standard_normal(seed, "noise", n), 3))}


@dataclass(frozen=True)
class Kind:
    """A kind of event: its key, its columns, and the defaults of its options."""

    name: str
    key: str
    keys: int
    rate: float
    zipf: float
    late: float
    delay: str
    delay_mean: str
    columns: Callable[[int, Numbers, Numbers, Numbers], dict[str, Any]]
    taken: Callable[[int, Numbers], Numbers] = _no_time  # how long an event lasts before it is sent
    takes_us: int = 0  # the longest of these
    hertz: int = 0  # events per second of each key, where they are regular


KINDS = {
    kind.name: kind
    for kind in (
        Kind("payments", "card", 1000, 100.0, 1.1, 0.1, "lognormal", "1 minute", _payment),
        Kind("trips", "station", 200, 5.0, 0.8, 0.0, "exponential", "1 minute", _trip, _trip_time, _LONGEST_TRIP_US),
        Kind("sensors", "sensor", 10, 0.0, 0.0, 0.02, "exponential", "500ms", _reading, hertz=100),
    )
}
