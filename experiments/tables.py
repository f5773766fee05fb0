"""The tables in docs/benchmarks.md that come from the committed rows; `python -m experiments.tables` writes them."""

import re
from collections.abc import Iterable
from pathlib import Path

from experiments.case import read_csv
from experiments.machine import STAMPS
from experiments.series import CLASSIC, ON_SPARK, PAPER
from experiments.style import human

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
_MARKS = "<!-- rows: {} -->", "<!-- end of rows -->"
_DISTANCES = (0, 1, 16, 2**8, 2**10, 2**14, 2**18)
_SIZES = (2**4, 2**8, 2**12, 2**16, 2**20)
_RANDOM = (1, 2**8, 2**12, 2**16, 2**20)
_BATCHES = (1, 2**4, 2**8, 2**12, 2**16, 2**20)


def tables() -> dict[str, str]:
    """Return each table by the name of its figure."""
    trees = {"fiba": ("fiba",), "paper, best µ": PAPER, "classic, best µ": CLASSIC}
    queues = {"two_stacks": ("two_stacks",), "daba": ("daba",)}
    on_spark = {name: (name,) for name in ON_SPARK}
    return {
        "distance": _table("distance", "ns per round", "d", _DISTANCES, trees),
        "fifo": _table("fifo", "ns per round", "n", _SIZES, {"fiba": ("fiba",), **queues, "paper, best µ": PAPER}),
        "random_distance": _table("random_distance", "ns per round", "x", _RANDOM, trees),
        "bulk": _table("bulk", "ns per entry", "m", _BATCHES, trees),
        "memory": _table("memory", "bytes per entry", "n", None, trees | queues),
        "spark": _table("spark", "ms per micro-batch", "slides in a window", None, on_spark),
    }


def _table(figure: str, unit: str, axis: str, xs: Iterable[int] | None, groups: dict[str, tuple[str, ...]]) -> str:
    """Return a figure's medians by panel and x (default: every x): the least of each group, the best in bold."""
    rows = read_csv(HERE / "results" / f"{figure}.csv", STAMPS)
    lines = [f"| {unit} | {axis} | {' | '.join(groups)} |", f"|---|---|{'---|' * len(groups)}"]
    for monoid, variant in dict.fromkeys((row["monoid"], row["variant"]) for row in rows):
        panel = rows.where(monoid=monoid, variant=variant)
        there = {row["x"] for row in panel}
        for x in sorted(there) if xs is None else [x for x in xs if x in there]:
            found = [
                min((row["median"] for row in panel if row["series"] in series and row["x"] == x), default=None)
                for series in groups.values()
            ]
            best = min(number for number in found if number is not None)
            cells = " | ".join(_cell(number, best) for number in found)
            lines.append(f"| {', '.join(filter(None, (monoid, variant)))} | {human(x)} | {cells} |")
    return "\n".join(lines)


def _cell(number: float | None, best: float) -> str:
    if number is None:
        return "–"
    return f"**{number:,.0f}**" if number == best else f"{number:,.0f}"


def written(page: str) -> str:
    """Return the page with its tables regenerated from the rows."""
    for name, table in tables().items():
        begin, end = _MARKS[0].format(name), _MARKS[1]
        page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", f"{begin}\n{table}\n{end}", page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
