"""What is measured and drawn: structures and monoids by name, and the series that each figure must show.

This is the only place that defines them. A figure that lacks one of its series is an error, never a thinner picture.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sash import Monoid, Window, monoids

ARITIES = (2, 4, 8)
NARROW = "fiba for bloom"


@dataclass(frozen=True)
class Series:
    """One structure with the options it is built with."""

    label: str
    structure: str
    options: dict[str, int] = field(default_factory=dict, hash=False)
    in_order: bool = False

    def window(self, monoid: Monoid) -> Window:
        """Return an empty window of this structure."""
        return Window(monoid, structure=self.structure, **self.options)


def _trees(structure: str) -> list[Series]:
    return [Series(f"{structure} µ={mu}", structure, {"min_arity": mu}) for mu in ARITIES]


ALL = {
    series.label: series
    for series in [
        Series("fiba", "fiba"),
        Series(NARROW, "fiba", {"leaf_capacity": 32, "fanout": 4}),  # its sizes for bloom, for any monoid
        *_trees("paper"),
        *_trees("classic"),
        *(Series(name, name, in_order=True) for name in ("two_stacks", "daba", "reactive")),
    ]
}

MONOIDS: dict[str, Callable[[], Monoid]] = {
    "sum": monoids.sum,
    "geomean": monoids.geomean,
    "bloom": monoids.bloom,
}

PAPER = tuple(f"paper µ={mu}" for mu in ARITIES)
CLASSIC = tuple(f"classic µ={mu}" for mu in ARITIES)
TREES = ("fiba", *PAPER, *CLASSIC)
IN_ORDER = ("two_stacks", "daba", "reactive")
OURS_ON_SPARK, SPARKS_OWN = "sash on Spark", "Spark's window"
ON_SPARK = (OURS_ON_SPARK, SPARKS_OWN)


@dataclass(frozen=True)
class Panels:
    """The contents of a figure: all these monoids and variants, and in each of them all these series."""

    series: tuple[str, ...]
    monoids: tuple[str, ...] = tuple(MONOIDS)
    variants: tuple[str, ...] = ("",)

    def expected(self) -> list[tuple[str, str, str]]:
        """Return every (monoid, variant, series) that must be there."""
        return [(m, v, s) for m in self.monoids for v in self.variants for s in self.series if _can(s, v)]


def _can(series: str, variant: str) -> bool:
    """Return whether a structure can take part: the in-order rivals support one order of arrival."""
    return series in ON_SPARK or not ALL[series].in_order or variant in ("", "in order")


SHOWN = {
    "distance": Panels(TREES),
    "latency": Panels(TREES, variants=("in order", "out of order")),
    "fifo": Panels((*TREES, *IN_ORDER)),
    "sharing": Panels(("fiba", *PAPER), variants=("twin", "range")),
    "bulk": Panels(("fiba", "paper µ=4", "classic µ=4"), monoids=("sum",), variants=("in order", "near", "far")),
    "random_distance": Panels(TREES, monoids=("sum", "bloom"), variants=("uniform", "heavy-tailed")),
    "memory": Panels((*TREES, *IN_ORDER), monoids=("sum", "bloom"), variants=("in order", "random order")),
    "combines": Panels(
        ("fiba", NARROW, *PAPER, *CLASSIC, *IN_ORDER), monoids=("sum",), variants=("in order", "by distance")
    ),
    "spark": Panels(ON_SPARK, monoids=("sum",)),
}


class MissingSeriesError(Exception):
    """A figure's rows lack a series that it must show."""
