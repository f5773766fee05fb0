"""Rows that are held, by their places in the stream: the right ones come out, and no call costs what is held."""

import base64
import math
import random
import struct
import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sash import KeyedWindows, monoids
from sash.errors import CorruptStateError, InvariantError
from sash.keyed import retained_rows
from sash.keyed.retained_rows import RetainedRows

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("x", pa.int64()),
        ("unheld", pa.float64()),
        ("d", pa.dictionary(pa.int32(), pa.string())),
        ("l", pa.list_(pa.int64())),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("n", pa.null()),
        ("b", pa.bool_()),
    ]
)
COLUMNS = ["k", "x", "d", "l", "s", "n", "b"]
PLAIN = pa.schema([("x", pa.int64()), ("k", pa.string())])


def row(seq: int) -> dict:
    """A row that no other looks like, with nulls here and there."""
    return {
        "k": None if seq % 7 == 3 else f"key {seq}",
        "x": seq,
        "unheld": 0.5,
        "d": None if seq % 5 == 2 else f"word {seq % 11}",
        "l": None if seq % 6 == 1 else list(range(seq, seq + seq % 4)),
        "s": None if seq % 8 == 5 else {"a": seq, "b": f"b{seq}"},
        "n": None,
        "b": seq % 3 == 0,
    }


def batch_of(first: int, count: int) -> pa.Table:
    return pa.Table.from_pylist([row(seq) for seq in range(first, first + count)], schema=SCHEMA)


def plain(first: int, count: int) -> pa.Table:
    seqs = np.arange(first, first + count)
    return pa.table({"x": seqs, "k": [f"key {seq}" for seq in seqs]}, schema=PLAIN)


def kept(count: int) -> np.ndarray:
    return np.ones(count, dtype=bool)


def seqs_of(seqs: list[int]) -> np.ndarray:
    return np.array(seqs, dtype=np.int64)


class HeldMachine(RuleBasedStateMachine):
    """Whatever comes and goes, each row that has not expired is there, and what lingers is no more than what lives."""

    def __init__(self):
        super().__init__()
        self.cap, self.spare = 8, 4
        self.held = RetainedRows(COLUMNS, SCHEMA, cap=self.cap, spare=self.spare)
        self.times: dict[int, int] = {}  # the oracle: the times of rows that must be there
        self.gaps: list[int] = []
        self.seq = self.clock = 0
        self.bound = self.furthest = -100

    @rule(
        rows=st.lists(st.tuples(st.booleans(), st.integers(-9, 9), st.integers(0, 9)), max_size=20),
        chunks=st.integers(1, 4),
    )
    def add(self, rows, chunks):
        """Times are out of order, one in ten is far ahead, and some rows are not kept."""
        times = [self.clock + shift + (1000 if far == 0 else 0) for _, shift, far in rows]
        keep = [far != 1 and wanted for wanted, _, far in rows]
        cuts = [len(rows) * i // chunks for i in range(chunks + 1)]
        batch = batch_of(self.seq, len(rows))
        table = pa.concat_tables([batch.slice(a, b - a) for a, b in pairwise(cuts)])
        self.held.add(table, self.seq, np.array(keep, dtype=bool), seqs_of(times))
        for i, (time, there) in enumerate(zip(times, keep, strict=True)):
            if there:
                self.times[self.seq + i] = time
            else:
                self.gaps.append(self.seq + i)
        self.seq += len(rows)

    @rule(count=st.integers(1, 30))
    def add_many(self, count):
        for _ in range(count):
            self.clock += 1
            self.add([(True, 0, 5)], 1)

    @rule(ahead=st.integers(0, 30))
    def expire(self, ahead):
        self.clock += ahead
        self.let_go(self.clock - 20)
        if self.bound == self.furthest:
            lingering = self.held.rows_held - len(self.times)
            assert lingering <= len(self.times) + self.spare

    @rule(ahead=st.integers(0, 40))
    def drop_before(self, ahead):
        """Let go of rows that later ones may be older than."""
        self.let_go(self.clock - 20 + ahead)

    def let_go(self, bound):
        self.held.expire(bound)
        self.bound, self.furthest = bound, max(bound, self.furthest)
        self.times = {seq: time for seq, time in self.times.items() if time > bound}

    @precondition(lambda self: self.times)
    @rule(data=st.data(), most=st.sampled_from([1, 10, 200]))
    def take(self, data, most):
        wanted = data.draw(st.lists(st.sampled_from(sorted(self.times)), max_size=most))
        self.require(wanted)

    @precondition(lambda self: self.times)
    @rule(seed=st.integers(0, 2**16))
    def take_jumbled(self, seed):
        """More runs than are sliced."""
        self.require(random.Random(seed).choices(sorted(self.times), k=300))

    def require(self, wanted):
        expected = [{name: row(seq)[name] for name in COLUMNS} for seq in wanted]
        rows = self.held.rows(seqs_of(wanted))
        rows.validate(full=True)
        assert rows.schema.equals(pa.schema([SCHEMA.field(name) for name in COLUMNS]))
        assert rows.to_pylist() == expected
        some = self.held.values(["l", "x"], seqs_of(wanted))
        assert some.to_pylist() == [{"l": one["l"], "x": one["x"]} for one in expected]

    @precondition(lambda self: self.gaps)
    @rule(data=st.data())
    def take_what_never_was(self, data):
        missing = data.draw(st.sampled_from([*self.gaps, self.seq, -1]))
        with pytest.raises(InvariantError, match=f"place {missing} of the stream"):
            self.held.rows(seqs_of([*list(self.times)[:3], missing]))

    @rule()
    def bytes_and_back(self):
        schema, rows = RetainedRows.parts(self.held.to_bytes(SCHEMA))
        assert schema == SCHEMA
        assert set(rows.column("seq").to_pylist()) >= set(self.times)
        self.held = RetainedRows(COLUMNS, SCHEMA, cap=self.cap, spare=self.spare)
        self.held.restore(rows)
        self.furthest = max(self.furthest, self.bound + 1)  # what lingered is seen again at the next bound

    @invariant()
    def all_there(self):
        self.require(sorted(self.times)[:20])

    def teardown(self):
        self.require(sorted(self.times))


TestHeld = HeldMachine.TestCase


# --- what it costs --------------------------------------------------------------------------------


def test_adding_copies_a_row_a_logarithm_of_times():
    """A thousand batches of a hundred rows: a row is copied as often as its segment doubles, and segments are few."""
    store, cap = RetainedRows(["x", "k"], PLAIN, cap=4096), 4096
    for first in range(0, 100_000, 100):
        store.add(plain(first, 100), first, kept(100), np.arange(first, first + 100))
    assert store.copied <= 100_000 * (2 + math.log2(cap / 100))
    assert len(store._segments) <= 2 * 100_000 / cap + math.log2(cap)
    assert max(map(len, store._segments)) <= cap


def test_single_rows_cost_no_more():
    store = RetainedRows(["x", "k"], PLAIN, cap=256)
    for seq in range(2_000):
        store.add(plain(seq, 1), seq, kept(1), seqs_of([seq]))
    assert store.copied <= 2_000 * (2 + math.log2(256))
    assert len(store._segments) <= 2 * 2_000 / 256 + 8


@pytest.mark.parametrize("count", [1, 10, 64, 1_000])
@pytest.mark.parametrize("jumbled", [False, True])
def test_taking_copies_what_is_taken(count, jumbled):
    """However much is held: a few copies of the rows asked for, in memory that is no larger."""
    store = RetainedRows(["x", "k"], PLAIN, cap=1024)
    store.add(plain(0, 20_000), 0, kept(20_000), np.arange(20_000))
    wanted = np.random.default_rng(count).integers(0, 20_000, count)
    wanted = wanted if jumbled else np.sort(wanted)
    before = store.copied
    rows = store.rows(wanted)
    assert rows.column("x").to_pylist() == wanted.tolist()
    assert store.copied - before <= 3 * count
    assert sum(batch.get_total_buffer_size() for batch in rows.to_batches()) <= 40 * count + 2_000


def test_a_stream_that_expires_copies_little():
    """With a window of 3,000 rows, out of order and with rows from far ahead: some copies a row, not what is held."""
    store, rng = RetainedRows(["x", "k"], PLAIN, cap=512, spare=64), np.random.default_rng(1)
    for first in range(0, 60_000, 100):
        times = np.arange(first, first + 100) + rng.integers(0, 500, 100)
        times[::50] += 10**9
        store.add(plain(first, 100), first, kept(100), times)
        store.expire(first - 3_000)
    assert store.copied <= 60_000 * (4 + math.log2(512 / 100) + 3)


def test_what_lingers_is_bounded_at_every_step():
    """One row in a hundred is from far ahead and would hold back the others of its segment for ever."""
    store = RetainedRows(["x", "k"], PLAIN, cap=512, spare=64)
    all_times = np.zeros(0, dtype=np.int64)
    for first in range(0, 40_000, 100):
        times = np.arange(first, first + 100)
        times[50] += 10**9
        all_times = np.concatenate([all_times, times])
        store.add(plain(first, 100), first, kept(100), times)
        store.expire(first - 1_000)
        live = int((all_times > first - 1_000).sum())
        assert live <= store.rows_held <= 2 * live + 64
    store.expire(10**10)
    assert store.rows_held == store.nbytes == 0


def test_segments_that_have_shrunk_are_joined():
    """What is left of many segments is a few rows each; they do not stay so many."""
    store = RetainedRows(["x", "k"], PLAIN, cap=64, spare=8)
    times = np.arange(64 * 200)
    times[::32] += 10**9
    store.add(plain(0, len(times)), 0, kept(len(times)), times)
    assert len(store._segments) == 200
    store.expire(10**6)
    assert len(store._segments) <= 2 * 400 / 64 + 1
    assert store.rows(np.arange(0, len(times), 32)).column("x").to_pylist() == list(range(0, len(times), 32))


def test_segments_are_looked_at_when_one_of_them_waits_for_it(monkeypatch):
    """That is when a quarter of one's rows have expired, and when all have; else a bound is compared with a number."""
    store, looks = RetainedRows(["x", "k"], PLAIN, cap=64), []
    store.add(plain(0, 6_400), 0, kept(6_400), np.arange(6_400))
    fewer = store._fewer
    monkeypatch.setattr(store, "_fewer", lambda segments: looks.append(bound) or fewer(segments))
    for bound in range(200):
        store.expire(bound)
        assert store.rows_held == 6_400 - (bound + 1) // 64 * 64
    assert looks == [15, 63, 79, 127, 143, 191]


def test_memory_is_its_own():
    """What is held does not change with the array that a batch was made of, nor does it keep a larger table alive."""
    numbers = np.arange(1_000)
    store = RetainedRows(["x"], pa.schema([("x", pa.int64())]))
    store.add(pa.table({"x": numbers}).slice(10, 5), 0, kept(5), np.arange(5))
    numbers[:] = -1
    assert store.rows(np.arange(5)).column("x").to_pylist() == [10, 11, 12, 13, 14]
    assert 5 * 24 <= store.nbytes <= 500


def test_slices_of_a_large_table_are_joined(monkeypatch):
    """What counts is the size of the slice, not of what it was cut from; large rows stay in several segments."""
    monkeypatch.setattr(retained_rows, "_BYTES", 10_000)
    store, table = RetainedRows(["x", "k"], PLAIN), plain(0, 20_000)
    for first in range(0, 1_000, 10):
        store.add(table.slice(first, 10), first, kept(10), np.arange(first, first + 10))
    assert max(segment.nbytes for segment in store._segments) <= 10_000
    assert len(store._segments) <= 2 * store.nbytes / 10_000 + 10


def test_batches_take_the_types_of_the_first():
    """A column of nothing but nulls has no type of its own, and pandas writes notes into the schema."""
    store = RetainedRows(["x", "k"], PLAIN.with_metadata({"pandas": "{}"}))
    store.add(
        pa.table({"k": pa.nulls(1), "x": [1]}).replace_schema_metadata({"pandas": "{1}"}), 0, kept(1), seqs_of([0])
    )
    store.add(plain(1, 1), 1, kept(1), seqs_of([1]))
    rows = store.rows(seqs_of([0, 1]))
    assert rows.schema.equals(PLAIN, check_metadata=True)
    assert rows.to_pylist() == [{"x": 1, "k": None}, {"x": 1, "k": "key 1"}]


# --- dictionaries ---------------------------------------------------------------------------------


def words(first: int, count: int, index: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(range(count), index), pa.array([f"word {seq}" for seq in range(first, first + count)])
    )


def test_dictionaries_that_do_not_fit_together_stay_apart():
    """Batches of categories with one byte for an index: more words than it can number, in any order."""
    kind = pa.dictionary(pa.int8(), pa.string())
    store = RetainedRows(["d"], pa.schema([("d", kind)]))
    for first in range(0, 2_000, 50):
        store.add(pa.table({"d": words(first, 50, pa.int8())}), first, kept(50), np.arange(first, first + 50))
    for wanted in ([1_999, 3, 700], np.random.default_rng(0).permutation(2_000).tolist()):
        rows = store.rows(seqs_of(wanted))
        assert rows.column("d").type == kind
        assert rows.column("d").to_pylist() == [f"word {seq}" for seq in wanted]
    assert store.copied <= 10 * 2_000 + 4 * 2_003
    again = RetainedRows(["d"], store.schema)
    again.restore(RetainedRows.parts(store.to_bytes(store.schema))[1])
    assert again.rows(np.arange(2_000)).equals(store.rows(np.arange(2_000)))


def test_dictionaries_do_not_grow_for_ever(monkeypatch):
    """Words that no row uses any more are let go of, also those that a batch never used."""
    monkeypatch.setattr(retained_rows, "SPARE", 16)
    store = RetainedRows(["d"], pa.schema([("d", pa.dictionary(pa.int32(), pa.string()))]), cap=64, spare=16)
    for first in range(0, 5_000, 10):
        table = pa.table({"d": words(first - 500, 510, pa.int32()).slice(500)})
        store.add(table, first, kept(10), np.arange(first, first + 10))
        store.expire(first - 50)
    sizes = [len(segment.batch.column(0).dictionary) for segment in store._segments]
    assert sum(sizes) <= 2 * store.rows_held + 16 * len(sizes)
    assert store.rows(np.arange(4_960, 5_000)).column("d").to_pylist() == [f"word {n}" for n in range(4_960, 5_000)]


def test_unused_words_are_taken_out_around_nulls():
    column = pa.DictionaryArray.from_arrays(
        pa.array([7, None, 3, 7], pa.int8()), pa.array(list("abcdefgh")), ordered=True
    )
    lean = retained_rows._used(column)
    assert lean.to_pylist() == column.to_pylist() and lean.dictionary.to_pylist() == ["d", "h"]
    assert lean.type == column.type


# --- bytes ----------------------------------------------------------------------------------------

# Five rows, of which the second was not kept, as the first version of sash wrote them.
SAMPLE = (
    b"c-qAlEl<Nh^sen_Ax${ZkcA+S2*d<p0x>y(Ku(Up5(totY`_F!auSI|B9Z$6NCZCvfkdEI-n-sy*Vo>TEfC)Fa((x{zb+ebCLskF!ncsr8jINq"
    b"tFQ>Z0C>OxICek=&kA4-WZ&U@1l$9}`_D<5g0PP^s_IUv0}jAm1h^t^Jhq)m**Gy|QBJ7y0x$uYW+vxRn|Pk}JD2!9lroGrq<&TU2_XZ)5|t0H"
    b"Br47=64wb}1V6lu6z@&hL;3-}UyT^3eqZXxfT7f%#gR<oKuX6^R-1E4XEnw?j2(SARDHl&wm>#fy%+;_bq*7EeRsjm*Th}lkIC=Wci*V*Gko6}"
    b"^-W6ZdtvnVDU)^9@y#+fIJ^C`<MSSzFS)rX?N_1aK47nNRoZjCM~^BGgc!VM9gL-A<^?hyr6(clZdRXJ-?JO!G?agz*&&$PDgvLQhw(mhGv3X7"
    b"ynZ0_7dfqbeCPoEud}}cTYi5<Ykz|9MM-QS`+vYbKIP^vDa@UI3v4r21xel019k5iKIY9|OzPv2`SUDusqe3EW_gTr^SDu%N6g{gm_;-0m>1)o"
    b"H<#PwwB0wzE;UKsEy8aTdu>vmF5!1c-3Ej|ApS;#KPs8$u%zxbnmhP5+V-}1WM<6w7h#pe8<yDP27P4FXBK(B;9iIY_k#a$FCuc<@}qg&vc>jc"
    b"_)GgB9PgfR?2Dey8kvJSk*^bbO;VpjqTeF=E#mK#@HJgsavzr67vDk$mU*Y|;PHujFU(kc$G)Z6e;oD=KWm>?"
)
SAMPLE_ROWS = [
    {"k": "a", "t": 5, "d": "u", "l": [1]},
    {"k": None, "t": 9, "d": "u", "l": []},
    {"k": "c", "t": 8, "d": "w", "l": [2, 3]},
    {"k": "d", "t": 7, "d": None, "l": [4]},
]


def sample() -> tuple[RetainedRows, pa.Schema, pa.Table]:
    schema, rows = RetainedRows.parts(zlib.decompress(base64.b85decode(SAMPLE)))
    return RetainedRows(["k", "t", "d", "l"], schema), schema, rows


def test_bytes_of_the_first_version_are_read():
    store, _, rows = sample()
    store.restore(rows)
    assert store.rows(seqs_of([0, 2, 3, 4])).to_pylist() == SAMPLE_ROWS
    store.expire(7)
    assert store.rows(seqs_of([3, 2])).to_pylist() == [SAMPLE_ROWS[2], SAMPLE_ROWS[1]]
    with pytest.raises(InvariantError):
        store.rows(seqs_of([1]))


def test_bytes_are_those_that_the_first_version_reads():
    """A length, the schema of batches, and a stream of Arrow: places, times, then the columns, known by position."""
    store, schema, rows = sample()
    store.restore(rows)
    data = store.to_bytes(schema)
    (length,) = struct.unpack_from("<Q", data)
    assert pa.ipc.read_schema(pa.py_buffer(data[8 : 8 + length])) == schema
    table = pa.ipc.open_stream(pa.py_buffer(data[8 + length :])).read_all()
    assert table.schema == rows.schema and table.schema.names == ["seq", "ticks", "k", "t", "d", "l"]
    assert table.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("columns", [[], ["x", "k"]])
def test_nothing_held_goes_through_bytes(columns):
    store = RetainedRows(columns, PLAIN)
    store.restore(RetainedRows.parts(RetainedRows(columns, PLAIN).to_bytes(PLAIN))[1])
    assert store.rows_held == 0
    store.add(plain(0, 3), 0, kept(3), np.arange(3))
    assert store.rows_held == (3 if columns else 0)


def test_columns_named_like_its_own_go_through_bytes():
    schema = pa.schema([("ticks", pa.string()), ("seq", pa.int64())])
    store, again = RetainedRows(["ticks", "seq"], schema), RetainedRows(["ticks", "seq"], schema)
    store.add(pa.table({"ticks": ["a", "b"], "seq": [7, 8]}, schema=schema), 40, kept(2), np.arange(2))
    again.restore(RetainedRows.parts(store.to_bytes(schema))[1])
    assert again.rows(seqs_of([41])).to_pylist() == [{"ticks": "b", "seq": 8}]


def test_what_has_expired_is_not_written():
    store = RetainedRows(["x", "k"], PLAIN)
    store.add(plain(0, 100), 0, kept(100), np.arange(100))
    store.expire(60)
    assert store.rows_held == 100
    assert RetainedRows.parts(store.to_bytes(PLAIN))[1].column("seq").to_pylist() == list(range(61, 100))


def crafted() -> dict[str, pa.Table]:
    good = pa.table({"seq": [3, 4], "ticks": [1, 2], "x": [5, 6], "k": ["a", "b"]})
    bad_text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 10**9, 1)), pa.py_buffer(b"ab")]
    )
    return {
        "k: string, got seq.* x: int64\\.$": good.drop_columns(["k"]),
        "must hold the columns .*, got .*extra": good.append_column("extra", pa.array([1, 2])),
        "must hold the columns .*, got .*double": good.set_column(2, "x", pa.array([1.0, 2.0])),
        "must hold the columns .*, got place": good.rename_columns(["place", "ticks", "x", "k"]),
        "in stream order": good.set_column(0, "seq", pa.array([4, 3])),
        "in stream  order": good.set_column(0, "seq", pa.array([4, 4])),
        "must hold a place, a time": good.set_column(0, "seq", pa.array([4, None], pa.int64())),
        "must hold a place, a  time": good.set_column(1, "ticks", pa.array([4, None], pa.int64())),
        "must hold valid columns": good.set_column(3, "k", bad_text),
    }


@pytest.mark.parametrize("said", crafted())
def test_crafted_rows_are_refused(said):
    store = RetainedRows(["x", "k"], PLAIN)
    with pytest.raises(CorruptStateError, match=" ".join(said.split())) as raised:
        store.restore(crafted()[said])
    message = str(raised.value)
    assert message.startswith("data must ") and message.endswith(".") and "\n" not in message
    assert store.rows_held == 0


def test_a_null_where_there_must_be_none_is_refused():
    store = RetainedRows(["x"], pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    with pytest.raises(CorruptStateError, match="every required column for each row"):
        store.restore(pa.table({"seq": [3], "ticks": [1], "x": pa.array([None], pa.int64())}))
    store.restore(pa.table({"seq": [3], "ticks": [1], "x": [7]}))
    assert store.rows(seqs_of([3])).schema == store.schema


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("length", [0, 1, 3, 10**6, -1])
def test_columns_of_different_lengths_are_refused(column, length):
    """Bytes of Arrow say how long each column is, which need not be how long the batch is."""
    store = RetainedRows(["x", "k"], PLAIN)
    store.add(plain(0, 2), 0, kept(2), np.arange(2))
    data, nodes = store.to_bytes(PLAIN), struct.pack("<8q", *[2, 0] * 4)
    assert data.count(nodes) == 1
    changed = [2, 0] * 4
    changed[2 * column] = length
    with pytest.raises(CorruptStateError):
        RetainedRows(["x", "k"], PLAIN).restore(
            RetainedRows.parts(data.replace(nodes, struct.pack("<8q", *changed)))[1]
        )


def test_crafted_bytes_never_do_worse_than_a_refusal():
    """Any byte of what was written may be another: it is read as rows, or refused."""
    store, schema, rows = sample()
    store.restore(rows)
    data, rng = store.to_bytes(schema), random.Random(5)
    for _ in range(600):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.randrange(256)
        again = RetainedRows(["k", "t", "d", "l"], schema)
        try:
            again.restore(RetainedRows.parts(bytes(changed))[1])
        except CorruptStateError:
            continue
        for segment in again._segments:
            assert len(again.rows(segment.seqs).to_pylist()) == len(segment)


# --- in a stream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("emit", ["final", "update"])
def test_a_stream_gives_the_same_whatever_the_segments(monkeypatch, emit):
    """Rows out of order, through bytes in the middle, and rows older than what was dropped."""

    def results(cap: int, spare: int) -> list:
        monkeypatch.setattr(RetainedRows.__init__, "__defaults__", (cap, spare))
        aggs = {"n": monoids.count(), "all": monoids.collect_list("x")}
        kw, rng, found = (
            KeyedWindows(keys=["k"], time="t", windows=[40], aggs=aggs, emit=emit, lateness=30, id="x", retract="gone"),
            random.Random(3),
            [],
        )
        for i in range(60):
            clock = 10 * i
            seqs = range(20 * i, 20 * i + 20)
            times = [clock + rng.randrange(-25, 10) + 400 * (rng.random() < 0.02) for _ in seqs]
            batch = {"k": [f"k{seq % 3}" for seq in seqs], "t": times, "x": list(seqs), "gone": [False] * 20}
            found += kw.push(batch, watermark=clock).to_pylist()
            if i % 7 == 6:
                gone = {name: values[:5] for name, values in batch.items()} | {"gone": [True] * 5}
                found += kw.push(gone, watermark=clock).to_pylist()
            if i % 20 == 10:
                kw.drop_before(clock - 10)
                kw = KeyedWindows.from_bytes(kw.to_bytes())
        return found + kw.flush().to_pylist()

    assert results(4, 0) == results(2**16, 10**9)
