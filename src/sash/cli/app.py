"""The command-line application and its commands."""

from typing import Annotated

import typer

from sash import __version__
from sash.cli import checkpoint
from sash.cli.check import check
from sash.cli.demo import demo
from sash.cli.doctor import doctor
from sash.cli.exit_codes import guarded
from sash.cli.explore import explore
from sash.cli.figures import bench, figures
from sash.cli.new import new
from sash.cli.query import query
from sash.cli.run import run

_EXAMPLES = """
**Examples**

* `sash demo`: see it work, in about a minute

* `sash new && sash run`: write a pipeline file and run it

* `sash check pipeline.toml`: validate a pipeline file without running it

* `sash query pipeline.toml --key card=a`: the results of a key, from the checkpoint of a pipeline

* `sash checkpoint show pipeline.toml`: look into the checkpoint of a pipeline

* `sash explore`: see how a window works, in the browser

* `sash doctor`: check the installation
"""

app = typer.Typer(
    name="sash",
    help="Sliding-window aggregation over late and out-of-order events, as pipelines on Spark.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"sash {__version__}")
        raise typer.Exit


@app.callback()
def sash(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle the options before a command."""


for command, examples in (
    (run, "`sash run pipeline.toml`  ·  `sash run --once`  ·  `sash run --mode batch --set sink.path=out/backfill`"),
    (check, "`sash check`  ·  `sash check pipeline.toml --rows-per-second 5000 --keys 100000`"),
    (
        query,
        "`sash query pipeline.toml --key card=a`  ·  `sash query out/checkpoint --key card=a --at 2026-01-01T10:00`",
    ),
    (new, "`sash new`  ·  `sash new payments.toml`"),
    (demo, "`sash demo`  ·  `sash demo --seconds 20 --out demo`  ·  `sash demo --fresh --seed 8`"),
    (explore, "`sash explore`  ·  `sash explore --port 8000 --no-browser`"),
    (doctor, "`sash doctor`  ·  `sash doctor --json`"),
    (figures, "`sash figures`  ·  `sash figures --full`"),
    (bench, "`sash bench`  ·  `sash bench --spark`"),
):
    app.command(epilog=f"**Examples**  {examples}")(guarded(command))

checkpoints = typer.Typer(
    name="checkpoint",
    help="Look into the checkpoint of a stream, while it runs or after it has stopped; nothing in it is changed.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(checkpoints)
for name, examples in (
    ("show", "`sash checkpoint show pipeline.toml`  ·  `sash checkpoint show out/checkpoint --json`"),
    ("verify", "`sash checkpoint verify pipeline.toml`  ·  `sash checkpoint verify out/checkpoint`"),
    ("export", "`sash checkpoint export pipeline.toml out/rows`"),
):
    checkpoints.command(epilog=f"**Examples**  {examples}")(guarded(getattr(checkpoint, name)))
