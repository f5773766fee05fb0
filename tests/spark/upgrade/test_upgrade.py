"""State that the release before this one wrote: it is read, and each bucket is rewritten when it is next touched.

`version2.tar.xz` has, for two pipelines, the checkpoint and the results of a run at commit d127a5d, whose state has
version 2.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.pipeline.config.errors import PipelineFileError
from sash.pipeline.config.read import Pipeline, parse
from sash.pipeline.run.run import run
from sash.spark.stream.inspect import heads

TEXT = """
mode = "available-now"
[source]
format = "demo"
watermark = "30 seconds"
[source.options]
keys = 10
rate = 10
partitions = 1
late = 0.2
delay_mean = "1 minute"
delay_max = "5 minutes"
retract = 0.05
retract_after = "1 minute"
seed = 3
rows_per_batch = 6000
[rolling]
keys = ["card"]
time = "ts"
windows = ["1m", "5m"]
lateness = "6 minutes"
buckets = 2
{more}
[rolling.aggs]
n = "count()"
total = "sum(amount)"
{aggs}
[sink]
format = "parquet"
"""
CASES = {
    "rows": ('emit = "update"\nid = "id"\nretract = "op = \'delete\'"', 'word = "last(id)"', 2500),
    "panes": ('emit = "final"\nevery = "1 minute"', 'largest = "max(amount)"', 6000),
}
IDENTITY = {"rows": ["card", "ts", "id"], "panes": ["card", "window_end"]}


@pytest.fixture
def old(spark, tmp_path) -> Iterator[Path]:
    """The folder of the release's runs."""
    # A sink of files would look for what the micro-batches before it noted, in another folder.
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", 1000)
    with tarfile.open(Path(__file__).parent / "version2.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for path in tmp_path.glob("*/checkpoint/state/0/_metadata/v2/0"):  # Spark stores where the schema of the state is
        path.write_text(path.read_text().replace("@FOLDER@", str(tmp_path)))
    yield tmp_path
    spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")


def pipeline(name: str, folder: Path, rows: int, **changed: str) -> Pipeline:
    more, aggs, _ = CASES[name]
    sets = {"checkpoint": folder / "checkpoint", "sink.path": folder / "more", "source.options.rows": rows, **changed}
    return parse(TEXT.format(more=more, aggs=aggs), overrides=[f"{key}={value}" for key, value in sets.items()])


def latest(table: pa.Table, names: list[str]) -> dict:
    """The last revision of each result."""
    rows = sorted(table.to_pylist(), key=lambda row: row.get("revision") or 0)
    found = {tuple(row[name] for name in names): row for row in rows}
    kept = {place: row for place, row in found.items() if not row.get("deleted")}
    return {
        place: {name: value for name, value in row.items() if name not in ("revision", "deleted")}
        for place, row in kept.items()
    }


def versions(spark, folder: Path) -> list[bool]:
    """Whether each bucket knows its definition, as version 2 did not."""
    return ["words" in head.definition for head in heads(spark, str(folder / "checkpoint"))]


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_of_version_2_is_resumed(spark, old, tmp_path, name):
    """What the release has said and what comes now are together what one run says."""
    rows = CASES[name][2]
    assert versions(spark, old / name) == [False, False]
    run(pipeline(name, old / name, 2 * rows), spark=spark)
    assert versions(spark, old / name) == [True, True]
    fresh = tmp_path / "fresh"
    run(pipeline(name, fresh, 2 * rows), spark=spark)
    said = [pq.read_table(old / name / folder) for folder in ("results", "more")]
    together = pa.concat_tables([table.cast(said[1].schema) for table in said])
    wanted = latest(pq.read_table(fresh / "more"), IDENTITY[name])
    assert len(wanted) > 50 and latest(together, IDENTITY[name]) == wanted


def test_another_definition_over_version_2_is_refused(spark, old):
    """Its state does not say which definition it has: it has to be run once with that one."""
    changed = pipeline("rows", old / "rows", 5000, **{"rolling.windows": '["1m"]'})
    with pytest.raises(PipelineFileError, match="run the definition it was written with once, and then change it"):
        run(changed, spark=spark)
