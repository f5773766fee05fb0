"""sash figures and sash bench: what a working copy of the repository measures, started from the command line.

Both live beside the package, not in it, so that an installed sash stays small.
"""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from sash.errors import UnsupportedError


def figures(
    full: Annotated[bool, typer.Option("--full", help="For the record: up to an hour on a quiet machine.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what a stopped run has measured.")] = False,
) -> None:
    """Measure and redraw the figures of the FiBA paper, about two minutes; needs a working copy of the repository.

    A run that was stopped goes on where it was. The report is experiments/figures/report.html.
    """
    options = [*([] if full else ["--quick"]), *(["--fresh"] if fresh else [])]
    raise typer.Exit(started("experiments", "experiments", options))


def bench(
    spark: Annotated[bool, typer.Option("--spark", help="Against Spark's own windows: about ten minutes.")] = False,
) -> None:
    """Print the benchmark tables; needs a working copy of the repository."""
    raise typer.Exit(started("benchmarks", "benchmarks.spark" if spark else "benchmarks", []))


def started(package: str, module: str, options: list[str]) -> int:
    """Run a module of the working directory to its end, and give its exit code."""
    if not (Path.cwd() / package / "__main__.py").exists():
        raise UnsupportedError(
            f"There is no folder {package} in {Path.cwd()}, and it is not part of the installed package; change to a "
            "working copy of sash's repository."
        )
    try:
        return subprocess.run([sys.executable, "-m", module, *options]).returncode
    except KeyboardInterrupt:
        return 130
