"""One bucket, driven by hand: these rows, at this watermark, on this worker, and failing here."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from oracles.keyed import Row
from sash.spark.stream.log import Head
from sash.spark.stream.packing import pack
from sash.spark.stream.plan import Plan
from support.buckets.cluster import Cluster, Failed, packed_of
from support.buckets.streams import row_of
from support.buckets.trial import Asking, rows_of

DOWNSTREAM = ("downstream", 1)
COUNT = {"n": ("count",)}


class Single:
    """A bucket that holds all keys."""

    def __init__(self, asking: Asking, workers: int = 2, **more: Any) -> None:
        self.asking = asking
        self.cluster = Cluster(asking.plan(buckets=1, **more), workers)
        self.store = next(iter(self.cluster.stores.values()))
        self.counts: Counter[str] = Counter()  # of the last task

    def run(
        self, rows: Sequence[Row], watermark_ms: int = 0, worker: int = 0, fails: tuple[str, int] | None = None
    ) -> list[Row]:
        """Return the results of a micro-batch: none if it fails, and then only the cached streams remain of it."""
        self.cluster.watermark_ms = watermark_ms
        table = self.asking.table(rows).select(self.cluster.plan.schema.names)
        packed = packed_of([list(pack(self.cluster.plan, iter(table.to_batches())))])
        try:
            outcomes = self.cluster.task(packed, list(self.cluster.stores), worker, fails)
        except Failed:
            return []
        assert fails is None, "it was to fail"
        self.cluster.commit()
        self.counts = Counter()
        for outcome in outcomes:
            self.counts.update(outcome.counts)
        return rows_of(self.cluster.results(outcomes))

    def become(self, plan: Plan) -> "Single":
        """Continue with another plan over the same state, as after a restart."""
        other = Single(self.asking)
        other.cluster = Cluster(plan)
        other.store = self.store
        other.cluster.stores = dict.fromkeys(other.cluster.stores, self.store)
        return other

    @property
    def head(self) -> Head:
        data = self.store.committed.head
        assert data is not None
        return Head.from_bytes(data)


def event(time: int, id: Any = 0, **more: Any) -> Row:
    """A row of key a."""
    return row_of("a", time, id, **more)


def plain(*times: int) -> list[Row]:
    """Rows without ids."""
    return [event(time, named=False) for time in times]


def picked(rows: Sequence[Row], *names: str) -> list[Any]:
    return [tuple(row[name] for name in names) if len(names) > 1 else row[names[0]] for row in rows]
