"""Buckets that a worker process keeps in memory between micro-batches, as far as there is room.

What is here is never needed: whoever takes a bucket out checks where it stands on the log, and rebuilds it if need be.
It is taken out for the time of its use, so that a failure on the way leaves nothing half changed behind.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

CACHE_BYTES = 512 << 20  # of one worker; an executor has about as many as it has cores


class Kept(NamedTuple):
    """A stream, and the record it stands at."""

    stream: Any
    seq: int
    nonce: int


class Cache:
    """Streams by query, operator and bucket, the least recently used of which go first."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self._kept: OrderedDict[Any, tuple[Kept, int]] = OrderedDict()
        self._bytes = 0

    def take(self, key: Any) -> Kept | None:
        """Take a stream out, if it is there."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def put(self, key: Any, kept: Kept) -> None:
        """Put one back, and let others go for it."""
        self.take(key)
        size = kept.stream.bytes_held
        self._kept[key] = (kept, size)
        self._bytes += size
        while self._bytes > self.limit and len(self._kept) > 1:
            _, (_, gone) = self._kept.popitem(last=False)
            self._bytes -= gone


WORKER = Cache()
