"""Arguments and options that commands share, and the pipeline they describe."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sash.pipeline.config.model import Pipeline
from sash.pipeline.config.read import read

File = Annotated[Path, typer.Argument(help="Path of the pipeline file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value from the file. Repeatable."),
]
Mode = Annotated[
    Literal["streaming", "batch", "available-now"] | None, typer.Option(help="Override the mode from the file.")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show Spark's log, and the full traceback of an error.")]


def pipeline_of(file: Path, mode: str | None, sets: list[str] | None, *, once: bool = False) -> Pipeline:
    """Return the pipeline of a file, with the overrides of the command line."""
    overrides = [*(sets or []), *([] if mode is None else [f"mode={mode}"])]
    pipeline = read(file, overrides)
    if once and pipeline.mode == "streaming":
        return read(file, [*overrides, "mode=available-now"])
    return pipeline
