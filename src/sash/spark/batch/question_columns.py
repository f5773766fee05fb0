"""The columns with which events and questions travel together, checked before anything runs.

They are the keys, the time and a mark that is true for questions, which both have; then what is read of events, and
what else `at` has. Keys of events and questions travel in a type that holds the values of both.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from sash.errors import KindError, shown
from sash.keyed.questions import require_alike, require_has
from sash.keyed.spec import Spec
from sash.spark import schema
from sash.spark.batch.question_chunks import QuestionRequest
from sash.spark.batch.request import fields_of, question_request_of, require_extensible

_DIGITS: dict[type[spark.DataType], int] = {
    spark.ByteType: 3,
    spark.ShortType: 5,
    spark.IntegerType: 10,
    spark.LongType: 19,
}
_MOST_DIGITS = 38  # of a decimal


@dataclass(frozen=True)
class _Travelling:
    """A column that travels: its type, and its position in the events and in `at`, None where it is null."""

    kind: spark.DataType
    event: int | None = None
    question: int | None = None


@dataclass(frozen=True)
class Layout:
    """The columns that travel, by position; the mark has no source."""

    columns: tuple[_Travelling, ...]
    keys: tuple[str, ...]
    request: QuestionRequest
    output: spark.StructType

    @classmethod
    def of(
        cls, events: spark.StructType, at: spark.StructType, spec: Spec, at_time: str, constants: Iterable[str]
    ) -> "Layout":
        """Return the layout for columns of events and of `at`; `constants` are the names of more columns of results."""
        for name, argument in [*((name, "keys") for name in spec.keys), (spec.time, "time")]:
            schema.place_of(events, name, argument)
        require_has(at.names, (*spec.keys, at_time), "at")
        kinds = {name: _key_kind(name, events, at) for name in spec.keys}
        alike = spark.StructType([spark.StructField(f.name, kinds.get(f.name, f.dataType)) for f in events.fields])
        request = question_request_of(alike, spec)
        require_extensible(at, [*request.results.names, *constants], "at")
        columns = [_both(kind, name, name, events, at) for name, kind in kinds.items()]
        keys, time = {name: place for place, name in enumerate(kinds)}, len(columns)
        columns += [_both(_time_kind(events, at, spec, at_time), spec.time, at_time, events, at)]
        columns += [_Travelling(spark.BooleanType())]
        ids = [events.names[place] for place in request.ids]
        read = _added_of_events(columns, {spec.time: time} | keys, [*request.names, *ids], events)
        own = _added_of_questions(columns, keys if at_time in keys else keys | {at_time: time}, at)
        return cls(
            tuple(columns),
            tuple(f"c{place}" for place in range(time)),
            QuestionRequest(
                request.at_places([read[name] for name in request.names], [read[name] for name in ids]),
                time + 1,
                tuple(keys.values()),
                time,
                tuple(own),
            ),
            spark.StructType(at.fields + fields_of(request.results)),
        )

    def events(self, df: DataFrame) -> DataFrame:
        """Return events as they travel."""
        return self._travelling(df, False, [one.event for one in self.columns])

    def questions(self, at: DataFrame) -> DataFrame:
        """Return questions as they travel."""
        return self._travelling(at, True, [one.question for one in self.columns])

    def _travelling(self, df: DataFrame, mark: bool, sources: list[int | None]) -> DataFrame:
        named = [f"s{place}" for place in range(len(df.columns))]  # a name may hold a dot, or occur twice

        def column(place: int, source: int | None) -> Column:
            if place == self.request.mark:
                return F.lit(mark)
            return F.lit(None) if source is None else F.col(named[source])

        columns = [
            column(place, source).cast(one.kind).alias(f"c{place}")
            for place, (source, one) in enumerate(zip(sources, self.columns, strict=True))
        ]
        return df.toDF(*named).select(*columns)


def _both(
    kind: spark.DataType, event: str, question: str, events: spark.StructType, at: spark.StructType
) -> _Travelling:
    return _Travelling(kind, events.names.index(event), at.names.index(question))


def _added_of_events(
    columns: list[_Travelling], places: dict[str, int], names: list[str], events: spark.StructType
) -> dict[str, int]:
    """Return the position of each column that is read of events, after those that are not there yet are added."""
    for name in names:
        if name not in places:
            places[name] = len(columns)
            columns.append(_Travelling(events[name].dataType, event=events.names.index(name)))
    return places


def _added_of_questions(columns: list[_Travelling], places: dict[str, int], at: spark.StructType) -> list[int]:
    """Return the position of each column of `at`, after those that travel in another type, or not yet, are added.

    A column that only events have takes one of `at` too if the type is the same: each costs time in every row.
    """
    found = []
    for i, (name, kind) in enumerate((field.name, field.dataType) for field in at.fields):
        if name in places and columns[places[name]].kind == kind:
            found.append(places[name])
        else:
            found.append(_place_for(columns, kind, i))
    return found


def _place_for(columns: list[_Travelling], kind: spark.DataType, question: int) -> int:
    for place, one in enumerate(columns):
        if one.kind == kind and one.event is not None and one.question is None:
            columns[place] = replace(one, question=question)
            return place
    columns.append(_Travelling(kind, question=question))
    return len(columns) - 1


# --- types ----------------------------------------------------------------------------------------


def _key_kind(name: str, events: spark.StructType, at: spark.StructType) -> spark.DataType:
    """Return the type that holds the values of a key on both sides, or raise KindError if there is none."""
    own, other = events[name].dataType, at[name].dataType
    kind = _common(own, other)
    if kind is None:
        raise KindError(
            f"at must hold {own.simpleString()} in the column {shown(name)}, as df does, got {other.simpleString()}; "
            "cast it.",
            argument="at",
            column=name,
        )
    return kind


def _time_kind(events: spark.StructType, at: spark.StructType, spec: Spec, at_time: str) -> spark.DataType:
    own, other = events[spec.time].dataType, at[at_time].dataType
    if isinstance(other, spark.NullType):
        return own
    kind = schema.arrow_field(events[spec.time], "time").type
    require_alike(schema.arrow_field(at[at_time], "at_time").type, kind, at_time)
    return _common(own, other) or own


def _common(one: spark.DataType, other: spark.DataType) -> spark.DataType | None:
    """Return the type that holds all values of two types, where null and numbers have one that is exact.

    >>> _common(spark.IntegerType(), spark.LongType()), _common(spark.IntegerType(), spark.DecimalType(6, 2))
    (LongType(), DecimalType(12,2))
    """
    if one == other or isinstance(other, spark.NullType):
        return one
    if isinstance(one, spark.NullType):
        return other
    if type(one) in _DIGITS and type(other) in _DIGITS:
        return max(one, other, key=lambda kind: _DIGITS[type(kind)])
    decimals = [_as_decimal(kind) for kind in (one, other)]
    if None in decimals:
        return None
    scale = max(kind.scale for kind in decimals)
    digits = max(kind.precision - kind.scale for kind in decimals) + scale
    return spark.DecimalType(digits, scale) if digits <= _MOST_DIGITS else None


def _as_decimal(kind: spark.DataType) -> Any:
    if isinstance(kind, spark.DecimalType):
        return kind
    digits = _DIGITS.get(type(kind))
    return None if digits is None else spark.DecimalType(digits, 0)
