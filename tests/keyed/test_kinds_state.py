"""What windows that count keep and what they cost: bounded state, combines, gaps, saved bytes, drop_before."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash import CorruptStateError, KeyedWindows, Monoid, RetentionError, monoids
from sash.keyed.retained_rows import SPARE
from support.keyed_batches import batch, engine, picked

AGGS = {"n": monoids.count(), "total": monoids.sum("x"), "old": monoids.first("x")}


def rows(kw: KeyedWindows) -> int:
    return kw.metrics["live_rows"]


def stream(times: Any, **options: Any) -> tuple[KeyedWindows, list[pa.Table]]:
    kw = engine(**{"aggs": AGGS} | options)
    return kw, [kw.push(batch([int(t)], [int(t)])) for t in times]


# --- what is kept ---------------------------------------------------------------------------------


def test_the_last_rows_before_the_horizon_stay():
    """Of each key as many as its largest count, and all from the horizon on."""
    kw, _ = stream(range(100), windows=["3 rows", "7 rows"], lateness=10)
    assert rows(kw) == 7 + 12  # the horizon is 88, and times 88 to 99 are from it on
    kw.push(batch([1000], k=["b"]))
    kw.push(batch([2000], k=["b"]))
    assert rows(kw) == 7 + 2  # key a has nothing but its last rows, however long ago
    assert picked(kw.query({"k": ["a"]}, at=5000), "n_3rows", "total_7rows") == [(3, sum(range(93, 100)))]


def test_unbounded_keeps_one_aggregate():
    """A key that is silent has no rows at all, and its results go on where they were."""
    kw, out = stream(range(500), windows=["unbounded"])
    assert rows(kw) == 2 and kw.metrics["live_keys"] == 1  # at the horizon and after it
    assert [table["total_unbounded"][0].as_py() for table in out] == np.cumsum(range(500)).tolist()
    kw.push(batch([1000, 2000], k=["b", "b"]))
    kw.push(batch([3000], k=["b"]))
    assert kw.query({"k": ["a"]}, at=3000)["n_unbounded"].to_pylist() == [500]
    assert picked(kw.push(batch([4000], [7])), "n_unbounded", "old_unbounded") == [(501, 0)]
    kw.check_invariants()


def test_live_bytes_do_not_grow():
    """A stream of a million rows holds as much as one of a hundred thousand."""
    kw = engine(windows=["100 rows", "unbounded"], aggs=AGGS, lateness=50)
    sizes = []
    for at in range(0, 200_000, 10_000):
        kw.push(batch(range(at, at + 10_000)))
        assert kw._stream is not None
        sizes.append((rows(kw), kw._stream.nbytes))
    assert max(count for count, _ in sizes[2:]) <= 100 + 10_000 + 51
    assert sizes[-1][1] <= 1.2 * sizes[3][1]


def test_columns_of_python_aggregates_are_swept():
    """They are retained for the last rows of a key, and not for those that have gone."""
    joined = Monoid(identity="", combine=str.__add__, lift=str, column="x", name="joined")
    kw = engine(windows=["3 rows"], aggs={"v": joined})
    found = [kw.push(batch([t], [t % 10]))["v_3rows"][0].as_py() for t in range(2 * SPARE)]
    assert found[-1] == "".join(str(t % 10) for t in range(2 * SPARE - 3, 2 * SPARE))
    assert kw._stream is not None and kw._stream.retained.rows_held <= SPARE + 16
    again = KeyedWindows.from_bytes(kw.to_bytes(), aggs={"v": joined})
    assert again.query({"k": ["a"]})["v_3rows"].to_pylist() == found[-1:]


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["1000 rows", "unbounded"])
def test_a_late_row_costs_a_logarithm(window):
    """In combines: a late row among 2^16 that are held repairs a path, and its window is a fold or a pass."""
    kw = engine(windows=[window], lateness=2**40, aggs={"v": monoids.last("x"), "n": monoids.count()})
    count = 2**16
    kw.push(batch(np.arange(count) * 10))
    kw.push(batch([count * 10]))
    for distance in (10, 1_000, 30_000):
        kw.push(batch([(count - distance) * 10 + 4]))  # nobody has asked for the summaries there before
        before = kw.combines
        kw.push(batch([(count - distance) * 10 + 5]))
        assert kw.combines - before < 500
    kw.check_invariants()


def test_a_late_row_in_update_touches_the_rows_that_have_it():
    """An update emits the next n - 1 rows again, and looks at no other."""
    kw = engine(windows=["50 rows"], lateness=2**40, emit="update")
    kw.push(batch(np.arange(20_000) * 10, np.arange(20_000)))
    before = kw.combines
    out = kw.push(batch([5], [7]))
    assert out.num_rows == 50 and kw.combines - before < 1_000
    out = kw.push(batch([100_005], [7]))
    assert out.num_rows == 50 and kw.combines - before < 2_000


def test_keys_that_are_not_pushed_are_not_looked_at():
    """The combines of a push do not depend on how many keys are held."""
    spent = []
    for keys in (10, 1_000):
        kw = engine(windows=["5 rows", "unbounded"], aggs=AGGS)
        for at in range(20):
            kw.push(batch([at] * keys, k=[str(i) for i in range(keys)]))
        for at in (100, 200):
            kw.push(batch([at], k=["0"]))
        before = kw.combines
        kw.push(batch([300], k=["0"]))
        spent.append(kw.combines - before)
    assert spent[0] == spent[1] < 30


# --- gaps -----------------------------------------------------------------------------------------


def test_after_a_gap_windows_start_from_nothing():
    """A row, a question and a key: more than `idle` after the last row, nothing of it is there."""
    kw, out = stream([0, 5, 10, 21, 22, 40], windows=["4 rows", "unbounded"], idle=10)
    assert [picked(table, "n_4rows", "n_unbounded")[0] for table in out] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (1, 1),
        (2, 2),
        (1, 1),
    ]
    assert kw.query({"k": ["a"]}, at=50)["n_unbounded"].to_pylist() == [1]
    assert kw.query({"k": ["a"]}, at=51)["n_unbounded"].to_pylist() == [0]


def test_a_late_row_closes_a_gap_and_a_delete_opens_it():
    """What follows the gap has what was before it, or has it no more."""
    kw = engine(windows=["unbounded"], idle=10, lateness=100, emit="update", id="i", retract="gone")

    def push(t: int, gone: bool = False) -> list[Any]:
        out = kw.push(batch([t], i=pa.array([t]), gone=pa.array([gone])))
        kw.check_invariants()
        return picked(out, "t", "n_unbounded", "deleted")

    assert push(0) == [(0, 1, False)]
    assert push(15) == [(15, 1, False)]
    assert push(8) == [(8, 2, False), (15, 3, False)]
    assert push(8, gone=True) == [(8, None, True), (15, 1, False)]


def test_a_silent_key_is_forgotten():
    """Once the horizon is more than `idle` after its newest row, nothing is left of a key."""
    kw, _ = stream(range(50), windows=["10 rows", "unbounded"], idle=30)
    kw.push(batch([79], k=["b"]))
    kw.push(batch([80], k=["b"]))
    assert kw.metrics["live_keys"] == 2
    kw.push(batch([81], k=["b"]))
    assert kw.metrics["live_keys"] == 1
    assert kw.query({"k": ["a"]}, at=81)["n_unbounded"].to_pylist() == [0]


def test_idle_of_timestamps():
    """A duration, as windows are."""
    start = datetime(2026, 1, 1)
    kw = KeyedWindows(keys=[], time="t", windows=["unbounded"], aggs={"n": monoids.count()}, idle="30 days")
    days = [0, 30, 61]
    found = [kw.push({"t": [start + timedelta(days=day)]})["n_unbounded"].to_pylist() for day in days]
    assert found == [[1], [2], [1]]


# --- bytes ----------------------------------------------------------------------------------------


def test_what_expired_goes_through_bytes():
    """With wide records and several keys; the state goes on as if nothing had happened."""
    aggs = AGGS | {"top": monoids.top_k(3, "x"), "about": monoids.hyperloglog("x", lg_k=8)}
    kw = engine(windows=["unbounded", "2 rows"], aggs=aggs, idle=500)
    for t in range(100):
        kw.push(batch([t], [t * 7 % 31], k=["ab"[t % 2]]))
    again = KeyedWindows.from_bytes(kw.to_bytes())
    again.check_invariants()
    assert again.to_bytes() == kw.to_bytes()
    for t in (100, 130, 700, 701):
        assert again.push(batch([t], [5])).equals(kw.push(batch([t], [5])))


def test_bytes_of_what_expired_are_not_believed():
    """Any changed byte of a state raises or leaves a sound engine."""
    kw, _ = stream(range(12), windows=["unbounded", "2 rows"])
    data = kw.to_bytes()
    assert kw._stream is not None
    rows_of, core = kw._stream.engine.dump(), kw._stream.definition.engine(kw.spec, remembers=False)
    assert core.load(rows_of, [0], 100, False)
    for at in range(len(rows_of)):
        for change in (1, 0x80):
            broken = bytearray(rows_of)
            broken[at] ^= change
            fresh = kw._stream.definition.engine(kw.spec, remembers=False)
            if fresh.load(bytes(broken), [0], 100, False):
                fresh.check()
    for cut in range(len(rows_of)):
        fresh = kw._stream.definition.engine(kw.spec, remembers=False)
        assert not fresh.load(rows_of[:cut], [0], 100, False) or cut == 8
    with pytest.raises(CorruptStateError):
        KeyedWindows.from_bytes(data[:-1])


def test_states_of_plain_windows_know_nothing_of_kinds():
    """So that earlier versions can read them."""
    words = engine().spec.words()
    assert not {"zone", "min_rows", "idle"} & words.keys()
    assert engine(windows=["2 rows"], idle=3, min_rows=2).spec.words()["idle"] == 3


# --- what is dropped by hand ----------------------------------------------------------------------


def test_drop_before():
    """As if rows had never come; what has been combined cannot be divided."""
    kw, _ = stream(range(20), windows=["5 rows", "unbounded"], lateness=5)
    with pytest.raises(RetentionError, match="horizon must be 13 or later"):
        kw.drop_before(12)
    kw.drop_before(16)
    kw.check_invariants()
    assert picked(kw.query({"k": ["a"]}, at=20), "n_5rows", "n_unbounded") == [(4, 4)]
    with pytest.raises(RetentionError, match="at must be 16 or later"):
        kw.query({"k": ["a"]}, at=15)
    kw.flush()
    assert kw.metrics["live_keys"] == 0


def test_events_one_at_a_time_are_pushes():
    """`event` and `now` answer as push and query do, for all kinds at once."""
    options = {"windows": ["3 rows", "unbounded", 10], "aggs": AGGS, "lateness": 20, "idle": 40, "min_rows": 2}
    rng = np.random.default_rng(3)
    one, many = engine(**options), engine(**options)
    for at in range(300):
        row = {"k": "ab"[int(rng.integers(2))], "t": int(at * 3 - rng.integers(0, 25)), "x": int(rng.integers(9))}
        out = many.push(batch([row["t"]], [row["x"]], [row["k"]])).to_pylist()
        assert one.event(row) == (out[0] if out else None)
        if many.metrics["late"] == one.metrics["late"]:
            asked = many.query({"k": ["a"]}, at=at * 3 + 1).to_pylist()[0]
            assert one.now({"k": "a"}, at=at * 3 + 1) == {name: asked[name] for name in asked if name != "k"}
    one.check_invariants()
    assert one.metrics == many.metrics
