"""The visual language of all figures: one look for each structure, axes in human units, one way to lay out panels.

`fiba` is thick and red. The paper's trees are blue with filled markers, classic trees gray with hollow ones; µ is shown
by marker and dash, so that everything survives a black-and-white printer. matplotlib is imported only when something is
drawn: the processes that measure import this module too.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.series import ALL, CLASSIC, IN_ORDER, NARROW, ON_SPARK, OURS_ON_SPARK, PAPER, SPARKS_OWN
from sash import plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, GRID, RED, BLACK = plot_style.INK, plot_style.FAINT, plot_style.GRID, plot_style.RED, "#000000"
ZERO = -1.6  # the position of 0 on an axis of powers of two

_LARGER = {
    "font.size": 13,
    "axes.titlesize": 15,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.fontsize": 12.5,
    "legend.handlelength": 3.2,
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class Look:
    """How one structure is drawn wherever it appears."""

    name: str
    color: str
    marker: str
    dash: Any = "-"
    hollow: bool = False
    width: float = 1.9
    size: float = 6.0
    rank: int = 2

    def line(self, **changed: Any) -> dict[str, Any]:
        """Return the arguments of a line with this look."""
        return {
            "color": self.color,
            "linestyle": self.dash,
            "linewidth": self.width,
            "marker": self.marker,
            "markersize": self.size,
            "markerfacecolor": "white" if self.hollow else self.color,
            "markeredgecolor": self.color,
            "markeredgewidth": 1.3,
            "zorder": self.rank,
            "label": self.name,
        } | changed


_MU = {"2": ("o", "-"), "4": ("s", (0, (5, 1.6))), "8": ("^", (0, (1.4, 1.4)))}
_BLUES = {"2": "#7db4ea", "4": "#2f7fd0", "8": "#0b3f86"}
_GREYS = {"2": "#a8adb5", "4": "#7a818c", "8": "#4b525c"}


def _tree(label: str, shades: dict[str, str], hollow: bool) -> Look:
    mu = label[-1]
    marker, dash = _MU[mu]
    return Look(label, shades[mu], marker, dash, hollow, rank=3 if not hollow else 2)


LOOKS = {
    "fiba": Look("fiba", RED, "o", width=3.6, size=7.5, rank=6),
    NARROW: Look("fiba, as for bloom", RED, "o", (0, (2, 1.2)), True, width=2.4, size=6.5, rank=5),
    **{label: _tree(label, _BLUES, False) for label in PAPER},
    **{label: _tree(label, _GREYS, True) for label in CLASSIC},
    "two_stacks": Look("two-stacks", "#12864a", "v", rank=4),
    "daba": Look("DABA", "#7a3db8", "D", (0, (7, 1.5, 1.2, 1.5)), rank=4, size=5.5),
    "reactive": Look("Reactive", "#a35a12", "X", (0, (3, 1.2)), rank=4, size=7),
    OURS_ON_SPARK: Look(OURS_ON_SPARK, RED, "h", width=3.6, size=8.5, rank=6),
    SPARKS_OWN: Look(SPARKS_OWN, "#d97706", "P", (0, (6, 1.5)), rank=4, size=8),
}
assert set(LOOKS) == {*ALL, *ON_SPARK}, "series and looks do not match"

MONOID_TITLES = {
    "sum": "sum · cheap",
    "geomean": "geomean · moderate",
    "bloom": "bloom · expensive",
}


# --- layout ---------------------------------------------------------------------------------------


def context() -> Any:
    """Return the context in which everything is drawn and saved."""
    return plot_style.context(_LARGER)


def save(figure: Figure, path: Path) -> None:
    """Write a PNG with 256 colors, which looks the same and takes a third of the space."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def sheet(
    title: str, said: str, columns: int, rows: int = 1, height: float = 6.2, legend: float = 0.16, **options: Any
) -> tuple[Figure, Any]:
    """Return a wide figure with a headline, a line of fine print under it, and its panels as a 2-d array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.33, height))
    head = 0.93 / height
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=19, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.58 / height, said, fontsize=12, color=FAINT, va="top")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    figure.set_layout_engine("constrained", rect=(0.005, legend, 0.99, 1 - head - legend), w_pad=0.12, h_pad=0.1)
    return figure, axes


def legend(figure: Figure, labels: Sequence[str], more: Sequence[Any] = (), **changed: Any) -> None:
    """Put one legend for all panels at the foot of the figure, a column per family; `changed` applies to its lines."""
    from matplotlib.lines import Line2D

    families = [
        [s for s in family if s in labels] for family in (("fiba", NARROW), PAPER, CLASSIC, IN_ORDER, *zip(ON_SPARK))
    ]
    columns = [[Line2D([], [], **LOOKS[label].line(**changed)) for label in family] for family in families if family]
    columns += [list(more)] if more else []
    deepest = max(map(len, columns))
    blank = Line2D([], [], linestyle="none", label=" ")
    handles = [handle for column in columns for handle in (*column, *[blank] * (deepest - len(column)))]
    figure.legend(handles=handles, loc="lower center", ncols=len(columns), bbox_to_anchor=(0.5, 0.005), columnspacing=3)


# --- axes -----------------------------------------------------------------------------------------


def human(number: float) -> str:
    """Return a power of two in short form: 1, 16, 4Ki, 1Mi.

    >>> [human(n) for n in (0, 1, 512, 4096, 2**20)]
    ['0', '1', '512', '4Ki', '1Mi']
    """
    for unit, size in (("Mi", 2**20), ("Ki", 2**10)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def decimal(number: float) -> str:
    """Return a number in thousands and millions: 0.1, 20, 3k, 1.5M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def place(x: float) -> float:
    """Return the position of a number on an axis of powers of two, which includes 0."""
    return log2(x) if x else ZERO


def power_axis(axis: Axes, label: str, xs: Iterable[int]) -> None:
    """Label the x-axis in powers of two."""
    xs = sorted(set(xs))
    largest = xs[-1].bit_length() - 1
    step = 2 if largest <= 8 else 4
    exponents = [*(k for k in range(0, largest, step) if largest - k > step / 2), largest]
    ticks = [(float(k), human(2**k)) for k in exponents]
    if xs[0] == 0:
        ticks.insert(0, (ZERO, "0"))
        axis.axvline(ZERO / 2, color=GRID, linewidth=1.6, linestyle=(0, (2, 2)), zorder=1)
    axis.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    axis.set_xlim(place(xs[0]) - 0.7, largest + 0.7)
    axis.set_xlabel(label)


def log_axis(axis: Axes, label: str = "") -> None:
    """Make the y-axis logarithmic, labeled between the powers of ten if there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    decades = log2(high / low) / log2(10)
    subs = (1,) if decades > 3.5 else (1, 3) if decades > 2.3 else (1, 2, 5)
    axis.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.yaxis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: decimal(y)))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(axis="y", which="minor", length=2.5)
    if label:
        axis.set_ylabel(label)


def name(
    axis: Axes, x: float, y: float, offset: tuple[float, float] = (0, 15), text: str = "fiba", color: str = RED
) -> None:
    """Write the name of a line above it."""
    import matplotlib.patheffects as effects

    axis.annotate(
        text,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        color=color,
        fontweight="bold",
        fontsize=14,
        ha="center",
        va="center",
        zorder=9,
        path_effects=[effects.withStroke(linewidth=3, foreground="white")],
    )
