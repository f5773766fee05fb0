"""The code in docs/spark.md gives what it says."""

from pathlib import Path

from documentation import run_blocks


def test_examples_in_the_documentation(spark, capsys):
    """One block leans on the other; the session is the one that runs."""
    assert run_blocks(Path(__file__).parents[2] / "docs" / "spark.md", capsys, {}) >= 2
