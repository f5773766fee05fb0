"""The registry of built-ins: one row each, which tests, documentation and loading use."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

from sash.monoid import Monoid
from sash.monoids.affine import affine
from sash.monoids.bits import all as all_true
from sash.monoids.bits import any as any_true
from sash.monoids.bits import bit_and, bit_or, bit_xor
from sash.monoids.collect import collect_list, collect_set, distinct, median, quantile, string_agg
from sash.monoids.histogram import histogram
from sash.monoids.moments import correlation, covariance, geomean, kurtosis, regression, skewness, std, variance
from sash.monoids.names import BUILT_IN
from sash.monoids.order import argmax, argmin, bottom_k, delta, first, first_k, last, last_k, maxcount, mincount, top_k
from sash.monoids.order import max as largest
from sash.monoids.order import min as smallest
from sash.monoids.order import range as extent
from sash.monoids.quantile_sketch import approx_quantile
from sash.monoids.sets import bloom, hyperloglog
from sash.monoids.sketches import available, cpc, frequent_items, kll, theta
from sash.monoids.structs import struct
from sash.monoids.sums import count, count_if, mean, product, weighted_mean
from sash.monoids.sums import sum as total
from sash.monoids.timed import decayed_mean, decayed_sum, rate, time_weighted_mean


@dataclass(frozen=True)
class Row:
    """A built-in with an example, the size of its native state, and the cost of a combine."""

    make: Callable[..., Monoid]
    example: Monoid
    state: str
    cost: str = "O(1)"


@dataclass(frozen=True)
class Card:
    """The summary of a built-in for its documentation."""

    name: str
    call: str
    gives: str
    state: str
    commutative: bool
    exact: bool
    cost: str


def _sketches() -> tuple[Row, ...]:
    """Return the rows of the sketches, or none if their library is not installed."""
    if not available():
        return ()
    return (
        Row(kll, kll(q=0.5), "about 24 * k bytes", "O(k)"),
        Row(frequent_items, frequent_items(), "up to 0.75 * 2**lg_max_k items", "O(2**lg_max_k)"),
        Row(theta, theta(), "up to 8 * 2**lg_k bytes", "O(2**lg_k)"),
        Row(cpc, cpc(), "about 0.6 * 2**lg_k bytes", "O(2**lg_k)"),
    )


ROWS: tuple[Row, ...] = (
    Row(total, total(), "16 bytes, 8 for floats"),
    Row(count, count(), "8 bytes"),
    Row(count_if, count_if(), "8 bytes"),
    Row(mean, mean(), "24 bytes, 16 for floats"),
    Row(product, product(), "8 bytes"),
    Row(weighted_mean, weighted_mean(), "16 bytes"),
    Row(smallest, smallest(), "8 bytes"),
    Row(largest, largest(), "8 bytes"),
    Row(extent, extent(), "16 bytes"),
    Row(argmin, argmin(), "16 bytes"),
    Row(argmax, argmax(), "16 bytes"),
    Row(first, first(), "8 bytes"),
    Row(last, last(), "8 bytes"),
    Row(delta, delta(), "16 bytes"),
    Row(maxcount, maxcount(), "16 bytes"),
    Row(mincount, mincount(), "16 bytes"),
    Row(first_k, first_k(3), "8 * k bytes", "O(k)"),
    Row(last_k, last_k(3), "8 * k bytes", "O(k)"),
    Row(top_k, top_k(3), "8 * k bytes", "O(k)"),
    Row(bottom_k, bottom_k(3), "8 * k bytes", "O(k)"),
    Row(variance, variance(), "32 bytes"),
    Row(std, std(), "32 bytes"),
    Row(skewness, skewness(), "48 bytes"),
    Row(kurtosis, kurtosis(), "48 bytes"),
    Row(covariance, covariance(), "64 bytes"),
    Row(correlation, correlation(), "64 bytes"),
    Row(regression, regression(), "64 bytes"),
    Row(geomean, geomean(), "16 bytes"),
    Row(bit_and, bit_and(), "8 bytes"),
    Row(bit_or, bit_or(), "8 bytes"),
    Row(bit_xor, bit_xor(), "8 bytes"),
    Row(all_true, all_true(), "8 bytes"),
    Row(any_true, any_true(), "8 bytes"),
    Row(histogram, histogram((0, 10, 20)), "8 bytes per bin", "O(bins)"),
    Row(decayed_sum, decayed_sum(10), "16 bytes"),
    Row(decayed_mean, decayed_mean(10), "24 bytes"),
    Row(time_weighted_mean, time_weighted_mean(), "32 bytes"),
    Row(rate, rate(), "8 bytes"),
    Row(affine, affine(), "16 bytes"),
    Row(bloom, bloom(), "2,048 bytes, or by capacity and error", "O(bits)"),
    Row(hyperloglog, hyperloglog(), "2**lg_k bytes", "O(2**lg_k)"),
    Row(approx_quantile, approx_quantile(), "up to 180 / relative_error bytes", "O(buckets)"),
    Row(distinct, distinct(), "the distinct values", "O(distinct values)"),
    Row(quantile, quantile(0.9), "8 bytes per value", "O(n)"),
    Row(median, median(), "8 bytes per value", "O(n)"),
    Row(collect_list, collect_list(), "the values"),
    Row(collect_set, collect_set(), "the distinct values", "O(distinct values)"),
    Row(string_agg, string_agg(), "the strings"),
    *_sketches(),
    Row(struct, struct(n=count(), top=largest()), "the sum over its fields", "the sum over its fields"),
)

BUILT_IN.update({row.make.__name__: row.make for row in ROWS})
EXAMPLES: dict[str, Monoid] = {row.make.__name__: row.example for row in ROWS}


def cards() -> list[Card]:
    """Return the cards of all built-ins, in the order of the registry."""
    return [_card(row) for row in ROWS]


def _card(row: Row) -> Card:
    return Card(
        name=row.make.__name__,
        call=f"{row.make.__name__}({', '.join(_parameters(row.make))})",
        gives=(row.make.__doc__ or "").splitlines()[0],
        state=row.state,
        commutative=row.example.commutative,
        exact=row.example.exact,
        cost=row.cost,
    )


def _parameters(make: Callable[..., Monoid]) -> list[str]:
    """Return the parameters as in a signature, with a bare * before the keyword-only ones."""
    parameters, starred = [], False
    for parameter in signature(make).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        parameters.append(str(parameter.replace(annotation=parameter.empty)))
    return parameters


def cards_markdown() -> str:
    """Return the cards as a Markdown table."""
    rows = ["| monoid | result | state | commutative | exact | combine |", "|---|---|---|---|---|---|"]
    for card in cards():
        flags = " | ".join("yes" if flag else "no" for flag in (card.commutative, card.exact))
        rows.append(f"| `{card.call}` | {card.gives} | {card.state} | {flags} | {card.cost} |")
    return "\n".join(rows) + "\n"
