"""sash run: run a pipeline file, with a live view."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sash.cli.environment import ready
from sash.cli.exit_codes import interruptible
from sash.cli.options import File, Mode, Sets, Traceback, pipeline_of
from sash.cli.view import View
from sash.durations import name_of
from sash.pipeline.config.read import Pipeline


def run(
    file: File = Path("pipeline.toml"),
    once: Annotated[bool, typer.Option("--once", help="Process the available data, then exit.")] = False,
    mode: Mode = None,
    sets: Sets = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line per micro-batch, without a live view.")] = False,
    traceback: Traceback = False,
) -> None:
    """Run a pipeline file, as a stream or as a batch.

    Ctrl-C and SIGTERM stop after the current micro-batch; run the same command to resume. A second one stops
    immediately, which is safe too. Exit codes: 0 done, 1 failed while running, 2 mistake in the file, 130 interrupted,
    143 terminated.
    """
    ready()
    pipeline = pipeline_of(file, mode, sets, once=once)
    from sash.pipeline.run.run import run as run_pipeline
    from sash.pipeline.run.spark_session import session_of

    for warning in pipeline.warnings:
        typer.echo(f"warning: {warning}", err=True)
    console = Console(highlight=False)
    # The output of the console sink would be mixed up with a panel that is redrawn.
    live = console.is_terminal and not plain and pipeline.sink.format != "console"
    with interruptible() as stop, View(pipeline.name, plotted(pipeline), live, console) as view:
        spark = session_of(pipeline, quiet=not traceback)
        outcome = run_pipeline(pipeline, once=once, spark=spark, on_progress=view.update, stop=stop)
        view.finish(outcome)
    if outcome.stopped:
        command = shlex.join(["sash", "run", *_arguments(file, once, mode, sets)])
        advice = "Cancelled. To start over" if pipeline.mode == "batch" else "Stopped cleanly. To resume"
        console.print(f"{advice}: {command}", markup=False, soft_wrap=True)
        raise typer.Exit(stop.code)


def plotted(pipeline: Pipeline) -> str:
    """Return the name of the column that the view plots, as far as it is known before Spark starts."""
    first = f"{next(iter(pipeline.rolling.aggs), 'value')}_{name_of(pipeline.rolling.windows[0])}"
    return pipeline.view.column or first


def _arguments(file: Path, once: bool, mode: str | None, sets: list[str] | None) -> list[str]:
    options = [*(["--once"] if once else []), *(["--mode", mode] if mode is not None else [])]
    return [str(file), *options, *[word for setting in sets or [] for word in ("--set", setting)]]
