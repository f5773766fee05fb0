"""The view of a running pipeline: a live panel, or a plain line per micro-batch."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sash.formatting import count, duration, size, sparkline

if TYPE_CHECKING:
    from sash.pipeline.run.run import Outcome, Progress

_HISTORY = 400  # micro-batches in a sparkline, more than any terminal is wide
_LABEL = 12
_THE_END = 9998  # the watermark is a delay behind the row in the year 9999 that ends a stream


class View:
    """A view of one run: `with View(name, target, live=True) as view: view.update(progress)`.

    `target` is the column whose value is plotted over micro-batches. Without `live`, each micro-batch is a line of
    plain text without control characters, suitable for a log file.
    """

    def __init__(self, name: str, target: str, live: bool, console: Console | None = None) -> None:
        self.name, self.target, self.is_live = name, target, live
        self.console = console or Console(highlight=False)
        self.values: deque[float | None] = deque(maxlen=_HISTORY)
        self.rates: deque[float | None] = deque(maxlen=_HISTORY)
        self.rows = self.late = self.revised = self.quarantined = 0
        self.questions = self.late_questions = 0
        self.last: Progress | None = None
        self.first_watermark: str | None = None
        self._began = time.monotonic()
        self._spinner = Spinner("dots", text=Text(" Starting Spark", style="dim"))
        self._over = False
        self._screen = Live(self, console=self.console, refresh_per_second=8) if live else None

    def __enter__(self) -> View:
        """Start the view."""
        self._began = time.monotonic()
        if self._screen is not None:
            self._screen.start()
        else:
            self._say(f"{self.name}: starting Spark")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the view; the last panel stays on the screen, unless there was no micro-batch."""
        self._close()

    def update(self, progress: Progress) -> None:
        """Add a micro-batch."""
        self.last = progress
        self.rows += progress.rows
        self.late += progress.late
        self.revised += progress.revised
        self.quarantined += progress.quarantined
        self.questions += progress.questions or 0
        self.late_questions += progress.late_questions
        if self.first_watermark is None:
            self.first_watermark = progress.watermark
        # A micro-batch without rows only fires timers, so its speed is meaningless.
        if progress.rows:
            self.rates.append(progress.rows_per_second)
        self.values.append(progress.value)
        if self._screen is None:
            self._say(self.line(progress))

    def finish(self, outcome: Outcome) -> None:
        """Stop the view and print the counts of the run."""
        self._close()
        word = "stopped" if outcome.stopped else "done"
        asked = ""
        if outcome.questions is not None:
            asked = f"{outcome.questions:,} questions ({outcome.late_questions:,} late), "
        self._say(
            f"{self.name}: {word} after {duration(outcome.seconds)}: {outcome.rows_in:,} rows in, "
            f"{asked}{outcome.emitted:,} results out ({outcome.revised:,} revised), {outcome.late:,} late, "
            f"{outcome.quarantined:,} quarantined, {outcome.batches:,} micro-batches"
        )

    def _close(self) -> None:
        if self._screen is not None and not self._over:
            self._over = True
            self._screen.transient = self.last is None
            self._screen.stop()

    # --- the plain line -----------------------------------------------------------------------------

    def line(self, progress: Progress) -> str:
        """Return a micro-batch as a line of plain text."""
        parts = [
            f"batch {progress.batch}",
            f"{progress.rows:,} rows in {progress.seconds:.1f} s ({count(progress.rows_per_second)} rows/s)",
            f"watermark {_clock(progress.watermark)}",
            f"{progress.emitted:,} out",
            f"{progress.late:,} late",
            f"{progress.revised:,} revised",
            f"{progress.quarantined:,} quarantined",
            f"state {size(progress.state_bytes)}",
            f"{progress.live_keys:,} keys",
        ]
        if progress.questions is not None:
            parts.append(f"{progress.questions:,} questions ({progress.late_questions:,} late)")
        if progress.kafka_lag is not None:
            parts.append(f"lag {progress.kafka_lag:,} records")
        if progress.value is not None:
            parts.append(f"{self.target} {progress.value:,.6g}")
        return " | ".join(parts)

    def _say(self, line: str) -> None:
        # Neither colors nor wrapping: one line, however narrow the terminal.
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    # --- the panel ----------------------------------------------------------------------------------

    def __rich__(self) -> RenderableType:
        """Return the panel in its current state."""
        elapsed = duration(int(time.monotonic() - self._began))
        body: RenderableType = self._spinner if self.last is None else self._body(self.last)
        return Panel(
            body,
            title=Text(self.name, style="bold red"),
            title_align="left",
            subtitle=Text(elapsed if self._over else f"{elapsed} · Ctrl-C to stop", style="dim"),
            subtitle_align="right",
            border_style="dim",
            padding=(0, 1),
        )

    def _body(self, progress: Progress) -> RenderableType:
        room = max(8, min(self.console.width - 44, 60))
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", min_width=_LABEL, no_wrap=True)
        table.add_column(justify="right", min_width=12, no_wrap=True)
        table.add_column(no_wrap=True)
        speed = self.rates[-1] if self.rates else None
        table.add_row(
            "rows/s",
            Text("–" if speed is None else count(speed), style="bold"),
            Text(sparkline(self.rates, room), style="blue"),
        )
        latest = next((value for value in reversed(self.values) if value is not None), None)
        value = "–" if latest is None else f"{latest:,.6g}"
        plot = Text(sparkline(self.values, room), style="red")
        table.add_row(_shortened(self.target, 20), Text(value, style="bold"), plot)
        table.add_row("rows", f"{self.rows:,}", Text(f"micro-batch {progress.batch}", style="dim"))
        if progress.questions is not None:
            late = Text(f"{self.late_questions:,} late", style="dim")
            table.add_row("questions", f"{self.questions:,}", late)
        advance = _advance(self.first_watermark, progress.watermark)
        table.add_row("watermark", _clock(progress.watermark), Text(advance, style="dim"))
        if progress.kafka_lag is not None:
            table.add_row("lag", f"{progress.kafka_lag:,}", Text("records of Kafka that are not read yet", style="dim"))
        table.add_row("state", size(progress.state_bytes), Text(f"{progress.live_keys:,} live keys", style="dim"))
        return Group(table, self._counts())

    def _counts(self) -> Text:
        """Return the counts of late, revised and quarantined rows, highlighted where they are not zero."""
        counts = Text("\n")
        for number, word, style in (
            (self.late, "late", "yellow"),
            (self.revised, "revised", "blue"),
            (self.quarantined, "quarantined", "red"),
        ):
            counts.append(f"{number:,} {word}", style=f"bold {style}" if number else "dim")
            counts.append("   ")
        return counts


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _instant(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def _clock(watermark: str | None) -> str:
    instant = _instant(watermark)
    if instant is None:
        return "–"
    return "end of stream" if instant.year >= _THE_END else instant.strftime("%Y-%m-%d %H:%M:%S")


def _advance(first: str | None, now: str | None) -> str:
    """Return how far the watermark has advanced since the first one."""
    start, end = _instant(first), _instant(now)
    if start is None or end is None or end.year >= _THE_END:
        return ""
    return f"advanced by {duration((end - start).total_seconds())}"
