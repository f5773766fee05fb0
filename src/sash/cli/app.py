"""The commands of the command line, put together."""

from typing import Annotated

import typer

from sash import __version__
from sash.cli.check import check
from sash.cli.demo import demo
from sash.cli.doctor import doctor
from sash.cli.exit_codes import guarded
from sash.cli.figures import bench, figures
from sash.cli.new import new
from sash.cli.run import run

_EXAMPLES = """
**Examples**

* `sash demo`: a pipeline to look at, in about a minute

* `sash new && sash run pipeline.toml`: one of your own

* `sash check pipeline.toml`: what a file would do, without doing it

* `sash doctor`: is everything there?
"""

app = typer.Typer(
    name="sash",
    help="Sliding windows over events that arrive late and out of order, as a pipeline on Spark.",
    epilog=_EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"sash {__version__}")
        raise typer.Exit


@app.callback()
def sash(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take options that come before a command."""


for command, examples in (
    (run, "`sash run pipeline.toml`  ·  `sash run --once`  ·  `sash run --mode batch --set sink.path=out/backfill`"),
    (check, "`sash check`  ·  `sash check pipeline.toml --rows-per-second 5000 --keys 100000`"),
    (new, "`sash new`  ·  `sash new payments.toml`"),
    (demo, "`sash demo`  ·  `sash demo --seconds 20 --out elsewhere`  ·  `sash demo --fresh --seed 8`"),
    (doctor, "`sash doctor`  ·  `sash doctor --json`"),
    (figures, "`sash figures`  ·  `sash figures --full`"),
    (bench, "`sash bench`  ·  `sash bench --spark`"),
):
    app.command(epilog=f"**Examples**  {examples}")(guarded(command))
