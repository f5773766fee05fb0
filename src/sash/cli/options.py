"""Arguments and options that commands share, and the pipeline that they name."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sash.pipeline.config.model import Pipeline
from sash.pipeline.config.read import read

File = Annotated[Path, typer.Argument(help="The pipeline file.", show_default="pipeline.toml")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Put a value of the file aside for this one; may come again."),
]
Mode = Annotated[
    Literal["streaming", "batch", "available-now"] | None, typer.Option(help="Put the file's mode aside for this one.")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show Spark's log, and the traceback of what fails.")]


def pipeline_of(file: Path, mode: str | None, sets: list[str] | None, *, once: bool = False) -> Pipeline:
    """Return the pipeline of a file with what the command line says otherwise."""
    overrides = [*(sets or []), *([] if mode is None else [f"mode={mode}"])]
    pipeline = read(file, overrides)
    if once and pipeline.mode == "streaming":
        return read(file, [*overrides, "mode=available-now"])
    return pipeline
