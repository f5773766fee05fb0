"""sash demo: stream late, out-of-order payments through Spark, verify the results, and write a report."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from rich.console import Console

from sash import formatting, plot_style
from sash.cli.environment import commands
from sash.cli.exit_codes import FAILED, INTERRUPTED, interruptible
from sash.cli.view import View
from sash.demo import summary
from sash.demo.report import write_report
from sash.demo.run import ROWS_A_SECOND, Folder, Settings, pipeline_of, summarize
from sash.demo.summary import Summary
from sash.errors import ArgumentError
from sash.pipeline.config.read import Pipeline

if TYPE_CHECKING:
    from sash.pipeline.run.run import Progress

_LISTED = 10  # wrong results that are listed


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results, the report and the checkpoint.")] = Path("out"),
    seconds: Annotated[
        float | None,
        typer.Option(help="Approximate duration of the stream on two cores. [default: 60]", min=5, max=3600),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Number of events, instead of --seconds.", min=1000)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the generated events. [default: 7]", min=0)] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line per micro-batch, without a live view.")] = False,
) -> None:
    """Stream made-up card payments that arrive late and out of order through Spark, and verify every result.

    Takes about a minute and needs no setup. The results, a report (report.html, report.png) and the checkpoint are
    written to --out. Kill it at any time: the same command resumes where it stopped.
    """
    if seconds is not None and rows is not None:
        raise ArgumentError(f"--seconds and --rows cannot be combined, got {seconds:g} and {rows}.", argument="rows")
    requested = rows if seconds is None else int(seconds * ROWS_A_SECOND)
    console = Console(highlight=False)
    folder = Folder(out)
    with folder.locked():
        settings = folder.prepare(requested, seed, fresh)
        pipeline = pipeline_of(folder, settings)
        _greet(console, folder, settings)
        if not settings.finished:
            _stream(console, folder, pipeline, settings, live=console.is_terminal and not plain)
        _say(console, "Recomputing every window from the raw events …")
        results = summarize(folder, pipeline, settings)
        written = write_report(results, out)
    _conclude(console, results, written, out)


def _greet(console: Console, folder: Folder, settings: Settings) -> None:
    events = f"{settings.rows:,} payments, seed {settings.seed}"
    if settings.finished:
        _say(console, f"{folder.out} has a finished demo of {events}: verifying it again. Use --fresh to start over.")
        return
    recorded = summary.recorded(folder.progress)
    if recorded:
        _say(console, f"Resuming the demo in {folder.out} after micro-batch {recorded[-1]['batch']}: {events}.")
    else:
        _say(console, f"{events}, late and out of order, on a local Spark. Kill it any time: the same command resumes.")


def _stream(console: Console, folder: Folder, pipeline: Pipeline, settings: Settings, *, live: bool) -> None:
    """Run the stream to its end, and record every micro-batch."""
    from sash.pipeline.run.run import run
    from sash.pipeline.run.spark_session import session_of

    this_run = uuid4().hex[:8]
    with interruptible() as stop, View("demo", str(pipeline.view.column), live, console) as view:

        def on_progress(progress: "Progress") -> None:
            # A query with nothing left to do reports a micro-batch too, which never ran.
            if progress.rows or progress.emitted or progress.watermark is not None:
                summary.record(folder.progress, {**asdict(progress), "run": this_run})
                view.update(progress)

        outcome = run(pipeline, spark=session_of(pipeline, quiet=True), on_progress=on_progress, stop=stop)
        view.finish(outcome)
    if outcome.stopped:
        _say(console, f"Stopped cleanly. To resume: sash demo --out {folder.out}")
        raise typer.Exit(INTERRUPTED)
    folder.save(replace(settings, finished=True))


def _conclude(console: Console, results: Summary, written: list[Path], out: Path) -> None:
    verdict, key = results.verdict, results.rules.key
    if not verdict.holds:
        _say(console, f"WRONG: {len(verdict.wrong):,} of {verdict.compared:,} results differ from the raw events:")
        for line in verdict.wrong[:_LISTED]:
            _say(console, f"  {line}")
        raise typer.Exit(FAILED)
    numbers = results.numbers
    _say(
        console,
        f"Verified: {verdict.compared:,} results of {verdict.keys:,} {key}s, each equal to a recomputation from "
        f"{numbers['events']:,.0f} raw events, of which {numbers['too_late']:,.0f} arrived too late and "
        f"{numbers['retractions']:,.0f} retracted others.",
    )
    speed = formatting.count(numbers["rows_per_second"])
    _say(console, f"{speed} rows/s in the median micro-batch, {numbers['revisions']:,.0f} results revised.")
    _say(console, "Written: " + ", ".join(map(str, [out / "results", *written])))
    if not plot_style.available():
        _say(console, 'To add figures to the report: pip install "sash[plot]", then run sash demo again.')
    _say(console, f"\nNext steps:\n{_next(out)}")


def _next(out: Path) -> str:
    read = f"from sash.spark import upserted_table; print(upserted_table('{out / 'results'}').to_pandas())"
    sash, python = commands()
    steps = {
        str(out / "report.html"): "the report",
        f"{sash} demo --fresh --seed 8": f"other payments; kill -9 it, then resume with {sash} demo",
        f"{sash} new && {sash} run": "your own pipeline, in one file",
    }
    width = max(map(len, steps))
    lines = [f"  {step:{width}}   {what}" for step, what in steps.items()]
    return "\n".join([*lines, f'  {python} -c "{read}"'])


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
