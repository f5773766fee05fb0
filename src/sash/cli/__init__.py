"""The command line: `sash`, or `python -m sash`. Each command has a file of its own; `app` puts them together."""

import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich", "pydantic")


def main() -> None:
    """Run the command line, or say what it needs and how to get it."""
    for package in _NEEDED:
        if find_spec(package) is None:
            sys.stderr.write(
                f'The command line needs {package}, which is not installed; run pip install "sash[cli,spark]".\n'
            )
            raise SystemExit(2)
    from sash.cli.app import app

    app(prog_name="sash")
