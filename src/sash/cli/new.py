"""sash new: write a pipeline file to start from."""

from pathlib import Path
from typing import Annotated

import typer

from sash.errors import ArgumentError
from sash.pipeline.config.starter import STARTER


def new(
    path: Annotated[Path, typer.Argument(help="Path of the file to write.")] = Path("pipeline.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented pipeline file that runs as is, on made-up payments."""
    if path.is_dir():
        path = path / "pipeline.toml"
    if path.exists() and not force:
        raise ArgumentError(f"{path} already exists; use --force to overwrite it.", argument="path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STARTER, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}.", argument="path") from error
    typer.echo(f"Wrote {path}. Next:\n  sash check {path}\n  sash run {path} --once")
