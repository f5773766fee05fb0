"""Approximate sets: the Bloom filter tests membership, HyperLogLog counts distinct values."""

import math
import operator
from functools import partial
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import checked_int
from sash.monoids.hashes import WORD, stable_hash
from sash.times import as_number

# --- Bloom filter ---------------------------------------------------------------------------------

_BITS = 2**14
_HASHES = 4
_ERROR = 0.01
_MOST_BITS = 2**32


def _positions(size: int, hashes: int, value: Any) -> list[int]:
    start = stable_hash(value)
    step = (start >> 32) | 1
    return [((start + i * step) & WORD) % size for i in range(hashes)]


class Bloom:
    """A set whose membership test may return a false positive, but never a false negative.

    >>> from sash import Window, monoids
    >>> w = Window(monoids.bloom())
    >>> w.insert_many([1, 2], ["anna", "otto"])
    >>> "anna" in w.query(), "emil" in w.query()
    (True, False)
    """

    __slots__ = ("bits", "hashes")

    def __init__(self, bits: bytes = bytes(_BITS // 8), hashes: int = _HASHES) -> None:
        self.bits = bits
        self.hashes = hashes

    @classmethod
    def from_bytes(cls, data: bytes, monoid: Monoid | None = None) -> "Bloom":
        """Return the filter whose bytes a table has in its column of a bloom aggregate.

        `monoid` is that aggregate, if it has a `capacity`.

        >>> from sash import monoids, rolling
        >>> seen = monoids.bloom("user", capacity=1000)
        >>> table = rolling({"ts": [1, 2], "user": ["anna", "otto"]}, time="ts", windows=[5], aggs={"seen": seen})
        >>> "anna" in monoids.Bloom.from_bytes(table["seen_5"][1].as_py(), seen)
        True
        """
        monoid = bloom() if monoid is None else monoid
        empty = monoid.empty() if isinstance(monoid, Monoid) else None  # type: ignore[redundant-expr]
        if not isinstance(empty, Bloom):
            raise KindError(f"monoid must be a bloom, got {shown(monoid)}.", argument="monoid")
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise KindError(f"data must be bytes, got {shown(data)}.", argument="data")
        if len(data) != len(empty.bits):
            raise ArgumentError(
                f"data must have the {len(empty.bits)} bytes of a filter of {monoid!r}, got {len(data)}; "
                f"pass the aggregate as monoid=.",
                argument="data",
            )
        return cls(bytes(data), empty.hashes)

    @property
    def size(self) -> int:
        """The number of bits."""
        return 8 * len(self.bits)

    def __contains__(self, value: Any) -> bool:
        """Return whether the value may have been inserted; False is certain."""
        return all(self.bits[p // 8] >> (p % 8) & 1 for p in _positions(self.size, self.hashes, value))

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same bits set and the same number of hashes."""
        if not isinstance(other, Bloom):
            return NotImplemented
        return self.bits == other.bits and self.hashes == other.hashes

    def __hash__(self) -> int:
        """Return the hash of the bits."""
        return hash(self.bits)

    def __repr__(self) -> str:
        """Return how full the filter is."""
        return f"Bloom({int.from_bytes(self.bits, 'little').bit_count()} of {self.size} bits set)"


def _bits_of(size: int, hashes: int, value: Any) -> int:
    bits = 0
    for position in _positions(size, hashes, value):
        bits |= 1 << position
    return bits


def _filter(size: int, hashes: int, bits: int) -> Bloom:
    return Bloom(bits.to_bytes(size // 8, "little"), hashes)


def _checked_error(error: Any) -> float:
    if isinstance(error, (bool, np.bool_)) or as_number(error) is None:
        raise KindError(f"error must be a number between 0 and 1, got {shown(error)}.", argument="error")
    if not 0.0 < error < 1.0:
        raise ArgumentError(f"error must be a number between 0 and 1, got {shown(error)}.", argument="error")
    return float(error)


def _dimensions(capacity: int, error: float) -> tuple[int, int]:
    """Return the number of bits and hashes for a false positive rate of `error` at `capacity` values."""
    bits = math.ceil(-capacity * math.log(error) / math.log(2) ** 2)
    bits = -(-bits // 64) * 64
    if bits > _MOST_BITS:
        raise ArgumentError(
            f"capacity must need at most {_MOST_BITS} bits, got {capacity}, which with error={error} needs {bits}.",
            argument="capacity",
        )
    return bits, max(1, round(bits / capacity * math.log(2)))


def bloom(column: str | None = None, *, capacity: int | None = None, error: float | None = None) -> Monoid:
    """Bloom filter, which supports `value in result`; an empty filter if empty.

    In a table it is a column of bytes, which `Bloom.from_bytes` reads.

    With `capacity` it is sized for a false positive rate of `error` (0.01 by default) at that many distinct values.
    Without, it has 2**14 bits and 4 hashes: a false positive rate below 1 in 200 up to about 1,200 distinct values.

    >>> bloom(capacity=1000, error=0.001).empty()
    Bloom(0 of 14400 bits set)
    """
    if capacity is None and error is not None:
        raise ArgumentError(f"error must be None if capacity is None, got {shown(error)}.", argument="error")
    size, hashes, arguments = _BITS, _HASHES, ()  # type: tuple[int, int, tuple[tuple[str, Any], ...]]
    if capacity is not None:
        capacity = checked_int("capacity", capacity, 1)
        error = _checked_error(_ERROR if error is None else error)
        size, hashes = _dimensions(capacity, error)
        arguments = (("capacity", capacity), ("error", error))
    return Monoid(
        identity=0,
        combine=operator.or_,
        lift=partial(_bits_of, size, hashes),
        lower=partial(_filter, size, hashes),
        commutative=True,
        name="bloom",
        column=column,
        arguments=arguments,
        native=(("any", "bloom"),) if capacity is None else (),
        parts=(Part("bloom", (Input(column, "hash"),), (size, hashes), finish=partial(Bloom, hashes=hashes)),),
    )


# --- HyperLogLog ----------------------------------------------------------------------------------


def _register_of(lg_k: int, value: Any) -> bytes:
    """Return the registers of one value: the top bits of its hash select one, the zeros after them are its rank."""
    hashed = stable_hash(value)
    index, rest = hashed >> (64 - lg_k), (hashed << lg_k) & WORD
    registers = bytearray(1 << lg_k)
    registers[index] = min(64 - rest.bit_length(), 64 - lg_k) + 1
    return bytes(registers)


def _highest(a: bytes, b: bytes) -> bytes:
    return np.maximum(np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)).tobytes()


def _sigma(x: float) -> float:
    """Return the correction for registers that are zero, where x is their share."""
    if x == 1.0:
        return math.inf
    power, total, before = 1.0, x, math.nan
    while total != before:
        x *= x
        before = total
        total += x * power
        power += power
    return total


def _tau(x: float) -> float:
    """Return the correction for registers that are full, where 1 - x is their share."""
    if x in (0.0, 1.0):
        return 0.0
    power, total, before = 1.0, 1.0 - x, math.nan
    while total != before:
        x = math.sqrt(x)
        before = total
        power *= 0.5
        total -= (1.0 - x) * (1.0 - x) * power
    return total / 3.0


def _estimate(lg_k: int, registers: bytes) -> int:
    """Return Ertl's improved estimate ("New cardinality estimation algorithms for HyperLogLog sketches", 2017)."""
    m, q = 1 << lg_k, 64 - lg_k
    counts = np.bincount(np.frombuffer(registers, np.uint8), minlength=q + 2).tolist()
    z = m * _tau(1.0 - counts[q + 1] / m)
    for rank in range(q, 0, -1):
        z = 0.5 * (z + counts[rank])
    z += m * _sigma(counts[0] / m)
    return round(m * m / (2.0 * math.log(2.0) * z))


def hyperloglog(column: str | None = None, *, lg_k: int = 11) -> Monoid:
    """Estimated number of distinct values, by HyperLogLog; 0 if empty.

    The standard error is 1.04 / sqrt(2**lg_k), 2.3 % by default, and the state is 2**lg_k bytes.

    >>> from sash import Window, monoids
    >>> Window(monoids.hyperloglog()).slide([1, 2, 3], ["a", "b", "a"], size=9, at="end")
    2
    """
    lg_k = checked_int("lg_k", lg_k, 4, 18)
    return Monoid(
        identity=bytes(1 << lg_k),
        combine=_highest,
        lift=partial(_register_of, lg_k),
        lower=partial(_estimate, lg_k),
        commutative=True,
        name="hyperloglog",
        column=column,
        arguments=(("lg_k", lg_k),),
        parts=(Part("hyperloglog", (Input(column, "hash"),), (lg_k,)),),
    )
