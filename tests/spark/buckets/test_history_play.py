"""A stream that starts after a history says what one says that had it as its first micro-batch, whatever fails.

The history is cut, packed and grouped twice, and both must write the same. Every micro-batch after it is compared.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_bucket_play import AGGS, CLOSED, COARSE, DELAYS, EMIT, FEW, GRIDS, IDS, LATE, LATENESS, LATER, SEEDS

from sash.spark.stream import log
from support.buckets import streams
from support.buckets.history import Continued, moved
from support.buckets.trial import Asking, Trial

CUTS = st.integers(0, 5)  # of the micro-batches, how many are history


@pytest.fixture(autouse=True)
def few_and_small_records():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "LIVE_RECORDS", 4)
        patch.setattr(log, "RECORD_BYTES", 600)
        patch.setattr(log, "SMALL_BYTES", 300)
        yield


def continued(stream: streams.Stream, cut: int, seed: int, delay_ms: int, **options) -> Continued:
    history = [row for rows in stream[:cut] for row in rows]
    trial = Continued(Asking(**options), history, seed, delay_ms)
    for rows in stream[cut:]:
        trial.batch(rows)
    trial.end()
    return trial


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, LATE, CLOSED)
def test_plain_rows(batches, cut, seed, delay, emit, lateness, late, closed):
    carry = ("c",) if emit != "arrival" else ()
    options = {"emit": emit, "lateness": lateness, "late": late, "closed": closed, "carry": carry}
    continued(streams.plain(batches), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, CLOSED, AGGS)
def test_distinct_times(batches, cut, seed, delay, emit, lateness, closed, aggs):
    options = {"emit": emit, "lateness": lateness, "closed": closed, "aggs": aggs}
    continued(streams.distinct(batches), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, IDS, AGGS)
def test_ids(batches, cut, seed, delay, emit, lateness, ids, aggs):
    """A row that is in both, or twice in the history, counts once."""
    options = {"emit": emit, "lateness": lateness, "ids": ids, "aggs": aggs, "carry": ("c",)}
    continued(streams.identified(batches, ids, deletes=False), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, CLOSED, IDS, AGGS)
def test_retractions(batches, cut, seed, delay, emit, lateness, closed, ids, aggs):
    """A delete of the history removes an insert that comes with the stream, and the other way round."""
    options = {"emit": emit, "lateness": lateness, "closed": closed, "ids": ids, "retract": True, "aggs": aggs}
    continued(streams.identified(batches, ids, deletes=True), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, CLOSED)
def test_retractions_without_ids(batches, cut, seed, delay, emit, lateness, closed):
    """The whole history is one micro-batch: its inserts come before its deletes."""
    stream = streams.blind(batches, single=emit == "update")
    options = {"emit": emit, "lateness": lateness, "closed": closed, "retract": True}
    continued(stream, cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, LATER, LATENESS, GRIDS | COARSE)
def test_panes(batches, cut, seed, delay, emit, lateness, grid):
    trial = continued(streams.plain(batches), cut, seed, delay, emit=emit, lateness=lateness, **grid)
    assert trial.play.plan.merges


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, LATER, LATENESS, GRIDS, IDS, st.booleans(), AGGS)
def test_boundaries_with_ids(batches, cut, seed, delay, emit, lateness, grid, ids, deletes, aggs):
    options = {"emit": emit, "lateness": lateness, "ids": ids, "retract": deletes, "aggs": aggs, **grid}
    continued(streams.identified(batches, ids, deletes), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, LATER, LATENESS, GRIDS)
def test_boundaries_with_retractions_without_ids(batches, cut, seed, delay, emit, lateness, grid):
    options = {"emit": emit, "lateness": lateness, "retract": True, **grid}
    continued(streams.blind(batches, single=False), cut, seed, delay, **options)


def test_deletes_of_a_history_find_their_inserts_in_other_records():
    """As many of each at one time, in many records: nothing is left."""
    both = [streams.row_of("a", 9, at, delete=delete, named=False) for at in range(200) for delete in (False, True)]
    options = {"emit": "final", "lateness": 30, "retract": True}
    trial = Continued(Asking(**options), [*both, streams.row_of("a", 10, 0, named=False)], 1, 0)
    assert len(trial.initial) > 10
    trial.batch([streams.row_of("a", 11, 0, named=False)])
    trial.end()


@pytest.mark.parametrize("worker", range(4))
def test_a_delete_of_a_history_that_found_nothing_finds_nothing_later(worker):
    """Even when its record is merged with that of the insert that comes after it."""
    early = streams.row_of("a", 9, 0, named=False)
    history = [early | {"gone": True}, streams.row_of("b", 12, 0, named=False)]
    trial = Continued(Asking(emit="final", lateness=30, retract=True), history, worker, 0)
    trial.batch([early])
    for at in range(12, 24):
        trial.batch([streams.row_of(key, at, 1, named=False) for key in ("a", "b", None)])
    trial.end()
    assert trial.play.counts["merges"] > 0


# --- an export --------------------------------------------------------------------------------------


def followed_elsewhere(stream: streams.Stream, cut: int, seed: int, delay_ms: int, **options) -> None:
    """Stop a stream after some micro-batches, and go on with other buckets from what it held."""
    asking = Asking(**options)
    trial = Trial(asking, seed, delay_ms)
    for rows in stream[: cut + 1]:
        trial.batch(rows)
    if any(store.committed.log for store in trial.play.stores.values()):  # nothing is exported of nothing
        trial.play = moved(trial.play, asking, buckets=5)
    for rows in stream[cut + 1 :]:
        trial.batch(rows)
    trial.batch([], marker=True)
    trial.batch([])
    assert trial.play.empty()


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, CLOSED)
def test_an_export_of_rows(batches, cut, seed, delay, emit, lateness, closed):
    options = {"emit": emit, "lateness": lateness, "closed": closed}
    followed_elsewhere(streams.plain(batches), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, EMIT, LATENESS, IDS)
def test_an_export_of_rows_and_deletes(batches, cut, seed, delay, emit, lateness, ids):
    options = {"emit": emit, "lateness": lateness, "ids": ids, "retract": True}
    followed_elsewhere(streams.identified(batches, ids, deletes=True), cut, seed, delay, **options)


@FEW
@given(streams.BATCHES, CUTS, SEEDS, DELAYS, LATER, LATENESS, GRIDS | COARSE)
def test_an_export_of_panes(batches, cut, seed, delay, emit, lateness, grid):
    followed_elsewhere(streams.plain(batches), cut, seed, delay, emit=emit, lateness=lateness, **grid)
