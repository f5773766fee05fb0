"""The log of a bucket: records of the rows that made a difference, and a head that says which of them are live.

A record is known by its sequence number and a nonce. Every mutation appends one, a timer's too, which has no rows; so
whoever holds a bucket in memory can tell whether it stands where the log does, behind it, or nowhere on it.
"""

import json
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sash.errors import CorruptStateError

VERSION = 1
LIVE_RECORDS = 64  # of a bucket, beyond which neighbours are merged
RECORD_BYTES = 2 << 20  # of rows in one record, before it is compressed
_SMALL = 1 << 15  # bytes that are not worth compressing: that takes a millisecond, and the store does it too
_ENTRY = struct.Struct("<qQqqq")


class Entry(NamedTuple):
    """A live record; one without rows has nothing stored."""

    seq: int
    nonce: int
    rows: int
    size: int
    newest: int  # the greatest time among its rows


class Store(Protocol):
    """Where a bucket's state is kept."""

    def head(self) -> bytes | None: ...  # noqa: D102
    def save_head(self, data: bytes) -> None: ...  # noqa: D102
    def read(self, seq: int) -> bytes: ...  # noqa: D102
    def write(self, seq: int, data: bytes) -> None: ...  # noqa: D102
    def remove(self, seq: int) -> None: ...  # noqa: D102
    def clear(self) -> None: ...  # noqa: D102


@dataclass
class Head:
    """Which records are live, where the stream stands after them, and whose they are."""

    fingerprint: str
    entries: list[Entry] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    next_seq: int = 0
    timer: int | None = None

    def to_bytes(self) -> bytes:
        """Give the head as it is stored."""
        plain = {"version": VERSION, "fingerprint": self.fingerprint, "position": self.position}
        plain |= {"next_seq": self.next_seq, "timer": self.timer}
        text = json.dumps(plain).encode()
        return struct.pack("<I", len(text)) + text + b"".join(_ENTRY.pack(*entry) for entry in self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Head":
        """Give it back, or say why it cannot be read."""
        try:
            (length,) = struct.unpack_from("<I", data)
            plain = json.loads(data[4 : 4 + length])
            version = plain["version"]
            if version == VERSION:
                entries = [Entry(*_ENTRY.unpack_from(data, at)) for at in range(4 + length, len(data), _ENTRY.size)]
                return cls(plain["fingerprint"], entries, plain["position"], plain["next_seq"], plain["timer"])
        except (struct.error, ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(f"checkpoint: the head of a bucket cannot be read: {error}.") from None
        raise CorruptStateError(
            f"checkpoint: its state is of version {version}, and this sash reads version {VERSION}; "
            "use the sash that wrote it, or start from a new checkpoint."
        )

    def place_of(self, seq: int, nonce: int) -> int | None:
        """Give the place of a record among those that are live."""
        for i in range(len(self.entries) - 1, -1, -1):
            if (self.entries[i].seq, self.entries[i].nonce) == (seq, nonce):
                return i
        return None

    @property
    def last(self) -> Entry:
        """The newest record."""
        return self.entries[-1]


class Log:
    """The records of a bucket at work: read, appended to, kept few."""

    def __init__(self, store: Store, head: Head) -> None:
        self.store, self.head = store, head
        self.written = self.read = self.merged = self.merges = 0  # bytes, and how often

    def tables(self, start: int) -> Iterator[pa.Table]:
        """Give the rows of the records from one on."""
        for entry in self.head.entries[start:]:
            if entry.rows:
                yield self._table(entry)

    def _table(self, entry: Entry) -> pa.Table:
        data = self.store.read(entry.seq)
        self.read += len(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            return stream.read_all()

    def append(self, table: pa.Table, times: Any) -> None:
        """Add the rows of a mutation, or a record without any."""
        parts = max(1, -(-table.nbytes // RECORD_BYTES)) if table.num_rows else 1
        rows = -(-table.num_rows // parts)
        for part in range(parts):
            self._add(table.slice(part * rows, rows), times[part * rows : (part + 1) * rows])

    def _add(self, table: pa.Table, times: Any) -> None:
        newest = int(times.max()) if len(times) else -(2**63)
        size = self._write(self.head.next_seq, table)
        self.head.entries.append(Entry(self.head.next_seq, secrets.randbits(64), table.num_rows, size, newest))
        self.head.next_seq += 1

    def _write(self, seq: int, table: pa.Table) -> int:
        if not table.num_rows:
            return 0
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd" if table.nbytes > _SMALL else None)
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table.combine_chunks())
        data = sink.getvalue().to_pybytes()
        self.store.write(seq, data)
        self.written += len(data)
        return len(data)

    # --- kept few ---------------------------------------------------------------------------------

    def drop_expired(self, bound: int) -> None:
        """Let go of records all of whose rows are at or before a time; the newest stays, for others to find."""
        kept = []
        for entry in self.head.entries[:-1]:
            if entry.rows and entry.newest <= bound:
                self.store.remove(entry.seq)
            else:
                kept.append(entry)
        last = self.head.last
        if last.rows and last.newest <= bound:
            self.store.remove(last.seq)
            last = last._replace(rows=0, size=0)
        self.head.entries = [*kept, last]

    def compact(self, protected: int, tidied: Any) -> None:
        """Merge neighbours until there are few; `tidied` may make a merged table smaller.

        Those go first that are small beside all that is newer: records grow with their age, and a row is written again
        about once each time that what is held doubles.
        """
        while len(self.head.entries) > max(LIVE_RECORDS, protected + 1):
            sizes = [entry.size for entry in self.head.entries]
            newer = list(accumulate(reversed(sizes)))[::-1]  # and the record itself
            rewritten = [old + new if old and new else 0 for old, new in pairwise(sizes)]
            at = min(range(len(sizes) - protected - 1), key=lambda i: rewritten[i] / max(newer[i], 1))
            self._merge(at, tidied)

    def _merge(self, at: int, tidied: Any) -> None:
        older, newer = self.head.entries[at : at + 2]
        both = [entry for entry in (older, newer) if entry.rows]
        if len(both) < 2:  # nothing to rewrite: the rows stay where they are
            merged = both[0] if both else older
        else:
            table = tidied(pa.concat_tables([self._table(older), self._table(newer)]))
            self.store.remove(newer.seq)
            size = self._write(older.seq, table)
            self.merged += size
            merged = older._replace(rows=table.num_rows, size=size, newest=max(older.newest, newer.newest))
        self.merges += 1
        self.head.entries[at : at + 2] = [merged._replace(nonce=secrets.randbits(64))]
