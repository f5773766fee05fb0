"""Questions of a streaming query: a second streaming DataFrame, whose rows come back with results as of their times."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.errors import ArgumentError, shown
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.spec import Spec
from sash.spark import schema


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
