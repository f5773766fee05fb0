"""The order in which sessions of a batch read their rows: one number for each, by which Spark sorts fastest.

Spark sorts a single column of integers by radix, several columns by comparisons, which takes three times as long. So
rows are sorted by groups of keys, and within a group by time to about a sixteenth of a second; the engine, which sorts
anyway, does the rest.
"""

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType, TimestampType

ORDER = "__sash_order"
_GROUPS = 1 << 15
_TIME_BITS, _LOST_BITS = 48, 16
_MIDDLE = 1 << (_TIME_BITS - 1)  # of the times
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def order_of(keys: list[str], time: Column, kind: DataType) -> Column | None:
    """Return the number of a row, or None if its time is of a type that has none."""
    if isinstance(kind, TimestampType):
        ticks = F.unix_micros(time)
    elif isinstance(kind, _INTEGERS):
        ticks = time.cast("long")
    else:
        return None
    group = F.pmod(F.xxhash64(*keys), F.lit(_GROUPS)) if keys else F.lit(0)
    return F.shiftleft(group.cast("long"), _TIME_BITS) + F.shiftright(ticks, _LOST_BITS) + F.lit(_MIDDLE)


def groups_of(orders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of each row; they ascend."""
    return orders >> _TIME_BITS


def least_time(order: int) -> int:
    """Return a time before which no row of its group comes after this one.

    >>> least_time((3 << 48) + (1 << 47) + (1000 >> 16)), least_time((3 << 48) + (1 << 47) + (-1 >> 16))
    (0, -65536)
    """
    return ((order & ((1 << _TIME_BITS) - 1)) - _MIDDLE) << _LOST_BITS
