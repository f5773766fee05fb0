"""Windows of all kinds in one stream: each push is what the oracle says, and what is forgotten changes nothing.

Random events with ties, nulls, disorder, late rows and deletes, at tiny nodes as well; the engine goes through bytes on
the way and recomputes everything that it stores after each push.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.keyed import Event
from oracles.kinds import EveryKindsOracle, KindsOracle, Window
from sash import KeyedWindows, RetentionError, rolling
from sash.keyed import definition
from support.keyed_streams import (
    COMMUTATIVE,
    EXACT,
    FEW,
    SOME_NULL,
    TIMES,
    Pair,
    Push,
    agree,
    events,
    monoids_of,
    pushes,
    rows_of,
    table_of,
    unordered,
)

WINDOWS: dict[Any, Window] = {
    3: Window("span", 3),
    8: Window("span", 8),
    "1 row": Window("rows", 1),
    "2 rows": Window("rows", 2),
    "5 rows": Window("rows", 5),
    "unbounded": Window("unbounded"),
}
NAMES = {asked: str(asked).replace(" ", "") for asked in WINDOWS}
LETTERS = {"letters": ("letters", "x")}

MIXES = st.lists(st.sampled_from(list(WINDOWS)), min_size=1, max_size=4, unique=True)
CLOSED = st.sampled_from(["right", "left", "both", "neither"])
LATENESS = st.sampled_from([0, 2, 6, 30])
IDLE = st.sampled_from([None, None, 1, 4])
LEAST = st.sampled_from([None, None, 2])


@pytest.fixture(params=[(0, 0), (2, 4)], ids=["large nodes", "tiny nodes"], autouse=True, scope="module")
def nodes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything once with nodes as they are, and once with leaves of 2."""
    before = definition.NODE_SIZES
    definition.NODE_SIZES = request.param
    yield
    definition.NODE_SIZES = before


class KindPair(Pair):
    """An engine and the oracle of kinds, pushed side by side."""

    def __init__(self, aggs: dict[str, Any], windows: list[Any], idle: int | None = None, **options: Any) -> None:
        counts = any(WINDOWS[window].counts for window in windows)
        shared = {"keys": ["k"], "time": "t", "idle": idle if counts else None} | options
        self.ids = None
        self.own = monoids_of(aggs) if "letters" in aggs else None
        oracle: Any = EveryKindsOracle if "every" in options else KindsOracle
        self.engine = KeyedWindows(windows=windows, aggs=monoids_of(aggs), **shared)
        self.oracle = oracle(windows={NAMES[window]: WINDOWS[window] for window in windows}, aggs=aggs, **shared)

    def push(self, push: Push) -> tuple[Any, Any]:
        both = super().push(push)
        self.engine.check_invariants()
        return both


# --- events ---------------------------------------------------------------------------------------


@given(pushes(events(SOME_NULL, st.just(0), deletes=False)), MIXES, LATENESS, CLOSED, IDLE, LEAST)
def test_arrival_is_what_the_oracle_says(stream, windows, lateness, closed, idle, least):
    """Every push gives its accepted rows with the aggregates at the end of the batch."""
    pair = KindPair(EXACT, windows, idle, emit="arrival", lateness=lateness, closed=closed, min_rows=least)
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, EXACT)


@given(pushes(events(TIMES, st.integers(0, 3), deletes=True)), MIXES, LATENESS, CLOSED, IDLE)
def test_arrival_with_ids_is_what_the_oracle_says(stream, windows, lateness, closed, idle):
    """Rows of one time are in the order of their ids, and deletes take rows out of the last ones."""
    pair = KindPair(EXACT, windows, idle, emit="arrival", lateness=lateness, closed=closed, retract="gone", id="i")
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, EXACT)


@given(pushes(events(TIMES, st.integers(0, 3), deletes=True)), MIXES, LATENESS, CLOSED, IDLE, LEAST)
def test_final_is_what_the_oracle_says(stream, windows, lateness, closed, idle, least):
    """Each result comes once, however few rows are held by then."""
    pair = KindPair(
        EXACT, windows, idle, emit="final", lateness=lateness, closed=closed, retract="gone", id="i", min_rows=least
    )
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, EXACT)
    assert agree(*pair.flush(), EXACT)


@given(pushes(events(FEW | TIMES, st.integers(0, 3), deletes=True)), MIXES, LATENESS, CLOSED, IDLE)
def test_update_is_what_the_oracle_says(stream, windows, lateness, closed, idle):
    """A late row or a delete shifts which rows are the last ones: just the results that change come again."""
    pair = KindPair(EXACT, windows, idle, emit="update", lateness=lateness, closed=closed, retract="gone", id="i")
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(unordered([without(row) for row in got]), unordered(wanted), EXACT)


@given(pushes(events(FEW, st.just(0), deletes=True)), MIXES, LATENESS, IDLE)
def test_update_without_ids_is_what_the_oracle_says(stream, windows, lateness, idle):
    """The same where deletes are found by their values; order among equal times is that of arrival."""
    pair = KindPair(COMMUTATIVE, windows, idle, emit="update", lateness=lateness, retract="gone")
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(unordered([without(row) for row in got]), unordered(wanted), COMMUTATIVE)


@given(pushes(events(TIMES, st.just(0), deletes=False)), MIXES, LATENESS, IDLE, LEAST)
def test_aggregates_in_python_are_what_the_oracle_says(stream, windows, lateness, idle, least):
    """They see the same rows, of which columns are retained as long as the engine has them."""
    windows = [window for window in windows if window != "unbounded"] or ["2 rows"]
    pair = KindPair(LETTERS, windows, idle, emit="final", lateness=lateness, min_rows=least)
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, LETTERS)
    assert agree(*pair.flush(), LETTERS)


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "revision"}


# --- boundaries -----------------------------------------------------------------------------------


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        map(without, rows),
        key=lambda row: (row.get("deleted", 0), str(row["k"]), row["window_end"]),
    )


@pytest.mark.parametrize("emit", ["final", "update"])
@given(pushes(events(TIMES, st.integers(0, 3), deletes=True)), MIXES, LATENESS, st.sampled_from([1, 4]), IDLE, LEAST)
def test_boundaries_are_what_the_oracle_says(emit, stream, windows, lateness, every, idle, least):
    """Windows that count bring no boundaries of their own, unless there are no others."""
    pair = KindPair(
        EXACT, windows, idle, emit=emit, lateness=lateness, every=every, retract="gone", id="i", min_rows=least
    )
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(by_place(got), by_place(wanted), EXACT)
    got, wanted = pair.flush()
    assert agree(by_place(got), by_place(wanted), EXACT)


# --- questions ------------------------------------------------------------------------------------


@given(pushes(events(TIMES, st.integers(0, 3), deletes=True)), MIXES, LATENESS, CLOSED, IDLE, st.integers(0, 30))
def test_queries_are_what_the_oracle_says(stream, windows, lateness, closed, idle, at):
    """Any instant from the horizon on; an earlier one is refused or right."""
    pair = KindPair(EXACT, windows, idle, lateness=lateness, closed=closed, retract="gone", id="i")
    for push in stream:
        pair.push(push)
        horizon = pair.oracle.horizon
        try:
            got = pair.engine.query({"k": ["a", None, "z"]}, at=at)
        except RetentionError:
            assert horizon is not None and at < horizon
            continue
        assert agree(rows_of(got), asked_of(pair.oracle, at, ["a", None, "z"]), EXACT)


def asked_of(oracle: KindsOracle, at: int, keys: list[Any]) -> list[dict[str, Any]]:
    found = []
    for key in keys:
        mine = oracle.in_order(event for event in oracle.accepted if event.key == (key,))
        found.append({"k": key, **oracle.values_at(at, None, mine)})
    return found


# --- tables ---------------------------------------------------------------------------------------

AHEAD = WINDOWS | {"next 3": Window("ahead", 3), "next 10": Window("ahead", 10)}
TABLES = st.lists(events(TIMES, st.just(0), deletes=False), max_size=25)


@given(TABLES, st.lists(st.sampled_from(list(AHEAD)), min_size=1, max_size=4, unique=True), CLOSED, IDLE, LEAST)
def test_tables_are_what_the_oracle_says(rows, windows, closed, idle, least):
    """Rows of a table, by one pass and through the trees, and questions about it."""
    rows = [{**row, "row": i} for i, row in enumerate(rows)]
    idle = idle if any(AHEAD[window].counts for window in windows) else None
    names = {name_of(window): AHEAD[window] for window in windows}
    plain = {"keys": ["k"], "time": "t", "closed": closed, "idle": idle, "min_rows": least}
    for aggs in (COMMUTATIVE, EXACT) if "unbounded" in windows else (COMMUTATIVE, EXACT, LETTERS):
        oracle = KindsOracle(windows=names, aggs=aggs, **plain)
        held = [Event((row["k"],), row["t"], None, i, row) for i, row in enumerate(rows)]
        found = rolling(stripped(rows), windows=windows, aggs=monoids_of(aggs), **plain)
        wanted = [{**stripped_row(event.row), **oracle.answer(event, held)} for event in held]
        assert agree(rows_of(found), wanted, aggs)
        oracle.accepted = held
        at = pa.table({"k": ["a", None] * 3, "t": pa.array([-1, 0, 5, 9, 20, 24], pa.int64())})
        found = rolling(stripped(rows), at=at, windows=windows, aggs=monoids_of(aggs), **plain)
        wanted = [{**row, **asked_of(oracle, row["t"], [row["k"]])[0]} for row in at.to_pylist()]
        assert agree(rows_of(found), wanted, aggs)


def name_of(window: Any) -> str:
    return str(window).replace("next ", "next_").replace(" ", "")


def stripped(rows: list[dict[str, Any]]) -> pa.Table:
    return table_of([{name: row.get(name) for name in ("row", "k", "t", "x", "a", "b", "i", "gone")} for row in rows])


def stripped_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("row", "k", "t", "x", "a", "b", "i", "gone")}
