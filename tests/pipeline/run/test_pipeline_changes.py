"""Pipelines whose definition changes between two runs over one checkpoint, and their targets."""

from pathlib import Path

import pyarrow as pa
import pytest

from sash.errors import ArgumentError, CorruptStateError
from sash.pipeline.config.read import parse
from sash.pipeline.run.dataframes import frames_of
from sash.pipeline.run.run import run
from sash.spark import rolling, upserted_table

PAYMENTS = """
name = "payments"
mode = "available-now"
[source]
format = "demo"
watermark = "30 seconds"
[source.options]
rows = {rows}
rows_per_batch = 500
keys = 8
rate = 10
late = 0.2
delay_mean = "1 minute"
delay_max = "4 minutes"
retract = 0.05
retract_after = "1 minute"
seed = 5
[rolling]
keys = ["card"]
time = "ts"
id = "id"
retract = "op = 'delete'"
windows = {windows}
emit = "{emit}"
lateness = "2 minutes"
buckets = 2
[rolling.aggs]
{aggs}
[sink]
format = "{sink}"
"""
BEFORE = {"windows": '["5m"]', "emit": "update", "aggs": 'n = "count()"\ntotal = "sum(amount)"'}
AFTER = {"windows": '["1m", "5m"]', "emit": "update", "aggs": 'total = "sum(amount)"\ntop = "max(amount)"'}


def pipeline(folder: Path, rows: int, sink: str = "delta", mode: str = "available-now", **words: str):
    """Return a pipeline whose files are in a folder."""
    place = {"checkpoint": str(folder / "checkpoint"), "sink.path": str(folder / "results"), "mode": mode}
    return parse(PAYMENTS.format(rows=rows, sink=sink, **words), overrides=[f"{k}={v}" for k, v in place.items()])


def by_identity(table: pa.Table) -> dict:
    return {(row["card"], row["ts"], row["id"]): row for row in table.to_pylist()}


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """The table after a run and after a second one with another definition, what was said, and a batch over all."""
    folder = tmp_path_factory.mktemp("changes")
    run(pipeline(folder, 2000, **BEFORE), spark=spark)
    before = upserted_table(folder / "results")
    said: list[list[str]] = []
    run(pipeline(folder, 4000, **AFTER), spark=spark, on_change=said.append)
    fresh = tmp_path_factory.mktemp("fresh")
    run(pipeline(fresh, 4000, **AFTER), spark=spark)
    return before, upserted_table(folder / "results"), said, upserted_table(fresh / "results"), folder


def test_the_differences_are_named_before_the_query_starts(runs):
    assert runs[2] == [['windows is ["1m", "5m"], was ["5m"]', "aggregate top is new", "aggregate n is gone"]]


def test_results_that_were_not_final_equal_those_of_a_stream_that_always_had_the_definition(runs):
    """Every row is there, and rows from the horizon of the first run on have all that the definition asks for."""
    before, after, _, fresh, _ = runs
    got, wanted = by_identity(after), by_identity(fresh)
    assert set(got) == set(wanted)
    names = [name for name in fresh.column_names if "_" in name]
    whole = {place for place, row in got.items() if row["top_5m"] is not None}
    assert {place: {n: got[place][n] for n in names} for place in whole} == {
        place: {n: wanted[place][n] for n in names} for place in whole
    }
    newest = max(row["ts"] for row in before.to_pylist())
    pending = {place for place, row in wanted.items() if row["ts"] > newest}
    assert pending < whole  # and rows before it that were not final at the change


def test_results_that_were_final_keep_what_was_computed_for_them(runs):
    """A reader sees null in the columns that came later, and the old ones as they were."""
    before, after, _, fresh, _ = runs
    got, old, wanted = by_identity(after), by_identity(before), by_identity(fresh)
    final = [place for place, row in got.items() if row["top_5m"] is None]
    assert final and all(got[place]["n_5m"] == old[place]["n_5m"] for place in final)
    assert all(got[place]["total_5m"] == wanted[place]["total_5m"] for place in final)


def test_rolling_compares_with_the_checkpoint_that_it_is_given(spark, runs, tmp_path):
    """Before a query starts; a checkpoint that is not there yet has nothing to compare."""
    made = pipeline(runs[4], 4000, **AFTER)
    rows, words = frames_of(made, spark, streaming=True).rows, made.rolling.arguments()
    wider = words | {"windows": ["1h"]}
    with pytest.raises(CorruptStateError, match="window 1h needs rows that have expired: they are stored for 5m"):
        rolling(rows, **wider, checkpoint=str(runs[4] / "checkpoint"))
    assert rolling(rows, **wider, checkpoint=str(tmp_path / "new")).isStreaming
    assert rolling(rows, **words, checkpoint=str(runs[4] / "checkpoint")).isStreaming
    past = spark.sql("SELECT 1 AS _sash_position")
    assert rolling(rows, **words, checkpoint=str(runs[4] / "checkpoint"), history=past).isStreaming  # it is not read
    with pytest.raises(ArgumentError, match="history must have the column '_sash_definition'"):
        rolling(rows, **words, checkpoint=str(tmp_path / "new"), history=past)


def test_another_condition_for_deletes_is_refused(spark, runs):
    """The rows in the checkpoint were marked by the one before; spaces do not matter."""
    changed = pipeline(runs[4], 4000, **AFTER)

    def with_retract(condition: str):
        rolled = changed.rolling.model_copy(update={"retract": condition})
        return changed.model_copy(update={"rolling": rolled})

    rows = frames_of(changed, spark, streaming=True).rows
    words, place = with_retract("op = 'gone'").rolling.arguments(), str(runs[4] / "checkpoint")
    said = """retract is "op = 'gone'", was "op = 'delete'", and cannot change"""
    with pytest.raises(CorruptStateError, match=said):
        rolling(rows, **words, checkpoint=place)
    words = with_retract("op  =\n 'delete'").rolling.arguments()
    assert rolling(rows, **words, checkpoint=place).isStreaming
