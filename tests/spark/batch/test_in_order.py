"""Rows of a partition in order: a stable sort, in memory and through runs on disk."""

import itertools
import os
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.batch import in_order as sorting
from sash.spark.batch.in_order import ROW, in_order

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [None, -(2**63), -1, 0, 2**63 - 1]),
    "text": (pa.string(), [None, "", "a", "aa", "\uffff", "\U0001f600"]),
    "flag": (pa.bool_(), [None, False, True]),
    "day": (pa.date32(), [None, date(1960, 2, 29), date(2026, 1, 1)]),
    "moment": (pa.timestamp("us", "UTC"), [None, datetime(1960, 1, 1), datetime(2026, 1, 1)]),
    "price": (pa.decimal128(38, 2), [None, Decimal("-1.50"), Decimal(0), Decimal(10) ** 30]),
    "bytes": (pa.binary(), [None, b"", b"\0", b"\xff"]),
    "nothing": (pa.null(), [None]),
}
ROWS = st.lists(st.tuples(*[st.integers(0, len(values) - 1) for _, values in KINDS.values()]), max_size=60)


def table_of(rows: list[tuple[int, ...]]) -> pa.Table:
    """A row of each choice among the values of each kind, which ascend, and its number."""
    columns = {
        name: pa.array([values[row[at]] for row in rows], kind)
        for at, (name, (kind, values)) in enumerate(KINDS.items())
    }
    return pa.table({**columns, "row": pa.array(range(len(rows)), pa.int64()), "list": [[i] for i in range(len(rows))]})


@given(
    ROWS,
    st.lists(st.integers(0, 60), max_size=8),
    st.lists(st.sampled_from(range(len(KINDS))), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 3000, 10**9]),
    st.sampled_from([1, 500]),
)
def test_it_is_a_stable_sort_with_nulls_first(
    rows: list[tuple[int, ...]], cuts: list[int], by: list[int], memory: int, piece: int
) -> None:
    """Against Python's, for every type that keys have, of batches of any size, empty ones among them."""
    table = table_of(rows).combine_chunks()
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    batches = [batch for part in parts for batch in part.to_batches()] + table.schema.empty_table().to_batches()
    with mock.patch.object(sorting, "PIECE", piece):
        found = [row for got in in_order(iter(batches), by, memory) for row in got.to_pylist()]
    order = sorted(range(len(rows)), key=lambda i: [rows[i][place] for place in by])
    assert found == table.take(pa.array(order, pa.int64())).to_pylist()


def batches_of(times: Any, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(times), size):
        yield pa.record_batch({"t": pa.array(times[start : start + size])})


@pytest.mark.parametrize("kind", ["in order", "random", "backwards", "equal", "by turns"])
def test_memory_is_bounded_and_rows_are_sorted_a_few_times(kind: str) -> None:
    """Not once for each run, of which there are fifty; rows that came in order least of all."""
    n = 400_000
    times = {
        "in order": np.arange(n),
        "random": np.random.default_rng(1).integers(0, n, n),
        "backwards": np.arange(n)[::-1].copy(),
        "equal": np.zeros(n, dtype=np.int64),
        "by turns": np.arange(n) // 8000 + np.arange(n) % 8000 * 50,
    }[kind]
    most, most_live, least = 0, 0, -1
    real = sorting._order
    before = pa.total_allocated_bytes()

    def counting(rows: pa.Table, by: Any) -> Any:
        nonlocal most
        most += rows.num_rows
        return real(rows, by)

    memory = 50 * 160 * (8 + ROW)
    with mock.patch.object(sorting, "_order", counting), mock.patch.object(sorting, "PIECE", 8 * 1024):
        count = 0
        for rows in in_order(batches_of(times, 160), [0], memory):
            got = np.asarray(rows["t"])
            assert least <= got[0]
            assert (np.diff(got) >= 0).all()
            least, count = got[-1], count + len(got)
            most_live = max(most_live, pa.total_allocated_bytes() - before)
    assert count == n
    assert most <= 8 * n
    assert most_live < 50 * 3 * 8 * 1024  # of each run a piece, and what is made of them; all rows are 3.2 MB


def test_files_are_where_spark_has_its_own_and_go_with_the_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is left behind, not even while they are read."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},elsewhere")

    def open_there() -> int:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(os.readlink(link).startswith(str(tmp_path)) for link in links if os.path.islink(link))

    rows = in_order(batches_of(np.arange(1000), 10), [0], 0)
    next(rows)
    assert open_there() == 1
    assert os.listdir(tmp_path) == []
    rows.close()  # type: ignore[attr-defined]
    assert open_there() == 0


def test_a_folder_that_is_gone_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere/at/all")
    assert sum(rows.num_rows for rows in in_order(batches_of(np.arange(100), 10), [0], 0)) == 100
