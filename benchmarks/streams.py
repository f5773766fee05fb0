"""Streams of one key with late rows and deletes, and the answers that their windows must return.

Rows in order are numbered, and have times at the multiples of a gap. Late rows fall between existing ones, each at a
distinct time, and deletes remove rows that arrived in order, all uniformly over the newest rows. The oracle's answers
are prefix sums over sorted times and share nothing with the engine.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.load import SEED

MOST = 2**24  # rows in order that follow the first ones
LATE_IDS, AWAITED_IDS = 2**40, 2**41


@dataclass
class Rows:
    """Batches one after another; the same options give the same rows."""

    size: int  # rows in the window, and as many are late at most
    batch: int
    late: float = 0.0
    deletes: float = 0.0
    named: bool = False  # with columns for ids and deletes
    gap: int = 4
    came: int = 0  # in order
    kept: list[Any] = field(default_factory=list)  # for the oracle, if `keeps`
    keeps: bool = False

    def __post_init__(self) -> None:
        """Start without rows."""
        self._rng = np.random.default_rng(SEED)
        self._behind = np.zeros(self.size + MOST, dtype=np.uint8)  # late rows that follow a row in order
        self._gone = np.zeros(self.size + MOST, dtype=bool)
        self._strange = 0  # ids of rows that did not arrive in order

    def in_order(self, rows: int) -> pa.Table:
        """Return the next rows, all of them in order."""
        return self._table(*self._fresh(rows), np.zeros(rows, dtype=bool))

    def next(self) -> pa.Table:
        """Return the next batch, with late rows and deletes at any place in it."""
        late, deletes = round(self.batch * self.late), round(self.batch * self.deletes)
        old = [self._late(late), self._deleted(deletes)]
        fresh = self._fresh(self.batch - late - deletes)
        places = np.zeros(self.batch, dtype=bool)
        places[self._rng.choice(self.batch, late + deletes, replace=False)] = True
        mixed = self._rng.permutation(late + deletes)
        parts = []
        for of_fresh, of_old in zip(fresh, zip(*old, strict=True), strict=True):
            column = np.empty(self.batch, dtype=np.int64)
            column[~places] = of_fresh
            column[places] = np.concatenate(of_old)[mixed]
            parts.append(column)
        gone = np.zeros(self.batch, dtype=bool)
        gone[places] = (np.arange(late + deletes) >= late)[mixed]
        return self._table(parts[0], parts[1], gone)

    def one_late(self, distance: int) -> pa.Table:
        """Return a late row with `distance` rows in order after it."""
        times, ids = self._behind_of(np.array([self.came - distance - 1]))
        return self._table(times, ids, np.zeros(1, dtype=bool))

    def awaited(self, rows: int) -> pa.Table:
        """Return deletes of rows that never arrive, at distinct times."""
        times, _ = self._late(rows)
        return self._table(times, AWAITED_IDS + np.arange(rows), np.ones(rows, dtype=bool))

    def _fresh(self, rows: int) -> tuple[Any, Any]:
        ids = self.came + np.arange(rows)
        self.came += rows
        if self.came > len(self._gone):
            raise SystemExit(
                f"The stream must have at most {len(self._gone)} rows, got {self.came}; nothing was measured."
            )
        return ids * self.gap, ids

    def _late(self, rows: int) -> tuple[Any, Any]:
        return self._behind_of(self._drawn(rows, lambda places: self._behind[places] >= self.gap // 2))

    def _behind_of(self, places: Any) -> tuple[Any, Any]:
        """Return times just behind rows in order; they are odd if the gap is even."""
        times = places * self.gap + 1 + 2 * self._behind[places].astype(np.int64)
        self._behind[places] += 1
        self._strange += len(places)
        return times, LATE_IDS + self._strange - len(places) + np.arange(len(places))

    def _deleted(self, rows: int) -> tuple[Any, Any]:
        places = self._drawn(rows, lambda places: self._gone[places])
        self._gone[places] = True
        return places * self.gap, places

    def _drawn(self, rows: int, taken: Callable[[Any], Any]) -> Any:
        """Return distinct places among the newest, none of which is taken."""
        found = np.zeros(0, dtype=np.int64)
        oldest = max(self.came - self.size, 0)
        while len(found) < rows:
            more = self._rng.integers(oldest, self.came, 2 * rows)
            more = np.unique(np.concatenate([found, more[~taken(more)]]))
            found = self._rng.permutation(more)[:rows]
        return found

    def _table(self, times: Any, ids: Any, gone: Any) -> pa.Table:
        columns = {"t": times, "x": value_of(ids)}
        if self.named:
            columns |= {"id": ids, "gone": gone}
        if self.keeps:
            self.kept.append((times, ids, gone))
        return pa.table(columns)

    # --- the oracle

    def held(self) -> tuple[Any, Any]:
        """Return the times, sorted, and values of all rows so far that were not deleted."""
        times, ids, gone = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        there = ~gone & ~np.isin(ids, ids[gone])
        order = np.argsort(times[there], kind="stable")
        return times[there][order], value_of(ids[there][order])


def value_of(ids: Any) -> Any:
    """Return the value of a row, which follows from its id."""
    return (ids * 2_654_435_761 >> 7) % 10_007


def windows_of(times: Any, values: Any, ends: Any, size: int, side: str = "right") -> tuple[Any, Any]:
    """Return sums and maxima of (end - size, end], or of [end - size, end) for the side "left"; times are sorted."""
    before = np.concatenate([[0], np.cumsum(values)])
    first, last = np.searchsorted(times, ends - size, side), np.searchsorted(times, ends, side)
    tops = [values[a:b].max(initial=-1) for a, b in zip(first, last, strict=True)]
    return before[last] - before[first], np.array(tops, dtype=np.int64)


def boundaries_of(times: Any, size: int, every: int) -> Any:
    """Return the multiples of `every` whose window [boundary - size, boundary) is not empty; times are sorted."""
    ends = np.arange(times[0] // every, (times[-1] + size) // every + 1) * every
    return ends[np.searchsorted(times, ends) > np.searchsorted(times, ends - size)]


def digest(tables: list[pa.Table]) -> str:
    """Return a hash of results that ignores the order of rows within a push, and the revisions, which follow it."""
    found = hashlib.sha256()
    for table in tables:
        wanted = [name for name in table.column_names if name != "revision"]
        rows = table.select(wanted).sort_by([(name, "ascending") for name in wanted]).combine_chunks()
        for name in wanted:
            found.update(name.encode() + rows.column(name).to_numpy().tobytes())
    return found.hexdigest()
