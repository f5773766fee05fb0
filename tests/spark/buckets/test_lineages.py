"""Two attempts of one task: they write and say the same, and a store may mix them; where they differ it is noticed."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oracles.keyed import Row
from sash import CorruptStateError
from sash.spark.stream import log
from sash.spark.stream.row_order import in_order, row_hashes
from support.buckets.memory import Contents
from support.buckets.single import COUNT, Single, event, picked, plain
from support.buckets.trial import COMMUTATIVE, ORDERED, Asking, unordered

NEW = 1  # a worker that has nothing in memory


class Twice(Single):
    """A bucket each of whose micro-batches is run by two attempts of its task."""

    def attempts(
        self, first: list[Row], second: list[Row], watermark_ms: int = 0
    ) -> tuple[list[Row], list[Row], Contents]:
        """Return what both have said, and what the first has left; the state is that of the second."""
        before = self.store.committed.copy()
        said = self.run(first, watermark_ms, worker=0)
        left = self.store.committed
        self.store.now, self.store.committed = before.copy(), before
        return said, self.run(second, watermark_ms, worker=NEW), left


def shuffled(rows: list[Row], seed: int) -> list[Row]:
    return random.Random(seed).sample(rows, len(rows))


def identified(count: int, seed: int) -> list[Row]:
    """Rows with ids, deletes among them, some of which name the same row."""
    draw = random.Random(seed)
    return [event(draw.randrange(20), draw.choice("abc"), delete=draw.random() < 0.3) for _ in range(count)]


def unidentified(count: int, seed: int) -> list[Row]:
    draw = random.Random(seed)
    return plain(*(draw.randrange(20 + 5 * seed) for _ in range(count)))


ASKED: dict[str, tuple[Asking, Any]] = {
    "arrival": (Asking(emit="arrival", sizes=(30,)), unidentified),
    "final": (Asking(lateness=9, carry=("c",)), unidentified),
    "update": (Asking(emit="update", lateness=9, carry=("c",)), unidentified),
    "deletes": (Asking(aggs=COMMUTATIVE | ORDERED, emit="update", lateness=9, ids=str, retract=True), identified),
    "boundaries": (Asking(every=4, sizes=(8,), emit="update", lateness=9, ids=str), identified),
    "panes": (Asking(every=4, sizes=(8,), emit="update", lateness=9), unidentified),
}


@pytest.fixture(autouse=True)
def small_records(monkeypatch):
    monkeypatch.setattr(log, "RECORD_BYTES", 1500)
    monkeypatch.setattr(log, "LIVE_RECORDS", 4)
    monkeypatch.setattr(log, "SMALL_BYTES", 600)


@pytest.mark.parametrize(("asking", "rows_of"), ASKED.values(), ids=list(ASKED))
def test_two_attempts_write_and_say_the_same(asking, rows_of):
    """In whatever order their rows came, from memory or rebuilt: records, heads, timers, results and revisions."""
    one = Twice(asking, workers=2)
    for batch in range(8):
        rows = rows_of(25, batch)
        one.cluster.caches[NEW] = type(one.cluster.caches[NEW])()
        first, second, left = one.attempts(rows, shuffled(rows, batch), 2 * batch)
        assert unordered(first) == unordered(second)
        assert sorted(row.get("revision", 0) for row in first) == sorted(row.get("revision", 0) for row in second)
        assert left == one.store.committed
    assert len(one.head.entries) > 1


@pytest.mark.parametrize("missing", [False, True])
def test_a_mix_of_attempts_that_differ_is_refused(missing):
    """A source that does not repeat itself, the head of one attempt and the records of the other."""
    one = Twice(Asking(aggs=COUNT, emit="arrival", sizes=(50,)))
    one.run(plain(1))
    _, _, left = one.attempts(plain(2, 3), plain(4), 0)
    one.store.now.log[1] = left.log[1]
    if missing:
        del one.store.now.log[1]
    what = "missing" if missing else "of another attempt"
    with pytest.raises(
        CorruptStateError,
        match=rf"^The checkpoint mixes two attempts of a task: record 1 of a bucket is {what}\. Start from .*"
        r"checkpointFormatVersion=2, which sash\.spark\.session sets, prevents it\.$",
    ):
        one.run(plain(5), worker=0)


def test_a_stream_of_another_lineage_is_not_used():
    """A worker that has the rows of an attempt that was given up rebuilds from those that count."""
    one = Twice(Asking(aggs=COUNT, emit="arrival", sizes=(50,)))
    one.run(plain(1))
    one.attempts(plain(2, 3), plain(4))
    assert picked(one.run(plain(5), worker=0), "n_25000us") == [3]
    assert one.counts["rebuilds"] == 1


def test_revisions_are_greater_than_those_of_any_attempt():
    """A sink that has taken the results of an attempt that Spark then forgot takes those that follow."""
    one = Twice(Asking(aggs=COUNT, emit="update", sizes=(20,), lateness=40))
    one.run(plain(*range(10, 20)))
    first, second, _ = one.attempts(plain(9), plain(9))
    assert picked(first, "t", "revision") == picked(second, "t", "revision") == [(9 + i, 2) for i in range(11)]
    assert set(picked(one.run(plain(8), worker=0), "revision")) == {3}


# --- buckets that were cleared --------------------------------------------------------------------


@pytest.mark.parametrize("grid", [{}, {"every": 10}])
def test_what_is_final_stays_so_when_the_lateness_grows(grid):
    """The bucket has nothing left of it, but remembers how far it came."""
    one = Single(Asking(aggs=COUNT, sizes=(10,), **grid))
    one.run(plain(13))
    assert len(one.run([], 50)) == 1
    assert not one.store.committed
    other = one.become(Asking(aggs=COUNT, sizes=(10,), lateness=300, **grid).plan(buckets=1))
    assert other.run(plain(14), 50) == []
    assert other.counts["late"] == 1
    assert picked(other.run(plain(105), 60), "t" if not grid else "window_end") == []
    assert len(other.run([], 400)) == 1


def test_revisions_continue_after_a_bucket_was_cleared():
    """What comes after it is newer than all before, for a lateness that has grown too."""
    asking = Asking(aggs=COUNT, sizes=(4,), emit="update")
    one = Single(asking)
    assert picked(one.run(plain(10)), "revision") == [1]
    one.run([], 50)
    assert not one.store.committed and one.head.position["revision"] == 2
    other = one.become(Asking(aggs=COUNT, sizes=(4,), emit="update", lateness=20).plan(buckets=1))
    assert picked(other.run(plain(110), 50, worker=1), "revision") == [3]


# --- the order of rows ----------------------------------------------------------------------------


def test_every_kind_of_column_takes_part_in_the_order():
    """Rows that differ in one column alone have different hashes, in whatever chunks they come."""
    kinds = {
        "float": pa.array([0.5, 1.5, None], pa.float32()),
        "double": pa.array([0.5, -0.5, None]),
        "lapse": pa.array([1, 2, None], pa.duration("us")),
        "list": pa.array([[1, 2], [2, 1], None]),
        "empty": pa.array([[], [[]], None], pa.list_(pa.list_(pa.int64()))),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, None]),
        "map": pa.array([[("a", 1)], [("a", 2)], None], pa.map_(pa.string(), pa.int64())),
        "text": pa.array(["", "a", None]),
        "null": pa.array(["same", None, "other"]),
    }
    for name, column in kinds.items():
        assert len(set(row_hashes(pa.table({name: column})).tolist())) == 3, name
    table = pa.table(kinds)
    pieces = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    one, hashes = in_order(table, np.zeros(3, np.int64))
    other, same = in_order(pieces, np.zeros(3, np.int64))
    assert one.equals(other) and hashes.tolist() == same.tolist()
