"""Claims about streams and batches on Spark: `make bench-spark`, or `python -m benchmarks.spark batch` for one part.

Three parts run only if they are named: `cluster`, a standalone cluster compared with local[2], `trigger`, rare triggers
compared with frequent ones, and `stages`, the parts of a micro-batch.
"""

import sys

from benchmarks import (
    postgres,
    spark_asked,
    spark_batch,
    spark_change,
    spark_cluster,
    spark_daemons,
    spark_first,
    spark_history,
    spark_late,
    spark_questions,
    spark_sessions,
    spark_stages,
    spark_streaming,
    spark_trigger,
    spark_upsert,
)
from benchmarks.__main__ import print_claims

_PARTS = {
    "streaming": spark_streaming.claims,
    "batch": spark_batch.claims,
    "late": spark_late.claims,
    "upsert": spark_upsert.claims,
    "postgres": postgres.claims,
    "first": spark_first.claims,
    "change": spark_change.claims,
    "history": spark_history.claims,
    "asked": spark_asked.claims,
    "questions": spark_questions.claims,
    "sessions": spark_sessions.claims,
}
_LONG = {
    "cluster": spark_cluster.claims,
    "daemons": spark_daemons.claims,
    "stages": spark_stages.claims,
    "trigger": spark_trigger.claims,
}


def main() -> None:
    """Measure, and print the claims."""
    for part in sys.argv[1:] or list(_PARTS):
        print(f"Spark, {part}", flush=True)
        print_claims((_PARTS | _LONG)[part]())


if __name__ == "__main__":
    main()
