"""Which bucket a row belongs to, and labels of buckets that Spark spreads evenly.

The hash of a label decides which partition a bucket goes to.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash import _core
from sash.inputs import arrow

_SEED, _MASK = 42, 0xFFFFFFFF


def spark_hash(number: int) -> int:
    """Return Spark's hash of an int, Murmur3 of its four bytes, as a signed number.

    >>> spark_hash(0), spark_hash(1), spark_hash(-7)
    (933211791, -559580957, -1618159745)
    """
    k = _rotate(number * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    h = (_rotate(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK


@cache
def labels(buckets: int) -> tuple[int, ...]:
    """Return a label for each bucket; any number of partitions that divides `buckets` gets equally many.

    >>> sorted(spark_hash(label) % 4 for label in labels(8))
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < buckets:
        found.setdefault(spark_hash(number) % buckets, number)
        number += 1
    return tuple(found[bucket] for bucket in range(buckets))


def buckets_of(table: pa.Table, keys: Sequence[str], count: int) -> NDArray[np.int32]:
    """Return the number of each row's bucket, which follows from its keys; without keys there is one bucket."""
    buckets = np.zeros(table.num_rows, dtype=np.int32)
    if keys:
        schema, array = arrow.keys_of(table, keys)
        _core.buckets(schema, array, count, buckets)
    return buckets
