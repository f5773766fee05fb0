"""Aggregates that keep every value: exact distinct counts and quantiles, lists, sets and joined strings.

These run in Python, and their states grow with the window; `hyperloglog` and `approx_quantile` are approximate
alternatives in native code, and `theta`, `cpc` and `kll` others of bounded size. States are immutable and share memory
where possible. Each docstring has the cost of a combine.
"""

import math
import struct as packing
from collections.abc import Iterator
from functools import partial
from typing import Any, Union

import numpy as np

from sash.equality import same
from sash.errors import KindError, shown
from sash.monoid import Monoid
from sash.monoids.arguments import checked_share, present, real
from sash.monoids.quantile_sketch import approx_median, interpolated

# --- sets -----------------------------------------------------------------------------------------


class NotANumber:
    """The stand-in for every NaN in a set: the class itself, which pickles by name and so stays unique."""


def _member(value: Any) -> frozenset[Any]:
    own = _own(value)
    if isinstance(own, float):
        own = NotANumber if own != own else own + 0.0  # -0.0 is the same zero
    try:
        return frozenset((own,))
    except TypeError:
        raise KindError(f"value must be hashable, got {shown(value)}.", argument="value") from None


def _own(value: Any) -> Any:
    """Return the value with NumPy numbers as Python numbers and bools unchanged, or raise if it is None."""
    return bool(value) if isinstance(value, bool | np.bool_) else present(value)


def _union(a: frozenset[Any], b: frozenset[Any]) -> frozenset[Any]:
    """Return the union of two sets, which is the first itself if it contains the second."""
    return a if len(b) <= len(a) and b <= a else a | b


def _elements(state: frozenset[Any]) -> set[Any]:
    return {math.nan if value is NotANumber else value for value in state}


def distinct(column: str | None = None) -> Monoid:
    """Exact number of distinct values; 0 if empty.

    A combine is O(distinct values of both). Values are the same if they are equal in Python, as 1, 1.0 and True are,
    and all NaNs are the same value.

    >>> from sash import Window, monoids
    >>> Window(monoids.distinct()).slide([1, 2, 3], ["a", "b", "a"], size=9, at="end")
    2
    """
    return Monoid(
        identity=frozenset(),
        combine=_union,
        lift=_member,
        lower=len,
        commutative=True,
        name="distinct",
        column=column,
    )


def collect_set(column: str | None = None) -> Monoid:
    """The distinct values as a `set`, the first to appear of equal ones; an empty set if empty.

    A combine is O(distinct values of both), as is a result. All NaNs are the same value.
    """
    return Monoid(
        identity=frozenset(),
        combine=_union,
        lift=_member,
        lower=_elements,
        commutative=True,
        name="collect_set",
        column=column,
    )


# --- sequences ------------------------------------------------------------------------------------

_CHUNK = 16  # up to this many values are copied into one tuple instead of linked


class Rope:
    """The concatenation of two sequences, made in O(1) without copying either.

    A sequence is a tuple or a rope. Two sequences are equal if their values are, however they were joined, and a rope
    pickles as the tuple of its values.

    >>> rope = Rope(Rope((1, 2), (3,)), (4,))
    >>> list(rope), rope == (1, 2, 3, 4)
    ([1, 2, 3, 4], True)
    """

    __slots__ = ("left", "right")

    def __init__(self, left: "Sequence", right: "Sequence") -> None:
        self.left = left
        self.right = right

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values in order, in O(n) and without recursion: a rope may be as deep as it is long."""
        ahead: list[Sequence] = [self]
        while ahead:
            sequence = ahead.pop()
            if isinstance(sequence, tuple):
                yield from sequence
            else:
                ahead += (sequence.right, sequence.left)

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same values in the same order, where NaN is the same as NaN."""
        if not isinstance(other, tuple | Rope):
            return NotImplemented
        mine, theirs = tuple(self), tuple(other)
        return mine == theirs or same(mine, theirs)

    def __hash__(self) -> int:
        """Return the hash of the tuple of the values."""
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


Sequence = Union[tuple[Any, ...], Rope]  # noqa: UP007, a string above names it


def _chain(a: Sequence, b: Sequence) -> Sequence:
    if not a or not b:  # a rope is never empty, and so is true
        return a or b
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) + len(b) <= _CHUNK:
        return a + b
    return Rope(a, b)


def _single(value: Any) -> tuple[Any]:
    return (_own(value),)


def collect_list(column: str | None = None) -> Monoid:
    """All values as a `list`, oldest first; [] if empty.

    A combine is O(1), a result O(n).

    >>> from sash import Window, monoids
    >>> Window(monoids.collect_list()).slide([2, 1, 2], ["b", "a", "c"], size=9, at="end")
    ['a', 'b', 'c']
    """
    return Monoid(identity=(), combine=_chain, lift=_single, lower=list, name="collect_list", column=column)


def _text(value: Any) -> tuple[str]:
    if not isinstance(value, str):
        raise KindError(f"value must be a str, got {shown(value)}.", argument="value")
    return (value,)


def _joined(separator: str, state: Sequence) -> str | None:
    return separator.join(state) if state else None


def string_agg(separator: str = ",", column: str | None = None) -> Monoid:
    """All strings joined by the separator, oldest first; None if empty.

    A combine is O(1), a result O(n).

    >>> from sash import Window, monoids
    >>> Window(monoids.string_agg("-")).slide([2, 1], ["b", "a"], size=9, at="end")
    'a-b'
    """
    if not isinstance(separator, str):
        raise KindError(f"separator must be a str, got {shown(separator)}.", argument="separator")
    return Monoid(
        identity=(),
        combine=_chain,
        lift=_text,
        lower=partial(_joined, separator),
        name="string_agg",
        column=column,
        arguments=(("separator", separator),),
    )


# --- quantiles ------------------------------------------------------------------------------------

# A state is the sorted values, each as the int64 that sorts as the float does (-0.0 before 0.0, NaN last), in one
# bytes object: it is immutable, compares by content, and does not depend on how it was merged.
_KEY = np.dtype("<i8")
_ALL_BUT_SIGN = 2**63 - 1


def _key(value: Any) -> bytes:
    number = real(value)
    (bits,) = packing.unpack("<q", packing.pack("<d", number if number == number else math.nan))
    return packing.pack("<q", bits ^ _ALL_BUT_SIGN if bits < 0 else bits)


def _value(state: bytes, rank: int) -> float:
    (key,) = packing.unpack_from("<q", state, 8 * rank)
    (number,) = packing.unpack("<d", packing.pack("<q", key ^ _ALL_BUT_SIGN if key < 0 else key))
    return float(number)


def _merged(a: bytes, b: bytes) -> bytes:
    if not a or not b:
        return a or b
    keys = np.frombuffer(bytearray(a + b), dtype=_KEY)
    keys.sort(kind="stable")  # finds the two sorted runs and merges them
    return keys.tobytes()


def _interpolated(q: float, state: bytes) -> float | None:
    """Return the value at rank q * (n - 1), interpolated linearly between two ranks, rounded as in NumPy."""
    if not state:
        return None
    place = q * (len(state) // 8 - 1)
    rank, share = int(place), place - int(place)
    low = _value(state, rank)
    return interpolated(low, _value(state, rank + 1), share) if share else low


def quantile(q: float, column: str | None = None) -> Monoid:
    """Exact `q`-quantile of numbers with linear interpolation, as in NumPy; None if empty.

    A combine is O(n) at about 4 ns per value, a result O(1), and a state 8 bytes per value. Numbers are converted to
    float64. NaN is the largest value: the result is NaN only if the quantile falls on a NaN or next to one.

    >>> from sash import Window, monoids
    >>> Window(monoids.quantile(0.9)).slide([1, 2, 3], [10, 30, 20], size=9, at="end")
    28.0
    """
    share = checked_share("q", q)
    return _quantile("quantile", share, column, (("q", share),))


def median(column: str | None = None, *, relative_error: float | None = None) -> Monoid:
    """Median of numbers, the mean of the middle two if their number is even; None if empty.

    It is exact at the costs of `quantile`, or with a `relative_error` that of `approx_quantile`, in native code.

    >>> from sash import Window, monoids
    >>> Window(monoids.median()).slide([1, 2, 3], [10, 30, 20], size=9, at="end")
    20.0
    """
    if relative_error is not None:
        return approx_median(column, relative_error)
    return _quantile("median", 0.5, column, ())


def _quantile(name: str, q: float, column: str | None, arguments: tuple[tuple[str, Any], ...]) -> Monoid:
    return Monoid(
        identity=b"",
        combine=_merged,
        lift=_key,
        lower=partial(_interpolated, q),
        commutative=True,
        name=name,
        column=column,
        arguments=arguments,
    )
