"""Steps of a pipeline, before the aggregation and after it: conditions and lists of expressions in SQL.

Some columns are not the user's: no step sees them, and every step keeps them.
"""

from collections import Counter
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sash.errors import ArgumentError, shown
from sash.pipeline.config.model import Step
from sash.pipeline.config.read import Pipeline
from sash.pipeline.run.error_text import reported_at

MALFORMED = "__sash_malformed"  # the text of a record that could not be parsed, otherwise null
ORIGIN = "__sash_origin"  # where a record of Kafka is: a struct of its topic, partition and offset
HIDDEN = (MALFORMED, ORIGIN)
_DELETED = "deleted"


def applied(pipeline: Pipeline, df: DataFrame, path: tuple[str, ...]) -> DataFrame:
    """Return rows after the steps at a key of the file, "steps" or "output.steps".

    Conditions do not see rows whose columns are null because they have no values: malformed records and, among
    results, those that delete another. Such rows pass.
    """
    output = path[0] == "output"
    steps: list[Step] = pipeline.output.steps if output else pipeline.steps
    for place, step in enumerate(steps):
        if step.where is not None:
            with reported_at(pipeline, (*path, place, "where")):
                df = _filtered(df, step.where, _passing(df, output))
        else:
            with reported_at(pipeline, (*path, place, "select")):
                df = _selected(df, step.select or [])
    return df


def _passing(df: DataFrame, output: bool) -> Column | None:
    """Return which rows pass every condition."""
    if MALFORMED in df.columns:
        return F.col(MALFORMED).isNotNull()
    return F.col(_DELETED) if output and _DELETED in df.columns else None


def _filtered(df: DataFrame, where: str, passing: Column | None) -> DataFrame:
    condition = F.expr(where)
    df.drop(*HIDDEN).filter(condition)  # fails without naming the internal columns among the suggestions
    return df.filter(condition if passing is None else condition | passing)


def _selected(df: DataFrame, expressions: Sequence[str]) -> DataFrame:
    hidden = [name for name in HIDDEN if name in df.columns]
    visible = df.drop(*hidden).selectExpr(*expressions)  # first, as above
    _require_different(visible.columns)
    if not hidden:
        return visible
    chosen = df.selectExpr(*expressions)
    return df.selectExpr(*expressions, *[name for name in hidden if name not in chosen.columns])


def _require_different(names: Sequence[str]) -> None:
    """Raise an error for two columns of one name, which nothing after the step could tell apart."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ArgumentError(
            f"must give each column a name of its own, but two are called {shown(twice)}.", column=twice
        )
