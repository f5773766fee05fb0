"""What streams and batches on Spark must show: `make bench-spark`, or `python -m benchmarks.spark batch` for a part."""

import sys

from benchmarks import spark_batch, spark_streaming
from benchmarks.__main__ import print_claims

_PARTS = {"streaming": spark_streaming.claims, "batch": spark_batch.claims}


def main() -> None:
    """Measure, and print what was found."""
    for part in sys.argv[1:] or list(_PARTS):
        print(f"Spark, {part}", flush=True)
        print_claims(_PARTS[part]())


if __name__ == "__main__":
    main()
