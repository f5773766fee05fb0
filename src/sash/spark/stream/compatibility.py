"""Whose state a checkpoint holds, compared with a definition on the driver before its query starts."""

from pyspark.sql import SparkSession

from sash.locations import location
from sash.spark.stream.change import change_from, require_answerable
from sash.spark.stream.checkpoint_files import CheckpointFiles
from sash.spark.stream.inspect import heads
from sash.spark.stream.plan import Plan


def is_new(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether no micro-batch has been committed to a checkpoint."""
    return CheckpointFiles(location(checkpoint, "checkpoint"), spark).last_commit() < 0


def require_compatible(spark: SparkSession, checkpoint: str, plan: Plan) -> list[str]:
    """Return how a plan differs from the definition that a checkpoint was written with; not at all from an empty one.

    Raise CorruptStateError if the state cannot follow the change. Buckets that have not been touched since an earlier
    change still have the definition before it, so several may be compared.
    """
    if is_new(spark, checkpoint):
        return []
    found: dict[str, None] = {}
    for head in heads(spark, checkpoint):
        if not plan.wrote(head.definition):
            found |= dict.fromkeys(require_answerable(plan, head).differences())
        elif "words" in head.definition:
            found |= dict.fromkeys(change_from(plan, head.definition).differences())
    return list(found)
