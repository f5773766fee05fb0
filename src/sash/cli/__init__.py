"""The command line: `sash`, or `python -m sash`. There is one file per command; `app` assembles them."""

import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich", "pydantic")


def main() -> None:
    """Run the command line, or exit with the package that is missing and how to install it."""
    for package in _NEEDED:
        if find_spec(package) is None:
            sys.stderr.write(
                f'The command line needs {package}, which is not installed: pip install "sash[cli,spark]".\n'
            )
            raise SystemExit(2)
    from sash.cli.app import app

    app(prog_name="sash")
