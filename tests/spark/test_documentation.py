"""The code in README.md and in the pages about Spark and pipelines gives what it says."""

from pathlib import Path

import pytest

from support.documentation import run_blocks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/spark.md", "docs/tutorials/late-stream.md"])
def test_examples_in_the_documentation(page, spark, capsys):
    """One block leans on the other; the session is the one that runs."""
    assert run_blocks(ROOT / page, capsys, {}) >= 2


@pytest.mark.usefixtures("spark")
def test_the_pipeline_in_the_documentation(capsys, tmp_path, monkeypatch):
    """It runs on the session that there is, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    assert run_blocks(ROOT / "docs" / "pipeline.md", capsys) >= 1
