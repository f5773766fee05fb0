"""Changes of a definition that die half way, are taken back, and are made again: deployments as they happen.

Whatever was tried before, results are those of a stream that had the last definition from the beginning.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from test_changes import ALL, PANES, Changing, compare

from oracles.keyed import Row
from sash.spark.stream import log
from sash.spark.stream.log import Head
from sash.spark.stream.packing import pack
from support.buckets.cluster import POINTS, Failed, packed_of
from support.buckets.streams import row_of
from support.buckets.trial import TICK_US, Asking

AGGS = {name: ALL[name] for name in ("n", "s", "top", "f", "text")}
OTHERS = {name: ALL[name] for name in ("n", "top", "more", "low", "any")}
SUMS = {name: PANES[name] for name in ("n", "s", "top", "mean")}
OTHER_SUMS = {name: PANES[name] for name in ("n", "s", "mean")}
# A definition, and what a deployment changes of it.
CASES: dict[str, tuple[Asking, dict]] = {
    "arrival": (Asking(aggs=ALL, sizes=(12, 4), emit="arrival", lateness=4), {"aggs": OTHERS, "sizes": (3, 12)}),
    "final": (Asking(aggs=ALL, sizes=(12, 4), lateness=4, ids=int), {"aggs": AGGS, "sizes": (12,)}),
    "final and update": (Asking(aggs=ALL, sizes=(12, 4), lateness=4, ids=int), {"emit": "update", "sizes": (12, 3)}),
    "deletes": (
        Asking(aggs=ALL, sizes=(12, 4), emit="update", lateness=6, ids=int, retract=True),
        {"aggs": OTHERS, "sizes": (12, 5)},
    ),
    "boundaries": (
        Asking(aggs=ALL, sizes=(12, 6), emit="update", lateness=6, every=3, ids=int),
        {"aggs": AGGS, "sizes": (12, 3)},
    ),
    "panes": (Asking(aggs=SUMS, sizes=(12, 6), emit="update", lateness=6, every=6), {"sizes": (12,)}),
}


@pytest.fixture(autouse=True)
def few_records(monkeypatch):
    monkeypatch.setattr(log, "LIVE_RECORDS", 4)


def rows_at(asking: Asking, number: int, seed: int) -> list[Row]:
    """The rows of a micro-batch: of three keys, each at a time and with an id of its own, some late or deleted."""
    drawn, rows = random.Random(f"{seed} {number}"), []
    for at in range(9):
        row = row_of("abc"[at % 3], 4 * number + 20 - drawn.choice([0, 1, 2, 9]), 100 * number + at)
        rows.append(row if asking.ids else {name: value for name, value in row.items() if name != "i"})
    return distinct(rows) + ([row | {"gone": True} for row in rows[:2]] if asking.retract else [])


def distinct(rows: Sequence[Row]) -> list[Row]:
    """One row of each key and time: where times are equal, results may depend on what came first."""
    return list({(row["k"], row["t"]): row for row in rows}.values())


def die(changing: Changing, rows: list[Row], point: str) -> None:
    """Run a micro-batch that is not committed: one partition has, and the other dies at a point."""
    play = changing.play
    table = changing.asking.table(rows).select(play.plan.schema.names)
    packed = packed_of([list(pack(play.plan, iter(table.to_batches())))])
    first, second = play.partitions
    play.task(packed, first)
    with pytest.raises(Failed):
        play.task(packed, second, fails=(point, 1))
    play.rollback()


def definitions_in(changing: Changing) -> int:
    """The number of definitions that buckets know of, at most."""
    heads = [store.committed.head for store in changing.play.stores.values()]
    return max(len(Head.from_bytes(head).definitions) for head in heads if head is not None)


def finish(changing: Changing) -> None:
    changing.batch([], marker=True)
    changing.batch([])
    assert changing.play.empty()
    compare(changing)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", CASES)
def test_a_change_that_dies_half_way_and_is_taken_back(name, point):
    """The run before it goes on as if nothing had been; then the change is made, taken back, and made again."""
    asking, changes = CASES[name]
    changing, other = Changing(asking, 7, 1), replace(asking, **changes)
    for number in range(3):
        changing.batch(rows_at(asking, number, 1))
    assert changing.change(other)
    die(changing, rows_at(asking, 3, 1), point)
    assert definitions_in(changing) == 1
    steps = [asking, asking, other, asking, other, other]
    for number, step in enumerate(steps, start=3):
        if step is not changing.asking:
            assert changing.change(step)
        changing.batch(rows_at(asking, number, 1))
    finish(changing)


@pytest.mark.parametrize("name", CASES)
def test_a_changed_checkpoint_that_is_rolled_back_and_forward_again(name):
    """Restored from a copy made before the change; the same rows come again, and in the end the change too."""
    asking, changes = CASES[name]
    changing, other = Changing(asking, 8, 1), replace(asking, **changes)
    for number in range(3):
        changing.batch(rows_at(asking, number, 2))
    play = changing.play
    copies = {label: store.committed.copy() for label, store in play.stores.items()}
    watermark, fed, before = play.watermark_ms, len(changing.fed), dict(changing.shown())
    assert changing.change(other)
    for number in (3, 4):
        changing.batch(rows_at(asking, number, 2))
    assert definitions_in(changing) > 1

    assert changing.change(asking)
    for label, store in play.stores.items():
        store.committed, store.now = copies[label], copies[label].copy()
    play.watermark_ms, changing.fed, changing.changed_at = watermark, changing.fed[:fed], fed
    changing.before, changing.after = before, []
    changing.horizon = watermark * 1000 // TICK_US - asking.lateness
    changing.late_before = changing.horizon * TICK_US
    for number in (3, 4):
        changing.batch(rows_at(asking, number, 2))
    assert changing.change(other)
    for number in (5, 6):
        changing.batch(rows_at(asking, number, 2))
    finish(changing)
