"""Equality of states and results, exact or with a tolerance, and objects frozen for a later comparison.

Numbers are equal by value, whatever their type; NaN equals NaN, and 0.0 differs from -0.0. Tuples, lists, dicts, sets
and arrays are equal element by element. With a tolerance, finite numbers are equal if they differ by at most that, and
0.0 equals -0.0.
"""

import contextlib
import copy
import math
import numbers
import pickle
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from sash.errors import shown

_UNKNOWN = object()
_BY_IDENTITY: Any = object.__eq__


class Frozen:
    """A copy of an object for a later comparison; it never differs if the object can be neither pickled nor copied."""

    def __init__(self, value: Any) -> None:
        self.text = shown(value)
        self.data = _dumped(value)
        self.twin: Any = _UNKNOWN
        if self.data is None:
            with contextlib.suppress(Exception):
                self.twin = copy.deepcopy(value)

    def differs(self, now: Any) -> bool:
        """Return whether the object has changed since it was frozen."""
        if self.data is None:
            return self.twin is not _UNKNOWN and not same(self.twin, now)
        return _dumped(now) != self.data and not same(pickle.loads(self.data), now)


def _dumped(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, np.bool_)) and not isinstance(value, np.timedelta64)


def numbers_in(value: Any) -> Iterator[Any]:
    """Yield every number inside a state or result."""
    if isinstance(value, np.ndarray):
        yield from numbers_in(value.tolist())
    elif isinstance(value, Mapping):
        yield from numbers_in(list(value.values()))
    elif isinstance(value, (list, tuple, Set)):
        for each in value:
            yield from numbers_in(each)
    elif _is_number(value):
        yield value


def same(left: Any, right: Any, slack: float | None = None) -> bool:
    """Return whether two states or results are equal, or differ by at most `slack` where that is set."""
    if left is right:
        return True
    if _is_number(left) and _is_number(right):
        return _same_number(left, right, slack)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.shape == right.shape and same(left.tolist(), right.tolist(), slack)
    for kind in (list, tuple):
        if isinstance(left, kind) and isinstance(right, kind):
            return len(left) == len(right) and all(same(a, b, slack) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key], slack) for key in left)
    if isinstance(left, Set) and isinstance(right, Set):
        return len(left) == len(right) and all(any(same(a, b, slack) for b in right) for a in left)
    return _same_object(left, right, slack)


def _same_number(left: Any, right: Any, slack: float | None) -> bool:
    if left != left or right != right:
        return bool(left != left and right != right)
    if left == right:
        both = isinstance(left, (float, np.floating)) and isinstance(right, (float, np.floating))
        return slack is not None or not both or math.copysign(1.0, left) == math.copysign(1.0, right)
    return slack is not None and is_finite(left) and is_finite(right) and bool(abs(left - right) <= slack)


def is_finite(number: Any) -> bool:
    """Return whether a tolerance applies to a number; ints beyond float64 are compared exactly."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _same_object(left: Any, right: Any, slack: float | None) -> bool:
    kind: Any = type(left)
    if kind is type(right) and kind.__eq__ is _BY_IDENTITY:
        inside = left.__getstate__()
        return inside is not None and same(inside, right.__getstate__(), slack)
    return bool(np.all(left == right))
