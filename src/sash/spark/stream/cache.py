"""Streams of buckets that a worker process keeps in memory between micro-batches, up to a limit.

The cache is only an optimization: a bucket compares its cached stream with the log, and rebuilds it if they differ. A
stream is removed from the cache while it is in use, so a failure never leaves a half-changed one behind.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from sash.keyed.stream import Stream

CACHE_BYTES = 512 << 20  # per worker; an executor has about as many workers as cores


class CachedStream(NamedTuple):
    """A stream, and the last record of the log that it includes."""

    stream: Stream
    seq: int
    nonce: int


class Cache:
    """Streams by query, operator and bucket; the least recently used are evicted first."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self._streams: OrderedDict[Hashable, tuple[CachedStream, int]] = OrderedDict()
        self._bytes = 0

    def take(self, key: Hashable) -> CachedStream | None:
        """Remove and return a stream, or None if there is none."""
        found = self._streams.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def put(self, key: Hashable, cached: CachedStream) -> None:
        """Insert a stream, and evict others to stay within the limit."""
        self.take(key)
        size = cached.stream.nbytes
        self._streams[key] = (cached, size)
        self._bytes += size
        while self._bytes > self.limit and len(self._streams) > 1:
            _, (_, evicted) = self._streams.popitem(last=False)
            self._bytes -= evicted


WORKER = Cache()
