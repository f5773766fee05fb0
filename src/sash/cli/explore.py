"""sash explore: serve the explorer on this machine, and open it in the browser."""

import webbrowser
from typing import Annotated

import typer

from sash.errors import ArgumentError
from sash.explore.server import ADDRESS, Server


def explore(
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Build and break a window by hand, and see its structure, in the browser. Ctrl-C stops it.

    The page is served to this machine alone and needs no network. Exit code: 0.
    """
    try:
        server = Server(port)
    except OSError as error:
        reason = error.strerror or error
        raise ArgumentError(f"port must be free on {ADDRESS}, got {port}: {reason}.", argument="port") from None
    with server:
        typer.echo(f"sash explorer at {server.url} (Ctrl-C stops it)")
        if browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo()
