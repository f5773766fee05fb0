"""sash new: a pipeline file to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from sash.errors import ArgumentError, shown
from sash.pipeline.config.starter import STARTER


def new(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("pipeline.toml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a pipeline file with a comment for each key; it runs as it is, on made-up payments."""
    if path.is_dir():
        path = path / "pipeline.toml"
    if path.exists() and not force:
        raise ArgumentError(f"path: {shown(path)} is there already; give another, or --force to write over it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STARTER, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"path: {shown(path)} cannot be written: {error.strerror}; give another.") from error
    typer.echo(f"Wrote {path}. Look what it does: sash check {path}\nRun it:               sash run {path} --once")
