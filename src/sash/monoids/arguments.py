"""How the built-ins read: values on their way into a state, and the arguments of the built-ins themselves.

Everything here either gives what a monoid can work with or refuses it in one sentence.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown
from sash.times import as_number, is_integer

NUMBERS = ("int64", "float64")

# --- values ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Give a NumPy number as Python's own: NumPy's wrap around silently."""
    number = as_number(value)
    return value if number is None else number


def present(value: Any) -> Any:
    """Give any value but None."""
    if value is None:
        raise KindError("value: None is no value; leave it out.")
    return plain(value)


def summand(value: Any) -> Any:
    """Give a value that can be added and subtracted."""
    if value is None or isinstance(value, (str, bytes)):
        raise KindError(f"value: {shown(value)} cannot be summed; give a number.")
    return plain(value)


def real(value: Any) -> float:
    """Give a number as a float."""
    try:
        if value is None or isinstance(value, (str, bytes, np.ndarray, np.timedelta64, np.datetime64)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise ArgumentError(f"value: {shown(value)} does not fit float64; give a smaller number.") from None
    except (TypeError, ValueError):
        raise KindError(f"value: {shown(value)} is not a number; give a float or an int.") from None


def integer(value: Any) -> int:
    """Give an int, or a bool as one."""
    if isinstance(value, (bool, np.bool_)) or is_integer(value):
        return int(value)
    raise KindError(f"value: {shown(value)} is not an int; give an int.")


def truth(value: Any) -> bool:
    """Tell whether a value counts as true; NaN does, as everywhere in Python."""
    if value is None:
        raise KindError("value: None is no value; leave it out.")
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise KindError(f"value: {shown(value)} is neither true nor false; give a bool or a number.") from None


def pair(value: Any, wanted: str) -> tuple[Any, Any]:
    """Give the two values of a monoid that reads two columns; `wanted` says which."""
    if not isinstance(value, (tuple, list)) or len(value) != 2 or value[0] is None or value[1] is None:
        raise KindError(f"value: {shown(value)} is no pair; give a tuple ({wanted}).")
    return plain(value[0]), plain(value[1])


def real_pair(wanted: str, value: Any) -> tuple[float, float]:
    """Give the two values as floats."""
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
    """Give the name of a dtype that a window can be held to."""
    if dtype is None:
        return None
    try:
        name = "object" if dtype is object else np.dtype(dtype).name
    except Exception:  # NumPy reads texts as a little language, and fails in many ways
        name = None
    if name not in ("int64", "float64", "object"):
        raise ArgumentError(f'dtype: {shown(dtype)} is not known; give "int64", "float64", "object" or None.')
    return name


def checked_int(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """Give an int within its range."""
    wanted = f"give an int of at least {least}" if most is None else f"give an int from {least} to {most}"
    if not is_integer(value):
        raise KindError(f"{argument}: {shown(value)} is not an int; {wanted}.")
    if value < least or (most is not None and value > most):
        raise ArgumentError(f"{argument}: {shown(value)} is out of range; {wanted}.")
    return int(value)


def named(**columns: str | None) -> tuple[tuple[str, Any], ...]:
    """Give the columns of a monoid that reads several as its arguments: all of them are named, or none."""
    for argument, column in columns.items():
        if column is not None and not isinstance(column, str):
            raise KindError(f"{argument}: {shown(column)} is no name of a column; give a str or None.")
    given = {argument: column for argument, column in columns.items() if column is not None}
    if given and len(given) < len(columns):
        missing = next(argument for argument in columns if argument not in given)
        argument, column = next(iter(given.items()))
        raise ArgumentError(f"{missing}: None came with {argument}={shown(column)}; name both columns or neither.")
    return tuple(given.items())
