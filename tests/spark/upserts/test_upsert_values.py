"""Identities computed in Arrow are the texts that existing rows are stored under, and COPY reads what was written."""

import hashlib
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import ArgumentError
from sash.spark.upserts.postgres import copy_lines
from sash.spark.upserts.values import identities, plain_values

TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
KINDS = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(),
    pa.date32(): st.dates(),
    pa.decimal128(20, 9): st.decimals(-(10**9), 10**9, places=9),
    pa.timestamp("us", "UTC"): TIMES.map(lambda time: time.replace(tzinfo=UTC)),
    pa.timestamp("us", "America/New_York"): TIMES.map(lambda time: time.replace(tzinfo=UTC)),
    pa.timestamp("us"): TIMES,
}


@st.composite
def key_columns(draw):
    kinds, count = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4)), draw(st.integers(0, 5))
    columns = []
    for kind in kinds:
        values = draw(st.lists(st.none() | KINDS[kind], min_size=count, max_size=count))
        columns.append(pa.array(values, kind))
    return columns


def stored(columns):
    """Return the identities as they were computed before, row by row: what the tables of users have."""

    def plain(column):
        kind = column.type
        if pa.types.is_timestamp(kind):
            wanted = pa.timestamp("us", tz="UTC" if kind.tz else None)
            return pc.strftime(column.cast(wanted), "%Y-%m-%d %H:%M:%S").to_pylist()
        if pa.types.is_date(kind) or pa.types.is_decimal(kind):
            return column.cast(pa.string()).to_pylist()
        return column.to_pylist()

    def short(text):
        return text if len(text) <= 1000 else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    rows = zip(*[plain(column) for column in columns], strict=True)
    return [short(json.dumps(row, separators=(",", ":"), default=bytes.hex)) for row in rows]


@given(key_columns())
def test_identities_are_those_of_existing_tables(columns):
    """Arrays and chunked arrays, with nulls and any text."""
    assert identities(columns).to_pylist() == stored(columns)
    chunked = [pa.chunked_array([column.slice(0, 2), column.slice(2)], column.type) for column in columns]
    assert identities(chunked).to_pylist() == stored(columns)


def test_identities_of_odd_texts():
    """What JSON escapes, what it does not, and keys that are too long for an index."""
    texts = ['"', "\\", "/", "\x7f", "\n", "é", "😀", "\0", " ", "", "null", "x" * 996, "x" * 997, "é" * 200, None]
    column = pa.array(texts)
    assert identities([column]).to_pylist() == stored([column])
    plain = pa.array(["a", "x" * 996, "x" * 997, None])
    assert identities([plain]).to_pylist() == stored([plain])
    assert identities([plain]).to_pylist()[2].startswith("sha256:")


def test_plain_values_of_instants_are_in_utc():
    column = pa.array([0, 1, None], pa.timestamp("us", "Asia/Tokyo"))
    assert plain_values(column) == ["1970-01-01 00:00:00.000000", "1970-01-01 00:00:00.000001", None]


@pytest.mark.parametrize(
    "column, fields",
    [
        (pa.array(["", "\\N", "\\.", "a\tb", "a\nb", "a\r\nb", None]), "|\\\\N|\\\\.|a\\tb|a\\nb|a\\r\\nb|\\N"),
        (pa.array([0.1, math.nan, math.inf, -math.inf, -0.0, 5e-324, None]), "0.1|nan|inf|-inf|-0|5e-324|\\N"),
        (pa.array([b"", b"\x00\xff", None]), "\\\\x|\\\\x00ff|\\N"),
        (pa.array([0, None], pa.timestamp("us", "Asia/Tokyo")), "1970-01-01 00:00:00.000000+00|\\N"),
        (pa.array([0, None], pa.timestamp("us")), "1970-01-01 00:00:00.000000|\\N"),
        (pa.array([date(2026, 1, 2), None]), "2026-01-02|\\N"),
        (pa.array([Decimal("1.50"), None]), "1.50|\\N"),
        (pa.array([True, False, None]), "true|false|\\N"),
        (pa.array([[1, None], [], None]), "[1, null]|[]|\\N"),
        (pa.array([{"x": "a\tb\\"}, None]), '{"x": "a\\\\tb\\\\\\\\"}|\\N'),
        (pa.nulls(2), "\\N|\\N"),
        (pa.array([], pa.string()), ""),
    ],
)
def test_fields_of_copy(column, fields):
    """Escapes are those that PostgreSQL documents; null differs from an empty text, and both from their spelling."""
    assert bytes(copy_lines([column], ["x"])).decode() == "\n".join(fields.split("|"))


def test_nul_characters_are_refused_by_the_name_of_their_column():
    with pytest.raises(
        ArgumentError, match=r"Column 'x' must not have NUL characters, .* got 'a\\x00b'; remove"
    ) as told:
        copy_lines([pa.array(["ok", "a\0b", None])], ["x"])
    assert told.value.column == "x"
