"""Long windows, which the core answers by blocks of rows and of blocks: against plain slices of sorted arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash import KeyedWindows, monoids

SIZES = [40, 3_000, 20_000]
ROWS = 9_000


def events(seed: int) -> pa.Table:
    """One busy key and a quiet one; times come in order but for some that are held up, and there are long gaps."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(ROWS) < 0.001, 15_000, rng.integers(0, 7, ROWS))
    times = np.cumsum(gaps)
    late = np.where(rng.random(ROWS) < 0.02, rng.integers(0, 5_000, ROWS), 0)
    order = np.argsort(times + late, kind="stable")
    keys = np.where(rng.random(ROWS) < 0.05, "quiet", "busy")
    x = rng.integers(-1000, 1000, ROWS)
    return pa.table({"k": keys, "t": times, "i": np.arange(ROWS), "x": x}).take(order)


def aggs(*, ordered: bool) -> dict[str, Any]:
    found = {"n": monoids.count(), "total": monoids.sum("x"), "top": monoids.max("x")}
    return found | ({"last": monoids.last("x")} if ordered else {})


def slices(
    table: pa.Table, anchors: list[tuple[str, int]], *, closed: str, ordered: bool
) -> dict[Any, tuple[Any, ...]]:
    """What each anchor must show, from slices of the sorted rows of its key."""
    order = np.lexsort([table["i"].to_numpy(), table["t"].to_numpy()])
    whole = table.take(order)
    names = np.asarray(whole["k"].to_pylist())
    rows = {key: whole.filter(pa.array(names == key)) for key in ("busy", "quiet")}
    found = {}
    for key, anchor in anchors:
        times, values = rows[key]["t"].to_numpy(), rows[key]["x"].to_numpy()
        shown: list[Any] = []
        for size in SIZES:
            low = np.searchsorted(times, anchor - size, side="left" if closed == "left" else "right")
            high = np.searchsorted(times, anchor, side="left" if closed == "left" else "right")
            part = values[low:high]
            some = len(part) > 0
            shown += [len(part), int(part.sum()) if some else None, int(part.max()) if some else None]
            shown += [int(part[-1]) if some else None] if ordered else []
        found[key, anchor] = tuple(shown)
    return found


def columns(*, ordered: bool) -> list[str]:
    return [f"{agg}_{size}" for size in SIZES for agg in aggs(ordered=ordered)]


def latest(outs: list[pa.Table], anchor: str, names: list[str], ids: list[str]) -> dict[Any, tuple[Any, ...]]:
    """The last that was said of each anchor."""
    found: dict[Any, tuple[Any, ...]] = {}
    for out in outs:
        rows = out.select(["k", anchor, *ids, *names]).to_pylist()
        for row in rows:
            found[tuple(row[name] for name in ("k", anchor, *ids))] = tuple(row[name] for name in names)
    return found


@pytest.mark.parametrize("batch", [37, 700, ROWS])
@pytest.mark.parametrize("emit", ["final", "update"])
@pytest.mark.parametrize("closed", ["left", "right"])
def test_rows(emit, closed, batch):
    table = events(batch)
    kw = KeyedWindows(
        keys=["k"], time="t", windows=SIZES, aggs=aggs(ordered=True), emit=emit, closed=closed, lateness=5_000, id="i"
    )
    batches = [table.slice(at, batch) for at in range(0, ROWS, batch)]
    if batch < 100:
        batches = batches[:80]
    taken = pa.concat_tables(batches)
    outs = [kw.push(part) for part in batches] + [kw.flush()]
    assert kw.metrics["late"] == 0
    names = columns(ordered=True)
    said = latest(outs, "t", names, ["i"])
    assert len(said) == taken.num_rows
    want = slices(taken, [(key, t) for key, t, _ in said], closed=closed, ordered=True)
    assert {key: shown for key, shown in said.items() if shown != want[key[:2]]} == {}
    if emit == "update" and batch < ROWS:
        assert kw.metrics["revised"] > 0


@pytest.mark.parametrize("batch", [37, 700, ROWS])
@pytest.mark.parametrize("emit", ["final", "update"])
@pytest.mark.parametrize("singly", [False, True], ids=["panes", "singly"])
def test_boundaries(emit, singly, batch):
    """Panes of 20 that are merged, and rows that are not."""
    table = events(batch + 1)
    kw = KeyedWindows(
        keys=["k"], time="t", windows=SIZES, aggs=aggs(ordered=singly), emit=emit, lateness=5_000, every=60
    )
    batches = [table.slice(at, batch) for at in range(0, ROWS, batch)]
    outs = [kw.push(part) for part in batches]
    table = table.set_column(2, "i", pa.array(np.arange(ROWS)))
    assert kw.metrics["live_rows"] < ROWS or (singly and batch == ROWS)
    outs.append(kw.flush())
    names = columns(ordered=singly)
    said = latest(outs, "window_end", names, [])
    want = slices(table, list(said), closed="left", ordered=singly)
    assert {key: shown for key, shown in said.items() if shown != want[key]} == {}
    grid = [(key, end) for key in ("busy", "quiet") for end in range(60, 200_000, 60)]
    full = {key for key, shown in slices(table, grid, closed="left", ordered=False).items() if shown[-3] > 0}
    assert set(said) == full
    assert max(want[key][0 if len(SIZES) == 1 else -3 - singly] for key in said) > 1024  # blocks of blocks
