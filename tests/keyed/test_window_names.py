"""Windows with names of their own: the same results in other columns, wherever windows are given."""

from typing import Any

import pandas as pd
import pytest

from sash import KeyedWindows, SashError, rolling

ROWS = {"k": ["a", "b", "a", "a"], "t": [10, 11, 12, 19], "v": [5, 7, None, 2]}
ASKED: dict[str, Any] = {"keys": "k", "time": "t", "aggs": {"n": "count()", "total": "sum(v)"}}
NAMED, SIZES = {"short": 3, "long_one": 10}, [3, 10]
COLUMNS = ["n_short", "n_long_one", "total_short", "total_long_one"]


def renamed(table: Any) -> Any:
    """A table whose results are named by sizes, with the names instead."""
    short = {name: name.replace("_10", "_long_one").replace("_3", "_short") for name in table.column_names}
    return table.rename_columns([short[name] for name in table.column_names])


def test_columns_of_a_table_have_the_names():
    assert rolling(ROWS, windows=NAMED, **ASKED).equals(renamed(rolling(ROWS, windows=SIZES, **ASKED)))
    boundaries = rolling(ROWS, windows=NAMED, every=5, **ASKED)
    assert boundaries.column_names == ["k", "window_start", "window_end", *COLUMNS]
    assert boundaries.equals(renamed(rolling(ROWS, windows=SIZES, every=5, **ASKED)))
    asked = rolling(ROWS, at={"k": ["a"], "t": [12]}, windows=NAMED, **ASKED)
    assert asked.select(COLUMNS).to_pylist() == [{"n_short": 2, "n_long_one": 2, "total_short": 5, "total_long_one": 5}]


def test_a_duration_may_have_any_name():
    """Two windows of one size are two columns."""
    table = pd.DataFrame({"t": pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:59"]), "v": [1, 2]})
    names = {"hour": "1h", "sixty": "60 minutes", "day": pd.Timedelta(days=1)}
    found = rolling(table, time="t", windows=names, aggs={"total": "sum(v)"})
    assert [*found.columns] == ["t", "v", "total_hour", "total_sixty", "total_day"]
    assert found["total_hour"].tolist() == found["total_sixty"].tolist() == [1, 3]


@pytest.mark.parametrize("options", [{"emit": "update"}, {"emit": "final", "every": 5}, {"emit": "arrival"}], ids=str)
def test_streams_keep_the_names_in_their_state(options):
    """Pushed, saved, loaded and pushed on: as without names, and the names come back in their order."""
    named, plain = (KeyedWindows(windows=windows, **ASKED, **options) for windows in (NAMED, SIZES))
    assert named.push(ROWS).equals(renamed(plain.push(ROWS)))
    named, plain = (KeyedWindows.from_bytes(one.to_bytes()) for one in (named, plain))
    more = {"k": ["a", "b"], "t": [21, 30], "v": [1, 1]}
    assert named.push(more).equals(renamed(plain.push(more)))
    assert named.query({"k": ["a", "c"]}).equals(renamed(plain.query({"k": ["a", "c"]})))
    assert [*named.now({"k": "a"})] == COLUMNS
    assert [*KeyedWindows(windows=NAMED, **ASKED).now({"k": "a"})] == COLUMNS


def test_one_event_has_the_names():
    kw = KeyedWindows(windows=NAMED, **ASKED)
    assert kw.event({"k": "a", "t": 1, "v": 5}) == {
        "k": "a",
        "t": 1,
        "v": 5,
        **dict(zip(COLUMNS, [1, 1, 5, 5], strict=True)),
    }


@pytest.mark.parametrize(
    ("windows", "said", "column"),
    [
        ({}, "windows must hold at least one size, got none.", None),
        ({1: 3}, "windows must have names that are text, got 1.", None),
        ({"": 3}, "windows must have names that are text, got ''.", None),
        ({"a": 0}, "windows must be positive, got 0.", None),
        ({"a": "1h"}, "windows must be an int because the times are ints, got '1h'.", None),
        ([3, 3], "windows must be distinct, got [3, 3].", None),
        ({"b_c": 3, "c": 4}, "windows must have other names: the results would have two columns 'n_b_c'.", "n_b_c"),
    ],
)
def test_what_cannot_be_a_name_is_refused(windows, said, column):
    aggs = {"n": "count()", "n_b": "sum(v)"}
    with pytest.raises(SashError) as raised:
        rolling(ROWS, keys="k", time="t", windows=windows, aggs=aggs)
    assert str(raised.value) == said
    assert (raised.value.argument, raised.value.column) == ("windows", column)
