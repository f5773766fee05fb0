"""sash check: validate a pipeline file and describe what it would do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sash.cli.environment import ready
from sash.cli.options import File, Mode, Sets, Traceback, pipeline_of
from sash.durations import name_of
from sash.pipeline.config.model import Source, Step
from sash.pipeline.config.read import Pipeline

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sash.pipeline.run.dataframes import Frames

_RATE, _KEYS = 1000.0, 1000  # assumed unless given


def check(
    file: File = Path("pipeline.toml"),
    mode: Mode = None,
    sets: Sets = None,
    rows_per_second: Annotated[
        float | None, typer.Option(help="Rate of the source, to estimate the size of the state.")
    ] = None,
    keys: Annotated[int | None, typer.Option(help="Number of active keys, to estimate the size of the state.")] = None,
    traceback: Traceback = False,
) -> None:
    """Validate a pipeline file without running it.

    Checks the keys, and the columns against the schema of the source; reads no rows. Prints the steps from the source
    to the sink, the columns of the results, and an estimate of the size of the state. Exit codes: 0 valid, 2 invalid;
    all mistakes are reported, with their lines.
    """
    ready()
    pipeline = pipeline_of(file, mode, sets)
    from sash.pipeline.run import sinks
    from sash.pipeline.run.checkpoint import checkpoint_of
    from sash.pipeline.run.dataframes import frames_of, require_own_checkpoint
    from sash.pipeline.run.spark_session import session_of

    streaming = pipeline.mode != "batch"
    spark = session_of(pipeline, quiet=not traceback)
    frames = frames_of(pipeline, spark, streaming=streaming)
    sinks.check(pipeline, frames.results)
    changes = require_own_checkpoint(pipeline, frames, checkpoint_of(pipeline, spark)) if streaming else []
    console = Console(highlight=False)
    console.print(_steps(pipeline, frames))
    console.print(_columns(frames.results.schema))
    if streaming:
        _state(console, pipeline, frames, rows_per_second, keys)
    if changes:
        text = f"The definition differs from that of the checkpoint: {'; '.join(changes)}. Its state can follow."
        console.print(text, markup=False, soft_wrap=True)
    for warning in pipeline.warnings:
        console.print(f"warning: {warning}", markup=False, soft_wrap=True)
    console.print(f"{file} is valid.", markup=False)


def _steps(pipeline: Pipeline, frames: "Frames") -> Tree:
    """Return the steps from the source to the sink as a tree."""
    source, rolling, sink = pipeline.source, pipeline.rolling, pipeline.sink
    tree = Tree(Text(f"{pipeline.name} ({pipeline.mode})"))
    origin = tree.add(Text(f"source: {_place(source)}"))
    origin.add(Text(", ".join(name for name in frames.source.columns if not name.startswith("__sash_"))))
    for step in pipeline.steps:
        tree.add(_step(step))
    if pipeline.history is not None:
        tree.add(Text(f"history: {_place(pipeline.history)}, read by a new checkpoint"))
    if pipeline.at is not None and frames.questions is not None:
        asked = tree.add(Text(f"at: {_place(pipeline.at)}"))
        asked.add(Text(", ".join(frames.questions.df.columns)))
        for step in pipeline.at.steps:
            asked.add(_step(step))
        if pipeline.mode != "batch":
            asked.add(Text(f"watermark: {pipeline.anchor_time} - {pipeline.at.watermark}; the smaller one counts"))
    tree.add(Text(f"quarantine: {_quarantine(pipeline)}"))
    if pipeline.mode != "batch":
        tree.add(Text(f"watermark: {rolling.time} - {source.watermark}, lateness {rolling.lateness or 'none'}"))
    windows = tree.add(Text(_windows(pipeline)))
    windows.add(Text(f"by {', '.join(rolling.keys)}" if rolling.keys else "over all rows, without keys"))
    for name, monoid in rolling.aggs.items():
        windows.add(Text(f"{name} = {monoid!r}"))
    for step in pipeline.output.steps:
        tree.add(_step(step))
    target = tree.add(Text(f"sink: {sink.format} {sink.path or sink.table or sink.topic or ''}".rstrip()))
    target.add(Text(f'emit "{rolling.spec.emit}"'))
    return tree


def _windows(pipeline: Pipeline) -> str:
    if pipeline.rolling.gap is not None:
        return f"sessions: events at most {name_of(pipeline.rolling.gap)} apart"
    named = ", ".join(_window(name, size) for name, size in pipeline.rolling.spec.windows.items())
    return f"windows: {named} {_anchors(pipeline)}"


def _anchors(pipeline: Pipeline) -> str:
    if pipeline.at is not None:
        return f"for each question, as of {pipeline.anchor_time}"
    return "for each row" if pipeline.rolling.every is None else f"every {pipeline.rolling.every}"


def _window(name: str, size: Any) -> str:
    return name if name == name_of(size) else f"{name} = {size}"


def _place(source: Source) -> str:
    return f"{source.format or 'table'} {source.path or source.table or ', '.join(source.topic or [])}".rstrip()


def _step(step: Step) -> Text:
    return Text(f"select: {', '.join(step.select)}" if step.select is not None else f"where: {step.where}")


def _quarantine(pipeline: Pipeline) -> str:
    settings = pipeline.quarantine
    reasons = [f"null {pipeline.rolling.time}"]
    if settings.ahead is not None:
        reasons.append(f"more than {settings.ahead} ahead of {settings.ahead_of or 'the clock'}")
    if pipeline.rolling.id is not None:
        reasons.append(f"null {pipeline.rolling.id}")
    if settings.null_keys == "quarantine":
        reasons.append("null key")
    target = f"written to {settings.path}" if settings.path is not None else "counted only"
    return f"malformed, {', '.join(reasons)}: {target}"


def _columns(schema: "StructType") -> Table:
    table = Table("result column", "type", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for field in schema:
        table.add_row(Text(field.name), Text(field.dataType.simpleString()))
    return table


def _state(console: Console, pipeline: Pipeline, frames: "Frames", rate: float | None, keys: int | None) -> None:
    """Print an estimate of the size of the state, and its assumptions."""
    from sash.pipeline.run.state_size import estimate
    from sash.spark.stream.query import planned

    _, plan = planned(frames.rows, pipeline.rolling.spec, pipeline.rolling.buckets, frames.questions)
    options = pipeline.source.options if pipeline.source.format == "demo" else {}
    rate = rate or float(options.get("rate", _RATE))
    keys = keys or int(options.get("keys", _KEYS))
    size = estimate(plan, str(pipeline.source.watermark), rows_per_second=rate, keys=keys)
    assumed = f"assuming {rate:g} rows/s and {keys:,} keys; set --rows-per-second and --keys to change"
    if pipeline.at is not None and plan.spec.emit != "arrival":
        assumed += "; questions that await an answer, or a revision, are stored too"
    for line in ("estimated state:", *size.lines(), assumed):
        console.print(line if line.endswith(":") else f"  {line}", markup=False, soft_wrap=True)
