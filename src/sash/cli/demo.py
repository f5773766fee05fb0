"""sash demo: stream late, out-of-order payments through Spark, verify the results, and write a report."""

from collections.abc import Iterator
from contextlib import contextmanager
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
from sash.demo import kafka as topics
from sash.demo import summary
from sash.demo.broker import Broker
from sash.demo.report import write_report
from sash.demo.run import Folder, Settings, events_of, pipeline_of, rows_within, summarize
from sash.demo.summary import Summary
from sash.errors import ArgumentError, shown
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
    kafka: Annotated[
        bool, typer.Option("--kafka", help="From Kafka to Kafka, on a broker that the demo starts and stops.")
    ] = False,
    jars: Annotated[
        str | None,
        typer.Option(help="Jars of Spark's Kafka connector, separated by commas, instead of fetching them."),
    ] = None,
) -> None:
    """Stream made-up card payments that arrive late and out of order through Spark, and verify every result.

    Takes about a minute and needs no setup. The results, a report (report.html, report.png) and the checkpoint are
    written to --out. Kill it at any time: the same command resumes where it stopped.

    With --kafka the payments come from a topic and the results go to another one, which is compacted by key: the
    latest value of every key is compared. This downloads a broker (45 MB, once) and Spark's connector.
    """
    requested = _requested(rows, seconds, kafka, jars)
    console = Console(highlight=False)
    folder = Folder(out)
    with folder.locked():
        settings = folder.prepare(requested, seed, fresh, kafka=kafka)
        pipeline = pipeline_of(folder, settings)
        _greet(console, folder, settings)
        with _broker(console, folder, settings) as broker:
            if not settings.finished:
                running = _prepared(pipeline, settings, broker, jars)
                _stream(console, folder, running, settings, live=console.is_terminal and not plain)
            _say(console, "Recomputing every window from the raw events …")
            results = summarize(folder, pipeline, settings, broker)
        written = write_report(results, out)
    _conclude(console, results, written, folder, settings)


def _requested(rows: int | None, seconds: float | None, kafka: bool, jars: str | None) -> int | None:
    """Return the number of events that the options ask for, None for the default."""
    if jars is not None and not kafka:
        raise ArgumentError(f"--jars must be omitted without --kafka, got {shown(jars)}.", argument="jars")
    if seconds is not None and rows is not None:
        raise ArgumentError(f"--seconds and --rows cannot be combined, got {seconds:g} and {rows}.", argument="rows")
    return rows if seconds is None else rows_within(seconds, kafka=kafka)


@contextmanager
def _broker(console: Console, folder: Folder, settings: Settings) -> Iterator[Broker | None]:
    """Run the broker of a demo with Kafka; yield None for any other."""
    if not settings.kafka:
        yield None
        return
    _say(console, "Starting a Kafka broker …")
    with topics.broker_of(folder.out) as broker:
        yield broker


def _prepared(pipeline: Pipeline, settings: Settings, broker: Broker | None, jars: str | None) -> Pipeline:
    """Return the pipeline to run; with Kafka, all events are in their topic."""
    if broker is None:
        return pipeline
    topics.produce(broker, events_of(pipeline), settings.rows)
    return topics.through_kafka(pipeline, broker.servers, jars)


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
        again = f"sash demo{' --kafka' if settings.kafka else ''} --out {folder.out}"
        _say(console, f"Stopped cleanly. To resume: {again}")
        raise typer.Exit(INTERRUPTED)
    folder.save(replace(settings, finished=True))


def _conclude(console: Console, results: Summary, written: list[Path], folder: Folder, settings: Settings) -> None:
    out, verdict, key = folder.out, results.verdict, results.rules.key
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
    median = f"{speed} rows/s in the median of {len(results.busy)} micro-batches"
    _say(console, f"{median}, {numbers['revisions']:,.0f} results revised.")
    _say(console, "Written: " + ", ".join(map(str, [out / ("kafka" if settings.kafka else "results"), *written])))
    if not plot_style.available():
        _say(console, 'To add figures to the report: pip install "sash[plot]", then run sash demo again.')
    _say(console, f"\nNext steps:\n{_next(out, settings)}")


def _next(out: Path, settings: Settings) -> str:
    read = f"from sash.spark import upserted_table; print(upserted_table('{out / 'results'}').to_pandas())"
    sash, python = commands()
    steps = {
        str(out / "report.html"): "the report",
        f"{sash} demo --fresh --seed 8": f"other payments; kill -9 it, then resume with {sash} demo",
        f"{sash} new && {sash} run": "your own pipeline, in one file",
    }
    width = max(map(len, steps))
    lines = [f"  {step:{width}}   {what}" for step, what in steps.items()]
    return "\n".join([*lines, *([] if settings.kafka else [f'  {python} -c "{read}"'])])


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
