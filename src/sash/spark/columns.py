"""Columns of DataFrames by any name, and DataFrames whose columns are named by their places."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def column(name: str) -> Column:
    """Give a column by its name, whatever that is."""
    return F.col("`" + name.replace("`", "``") + "`")


def numbered(rows: DataFrame) -> DataFrame:
    """Give rows with columns named by their places, because `mapInArrow` does not find a name that holds a dot."""
    return rows.toDF(*[f"_{place}" for place in range(len(rows.columns))])
