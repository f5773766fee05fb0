"""The results of aggregates that Python computes, as Arrow columns: their types, and values that do not fit them."""

import decimal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sash.errors import ArgumentError, KindError, ResultOverflowError, shown
from sash.inputs import arrow
from sash.keyed.python_aggregates import Failure
from sash.monoid import Monoid

if TYPE_CHECKING:
    import pyarrow as pa

_ORDERED = ("min", "max", "first", "last", "argmin", "argmax")  # return a value of their column, of any type
_COUNTED = ("maxcount", "mincount")  # and how often it occurs
_LISTED = ("first_k", "last_k", "top_k", "bottom_k")
OF_ANY_TYPE = (*_ORDERED, *_COUNTED, *_LISTED)
_SKETCHES = ("kll", "frequent_items", "theta", "cpc")
_SUMS = ("sum", "range", "delta")  # exact over decimals, and have their scale
_MEAN_DIGITS = 4  # after those of the column, as in Spark
_DIGITS = 100  # of partial results: more than a decimal can have, so that nothing is rounded on the way


@contextmanager
def exact_decimals() -> Iterator[None]:
    """Compute with decimals without rounding to 28 digits, which is Python's default."""
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        context.rounding = decimal.ROUND_HALF_UP
        yield


# --- types ----------------------------------------------------------------------------------------


def type_of(name: str, monoid: Monoid, schema: "pa.Schema") -> Any:
    """Return the Arrow type of a Python monoid's results, or None if only the results can tell."""
    pa = arrow.pyarrow()
    if monoid.returns is not None:
        try:
            return monoid.returns if isinstance(monoid.returns, pa.DataType) else pa.type_for_alias(monoid.returns)
        except ValueError:
            raise ArgumentError(
                f"returns must be an Arrow type such as 'float64', but that of {name} is {shown(monoid.returns)}.",
                argument="aggs",
                column=name,
            ) from None
    if not monoid.built_in:
        return None
    of = {"distinct": pa.int64(), "median": pa.float64(), "string_agg": pa.string(), "quantile": pa.float64()}
    if monoid.name in of:
        return of[monoid.name]
    if monoid.name in _SKETCHES:
        return _sketch_type(monoid)
    return _type_over(monoid, schema.field(monoid.columns[-1]).type)  # of a pair (by, value) the value


def _type_over(monoid: Monoid, read: "pa.DataType") -> Any:
    """Return the type of an aggregate that depends on the type of its column."""
    pa = arrow.pyarrow()
    if monoid.name in _ORDERED:
        return read
    if monoid.name in ("collect_list", "collect_set", *_LISTED):
        return pa.list_(read)
    if monoid.name in _COUNTED:
        return pa.struct(list(zip(monoid.parts[0].fields, (read, pa.int64()), strict=True)))
    number = pa.types.is_decimal(read) or pa.types.is_integer(read) or pa.types.is_floating(read)
    if not number or monoid.name not in (*_SUMS, "mean"):
        return None
    if not pa.types.is_decimal(read):  # of dtype=object
        whole = pa.types.is_integer(read) and monoid.name != "mean"
        return pa.decimal128(38, 0) if whole else pa.float64()
    wide = pa.decimal256 if read.precision > 38 else pa.decimal128
    most = 76 if read.precision > 38 else 38
    before = read.precision - read.scale  # the digits that a mean needs in front of its point
    return wide(most, read.scale if monoid.name in _SUMS else min(read.scale + _MEAN_DIGITS, most - before))


def _sketch_type(monoid: Monoid) -> Any:
    """Return the Arrow type of a sketch's results, or None for the sketches themselves."""
    pa = arrow.pyarrow()
    arguments = dict(monoid.arguments)
    if arguments.get("as_bytes"):
        return pa.binary()
    if monoid.name == "frequent_items":
        item = pa.string() if arguments["dtype"] == "str" else pa.int64()
        return pa.list_(pa.struct([("item", item), ("estimate", pa.int64())]))
    if monoid.name == "kll" and not isinstance(arguments["q"], float):
        return None if arguments["q"] is None else pa.list_(pa.float64())
    return pa.float64()


# --- columns --------------------------------------------------------------------------------------


def column_of(values: Sequence[Any], kind: "pa.DataType | None", name: str) -> tuple["pa.Array", list[Exception]]:
    """Return results as a column, with null for those that failed or do not fit its type, and why."""
    errors = [value.error for value in values if isinstance(value, Failure)]
    with exact_decimals():
        plain = [None if isinstance(value, Failure) else _plain(value, kind) for value in values]
    try:
        if not any(_is_cut(value, kind) for value in plain):
            return arrow.pyarrow().array(plain, type=kind), errors
    except (ArithmeticError, TypeError, ValueError, NotImplementedError):  # Arrow's errors are these too
        pass
    kind = kind or _first_type(plain, name)
    for i, value in enumerate(plain):
        error = None if value is None else _misfit(value, kind, name)
        if error is not None:
            errors.append(error)
            plain[i] = None
    return arrow.pyarrow().array(plain, type=kind), errors


def _first_type(values: Sequence[Any], name: str) -> Any:
    """Return the type of the first value that has one, or raise if there is none."""
    pa = arrow.pyarrow()
    for value in values:
        try:
            kind = pa.int64() if isinstance(value, int) else pa.array([value]).type
        except (ArithmeticError, TypeError, ValueError, NotImplementedError):
            continue
        if not pa.types.is_null(kind):
            return kind
    first = next(value for value in values if value is not None)
    raise KindError(f"{name} must have results of an Arrow type, got {shown(first)}.", column=name)


def _misfit(value: Any, kind: "pa.DataType", name: str) -> Exception | None:
    """Return why a value is none of a type, or None if it is."""
    pa = arrow.pyarrow()
    try:
        if not _is_cut(value, kind):
            pa.array([value], type=kind)
            return None
        large = False
    except (ArithmeticError, TypeError, ValueError, NotImplementedError):
        large = pa.types.is_decimal(kind) or (pa.types.is_integer(kind) and isinstance(value, int))
    of = ResultOverflowError if large and not isinstance(value, str) else KindError
    return of(f"{name} must fit {kind}, got {shown(value)}; set returns= of a monoid of your own.", column=name)


def _is_cut(value: Any, kind: "pa.DataType | None") -> bool:
    """Return whether a float has a fraction that Arrow would drop without an error."""
    whole = isinstance(value, float) and kind is not None and arrow.pyarrow().types.is_integer(kind)
    return whole and not value.is_integer()


def _plain(value: Any, kind: "pa.DataType | None") -> Any:
    """Return a result in a form that Arrow accepts: a set as a sorted list, a decimal with the digits of its type."""
    if isinstance(value, (set, frozenset)):
        return _sorted(value)
    if isinstance(value, decimal.Decimal) and kind is not None and arrow.pyarrow().types.is_decimal(kind):
        return value.quantize(decimal.Decimal(1).scaleb(-kind.scale)) if value.is_finite() else value
    return [_plain(item, None) for item in value] if isinstance(value, list) else value


def _sorted(values: Any) -> Sequence[Any]:
    try:
        return sorted(values)
    except TypeError:
        return list(values)
