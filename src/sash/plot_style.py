"""The style of all plots: ink on white, a faint grid, and red for sash or for the final result.

matplotlib is imported only to draw.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from sash.errors import UnsupportedError

INK, FAINT, GRID, RED = "#1b1f24", "#6b7280", "#e5e7eb", "#d1122f"
_RC = {
    "font.family": "sans-serif",
    "font.size": 12,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.9,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 11,
    "figure.facecolor": "white",
    "savefig.dpi": 130,
}


def available() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def context(overrides: Mapping[str, Any] | None = None) -> AbstractContextManager[None]:
    """Return the context in which a plot is drawn and saved, with `overrides` for matplotlib's settings."""
    if not available():
        raise UnsupportedError('Plots need matplotlib, which is not installed; run pip install "sash[plot]".')
    import matplotlib as mpl

    settings: Any = {**_RC, **(overrides or {})}
    return mpl.rc_context(settings)
