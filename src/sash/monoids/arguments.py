"""Validation for the built-ins: of the values that they aggregate, and of their own arguments."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.times import as_number, is_integer

NUMBERS = ("int64", "float64")

# --- values ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a NumPy number as a Python number, because NumPy's wrap silently, and other values unchanged."""
    number = as_number(value)
    return value if number is None else number


def present(value: Any) -> Any:
    """Return the value, or raise if it is None."""
    if value is None:
        raise KindError("value must not be None.", argument="value")
    return plain(value)


def summand(value: Any) -> Any:
    """Return a value that can be added and subtracted, or raise."""
    if value is None or isinstance(value, (str, bytes)):
        raise KindError(f"value must be a number, got {shown(value)}.", argument="value")
    return plain(value)


def real(value: Any) -> float:
    """Return a number as a float."""
    try:
        if value is None or isinstance(value, (str, bytes, np.ndarray, np.timedelta64, np.datetime64)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise ArgumentError(f"value must fit float64, got {shown(value)}.", argument="value") from None
    except (TypeError, ValueError):
        raise KindError(f"value must be a number, got {shown(value)}.", argument="value") from None


def integer(value: Any) -> int:
    """Return an int or a bool as an int."""
    if isinstance(value, (bool, np.bool_)) or is_integer(value):
        return int(value)
    raise KindError(f"value must be an int, got {shown(value)}.", argument="value")


def truth(value: Any) -> bool:
    """Return the truth value of a value. NaN is true, as everywhere in Python."""
    if value is None:
        raise KindError("value must not be None.", argument="value")
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise KindError(f"value must be a bool or a number, got {shown(value)}.", argument="value") from None


def pair(value: Any, wanted: str) -> tuple[Any, Any]:
    """Return the two values of a monoid that reads two columns; `wanted` names them."""
    if not isinstance(value, (tuple, list)) or len(value) != 2 or value[0] is None or value[1] is None:
        raise KindError(f"value must be a pair ({wanted}), got {shown(value)}.", argument="value")
    return plain(value[0]), plain(value[1])


def real_pair(wanted: str, value: Any) -> tuple[float, float]:
    """Return the two values as floats."""
    a, b = pair(value, wanted)
    return real(a), real(b)


# --- states ---------------------------------------------------------------------------------------


def joined(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Combine two states of which None is the identity."""
    if a is None:
        return b
    return a if b is None else operation(a, b)


def add_all(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add two states of the same length, member by member."""
    return tuple(map(operator.add, a, b))


# --- arguments ------------------------------------------------------------------------------------


def checked_dtype(dtype: Any) -> str | None:
    """Return the name of a dtype that a window supports."""
    if dtype is None:
        return None
    try:
        name = "object" if dtype is object else np.dtype(dtype).name
    except Exception:  # NumPy parses strings as a small language, and fails in many ways
        name = None
    if name not in ("int64", "float64", "object"):
        raise ArgumentError(
            f'dtype must be "int64", "float64", "object" or None, got {shown(dtype)}.', argument="dtype"
        )
    return name


def checked_int(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an int within its range, or raise."""
    wanted = f"an int of at least {least}" if most is None else f"an int from {least} to {most}"
    if not is_integer(value):
        raise KindError(f"{argument} must be {wanted}, got {shown(value)}.", argument=argument)
    if value < least or (most is not None and value > most):
        raise ArgumentError(f"{argument} must be {wanted}, got {shown(value)}.", argument=argument)
    return int(value)


def checked_share(argument: str, value: Any) -> float:
    """Return a number from 0 to 1 as a float, or raise."""
    number = as_number(value)
    if number is None or isinstance(value, bool):
        raise KindError(f"{argument} must be a number from 0 to 1, got {shown(value)}.", argument=argument)
    if not 0 <= number <= 1:
        raise ArgumentError(f"{argument} must be a number from 0 to 1, got {shown(value)}.", argument=argument)
    return float(number)


def named(**columns: str | None) -> tuple[tuple[str, Any], ...]:
    """Return the columns of a monoid that reads several as its arguments: all of them are named, or none."""
    for argument, column in columns.items():
        if column is not None and not isinstance(column, str):
            raise KindError(f"{argument} must be a column name or None, got {shown(column)}.", argument=argument)
    names = {argument: column for argument, column in columns.items() if column is not None}
    if names and len(names) < len(columns):
        missing = next(argument for argument in columns if argument not in names)
        argument, column = next(iter(names.items()))
        raise ArgumentError(
            f"{missing} must be a column name if {argument}={shown(column)} is one, got None.", argument=missing
        )
    return tuple(names.items())
