"""sash check: what a pipeline file would do, without doing it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sash.cli.environment import ready
from sash.cli.options import File, Mode, Sets, Traceback, pipeline_of
from sash.durations import name_of
from sash.pipeline.config.read import Pipeline

_RATE, _KEYS = 1000.0, 1000  # what is assumed where nothing is told


def check(
    file: File = Path("pipeline.toml"),
    mode: Mode = None,
    sets: Sets = None,
    rows_per_second: Annotated[float | None, typer.Option(help="Of the source, for the size of the state.")] = None,
    keys: Annotated[int | None, typer.Option(help="How many have rows at a time, for the size of the state.")] = None,
    traceback: Traceback = False,
) -> None:
    """Check a pipeline file: every key, and every column by the source's own schema. No row is read.

    It shows the way from the source to the sink, the columns of the results, and about how large the state will be.
    The exit code is 0 for a file that can be run and 2 for one with a mistake; all of them are told, with their lines.
    """
    ready()
    pipeline = pipeline_of(file, mode, sets)
    from sash.pipeline.run.dataframes import frames_of
    from sash.pipeline.run.sinks import upsert_of
    from sash.pipeline.run.spark_session import session_of

    streaming = pipeline.mode != "batch"
    frames = frames_of(pipeline, session_of(pipeline, quiet=not traceback), streaming=streaming)
    if pipeline.sink.format == "upsert":
        upsert_of(pipeline, frames.results)
    console = Console(highlight=False)
    console.print(_way(pipeline, frames))
    console.print(_columns(frames.results.schema))
    if streaming:
        _state(console, pipeline, frames, rows_per_second, keys)
    console.print(f"{file} is fine.", markup=False)


def _way(pipeline: Pipeline, frames: Any) -> Tree:
    """Return the way from the source to the sink as a tree."""
    source, rolling, sink = pipeline.source, pipeline.rolling, pipeline.sink
    tree = Tree(Text(f"{pipeline.name} ({pipeline.mode})"))
    origin = tree.add(Text(f"source: {source.format or 'table'} {source.path or source.table or ''}".rstrip()))
    origin.add(Text(", ".join(name for name in frames.source.columns if not name.startswith("__sash_"))))
    for step in pipeline.steps:
        what = f"select: {', '.join(step.select)}" if step.select is not None else f"where: {step.where}"
        tree.add(Text(what))
    tree.add(Text(f"quarantine: {_set_aside(pipeline)}"))
    if pipeline.mode != "batch":
        tree.add(Text(f"watermark: {rolling.time} less {source.watermark}, and {rolling.lateness or 'no'} lateness"))
    anchors = "each row" if rolling.every is None else f"every {rolling.every}"
    windows = tree.add(Text(f"windows: {', '.join(name_of(size) for size in rolling.windows)} at {anchors}"))
    windows.add(Text(f"by {', '.join(rolling.keys) or 'nothing, all rows together'}"))
    for name, monoid in rolling.aggs.items():
        windows.add(Text(f"{name} = {monoid!r}"))
    target = tree.add(Text(f"sink: {sink.format} {sink.path or sink.table or ''}".rstrip()))
    target.add(Text(f'emit "{rolling.asked.emit}"'))
    return tree


def _set_aside(pipeline: Pipeline) -> str:
    wanted = pipeline.quarantine
    reasons = [f"no {pipeline.rolling.time}"]
    if wanted.ahead is not None:
        reasons.append(f"more than {wanted.ahead} ahead of {wanted.ahead_of or 'the clock'}")
    if pipeline.rolling.id is not None:
        reasons.append(f"no {pipeline.rolling.id}")
    if wanted.null_keys == "quarantine":
        reasons.append("a null key")
    where = f"to {wanted.path}" if wanted.path is not None else "counted only"
    return f"malformed, {', '.join(reasons)}: {where}"


def _columns(schema: Any) -> Table:
    table = Table("column of the results", "type", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for field in schema:
        table.add_row(Text(field.name), Text(field.dataType.simpleString()))
    return table


def _state(console: Console, pipeline: Pipeline, frames: Any, rate: float | None, keys: int | None) -> None:
    """Show about how large the state will be, and what was assumed."""
    from sash.pipeline.run.state_size import estimate
    from sash.spark.retractions import with_mark
    from sash.spark.stream.query import plan_of

    marked, asked = with_mark(frames.rows, pipeline.rolling.asked)
    plan = plan_of(marked.schema, asked, pipeline.rolling.buckets)
    given = pipeline.source.options if pipeline.source.format == "demo" else {}
    rate = rate or float(given.get("rate", _RATE))
    keys = keys or int(given.get("keys", _KEYS))
    found = estimate(plan, str(pipeline.source.watermark), rows_per_second=rate, keys=keys)
    assumed = f"assuming {rate:g} rows/s and {keys:,} keys; --rows-per-second and --keys say otherwise"
    for line in ("state, about:", *found.told(), assumed):
        console.print(line if line.endswith(":") else f"  {line}", markup=False, soft_wrap=True)
