"""Moments: variance, skewness, kurtosis, covariance, correlation, regression, and the geometric mean.

States hold the count, the means and the sums of powers of the differences from them. Two states are merged by the
pairwise formulas of Chan, Golub and LeVeque (1979) and Pébay (2008), which never subtract two large sums. A mean is
stored as its difference from one of the values, the origin: rounding is then relative to the spread of the values and
not to their distance from zero.
"""

import math
from functools import partial
from typing import Any, NamedTuple

from sash.errors import ArgumentError, shown
from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import add_all, checked_int, named, real, real_pair

_FORM = "2"  # of states; those of the first had no origin
_Spread = tuple[int, float, float, float]  # n, origin, mean from there, and the sum of squares
_Moments = tuple[int, float, float, float, float, float]  # the same with the sums of cubes and fourth powers

# --- variance -------------------------------------------------------------------------------------


def _alone(value: Any) -> _Spread:
    number = real(value)
    return 1, number, 0.0, number - number  # NaN if it is not finite, and so is every sum that includes it


def _merged(a: _Spread, b: _Spread) -> _Spread:
    if not a[0] or not b[0]:
        return a if a[0] else b
    n, d = a[0] + b[0], (b[1] - a[1]) + (b[2] - a[2])
    return n, a[1], a[2] + d * (b[0] / n), a[3] + b[3] + d * d * (a[0] * b[0] / n)


def _variance_of(ddof: int, state: _Spread) -> float | None:
    n, _, _, squares = state
    return squares / (n - ddof) if n > ddof else None


def _deviation_of(ddof: int, state: _Spread) -> float | None:
    variance = _variance_of(ddof, state)
    return None if variance is None else math.sqrt(variance)


def _spread(name: str, column: str | None, ddof: int) -> Monoid:
    ddof = checked_int("ddof", ddof, 0)
    rooted = name == "std"
    return Monoid(
        identity=(0, 0.0, 0.0, 0.0),
        combine=_merged,
        lift=_alone,
        lower=partial(_deviation_of if rooted else _variance_of, ddof),
        commutative=True,
        exact=False,
        name=name,
        version=_FORM,
        column=column,
        arguments=(("ddof", ddof),),
        parts=(Part("variance", (Input(column, "float"),), (ddof, int(rooted))),),
    )


def variance(column: str | None = None, *, ddof: int = 1) -> Monoid:
    """Variance with divisor n - ddof; None for `ddof` values or fewer.

    >>> from sash import Window, monoids
    >>> Window(monoids.variance()).slide([1, 2, 3], [1, 2, 6], size=9, at="end")
    7.0
    """
    return _spread("variance", column, ddof)


def std(column: str | None = None, *, ddof: int = 1) -> Monoid:
    """Standard deviation, the square root of the variance; None for `ddof` values or fewer."""
    return _spread("std", column, ddof)


# --- skewness and kurtosis ------------------------------------------------------------------------


def _alone_to_fourth(value: Any) -> _Moments:
    n, origin, mean, squares = _alone(value)
    return n, origin, mean, squares, squares, squares


def _merged_to_fourth(a: _Moments, b: _Moments) -> _Moments:
    if not a[0] or not b[0]:
        return a if a[0] else b
    (na, origin_a, mean_a, a2, a3, a4), (nb, origin_b, mean_b, b2, b3, b4) = a, b
    n, d = na + nb, (origin_b - origin_a) + (mean_b - mean_a)
    p, q = na / n, nb / n
    between = d * d * (na * q)  # the contribution of the distance between the means
    squares = a2 + b2 + between
    cubes = a3 + b3 + between * d * (p - q) + 3.0 * d * (p * b2 - q * a2)
    fourths = (
        a4
        + b4
        + between * d * d * (p * p - p * q + q * q)
        + 6.0 * d * d * (p * p * b2 + q * q * a2)
        + 4.0 * d * (p * b3 - q * a3)
    )
    return n, origin_a, mean_a + d * q, squares, cubes, fourths


def _skewness_of(state: _Moments) -> float | None:
    n, _, _, squares, cubes, _ = state
    if not n:
        return None
    m2, m3 = squares / n, cubes / n
    power = m2 * math.sqrt(m2)
    return m3 / power if power != 0.0 else math.nan


def _kurtosis_of(state: _Moments) -> float | None:
    n, _, _, squares, _, fourths = state
    if not n:
        return None
    m2, m4 = squares / n, fourths / n
    power = m2 * m2
    return m4 / power - 3.0 if power != 0.0 else math.nan


def skewness(column: str | None = None) -> Monoid:
    """Population skewness, m3 / m2**1.5; NaN if all values are equal, None if empty.

    >>> from sash import Window, monoids
    >>> Window(monoids.skewness()).slide([1, 2, 3], [1, 2, 3], size=9, at="end")
    0.0
    """
    return _shape("skewness", _skewness_of, column)


def kurtosis(column: str | None = None) -> Monoid:
    """Population excess kurtosis, m4 / m2**2 - 3; NaN if all values are equal, None if empty."""
    return _shape("kurtosis", _kurtosis_of, column)


def _shape(name: str, lower: Any, column: str | None) -> Monoid:
    return Monoid(
        identity=(0, 0.0, 0.0, 0.0, 0.0, 0.0),
        combine=_merged_to_fourth,
        lift=_alone_to_fourth,
        lower=lower,
        commutative=True,
        exact=False,
        name=name,
        version=_FORM,
        column=column,
        parts=(Part(name, (Input(column, "float"),)),),
    )


# --- two columns ----------------------------------------------------------------------------------


class _Joint(NamedTuple):
    n: int
    origin_x: float
    origin_y: float
    mean_x: float
    mean_y: float
    xx: float
    yy: float
    xy: float


class Regression(NamedTuple):
    """The least-squares line y = slope * x + intercept."""

    slope: float
    intercept: float


def _alone_joint(value: Any) -> _Joint:
    x, y = real_pair("x, y", value)
    return _Joint(1, x, y, 0.0, 0.0, x - x, y - y, (x - x) + (y - y))  # as in _alone


def _merged_joint(a: _Joint, b: _Joint) -> _Joint:
    if not a.n or not b.n:
        return a if a.n else b
    n, q = a.n + b.n, b.n / (a.n + b.n)
    dx = (b.origin_x - a.origin_x) + (b.mean_x - a.mean_x)
    dy = (b.origin_y - a.origin_y) + (b.mean_y - a.mean_y)
    return _Joint(
        n,
        a.origin_x,
        a.origin_y,
        a.mean_x + dx * q,
        a.mean_y + dy * q,
        a.xx + b.xx + dx * dx * (a.n * q),
        a.yy + b.yy + dy * dy * (a.n * q),
        a.xy + b.xy + dx * dy * (a.n * q),
    )


def _covariance_of(ddof: int, state: _Joint) -> float | None:
    return state.xy / (state.n - ddof) if state.n > ddof else None


def _correlation_of(state: _Joint) -> float | None:
    if state.n < 2:
        return None
    if state.xx == 0.0 or state.yy == 0.0:
        return math.nan
    r = state.xy / math.sqrt(state.xx) / math.sqrt(state.yy)
    return math.copysign(1.0, r) if abs(r) > 1.0 else r


def _line_of(state: _Joint) -> Regression | None:
    if state.n < 2:
        return None
    slope = state.xy / state.xx if state.xx != 0.0 else math.nan
    return Regression(slope, (state.origin_y + state.mean_y) - slope * (state.origin_x + state.mean_x))


def _joint(name: str, lower: Any, x: str | None, y: str | None, ddof: int | None = None) -> Monoid:
    return Monoid(
        identity=_Joint(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        combine=_merged_joint,
        lift=_alone_joint,
        lower=lower,
        commutative=True,
        exact=False,
        name=name,
        version=_FORM,
        arguments=named(x=x, y=y) + (() if ddof is None else (("ddof", ddof),)),
        parts=(
            Part(
                name,
                (Input(x, "float"), Input(y, "float")),
                () if ddof is None else (ddof,),
                Regression._fields if name == "regression" else (),
                Regression._make if name == "regression" else None,
            ),
        ),
    )


def covariance(x: str | None = None, y: str | None = None, *, ddof: int = 1) -> Monoid:
    """Covariance of pairs `(x, y)` with divisor n - ddof; None for `ddof` pairs or fewer."""
    ddof = checked_int("ddof", ddof, 0)
    return _joint("covariance", partial(_covariance_of, ddof), x, y, ddof)


def correlation(x: str | None = None, y: str | None = None) -> Monoid:
    """Pearson correlation of pairs `(x, y)`; NaN if x or y is constant, None for fewer than two pairs."""
    return _joint("correlation", _correlation_of, x, y)


def regression(x: str | None = None, y: str | None = None) -> Monoid:
    """Least-squares line of pairs `(x, y)` as `Regression(slope, intercept)`; None for fewer than two pairs.

    Both are NaN if x is constant.

    >>> from sash import Window, monoids
    >>> Window(monoids.regression()).slide([1, 2, 3], [(0, 1.0), (1, 3.0), (2, 5.0)], size=9, at="end")
    Regression(slope=2.0, intercept=1.0)
    """
    return _joint("regression", _line_of, x, y)


# --- geometric mean -------------------------------------------------------------------------------


def _log(value: Any) -> tuple[float, int]:
    number = real(value)
    if number < 0:
        raise ArgumentError(f"value must not be negative for a geometric mean, got {shown(value)}.", argument="value")
    return (math.log(number) if number else -math.inf), 1


def _exp_mean(state: tuple[float, int]) -> float | None:
    if not state[1]:
        return None
    try:
        return math.exp(state[0] / state[1])
    except OverflowError:  # the mean of the largest floats, rounded up
        return math.inf


def geomean(column: str | None = None) -> Monoid:
    """Geometric mean of non-negative values, 0.0 if one is 0; None if empty."""
    return Monoid(
        identity=(0.0, 0),
        combine=add_all,
        lift=_log,
        lower=_exp_mean,
        commutative=True,
        exact=False,
        name="geomean",
        column=column,
        native=(("float64", "geomean"),),
        parts=(Part("geomean", (Input(column, "float"),)),),
    )
