"""Retractions and ids of DataFrames: which rows are deletes, and which rows of a batch they leave."""

from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from sash.errors import ArgumentError, KindError, shown
from sash.keyed.spec import Asked
from sash.spark.columns import column

MARK = "__sash_retract"
_PLACE, _GONE = "__sash_place", "__sash_gone"


def with_mark(df: DataFrame, asked: Asked) -> tuple[DataFrame, Asked]:
    """Give deletes a column of their own, where they are a condition."""
    if asked.retract is None or (isinstance(asked.retract, str) and asked.retract in df.columns):
        return df, asked
    if not isinstance(asked.retract, (str, Column)):
        raise KindError(f"retract: {shown(asked.retract)} is neither a column nor a condition; give one of them.")
    try:
        condition = asked.retract if isinstance(asked.retract, Column) else F.expr(asked.retract)
        marked = df.withColumn(MARK, condition)
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        raise ArgumentError(
            f"retract: {shown(asked.retract)} is neither a column nor a condition that can be read: {shown(reason)}; "
            "give one of them."
        ) from None
    if not isinstance(marked.schema[MARK].dataType, BooleanType):
        kind = marked.schema[MARK].dataType.simpleString()
        raise KindError(f"retract: {shown(asked.retract)} holds {kind}; give booleans.")
    return marked.withColumn(MARK, F.coalesce(MARK, F.lit(False))), replace(asked, retract=MARK)


def left_of(df: DataFrame, asked: Asked) -> DataFrame:
    """Give the rows of a batch that count: each identity once, and none that was deleted."""
    if asked.id is None and asked.retract is None:
        return df
    named = [asked.id] if asked.id is not None else list(dict.fromkeys(_aggregated(asked)))
    alike = list(dict.fromkeys([*asked.keys, asked.time, *named]))
    if asked.id is not None:
        df = df.filter(column(asked.id).isNotNull())
    gone = F.coalesce(column(asked.retract), F.lit(False)) if isinstance(asked.retract, str) else F.lit(False)
    among = Over.partitionBy(*[column(name) for name in alike])
    counted = df.withColumn(_GONE, F.sum(F.when(gone, 1).otherwise(0)).over(among))
    placed = counted.withColumn(_PLACE, F.row_number().over(among.orderBy(F.when(gone, 1).otherwise(0))))
    kept = (F.col(_PLACE) == 1) & (F.col(_GONE) == 0) if asked.id is not None else F.col(_PLACE) > F.col(_GONE)
    return placed.filter(~gone & kept).drop(_PLACE, _GONE)


def _aggregated(asked: Asked) -> list[str]:
    return [name for monoid in asked.aggs.values() for name in monoid.columns]
