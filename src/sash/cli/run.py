"""sash run: run a pipeline file, with a live view."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from sash.cli.environment import ready
from sash.cli.exit_codes import interruptible
from sash.cli.options import File, Mode, Sets, Traceback, pipeline_of
from sash.cli.view import View
from sash.errors import SashError
from sash.pipeline.config.read import Pipeline

if TYPE_CHECKING:
    from sash.pipeline.run.run import Outcome, Progress
    from sash.spark.stream.totals import Totals


def run(
    file: File = Path("pipeline.toml"),
    once: Annotated[bool, typer.Option("--once", help="Process the available data, then exit.")] = False,
    mode: Mode = None,
    sets: Sets = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line per micro-batch, without a live view.")] = False,
    log: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--log", help="Print a line per micro-batch as text or JSON, without a live view."),
    ] = None,
    metrics: Annotated[
        int | None, typer.Option("--metrics", metavar="PORT", help="Serve Prometheus metrics at this port.")
    ] = None,
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
    from sash.spark.stream.totals import Totals

    for warning in pipeline.warnings:
        typer.echo(f"warning: {warning}", err=True)
    console = Console(highlight=False)
    # The output of the console sink would be mixed up with a panel that is redrawn.
    live = console.is_terminal and not plain and log is None and pipeline.sink.format != "console"
    totals = Totals()
    view = JsonLines() if log == "json" else View(pipeline.name, plotted(pipeline), live, console)
    with interruptible() as stop, served(metrics, pipeline.name, totals), view:
        spark = session_of(pipeline, quiet=not traceback)
        outcome = run_pipeline(
            pipeline,
            once=once,
            spark=spark,
            on_progress=view.update,
            on_change=partial(announce, console, log),
            stop=stop,
            totals=totals,
        )
        view.finish(outcome)
    if outcome.stopped and log != "json":
        command = shlex.join(["sash", "run", *_arguments(file, once, mode, sets)])
        advice = "Cancelled. To start over" if pipeline.mode == "batch" else "Stopped cleanly. To resume"
        console.print(f"{advice}: {command}", markup=False, soft_wrap=True)
    if outcome.stopped:
        raise typer.Exit(stop.code)


def announce(console: Console, log: str | None, changes: list[str]) -> None:
    """Print how the definition differs from the one that the checkpoint was written with."""
    if log == "json":
        typer.echo(json.dumps({"event": "change", "differences": changes}))
        return
    text = f"The definition has changed: {'; '.join(changes)}. The state in the checkpoint follows."
    console.print(text, markup=False, soft_wrap=True)


@contextmanager
def served(port: int | None, name: str, totals: "Totals") -> Iterator[None]:
    """Serve the totals of a run as Prometheus metrics, if there is a port for it."""
    from sash.pipeline.run.prometheus import serve

    if port is None:
        yield
        return
    try:
        stop = serve(port, lambda: {name: totals})
    except SashError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from error
    try:
        yield
    finally:
        stop()


class JsonLines:
    """Prints what a live view would show as JSON, a line for each micro-batch and one at the end."""

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, progress: "Progress") -> None:
        """Print the counts of a micro-batch."""
        typer.echo(json.dumps({"event": "batch", **asdict(progress)}))

    def finish(self, outcome: "Outcome") -> None:
        """Print the counts of the run."""
        typer.echo(json.dumps({"event": "end", **asdict(outcome)}))


def plotted(pipeline: Pipeline) -> str:
    """Return the name of the column that the view plots, as far as it is known before Spark starts."""
    first = f"{next(iter(pipeline.rolling.aggs), 'value')}_{next(iter(pipeline.rolling.spec.windows))}"
    return pipeline.view.column or first


def _arguments(file: Path, once: bool, mode: str | None, sets: list[str] | None) -> list[str]:
    options = [*(["--once"] if once else []), *(["--mode", mode] if mode is not None else [])]
    return [str(file), *options, *[word for setting in sets or [] for word in ("--set", setting)]]
