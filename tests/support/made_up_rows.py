"""Rows of two worlds that no one measured: in one all that the paper and sash claim is so, in the other none of it."""

from collections.abc import Callable, Iterator
from math import log2

from experiments.case import Row, Rows
from experiments.evidence import Measured
from experiments.series import OURS_ON_SPARK, SHOWN

N = 2**22
DISTANCES = (0, *(2**k for k in range(23)))
SIZES = tuple(2**k for k in range(23))
MONOIDS = ("sum", "geomean", "bloom")
Cost = Callable[[str, str, str, int], float]


def exponent(x: int) -> float:
    return log2(x) if x else -1.0


def arity(series: str) -> int:
    return int(series[-1]) if series[-1].isdigit() else 0


def cost_rows(figure: str, xs: tuple[int, ...], cost: Cost) -> Iterator[Row]:
    for monoid, variant, series in SHOWN[figure].expected():
        for x in xs:
            row = {"figure": figure, "monoid": monoid, "variant": variant, "series": series, "x": x}
            yield row | {"n": x if figure == "fifo" else N, "d": x, "median": cost(monoid, variant, series, x)}


def made(figure: str, xs: tuple[int, ...], cost: Cost, **more: Cost) -> Rows:
    rows = Rows(cost_rows(figure, xs, cost))
    for row in rows:
        where = (row["monoid"], row["variant"], row["series"], row["x"])
        row |= {name: function(*where) for name, function in more.items()}
    return rows


# --- as claimed -----------------------------------------------------------------------------------


def _distance(monoid: str, _: str, series: str, d: int) -> float:
    bloom, mu = monoid == "bloom", arity(series)
    if series == "fiba":
        return 10.0
    if series.startswith("classic"):
        return (4000 + 100 * mu if bloom else 300) * (0.8 if d == N else 1)
    if d == N:
        return 40
    return 1000 + 50 * mu + 100 * exponent(d) if bloom else 90 - mu + 10 * exponent(d)


def _combines(_: str, __: str, series: str, d: int) -> float:
    if series.startswith("paper"):
        return 10 * 1.2 ** (exponent(d) // log2(arity(series)))
    return 200 if series.startswith("classic") else 3


_LATENCIES = {  # of the paper's tree, of the classic one
    "least": (10, 200),
    "p50": (20, 300),
    "p999": (40, 500),
    "most": (2000, 3000),
}


def _latency(column: str) -> Cost:
    def cost(monoid: str, variant: str, series: str, _: int) -> float:
        paper, classic = _LATENCIES[column]
        if series == "fiba":
            return 1
        if variant == "out of order" and monoid != "bloom":
            return classic
        if variant == "out of order" and series.startswith("paper"):
            return paper * {2: 1, 4: 3, 8: 2}[arity(series)]
        return paper if series.startswith("paper") else classic

    return cost


def _fifo(monoid: str, _: str, series: str, n: int) -> float:
    bloom, k = monoid == "bloom", exponent(n)
    if series.startswith("classic"):
        return 1100 + 200 * k if bloom else 100 + 20 * k
    if series == "reactive":
        return 405 * 2 ** (k / 13) if bloom else 100 + k
    return {"fiba": 9, "two_stacks": 10, "daba": 400 if bloom else 12}.get(series, 1000 if bloom else 16)


def _sharing(_: str, variant: str, __: str, small: int) -> float:
    return (100 + 20 * exponent(small)) * (1.2 if variant == "range" else 1)


def _shared_bytes(_: str, variant: str, __: str, small: int) -> float:
    return 50 * (1 if variant == "range" else 1 + small / N)


def as_claimed() -> Measured:
    return {
        "distance": made("distance", DISTANCES, _distance),
        "latency": made("latency", (0,), _latency("p50"), **{name: _latency(name) for name in _LATENCIES}),
        "fifo": made("fifo", SIZES, _fifo),
        "sharing": made("sharing", SIZES, _sharing, bytes=_shared_bytes),
        "bulk": made("bulk", (1, 2**20), lambda _, __, ___, ____: 1.5),
        "memory": made("memory", (N,), lambda _, __, series, ___: 16 if series == "fiba" else 40),
        "combines": made("combines", DISTANCES, _combines),
        "spark": made("spark", (1, 256), lambda _, __, series, x: 300 if series == OURS_ON_SPARK else 150 + 10 * x),
    }


# --- the opposite ---------------------------------------------------------------------------------


def _no_distance(monoid: str, _: str, series: str, d: int) -> float:
    k = exponent(d)
    if series == "fiba":
        return 9000
    if series.startswith("classic"):
        return 100 + 50 * (k + 1) + (1000 if d == N else 0) - arity(series)
    return 1000 - 10 * k + (900 if d == N else 0) + (-arity(series) if monoid == "bloom" else arity(series))


def _no_combines(_: str, __: str, series: str, d: int) -> float:
    if series.startswith("paper"):
        return 10 * 1.2 ** (exponent(d) // log2({2: 8, 4: 4, 8: 2}[arity(series)]))
    return 200 if series.startswith("classic") else 900


def _no_latency(column: str) -> Cost:
    def cost(_: str, variant: str, series: str, __: int) -> float:
        if series == "fiba":
            return 9000
        if column == "most" or variant == "out of order":
            return 10 + arity(series) if series.startswith("paper") else 50
        return 100

    return cost


def _no_fifo(monoid: str, _: str, series: str, n: int) -> float:
    k = exponent(n)
    if series.startswith("classic"):
        return 50 - k
    if series == "reactive":
        return 2000 - 60 * k if monoid == "bloom" else 6 * (1 + k)
    return {"fiba": 9000, "two_stacks": 5000, "daba": 200}.get(series, 2000 + 300 * k)


def _no_sharing(_: str, variant: str, __: str, small: int) -> float:
    return (1000 - 20 * exponent(small)) * (0.5 if variant == "range" else 1)


def the_opposite() -> Measured:
    return {
        "distance": made("distance", DISTANCES, _no_distance),
        "latency": made("latency", (0,), _no_latency("p50"), **{name: _no_latency(name) for name in _LATENCIES}),
        "fifo": made("fifo", SIZES, _no_fifo),
        "sharing": made("sharing", SIZES, _no_sharing, bytes=lambda *_: 50),
        "bulk": made("bulk", (1, 2**20), lambda *_: 9000),
        "memory": made("memory", (N,), lambda _, __, series, ___: 100 if series == "fiba" else 40),
        "combines": made("combines", DISTANCES, _no_combines),
        "spark": made("spark", (1, 256), lambda _, __, series, x: 150 + 10 * x if series == OURS_ON_SPARK else 300),
    }
