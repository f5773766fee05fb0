"""Streams of buckets that a worker process keeps in memory between micro-batches, up to a limit.

The cache is only an optimization: a bucket compares its cached stream with the log, and rebuilds it if they differ. A
stream is removed from the cache while it is in use, so a failure never leaves a half-changed one behind.
"""

import os
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from sash.keyed.stream import Stream

IDLE_SECONDS = 600.0  # after which a stream is dropped: its query has stopped, or is slow enough to rebuild it

Key = tuple[Any, ...]  # the query, the operator, the start of the query, and the bucket last


class Limit(NamedTuple):
    """The bytes that the workers of an executor may keep.

    Operators share one limit, unless one has its own.
    """

    executor_bytes: int
    workers: int | None = None  # of an executor; None: one for each core of the machine
    own: bool = False

    @property
    def worker_bytes(self) -> int:
        """The share of one worker."""
        return self.executor_bytes // max(self.workers or len(os.sched_getaffinity(0)), 1)


DEFAULT = Limit(512 << 20)


class CachedStream(NamedTuple):
    """A stream, and the last record of the log that it includes."""

    stream: Stream
    seq: int
    nonce: int


class _Kept(NamedTuple):
    cached: CachedStream
    size: int
    pool: Key  # those that share a limit
    since: float


class Cache:
    """Streams by query, operator and bucket; the least recently used are evicted first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._streams: OrderedDict[Key, _Kept] = OrderedDict()
        self._bytes: Counter[Key] = Counter()  # by pool

    def take(self, key: Key) -> CachedStream | None:
        """Remove and return a stream, or None if there is none."""
        kept = self._streams.pop(key, None)
        if kept is None:
            return None
        self._bytes[kept.pool] -= kept.size
        return kept.cached

    def put(self, key: Key, cached: CachedStream, limit: Limit) -> None:
        """Insert a stream, and evict others of its pool to stay within the limit; it stays itself, however large."""
        self.take(key)
        pool = key[:-1] if limit.own else ()
        now = self._clock()
        self._streams[key] = _Kept(cached, cached.stream.nbytes, pool, now)
        self._bytes[pool] += self._streams[key].size
        self._evict_idle(now - IDLE_SECONDS)
        self._evict_beyond(limit.worker_bytes, pool, key)

    def size_of(self, key: Key) -> int:
        """Return the bytes that a stream counts for; 0 if there is none."""
        kept = self._streams.get(key)
        return 0 if kept is None else kept.size

    def drop_earlier(self, owner: Key) -> None:
        """Drop streams that earlier starts of a query have left; the owner is a key without its bucket."""
        *same, start = owner
        for key in [key for key in self._streams if list(key[:-2]) == same and key[-2] != start]:
            self.take(key)

    def _evict_idle(self, since: float) -> None:
        for key in [key for key, kept in self._streams.items() if kept.since < since]:
            self.take(key)

    def _evict_beyond(self, limit: int, pool: Key, newest: Key) -> None:
        if self._bytes[pool] <= limit:
            return
        for key in [key for key, kept in self._streams.items() if kept.pool == pool and key != newest]:
            if self._bytes[pool] <= limit:
                return
            self.take(key)


WORKER = Cache()
