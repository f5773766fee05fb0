"""What is found in a damaged state, and that a sound one has no findings, by heads and records without a Spark."""

import json
import random
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash import CorruptStateError, SashError
from sash.keyed.emit import LOWEST
from sash.spark.stream import export, log
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.definitions import current_of
from sash.spark.stream.findings import KINDS, BucketState, Finding, Tally
from sash.spark.stream.log import Head
from sash.spark.stream.stored_definition import StoredDefinition, call_of
from support.buckets.cluster import Play
from support.buckets.memory import Contents, MemoryStore
from support.buckets.single import COUNT, Single, event, plain
from support.buckets.streams import row_of
from support.buckets.trial import COMMUTATIVE, ORDERED, PYTHON, TICK_US, Asking, Trial

ASKED: dict[str, Asking] = {
    "arrival": Asking(aggs=COMMUTATIVE | ORDERED, emit="arrival", lateness=4),
    "final, ids, deletes": Asking(aggs=COMMUTATIVE | PYTHON, ids=str, retract=True, carry=("c",), lateness=4),
    "update, deletes": Asking(emit="update", retract=True, lateness=6),
    "left": Asking(emit="update", closed="left", lateness=4),
    "panes": Asking(every=2, sizes=(4, 8), lateness=4),
    "panes, update": Asking(emit="update", every=5, offset=3, sizes=(10,), lateness=6),
    "every, singly": Asking(aggs=ORDERED, emit="update", every=4, sizes=(8,), lateness=4),
    "resolution": Asking(every=6, sizes=(5, 8), resolution=3, ids=int),
}


def checked(label: int, contents: Contents) -> tuple[list[Finding], int]:
    """Return the findings in a bucket, and the number of its leftovers."""
    state = BucketState(label, None) if contents.head is None else BucketState.read(label, contents.head)
    tally = Tally()
    tally.add(
        state, contents.log, [found for seq, data in contents.log.items() for found in state.in_record(seq, data)]
    )
    return tally.findings, tally.leftovers


def all_checked(stores: dict[int, MemoryStore]) -> list[Finding]:
    """Return the findings in all buckets that have a state; none of them may have leftovers."""
    found = []
    for label, store in stores.items():
        if store.committed.head is not None:
            findings, leftovers = checked(label, store.committed)
            assert leftovers == 0
            found += findings
    return found


# --- a sound state --------------------------------------------------------------------------------


@pytest.mark.parametrize("asking", ASKED.values(), ids=list(ASKED))
def test_a_sound_state_has_no_findings(asking, monkeypatch):
    """After every micro-batch, with merged records, expired ones, failures and repetitions."""
    monkeypatch.setattr(log, "LIVE_RECORDS", 4)
    play, rng = Play(asking.plan(), seed=3, delay_ms=1), random.Random(5)
    most = 0
    for batch in range(24):
        rows = [drawn(rng, asking, 3 * batch + rng.randrange(8), 20 * batch + at) for at in range(12)]
        play.batch(asking.table(rows).select(play.plan.schema.names), max(row["t"] for row in rows) * TICK_US)
        assert all_checked(play.stores) == []
        most = max(most, *(len(store.committed.log) for store in play.stores.values()))
    assert most > 2 and play.counts["merges"] > 0


def drawn(rng: random.Random, asking: Asking, time: int, number: int) -> dict[str, Any]:
    """Return a row, in one of three cases a delete where there are any: mostly of a row that has been."""
    delete = asking.retract and rng.random() < 0.3
    number -= 20 * delete
    name = str(number) if asking.ids is str else number
    return row_of("abcde"[number % 5], time, name, delete=delete, named=asking.ids is not None)


@pytest.mark.parametrize("asking", ASKED.values(), ids=list(ASKED))
def test_the_bound_of_a_stored_definition_is_that_of_its_stream(asking):
    plan = asking.plan()
    stored, stream = StoredDefinition.from_plain(plan.stored.to_plain()), plan.stream()
    for horizon in (None, *range(-3 * TICK_US, 20 * TICK_US, TICK_US // 4), LOWEST, 2**63 - 1):
        assert stored.retained_after(horizon) == stream.retained_after(horizon)
    assert stored.lateness == stream.horizon.lateness


def test_records_of_earlier_definitions_are_checked_by_those():
    """Rows that became panes, and panes that became longer, among them: they start earlier than their entries say."""
    one = Single(Asking(every=2, sizes=(4,)))
    one.run(plain(1, 2, 3, 5))
    for asking in (Asking(every=2, sizes=(4, 2)), Asking(emit="update", every=2, sizes=(4,))):
        one = one.become(asking.plan(buckets=1))
        one.run(plain(6, 7), watermark_ms=1)
        assert checked(labels(1)[0], one.store.committed) == ([], 0)


# --- a damaged one --------------------------------------------------------------------------------


@pytest.fixture
def state() -> tuple[int, Contents]:
    """The label and the state of a bucket of three, with some records."""
    trial = Trial(Asking(aggs=COUNT, emit="arrival", sizes=(10**6,)), seed=1)
    for batch in range(4):
        trial.batch([row_of(key, 10 * batch + at, 0, named=False) for at, key in enumerate("abcdefgh")])
    label = labels(3)[1]
    contents = trial.play.stores[label].committed
    assert len(contents.log) == 4 and checked(label, contents) == ([], 0)
    return label, contents.copy()


def with_head(contents: Contents, **changed: Any) -> None:
    contents.head = replace(head_in(contents), **changed).to_bytes()


def head_in(contents: Contents) -> Head:
    assert contents.head is not None
    return Head.from_bytes(contents.head)


def other_form(contents: Contents) -> None:
    """Let the second of four records name a definition that is not there."""
    assert contents.head is not None
    size, entry = log._ENTRY.size, head_in(contents).entries[1]
    contents.head = contents.head[: -3 * size] + log._ENTRY.pack(*entry._replace(form=5)) + contents.head[-2 * size :]


def rewritten(contents: Contents, seq: int, table: pa.Table) -> None:
    """Replace the rows of a record, with the nonce that it had."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    contents.log[seq] = contents.log[seq][:8] + sink.getvalue().to_pybytes()


def table_in(contents: Contents, seq: int) -> pa.Table:
    return pa.ipc.open_stream(contents.log[seq][8:]).read_all()


def stray(contents: Contents) -> None:
    table = table_in(contents, 1)
    place = table.column_names.index("k")
    rewritten(contents, 1, table.set_column(place, "k", pa.array([*table["k"].to_pylist()[:-1], "another"])))


def moved(contents: Contents) -> None:
    table = table_in(contents, 1)
    times = pa.array(np.array(table["t"].cast(pa.int64())) - 1).cast(table.schema.field("t").type)
    rewritten(contents, 1, table.set_column(table.column_names.index("t"), "t", times))


def without_times(contents: Contents) -> None:
    table = table_in(contents, 1)
    nulls = pa.nulls(table.num_rows, table.schema.field("t").type)
    rewritten(contents, 1, table.set_column(table.column_names.index("t"), "t", nulls))


def undefined(contents: Contents) -> None:
    head = head_in(contents)
    with_head(contents, definitions=[head.definition | {"columns": "nothing"}])


def expired(contents: Contents) -> None:
    head = head_in(contents)
    horizon = head.entries[1].newest + max(kind.size for kind in StoredDefinition.from_plain(head.definition).kinds)
    with_head(contents, position=head.position | {"horizon": horizon})


def other_version(contents: Contents) -> None:
    assert contents.head is not None
    (length,) = struct.unpack_from("<I", contents.head)
    plain = json.dumps(json.loads(contents.head[4 : 4 + length]) | {"version": 9}).encode()
    contents.head = struct.pack("<I", len(plain)) + plain + contents.head[4 + length :]


def shuffled(contents: Contents) -> None:
    first, second, *rest = head_in(contents).entries
    with_head(contents, entries=[second, first, *rest])


def shortened(contents: Contents) -> None:
    contents.log[1] = contents.log[1][:-20]


def other_attempt(contents: Contents) -> None:
    contents.log[1] = bytes(8) + contents.log[1][8:]


def without_column(contents: Contents) -> None:
    rewritten(contents, 1, table_in(contents, 1).rename_columns(["k", "time"]))


DAMAGE: dict[str, tuple[Any, list[tuple[int | None, str]], str]] = {
    "missing": (lambda state: state.log.pop(2), [(2, "missing")], "the head lists it, but it is not stored"),
    "other attempt": (other_attempt, [(1, "nonce")], "it is of another attempt than the head"),
    "empty": (lambda state: state.log.update({1: b""}), [(1, "nonce")], "it is of another attempt than the head"),
    "truncated": (shortened, [(1, "unreadable")], "its bytes cannot be read: "),
    "garbage": (
        lambda state: state.log.update({1: state.log[1][:8] + b"\xff" * 99}),
        [(1, "unreadable")],
        "its bytes cannot be read: ",
    ),
    "fewer rows": (
        lambda state: rewritten(state, 1, table_in(state, 1).slice(1)), [(1, "rows")], "it must have . rows, got .",
    ),
    "another time": (moved, [(1, "newest")], "its newest time must be 1970-01-01T00:00:00"),
    "null times": (without_times, [(1, "rows"), (1, "newest")], "every row must have a time, but [0-9] have none"),
    "another bucket": (stray, [(1, "bucket")], "1 of its [0-9] rows belong to another bucket"),
    "another form": (without_column, [(1, "form")], "must have the columns k string, t timestamp.*, got k"),
    "order": (shuffled, [(0, "order")], "it is listed after record 1"),
    "beyond the next": (
        lambda state: with_head(state, next_seq=3), [(3, "order")], "its number must be below the next one, 3",
    ),
    "the last": (
        lambda state: with_head(state, nonce=7), [(3, "nonce")], "as the last one, but had another mutation after it",
    ),
    "no such form": (
        other_form, [(1, "definition")], "it names definition 5 of 1",
    ),
    "definition": (undefined, [(None, "definition")], "its definition '.*' cannot be read"),
    "expired": (expired, [(0, "retention"), (1, "retention")], "must be after .*, got .*, which has expired"),
    "head": (lambda state: setattr(state, "head", b"\1\0\0\0{"), [(None, "head")], "bucket whose head cannot be read"),
    "version": (other_version, [(None, "head")], "state of version 9, but this version of sash reads 2 and 3"),
    "no head": (lambda state: setattr(state, "head", None), [(None, "head")], "4 records are stored, but no head"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(state, name):
    """Each kind by itself, at the record that it is in, in words; nothing raises."""
    label, contents = state
    damage, wanted, text = DAMAGE[name]
    damage(contents)
    findings, leftovers = checked(label, contents)
    assert [(found.bucket, found.record, found.kind) for found in findings] == [(label, *one) for one in wanted]
    assert leftovers == 0
    assert all(re.search(text, found.text) for found in findings[:1])
    assert all(str(found).startswith(f"bucket {label}") for found in findings)


def test_every_kind_of_record_and_head_is_damaged_above():
    assert {kind for _, wanted, _ in DAMAGE.values() for _, kind in wanted} == set(KINDS) - {"state"}


def test_the_label_must_be_one_of_the_buckets(state):
    """Rows that were copied to another bucket are all in the wrong one."""
    label, contents = state
    findings, _ = checked(label + 1000, contents)
    assert {found.kind for found in findings} == {"bucket"} and len(findings) == 5


def test_records_that_no_head_lists_are_counted(state):
    """They do no harm, so they are not findings."""
    label, contents = state
    contents.log[17] = contents.log[1]
    contents.log[18] = b"anything"
    assert checked(label, contents) == ([], 2)


def test_the_definition_of_an_older_version_is_not_known(state):
    """Records of version 2 are read; whether they have the right columns and keys cannot be said."""
    label, contents = state
    head = head_in(contents)
    plain = {"version": 2, "fingerprint": head.fingerprint, "position": head.position}
    plain |= {"next_seq": head.next_seq, "timer": head.timer, "nonce": head.nonce}
    text = json.dumps(plain).encode()
    entries = b"".join(log._ENTRY_2.pack(*entry[:-1]) for entry in head.entries)
    contents.head = struct.pack("<I", len(text)) + text + entries
    stray(contents)
    assert checked(label, contents) == ([], 0)
    older = BucketState.read(label, contents.head)
    assert older.head is not None and older.head.version == 2 and older.definitions == (None,)
    shortened(contents)
    assert [found.kind for found in checked(label, contents)[0]] == ["unreadable"]


# --- definitions ----------------------------------------------------------------------------------


def test_aggregates_are_shown_as_calls():
    stored = Asking(aggs=COMMUTATIVE | PYTHON).plan().stored
    assert {name: call_of(agg) for name, agg in stored.aggs.items()} == {
        "n": "count()",
        "s": "sum('x')",
        "top": "max('x')",
        "mean": "mean('x')",
        "text": "letters('x', version 1)",
    }


def head_of(asking: Asking, *earlier: Asking, **position: int | None) -> Head:
    definitions = [one.plan().stored.to_plain() for one in (*earlier, asking)]
    return Head(definitions, position={"horizon": None, "newest": None} | position)


def test_the_current_definition_is_the_one_that_follows_another():
    """Or that of the bucket that was touched last: by its watermark, and then by its newest row."""
    one, other = Asking(aggs=COUNT), Asking(aggs=COUNT, emit="update")
    wanted = other.plan().fingerprint
    for heads in (
        [head_of(other, one, horizon=5), head_of(one, horizon=9)],
        [head_of(other, horizon=9), head_of(one, horizon=5)],
        [head_of(other, horizon=5, newest=20), head_of(one, horizon=5, newest=10)],
    ):
        for order in (heads, heads[::-1]):
            found = current_of(order)
            assert found is not None and found.fingerprint == wanted
    assert current_of([Head([{"fingerprint": "older"}])]) is None


# --- what can be exported -------------------------------------------------------------------------


def bucket_of(asking: Asking, *earlier: Asking, forms: tuple[int, ...] = (0,), **position: int | None) -> BucketState:
    head = head_of(asking, *earlier, **position)
    head.entries = [log.Entry(seq, seq, seq, 1, 10, seq, form) for seq, form in enumerate(forms)]
    return BucketState(0, head)


def test_rows_with_more_columns_can_be_exported():
    """The columns of the current definition are selected from them."""
    one, other = Asking(aggs=COMMUTATIVE | {"b": ("sum", "b")}), Asking(aggs=COMMUTATIVE)
    buckets = [bucket_of(other, one, forms=(0, 1), horizon=5), bucket_of(other, horizon=3)]
    current = export.require_current(buckets)
    assert current.fingerprint == other.plan().fingerprint and "b" not in current.logged


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (Asking(aggs=COMMUTATIVE | {"b": ("sum", "b")}), Asking(aggs=COMMUTATIVE)),
        (Asking(aggs=COUNT, every=2, sizes=(8,)), Asking(aggs=COMMUTATIVE, every=2, sizes=(8,))),
        (Asking(aggs=COUNT, emit="update"), Asking(aggs=COUNT)),
        (Asking(aggs=COUNT), Asking(aggs=COMMUTATIVE)),  # its results have to come again
        (Asking(aggs=COUNT), Asking(aggs=COUNT, lateness=9)),  # it counts as due what the other waits for
    ],
    ids=["fewer columns", "other panes", "other results", "more columns", "lateness"],
)
def test_buckets_that_are_behind_are_refused(now, before):
    """With how many there are, and what to do."""
    buckets = [bucket_of(now, before, forms=(1,), horizon=5), bucket_of(before, horizon=3)]
    with pytest.raises(
        CorruptStateError, match=r"^1 of 2 buckets have rows .* run the stream until every bucket has been"
    ):
        export.require_current(buckets)


def test_heads_that_cannot_be_read_are_refused():
    with pytest.raises(
        CorruptStateError, match=r"^The head of bucket 4 cannot be read; sash checkpoint verify shows what"
    ):
        export.require_readable([BucketState.read(4, b"")])
    with pytest.raises(SashError, match=r"^1 of 1 buckets have rows"):
        export.require_current([BucketState(0, Head([{"fingerprint": "older"}], [log.Entry(0, 0, 0, 1, 1, 1)]))])


@pytest.mark.parametrize(("timer", "due"), [(None, False), (9, True), (10, True), (11, True), (12, False)])
def test_results_that_are_due_are_refused(timer, due):
    """A timer right after the watermark is due if the bucket has not reached it: too much was due at once."""
    head = head_of(Asking(aggs=COUNT, lateness=2), horizon=9000 - 2 * TICK_US)
    head.timer = timer
    export.require_emitted([head], None)
    if due:
        with pytest.raises(CorruptStateError, match=r"^1 buckets have results that are due .* one more micro-batch"):
            export.require_emitted([head], 10)
    else:
        export.require_emitted([head], 10)
    head.position["horizon"] = 10_000 - 2 * TICK_US
    if timer == 11:
        export.require_emitted([head], 10)


def test_the_position_is_the_furthest_of_all_buckets():
    asking = Asking(aggs=COUNT, emit="update")
    heads = [
        head_of(asking, finished=3, shown=9, revision=4, seq=0),
        head_of(asking, horizon=7, newest=8, finished=5, shown=2, revision=1, seq=0),
        Head([asking.plan().stored.to_plain()]),
    ]
    wanted = {"horizon": 7, "watermark": 6000, "finished": 5, "shown": 9, "newest": 8, "revision": 4, "emit": "update"}
    assert export.position_of(heads, asking.plan().stored, 6) == wanted
    assert export.position_of(heads[2:], asking.plan().stored, None) == dict.fromkeys(wanted) | {"emit": "update"}


def test_a_state_without_anything_is_refused():
    with pytest.raises(CorruptStateError, match=r"^The checkpoint has no rows and no definition to export; start"):
        export.require_current([BucketState(0, Head([{"fingerprint": "older"}]))])


def test_columns_are_selected_from_rows_of_an_earlier_definition():
    """In the order of the current one; both kinds of records are in one bucket."""
    one = Single(Asking(aggs=COMMUTATIVE | {"b": ("sum", "b")}, emit="update", carry=("c",)))
    one.run([event(time, named=False) for time in range(3)])
    one = one.become(Asking(aggs=COUNT, emit="update", carry=("c",)).plan(buckets=1))
    one.run([event(3, named=False)])
    state = BucketState(labels(1)[0], one.head)
    current = export.require_current([state])
    export.require_rows([state], -1)
    with pytest.raises(CorruptStateError, match="no rows to export, all have expired; start the new stream without"):
        export.require_rows([state], max(entry.newest for entry in state.entries.values()))
    tables = [
        export.exported_rows(current, LOWEST, entry, one.store.committed.log[seq])
        for seq, entry in state.entries.items()
    ]
    assert [entry.form for entry in state.entries.values()] == [0, 1]
    assert [table.column_names for table in tables] == [list(current.logged)] * 2 == [["k", "t", "c"]] * 2
    assert [table.num_rows for table in tables] == [3, 1]


def test_rows_that_are_retained_are_exported():
    one = Single(Asking(aggs=COMMUTATIVE))
    one.run([event(time, named=False) for time in range(6)])
    (entry,), current = one.head.entries, one.cluster.plan.stored
    rows = export.exported_rows(current, 2 * TICK_US, entry, one.store.committed.log[0])
    assert rows.column_names == list(current.logged)
    assert rows["t"].cast(pa.int64()).to_pylist() == [time * TICK_US for time in (3, 4, 5)]
