"""Conversion between the types of Spark and Arrow, so that a spec is checked before anything runs.

Only columns that the engine reads are converted; all others pass through unchanged. PySpark's own conversion is not
public.
"""

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.keyed.spec import Spec

_TO_ARROW = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.NullType: pa.null(),
}
_FROM_ARROW = {
    pa.bool_(): spark.BooleanType,
    pa.int8(): spark.ByteType,
    pa.int16(): spark.ShortType,
    pa.int32(): spark.IntegerType,
    pa.int64(): spark.LongType,
    pa.float32(): spark.FloatType,
    pa.float64(): spark.DoubleType,
    pa.string(): spark.StringType,
    pa.large_string(): spark.StringType,
    pa.binary(): spark.BinaryType,
    pa.large_binary(): spark.BinaryType,
    pa.date32(): spark.DateType,
}


def place_of(schema: spark.StructType, name: str, argument: str) -> int:
    """Return the position of a column; raise ArgumentError if df has none or several of the name."""
    places = [place for place, other in enumerate(schema.names) if other == name]
    if not places:
        raise ArgumentError(
            f"{argument} must name columns of df ({', '.join(schema.names)}), got {shown(name)}.",
            argument=argument,
            column=name,
        )
    if len(places) > 1:
        raise ArgumentError(
            f"{argument} must name one column of df, got {shown(name)}, which is the name of {len(places)}.",
            argument=argument,
            column=name,
        )
    return places[0]


def require_passable(schema: spark.StructType, argument: str = "df") -> None:
    """Raise UnsupportedError for a column that Spark cannot send to Python and back."""
    for field in schema.fields:
        for kind in _nested_types(field.dataType):
            if isinstance(kind, (spark.CalendarIntervalType, spark.YearMonthIntervalType)):
                raise UnsupportedError(
                    f"column {shown(field.name)} of {argument} holds {kind.simpleString()}, which Spark does not send "
                    "to Python; cast it to text or drop it.",
                    argument=argument,
                    column=field.name,
                )


def require_result_types(fields: Iterable[pa.Field]) -> None:
    """Raise ArgumentError for a result whose type is unknown before it is computed."""
    for field in fields:
        if pa.types.is_null(field.type):
            raise ArgumentError(
                f"aggs must declare the type of {field.name}, because Spark plans before it runs; "
                'pass returns= to its monoid, as in returns="float64".',
                argument="aggs",
                column=field.name,
            )


def _nested_types(kind: spark.DataType) -> Iterator[spark.DataType]:
    """Yield a type and all types inside it."""
    yield kind
    inner = [getattr(kind, name, None) for name in ("elementType", "keyType", "valueType")]
    members = [field.dataType for field in kind.fields] if isinstance(kind, spark.StructType) else []
    for part in [part for part in inner if part is not None] + members:
        yield from _nested_types(part)


def arrow_field(field: spark.StructField, argument: str) -> pa.Field:
    """Return a column that is read as an Arrow field; raise KindError if it cannot be read.

    >>> arrow_field(spark.StructField("x", spark.DecimalType(10, 2)), "keys").type
    Decimal128Type(decimal128(10, 2))
    """
    kind = arrow_type(field.dataType)
    if kind is None or (_has_map(kind) and argument not in ("df", "carry")):  # those two only pass through
        raise KindError(
            f"{argument} must name columns of numbers, text, booleans, dates or timestamps, but {shown(field.name)} "
            f"holds {field.dataType.simpleString()}.",
            argument=argument,
            column=field.name,
        )
    return pa.field(field.name, kind)


def _has_map(kind: pa.DataType) -> bool:
    nested = pa.types.is_nested(kind) and any(_has_map(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_map(kind) or nested)


def arrow_type(kind: spark.DataType) -> pa.DataType | None:
    """Return the Arrow type for a Spark type, or None if there is none."""
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        item = arrow_type(kind.elementType)
        return None if item is None else pa.list_(item)
    if isinstance(kind, spark.MapType):
        key, value = arrow_type(kind.keyType), arrow_type(kind.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(kind, spark.StructType):
        members = [(field.name, arrow_type(field.dataType)) for field in kind.fields]
        return None if any(member is None for _, member in members) else pa.struct(members)
    return _TO_ARROW.get(type(kind))


def require_plain_text(columns: spark.StructType, spec: Spec) -> None:
    """Raise KindError for a column by which rows are told apart whose collation treats different texts as equal."""
    named = [(name, "keys") for name in spec.keys] + [(spec.id, "id")]
    if spec.retract is not None and spec.id is None:  # a delete is of a row that is equal in these
        named += [(name, "aggs") for monoid in spec.aggs.values() for name in monoid.columns]
    for name, argument in named:
        if name is None:
            continue
        kind = columns.fields[place_of(columns, name, argument)].dataType
        collation = getattr(kind, "collation", "UTF8_BINARY")
        if collation != "UTF8_BINARY":
            raise KindError(
                f"{argument} must compare by bytes, but column {shown(name)} has the collation {collation}; "
                'use lower(column) or collate(column, "UTF8_BINARY").',
                argument=argument,
                column=name,
            )


def spark_type(kind: pa.DataType) -> spark.DataType:
    """Return the Spark type for the Arrow type of a result.

    >>> spark_type(pa.list_(pa.int64())).simpleString(), spark_type(pa.struct([("a", pa.float64())])).simpleString()
    ('array<bigint>', 'struct<a:double>')
    """
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]()
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return spark.ArrayType(spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type)) for field in kind])
    raise UnsupportedError(f"aggs must give results of a type that Spark has, got {kind}.", argument="aggs")


def all_nullable(schema: spark.StructType) -> spark.StructType:
    """Return the schema with every column nullable: a later version of a query may not promise what it promises now."""
    nullable = spark.StructType()
    for field in schema.fields:
        nullable.add(field.name, field.dataType, True)
    return nullable


def utc_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema of rows as Spark passes them to Python, with instants in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # The keyword is new in Spark 4.2; before, UTC was the default.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
