"""The code in README.md and docs/spark.md gives what it says."""

from pathlib import Path

import pytest

from documentation import run_blocks


@pytest.mark.parametrize("page", ["README.md", "docs/spark.md"])
def test_examples_in_the_documentation(page, spark, capsys):
    """One block leans on the other; the session is the one that runs."""
    assert run_blocks(Path(__file__).parents[2] / page, capsys, {}) >= 2
