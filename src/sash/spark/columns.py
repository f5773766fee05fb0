"""Columns of DataFrames by any name, and DataFrames whose columns are named by position."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def column(name: str) -> Column:
    """Return a column by its name, which may hold any character."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """Return a name as Spark's SQL takes it, whatever characters it holds.

    >>> quoted("a.b"), quoted("a`b")
    ('`a.b`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def with_numbered_columns(rows: DataFrame) -> DataFrame:
    """Rename the columns by position, because `mapInArrow` does not find a name that holds a dot."""
    return rows.toDF(*[f"_{place}" for place in range(len(rows.columns))])
