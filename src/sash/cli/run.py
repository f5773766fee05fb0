"""sash run: a pipeline file, run where one can watch it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sash.cli.environment import ready
from sash.cli.exit_codes import INTERRUPTED, interruptible
from sash.cli.options import File, Mode, Sets, Traceback, pipeline_of
from sash.cli.view import View
from sash.durations import name_of
from sash.pipeline.config.read import Pipeline


def run(
    file: File = Path("pipeline.toml"),
    once: Annotated[bool, typer.Option("--once", help="Take what there is, and end.")] = False,
    mode: Mode = None,
    sets: Sets = None,
    plain: Annotated[bool, typer.Option("--plain", help="A line for each micro-batch instead of a live view.")] = False,
    traceback: Traceback = False,
) -> None:
    """Run a pipeline file, as a stream or as a batch.

    Ctrl-C lets the micro-batch at hand end and stops; the same command goes on from there. A second Ctrl-C stops at
    once, which the checkpoint survives too. The exit code is 0 when it is done, 1 when it failed while running, 2 for a
    mistake in the file, 130 when it was interrupted.
    """
    ready()
    pipeline = pipeline_of(file, mode, sets, once=once)
    from sash.pipeline.run.run import run as run_pipeline
    from sash.pipeline.run.spark_session import session_of

    console = Console(highlight=False)
    # What the console sink prints would go through a panel that is drawn over and over.
    live = console.is_terminal and not plain and pipeline.sink.format != "console"
    with interruptible() as stop, View(pipeline.name, drawn(pipeline), live, console) as view:
        spark = session_of(pipeline, quiet=not traceback)
        outcome = run_pipeline(pipeline, once=once, spark=spark, on_progress=view.update, stop=stop)
        view.finish(outcome)
    if outcome.stopped:
        again = shlex.join(["sash", "run", *_again(file, once, mode, sets)])
        kept = "Nothing else will come of it" if pipeline.mode == "batch" else "The checkpoint is whole"
        console.print(f"{kept}. Go on: {again}", markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED)


def drawn(pipeline: Pipeline) -> str:
    """Return the name of the column that the view draws, as far as it is known before Spark is there."""
    first = f"{next(iter(pipeline.rolling.aggs), 'value')}_{name_of(pipeline.rolling.windows[0])}"
    return pipeline.view.column or first


def _again(file: Path, once: bool, mode: str | None, sets: list[str] | None) -> list[str]:
    options = [*(["--once"] if once else []), *(["--mode", mode] if mode is not None else [])]
    return [str(file), *options, *[word for given in sets or [] for word in ("--set", given)]]
