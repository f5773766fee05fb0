"""The look that every picture of sash has: ink on white, a faint grid, and red for what is ours or right at last.

matplotlib is imported to draw only.
"""

from collections.abc import Mapping
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
    """Tell whether there is a matplotlib to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def context(changed: Mapping[str, Any] | None = None) -> Any:
    """Give the context in which a picture is drawn and saved, with settings of matplotlib's that are to differ."""
    if not available():
        raise UnsupportedError('Pictures need matplotlib, which is not installed; run pip install "sash[plot]".')
    import matplotlib as mpl

    settings: Any = {**_RC, **(changed or {})}
    return mpl.rc_context(settings)
