"""Exit codes: 0 done, 1 failed, 2 mistake in the file or the arguments, 130 interrupted, 143 terminated."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import typer

from sash.errors import ArgumentError, KindError, RetentionError, SashError, UnsupportedError

FAILED, MISTAKEN, INTERRUPTED = 1, 2, 130
_MISTAKES = (ArgumentError, KindError, RetentionError, UnsupportedError)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that prints an error of sash and exits with its code; `--traceback` raises it."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except SashError as error:
            if options.get("traceback"):
                raise
            typer.echo(str(error), err=True)
            raise typer.Exit(MISTAKEN if isinstance(error, _MISTAKES) else FAILED) from None
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run


class Stop(threading.Event):
    """An event that the first Ctrl-C or SIGTERM sets, and the exit code for it."""

    code = INTERRUPTED


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second one raises KeyboardInterrupt."""
    stop = Stop()

    def interrupted(number: int, _: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.code = 128 + number  # as a shell counts them
        stop.set()

    if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread only
        yield stop
        return
    before = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
