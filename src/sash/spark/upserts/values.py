"""The values of Arrow columns as databases take them, and the text that identifies a row."""

import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from sash.inputs.arrow import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

    ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray

_LONGEST = 1000  # characters of an identity in an index; PostgreSQL allows 2,700 bytes
# What JSON has as it is: printable ASCII, except quotation marks and backslashes.
_ESCAPED_IN_JSON = r"[^ !#-\[\]-~]"


def plain_values(column: "ArrowColumn") -> list[Any]:
    """Return the values of an Arrow column as numbers, text and bytes."""
    pa, kind = pyarrow(), column.type
    if pa.types.is_timestamp(kind):
        return list(instants(column).to_pylist())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.string()).to_pylist())
    return typed_values(column)


def typed_values(column: "ArrowColumn") -> list[Any]:
    """Return the values of an Arrow column as Python objects, and types that SQL does not have as text."""
    pa, values = pyarrow(), list(column.to_pylist())
    if pa.types.is_nested(column.type):
        return [None if value is None else json.dumps(value, default=str) for value in values]
    if pa.types.is_duration(column.type):
        return [None if value is None else str(value) for value in values]
    return values


def instants(column: "ArrowColumn") -> "ArrowColumn":
    """Return timestamps as text with microseconds, in UTC if they have a time zone."""
    pa = pyarrow()
    in_utc = column.cast(pa.timestamp("us", tz="UTC")) if column.type.tz else column
    return in_utc.cast(pa.timestamp("us")).cast(pa.string())


def hexadecimal(column: "ArrowColumn") -> "pa.Array":
    """Return bytes as hexadecimal text."""
    return pyarrow().array([None if value is None else value.hex() for value in column.to_pylist()], "string")


def is_text(kind: "pa.DataType") -> bool:
    """Return whether an Arrow type is text."""
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_bytes(kind: "pa.DataType") -> bool:
    """Return whether an Arrow type is bytes."""
    types = pyarrow().types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def joined(*texts: Any, separator: str = "") -> "ArrowColumn":
    """Return the concatenated texts of each row; null if one of them is."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*texts, separator)


def identities(columns: "list[ArrowColumn]") -> "ArrowColumn":
    """Return the keys of each row as one text, because in a unique index no null equals another.

    It is the JSON array of the plain values, as `json.dumps` writes it without spaces, and stored in the tables of
    users: another text for the same keys would duplicate their rows.
    """
    import pyarrow.compute as pc

    texts = joined("[", joined(*[_in_json(column) for column in columns], separator=","), "]")
    if not pc.any(pc.greater(pc.binary_length(texts), _LONGEST)).as_py():
        return texts
    return pyarrow().array([_short(text) for text in texts.to_pylist()], "string")


def _in_json(column: "ArrowColumn") -> "ArrowColumn":
    """Return the values of a key column as JSON."""
    import pyarrow.compute as pc

    pa, kind = pyarrow(), column.type
    if is_text(kind) and not pc.any(pc.match_substring_regex(column, _ESCAPED_IN_JSON)).as_py():
        texts = joined('"', column.cast(pa.string()), '"')
    elif pa.types.is_timestamp(kind):
        texts = joined('"', instants(column), '"')
    elif pa.types.is_date(kind) or pa.types.is_decimal(kind):
        texts = joined('"', column.cast(pa.string()), '"')
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    else:
        texts = pa.array([json.dumps(value, default=bytes.hex) for value in plain_values(column)], "string")
    return texts.fill_null("null")


def _short(text: str) -> str:
    """Return a text short enough for an index in every database."""
    return text if len(text) <= _LONGEST else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
