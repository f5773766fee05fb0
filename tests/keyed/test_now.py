"""`now` is `query` of one key as plain values: the same results and errors, and nothing changes."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash import KeyedWindows, Monoid, monoids
from sash.errors import ArgumentError, KindError, ResultOverflowError, RetentionError, SashError

AGGS = {
    "n": monoids.count(),
    "some": monoids.count("x"),
    "total": monoids.sum("x"),
    "top": monoids.max("x"),
    "last": monoids.last("x"),
    "most": monoids.maxcount("x"),
    "both": monoids.struct(n=monoids.count(), low=monoids.min("x")),
    "rate": monoids.rate("x"),
}


def letters() -> Monoid:
    return Monoid(identity="", combine=lambda a, b: a + b, lift=str, column="x", name="letters", returns="string")


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SashError as error:
        return type(error), str(error).replace("keys must", "key must")


def asked(kw: KeyedWindows, key: dict[str, Any], at: Any) -> Any:
    """What a query says of one key."""
    table = kw.query({name: [value] for name, value in key.items()} or None, at=at)
    (row,) = table.to_pylist()
    return {name: value for name, value in row.items() if name not in key}


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "t": st.integers(-5, 30),
            "x": st.sampled_from([*range(-3, 4), 2**62, None]),
        }
    ),
    min_size=1,
    max_size=20,
)
WORDS = st.fixed_dictionaries(
    {
        "closed": st.sampled_from(["left", "right"]),
        "lateness": st.sampled_from([None, 0, 3]),
        "emit": st.sampled_from(["arrival", "final", "update"]),
        "keys": st.sampled_from([["k"], []]),
        "on_error": st.sampled_from(["null", "raise"]),
    }
) | st.just({"every": 4, "emit": "final", "keys": ["k"], "lateness": 5})


@given(ROWS, WORDS, st.lists(st.sampled_from([None, *range(-10, 60)]), max_size=6), st.booleans(), st.booleans())
def test_now_is_a_query_of_one_key(
    rows: list[dict[str, Any]], words: dict[str, Any], times: list[int | None], python: bool, drop: bool
) -> None:
    """At all times, for keys that are there and for others; errors too, and nothing has changed afterwards."""
    aggs = AGGS | ({"letters": letters()} if python else {})
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64()})
    kw = KeyedWindows(time="t", windows=[4, 12], aggs=aggs, schema=schema, **(words | {"on_error": "null"}))
    for start in range(0, len(rows), 3):
        kw.push(pa.Table.from_pylist(rows[start : start + 3], schema))
    if drop:
        kw.drop_before(rows[0]["t"])
    before = kw.to_bytes(), kw.metrics
    for at in times:
        for key in ("a", "b", "z", None):
            one = {"k": key} if words["keys"] else {}
            assert repr(outcome(lambda one=one, at=at: kw.now(one, at))) == repr(
                outcome(lambda one=one, at=at: asked(kw, one, at))
            )
    assert (kw.to_bytes(), kw.metrics) == before
    kw.check_invariants()


def counts(**words: Any) -> KeyedWindows:
    aggs = {"n": monoids.count(), "total": monoids.sum("x")}
    return KeyedWindows(**{"keys": ["k"], "time": "t", "windows": [10], "aggs": aggs, **words})


@pytest.mark.parametrize("closed", ["left", "right"])
def test_what_can_be_answered_follows_from_the_last_expiry(closed: str) -> None:
    """One tick earlier raises, though no row of that key is missing; the message names the earliest time."""
    kw = counts(closed=closed, lateness=5)
    for time in range(100, 200, 10):
        kw.event({"k": "a", "t": time, "x": 1})
    kw.event({"k": "b", "t": 190, "x": 1})
    earliest = 185  # the horizon
    assert kw.now({"k": "b"}, at=earliest) == {"n_10": 0, "total_10": None}
    with pytest.raises(RetentionError, match=f"at must be {earliest} or later") as refused:
        kw.now({"k": "b"}, at=earliest - 1)
    assert refused.value.argument == "at"
    assert isinstance(refused.value, ValueError)


def test_the_default_time_is_that_of_the_newest_row() -> None:
    """Of the stream, not of the key; one tick later where windows do not hold their end."""
    for closed in ("left", "right"):
        kw = counts(closed=closed)
        kw.event({"k": "a", "t": 1, "x": 1})
        kw.event({"k": "b", "t": 11 - (closed == "left"), "x": 1})
        assert kw.now({"k": "b"}) == {"n_10": 1, "total_10": 1}
        left = {"n_10": 1, "total_10": 1}
        assert kw.now({"k": "a"}) == (left if closed == "left" else {"n_10": 0, "total_10": None})


def test_before_the_first_row_there_is_nothing() -> None:
    """0 for counts and None for the rest, whether types are known or not."""
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64()})
    for words in ({}, {"schema": schema}):
        kw = counts(aggs=AGGS, **words)
        assert kw.now({"k": "a"}) == {
            "n_10": 0,
            "some_10": 0,
            "total_10": None,
            "top_10": None,
            "last_10": None,
            "most_10": None,
            "both_10": {"n": 0, "low": None},
            "rate_10": None,
        }


@pytest.mark.parametrize("key", [None, "a", ["a"], {}, {"x": 1}, {"k": "a", "x": 1}])
@pytest.mark.parametrize("begun", [True, False])
def test_a_key_names_its_columns(key: Any, begun: bool) -> None:
    """All of them, and nothing else."""
    kw = counts()
    if begun:
        kw.event({"k": "a", "t": 1, "x": 1})
    with pytest.raises(ArgumentError, match=r"^key must be a dict with the columns \['k'\]") as refused:
        kw.now(key)
    assert refused.value.argument == "key"


def test_a_key_of_another_type_is_refused() -> None:
    """As in a query."""
    kw = counts()
    kw.event({"k": "a", "t": 1, "x": 1})
    with pytest.raises(KindError, match=r"^key must hold string in the column 'k'") as refused:
        kw.now({"k": 5})
    assert refused.value.argument == "key"
    with pytest.raises(KindError, match=r"^at must be an int like the times"):
        kw.now({"k": "a"}, at=1.5)


@pytest.mark.parametrize("at", [np.datetime64("2026-01-01T00:30"), pd.Timestamp("2026-01-01 00:30"), "datetime"])
def test_times_of_all_kinds(at: Any) -> None:
    """The kinds of times that watermarks may be."""
    kw = counts(windows=["1h"])
    at = dt.datetime(2026, 1, 1, 0, 30) if at == "datetime" else at
    for minute in (0, 20, 40):
        kw.push({"k": ["a"], "t": [dt.datetime(2026, 1, 1, 0, minute)], "x": [1]}, watermark=dt.datetime(2026, 1, 1))
    assert kw.now({"k": "a"}, at)["n_1h"] == 2


def test_a_result_that_does_not_fit_raises_where_errors_raise() -> None:
    """It is null otherwise, and not counted: nothing was emitted."""
    rows = {"k": ["a", "a"], "t": [1, 2], "x": [2**62, 2**62]}
    kw = counts(emit="final", lateness=10)
    kw.push(rows)
    assert kw.now({"k": "a"}) == {"n_10": 2, "total_10": None}
    assert kw.metrics["overflows"] == 0
    strict = counts(emit="final", lateness=10, on_error="raise")
    strict.push(rows)
    with pytest.raises(ResultOverflowError):
        strict.now({"k": "a"})
