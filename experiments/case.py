"""Cases, the scales they are planned for, and the rows they result in."""

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from experiments.series import SHOWN, MissingSeriesError

Row = dict[str, Any]

# Bytes per entry of all ten structures together, which are in memory at the same time: a bit set of 2 KB for every
# entry of two-stacks, DABA and Reactive, and for every node of a tree.
_BLOOM_BYTES = 10_000


@dataclass(frozen=True)
class Case:
    """One point of one series: what is measured, and how long."""

    figure: str
    monoid: str
    variant: str  # distinguishes the panels or lines of a figure, in addition to the monoid
    series: str
    x: int  # what the figure's x-axis shows
    n: int  # the window's size
    d: int  # the out-of-order distance
    repeats: int
    slice_ms: float  # how long one repeat should take
    rounds: int = 0  # of one repeat, if it is not limited by time

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything that identifies the case."""
        return tuple(asdict(self).values())


@dataclass(frozen=True)
class Scale:
    """How large and how long: `QUICK` for a quick run, `FULL` for the full one."""

    name: str
    size: int  # of the window, for sum and geomean
    bloom_size: int
    step: int  # an axis has every power of two whose exponent is a multiple of this
    repeats: int
    slice_ms: float
    latency_rounds: int
    latency_runs: int

    def n(self, monoid: str) -> int:
        """Return the window's size for a monoid."""
        return self.bloom_size if monoid == "bloom" else self.size

    def powers(self, first: int, last: int) -> list[int]:
        """Return powers of two from `first` to `last`, both included."""
        exponents = range(first.bit_length() - 1, last.bit_length() - 1, self.step)
        return [*(2**k for k in exponents), last]

    def case(self, figure: str, monoid: str, variant: str, series: str, x: int, n: int, d: int, **more: Any) -> Case:
        """Return a case at this scale."""
        options = {"repeats": self.repeats, "slice_ms": self.slice_ms} | more
        return Case(figure, monoid, variant, series, x, n, d, **options)


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def bloom_size(memory: int) -> int:
    """Return the largest power of two, up to 2^22, whose windows of Bloom filters take half the memory at most."""
    entries = memory // 2 // _BLOOM_BYTES
    return min(2**22, 2 ** max(10, entries.bit_length() - 1))


def scale(quick: bool) -> Scale:
    """Return the scale of a quick run or of the full one."""
    if quick:
        return Scale("quick", 2**18, min(2**14, bloom_size(memory_bytes())), 6, 3, 10.0, 20_000, 3)
    return Scale("full", 2**22, bloom_size(memory_bytes()), 1, 7, 50.0, 200_000, 5)


# --- rows -----------------------------------------------------------------------------------------


def row_of(case: Case, samples: list[float], unit: str, rounds: int, **more: Any) -> Row:
    """Return a case's row: the median of its samples, their spread, and the samples themselves."""
    return {
        **{f.name: getattr(case, f.name) for f in fields(case) if f.name not in ("slice_ms", "repeats", "rounds")},
        "unit": unit,
        "median": round(median(samples), 3),
        "low": round(min(samples), 3),
        "high": round(max(samples), 3),
        "rounds": rounds,
        "samples": " ".join(f"{sample:.3f}".rstrip("0").rstrip(".") for sample in samples),
        **more,
    }


class Rows(list[Row]):
    """The rows of one figure."""

    def where(self, **wanted: Any) -> "Rows":
        """Return the rows whose columns have these values."""
        return Rows(row for row in self if all(row[name] == value for name, value in wanted.items()))

    def curve(self, column: str = "median", **wanted: Any) -> dict[int, float]:
        """Return one column by x, ascending."""
        return {row["x"]: row[column] for row in sorted(self.where(**wanted), key=lambda row: row["x"])}

    def required(self, figure: str) -> "Rows":
        """Return these rows, or raise if a series of the figure is missing or lacks points that others have."""
        for monoid, variant, series in SHOWN[figure].expected():
            if not self.where(monoid=monoid, variant=variant, series=series):
                name = ", ".join(part for part in (monoid, variant, series) if part)
                raise MissingSeriesError(f"{figure}: there is no series for {name}.")
        return self


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write rows with the union of their columns."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


_INTEGERS = {"x", "n", "d", "rounds"}
_TEXTS = {"figure", "monoid", "variant", "series", "unit", "samples", "counts"}


def _readers(names: Iterable[str], stamps: Iterable[str]) -> dict[str, Callable[[str], Any]]:
    texts = _TEXTS | set(stamps)
    return {name: int if name in _INTEGERS else str if name in texts else float for name in names}


def read_csv(path: Path, stamps: Iterable[str]) -> Rows:
    """Read rows written by `write_csv`."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        readers = _readers(reader.fieldnames or (), stamps)
        return Rows(
            {name: readers[name](text) for name, text in row.items() if text != "" or name in _TEXTS} for row in reader
        )


def read_all(folder: Path, figures: Iterable[str], stamps: Iterable[str]) -> Iterator[tuple[str, Rows]]:
    """Return the rows of each figure that has any."""
    for figure in figures:
        path = folder / f"{figure}.csv"
        if path.exists():
            yield figure, read_csv(path, stamps)
