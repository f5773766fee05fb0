"""[at] of a pipeline on Spark: stopped and resumed, the target holds what a batch over everything says."""

import datetime as dt
import os
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash import monoids, rolling
from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run.dataframes import frames_of
from sash.pipeline.run.run import Outcome, run
from sash.spark import upserted_table

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
EVENTS = pa.schema({"card": pa.string(), "ts": pa.timestamp("us", "UTC"), "amount": pa.int64()})
ASKED = pa.schema(
    {"label_ts": pa.timestamp("us", "UTC"), "card": pa.string(), "label_id": pa.int64(), "fraud": pa.bool_()}
)
FILES, MINUTES = 4, 30  # files of each, and how long each of them lasts
LATE, UNDATED, UNNAMED, FILTERED = 900, 901, None, -1
EMITS = {
    # Its first files are a history: the state is seeded with them, and no results of theirs are written.
    "final": 'emit = "final"\nlate = "emit"',
    "update": 'emit = "update"\nlateness = "40 minutes"',
}


def minutes(number: float) -> dt.datetime:
    return START + dt.timedelta(minutes=number)


def events_of(file: int) -> list[dict[str, Any]]:
    """Events of half an hour, and some that are up to twenty minutes late; every fourth is refused by a step."""
    rng = random.Random(file)
    return [
        {
            "card": rng.choice(["a", "b", None]),
            "ts": minutes(MINUTES * file + rng.uniform(-20 if file and n % 5 == 0 else 0, MINUTES)),
            "amount": -1 if n % 4 == 0 else rng.randrange(100),
        }
        for n in range(40)
    ]


def questions_of(file: int) -> list[dict[str, Any]]:
    """Questions of half an hour, of a card that has no events among others."""
    rng = random.Random(100 + file)
    asked = [
        {
            "label_ts": minutes(MINUTES * file + rng.uniform(0, MINUTES)),
            "card": rng.choice(["a", "b", "z", None]),
            "label_id": 10 * file + n,
            "fraud": rng.choice([True, False]),
        }
        for n in range(9)
    ]
    return asked + (unusable() if file == FILES - 1 else [])


def unusable() -> list[dict[str, Any]]:
    """One that is far too late, one without a time, one without an id, and one that a step refuses."""
    usual = {"card": "a", "fraud": True}
    return [
        {**usual, "label_ts": minutes(-600), "label_id": LATE},
        {**usual, "label_ts": None, "label_id": UNDATED},
        {**usual, "label_ts": minutes(MINUTES * FILES), "label_id": UNNAMED},
        {**usual, "label_ts": minutes(MINUTES * FILES), "label_id": FILTERED},
    ]


def write(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema, at: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{at}"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), hidden)
    os.utime(hidden, (1_000_000_000 + at, 1_000_000_000 + at))  # Spark orders files by the second
    hidden.rename(folder / f"{at}.parquet")


def text_of(folder: Path, emit: str) -> str:
    past = f'[history]\nformat = "parquet"\npath = "{folder}/past"\n[[history.steps]]\nwhere = "amount >= 0"\n'
    return f"""
mode = "streaming"
checkpoint = "{folder}/checkpoint"
finish = true
[source]
format = "parquet"
path = "{folder}/events"
schema = "card string, ts timestamp, amount long"
watermark = "20 minutes"
options = {{ maxFilesPerTrigger = 1 }}
[[steps]]
where = "amount >= 0"
{past if emit == "final" else ""}
[at]
format = "parquet"
path = "{folder}/asked"
schema = "label_ts timestamp, card string, label_id long, fraud boolean"
watermark = "1 minute"
options = {{ maxFilesPerTrigger = 1 }}
time = "label_ts"
id = "label_id"
[[at.steps]]
where = "label_id >= 0 OR label_id IS NULL"
[quarantine]
path = "{folder}/quarantine"
[rolling]
keys = ["card"]
time = "ts"
windows = ["15m", "1h"]
closed = "left"
buckets = 2
{EMITS[emit]}
[rolling.aggs]
n = "count()"
total = "sum(amount)"
newest = "last(amount)"
[[output.steps]]
select = ["*", "total_1h - total_15m AS before"]
[sink]
format = "upsert"
path = "{folder}/out"
"""


def until(batches: int, text: str, spark: Any) -> Outcome:
    """Run a stream, and stop it after some micro-batches with rows."""
    stop, seen = threading.Event(), []

    def look(progress: Any) -> None:
        seen.append(progress.rows)
        if sum(map(bool, seen)) >= batches:
            stop.set()

    outcome = run(parse(text), spark=spark, stop=stop, on_progress=look)
    assert outcome.stopped
    return outcome


def expected(first: int, unanswered: tuple[Any, ...]) -> list[dict[str, Any]]:
    """What the engine says of all events, and of questions from a file on, in process."""
    events = [row for file in range(FILES) for row in events_of(file) if row["amount"] >= 0]
    asked = [row for file in range(first, FILES) for row in questions_of(file) if row["label_id"] not in unanswered]
    results = rolling(
        pa.Table.from_pylist(events, schema=EVENTS), at=pa.Table.from_pylist(asked, schema=ASKED), at_time="label_ts",
        keys="card", time="ts", windows=["15m", "1h"], closed="left",
        aggs={"n": monoids.count(), "total": monoids.sum("amount"), "newest": monoids.last("amount")},
    )  # fmt: skip
    return plain(results)


def plain(results: pa.Table) -> list[dict[str, Any]]:
    """Results by their ids, without what only a stream has."""
    kept = [name for name in results.column_names if name not in ("revision", "deleted", "before", "late")]
    return sorted(results.select(kept).to_pylist(), key=lambda row: row["label_id"])


def set_aside(folder: Path) -> dict[str, list[str]]:
    """The questions and events in the quarantine, by reason, as text."""
    found: dict[str, list[str]] = {}
    for file in sorted((folder / "quarantine").glob("batch=*/*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found.setdefault(f"{file.name.split('-')[0]} {row['reason']}", []).append(row["row"])
    return found


@pytest.fixture(params=EMITS)
def ran(spark: Any, tmp_path: Path, request: Any) -> Any:
    """A stream over some files that is stopped, resumed with the others, and finished."""
    emit, first = request.param, 1 if request.param == "final" else 0
    if first:
        write(tmp_path / "past", events_of(0), EVENTS, 0)
    for file in range(FILES):
        if file == 2:
            before = until(2 - first, text_of(tmp_path, emit), spark)
        if file >= first:
            write(tmp_path / "events", events_of(file), EVENTS, file)
            write(tmp_path / "asked", questions_of(file), ASKED, file)
    after = run(parse(text_of(tmp_path, emit)), once=True, spark=spark)
    return emit, tmp_path, first, before, after


def test_a_stream_that_is_stopped_and_resumed_answers_as_a_batch_does(ran: Any, spark: Any) -> None:
    """Once for each question, with its own columns; what cannot be used is set aside and counted."""
    emit, folder, first, before, after = ran
    held = upserted_table(folder / "out")
    unanswered = (LATE, UNDATED, UNNAMED, FILTERED)
    assert plain(held) == expected(first, unanswered)
    assert held.column_names[:4] == ASKED.names and held["before"].null_count < held.num_rows
    assert ("revision" in held.column_names) == (emit == "update")
    assert (max(held["revision"].to_pylist()) > 1 and after.revised > 0) if emit == "update" else after.revised == 0

    asked = (FILES - first) * 9 + 3
    assert before.questions + after.questions == asked and after.late_questions == 1
    assert (before.quarantined, after.quarantined, before.late + after.late) == (0, 2, 0)
    aside = set_aside(folder)
    assert {name: len(rows) for name, rows in aside.items()} == {
        "asked null_time": 1,
        "asked null_id": 1,
        **({"late late": 1} if emit == "final" else {}),
    }
    if emit == "final":
        assert f'"label_id":{LATE}' in aside["late late"][0] and '"fraud":true' in aside["late late"][0]

    for file in range(FILES):
        write(folder / "events", events_of(file), EVENTS, file)
    text = text_of(folder, emit).replace('"streaming"', '"batch"').replace("finish = true", "")
    text = text.replace(f'{folder}/out"', f'{folder}/batch"')
    a, b = text.index("[history]") if first else 0, text.index("[at]")
    outcome = run(parse(text[:a] + text[b:] if first else text), spark=spark)
    assert (outcome.questions, outcome.late_questions, outcome.quarantined) == (asked, 0, 2)
    assert plain(upserted_table(folder / "batch")) == expected(first, unanswered[1:])  # nothing is late


def test_mistakes_in_columns_of_questions_have_their_lines(spark: Any, tmp_path: Path) -> None:
    """They are found before anything runs."""
    write(tmp_path / "events", events_of(0), EVENTS, 0)
    write(tmp_path / "asked", questions_of(0), ASKED, 0)
    text = text_of(tmp_path, "update")

    def refusal(old: str, new: str, near: str) -> str:
        changed = text.replace(old, new, 1)
        assert changed != text
        with pytest.raises(PipelineFileError) as caught:
            frames_of(parse(changed), spark, streaming=True)
        line = next(number for number, one in enumerate(changed.splitlines(), 1) if near in one)
        said = str(caught.value)
        assert said.startswith(f"pipeline.toml:{line}: "), said
        return said.split(": ", 1)[1]

    columns = "the rows of [at] have label_ts, card, label_id, fraud."
    assert refusal('"label_ts"', '"nothing"', 'time = "n') == f"at.time: column 'nothing' does not exist; {columns}"
    assert refusal('"label_id"', '"nothing"', 'id = "n') == f"at.id: column 'nothing' does not exist; {columns}"
    assert refusal("label_id >=", "nothing >=", "OR label_id IS NULL").startswith("at.steps[0].where: ")
    assert refusal("/asked", "/nowhere", "/nowhere").startswith("at.path: ")
    step = 'where = "label_id >= 0 OR label_id IS NULL"'
    select = 'select = ["label_ts", "cast(1 AS int) card", "label_id"]'
    assert refusal(step, select, "[at]").startswith("at: at must hold string in the column 'card'")
    assert refusal(step, 'select = ["label_ts", "label_id"]', "keys = ").startswith(
        "rolling.keys[0]: column 'card' does"
    )
    taken = 'select = ["*", "1 AS n_1h"]'
    assert "already has a column 'n_1h'" in refusal(step, taken, 'n = "count()"')
    assert refusal('time = "label_ts"', 'time = "fraud"', "time =").startswith("at.time: ")
