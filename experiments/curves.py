"""Throughput curves, which most figures draw: million rounds per second, with the spread as a shade."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from experiments import style
from experiments.case import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def throughput(ns: float) -> float:
    """Return million rounds per second."""
    return 1000 / ns


def curve(axis: Axes, rows: Rows, series: str, **look: Any) -> None:
    """Draw the throughput of one series and the spread of its samples."""
    rows = Rows(sorted(rows.where(series=series), key=lambda row: row["x"]))
    xs = [style.place(row["x"]) for row in rows]
    line = style.LOOKS[series].line(**look)
    axis.plot(xs, [throughput(row["median"]) for row in rows], **line)
    axis.fill_between(
        xs,
        [throughput(row["high"]) for row in rows],
        [throughput(row["low"]) for row in rows],
        color=line["color"],
        alpha=0.13,
        linewidth=0,
        zorder=1,
    )


def panel(
    axis: Axes, rows: Rows, series: Iterable[str], xlabel: str, ylabel: str = "", held: Rows | None = None
) -> None:
    """Draw all series of one panel with their axes; the y-axis holds the rows `held`, of all panels that share it."""
    for label in series:
        curve(axis, rows, label)
    style.power_axis(axis, xlabel, (row["x"] for row in rows))
    fit(axis, held or rows)
    style.log_axis(axis, ylabel)
    name_fiba(axis, rows)


def fit(axis: Axes, rows: Rows) -> None:
    """Let the y-axis hold all medians; a spread that leaves it is cut off."""
    points = [throughput(row["median"]) for row in rows]
    axis.set_yscale("log")
    axis.set_ylim(min(points) / 1.3, max(points) * 1.5)


def name_fiba(axis: Axes, rows: Rows) -> None:
    """Write `fiba` over the middle of its highest line."""
    best: dict[int, float] = {}
    for row in rows.where(series="fiba"):
        best[row["x"]] = max(throughput(row["median"]), best.get(row["x"], 0))
    x = sorted(best)[len(best) // 2]
    style.name(axis, style.place(x), best[x])


def sizes(rows: Rows) -> str:
    """Return the window sizes as text, by monoid if they differ."""
    by_size: dict[int, list[str]] = {}
    for row in rows:
        names = by_size.setdefault(row["n"], [])
        if row["monoid"] not in names:
            names.append(row["monoid"])
    if len(by_size) == 1:
        return f"n = {style.human(next(iter(by_size)))}"
    return "n = " + ", ".join(f"{style.human(n)} ({', '.join(names)})" for n, names in by_size.items())


def machine(rows: Rows) -> str:
    """Return as text where the rows were measured."""
    row = rows[0]
    compiler = re.sub(r"GCC: \([^)]*\)", "gcc", row["compiler"])
    return f"{row['cpu'].split(' (')[0]}, {compiler}"


def fine_print(*parts: str) -> str:
    """Join the parts of the line under a headline."""
    return "   ·   ".join(part for part in parts if part)
