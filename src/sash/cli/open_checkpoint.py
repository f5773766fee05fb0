"""The checkpoint that a command reads: its place on the command line, and a Spark session to read it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sash.cli.environment import ready
from sash.errors import ArgumentError, shown
from sash.locations import location
from sash.pipeline.config.model import Pipeline
from sash.pipeline.config.read import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = Annotated[
    str,
    typer.Argument(metavar="PATH", help="Directory or URI of a checkpoint, or a pipeline file that has one."),
]
Batch = Annotated[
    int | None, typer.Option(help="Number of a committed micro-batch. [default: the newest]", min=0, show_default=False)
]
Operator = Annotated[int, typer.Option(help="Number of the stateful operator, if the query has several.", min=0)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def opened(path: str, traceback: bool, *, brief: bool = True) -> "tuple[str, SparkSession]":
    """Return the checkpoint that a path names, and a session to read it."""
    ready()
    from sash.pipeline.run.spark_session import session_of, session_without_pipeline

    pipeline = pipeline_at(path)
    if pipeline is None:
        return str(location(path, "path")), session_without_pipeline(quiet=not traceback, brief=brief)
    if pipeline.checkpoint is None:
        raise pipeline.mistake(("checkpoint",), f"missing; mode = {shown(pipeline.mode)} needs none.")
    spark = session_of(pipeline, quiet=not traceback, brief=brief)
    return str(location(pipeline.checkpoint, "checkpoint")), spark


def pipeline_at(path: str) -> Pipeline | None:
    """Return the pipeline of a path, or None if the path is that of a directory or a URI."""
    place = location(path, "path")
    if place.local is not None and not place.local.exists():
        raise ArgumentError(
            f"path must be the directory of a checkpoint, or a pipeline file, got {shown(path)}, which does not exist.",
            argument="path",
        )
    if place.local is None or place.local.is_dir():
        return None
    return read(place.local if path.startswith("file:") else Path(path))
