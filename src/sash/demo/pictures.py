"""The demo's figures: how events arrived, what was revised, throughput and state. Imports matplotlib only to draw.

Colors mean the same in every figure: red is final, grey in order or the first revision, blue out of order, orange after
the results were emitted, black too late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash import formatting
from sash.demo import verify
from sash.demo.summary import Summary, busiest_outage
from sash.plot_style import FAINT, INK, RED, context

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, BLUE, ORANGE, GREEN = "#a8adb5", "#2f7fd0", "#e07b00", "#12864a"
_CAME = {
    verify.IN_ORDER: ("in order", GREY),
    verify.OUT_OF_ORDER: ("out of order", BLUE),
    verify.REVISING: ("late: revises emitted results", ORANGE),
    verify.TOO_LATE: ("too late: counted, left out", INK),
}
_WIDTH = 13.33
_DOTS = 25_000  # at most, for each kind of event
_SEED = 1


# --- layout ----------------------------------------------------------------------------------------------


def draw_all(summary: Summary, folder: Path) -> list[Path]:
    """Write each figure to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with context():
        for name, (title, draw, columns) in sections(summary).items():
            figure = _figure(5.2)
            _headline(figure, title, 5.2)
            draw(_axes(figure, columns))
            written.append(folder / f"{name}.png")
            _save(figure, written[-1])
    return written


def draw_page(summary: Summary, path: Path, heading: str, facts: Sequence[tuple[str, str]]) -> None:
    """Write the whole report as one image: a heading, its numbers, and all figures below each other."""
    height, head, section = 17.4, 2.1, 5.1
    with context():
        figure = _figure(height)
        parts: Any = figure.subfigures(4, 1, height_ratios=[head, *[section] * 3], hspace=0)
        _page_head(parts[0], heading, facts)
        for part, (title, draw, columns) in zip(parts[1:], sections(summary).values(), strict=True):
            _headline(part, title, section)
            draw(_axes(part, columns))
        _save(figure, path)


Section = tuple[str, Callable[[Any], None], Sequence[float]]


def sections(summary: Summary) -> dict[str, Section]:
    """Return the figures by name: the title, the function that draws it, and the widths of its panels."""
    return {
        "arrival": (_arrival_title(summary), lambda axes: _arrival(summary, axes), (1.5, 1)),
        "revisions": (_revisions_title(summary), lambda axes: _revisions(summary, axes), (1,)),
        "load": (_load_title(summary), lambda axes: _load(summary, axes), (1, 1)),
    }


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height))


def _axes(figure: Any, widths: Sequence[float]) -> Any:
    axes = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.125, top=0.82, wspace=0.17)
    return axes


def _headline(figure: Any, title: str, height: float) -> None:
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=17, fontweight="bold", va="top")


def _page_head(part: Any, heading: str, facts: Sequence[tuple[str, str]]) -> None:
    part.text(0.012, 0.93, heading, fontsize=24, fontweight="bold", va="top")
    for place, (number, what) in enumerate(facts):
        left = 0.012 + place * 0.99 / len(facts)
        part.text(left, 0.42, number, fontsize=25, fontweight="bold", color=RED)
        for line, words in enumerate(what.split("\n")):
            part.text(left, 0.22 - 0.13 * line, words, fontsize=12, color=FAINT)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure atomically, by a rename."""
    draft = path.with_suffix(".part")
    figure.savefig(draft, format="png")
    draft.replace(path)


# --- arrival of events ----------------------------------------------------------------------------------


def _arrival_title(summary: Summary) -> str:
    share = float((summary.came != verify.IN_ORDER).mean())
    _, most = busiest_outage(summary.events, summary.came)
    return f"{share:.0%} of the events arrive out of order, up to {formatting.count(most)} of them in one minute"


def _arrival(summary: Summary, axes: Any) -> None:
    scatter, histogram = axes
    _dots(summary, scatter)
    delays = (summary.events.arrivals - summary.events.times) / 1e6
    edges = np.geomspace(1, max(2.0, float(delays.max())), 50)
    groups = [delays[(summary.came == way) & (delays >= 1)] for way in _CAME]
    histogram.hist(groups, bins=edges, stacked=True, color=[color for _, color in _CAME.values()])
    histogram.set_xscale("log")
    _time_ticks(histogram, edges[-1])
    _counts(histogram.yaxis)
    histogram.set_xlabel("delay from event to arrival")
    histogram.set_ylabel("events")
    prompt = float((delays < 1).mean())
    histogram.set_title(f"Delays, without the {prompt:.0%} within 1 s")
    _mark_tolerance(summary, histogram)


def _dots(summary: Summary, axis: Axes) -> None:
    start = int(summary.events.times.min())
    draws = np.random.default_rng(_SEED)
    for way, (name, color) in _CAME.items():
        places = np.flatnonzero(summary.came == way)
        sample = draws.choice(places, _DOTS, replace=False) if places.size > _DOTS else places
        axis.scatter(
            (summary.events.arrivals[sample] - start) / 60e6,
            (summary.events.times[sample] - start) / 60e6,
            s=14 if way == verify.TOO_LATE else 4,
            color=color,
            linewidths=0,
            alpha=0.75,
            rasterized=True,
            zorder=2 + way,
            label=f"{name} ({formatting.count(places.size)})",
        )
    axis.set_xlabel("arrival, minutes after the start")
    axis.set_ylabel("event time, minutes")
    axis.set_title("Each dot is an event; those below the line are out of order")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", markerscale=3.5, handletextpad=0.3, borderaxespad=0.2)


def _mark_tolerance(summary: Summary, axis: Axes) -> None:
    delay, tolerance = summary.rules.delay / 1e6, (summary.rules.delay + summary.rules.lateness) / 1e6
    axis.set_ylim(top=axis.get_ylim()[1] * 1.18)
    _mark(axis, delay, f"emitted after\n{formatting.duration(delay)}", side="right")
    _mark(axis, tolerance, f"final after\n{formatting.duration(tolerance)}", side="right")


def _mark(axis: Axes, x: float, name: str, side: str = "left") -> None:
    """Draw a vertical line across a panel, with a label at its top."""
    axis.axvline(x, color=INK, linewidth=1.1, linestyle=(0, (3, 2)))
    axis.annotate(
        name, (x, 0.985), xycoords=("data", "axes fraction"), xytext=(5 if side == "left" else -5, 0), ha=side,
        textcoords="offset points", va="top", fontsize=10.5,
        bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"},
    )  # fmt: skip


def _time_ticks(axis: Axes, longest: float) -> None:
    ticks = [tick for tick in (1, 10, 60, 600, 3600, 36_000) if tick <= longest]
    axis.set_xticks(ticks, [formatting.duration(tick) for tick in ticks])
    axis.set_xticks([], minor=True)


# --- revisions ------------------------------------------------------------------------------------------


def _revisions_title(summary: Summary) -> str:
    revised = summary.revised
    share = revised.changed / max(revised.ends.size, 1)
    return f"{share:.0%} of the first results for {revised.key} were revised when late events arrived"


def _revisions(summary: Summary, axes: Any) -> None:
    (axis,) = axes
    revised = summary.revised
    ends = _dates(revised.ends)
    first, last = revised.first / 100, revised.last / 100
    axis.fill_between(ends, first, last, step="mid", color=ORANGE, alpha=0.3, linewidth=0, label="revision")
    axis.step(ends, first, where="mid", color=FAINT, linewidth=1.5, linestyle=(0, (2.5, 1.2)), label="first result")
    axis.step(ends, last, where="mid", color=RED, linewidth=2.2, label="final result, equal to a recomputation")
    name, window = revised.column.rsplit("_", 1)
    length, every = (formatting.duration(us / 1e6) for us in (summary.rules.windows[window], summary.rules.every))
    axis.set_title(f"The {name} over the last {length}, every {every}")
    axis.set_ylabel("spent")
    axis.set_xlabel("end of window, in event time")
    _clock(axis)
    axis.set_ylim(bottom=0, top=float(np.nanmax([first, last])) * 1.22)
    _counts(axis.yaxis)
    axis.legend(loc="upper right", ncols=3)


def _dates(times: NDArray[np.int64]) -> list[datetime]:
    return [datetime.fromtimestamp(time / 1e6, UTC) for time in times.tolist()]


def _clock(axis: Axes) -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates  # which has no type annotations
    axis.xaxis.set_major_locator(dates.AutoDateLocator(minticks=5, maxticks=12))
    axis.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    axis.margins(x=0.01)


# --- throughput and state -------------------------------------------------------------------------------


def _load_title(summary: Summary) -> str:
    most = max((batch["state_bytes"] for batch in summary.batches), default=0)
    numbers = summary.numbers
    return (
        f"{formatting.count(numbers['rows_per_second'])} rows/s in the median of {len(summary.busy)} micro-batches, "
        f"at most {formatting.size(most)} of state"
    )


def _load(summary: Summary, axes: Any) -> None:
    speed, state = axes
    busy = summary.busy
    numbers = [batch["batch"] for batch in busy]
    speed.bar(numbers, [batch["rows_per_second"] for batch in busy], color=BLUE, width=0.75)
    speed.set_title("Throughput")
    speed.set_ylabel("rows per second")
    state.fill_between(numbers, [batch["state_bytes"] for batch in busy], color=RED, alpha=0.18, linewidth=0)
    state.plot(numbers, [batch["state_bytes"] for batch in busy], color=RED, linewidth=2.2)
    state.set_title("State of the windows")
    state.set_ylabel("bytes")
    state.set_ylim(bottom=0)
    for axis in axes:
        axis.set_xlabel("micro-batch")
        axis.xaxis.get_major_locator().set_params(integer=True)
    _counts(speed.yaxis)
    _sizes(state.yaxis)
    _mark_restarts(summary, axes)


def _mark_restarts(summary: Summary, axes: Any) -> None:
    """Draw a line where a run resumed."""
    pairs = zip(summary.batches, summary.batches[1:], strict=False)
    resumed = [(a["batch"] + b["batch"]) / 2 for a, b in pairs if a.get("run") != b.get("run")]
    for axis in axes:
        if resumed:
            axis.set_ylim(top=axis.get_ylim()[1] * 1.12)
        for place in resumed:
            _mark(axis, place, "resumed")


def _counts(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: formatting.count(value)))


def _sizes(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: formatting.size(value)))
