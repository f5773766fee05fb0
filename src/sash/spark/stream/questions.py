"""Questions of a streaming query: a second streaming DataFrame, whose rows come back with results as of their times."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.errors import ArgumentError, KindError, shown
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.questions import require_askable
from sash.keyed.spec import Spec, require_name
from sash.spark import schema


def require_questions(df: DataFrame, at: object, at_time: object, at_id: object, every: object) -> None:
    """Raise unless there are no questions, or some that can be asked about `df`: both are batches, or both streams."""
    require_askable(at, at_time, every)
    if at_id is not None:
        if at is None:
            raise ArgumentError(f"at_id must be passed with at=, got {shown(at_id)}.", argument="at_id")
        require_name(at_id, "at_id")
    if at is None:
        return
    if not isinstance(at, DataFrame):
        raise KindError(f"at must be a Spark DataFrame, as df is, got {shown(at)}.", argument="at")
    if at.isStreaming != df.isStreaming:
        wanted, got = ("batch", "streaming") if at.isStreaming else ("streaming", "batch")
        raise ArgumentError(f"at must be a {wanted} DataFrame, as df is, got a {got} one.", argument="at")


@dataclass(frozen=True)
class Questions:
    """A DataFrame of questions, and which of its columns say when, and which one is meant."""

    df: DataFrame
    time: str
    id: str | None = None

    def columns(self, spec: Spec, events: pa.Schema) -> QuestionColumns:
        """Return its columns as the engine sees them, checked against those of the events."""
        fields = [schema.arrow_field(field, "df") for field in self.df.schema.fields]
        return QuestionColumns.of(spec, events, pa.schema(fields), self.time, self.id)
