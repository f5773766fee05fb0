"""Approximate quantiles with a guaranteed relative error, in bounded space and in native code.

Values are counted in buckets whose bounds are powers of 2**(1/n), as in DDSketch (Masson, Rim and Lee, VLDB 2019): all
values of a bucket are within the relative error of its middle. Keys number the buckets in the order of their values.
core/monoids/quantile_sketch.hpp has the same buckets. A state here is the smallest and the largest value, as ints that
sort as they do, and the keys with their counts.
"""

import functools
import itertools
import math
import struct as packing
from bisect import bisect_right
from collections.abc import Iterable
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import checked_share, real
from sash.times import as_number

_EXPONENTS = 2098  # from 2**-1074 to 2**1023
_OCTAVES = 64  # of which a state has room for all buckets
_LISTED = 128  # values of a state that is a list
_ALL_BUT_SIGN = 2**63 - 1

Counts = tuple[tuple[int, int], ...]


class State(NamedTuple):
    """The smallest and the largest value, and how many values there are in each bucket, by keys."""

    least: int
    greatest: int
    counts: Counts


class Scale(NamedTuple):
    """The buckets of an octave: their bounds from 1 to 2, and their middles."""

    bounds: tuple[float, ...]
    middles: tuple[float, ...]

    @property
    def per_octave(self) -> int:
        """How many buckets there are."""
        return len(self.middles)

    @property
    def zero(self) -> int:
        """The key of zero: as many are above it as below."""
        return _EXPONENTS * self.per_octave + 1

    @property
    def most(self) -> int:
        """How many buckets of a state are in use, besides those of zero, the infinities and NaN."""
        return _OCTAVES * self.per_octave

    def counted(self, key: int) -> bool:
        """Return whether a bucket is not one of zero, the infinities and NaN."""
        return 0 < key < 2 * self.zero and key != self.zero

    def key_of(self, number: float) -> int:
        """Return the key of the bucket of a number."""
        if number != number:
            return 2 * self.zero + 1
        if math.isinf(number):
            return 2 * self.zero if number > 0 else 0
        if number == 0:
            return self.zero
        fraction, exponent = math.frexp(abs(number))
        place = bisect_right(self.bounds, 2 * fraction) - 1
        distance = (exponent - 1 + 1074) * self.per_octave + place + 1
        return self.zero + distance if number > 0 else self.zero - distance

    def value_of(self, key: int) -> float:
        """Return the middle of a bucket."""
        if not self.counted(key):
            return {0: -math.inf, self.zero: 0.0, 2 * self.zero: math.inf}.get(key, math.nan)
        octave, place = divmod(abs(key - self.zero) - 1, self.per_octave)
        size = math.ldexp(self.middles[place], octave - 1074)
        return size if key > self.zero else -size


@functools.cache
def scale_of(relative_error: float) -> Scale:
    """Return the buckets for an error: the fewest of which each is narrow enough."""
    widest = (1 + relative_error) / (1 - relative_error)
    count = math.ceil(math.log(2) / math.log(widest))
    exact = Context(prec=40)
    powers = [exact.power(Decimal(2), exact.divide(Decimal(place), Decimal(count))) for place in range(count)]
    bounds = (*(math.ldexp(int(exact.multiply(power, Decimal(2**52))), -52) for power in powers), 2.0)
    middles = tuple(2 * low * high / (low + high) for low, high in itertools.pairwise(bounds))
    return Scale(bounds, middles)


# --- states ---------------------------------------------------------------------------------------


def _word(number: float) -> int:
    """Return the int64 that sorts as the number does: -0.0 before 0.0, and NaN last."""
    bits: int
    (bits,) = packing.unpack("<q", packing.pack("<d", number))
    return _ALL_BUT_SIGN if number != number else bits ^ _ALL_BUT_SIGN if bits < 0 else bits


def _number(word: int) -> float:
    number: float
    (number,) = packing.unpack("<d", packing.pack("<q", word ^ _ALL_BUT_SIGN if word < 0 else word))
    return number


def _lift(scale: Scale, value: Any) -> State:
    number = real(value)
    word = _word(number)
    return State(word, word, ((scale.key_of(number), 1),))


def _joined(scale: Scale, a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return a or b
    counts = dict(a.counts)
    for key, count in b.counts:
        counts[key] = counts.get(key, 0) + count
    return State(min(a.least, b.least), max(a.greatest, b.greatest), _kept(scale, counts))


def _kept(scale: Scale, counts: dict[int, int]) -> Counts:
    """Return the buckets in order; of too many, those nearest to zero count as zero, negative ones first."""
    used = [key for key in counts if scale.counted(key)]
    if len(used) > scale.most:
        used.sort(key=lambda key: (abs(key - scale.zero), key))
        for key in used[: len(used) - scale.most]:
            counts[scale.zero] = counts.get(scale.zero, 0) + counts.pop(key)
    return tuple(sorted(counts.items()))


def _value_at(scale: Scale, state: State, total: int, rank: int) -> float:
    """Return the value at a rank from 0: the first and the last one exactly."""
    if rank <= 0:
        return _number(state.least)
    if rank >= total - 1:
        return _number(state.greatest)
    for key, count in state.counts:
        if rank < count:
            return _number(min(max(_word(scale.value_of(key)), state.least), state.greatest))
        rank -= count
    return math.nan  # not reached: the counts add up to the total


def interpolated(low: float, high: float, share: float) -> float:
    """Return what lies between two values at a share of the way, rounded as in NumPy."""
    if share == 0 or low == high:
        return low
    if math.isinf(high - low) and math.isfinite(low) and math.isfinite(high):  # only the difference is too large
        return low * (1 - share) + high * share
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def _found(scale: Scale, q: float, state: State) -> float:
    total = sum(count for _, count in state.counts)
    place = q * (total - 1)
    rank, share = int(place), place - int(place)
    low = _value_at(scale, state, total, rank)
    return interpolated(low, _value_at(scale, state, total, rank + 1), share) if share else low


def _quantile(scale: Scale, q: float, state: State | None) -> float | None:
    return None if state is None else _found(scale, q, state)


def _quantiles(scale: Scale, q: tuple[float, ...], state: State | None) -> list[float] | None:
    return None if state is None else [_found(scale, share, state) for share in q]


# --- the monoid -----------------------------------------------------------------------------------


def _checked_error(value: Any) -> float:
    wanted = "relative_error must be a number from 0.001 to 0.5"
    number = as_number(value)
    if number is None or isinstance(value, bool):
        raise KindError(f"{wanted}, got {shown(value)}.", argument="relative_error")
    if not 0.001 <= number <= 0.5:
        raise ArgumentError(f"{wanted}, got {shown(value)}.", argument="relative_error")
    return float(number)


def _checked_shares(q: Any) -> float | tuple[float, ...]:
    if not isinstance(q, Iterable) or isinstance(q, str | bytes):
        return checked_share("q", q)
    shares = tuple(checked_share("q", share) for share in q)
    if not 1 <= len(shares) <= 100:
        raise ArgumentError(f"q must be a number or a list of 1 to 100 numbers, got {shown(q)}.", argument="q")
    return shares


def sketched(
    name: str, column: str | None, q: float | tuple[float, ...], error: float, arguments: tuple[tuple[str, Any], ...]
) -> Monoid:
    """Return a monoid of this name that computes quantiles with an error."""
    scale = scale_of(error)
    shares = q if isinstance(q, tuple) else (q,)
    order = sorted(range(len(shares)), key=shares.__getitem__)
    listed = min(_LISTED, scale.most)
    header = (scale.per_octave, scale.most, listed, isinstance(q, tuple), len(shares))
    return Monoid(
        identity=None,
        combine=partial(_joined, scale),
        lift=partial(_lift, scale),
        lower=partial(_quantiles, scale, q) if isinstance(q, tuple) else partial(_quantile, scale, q),
        commutative=True,
        name=name,
        column=column,
        arguments=arguments,
        parts=(Part("approx_quantile", (Input(column, "float"),), (*header, *shares, *order, *scale.bounds)),),
    )


def approx_quantile(
    column: str | None = None, q: float | Iterable[float] = 0.5, *, relative_error: float = 0.01
) -> Monoid:
    """Approximate quantiles of numbers at `q`, a number or a list, within a relative error; None if empty.

    The quantiles are those of `quantile`, with linear interpolation as in NumPy, and of a list the result is a list.
    A result is off by at most `relative_error` times the exact one; where that lies between a negative and a positive
    value, times the larger of these. The smallest and the largest value are exact. NaN is the largest value, and the
    infinities are exact.

    Values are counted in logarithmic buckets, 35 for each factor of 2 with a relative error of 1 %, so the order of
    the values does not matter and every order gives the same result. At most 64 times as many buckets are in use, 2,240
    at 1 %, enough for all positive int64. If values take more, which needs a ratio of 2**64 between them, or 2**32 for
    both signs, those nearest to zero count as zero. A state grows with the buckets in use, up to 18 kB at 1 % and
    180 kB at 0.1 %.

    >>> from sash import Window, monoids
    >>> Window(monoids.approx_quantile(q=[0, 0.5, 1])).slide([1, 2, 3], [10, 30, 20], size=9, at="end")
    [10.0, 20.091323527053813, 30.0]
    """
    shares, error = _checked_shares(q), _checked_error(relative_error)
    return sketched("approx_quantile", column, shares, error, (("q", shares), ("relative_error", error)))


def approx_median(column: str | None, relative_error: float) -> Monoid:
    """Return the median within a relative error."""
    error = _checked_error(relative_error)
    return sketched("median", column, 0.5, error, (("relative_error", error),))
