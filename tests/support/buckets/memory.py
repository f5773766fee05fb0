"""A bucket's state in memory, with the manners of Spark's state store.

What a task writes is seen by that task, and by all when it commits; what a failed task wrote has never been.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Contents:
    """All that a bucket has in the state: its head, its records, and its registered timers.

    It is true where there is something besides the head, which stays for good.
    """

    head: bytes | None = None
    log: dict[int, bytes] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)

    def copy(self) -> "Contents":
        return Contents(self.head, dict(self.log), set(self.timers))

    def __bool__(self) -> bool:
        return bool(self.log or self.timers)

    def mixed_with(self, other: "Contents", choice: Callable[[], bool]) -> "Contents":
        """Return what a store may have whose lineages mix: each thing is as one of two attempts has left it."""
        log = {}
        for seq in {**self.log, **other.log}:
            chosen = (self if choice() else other).log
            log |= {seq: chosen[seq]} if seq in chosen else {}
        return Contents((self if choice() else other).head, log, set((self if choice() else other).timers))


class MemoryStore:
    """A Store of sash.spark.stream.log that can be rolled back, and counts its calls."""

    def __init__(self) -> None:
        self.now = Contents()
        self.committed = Contents()
        self.reads = self.writes = self.rewrites = self.removes = 0
        self.written_bytes = 0

    def head(self) -> bytes | None:
        return self.now.head

    def save_head(self, data: bytes) -> None:
        self.now.head = data

    def read(self, seq: int) -> bytes | None:
        self.reads += 1
        return self.now.log.get(seq)

    def write(self, seq: int, data: bytes) -> None:
        self.writes += 1
        self.rewrites += seq in self.now.log
        self.written_bytes += len(data)
        self.now.log[seq] = data

    def remove(self, seq: int) -> None:
        self.removes += 1
        del self.now.log[seq]

    @property
    def drops(self) -> int:
        """How many records went because nothing in them was needed: a merge removes one where it writes another."""
        return self.removes - self.rewrites

    def commit(self) -> None:
        self.committed = self.now.copy()

    def rollback(self) -> None:
        self.now = self.committed.copy()
