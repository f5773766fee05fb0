"""A progress line on a terminal, for work that takes long."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 1.0  # seconds before there is anything to see
_BAR = 24


@contextmanager
def shown_on_terminal(label: str, total: int, done: Callable[[], int]) -> Iterator[None]:
    """Show progress while the work runs, if it runs long and stderr is a terminal."""
    if not sys.stderr.isatty() or total < 1:
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(label, total, done, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(label: str, total: int, done: Callable[[], int], over: threading.Event) -> None:
    start, seen = time.monotonic(), False
    while not over.wait(0.2 if seen else _PATIENCE):
        seen = True
        sys.stderr.write("\r" + line(label, total, done(), time.monotonic() - start))
        sys.stderr.flush()
    if seen:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def line(label: str, total: int, done: int, seconds: float) -> str:
    """Return the progress line.

    >>> line("rolling", 4_000_000, 1_000_000, 2.0)
    'rolling ██████                    25%  0.5M rows/s  6 s left'
    """
    share = min(done / total, 1.0)
    bar = "█" * int(share * _BAR)
    left = f"{seconds * (1 - share) / share:.0f} s left" if share > 0 else ""
    return f"{label} {bar:<{_BAR}} {share:>4.0%}  {done / seconds / 1e6:.1f}M rows/s  {left}"
