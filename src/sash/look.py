"""The look that every picture of sash has: ink on white, a faint grid, and red for what is ours or right at last.

matplotlib is imported to draw only.
"""

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


def context(**changed: Any) -> Any:
    """Give the context in which a picture is drawn and saved; `changed` are settings of matplotlib's, _ for the dot."""
    if not available():
        raise UnsupportedError('Pictures need matplotlib, which is not installed; run pip install "sash[plot]".')
    import matplotlib as mpl

    own: Any = {name.replace("_", ".", 1): value for name, value in changed.items()}
    return mpl.rc_context(_RC | own)
