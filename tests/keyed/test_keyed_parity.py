"""The promise: brute force, rolling, "final", "update" and "arrival" agree, row for row.

Random events with common ties, random disorder, random cuts into pushes and random watermarks; a monoid that is not
commutative is among the aggregates. What the tests are about is counted, and the last test asserts that it occurred.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles.keyed import Aggregate, KeyedOracle, Row
from sash import KeyedWindows, rolling
from support.keyed_streams import (
    COMMUTATIVE,
    CUTS,
    EXACT,
    FEW,
    JITTER,
    ROUNDED,
    SIZES,
    SOME_NULL,
    TIMES,
    WINDOWS,
    Pair,
    Push,
    agree,
    aimed,
    disordered,
    events,
    monoids_of,
    pure,
    pushes,
    rows_of,
    table_of,
    unordered,
)

SEEN: Counter[str] = Counter()
RAN: set[str] = set()

PLAIN = pushes(events(SOME_NULL, st.just(0), deletes=False))
IDENTIFIED = pushes(events(TIMES, st.integers(0, 3), deletes=False))
RETRACTED = pushes(events(FEW, st.integers(0, 1), deletes=True))
BLIND = pushes(events(FEW, st.just(0), deletes=True))
LATENESS = st.sampled_from([0, 2, 6, 30])
CLOSED = st.sampled_from(["right", "left"])
LATE = st.sampled_from(["drop", "emit"])

# --- an engine and its oracle ---------------------------------------------------------------------


class Counting(Pair):
    """A pair that remembers what its stream was about."""

    def push(self, push: Push) -> tuple[list[Row], list[Row]]:
        before = self.oracle.horizon
        both = super().push(push)
        times = Counter((row["k"], row["t"]) for row in push.rows)
        SEEN["ties"] += sum(n - 1 for (_, time), n in times.items() if time is not None)
        SEEN["null keys"] += sum(row["k"] is None for row in push.rows)
        SEEN["pushes that moved the horizon"] += self.oracle.horizon != before
        assert self.engine.metrics["live_rows"] >= len(self.oracle.events)
        return both

    def close(self) -> None:
        """Count what this stream was about, at its end."""
        for name, count in self.oracle.metrics.items():
            SEEN[name] += count
        SEEN["empty windows"] += sum(
            row[f"n_{window}"] == 0 for row in self.oracle.recomputed() for window in WINDOWS if "n" in self.oracle.aggs
        )


def parity(test: Callable[[], None]) -> Callable[[], None]:
    """Remember that a test of this page ran, so that the last one knows what has been counted."""
    PARITY.append(test)
    return test


PARITY: list[Callable[[], None]] = []


def ran(name: str) -> None:
    RAN.add(name)


# --- each push is what the oracle says ------------------------------------------------------------


@parity
@given(PLAIN, LATENESS, CLOSED, LATE)
def test_arrival_is_what_the_oracle_says(stream, lateness, closed, late):
    """Every push gives its accepted rows in input order with the aggregates at the end of the batch."""
    ran("test_arrival_is_what_the_oracle_says")
    pair = Counting(EXACT | ROUNDED, emit="arrival", lateness=lateness, closed=closed, late=late)
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, EXACT | ROUNDED)
    assert pair.flush() == ([], [])
    pair.close()


@parity
@given(RETRACTED, LATENESS, CLOSED)
def test_arrival_with_retractions_is_what_the_oracle_says(stream, lateness, closed):
    """Repeated inserts and deletes give no row, and no row sees what its batch deleted."""
    ran("test_arrival_with_retractions_is_what_the_oracle_says")
    pair = Counting(EXACT, emit="arrival", lateness=lateness, closed=closed, retract="gone", id="i")
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, EXACT)
    pair.close()


@parity
@given(PLAIN, LATENESS, CLOSED)
def test_final_is_what_the_oracle_says(stream, lateness, closed):
    """Every push gives what became final, by time and then arrival, and the flush the rest: each event once."""
    ran("test_final_is_what_the_oracle_says")
    aggs = EXACT | ROUNDED
    pair = Counting(aggs, emit="final", lateness=lateness, closed=closed, carry=["row"])
    everything = []
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(got, wanted, aggs)
        everything += got
    got, wanted = pair.flush()
    assert agree(got, wanted, aggs)
    everything += got
    wanted = [{name: row[name] for name in everything[0]} for row in pair.oracle.recomputed()] if everything else []
    assert agree(everything, wanted, aggs)
    pair.close()


@parity
@given(PLAIN, LATENESS)
def test_final_flags_late_rows(stream, lateness):
    """With late="emit" the late rows come too, flagged, with null results."""
    ran("test_final_flags_late_rows")
    pair = Counting(EXACT, emit="final", lateness=lateness, late="emit", carry=["row"])
    for push in stream:
        got, wanted = pair.push(push)
        assert agree(unordered(got), unordered(wanted), EXACT)
    pair.close()


@parity
@given(RETRACTED, LATENESS, CLOSED)
def test_final_with_retractions_is_what_the_oracle_says(stream, lateness, closed):
    """With ids events at one time stand in the order of their ids, and a delete wins whichever came first."""
    ran("test_final_with_retractions_is_what_the_oracle_says")
    pair = Counting(EXACT, emit="final", lateness=lateness, closed=closed, retract="gone", id="i", carry=["row"])
    everything = []
    for push in stream:
        got, wanted = pair.push(push)
        assert [row["t"] for row in got] == sorted(row["t"] for row in got)
        assert agree(unordered(got), unordered(wanted), EXACT)
        everything += got
    got, wanted = pair.flush()
    assert agree(unordered(got), unordered(wanted), EXACT)
    everything += got
    count_early_deletes(pair.oracle)
    wanted = [{name: row[name] for name in everything[0]} for row in pair.oracle.recomputed()] if everything else []
    assert agree(unordered(everything), unordered(wanted), EXACT)
    pair.close()


def count_early_deletes(oracle: KeyedOracle) -> None:
    """Inserts that met a tombstone are deletes that came before their inserts."""
    SEEN["deletes before their inserts"] += oracle.metrics.get("stillborn", 0)
    SEEN["repeated inserts"] += oracle.metrics.get("repeated", 0)


@parity
@given(RETRACTED, st.sampled_from([30, 6, 2, 0]), st.sampled_from(["left", "right"]))
def test_update_with_retractions_is_what_the_oracle_says(stream, lateness, closed):
    """Every push gives the rows that changed and no other; the last revision of each is what brute force says."""
    ran("test_update_with_retractions_is_what_the_oracle_says")
    follow_updates(stream, lateness=lateness, closed=closed, retract="gone", id="i")


@parity
@given(IDENTIFIED, st.sets(st.integers(0, 15), min_size=8))
def test_update_where_windows_become_empty(stream, spared):
    """Closed on the left, an event whose only predecessors are deleted has an empty window, and says so."""
    ran("test_update_where_windows_become_empty")
    rows = [{**row, "gone": True} for push in stream for row in push.rows if row["row"] not in spared]
    stream = [*stream, Push(rows, None, reloaded=False)]
    follow_updates(stream, lateness=30, closed="left", retract="gone", id="i")


@parity
@given(IDENTIFIED, LATENESS, CLOSED)
def test_update_with_ids_is_what_the_oracle_says(stream, lateness, closed):
    """The same without a column for deletes: a repeated insert is no change."""
    ran("test_update_with_ids_is_what_the_oracle_says")
    follow_updates(stream, lateness=lateness, closed=closed, id="i")


@parity
@given(PLAIN, LATENESS, CLOSED)
def test_update_without_ids_is_what_the_oracle_says(stream, lateness, closed):
    """Without ids events at one time stand in the order of arrival, and each is an anchor of its own."""
    ran("test_update_without_ids_is_what_the_oracle_says")
    follow_updates(stream, lateness=lateness, closed=closed)


def follow_updates(stream: list[Push], **options: Any) -> None:
    pair = Counting(EXACT, emit="update", carry=["row"], **options)
    latest: dict[int, Row] = {}
    highest = -(2**63)
    for push in stream:
        got, wanted = pair.push(push)
        highest = upsert(latest, got, highest)
        assert agree(unordered(without_revision(got)), unordered(wanted), EXACT)
    assert pair.flush() == ([], [])
    assert_latest_is_brute_force(latest, pair.oracle)
    for name in ("revised", "deleted"):
        assert pair.engine.metrics[name] == pair.oracle.metrics.get(name, 0), name
    count_early_deletes(pair.oracle)
    pair.close()


def upsert(latest: dict[int, Row], got: list[Row], highest: int) -> int:
    """Take the rows of one push, each of which must be newer than all before, and give the newest revision."""
    assert all(row["revision"] > highest for row in got)
    assert len({row["row"] for row in got}) == len(got)
    for row in got:
        SEEN["revisions above 1"] += row["row"] in latest and not row["deleted"]
        SEEN["deleted rows"] += row["deleted"]
        earlier = latest.get(row["row"])
        SEEN["windows that became empty"] += sum(
            bool(earlier and earlier[f"n_{window}"] and row[f"n_{window}"] == 0) for window in WINDOWS
        )
        latest[row["row"]] = row
    return max((row["revision"] for row in got), default=highest)


def without_revision(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "revision"} for row in rows]


def assert_latest_is_brute_force(latest: dict[int, Row], oracle: KeyedOracle) -> None:
    names = ["row", "k", "t", *oracle.columns()]
    alive = [{name: row[name] for name in names} for row in latest.values() if not row["deleted"]]
    wanted = [{name: row[name] for name in names} for row in oracle.recomputed()]
    assert agree(unordered(alive), unordered(wanted), EXACT)


@parity
@given(BLIND, LATENESS, CLOSED, st.sampled_from(["arrival", "final", "update"]))
def test_deletes_without_ids_are_what_the_oracle_says(stream, lateness, closed, emit):
    """A delete takes one equal event; of equal ones it cannot matter which, where order does not."""
    ran("test_deletes_without_ids_are_what_the_oracle_says")
    pair = Counting(COMMUTATIVE, emit=emit, lateness=lateness, closed=closed, retract="gone")
    for push in stream if emit == "final" else pure(stream):
        got, wanted = pair.push(push)
        assert agree(unordered(without_revision(got)), unordered(wanted), COMMUTATIVE)
    got, wanted = pair.flush()
    assert agree(unordered(without_revision(got)), unordered(wanted), COMMUTATIVE)
    assert pair.engine.metrics["unmatched"] == pair.oracle.metrics.get("unmatched", 0)
    pair.close()


# --- rolling --------------------------------------------------------------------------------------


@parity
@given(PLAIN | RETRACTED, LATENESS, CLOSED)
def test_rolling_over_the_accepted_events(stream, lateness, closed):
    """Offline over the events that a stream accepted, `rolling` gives what the stream gave in the end."""
    ran("test_rolling_over_the_accepted_events")
    aggs = EXACT | ROUNDED
    identified = any(row["i"] or row["gone"] for push in stream for row in push.rows)
    options = {"retract": "gone", "id": "i"} if identified else {}
    pair = Counting(aggs, emit="final", lateness=lateness, closed=closed, carry=["row"], **options)
    final = [row for push in stream for row in pair.push(push)[0]] + pair.flush()[0]
    # Rolling has no ids: rows that stand in their order have it as their order of arrival.
    accepted = [event.row for event in pair.oracle.in_order(pair.oracle.accepted)]
    asked: dict[str, Any] = {"keys": ["k"], "time": "t", "windows": list(SIZES), "closed": closed}
    rolled = rows_of(rolling(table_of(accepted), aggs=monoids_of(aggs), **asked))
    assert agree(rolled, pair.oracle.rolled(accepted), aggs)
    names = ["row", *pair.oracle.columns()]
    both = [[{name: row[name] for name in names} for row in rows] for rows in (rolled, final)]
    assert agree(unordered(both[0]), unordered(both[1]), aggs)
    pair.close()


@parity
@given(st.lists(events(TIMES, st.just(0), deletes=False), max_size=40), CLOSED)
def test_rolling_in_any_order(rows, closed):
    """`rolling` keeps the input's order and takes equal times in it."""
    ran("test_rolling_in_any_order")
    aggs = EXACT | ROUNDED
    oracle = KeyedOracle(keys=["k"], time="t", windows=WINDOWS, aggs=aggs, closed=closed)
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    got = rolling(
        table_of(rows), keys=["k"], time="t", windows=list(SIZES), aggs=monoids_of(aggs), per="event", closed=closed
    )
    assert agree(rows_of(got), oracle.rolled(rows), aggs)
    SEEN["ties"] += len(rows) - len({(row["k"], row["t"]) for row in rows})


# --- what must not matter -------------------------------------------------------------------------


def streamed(
    rows: list[Row], cuts: list[int], aggs: dict[str, Aggregate], emit: str = "final", **options: Any
) -> list[Row]:
    """What a stream cut at these places has said by its end: all of "final", or the last revisions of "update"."""
    kw = KeyedWindows(
        keys=["k"], time="t", windows=list(SIZES), aggs=monoids_of(aggs), emit=emit, carry=["row"], **options
    )
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    out: list[Row] = []
    for start, stop in itertools.pairwise(edges):
        out += rows_of(kw.push(table_of(rows[start:stop])))
    out += rows_of(kw.flush())
    assert kw.metrics["late"] == 0
    if emit == "update":
        latest = {row["row"]: row for row in sorted(out, key=lambda row: row["revision"])}
        out = [row for row in latest.values() if not row["deleted"]]
    dropped = {"row", "revision", "deleted"} if "id" in options else {"revision", "deleted"}
    return unordered([{name: value for name, value in row.items() if name not in dropped} for row in out])


IN_TIME = st.lists(events(TIMES, st.integers(0, 50), deletes=False), max_size=30)


@parity
@given(IN_TIME, JITTER, JITTER, CUTS, CUTS, st.sampled_from([1, 4, 12]), CLOSED)
def test_order_of_arrival_does_not_matter_with_ids(rows, one, other, cuts, more_cuts, lateness, closed):
    """Permuting arrivals within lateness changes nothing in "final" and in the last revisions, whatever the cuts."""
    ran("test_order_of_arrival_does_not_matter_with_ids")
    rows = list({(row["k"], row["t"], row["i"]): row for row in rows}.values())
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    options: dict[str, Any] = {"lateness": lateness, "closed": closed, "id": "i"}
    orders = [disordered(rows, jitter, lateness) for jitter in (one, other)]
    SEEN["permuted"] += orders[0] != orders[1]
    final = streamed(orders[0], cuts, EXACT, **options)
    assert len(final) == len(rows)
    assert streamed(orders[1], more_cuts, EXACT, **options) == final
    assert streamed(orders[1], cuts, EXACT, emit="update", **options) == final


@parity
@given(IN_TIME, JITTER, JITTER, CUTS, CUTS, st.sampled_from([1, 4, 12]))
def test_order_of_arrival_does_not_matter_at_distinct_times(rows, one, other, cuts, more_cuts, lateness):
    """Without ids the same holds where the times of a key are distinct."""
    ran("test_order_of_arrival_does_not_matter_at_distinct_times")
    rows = list({(row["k"], row["t"]): row for row in rows}.values())
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    orders = [disordered(rows, jitter, lateness) for jitter in (one, other)]
    final = streamed(orders[0], cuts, EXACT, lateness=lateness)
    assert streamed(orders[1], more_cuts, EXACT, lateness=lateness) == final
    assert streamed(orders[1], more_cuts, EXACT, emit="update", lateness=lateness) == final


@parity
@given(IN_TIME, JITTER, CUTS, CUTS, st.sampled_from([1, 4, 12]), CLOSED)
def test_cuts_do_not_matter(rows, jitter, cuts, more_cuts, lateness, closed):
    """Splitting a batch changes nothing in "final", ties without ids included."""
    ran("test_cuts_do_not_matter")
    rows = [aimed(row, [{}] * number) for number, row in enumerate(rows)]
    arrived = disordered(rows, jitter, lateness)
    final = streamed(arrived, cuts, EXACT, lateness=lateness, closed=closed)
    assert streamed(arrived, more_cuts, EXACT, lateness=lateness, closed=closed) == final
    assert streamed(arrived, list(range(len(rows))), EXACT, lateness=lateness, closed=closed) == final
    SEEN["cuts"] += cuts != more_cuts


# --- what it was about ----------------------------------------------------------------------------

WANTED = {
    "ties": 500,
    "null keys": 300,
    "late": 300,
    "bad_times": 30,
    "pushes that moved the horizon": 300,
    "revisions above 1": 50,
    "deletes before their inserts": 5,
    "repeated inserts": 10,
    "deleted rows": 50,
    "unmatched": 20,
    "empty windows": 100,
    "windows that became empty": 5,
    "permuted": 2,
    "cuts": 5,
}


def test_what_these_tests_are_about_occurred():
    """Ties, late rows, revisions, early deletes, deleted rows and emptied windows all really came up."""
    # Under xdist the others may have run in another process: this one then runs them itself.
    for test in PARITY:
        if test.__name__ not in RAN:
            test()
    assert not {what: (SEEN[what], least) for what, least in WANTED.items() if SEEN[what] < least}
