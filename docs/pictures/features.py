"""Draw the picture of docs/features.md: `python docs/pictures/features.py` writes it next to this file."""

from pathlib import Path

from sash.plot_style import FAINT, GRID, INK, RED, context

MINUTES = {"10:00": 0, "10:40": 40, "11:10": 70}
EVENTS = [(0, "5\nbooks"), (40, "9\nfuel"), (70, "90\nwatches")]
LABELS = [(60, "label at 11:00", "n_1h = 2, last_shop = fuel"), (70, "label at 11:10", "n_1h = 1, last_shop = fuel")]


def draw(path: Path) -> None:
    """Draw the payments of a card, and below them the window of an hour of each label."""
    with context({"axes.grid": False}):
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
        axes.hlines(2, -8, 104, color=FAINT, linewidth=1)
        for minute, text in EVENTS:
            axes.plot(minute, 2, "o", color=INK, markersize=9)
            axes.text(minute, 2.22, text, ha="center", va="bottom")
        for row, (at, name, features) in enumerate(LABELS):
            level = 1.25 - 0.75 * row
            axes.fill_between([at - 60, at], level - 0.2, level + 0.2, color=GRID)
            axes.plot([at - 60, at - 60], [level - 0.2, level + 0.2], color=INK, linewidth=2)  # is part of the window
            axes.plot([at, at], [level - 0.2, level + 0.2], color=RED, linewidth=2, linestyle=(0, (2, 2)))  # is not
            for minute, _ in EVENTS:
                seen = at - 60 <= minute < at
                axes.plot(minute, level, "o", color=INK if seen else "white", markeredgecolor=INK if seen else FAINT)
            axes.text(77, level + 0.06, name, va="bottom", color=RED, weight="bold")
            axes.text(77, level - 0.04, features, va="top", fontsize=11)
        axes.text(-10, 2, "payments\nof card a", ha="right", va="center")
        axes.text(-10, 1.25, "window [t − 1h, t)\nof each label", ha="right", va="center")
        axes.set(xlim=(-34, 116), ylim=(0.1, 2.85), yticks=[], xticks=list(MINUTES.values()))
        axes.set_xticklabels(list(MINUTES))
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(length=0)
        figure.savefig(path)


if __name__ == "__main__":
    draw(Path(__file__).with_name("features.png"))
