"""Which types of columns the built-in aggregates can read, so that others are refused before anything runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sash.errors import KindError, shown
from sash.inputs import arrow
from sash.monoid import Monoid


class Readable(NamedTuple):
    """The types that an aggregate can read, in words and as a test."""

    wanted: str
    reads: Callable[[Any], bool]


def _is_number(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_boolean(kind) or is_a.is_decimal(kind))


def _is_integer(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_integer(kind) or is_a.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or str(kind) == "string_view")


def _is_bytes(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    fixed = is_a.is_fixed_size_binary(kind)
    return bool(is_a.is_binary(kind) or is_a.is_large_binary(kind) or fixed or str(kind) == "binary_view")


def _is_moment(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return bool(is_a.is_timestamp(kind) or is_a.is_date(kind))


def _is_item(kind: Any) -> bool:
    is_a = arrow.pyarrow().types
    return _is_text(kind) or (_is_number(kind) and not is_a.is_decimal(kind))


NUMBERS = Readable("numbers", _is_number)
TEXT = Readable("text", _is_text)
INTEGERS = Readable("integers", _is_integer)
ITEMS = Readable("numbers or text", _is_item)
HASHED = Readable(
    "numbers, text, bytes, decimals, dates or timestamps",
    lambda kind: _is_number(kind) or _is_text(kind) or _is_bytes(kind) or _is_moment(kind),
)
DISTINCT = Readable("values that are not nested", lambda kind: not arrow.pyarrow().types.is_nested(kind))

_OF_PYTHON = {
    "median": NUMBERS,
    "quantile": NUMBERS,
    "kll": NUMBERS,
    "string_agg": TEXT,
    "theta": ITEMS,
    "cpc": ITEMS,
    "distinct": DISTINCT,
    "collect_set": DISTINCT,
}


def require_input_types(monoid: Monoid, table: Any) -> None:
    """Raise if a built-in that Python computes cannot read its column."""
    if not monoid.built_in:
        return
    readable = _OF_PYTHON.get(str(monoid.name))
    if monoid.name == "frequent_items":
        readable = TEXT if dict(monoid.arguments)["dtype"] == "str" else INTEGERS
    if readable is not None:
        require_kind(table, monoid.columns[0], readable)


def require_kind(table: Any, column: str, readable: Readable) -> None:
    """Raise if a column has another type; that of a column with nothing but nulls fits all."""
    pa = arrow.pyarrow()
    kind = table.schema.field(column).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not pa.types.is_null(value) and not readable.reads(value):
        raise KindError(
            f"aggs must read {readable.wanted}, but the column {shown(column)} holds {kind}.",
            argument="aggs",
            column=column,
        )
