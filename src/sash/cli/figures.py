"""sash figures and sash bench: run the experiments and benchmarks of a clone of the repository.

They are not part of the package, to keep an installed sash small.
"""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from sash.errors import UnsupportedError


def figures(
    full: Annotated[bool, typer.Option("--full", help="Run at full size: up to an hour on a quiet machine.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the measurements of an interrupted run.")] = False,
) -> None:
    """Reproduce the figures of the FiBA paper, from a clone of the repository.

    Takes about two minutes; an interrupted run resumes where it stopped. The report is experiments/figures/report.html.
    """
    options = [*([] if full else ["--quick"]), *(["--fresh"] if fresh else [])]
    raise typer.Exit(run_module("experiments", "experiments", options))


def bench(
    spark: Annotated[bool, typer.Option("--spark", help="Compare with Spark's own windows: about 15 minutes.")] = False,
) -> None:
    """Run the benchmarks and print their tables, from a clone of the repository."""
    raise typer.Exit(run_module("benchmarks", "benchmarks.spark" if spark else "benchmarks", []))


def run_module(package: str, module: str, options: list[str]) -> int:
    """Run a module of the working directory and return its exit code."""
    if not (Path.cwd() / package / "__main__.py").exists():
        raise UnsupportedError(
            f"The folder {package} was not found in {Path.cwd()}; run this command in a clone of the repository."
        )
    try:
        return subprocess.run([sys.executable, "-m", module, *options]).returncode
    except KeyboardInterrupt:
        return 130
