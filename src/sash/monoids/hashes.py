"""The hash function of sets and sketches: stable across processes, and equal for equal values."""

import math
import struct as packing
from datetime import date
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash._core import hash64, hash_rows
from sash.errors import ArgumentError, KindError, shown
from sash.times import as_datetime64, is_integer

WORD = 2**64 - 1
_MOST_DIGITS = 4000  # Python itself does not convert much longer ints to text
_INSTANT = ord("d") << 32  # tells instants from ints


def stable_hash(value: Any) -> int:
    """Return a 64-bit hash that depends only on the value: stable across processes, equal for equal numbers.

    Equal instants have equal hashes, whatever their type, unit and time zone. A time without a zone counts as UTC, and
    a date as its midnight.

    >>> stable_hash(2) == stable_hash(2.0) == stable_hash(Decimal(2)), stable_hash("2") == stable_hash(b"2")
    (True, False)
    """
    if isinstance(value, (bool, np.bool_)) or is_integer(value):
        return _of_int(int(value))
    if isinstance(value, (float, np.floating)):
        return _of_float(float(value))
    if isinstance(value, str):
        return hash64(value.encode("utf-8", "surrogatepass"), ord("s"))
    if isinstance(value, bytes):
        return hash64(value, ord("b"))
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, (date, np.datetime64)) and value == value:  # a datetime is a date, and NaT is not itself
        return int(hashed_instants(np.asarray([as_datetime64(value)]))[0]) & WORD
    raise KindError(
        f"value must be an int, float, str, bytes, Decimal, date or datetime to be hashed, got {shown(value)}.",
        argument="value",
    )


def mixed(number: int) -> int:
    """Return the hash of an int64, as in the core: the finalizer of splitmix64."""
    x = (number + 0x9E3779B97F4A7C15) & WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
    return x ^ (x >> 31)


def _of_int(number: int) -> int:
    if -(2**63) <= number < 2**63:
        return mixed(number)
    if number.bit_length() > 3 * _MOST_DIGITS:
        raise ArgumentError(
            f"value must have at most {3 * _MOST_DIGITS} bits to be hashed, got {number.bit_length()} bits.",
            argument="value",
        )
    return hash64(str(number).encode(), ord("i"))


def _of_float(number: float) -> int:
    if number.is_integer():
        return _of_int(int(number))
    return hash64(packing.pack("<d", math.nan if math.isnan(number) else number), ord("f"))


def _of_decimal(number: Decimal) -> int:
    if not number.is_finite():
        return _of_float(math.nan if number.is_nan() else float(number))
    if number.adjusted() > _MOST_DIGITS:
        raise ArgumentError(
            f"value must have at most {_MOST_DIGITS + 1} digits to be hashed, got {shown(number)}.", argument="value"
        )
    if number == number.to_integral_value():
        return _of_int(int(number))
    if float(number) == number:
        return _of_float(float(number))
    digits = len(number.as_tuple().digits)
    return hash64(str(Context(prec=digits).normalize(number)).encode(), ord("f"))


def hashed_instants(instants: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """Return the hash of each row: of its second and its nanosecond, which do not depend on the unit."""
    seconds = instants.astype("datetime64[s]")
    seconds = seconds - (seconds > instants).astype("timedelta64[s]")  # the second that it is in, also before 1970
    nanoseconds = (instants - seconds).astype("timedelta64[ns]").view(np.int64)
    hashes = np.empty(len(instants), dtype=np.int64)
    hash_rows(np.ascontiguousarray(seconds.view(np.int64)), hashes)
    hash_rows(np.ascontiguousarray(hashes ^ (nanoseconds | _INSTANT)), hashes)
    return hashes
