"""Questions of a streaming query: a second streaming DataFrame, whose rows come back with results as of their times."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.errors import ArgumentError, KindError, shown
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.spec import Spec, require_name
from sash.spark import schema


def require_questions(df: DataFrame, at: object, at_time: object, at_id: object) -> None:
    """Raise unless the arguments about questions fit together, and the DataFrame."""
    if at is None:
        for name, given in (("at_time", at_time), ("at_id", at_id)):
            if given is not None:
                raise ArgumentError(f"{name} must be passed with at=, got {shown(given)}.", argument=name)
        return
    if not isinstance(at, DataFrame):
        raise KindError(f"at must be a Spark DataFrame, got {shown(at)}.", argument="at")
    if at.isStreaming != df.isStreaming:
        kinds = ("a streaming DataFrame, as df is", "a batch DataFrame, as df is")
        raise KindError(f"at must be {kinds[not df.isStreaming]}, got {shown(at)}.", argument="at")
    for name, given in (("at_time", at_time), ("at_id", at_id)):
        if given is not None:
            require_name(given, name)


@dataclass(frozen=True)
class Questions:
    """A DataFrame of questions, and which of its columns say when, and which one is meant."""

    df: DataFrame
    time: str
    id: str | None = None

    def columns(self, spec: Spec, events: pa.Schema) -> QuestionColumns:
        """Return its columns as the engine sees them, checked against those of the events."""
        if spec.every is not None:
            raise ArgumentError(
                f"every must be left out with at=, whose rows say when, got {shown(spec.every)}.", argument="every"
            )
        fields = [schema.arrow_field(field, "df") for field in self.df.schema.fields]
        return QuestionColumns.of(spec, events, pa.schema(fields), self.time, self.id)
