"""The built-in monoids.

Each function gives a `Monoid` that carries its Python definition and the names of its native forms in the core. The
Python definition runs where a native form cannot: for times or values that are neither int64 nor float64. `column`
names the input column where there are several; `dtype` ("int64", "float64", "object") fixes what otherwise the first
value decides.

Order among floats, wherever one is the largest or smallest: -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
"""

import hashlib
import math
import operator
import struct as packing
from collections.abc import Callable
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Monoid
from sash.times import as_number

_NUMBERS = ("int64", "float64")


def _dtype(dtype: Any) -> str | None:
    if dtype is None:
        return None
    try:
        name = "object" if dtype is object else np.dtype(dtype).name
    except TypeError:
        name = None
    if name not in ("int64", "float64", "object"):
        raise ArgumentError(f'dtype: {shown(dtype)} is not known; give "int64", "float64", "object" or None.')
    return name


def _plain(value: Any) -> Any:
    """Give a NumPy number as Python's own: NumPy's wrap around silently."""
    number = as_number(value)
    return value if number is None else number


# --- sums -----------------------------------------------------------------------------------------


def _summand(value: Any) -> Any:
    if value is None or isinstance(value, (str, bytes)):
        raise KindError(f"value: {shown(value)} cannot be summed; give a number.")
    return _plain(value)


def sum(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Sum of the values; of none: 0.

    Integers are exact: partial sums are 128 bits wide, and only a result outside int64 raises. The sum of floats
    rounds like any sum of floats, and in an order that depends on the tree's shape.
    """
    return Monoid(
        identity=0,
        combine=operator.add,
        lift=_summand,
        commutative=True,
        name="sum",
        column=column,
        dtype=_dtype(dtype),
        native=(("int64", "sum_int64"), ("float64", "sum_float64")),
    )


def _one(_: Any) -> int:
    return 1


def count(column: str | None = None) -> Monoid:
    """How many values were inserted, whatever they are."""
    return Monoid(
        identity=0,
        combine=operator.add,
        lift=_one,
        commutative=True,
        name="count",
        column=column,
        native=(("any", "count"),),
    )


# --- order ----------------------------------------------------------------------------------------


def _present(value: Any) -> Any:
    if value is None:
        raise KindError("value: None is no value; leave it out.")
    return _plain(value)


def _before(a: Any, b: Any) -> bool:
    """Tell whether a is smaller, with a total order for floats."""
    if isinstance(a, float) and isinstance(b, float):
        if a != a or b != b:
            return a == a
        if a == b == 0.0:
            return math.copysign(1.0, a) < math.copysign(1.0, b)
    return bool(a < b)


def _smaller(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return b if _before(b, a) else a


def _larger(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return b if _before(a, b) else a


def _earlier(a: Any, b: Any) -> Any:
    return b if a is None else a


def _later(a: Any, b: Any) -> Any:
    return a if b is None else b


def _of_one(name: str, combine: Callable[[Any, Any], Any], commutative: bool, column: str | None, dtype: Any) -> Monoid:
    return Monoid(
        identity=None,
        combine=combine,
        lift=_present,
        commutative=commutative,
        name=name,
        column=column,
        dtype=_dtype(dtype),
        native=tuple((kind, name) for kind in _NUMBERS),
    )


def min(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Smallest value; of none: None."""
    return _of_one("min", _smaller, True, column, dtype)


def max(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Largest value; of none: None."""
    return _of_one("max", _larger, True, column, dtype)


def first(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Value of the oldest time, of those at one time the first to arrive; of none: None."""
    return _of_one("first", _earlier, False, column, dtype)


def last(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Value of the newest time, of those at one time the last to arrive; of none: None."""
    return _of_one("last", _later, False, column, dtype)


def _once(value: Any) -> tuple[Any, int]:
    return _present(value), 1


def _larger_and_count(a: tuple[Any, int] | None, b: tuple[Any, int] | None) -> tuple[Any, int] | None:
    if a is None or b is None:
        return b if a is None else a
    if _before(a[0], b[0]):
        return b
    return a if _before(b[0], a[0]) else (a[0], a[1] + b[1])


def maxcount(column: str | None = None, *, dtype: Any = None) -> Monoid:
    """Largest value and how often it occurs, as `(max, count)`; of none: None."""
    return Monoid(
        identity=None,
        combine=_larger_and_count,
        lift=_once,
        commutative=True,
        name="maxcount",
        column=column,
        dtype=_dtype(dtype),
        native=tuple((kind, "maxcount") for kind in _NUMBERS),
    )


# --- geometric mean -------------------------------------------------------------------------------


def _log(value: Any) -> tuple[float, int]:
    if isinstance(value, (str, bytes)) or value is None:
        raise KindError(f"value: {shown(value)} is not a number; give a float or an int.")
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(f"value: {shown(value)} does not fit float64; give a smaller number.") from None
    if number < 0:
        raise ArgumentError(f"value: {shown(value)} has no geometric mean; give a number that is not negative.")
    return (math.log(number) if number else -math.inf), 1


def _add_both(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    return a[0] + b[0], a[1] + b[1]


def _exp_mean(state: tuple[float, int]) -> float | None:
    return math.exp(state[0] / state[1]) if state[1] else None


def geomean(column: str | None = None) -> Monoid:
    """Geometric mean of values that are not negative; of none: None. A zero makes it 0.0."""
    return Monoid(
        identity=(0.0, 0),
        combine=_add_both,
        lift=_log,
        lower=_exp_mean,
        commutative=True,
        name="geomean",
        column=column,
        native=(("float64", "geomean"),),
    )


# --- Bloom filter ---------------------------------------------------------------------------------

_BITS = 2**14
_HASHES = 4
_WORD = 2**64 - 1


def stable_hash(value: Any) -> int:
    """Give 64 bits that depend on the value alone: the same in every process, equal for equal numbers."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (int, np.integer)):
        if -(2**63) <= value < 2**63:
            return _mixed(int(value))
        return _digest(b"i" + str(int(value)).encode())
    if isinstance(value, (float, np.floating)):
        return _digest(b"f" + packing.pack("<d", value))
    if isinstance(value, str):
        return _digest(b"s" + value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _digest(b"b" + value)
    raise KindError(f"value: {shown(value)} has no stable hash; give an int, float, str or bytes.")


def _mixed(number: int) -> int:
    """Mix as the core does for int64 (the finaliser of splitmix64)."""
    x = (number + 0x9E3779B97F4A7C15) & _WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _WORD
    return x ^ (x >> 31)


def _digest(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _positions(value: Any) -> list[int]:
    start = stable_hash(value)
    step = (start >> 32) | 1
    return [((start + i * step) & _WORD) % _BITS for i in range(_HASHES)]


class Bloom:
    """A set that may claim to hold what it does not, and never the other way round.

    >>> from sash import Window, monoids
    >>> w = Window(monoids.bloom())
    >>> w.insert_many([1, 2], ["anna", "otto"])
    >>> "anna" in w.query(), "emil" in w.query()
    (True, False)
    """

    __slots__ = ("bits",)

    def __init__(self, bits: bytes = bytes(_BITS // 8)) -> None:
        self.bits = bits

    def __contains__(self, value: Any) -> bool:
        """Tell whether the value may have been inserted; False is certain."""
        return all(self.bits[p // 8] >> (p % 8) & 1 for p in _positions(value))

    def __eq__(self, other: object) -> bool:
        """Tell whether the same bits are set."""
        return self.bits == other.bits if isinstance(other, Bloom) else NotImplemented

    def __hash__(self) -> int:
        """Hash the bits."""
        return hash(self.bits)

    def __repr__(self) -> str:
        """Say how full the filter is."""
        return f"Bloom({int.from_bytes(self.bits, 'little').bit_count()} of {_BITS} bits set)"


def _bits_of(value: Any) -> int:
    bits = 0
    for position in _positions(value):
        bits |= 1 << position
    return bits


def _filter(bits: int) -> Bloom:
    return Bloom(bits.to_bytes(_BITS // 8, "little"))


def bloom(column: str | None = None) -> Monoid:
    """Bloom filter of 2**14 bits and 4 hashes; its result answers `value in result`.

    Up to about 1,200 distinct values a false "yes" is rarer than 1 in 200.
    """
    return Monoid(
        identity=0,
        combine=operator.or_,
        lift=_bits_of,
        lower=_filter,
        commutative=True,
        name="bloom",
        column=column,
        native=(("any", "bloom"),),
    )


BUILT_IN: dict[str, Callable[..., Monoid]] = {
    function.__name__: function for function in (sum, count, min, max, first, last, maxcount, geomean, bloom)
}

__all__ = ["Bloom", *BUILT_IN]
