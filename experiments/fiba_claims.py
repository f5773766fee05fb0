"""The claims of sash about `fiba`, and every case in which `fiba` is behind."""

from typing import NamedTuple

from experiments.case import Rows
from experiments.evidence import (
    CHEAP,
    EVERY,
    Claims,
    Found,
    Measured,
    TooFewError,
    all_of,
    by_monoid,
    first,
    least_of,
    points_of,
)
from experiments.series import CLASSIC, NARROW, OURS_ON_SPARK, PAPER, SHOWN, SPARKS_OWN
from experiments.style import LOOKS, human

OURS = Claims()


# --- claims about fiba ----------------------------------------------------------------------------


def _ahead(rows: Rows, monoid: str, up_to: int | None = None) -> tuple[list[float], list[int]]:
    """Return the speedup of `fiba` over the best FiBA at each d, and where it is behind."""
    best, ours = least_of(rows, PAPER, monoid=monoid), points_of(rows, monoid=monoid, series="fiba")
    ratios = {d: best[d] / ours[d] for d in ours if up_to is None or d <= up_to}
    return list(ratios.values()), [d for d, ratio in ratios.items() if ratio <= 1]


@OURS.says("distance", "fiba is ahead of the paper's tree at its best µ, at every d, for sum and geomean.", "faster")
def _ahead_when_cheap(measured: Measured) -> Found:
    found = {monoid: _ahead(measured["distance"], monoid) for monoid in CHEAP}
    return _told(found)


@OURS.says("distance", "fiba is ahead of the paper's tree at its best µ, for bloom up to d = 1Ki.", "faster")
def _ahead_when_expensive(measured: Measured) -> Found:
    return _told({"bloom": _ahead(measured["distance"], "bloom", 2**10)})


def _told(found: dict[str, tuple[list[float], list[int]]]) -> Found:
    text = "times as fast: " + by_monoid({monoid: ratios for monoid, (ratios, _) in found.items()}, 1)
    behind = [f"{monoid} at d = {human(d)}" for monoid, (_, places) in found.items() for d in places]
    return Found(text + (f"; behind: {', '.join(behind)}" if behind else ""), not behind)


@OURS.says(
    "fifo",
    "In order, fiba keeps up with the structures that support nothing else.",
    "at most 1.25 times the time of the better of two-stacks and DABA, for every monoid, from n = 16 on",
)
def _keeps_up_in_order(measured: Measured) -> Found:
    rows, found = measured["fifo"], {}
    for monoid in EVERY:
        best = least_of(rows, ("two_stacks", "daba"), monoid=monoid)
        ours = points_of(rows, monoid=monoid, series="fiba")
        found[monoid] = [ours[n] / best[n] for n in ours if n >= 16]
    return Found(f"fiba / the better of both: {by_monoid(found)}", all_of(found, lambda ratio: ratio <= 1.25))


@OURS.says(
    "latency",
    "The 99.9th percentile of fiba is at most that of the paper's tree at its best µ.",
    "for every monoid and distance",
)
def _tail_is_no_worse(measured: Measured) -> Found:
    rows, found = measured["latency"], {}
    for monoid in EVERY:
        for variant in SHOWN["latency"].variants:
            mine = rows.where(monoid=monoid, variant=variant)
            best = min(row["p999"] for row in mine if row["series"] in PAPER)
            found[f"{monoid} {variant}"] = [first(mine, series="fiba")["p999"] / best]
    return Found(f"fiba / paper: {by_monoid(found)}", all_of(found, lambda ratio: ratio <= 1))


@OURS.says("memory", "fiba takes the fewest bytes per entry.", "in both orders of arrival and for both monoids")
def _fewest_bytes(measured: Measured) -> Found:
    rows, found, holds = measured["memory"], [], True
    for monoid in SHOWN["memory"].monoids:
        for variant in SHOWN["memory"].variants:
            mine = rows.where(monoid=monoid, variant=variant)
            ours = first(mine, series="fiba")["median"]
            next_best = min(row["median"] for row in mine if row["series"] != "fiba")
            found.append(f"{monoid} {variant} {ours:.1f} against {next_best:.1f}")
            holds &= ours < next_best
    return Found("; ".join(found), holds)


@OURS.says("combines", "fiba combines least of all trees at every distance.", "in both of its layouts")
def _fewest_combines(measured: Measured) -> Found:
    rows = measured["combines"].where(variant="by distance")
    best = least_of(rows, (*PAPER, *CLASSIC))
    layouts = {series: points_of(rows, series=series) for series in ("fiba", NARROW)}
    ratios = {LOOKS[series].name: [best[d] / curve[d] for d in curve] for series, curve in layouts.items()}
    return Found(f"times fewer: {by_monoid(ratios, 1)}", all_of(ratios, lambda ratio: ratio > 1))


@OURS.says(
    "bulk",
    "A run of entries inserted as a whole costs fiba a fifth of inserting them one by one.",
    "at d = n/4, for the largest batch, against the paper's rounds at that d",
)
def _bulk_pays(measured: Measured) -> Found:
    rows = measured["bulk"].where(variant="far", series="fiba")
    d, batch = first(rows)["d"], max(row["x"] for row in rows)
    singly = measured.get("distance", Rows()).where(monoid="sum", series="fiba", n=first(rows)["n"])
    nearest = min(singly, key=lambda row: abs(row["d"] - d), default=None)
    if nearest is None:
        raise TooFewError("the rounds at that d were not measured")
    together = first(rows, x=batch)["median"]
    text = f"{together:.1f} ns per entry in batches of {human(batch)}, {nearest['median']:.1f} ns per round"
    return Found(text, together <= nearest["median"] / 5)


@OURS.says(
    "spark",
    "On Spark, the cost does not depend on how many windows contain a row; with Spark's own window it does.",
    "ours at most 1.5 times slower at worst than at best; at the largest overlap at least 3 times as fast as Spark's",
)
def _overlap_is_free(measured: Measured) -> Found:
    ours, own = (points_of(measured["spark"], series=series) for series in (OURS_ON_SPARK, SPARKS_OWN))
    flat, ahead = max(ours.values()) / min(ours.values()), own[max(own)] / ours[max(ours)]
    text = f"ours {flat:.2f} times slower at worst; at an overlap of {human(max(own))} {ahead:.1f} times as fast"
    return Found(text, flat <= 1.5 and ahead >= 3 if len(ours) > 1 else None)


# --- where fiba loses -----------------------------------------------------------------------------


class Loss(NamedTuple):
    """Places of one panel where another series is ahead of `fiba`."""

    figure: str
    panel: str
    places: str
    worst: str


def losses(measured: Measured) -> list[Loss]:
    """Return every panel in which `fiba` is behind by 5 % or more, with the rival and the largest gap."""
    found = []
    for figure, rows in measured.items():
        for monoid, variant in dict.fromkeys((row["monoid"], row["variant"]) for row in rows):
            behind = _behind(rows.where(monoid=monoid, variant=variant), "p50" if figure == "latency" else "median")
            if behind:
                ratio, x, rival = max(behind)
                places = ", ".join(human(place) for place in sorted({place for _, place, _ in behind}))
                worst = f"{LOOKS[rival].name} takes {1 / ratio:.0%} of ours at {human(x)}"
                found.append(Loss(figure, ", ".join(filter(None, (monoid, variant))), places, worst))
    return found


_OURS = ("fiba", OURS_ON_SPARK)


def _behind(rows: Rows, column: str) -> list[tuple[float, int, str]]:
    ours = rows.curve(column, series="fiba") or rows.curve(column, series=OURS_ON_SPARK)
    rivals = [row for row in rows if not row["series"].startswith(_OURS) and row["x"] in ours]
    return [
        (ours[row["x"]] / row[column], row["x"], row["series"]) for row in rivals if ours[row["x"]] > 1.05 * row[column]
    ]
