"""Spark as a bucket sees it, without Spark: partitions of state, workers with memory, tasks that may fail.

`Cluster` runs single tasks on a given worker. `Play` makes micro-batches of them as Spark does, with failures at
random: a task that fails is run again from the committed state, perhaps elsewhere and with its rows in another order; a
whole micro-batch may have to be; a process may die and take its memory along. Two attempts of one task may both
succeed, and the store then has some of what the one has written and some of what the other has.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.spark.stream.bucket import GAUGES, Bucket, Outcome
from sash.spark.stream.bucket_ids import labels
from sash.spark.stream.cache import Cache
from sash.spark.stream.packing import pack, result_bytes, unpack, unpack_step
from sash.spark.stream.plan import Plan
from support.buckets.memory import MemoryStore

POINTS = ("step", "written", "saved", "downstream")  # where a task can fail: the last is after its last bucket
Came = list[tuple[bool, bytes]]  # rows, and whether they are questions
Packed = dict[int, Came]  # by bucket, what came for it from map tasks


class Failed(Exception):
    """What a task dies of."""


class Cluster:
    """The state of all buckets, and workers that have some of them in memory."""

    def __init__(self, plan: Plan, workers: int = 2) -> None:
        self.plan = replace(plan, probe=self._probe)
        self.stores = {label: MemoryStore() for label in labels(plan.buckets)}
        self.caches = [Cache() for _ in range(workers)]
        self.watermark_ms = 0
        self._fuse: tuple[str, int] | None = None

    def task(
        self, packed: Packed, buckets: Iterable[int], worker: int = 0, fails: tuple[str, int] | None = None
    ) -> list[Outcome]:
        """Run the buckets of a partition, first those with rows and then those whose timers are due; all or nothing.

        `fails` says at which point, and at the how manyth time that it is passed.
        """
        self._fuse = fails
        buckets = list(buckets)
        try:
            outcomes = [self._run(bucket, worker, packed[bucket]) for bucket in buckets if bucket in packed]
            outcomes += [self._run(bucket, worker, None, timer) for bucket, timer in self._due(buckets)]
            self._probe("downstream")
        except Failed:
            for bucket in buckets:
                self.stores[bucket].rollback()
            raise
        finally:
            self._fuse = None
        return outcomes

    def commit(self) -> None:
        for store in self.stores.values():
            store.commit()

    def rollback(self) -> None:
        for store in self.stores.values():
            store.rollback()

    def results(self, outcomes: Iterable[Outcome]) -> pa.Table:
        """Return the results of tasks, through the bytes that they travel as."""
        data = [part for outcome in outcomes for part in result_bytes(self.plan, outcome.results)]
        batch = pa.RecordBatch.from_arrays([pa.array(data, pa.large_binary())], ["data"])
        return pa.Table.from_batches(list(unpack(self.plan.result, iter([batch]))), schema=self.plan.result)

    def _due(self, buckets: list[int]) -> list[tuple[int, int]]:
        timers = [(bucket, timer) for bucket in buckets for timer in sorted(self.stores[bucket].now.timers)]
        return [(bucket, timer) for bucket, timer in timers if timer <= self.watermark_ms]

    def _run(self, bucket: int, worker: int, packed: Came | None, timer: int | None = None) -> Outcome:
        store = self.stores[bucket]
        step = None if packed is None else unpack_step(self.plan, packed)
        outcome = Bucket(self.plan, store, self.caches[worker], ("query", bucket)).run(step, self.watermark_ms)
        store.now.timers -= {timer, outcome.old_timer}
        store.now.timers |= set() if outcome.timer is None else {outcome.timer}
        assert len(store.now.timers) <= 1
        return outcome

    def _probe(self, point: str, key: Any = None, counts: Any = None) -> None:
        if self._fuse is not None and self._fuse[0] == point:
            self._fuse = (point, self._fuse[1] - 1)
            if self._fuse[1] == 0:
                raise Failed(point)


class Play(Cluster):
    """Micro-batches at random, all decided by one seed."""

    def __init__(self, plan: Plan, *, seed: int, delay_ms: int, workers: int = 2, partitions: int = 2) -> None:
        super().__init__(plan, workers)
        self.random = random.Random(seed)
        self.delay_ms = delay_ms
        self.ran_at_ms = 0  # the watermark of the last micro-batch
        self.partitions = [labels(plan.buckets)[first::partitions] for first in range(partitions)]
        self.counts: Counter[str] = Counter()  # of what was committed
        self.seen: Counter[str] = Counter()  # of all that happened

    def batch(self, table: pa.Table, newest_us: int | None) -> pa.Table:
        """Run a micro-batch until it is committed, and return its results; the next one sees its watermark."""
        self.table = table
        maps = self._maps()
        self._restart(0.1)
        outcomes = self._attempt(maps)
        while self.random.random() < 0.1:  # the micro-batch as a whole is run again: a sink sees it twice
            self.seen["retried batches"] += 1
            self.rollback()
            self._restart(0.3)
            before, outcomes = outcomes, self._attempt(maps)
            self._require_same(before, outcomes)
        self.commit()
        self.ran_at_ms = self.watermark_ms
        self._count(outcomes, maps)
        if newest_us is not None:
            self.watermark_ms = max(self.watermark_ms, newest_us // 1000 - self.delay_ms)
        return self.results(outcomes)

    def empty(self) -> bool:
        """Return whether nothing is left, but for what buckets remember of where they were."""
        return not any(store.committed for store in self.stores.values())

    def _maps(self) -> list[list[pa.RecordBatch]]:
        """Return what map tasks have packed."""
        return [list(pack(self.plan, iter(part.to_batches()))) for part in self._split(self.table)]

    def _split(self, table: pa.Table) -> list[pa.Table]:
        """Return the rows of each map task."""
        cuts = sorted(self.random.randint(0, table.num_rows) for _ in range(self.random.randrange(3)))
        edges = [0, *cuts, table.num_rows]
        return [table.slice(start, stop - start) for start, stop in itertools.pairwise(edges)]

    def _attempt(self, maps: Sequence[list[pa.RecordBatch]]) -> list[Outcome]:
        return [outcome for partition in self.partitions for outcome in self._until_done(maps, partition)]

    def _until_done(self, maps: Sequence[list[pa.RecordBatch]], partition: range) -> list[Outcome]:
        for chance in (0.4, 0.3, 0.0):
            packed = packed_of(self.random.sample(maps, len(maps)))
            fails = (self.random.choice(POINTS), self.random.randint(1, 2)) if self.random.random() < chance else None
            worker = self.random.randrange(len(self.caches))
            try:
                return self._perhaps_again(self.task(packed, partition, worker, fails), partition)
            except Failed as failure:
                self.seen[f"failed at {failure}"] += 1
                self._restart(0.1, [worker])
        raise AssertionError("the last attempt cannot fail")

    def _perhaps_again(self, outcomes: list[Outcome], partition: Sequence[int]) -> list[Outcome]:
        """Run a second attempt at times, whose rows were cut and shuffled otherwise, and mix what both wrote."""
        if self.random.random() > 0.15:
            return outcomes
        self.seen["mixed lineages"] += 1
        first = {bucket: self.stores[bucket].now for bucket in partition}
        for bucket in partition:
            self.stores[bucket].rollback()
        packed = packed_of(self._maps())
        again = self.task(packed, partition, self.random.randrange(len(self.caches)))
        self._require_same(outcomes, again)
        for bucket in partition:
            store = self.stores[bucket]
            assert (first[bucket].head, first[bucket].timers) == (store.now.head, store.now.timers)
            store.now = first[bucket].mixed_with(store.now, lambda: self.random.random() < 0.5)
        return again

    def _require_same(self, before: list[Outcome], after: list[Outcome]) -> None:
        """A second attempt says what the first one has said, from memory or not, with the same revisions."""
        one, other = (sorted(map(repr, self.results(outcomes).to_pylist())) for outcomes in (before, after))
        assert one == other

    def _restart(self, chance: float, workers: Iterable[int] | None = None) -> None:
        """Lose the memory of some workers, or of all, at times."""
        if self.random.random() < chance:
            self.seen["restarts"] += 1
            for worker in range(len(self.caches)) if workers is None else workers:
                self.caches[worker] = Cache()

    def _count(self, outcomes: list[Outcome], maps: Sequence[list[pa.RecordBatch]]) -> None:
        for outcome in outcomes:
            self.counts.update({name: count for name, count in outcome.counts.items() if name not in GAUGES})
        for batch in (batch for part in maps for batch in part):
            for name in ("bad_times", "bad_ids"):
                bad = sum(batch.column(name).to_pylist())
                self.counts.update({name: bad, "rows_in": bad})


def packed_of(maps: Iterable[list[pa.RecordBatch]]) -> Packed:
    """Return the packed rows of map tasks by bucket, in the order of the tasks."""
    packed: Packed = {}
    for batch in (batch for part in maps for batch in part):
        columns = [batch.column(name).to_pylist() for name in ("bucket", "asked", "data")]
        for bucket, asked, data in zip(*columns, strict=True):
            packed.setdefault(bucket, []).append((asked, data))
    return packed
