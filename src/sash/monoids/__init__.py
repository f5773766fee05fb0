"""The built-in monoids.

Each function returns a `Monoid` that carries its Python definition and, for the core, its parts. The Python definition
runs where the core cannot: for times or values that are neither int64 nor float64. `column` names the input column of a
table; `dtype` ("int64", "float64", "object") sets the type that the first value would otherwise determine. A monoid
that reads two columns takes a pair as its value.

Floats are ordered -inf < ... < -0.0 < 0.0 < ... < inf < NaN.
"""

from sash.monoids.affine import affine
from sash.monoids.bits import all, any, bit_and, bit_or, bit_xor
from sash.monoids.collect import collect_list, collect_set, distinct, median, quantile, string_agg
from sash.monoids.hashes import stable_hash
from sash.monoids.histogram import histogram
from sash.monoids.moments import (
    Regression,
    correlation,
    covariance,
    geomean,
    kurtosis,
    regression,
    skewness,
    std,
    variance,
)
from sash.monoids.names import BUILT_IN
from sash.monoids.order import (
    argmax,
    argmin,
    bottom_k,
    delta,
    first,
    first_k,
    last,
    last_k,
    max,
    maxcount,
    min,
    mincount,
    range,
    top_k,
)
from sash.monoids.quantile_sketch import approx_quantile
from sash.monoids.registry import EXAMPLES, Card, cards, cards_markdown
from sash.monoids.sets import Bloom, bloom, hyperloglog
from sash.monoids.sketches import cpc, frequent_items, kll, state_bytes, theta
from sash.monoids.structs import struct
from sash.monoids.sums import count, count_if, mean, product, sum, weighted_mean
from sash.monoids.timed import decayed_mean, decayed_sum, rate, time_weighted_mean

__all__ = [
    "BUILT_IN",
    "EXAMPLES",
    "Bloom",
    "Card",
    "Regression",
    "affine",
    "all",
    "any",
    "approx_quantile",
    "argmax",
    "argmin",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bloom",
    "bottom_k",
    "cards",
    "cards_markdown",
    "collect_list",
    "collect_set",
    "correlation",
    "count",
    "count_if",
    "covariance",
    "cpc",
    "decayed_mean",
    "decayed_sum",
    "delta",
    "distinct",
    "first",
    "first_k",
    "frequent_items",
    "geomean",
    "histogram",
    "hyperloglog",
    "kll",
    "kurtosis",
    "last",
    "last_k",
    "max",
    "maxcount",
    "mean",
    "median",
    "min",
    "mincount",
    "product",
    "quantile",
    "range",
    "rate",
    "regression",
    "skewness",
    "stable_hash",
    "state_bytes",
    "std",
    "string_agg",
    "struct",
    "sum",
    "theta",
    "time_weighted_mean",
    "top_k",
    "variance",
    "weighted_mean",
]
