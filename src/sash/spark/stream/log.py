"""The log of a bucket: records of the rows that changed something, and a head that lists the live records.

Every mutation appends a record; that of a timer has no rows. A mutation has a nonce: a hash of what it did, of the
position after it, and of the nonce before. So a nonce stands for the whole history up to it, and a bucket in memory can
be compared with the log: it is up to date, behind, or unrelated.

Everything here is a function of the rows, not of their order or of how they were compressed: two attempts of one task
write the same, so that it does not matter whose writes a state store keeps. A record carries its nonce and is checked
when it is read, should they have differed in spite of that.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.errors import CorruptStateError
from sash.spark.stream.frame_of_reference import narrowed, widened

VERSION = 3
_READ = (2, VERSION)  # versions that are read; a bucket is rewritten in the current one when it is next saved
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
LIVE_RECORDS = 64  # per bucket; beyond it neighbours are merged
SURPLUS_ROWS = 1 << 12  # per bucket; so many more than twice those that are needed, and the log is written again
RECORD_BYTES = 2 << 20  # of rows in one record, before it is compressed
SMALL_BYTES = 1 << 15  # of rows not worth compressing: it takes a millisecond, and the state store compresses too
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_ENTRY = struct.Struct("<qQQqqqq")
_ENTRY_2 = struct.Struct("<qQQqqq")
_NONCE = struct.Struct("<Q")

Merge = Callable[[pa.Table], pa.Table]
Convert = Callable[[pa.Table, dict[str, Any]], pa.Table]  # the rows of a record, and the definition it was written by


class Entry(NamedTuple):
    """A live record; nothing is stored for one without rows."""

    seq: int
    nonce: int  # of the last mutation that is part of it
    stored: int  # the nonce that the stored record carries: of the last of those with rows
    rows: int
    size: int
    newest: int  # the greatest time among its rows
    form: int = 0  # the place of the definition that it was written by, among those of the head


class Store(Protocol):
    """The state store of a bucket."""

    def head(self) -> bytes | None: ...  # noqa: D102
    def save_head(self, data: bytes) -> None: ...  # noqa: D102
    def read(self, seq: int) -> bytes | None: ...  # noqa: D102
    def write(self, seq: int, data: bytes) -> None: ...  # noqa: D102
    def remove(self, seq: int) -> None: ...  # noqa: D102


@dataclass
class Head:
    """The live records of a bucket, the position of the stream after them, and the definitions they were written by.

    The last definition is the current one. A definition that was read from version 2 has a fingerprint and no more.
    """

    definitions: list[dict[str, Any]]
    entries: list[Entry] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    next_seq: int = 0
    timer: int | None = None
    nonce: int = 0  # of the last mutation
    needed: int = 0  # rows that were needed when all of them were looked at, where their times alone do not tell
    version: int = VERSION  # of the bytes that it was read from

    @property
    def definition(self) -> dict[str, Any]:
        """The current definition."""
        return self.definitions[-1]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the current definition."""
        return str(self.definition["fingerprint"])

    def adopt(self, definition: dict[str, Any]) -> None:
        """Make a definition the current one; records keep the one that they were written by."""
        if definition["fingerprint"] != self.fingerprint:
            self.definitions = [*self.definitions, definition]
        else:
            self.definitions = [*self.definitions[:-1], definition]

    def _trimmed(self) -> tuple[list[dict[str, Any]], list[Entry]]:
        """Return the definitions that are needed, and entries that refer to them."""
        used = sorted({entry.form for entry in self.entries if entry.rows} | {len(self.definitions) - 1})
        if len(used) == len(self.definitions):
            return self.definitions, self.entries
        places = {form: place for place, form in enumerate(used)}
        entries = [entry._replace(form=places.get(entry.form, len(used) - 1)) for entry in self.entries]
        return [self.definitions[form] for form in used], entries

    def to_bytes(self) -> bytes:
        """Return the head as bytes."""
        self.definitions, self.entries = self._trimmed()
        plain = {"version": VERSION, "definitions": self.definitions, "position": self.position}
        plain |= {"next_seq": self.next_seq, "timer": self.timer, "nonce": self.nonce}
        plain |= {"needed": self.needed} if self.needed else {}
        text = json.dumps(plain).encode()
        return struct.pack("<I", len(text)) + text + b"".join(_ENTRY.pack(*entry) for entry in self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Head":
        """Return the head from its bytes, or raise CorruptStateError."""
        try:
            (length,) = struct.unpack_from("<I", data)
            plain = json.loads(data[4 : 4 + length])
            version = plain["version"]
            if version in _READ:
                shape = _ENTRY if version == VERSION else _ENTRY_2
                entries = [Entry(*shape.unpack_from(data, at)) for at in range(4 + length, len(data), shape.size)]
                words = [plain[name] for name in ("position", "next_seq", "timer", "nonce")]
                older = version != VERSION
                definitions = [{"fingerprint": plain["fingerprint"]}] if older else plain["definitions"]
                head = cls(definitions, entries, *words)
                head.needed = plain.get("needed", 0)
                head.version = version
                return head
        except (struct.error, ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(
                f"The checkpoint has a bucket whose head cannot be read: {error}.", argument="checkpoint"
            ) from None
        raise CorruptStateError(
            f"The checkpoint has state of version {version}, but this version of sash reads {_READ[0]} and {_READ[1]}; "
            "use the version of sash that wrote it, or start from a new checkpoint.",
            argument="checkpoint",
        )

    def place_of(self, nonce: int) -> int | None:
        """Return the position of the live record up to which a mutation and all before it are stored, or None."""
        for i in range(len(self.entries) - 1, -1, -1):
            if self.entries[i].nonce == nonce:
                return i
        return None

    def advance(self, rows: bytes) -> None:
        """Take note of a mutation by these rows, after which the stream is at the current position."""
        done = _NONCE.pack(self.nonce) + json.dumps([self.position, self.timer, self.next_seq]).encode() + rows
        (self.nonce,) = _NONCE.unpack(hashlib.blake2b(done, digest_size=_NONCE.size).digest())

    @property
    def last(self) -> Entry:
        """The newest record."""
        return self.entries[-1]


class Log:
    """The records of a bucket: reads them, appends to them, and keeps their number small."""

    def __init__(self, store: Store, head: Head, convert: Convert | None = None) -> None:
        self.store, self.head, self._convert = store, head, convert
        self.written = self.read = self.merged = self.merges = 0  # bytes, and how often

    def tables(self, start: int) -> Iterator[pa.Table]:
        """Yield the rows of the records from one on."""
        for entry in self.head.entries[start:]:
            if entry.rows:
                yield self._table(entry)

    def _table(self, entry: Entry) -> pa.Table:
        data = self.store.read(entry.seq)
        self.read += 0 if data is None else len(data)
        table = table_of(data, entry)
        if self._convert is None or entry.form == len(self.head.definitions) - 1:
            return table
        return self._convert(table, self.head.definitions[entry.form])

    def append(self, table: pa.Table, times: NDArray[np.int64]) -> None:
        """Append the rows of a mutation, or a record without rows; the head has its nonce."""
        table = table.combine_chunks()
        parts = max(1, -(-_wire_bytes(table) // RECORD_BYTES))
        rows = -(-table.num_rows // parts)
        for part in range(parts):
            # Only the last of several parts stands for the whole mutation.
            nonce = self.head.nonce if part == parts - 1 else (self.head.nonce + part + 1) % 2**64
            self._add(table.slice(part * rows, rows), times[part * rows : (part + 1) * rows], nonce)

    def _add(self, table: pa.Table, times: NDArray[np.int64], nonce: int) -> None:
        newest = int(times.max()) if len(times) else -(2**63)
        size = self._write(self.head.next_seq, nonce, table)
        self.head.entries.append(self._entry(self.head.next_seq, nonce, table.num_rows, size, newest))
        self.head.next_seq += 1

    def _entry(self, seq: int, nonce: int, rows: int, size: int, newest: int) -> Entry:
        """Return the entry of a record that is written by the current definition."""
        return Entry(seq, nonce, nonce, rows, size, newest, len(self.head.definitions) - 1)

    def _write(self, seq: int, nonce: int, table: pa.Table) -> int:
        if not table.num_rows:
            return 0
        sink = pa.BufferOutputStream()
        sink.write(_NONCE.pack(nonce))
        table, options = table.combine_chunks(), None
        if table.nbytes > SMALL_BYTES:
            table, options = _narrowed(table), _COMPRESSED
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        data = sink.getvalue().to_pybytes()
        self.store.write(seq, data)
        self.written += len(data)
        return len(data)

    # --- compaction -------------------------------------------------------------------------------

    def drop_expired(self, bound: int) -> None:
        """Drop records whose rows are all at or before a time; the newest stays, for cached streams to match."""
        live = []
        for entry in self.head.entries[:-1]:
            if entry.rows and entry.newest <= bound:
                self.store.remove(entry.seq)
            else:
                live.append(entry)
        last = self.head.last
        if last.rows and last.newest <= bound:
            self.store.remove(last.seq)
            last = last._replace(rows=0, size=0)
        self.head.entries = [*live, last]

    def clear(self) -> None:
        """Drop all records; the head stays, because rows may come again and must not start a new history."""
        for entry in self.head.entries:
            if entry.rows:
                self.store.remove(entry.seq)
        self.head.entries = []
        self.head.needed = 0

    @property
    def is_long(self) -> bool:
        """Whether more than half of the rows may be needless, where their times alone do not tell."""
        return sum(entry.rows for entry in self.head.entries) > 2 * self.head.needed + SURPLUS_ROWS

    def rewrite(self, table: pa.Table, times: NDArray[np.int64]) -> None:
        """Replace all records by these rows, which stand for all mutations so far."""
        self.clear()
        self.head.needed = table.num_rows
        before = self.written
        self.append(table, times)
        self.merged += self.written - before
        self.merges += 1

    def compact(self, protected: int, merge: Merge) -> None:
        """Join neighbours until few records are left; `merge` may make a joined table smaller.

        Records that are small compared with everything newer are joined first: records grow with age, and a row is
        rewritten about once each time the state doubles.
        """
        while len(self.head.entries) > max(LIVE_RECORDS, protected + 1):
            sizes = [entry.rows for entry in self.head.entries]
            newer = list(accumulate(reversed(sizes)))[::-1]  # and the record itself
            rewritten = [old + new if old and new else 0 for old, new in pairwise(sizes)]
            at = min(range(len(sizes) - protected - 1), key=lambda i: rewritten[i] / max(newer[i], 1))
            self._join(at, merge)

    def _join(self, at: int, merge: Merge) -> None:
        older, newer = self.head.entries[at : at + 2]
        both = [entry for entry in (older, newer) if entry.rows]
        if len(both) < 2:  # nothing to rewrite: the rows stay where they are
            merged = both[0] if both else older
        else:
            # Only records with questions have columns for them.
            table = merge(pa.concat_tables([self._table(older), self._table(newer)], promote_options="default"))
            self.store.remove(newer.seq)
            if not table.num_rows:
                self.store.remove(older.seq)
            size = self._write(older.seq, newer.nonce, table)
            self.merged += size
            newest = max(older.newest, newer.newest)
            merged = self._entry(older.seq, newer.nonce, table.num_rows, size, newest)
        self.merges += 1
        self.head.entries[at : at + 2] = [merged._replace(nonce=newer.nonce)]


def table_of(data: bytes | None, entry: Entry) -> pa.Table:
    """Return the rows of a record, or raise CorruptStateError for one that is not the one of the entry."""
    if data is None or data[: _NONCE.size] != _NONCE.pack(entry.stored):
        raise CorruptStateError(
            f"The checkpoint mixes two attempts of a task: record {entry.seq} of a bucket is "
            f"{'missing' if data is None else 'of another attempt'}. Start from a new checkpoint, or from a copy made "
            f"before; {CHECKPOINT_FORMAT}=2, which sash.spark.session sets, prevents it.",
            argument="checkpoint",
        )
    with pa.ipc.open_stream(pa.py_buffer(data)[_NONCE.size :]) as stream:
        batches = [widened(batch) for batch in stream]
        return pa.Table.from_batches(batches, None if batches else stream.schema)


def _narrowed(table: pa.Table) -> pa.Table:
    """Return rows in fewer bytes; text of gigabytes, which is several batches, stays as it is."""
    batches = table.to_batches()
    return pa.Table.from_batches([narrowed(batches[0])]) if len(batches) == 1 else table


def _wire_bytes(table: pa.Table) -> int:
    """Return the size of rows as Arrow writes them, which depends on nothing but the rows."""
    return sum(int(pa.ipc.get_record_batch_size(batch)) for batch in table.to_batches())
