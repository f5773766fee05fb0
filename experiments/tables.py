"""The tables in docs/benchmarks.md that come from the committed rows; `python -m experiments.tables` writes them."""

import re
from collections.abc import Iterable
from pathlib import Path

from experiments.case import Rows, read_csv
from experiments.machine import STAMPS
from experiments.series import CLASSIC, PAPER
from experiments.style import human

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
_MARKS = "<!-- rows: {} -->", "<!-- end of rows -->"
_DISTANCES = (0, 1, 16, 2**8, 2**10, 2**14, 2**18)
_SIZES = (2**4, 2**8, 2**12, 2**16, 2**20)


def tables() -> dict[str, str]:
    """Give each table by the name of its figure."""
    rows = {figure: read_csv(HERE / "results" / f"{figure}.csv", STAMPS) for figure in ("distance", "fifo")}
    rivals = {"paper, best µ": PAPER, "classic, best µ": CLASSIC}
    in_order = {"two_stacks": ("two_stacks",), "daba": ("daba",), "paper, best µ": PAPER}
    return {
        "distance": _table(rows["distance"], "d", _DISTANCES, rivals),
        "fifo": _table(rows["fifo"], "n", _SIZES, in_order),
    }


def _table(rows: Rows, axis: str, xs: Iterable[int], rivals: dict[str, tuple[str, ...]]) -> str:
    """Give nanoseconds of a round by monoid and x: `fiba` and the least of each group of rivals, the best in bold."""
    groups = {"fiba": ("fiba",), **rivals}
    lines = [f"| ns a round | {axis} | {' | '.join(groups)} |", f"|---|---|{'---|' * len(groups)}"]
    for monoid in dict.fromkeys(row["monoid"] for row in rows):
        mine = rows.where(monoid=monoid)
        for x in xs:
            found = [min((row["median"] for row in mine if row["series"] in s and row["x"] == x), default=None)
                     for s in groups.values()]  # fmt: skip
            if None not in found:
                best = min(found)
                cells = [f"**{ns:,.0f}**" if ns == best else f"{ns:,.0f}" for ns in found]
                lines.append(f"| {monoid} | {human(x)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Give the page with its tables as the rows have them."""
    for name, table in tables().items():
        begin, end = _MARKS[0].format(name), _MARKS[1]
        page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", f"{begin}\n{table}\n{end}", page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
