"""Aggregates as text and windows with names over batch DataFrames: as in process."""

import pytest

import sash
from sash import ArgumentError
from sash.spark import rolling
from support.spark_events import events, frame

ASKED = {
    "keys": "text",
    "time": "t",
    "windows": {"short": 40, "long_one": 400},
    "aggs": {"n": "count()", "both": "struct(total=sum(x), top='max(x)')"},
}


@pytest.mark.parametrize("options", [{}, {"every": 20}, {"every": 20, "emit": "update"}], ids=str)
def test_text_and_names(spark, small, options):
    small(partitions=2)
    table = events(3, 200)
    got = rolling(frame(spark, table), **ASKED, **options).drop("revision", "deleted").toArrow()
    expected = sash.rolling(table, **ASKED, **{name: value for name, value in options.items() if name == "every"})
    assert [name for name in got.column_names if name.startswith(("n_", "both_"))] == [
        *("n_short", "n_long_one", "both_short", "both_long_one")
    ]
    assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_a_wrong_text_is_refused_before_anything_runs(spark):
    with pytest.raises(ArgumentError, match=r"aggs\['total'\]: unknown aggregate summ") as raised:
        rolling(frame(spark, events(3, 10)), keys="text", time="t", windows=[5], aggs={"total": "summ(x)"})
    assert (raised.value.argument, raised.value.column) == ("aggs", "total")
