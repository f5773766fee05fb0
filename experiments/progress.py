"""Progress of a run: a bar with the time left if rich is installed, plain lines otherwise."""

import sys
import time
from types import TracebackType
from typing import Any

from experiments.case import Case

_SECONDS_BETWEEN_LINES = 10


def minutes(seconds: float) -> str:
    """Return a duration as text.

    >>> minutes(42), minutes(150), minutes(3000)
    ('42 seconds', '2.5 minutes', '50 minutes')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 600 else f"{seconds / 60:.0f} minutes"


class Progress:
    """The progress of a run; its estimates are corrected by the observed times."""

    def __init__(self, total_s: float) -> None:
        """Start the clock, with the expected total."""
        self._total = total_s
        self._began = self._told = time.monotonic()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=total_s, left="") if self._bar else None

    def __enter__(self) -> "Progress":
        """Show the bar."""
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove the bar."""
        if self._bar:
            if kind is None:
                self._bar.update(self._task, completed=self._total, left="done")
            self._bar.stop()

    def heard(self, group: list[Case], left_s: float) -> None:
        """Report that a group is next, with the time expected from it on."""
        case = group[0]
        what = " ".join(part for part in (case.figure, case.monoid, case.variant, f"x = {case.x}") if part)
        left = f"about {minutes(self._corrected(left_s))} left"
        if self._bar:
            self._bar.update(self._task, completed=self._total - left_s, description=what, left=left)
        elif time.monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            print(f"  {1 - left_s / self._total:4.0%}  {what:44} {left}", file=sys.stderr, flush=True)

    def _corrected(self, left_s: float) -> float:
        done = self._total - left_s
        return left_s * (time.monotonic() - self._began) / done if done else left_s


def _bar() -> Any:
    """Return rich's progress bar, or None if it is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    return Bar(
        TextColumn("{task.description:44}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
    )
