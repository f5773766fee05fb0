"""Pipelines that write to PostgreSQL: the example of the documentation, and files whose connection cannot be used."""

import json
import re
import tomllib
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from sash.pipeline.config.read import PipelineFileError, parse
from sash.pipeline.run import sinks
from sash.pipeline.run.dataframes import frames_of
from sash.pipeline.run.error_text import PipelineError
from sash.pipeline.run.run import run

PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"
ROWS = [
    {"card": "a", "at": "2026-01-01T00:10:30Z", "amount": 1.5},
    {"card": "a", "at": "2026-01-01T00:11:30Z", "amount": 2.0},
    {"card": "b'\\", "at": "2026-01-01T00:11:00Z", "amount": 4.0},
]


@pytest.fixture
def example(tmp_path):
    """The example of the documentation as text, over files of the test's own; `changed` are overrides."""
    text = next(
        block for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "RESULTS_DSN" in block
    )
    assert tomllib.loads(text)["sink"]["format"] == "postgresql"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(json.dumps(row) for row in ROWS))

    def made(**changed):
        given = {"source.path": tmp_path / "in", "checkpoint": tmp_path / "checkpoint", **changed}
        return parse(text, overrides=[f"{name.replace('__', '.')}={value}" for name, value in given.items()])

    return made


def totals(dsn, table="card_totals"):
    with closing(psycopg.connect(dsn)) as connection:
        query = f"SELECT card, max(n_1h), max(total_1h), count(*) FROM {table} GROUP BY card ORDER BY card"
        return connection.execute(query).fetchall()


def test_the_example_writes_the_same_totals_as_a_stream_and_as_a_batch(
    spark, example, postgres_dsn, monkeypatch, tmp_path
):
    """An hour of minutes with a count, and a day of minutes with the other window; a second run changes nothing."""
    monkeypatch.setenv("RESULTS_DSN", postgres_dsn)
    wanted = [("a", 2, 3.5, 1441), ("b'\\", 1, 4.0, 1440)]
    for _ in range(2):
        run(example(mode="available-now", finish="true"), spark=spark)
        assert totals(postgres_dsn) == wanted
    run(example(mode="batch", sink__table="backfill"), spark=spark)
    assert totals(postgres_dsn, "backfill") == wanted
    with pytest.raises(PipelineFileError, match=r"sink\.table: was written by a stream, .*; use another table\."):
        run(example(mode="batch"), spark=spark)
    assert totals(postgres_dsn) == wanted


SECRET = "hunter2"


@pytest.mark.parametrize(
    "variable, said",
    [
        (
            None,
            "sink.options.dsn_env: must be the name of an environment variable, got 'RESULTS_DSN', which is not set.",
        ),
        (
            f"{SECRET} {SECRET}",
            "sink.options.dsn_env: must name a variable that holds, unlike RESULTS_DSN, a DSN such as",
        ),
        (f"postgresql://u:{SECRET}@h:port/", None),
    ],
)
def test_a_dsn_that_cannot_be_used_is_refused_before_anything_runs(spark, example, monkeypatch, variable, said):
    """By the name of the key and the variable; what the variable holds is not repeated."""
    monkeypatch.delenv("RESULTS_DSN", raising=False)
    if variable is not None:
        monkeypatch.setenv("RESULTS_DSN", variable)
    pipeline = example()
    frames = frames_of(pipeline, spark, streaming=True)
    if said is None:  # libpq finds the port wrong when it connects
        return sinks.check(pipeline, frames.results)
    with pytest.raises(PipelineFileError) as told:
        sinks.check(pipeline, frames.results)
    assert said in str(told.value) and SECRET not in str(told.value)
    assert SECRET not in repr(told.value.__cause__) and told.value.__cause__.__cause__ is None


def test_a_server_that_cannot_be_reached_is_said_without_the_password(spark, example, monkeypatch):
    monkeypatch.setenv("RESULTS_DSN", f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    with pytest.raises(PipelineError, match=r"totals: PostgreSQL cannot be reached: .*refused") as told:
        run(example(mode="batch"), spark=spark)
    assert SECRET not in str(told.value) and "\n" not in str(told.value)
    with pytest.raises(PipelineError, match=r"totals: PostgreSQL cannot be reached: .*refused") as told:
        run(example(mode="available-now", finish="true"), spark=spark)
    assert SECRET not in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"sink__path": "out"}, 'sink.path: cannot be combined with format = "postgresql"; name the server in'),
        (
            {"sink__mode": "overwrite"},
            "sink.mode: must be omitted for an upsert, which merges rows; a batch can",
        ),
        ({"sink__options__dns": "x"}, "sink.options.dns: unknown key; did you mean `dsn`?"),
        ({"sink__options__dsn": "host=h"}, "sink.options.dsn: cannot be combined with `dsn_env`; remove one of them."),
        ({"sink__options__dsn_env": 7}, "sink.options.dsn_env: must be a string, got 7."),
        ({"sink__options": f"{{dsn = 'host=h password={SECRET}'}}"}, "sink.options.dsn: must not hold a password; use"),
        (
            {"sink__options": f"{{dsn = 'postgres://u:{SECRET}@h/x'}}"},
            "sink.options.dsn: must not hold a password; use",
        ),
        ({"sink": '{format = "postgresql"}'}, 'sink.table: missing; format = "postgresql" needs the name of the table'),
        ({"sink": '{format = "postgres"}'}, "sink.format: must be 'postgresql', got 'postgres'."),
    ],
)
def test_mistakes_in_the_file_are_named_with_their_key(example, changed, said):
    with pytest.raises(PipelineFileError) as told:
        example(**changed)
    assert str(told.value).split(": ", 1)[1].startswith(said) and SECRET not in str(told.value)


def test_dsns_without_a_password_are_accepted(example):
    """Also those with a user, a port and an @."""
    for dsn in ("host=h user=u", "postgresql://u@h:5432/x", "postgresql://h:5432,h2:5432/x", ""):
        assert example(sink__options=f"{{dsn = '{dsn}'}}").sink.options["dsn"] == dsn
