"""sash demo: late, out-of-order payments through a Spark stream, verified against the raw events, told on one page."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.console import Console

from sash import formatting, plot_style
from sash.cli.environment import called
from sash.cli.exit_codes import FAILED, INTERRUPTED, interruptible
from sash.cli.view import View
from sash.demo import summary
from sash.demo.report import write_report
from sash.demo.run import ROWS_A_SECOND, Folder, Settings, pipeline_of, told
from sash.demo.summary import Story
from sash.errors import ArgumentError
from sash.pipeline.config.read import Pipeline

_SHOWN = 10  # wrong results that are told one by one


def demo(
    out: Annotated[Path, typer.Option(help="The folder for everything it makes.")] = Path("out"),
    seconds: Annotated[
        float | None,
        typer.Option(help="About how long the stream takes on two cores: 60 unless told.", min=5, max=3600),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many events, instead of --seconds.", min=1000)] = None,
    seed: Annotated[int | None, typer.Option(help="Which made-up events: 7 unless told.", min=0)] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew instead of going on.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="A line for each micro-batch instead of a live view.")] = False,
) -> None:
    """Stream made-up card payments that arrive late and out of order through Spark, and verify every result.

    It takes about a minute and needs nothing but this command. Results, a report (report.html, report.png) and the
    checkpoint go to the folder --out. Kill it at any moment: the same command goes on from where it was.
    """
    if seconds is not None and rows is not None:
        raise ArgumentError(f"--seconds, --rows: {seconds:g} and {rows} both say how long it is; leave one out.")
    wanted = rows if seconds is None else int(seconds * ROWS_A_SECOND)
    console = Console(highlight=False)
    folder = Folder(out)
    with folder.locked():
        settings = folder.begun(wanted, seed, fresh)
        pipeline = pipeline_of(folder, settings)
        _greet(console, folder, settings)
        if not settings.finished:
            _stream(console, folder, pipeline, settings, live=console.is_terminal and not plain)
        _say(console, "Adding up every window again from the raw events …")
        finished = told(folder, pipeline, settings)
        written = write_report(finished, out)
    _conclude(console, finished, written, out)


def _greet(console: Console, folder: Folder, settings: Settings) -> None:
    events = f"{settings.rows:,} payments, seed {settings.seed}"
    if settings.finished:
        _say(console, f"{folder.out} holds a finished demo of {events}: verifying it again; --fresh starts anew.")
        return
    recorded = summary.recorded(folder.progress)
    if recorded:
        _say(console, f"Going on after micro-batch {recorded[-1]['batch']} of the demo in {folder.out}: {events}.")
    else:
        _say(console, f"{events}, late and out of order, on a local Spark; kill it at any moment, and run it again.")


def _stream(console: Console, folder: Folder, pipeline: Pipeline, settings: Settings, *, live: bool) -> None:
    """Run the stream to its end; every micro-batch is written down as it comes."""
    from sash.pipeline.run.run import run
    from sash.pipeline.run.spark_session import session_of

    this_run = uuid4().hex[:8]
    with interruptible() as stop, View("demo", str(pipeline.view.column), live, console) as view:

        def heard(progress: Any) -> None:
            # A query that finds nothing left to do tells of a micro-batch too, which never ran.
            if progress.rows or progress.emitted or progress.watermark is not None:
                summary.record(folder.progress, {**asdict(progress), "run": this_run})
                view.update(progress)

        outcome = run(pipeline, spark=session_of(pipeline, quiet=True), on_progress=heard, stop=stop)
        view.finish(outcome)
    if outcome.stopped:
        _say(console, f"Stopped; the checkpoint is whole. Go on: sash demo --out {folder.out}")
        raise typer.Exit(INTERRUPTED)
    folder.save(replace(settings, finished=True))


def _conclude(console: Console, finished: Story, written: list[Path], out: Path) -> None:
    verdict, key = finished.verdict, finished.rules.key
    if not verdict.holds:
        _say(console, f"WRONG: {len(verdict.wrong):,} of {verdict.compared:,} results differ from the raw events:")
        for line in verdict.wrong[:_SHOWN]:
            _say(console, f"  {line}")
        raise typer.Exit(FAILED)
    numbers = finished.numbers
    _say(
        console,
        f"Verified: {verdict.compared:,} results of {verdict.keys:,} {key}s, each equal to a recomputation from "
        f"{numbers['events']:,.0f} raw events, {numbers['too_late']:,.0f} of which came too late and "
        f"{numbers['retractions']:,.0f} took others back.",
    )
    speed = formatting.count(numbers["rows_per_second"])
    _say(console, f"{speed} rows/s in the median micro-batch, {numbers['revisions']:,.0f} results revised.")
    _say(console, "Written: " + ", ".join(map(str, [out / "results", *written])))
    if not plot_style.available():
        _say(console, 'For pictures in the report: pip install "sash[plot]", then sash demo again.')
    _say(console, f"\nWhat to try next:\n{_next(out)}")


def _next(out: Path) -> str:
    read = f"from sash.spark import upserted_table; print(upserted_table('{out / 'results'}').to_pandas())"
    sash, python = called()
    things = {
        str(out / "report.html"): "the page to show a colleague",
        f"{sash} demo --fresh --seed 8": f"other payments; kill -9 it on the way, then {sash} demo goes on",
        f"{sash} new && {sash} run": "a pipeline of your own, in one file",
    }
    width = max(map(len, things))
    lines = [f"  {thing:{width}}   {what}" for thing, what in things.items()]
    return "\n".join([*lines, f'  {python} -c "{read}"'])


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
