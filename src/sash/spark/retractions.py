"""Retractions and ids of DataFrames: which rows are deletes, and which rows of a batch remain after them."""

import re
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField

from sash.errors import ArgumentError, KindError, shown
from sash.keyed.spec import Spec
from sash.spark.columns import column

MARK = "__sash_retract"
_RANK, _DELETES = "__sash_rank", "__sash_deletes"
_SPACES = re.compile(r"\s+|('[^']*'|\"[^\"]*\"|`[^`]*`)")
# Addresses of objects, and numbers of the variables of functions, differ from one start of a program to the next.
_ADDRESS, _VARIABLE = re.compile(r"@[0-9a-f]{6,8}\b"), re.compile(r"\b([xyz])_\d+\b")


def with_mark(df: DataFrame, spec: Spec) -> tuple[DataFrame, Spec]:
    """Return the DataFrame and the spec with a column of booleans in place of a condition for deletes."""
    retract = spec.retract
    if retract is None:
        return df, spec
    if isinstance(retract, str) and retract in df.columns:
        _require_booleans(retract, df.schema[retract])
        return df, spec
    if not isinstance(retract, (str, Column)):
        raise KindError(f"retract must be a column or a condition, got {shown(retract)}.", argument="retract")
    try:
        condition = retract if isinstance(retract, Column) else F.expr(retract)
        marked = df.withColumn(MARK, condition)
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        raise ArgumentError(
            f"retract must be a column or a condition over the columns of df, got {shown(retract)}: {shown(reason)}.",
            argument="retract",
        ) from None
    _require_booleans(retract, marked.schema[MARK])
    return marked.withColumn(MARK, F.coalesce(MARK, F.lit(False))), replace(spec, retract=MARK)


def condition_text(retract: str | Column) -> str:
    """Return a condition for deletes as text, the same at every start of a program.

    >>> condition_text("op =\\n  'a  b'")
    "op = 'a  b'"
    """
    if isinstance(retract, str):
        return _SPACES.sub(lambda found: found[1] or " ", retract).strip()
    text = _ADDRESS.sub("", str(retract).removeprefix("Column<'").removesuffix("'>"))
    return condition_text(_VARIABLE.sub(r"\1", text) if " -> " in text else text)


def _require_booleans(retract: str | Column, field: StructField) -> None:
    if not isinstance(field.dataType, BooleanType):
        raise KindError(
            f"retract must hold booleans, but {shown(retract)} holds {field.dataType.simpleString()}.",
            argument="retract",
            column=None if field.name == MARK else field.name,
        )


def without_deleted(df: DataFrame, spec: Spec) -> DataFrame:
    """Return the rows of a batch that count: each identity once, and none that was deleted."""
    if spec.id is None and spec.retract is None:
        return df
    values = [spec.id] if spec.id is not None else [name for agg in spec.aggs.values() for name in agg.columns]
    identity = list(dict.fromkeys([*spec.keys, spec.time, *values]))
    if spec.id is not None:
        df = df.filter(column(spec.id).isNotNull())
    delete = F.coalesce(column(spec.retract), F.lit(False)) if isinstance(spec.retract, str) else F.lit(False)
    same = Over.partitionBy(*[column(name) for name in identity])
    counted = df.withColumn(_DELETES, F.sum(F.when(delete, 1).otherwise(0)).over(same))
    ranked = counted.withColumn(_RANK, F.row_number().over(same.orderBy(F.when(delete, 1).otherwise(0))))
    # An id is inserted once and deleted for good; without ids each delete removes one of the equal rows.
    once = (F.col(_RANK) == 1) & (F.col(_DELETES) == 0)
    remains = once if spec.id is not None else F.col(_RANK) > F.col(_DELETES)
    return ranked.filter(~delete & remains).drop(_RANK, _DELETES)
