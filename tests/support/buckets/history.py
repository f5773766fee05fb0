"""A stream that starts after a history, beside one that has had the history as its first micro-batch."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oracles.keyed import Row
from sash.spark.stream.initial_state import (
    DEFINITION,
    HEAD,
    POSITION,
    history_schema,
    initial_state,
    pack_export,
    pack_history,
)
from sash.spark.stream.log import Head, table_of
from support.buckets.cluster import Play
from support.buckets.trial import TICK_US, Asking, Trial, rows_of

Initial = dict[tuple[int, int], bytes]  # by bucket and number of the record


def initial_of(play: Play, history: pa.Table) -> Initial:
    """Return the initial state that the tasks of a batch make of a history, cut and shuffled at random."""
    parts = play._split(history)
    packed = [batch for part in parts for batch in pack_history(play.plan, play.delay_ms, iter(part.to_batches()))]
    return grouped(play, packed)


def grouped(play: Play, packed: list[pa.RecordBatch]) -> Initial:
    """Return the initial state that packed rows give, which come in any order."""
    if not packed:
        return {}
    rows = pa.Table.from_batches(packed)
    rows = rows.take(pa.array(play.random.sample(range(rows.num_rows), rows.num_rows)))
    found: Initial = {}
    for bucket in set(rows.column("bucket").to_pylist()):
        made = initial_state(play.plan, play.delay_ms, rows.filter(pa.compute.equal(rows.column("bucket"), bucket)))
        columns = (made.column(name).to_pylist() for name in ("bucket", "seq", "data"))
        found |= {(bucket, seq): data for bucket, seq, data in zip(*columns, strict=True)}
    return found


def seed(play: Play, initial: Initial) -> None:
    """Copy initial state into the stores, in any order, as the operator does."""
    for bucket, seq in play.random.sample(sorted(initial), len(initial)):
        store, data = play.stores[bucket], initial[bucket, seq]
        if seq != HEAD:
            store.write(seq, data)
            continue
        store.save_head(data)
        timer = Head.from_bytes(data).timer
        store.now.timers |= set() if timer is None else {timer}
    play.commit()


def exported(play: Play) -> pa.Table:
    """Return the live rows of a play, and where it is, as an export has them."""
    heads = {bucket: Head.from_bytes(store.committed.head) for bucket, store in play.stores.items() if store.now.head}
    tables = [
        table_of(play.stores[bucket].committed.log[entry.seq], entry)
        for bucket, head in heads.items()
        for entry in head.entries
        if entry.rows
    ]
    rows = pa.concat_tables([play.plan.stored.record.empty_table(), *tables])
    watermark = play.ran_at_ms * 1000 if play.ran_at_ms > 0 else None
    horizon = play.plan.stream().horizon.advance(watermark)
    facts = {"horizon": horizon, "watermark": watermark, "emit": play.plan.spec.emit}
    for name in ("finished", "shown", "revision"):
        facts[name] = max(head.position[name] for head in heads.values())
    reached = {"final": "finished", "update": "shown" if play.plan.spec.every else None}.get(play.plan.spec.emit)
    if reached and watermark is not None:
        facts[reached] = horizon if reached == "finished" else watermark
    constants = {POSITION: json.dumps(facts), DEFINITION: json.dumps(play.plan.stored.to_plain())}
    for name, text in constants.items():
        rows = rows.append_column(name, pa.array([text] * rows.num_rows, pa.string()))
    return rows


def moved(play: Play, asking: Asking, **more: Any) -> Play:
    """Return a play with the state of another one, that was exported and taken back as history."""
    rows = exported(play)
    other = Play(asking.plan(**more), seed=play.random.randrange(2**16), delay_ms=play.delay_ms)
    parts = [part for part in other._split(rows) if part.num_rows]
    packed = [batch for part in parts for batch in pack_export(other.plan, rows.column_names, iter(part.to_batches()))]
    seed(other, grouped(other, packed))
    other.watermark_ms = play.watermark_ms
    return other


def unset_revision(row: Row) -> Row:
    """A row of a backfill, which every row of the stream replaces."""
    return row | ({"revision": 0} if "revision" in row else {})


class Continued(Trial):
    """A trial whose play starts after the history, while the others have taken it as a micro-batch."""

    def __init__(self, asking: Asking, history: Sequence[Row], seed_: int, delay_ms: int = 0, **more: Any) -> None:
        super().__init__(asking, seed_, delay_ms, **more)
        table = asking.table(history)
        self.initial = initial_of(self.play, table.select(history_schema(self.play.plan).names))
        assert self.initial == initial_of(self.play, table.select(history_schema(self.play.plan).names))
        seed(self.play, self.initial)
        self.history: list[Row] = []
        self._take(history)
        times = [row["t"] for row in history if row["t"] is not None and (not asking.ids or row["i"] is not None)]
        watermark_ms = max(times, default=0) * TICK_US // 1000 - delay_ms
        if watermark_ms > 0:
            self.least = watermark_ms * 1000 // TICK_US
        self._take([])

    def _take(self, rows: Sequence[Row]) -> None:
        """Let the others take rows at the seam; what they say to them is the backfill."""
        watermark = np.datetime64(self.least * TICK_US, "us")
        said = rows_of(self.engine.push(self.asking.table(rows), watermark=watermark))
        backfill = [unset_revision(row) for row in said]
        self.history += backfill
        self._compare((backfill, said, self.oracle.push(rows, self.least)))

    def _compare_counts(self) -> None:
        """Compare what the play counts: it has not seen the history."""
        assert self.play.counts["late"] == self.engine.metrics["late"]
