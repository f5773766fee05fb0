"""[history] of a pipeline: one command writes the backfill and then the stream, whatever is interrupted."""

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.pipeline.config.read import Pipeline, PipelineFileError, parse
from sash.pipeline.run import history, sinks
from sash.pipeline.run.dataframes import frames_of
from sash.pipeline.run.error_text import PipelineError
from sash.pipeline.run.run import run
from sash.spark import export_checkpoint, upserted_table

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema({"card": pa.string(), "at": pa.timestamp("us", "UTC"), "amount": pa.int64(), "id": pa.int64()})


def rows_of(number: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows about a minute apart, not quite in order."""
    chance = random.Random(first)
    return [
        {
            "card": chance.choice(["a", "b", None]),
            "at": START + dt.timedelta(seconds=60 * at + chance.randrange(-90, 90)),
            "amount": chance.randrange(100),
            "id": at,
        }
        for at in range(first, first + number)
    ]


def write(path: Path, rows: list[dict[str, Any]], **more: pa.DataType) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


def text_of(folder: Path, rolling: str, sink: str = "") -> str:
    return f"""
mode = "available-now"
checkpoint = "{folder}/checkpoint"
finish = true
[source]
format = "parquet"
path = "{folder}/in"
schema = "card string, at timestamp, amount long, id long"
watermark = "5 minutes"
[history]
format = "parquet"
path = "{folder}/past"
[[history.steps]]
where = "amount < 90"
[[steps]]
where = "amount < 90"
[rolling]
keys = ["card"]
time = "at"
id = "id"
windows = ["10m", "30m"]
lateness = "3 minutes"
{rolling}
[rolling.aggs]
n = "count()"
total = "sum(amount)"
[sink]
{sink or f'format = "upsert"{chr(10)}path = "{folder}/out"'}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ninety rows of the past, and a stream that begins with its last five."""
    past, after = rows_of(90), rows_of(40, 90)
    write(tmp_path / "past" / "0.parquet", past)
    write(tmp_path / "in" / "0.parquet", past[-5:] + after)
    return tmp_path


def batch_over_everything(spark: Any, folder: Path, rolling: str) -> list[dict[str, Any]]:
    write(folder / "all" / "0.parquet", rows_of(90) + rows_of(40, 90))
    text = text_of(folder, rolling).replace(f"{folder}/in", f"{folder}/all").replace("finish = true", "")
    text = text.replace('"available-now"', '"batch"')
    a, b = text.index("[history]"), text.index("[[steps]]")
    frames = frames_of(parse(text[:a] + text[b:]), spark, streaming=False)
    return ordered(frames.results.toArrow())


def ordered(table: pa.Table) -> list[dict[str, Any]]:
    kept = [name for name in table.column_names if name not in ("revision", "deleted")]
    return sorted(table.select(kept).to_pylist(), key=repr)


EVERY = 'every = "2 minutes"\nemit = "update"'


@pytest.mark.parametrize("rolling", [EVERY, 'emit = "final"'])
def test_the_target_holds_what_a_batch_over_everything_says(spark, folder, rolling):
    """The backfill is counted like a batch, and the stream reads none of its rows."""
    seen = []
    outcome = run(parse(text_of(folder, rolling)), spark=spark, on_progress=seen.append)
    assert seen[0].rows < 90 and seen[0].emitted > 0  # the backfill, after its steps
    assert outcome.rows_in == sum(row.rows for row in seen) < 135
    assert ordered(upserted_table(folder / "out")) == batch_over_everything(spark, folder, rolling)


@pytest.mark.parametrize("identified", [True, False], ids=["rows", "panes"])
def test_an_export_goes_on_in_other_buckets(spark, folder, identified):
    """Results after it are those of one stream, in a new checkpoint with more buckets and a new target."""
    text = text_of(folder, EVERY + "\nbuckets = 2").replace("finish = true", "")
    text = text if identified else text.replace('id = "id"\n', "")
    a, b = text.index("[history]"), text.index("[[steps]]")
    run(parse(text[:a] + text[b:]), spark=spark)
    said = shown(folder / "out")
    export_checkpoint(str(folder / "checkpoint"), str(folder / "rows"), spark=spark)

    write(folder / "later" / "0.parquet", rows_of(60, 130))
    other = text.replace("buckets = 2", "buckets = 5").replace(f"{folder}/past", f"{folder}/rows")
    other = other.replace('[[history.steps]]\nwhere = "amount < 90"\n', "")
    for place, moved in (("in", "later"), ("out", "out2"), ("checkpoint", "checkpoint2")):
        other = other.replace(f'{folder}/{place}"', f'{folder}/{moved}"')
    run(parse(other), spark=spark)
    now = shown(folder / "out2")

    write(folder / "in" / "1.parquet", rows_of(60, 130))
    run(parse(text[:a] + text[b:]), spark=spark)  # the same rows after the same ones, in the old checkpoint
    assert said | now == shown(folder / "out")
    revisions = upserted_table(folder / "out2")["revision"].to_pylist()
    assert min(revisions) > 1 and set(now) - set(said) and set(said) - set(now)


def shown(place: Path) -> dict[Any, dict[str, Any]]:
    """The results in a table by their identity."""
    return {(row["card"], row["window_end"]): row for row in ordered(upserted_table(place))}


class Killed(Exception):
    """What a run dies of."""


def interrupted(monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, spark: Any, place: Any, name: str) -> None:
    """Let a run die after a call has done its work."""
    call = getattr(place, name)

    def dies(*given: Any) -> None:
        call(*given)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, name, dies)
        with pytest.raises(PipelineError, match="Killed"):
            run(pipeline, spark=spark)


def test_a_backfill_that_is_interrupted_begins_again_and_one_that_is_complete_does_not(spark, folder, monkeypatch):
    """Killed when its rows are written but not noted, then when they are noted, then after the stream."""
    pipeline = parse(text_of(folder, EVERY))
    interrupted(monkeypatch, pipeline, spark, sinks, "write")
    assert not (folder / "checkpoint" / history.DONE).exists()
    interrupted(monkeypatch, pipeline, spark, history, "finish")
    assert (folder / "checkpoint" / history.DONE).exists()
    monkeypatch.setattr(history, "backfill_of", None)
    run(pipeline, spark=spark)
    for file in (folder / "past").iterdir():
        file.unlink()
    (folder / "past").rmdir()
    run(pipeline, spark=spark)  # the checkpoint has all of it
    assert ordered(upserted_table(folder / "out")) == batch_over_everything(spark, folder, EVERY)


def mistakes_of(text: str) -> dict[str, str]:
    with pytest.raises(PipelineFileError) as caught:
        parse(text)
    return {".".join(map(str, mistake.path)): mistake.message for mistake in caught.value.mistakes}


def test_mistakes_in_a_history_are_found(tmp_path):
    """Sinks that cannot replace rows, batches, and keys that are not those of a source."""
    text = text_of(tmp_path, EVERY)
    files = text_of(tmp_path, EVERY, f'format = "parquet"\npath = "{tmp_path}/out"')
    assert mistakes_of(files)["history"] == (
        "needs a sink whose rows replace those before them, because a backfill that is interrupted begins again: "
        '"upsert", "delta", "postgresql" or "kafka", got \'parquet\'.'
    )
    batch = mistakes_of(text.replace('"available-now"', '"batch"'))
    assert batch["history"] == "must be omitted with mode = 'batch'; it is what came before a stream."
    keys = '[history]\nwatermark = "1 minute"\nspeed = 3\n'
    found = mistakes_of(text.replace("[history]\n", keys).replace(f'path = "{tmp_path}/past"', ""))
    assert found["history.watermark"] == "must be omitted; the history ends with its newest row."
    assert found["history.path"] == "missing; format = 'parquet' needs the path of the files to read."
    assert found["history.speed"].startswith("unknown key")
    both = text.replace('where = "amount < 90"\n[[steps]]', 'where = "x"\nselect = "y"\n[[steps]]')
    assert mistakes_of(both)["history.steps.0"] == "a step must have exactly one of `where` and `select`."


def test_mistakes_in_the_columns_of_a_history_have_its_lines(spark, folder):
    """They are found before anything runs."""

    def refusal(old: str, new: str) -> str:
        with pytest.raises(PipelineFileError) as caught:
            frames_of(parse(text_of(folder, EVERY).replace(old, new, 1)), spark, streaming=True)
        return str(caught.value)

    assert "history.path: " in refusal("/past", "/nowhere")
    step = '[[history.steps]]\nwhere = "amount < 90"'
    assert "history.steps[0].where: " in refusal(step, step.replace("amount", "nothing"))
    select = '[[history.steps]]\nselect = ["card", "at", "cast(amount as int) amount", "id"]'
    assert "history: history must hold bigint in the column 'amount'" in refusal(step, select)
    missing = '[[history.steps]]\nselect = ["card", "at", "id"]'
    assert "column 'amount' does not exist; the rows of [history] have card, at, id." in refusal(step, missing)
