"""The types of Spark's columns as Arrow's and back, so that a question is checked before anything runs.

Only columns that the engine reads are translated; all others pass through as they are. PySpark has such a table of its
own, which is not public.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from sash.errors import ArgumentError, KindError, UnsupportedError, shown

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
    """Give the place of a column, or refuse a name that none or several have."""
    places = [i for i, known in enumerate(schema.names) if known == name]
    if not places:
        raise ArgumentError(f"{argument}: there is no column {shown(name)}; df has {', '.join(schema.names)}.")
    if len(places) > 1:
        raise ArgumentError(f"{argument}: df has {len(places)} columns {shown(name)}; rename all but one.")
    return places[0]


def require_passable(given: spark.StructType) -> None:
    """Refuse columns that Spark cannot hand to Python and take back, whatever is done with them."""
    for field in given.fields:
        for kind in _within(field.dataType):
            if isinstance(kind, (spark.CalendarIntervalType, spark.YearMonthIntervalType)):
                raise UnsupportedError(
                    f"df: the column {shown(field.name)} holds {kind.simpleString()}, which Spark does not hand to "
                    "Python; cast it to text or drop it."
                )


def _within(kind: Any) -> Iterator[spark.DataType]:
    """Give a type and all that it is made of."""
    yield kind
    inner = [getattr(kind, name, None) for name in ("elementType", "keyType", "valueType")]
    members = [field.dataType for field in kind.fields] if isinstance(kind, spark.StructType) else []
    for part in [part for part in inner if part is not None] + members:
        yield from _within(part)


def arrow_field(field: spark.StructField, argument: str) -> pa.Field:
    """Give a column that is read as Arrow has it.

    >>> arrow_field(spark.StructField("x", spark.DecimalType(10, 2)), "keys").type
    Decimal128Type(decimal128(10, 2))
    """
    kind = arrow_type(field.dataType)
    if kind is None or (_has_map(kind) and argument not in ("df", "carry")):  # others are read
        raise KindError(
            f"{argument}: the column {shown(field.name)} holds {field.dataType.simpleString()}, which cannot be read; "
            "give numbers, text, booleans, dates or timestamps."
        )
    return pa.field(field.name, kind)


def _has_map(kind: pa.DataType) -> bool:
    nested = pa.types.is_nested(kind) and any(_has_map(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_map(kind) or nested)


def arrow_type(kind: spark.DataType) -> pa.DataType | None:
    """Give a type of Spark's as Arrow's, or None where there is none."""
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


def require_plain_text(field: spark.StructField) -> None:
    """Refuse a key whose collation takes different texts for one."""
    collation = getattr(field.dataType, "collation", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        raise KindError(
            f"keys: the column {shown(field.name)} has the collation {collation}, in which different texts may be "
            'equal; give lower(column) or the like, or collate(column, "UTF8_BINARY").'
        )


def spark_type(kind: pa.DataType) -> spark.DataType:
    """Give the type of a result as Spark has it.

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
    raise UnsupportedError(f"aggs: a result of {kind} has no type in Spark; give another aggregate.")


def all_nullable(schema: spark.StructType) -> spark.StructType:
    """Give a schema in which every column may be null: what a query promises today it may not promise tomorrow."""
    fresh = spark.StructType()
    for field in schema.fields:
        fresh.add(field.name, field.dataType, True)
    return fresh
