"""The statements of the paper's Results, sentence by sentence, checked against the rows.

A claim is a sentence, the criterion for it to hold, and a function of all rows that returns (what was measured, whether
it holds). None means that the rows cannot decide: a figure was not measured, or has too few points.
"""

from collections.abc import Iterable
from statistics import median

from experiments.case import Rows
from experiments.evidence import (
    CHEAP,
    EVERY,
    Claims,
    Found,
    Measured,
    TooFewError,
    all_of,
    before_end,
    by_monoid,
    first,
    geometric_mean,
    growth,
    least_of,
    ns_at,
    points_of,
    share_of,
    with_log,
)
from experiments.series import ARITIES, CLASSIC, PAPER

PAPERS = Claims()


# --- distance -------------------------------------------------------------------------------------


@PAPERS.says(
    "distance",
    "The classic B-tree's throughput is mostly unaffected by the change in distance.",
    "slowest and fastest d < n differ by less than 1.5 ×, for every µ and monoid",
)
def _classic_is_flat(measured: Measured) -> Found:
    rows = measured["distance"]
    found = {}
    for monoid in EVERY:
        curves = [before_end(rows, points_of(rows, monoid=monoid, series=s), monoid).values() for s in CLASSIC]
        found[monoid] = [max(curve) / min(curve) for curve in curves]
    return Found(f"slowest / fastest: {by_monoid(found)}", all_of(found, lambda ratio: ratio < 1.5))


@PAPERS.says(
    "distance",
    "The finger B-tree's throughput starts out significantly higher …",
    "at d = 0 twice that of the classic tree of the same µ, or more",
)
def _finger_starts_higher(measured: Measured) -> Found:
    rows = measured["distance"]
    found = {
        m: [
            ns_at(rows, 0, m, classic) / ns_at(rows, 0, m, paper) for classic, paper in zip(CLASSIC, PAPER, strict=True)
        ]
        for m in EVERY
    }
    return Found(f"times the classic tree's: {by_monoid(found, 1)}", all_of(found, lambda ratio: ratio >= 2))


@PAPERS.says(
    "distance",
    "… and smoothly degrades, following a log d trend.",
    "the time of a round correlates with log d by 0.9 or more, for 1 ≤ d ≤ n/4",
)
def _finger_follows_log_d(measured: Measured) -> Found:
    rows = measured["distance"]
    found = {}
    for monoid in EVERY:
        n = first(rows, monoid=monoid)["n"]
        curves = [points_of(rows, monoid=monoid, series=series) for series in PAPER]
        found[monoid] = [with_log({d: ns for d, ns in curve.items() if d <= n // 4}) for curve in curves]
    return Found(f"correlation: {by_monoid(found)}", all_of(found, lambda r: r >= 0.9))


@PAPERS.says(
    "distance",
    "All variants see an uptick in performance when d = n.",
    "every tree is faster at d = n than at the largest d below it",
)
def _uptick(measured: Measured) -> Found:
    rows = measured["distance"]
    found: dict[str, list[float]] = {}
    for monoid in EVERY:
        curves = [list(points_of(rows, monoid=monoid, series=s).values()) for s in (*PAPER, *CLASSIC)]
        found[monoid] = [curve[-2] / curve[-1] for curve in curves]
    return Found(f"times as fast: {by_monoid(found, 1)}", all_of(found, lambda ratio: ratio > 1))


@PAPERS.says(
    "distance",
    "For expensive operators, such as bloom, smaller min-arity trees perform better.",
    "on average over all d, µ = 2 is ahead of µ = 8 in both kinds of tree",
)
def _small_arity_for_bloom(measured: Measured) -> Found:
    rows = measured["distance"]
    ns = {s: geometric_mean(points_of(rows, monoid="bloom", series=s)) for s in (*PAPER, *CLASSIC)}
    ratios = [ns[f"{tree} µ=8"] / ns[f"{tree} µ=2"] for tree in ("paper", "classic")]
    text = f"µ=2 is {ratios[0]:.2f} times as fast as µ=8 (FiBA), {ratios[1]:.2f} times (classic)"
    return Found(text, all(ratio > 1 for ratio in ratios))


@PAPERS.says(
    "distance",
    "For cheap operators, such as sum, trees that require fewer rebalance and repair operations perform better.",
    "on average over all d, µ = 4 or 8 is ahead of µ = 2 in FiBA",
)
def _large_arity_for_sum(measured: Measured) -> Found:
    ns = [geometric_mean(points_of(measured["distance"], monoid="sum", series=series)) for series in PAPER]
    text = ", ".join(f"µ={mu} {cost:.0f} ns" for mu, cost in zip(ARITIES, ns, strict=True))
    return Found(text, min(ns[1:]) < ns[0])


@PAPERS.says(
    "combines",
    "The step-like throughput curves are a function of the min-arity: larger min-arity means longer sections.",
    "fewer doublings of d raise the combines of a round by 5 % or more, the larger µ",
)
def _steps(measured: Measured) -> Found:
    curves = [points_of(measured["combines"], variant="by distance", series=series) for series in PAPER]
    if any(d and 2 * d not in curves[0] for d in list(curves[0])[:-1]):
        raise TooFewError("needs every doubling of d: full run only")
    n = max(curves[0])
    steps = [sum(1 for d in curve if 0 < d <= n // 4 and curve[2 * d] > 1.05 * curve[d]) for curve in curves]
    text = ", ".join(f"µ={mu}: {count}" for mu, count in zip(ARITIES, steps, strict=True))
    return Found(f"doublings that cost more: {text}", steps[0] > steps[1] > steps[2])


# --- latency --------------------------------------------------------------------------------------


def _latency(measured: Measured, variant: str, column: str, monoids: Iterable[str]) -> dict[str, list[float]]:
    """Return the classic tree's latency over FiBA's, by monoid for each µ."""
    rows = measured["latency"].where(variant=variant)

    def of(monoid: str, series: str) -> float:
        found = rows.where(monoid=monoid, series=series)
        if not found:
            raise TooFewError(f"{series} was not measured")
        return float(found[0][column])

    return {m: [of(m, c) / of(m, p) for c, p in zip(CLASSIC, PAPER, strict=True)] for m in monoids}


@PAPERS.says(
    "latency",
    "At d = 0 with cheap or moderate operators, the worst-case latency in practice is similar.",
    "the longest rounds of the classic tree and of FiBA differ by less than 3 ×",
)
def _worst_case_is_similar(measured: Measured) -> Found:
    found = _latency(measured, "in order", "most", CHEAP)
    return Found(f"classic / FiBA: {by_monoid(found, 1)}", all_of(found, lambda ratio: 1 / 3 < ratio < 3))


@PAPERS.says(
    "latency",
    "However, the minimum and median latencies are orders of magnitude better for the finger B-trees.",
    "ten times better or more, at d = 0",
)
def _median_is_better(measured: Measured) -> Found:
    found = {
        f"{column} {monoid}": ratios
        for name, column in (("least", "minimum"), ("p50", "median"))
        for monoid, ratios in _latency(measured, "in order", name, CHEAP).items()
    }
    return Found(f"classic / FiBA: {by_monoid(found, 1)}", all_of(found, lambda ratio: ratio >= 10))


@PAPERS.says(
    "latency",
    "When the aggregation operator is expensive, the finger B-trees have significantly lower latency (d = 0).",
    "the median for bloom is half that of the classic tree or less",
)
def _bloom_latency(measured: Measured) -> Found:
    found = _latency(measured, "in order", "p50", ("bloom",))
    return Found(f"classic / FiBA: {by_monoid(found, 1)}", all_of(found, lambda ratio: ratio >= 2))


@PAPERS.says(
    "latency",
    "With d = n/4 and cheap or moderately expensive operators, classic and finger B-trees have similar latency.",
    "medians differ by less than 2 ×",
)
def _far_latency_is_similar(measured: Measured) -> Found:
    found = _latency(measured, "out of order", "p50", CHEAP)
    return Found(f"classic / FiBA: {by_monoid(found)}", all_of(found, lambda ratio: 1 / 2 < ratio < 2))


@PAPERS.says(
    "latency",
    "With expensive operators and d = n/4, minimum, median and 99.9th percentile of FiBA µ = 2 are orders of magnitude "
    "lower than those of classic B-trees.",
    "each of the three ten times lower or more, for bloom",
)
def _far_bloom_latency(measured: Measured) -> Found:
    names = {"minimum": "least", "median": "p50", "99.9th": "p999"}
    found = {
        name: _latency(measured, "out of order", column, ("bloom",))["bloom"][:1] for name, column in names.items()
    }
    return Found(f"classic / FiBA, µ=2: {by_monoid(found, 1)}", all_of(found, lambda ratio: ratio >= 10))


@PAPERS.says(
    "latency",
    "A curious effect: µ = 2 has the lowest latency; it gets significantly worse with µ = 4, then improves with µ = 8.",
    "medians of FiBA for bloom at d = n/4: µ=2 < µ=8 < µ=4",
)
def _curious_effect(measured: Measured) -> Found:
    rows = measured["latency"].where(variant="out of order", monoid="bloom")
    ns = [float(first(rows, series=series)["p50"]) for series in PAPER]
    text = ", ".join(f"µ={mu} {cost:,.0f} ns" for mu, cost in zip(ARITIES, ns, strict=True))
    return Found(text, ns[0] < ns[2] < ns[1])


# --- FIFO -----------------------------------------------------------------------------------------

_THEIRS = (*PAPER, *CLASSIC, "two_stacks", "daba", "reactive")


def _ranks(rows: Rows, monoid: str, series: str) -> list[int]:
    """Return the rank of a structure among those of the paper at each n; 1 is the fastest."""
    curves = {one: points_of(rows, monoid=monoid, series=one) for one in _THEIRS}
    return [1 + sum(curves[one][n] < ns for one in _THEIRS) for n, ns in curves[series].items()]


@PAPERS.says(
    "fifo",
    "For most window sizes, two-stacks has the best throughput.",
    "best of the paper's structures at more than half of the sizes, for every monoid",
)
def _two_stacks_is_best(measured: Measured) -> Found:
    shares = {m: share_of(rank == 1 for rank in _ranks(measured["fifo"], m, "two_stacks")) for m in EVERY}
    text = ", ".join(f"{monoid} {share:.0%}" for monoid, share in shares.items())
    return Found(f"best at: {text} of the sizes", all(share > 0.5 for share in shares.values()))


@PAPERS.says(
    "fifo",
    "DABA is generally second best.",
    "second or better among the paper's structures at more than half of the sizes, for every monoid",
)
def _daba_is_second(measured: Measured) -> Found:
    shares = {m: share_of(rank <= 2 for rank in _ranks(measured["fifo"], m, "daba")) for m in EVERY}
    text = ", ".join(f"{monoid} {share:.0%}" for monoid, share in shares.items())
    return Found(f"so at: {text} of the sizes", all(share > 0.5 for share in shares.values()))


@PAPERS.says(
    "fifo",
    "The finger B-tree variants demonstrate constant performance as the window size increases.",
    "from n = 256 on, slowest and fastest differ by less than 1.6 ×",
)
def _finger_is_constant(measured: Measured) -> Found:
    found = {m: [growth(measured["fifo"], m, series) for series in PAPER] for m in EVERY}
    return Found(f"slowest / fastest: {by_monoid(found)}", all_of(found, lambda ratio: ratio < 1.6))


def _against_daba(rows: Rows, monoid: str) -> float:
    """Return the median throughput of the best FiBA relative to DABA's, over all sizes from 256 on."""
    best, daba = least_of(rows, PAPER, monoid=monoid), points_of(rows, monoid=monoid, series="daba")
    ratios = [daba[n] / best[n] for n in best if n >= 256]
    if not ratios:
        raise TooFewError("needs sizes of 256 and more")
    return median(ratios)


@PAPERS.says(
    "fifo",
    "The best finger B-tree variants stay within 30 % of DABA for sum and geomean …",
    "70 % of DABA's throughput or more, in the median over n ≥ 256",
)
def _within_30(measured: Measured) -> Found:
    shares = {monoid: _against_daba(measured["fifo"], monoid) for monoid in CHEAP}
    text = ", ".join(f"{monoid} {share:.0%}" for monoid, share in shares.items())
    return Found(f"of DABA's throughput: {text}", all(share >= 0.7 for share in shares.values()))


@PAPERS.says(
    "fifo",
    "… but are about 60 % off of DABA with a more expensive operator like bloom.",
    "30 to 50 % of DABA's throughput, in the median over n ≥ 256",
)
def _sixty_off(measured: Measured) -> Found:
    share = _against_daba(measured["fifo"], "bloom")
    return Found(f"{share:.0%} of DABA's throughput", 0.3 <= share <= 0.5)


@PAPERS.says(
    "fifo",
    "SWAGs specialized for in-order data consistently outperform finger B-trees.",
    "two-stacks and DABA ahead of the best FiBA at 9 of 10 sizes or more, for every monoid",
)
def _specialists_win(measured: Measured) -> Found:
    rows = measured["fifo"]
    shares = {}
    for monoid in EVERY:
        best = least_of(rows, PAPER, monoid=monoid)
        rivals = [points_of(rows, monoid=monoid, series=series) for series in ("two_stacks", "daba")]
        shares[monoid] = share_of(rival[n] < best[n] for rival in rivals for n in best)
    text = ", ".join(f"{monoid} {share:.0%}" for monoid, share in shares.items())
    return Found(f"ahead at: {text} of the sizes", all(share >= 0.9 for share in shares.values()))


@PAPERS.says(
    "fifo",
    "The classic B-trees clearly demonstrate O(log n) behavior as the window size increases.",
    "the time of a round correlates with log n by 0.9 or more",
)
def _classic_follows_log_n(measured: Measured) -> Found:
    found = {m: [with_log(points_of(measured["fifo"], monoid=m, series=s)) for s in CLASSIC] for m in EVERY}
    return Found(f"correlation: {by_monoid(found)}", all_of(found, lambda r: r >= 0.9))


@PAPERS.says(
    "fifo",
    "Reactive does demonstrate O(log n) behavior, but it is only obvious with bloom.",
    "from n = 256 on a round's time doubles for bloom, and does not for sum and geomean",
)
def _reactive_follows_log_n(measured: Measured) -> Found:
    found = {monoid: [growth(measured["fifo"], monoid, "reactive")] for monoid in EVERY}
    holds = found["bloom"][0] >= 2 and all(found[monoid][0] < 2 for monoid in CHEAP)
    return Found(f"slowest / fastest: {by_monoid(found, 1)}", holds)


@PAPERS.says(
    "fifo",
    "For bloom, Reactive outperforms all of the B-tree based SWAGs.",
    "ahead of all FiBA and classic trees at more than half of the sizes",
)
def _reactive_wins_bloom(measured: Measured) -> Found:
    rows = measured["fifo"]
    best, reactive = (
        least_of(rows, (*PAPER, *CLASSIC), monoid="bloom"),
        points_of(rows, monoid="bloom", series="reactive"),
    )
    share = share_of(reactive[n] < best[n] for n in best)
    return Found(f"ahead at {share:.0%} of the sizes", share > 0.5)


# --- sharing --------------------------------------------------------------------------------------


def _range_over_twin(measured: Measured) -> list[float]:
    """Return the time with one tree over that with two, for each FiBA, monoid and small window."""
    rows = measured["sharing"]
    ratios = []
    for monoid in EVERY:
        for series in PAPER:
            one, two = (points_of(rows, monoid=monoid, series=series, variant=v) for v in ("range", "twin"))
            ratios += [one[small] / two[small] for small in one]
    return ratios


@PAPERS.says(
    "sharing",
    "Window sharing did not consistently improve runtime performance.",
    "one tree is faster than two at fewer than 9 of 10 points",
)
def _no_consistent_gain(measured: Measured) -> Found:
    share = share_of(ratio < 1 for ratio in _range_over_twin(measured))
    return Found(f"faster at {share:.0%} of the points", share < 0.9)


@PAPERS.says(
    "sharing",
    "Window sharing is slightly more expensive in practice.",
    "one tree takes 1 to 1.5 times the time of two, in the median over all points",
)
def _slightly_more_expensive(measured: Measured) -> Found:
    ratio = median(_range_over_twin(measured))
    return Found(f"{ratio:.2f} times", 1 <= ratio <= 1.5)


@PAPERS.says(
    "sharing",
    "A total of O(log d) per round in both the range and the twin experiments.",
    "the time of a round correlates with log n_small by 0.9 or more, below n_small = n",
)
def _sharing_follows_log(measured: Measured) -> Found:
    rows, found = measured["sharing"], {}
    for variant in ("range", "twin"):
        curves = [
            before_end(rows, points_of(rows, monoid=m, series=s, variant=variant), m) for m in EVERY for s in PAPER
        ]
        found[variant] = [with_log(curve) for curve in curves]
    return Found(f"correlation: {by_monoid(found)}", all_of(found, lambda r: r >= 0.9))


@PAPERS.says(
    "sharing",
    "An obvious benefit from window sharing is reduced space usage.",
    "where both windows are as large, one tree takes less than two thirds of the bytes of two",
)
def _saves_space(measured: Measured) -> Found:
    rows = measured["sharing"]
    found: dict[str, list[float]] = {}
    for monoid in EVERY:
        curves = [
            [rows.curve("bytes", monoid=monoid, series=series, variant=v) for v in ("range", "twin")]
            for series in PAPER
        ]
        if any(not curve for pair in curves for curve in pair):
            raise TooFewError("not measured")
        found[monoid] = [one[max(one)] / two[max(two)] for one, two in curves]
    return Found(f"one / two: {by_monoid(found)}", all_of(found, lambda ratio: ratio < 2 / 3))
