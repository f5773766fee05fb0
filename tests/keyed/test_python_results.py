"""Results of aggregates that Python computes: their types are known beforehand, and what does not fit is null."""

import warnings
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sash import KindError, Monoid, ResultOverflowError, SashError, SashWarning, monoids, rolling
from sash.keyed.definition import Definition
from sash.keyed.result_schema import result_schema
from support.keyed_batches import engine

D = Decimal
MONEY = pa.decimal128(12, 2)


def money(t: list[int], x: list[Any], kind: Any = MONEY) -> pa.Table:
    return pa.table({"k": ["a"] * len(t), "t": t, "x": pa.array(x, kind)})


DECIMAL = {
    "sum": (monoids.sum("x"), pa.decimal128(38, 2), [D("1.50"), D("1001.75")]),
    "mean": (monoids.mean("x"), pa.decimal128(38, 6), [D("1.500000"), D("500.875000")]),
    "range": (monoids.range("x"), pa.decimal128(38, 2), [D("0.00"), D("998.75")]),
    "delta": (monoids.delta("x"), pa.decimal128(38, 2), [D("0.00"), D("998.75")]),
    "max": (monoids.max("x"), MONEY, [D("1.50"), D("1000.25")]),
}


@pytest.mark.parametrize("name", DECIMAL)
def test_results_over_decimals_have_one_type(name: str) -> None:
    """In the schema, in tables and in streams, whatever the first result is."""
    monoid, kind, wanted = DECIMAL[name]
    table = money([1, 2], [D("1.50"), D("1000.25")])
    kw = engine(aggs={"r": monoid})
    schema = result_schema(kw.spec, Definition.of(kw.spec, table), table.schema)
    outs = [rolling(table, keys=["k"], time="t", windows=[10], aggs={"r": monoid})]
    outs += [pa.concat_tables([kw.push(table.slice(0, 1)), kw.push(table.slice(1, 1))])]
    for out in outs:
        assert (out["r_10"].type, out["r_10"].to_pylist()) == (kind, wanted)
    assert schema.field("r_10").type == kind


def test_sums_of_decimals_are_exact() -> None:
    """Python's own arithmetic rounds to 28 digits."""
    one, large = D("0." + "0" * 29 + "1"), D("99999999")
    table = money([1, 2], [one, large], pa.decimal128(38, 30))
    out = rolling(table, time="t", windows=[10], aggs={"s": monoids.sum("x")})
    assert out["s_10"].to_pylist()[1] == D("99999999." + "0" * 29 + "1")


def test_a_mean_of_decimals_is_rounded() -> None:
    """Half up, as in Spark, to four digits more than its column has."""
    table = money([1, 2, 3], [D("0.01"), D("0.01"), D("0.03")])
    out = rolling(table, time="t", windows=[10], aggs={"m": monoids.mean("x")})
    assert out["m_10"].to_pylist() == [D("0.010000"), D("0.010000"), D("0.016667")]


def test_a_sum_of_decimals_that_does_not_fit_is_null() -> None:
    """And an overflow, which can raise."""
    table = money([1, 2], [D("9" * 38), D(1)], pa.decimal128(38, 0))
    kw = engine(aggs={"s": monoids.sum("x")})
    assert kw.push(table)["s_10"].to_pylist() == [None, None] or kw.metrics["overflows"]
    assert kw.metrics["overflows"] > 0 and kw.metrics["failures"] == 0
    with pytest.raises(ResultOverflowError, match="s_10 must fit decimal128"):
        engine(aggs={"s": monoids.sum("x")}, on_error="raise").push(table)


def test_sums_of_objects_have_no_limit_of_64_bits() -> None:
    """They are decimals without a fraction."""
    out = rolling({"t": [1, 2], "x": [2**62, 2**62]}, time="t", windows=[5], aggs={"s": monoids.sum("x", dtype=object)})
    assert (out["s_5"].type, out["s_5"].to_pylist()) == (pa.decimal128(38, 0), [D(2**62), D(2**63)])


@pytest.mark.parametrize("name", ["max", "min"])
def test_counts_of_extremes_over_decimals_are_structs(name: str) -> None:
    """As over other numbers."""
    monoid = getattr(monoids, f"{name}count")("x")
    out = rolling(money([1, 2], [D(1), D(1)]), time="t", windows=[5], aggs={"c": monoid})
    assert out["c_5"].to_pylist()[1] == {name: D("1.00"), "count": 2}


# --- what does not fit ----------------------------------------------------------------------------


def own(returns: Any, lower: Any = None) -> Monoid:
    return Monoid(identity=0, combine=lambda a, b: a + b, lower=lower, column="x", name="own", returns=returns)


MISFITS = {
    "text for ints": (own("int64", lambda s: "x" if s > 1 else s), [1, None]),
    "large for small": (own("int8", lambda s: 300 if s > 1 else s), [1, None]),
    "fractions for ints": (own("int64", lambda s: s + 0.5 if s > 1 else s), [1, None]),
    "lists for text": (own("string", lambda s: [s] if s > 1 else "a"), ["a", None]),
    "too large, no type": (own(None, lambda s: 2**70 if s > 1 else s), [1, None]),
    "other than the first, no type": (own(None, lambda s: "x" if s > 1 else s), [1, None]),
}


@pytest.mark.parametrize("emit", ["arrival", "update", "final"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_result_that_does_not_fit_is_null_and_counted(name: str, emit: str) -> None:
    """The stream goes on, and the other results are there."""
    monoid, wanted = MISFITS[name]
    kw = engine(aggs={"r": monoid, "n": monoids.count()}, emit=emit)
    outs = [kw.push(money([1], [1], pa.int64())), kw.push(money([2], [1], pa.int64())), kw.flush()]
    found = [row for out in outs for row in out.to_pylist()]
    assert [(row["r_10"], row["n_10"]) for row in found] == list(zip(wanted, [1, 2], strict=True))
    assert kw.metrics["failures"] + kw.metrics["overflows"] == 1
    with pytest.raises((KindError, ResultOverflowError), match="r_10 must fit"):
        raising = engine(aggs={"r": monoid}, on_error="raise")
        raising.push(money([1], [1], pa.int64()))
        raising.push(money([2], [1], pa.int64()))


def test_results_that_arrow_has_no_type_for_are_refused() -> None:
    """Null would be all there is."""
    with pytest.raises(KindError, match="r_10 must have results of an Arrow type"):
        rolling(money([1], [1], pa.int64()), time="t", windows=[10], aggs={"r": own(None, lambda s: object())})


# --- warnings -------------------------------------------------------------------------------------


def test_rolling_warns_once_of_what_failed() -> None:
    """With the counts, and the first error; a table without failures warns of nothing."""
    table = {"t": [1, 2, 3], "x": [2**62, 2**62, 2**62]}
    aggs = {"s": monoids.sum("x"), "typo": Monoid(identity=0, combine=max, lift=lambda v: v.nothing, column="x")}
    message = "5 results are null: 3 failed and 2 did not fit their type. The first error was AttributeError"
    with pytest.warns(SashWarning, match=message) as told:
        out = rolling(table, time="t", windows=[10], aggs=aggs)
    assert len(told) == 1 and told[0].filename == __file__
    assert (out["s_10"].to_pylist(), out["typo_10"].to_pylist()) == ([2**62, None, None], [None] * 3)
    with pytest.warns(SashWarning, match="0 failed and 1 did not fit their type"):
        rolling(table, time="t", windows=[10], every=10, aggs={"s": monoids.sum("x")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rolling(table, time="t", windows=[1], aggs={"s": monoids.sum("x")})


FAR = pa.array([2**60, 5, 7], pa.int64()).cast(pa.timestamp("us"))  # the first is in the year 38505


def test_times_that_python_does_not_have_fail_their_windows_only() -> None:
    """A push is not refused for them, and the stream continues."""
    kw = engine(aggs={"last": monoids.last("x"), "all": monoids.collect_list("x"), "n": monoids.count("x")})
    out = kw.push(pa.table({"k": ["a"] * 3, "t": [1, 2, 30], "x": FAR}))
    assert out.column("last_10").cast(pa.int64()).to_pylist() == [None, None, 7]
    assert out.column("n_10").to_pylist() == [1, 2, 1] and kw.metrics["failures"] == 4
    more = kw.push(pa.table({"k": ["a"], "t": [31], "x": FAR[1:2]}))
    assert more.column("all_10").cast(pa.list_(pa.int64())).to_pylist() == [[7, 5]]


def test_times_that_python_does_not_have_are_named() -> None:
    kw = engine(aggs={"last": monoids.last("x")}, on_error="raise")
    with pytest.raises(SashError, match=r"^column 'x' must hold times of the years 1 to 9999 .* timestamp\[us\] 1"):
        kw.push(pa.table({"k": ["a"] * 3, "t": [1, 2, 30], "x": FAR}))


@pytest.mark.parametrize("on_error", ["null", "raise"])
def test_an_integer_that_does_not_fit_refuses_its_push(on_error: Any) -> None:
    """An aggregate does not fail on it: skipped like a null, it would make sums wrong. Nothing is changed."""
    kw, big = engine(aggs={"s": monoids.sum("x")}, on_error=on_error), pa.array([5, 2**63 + 1], pa.uint64())
    with pytest.raises(SashError, match=r"values\['x'\]\[1\] must fit int64, .* got 9223372036854775809"):
        kw.push(pa.table({"k": ["a"] * 2, "t": [1, 2], "x": big}))
    assert (kw.metrics["rows_in"], kw.metrics["live_rows"]) == (0, 0)
    assert kw.push(pa.table({"k": ["a"], "t": [1], "x": big[:1]})).column("s_10").to_pylist() == [5]
