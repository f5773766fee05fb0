"""What is wrong with the state of a bucket, as functions of its head and its records; nothing here knows Spark.

A head lists its live records, and each record must be what its entry says. Values have no checksum: a changed value in
a readable record is not found.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.errors import CorruptStateError, SashError, shown
from sash.inputs import arrow
from sash.spark.stream.bucket_ids import buckets_of, labels
from sash.spark.stream.log import Entry, Head, table_of
from sash.spark.stream.stored_definition import StoredDefinition

KINDS = (
    *("state", "head", "definition", "order", "retention"),  # of a bucket
    *("missing", "nonce", "unreadable", "rows", "form", "newest", "bucket"),  # of a record
)


class Finding(NamedTuple):
    """Something that is wrong: `bucket` is None for the whole state, `record` for the whole bucket."""

    bucket: int | None
    record: int | None
    kind: str
    text: str

    def __str__(self) -> str:
        places = [
            f"{name} {number}" for name, number in zip(("bucket", "record"), self, strict=False) if number is not None
        ]
        return f"{', '.join(places) or 'state'}: {self.text}"


@dataclass(frozen=True)
class BucketState:
    """A bucket whose head can be read, or with `head` None one that only has records."""

    label: int
    head: Head | None
    broken: tuple[Finding, ...] = ()  # why the head cannot be read

    @classmethod
    def read(cls, label: int, data: bytes) -> Self:
        """Return the bucket of a head's bytes, with a finding where they cannot be read."""
        try:
            return cls(label, Head.from_bytes(data))
        except CorruptStateError as error:
            return cls(label, None, (Finding(label, None, "head", str(error)),))

    @cached_property
    def entries(self) -> dict[int, Entry]:
        """The entries of records with rows, by their number."""
        return {} if self.head is None else {entry.seq: entry for entry in self.head.entries if entry.rows}

    @cached_property
    def definitions(self) -> tuple[StoredDefinition | None, ...]:
        """The definitions that records were written by; None for one that cannot be read, or is not stored."""
        return () if self.head is None else tuple(definition_of(plain) for plain in self.head.definitions)

    @property
    def definition(self) -> StoredDefinition | None:
        """The current definition of the bucket."""
        return self.definitions[-1] if self.definitions else None

    def written_by(self, entry: Entry) -> StoredDefinition | None:
        """Return the definition that a record was written by, or None if it is not known."""
        return self.definitions[entry.form] if 0 <= entry.form < len(self.definitions) else None

    # --- findings ---------------------------------------------------------------------------------

    def in_head(self) -> list[Finding]:
        """Return what is wrong with the head."""
        if self.head is None:
            return list(self.broken)
        found = [*self._definitions(self.head), *self._order(self.head), *self._retention(self.head)]
        return [Finding(self.label, record, kind, text) for record, kind, text in found]

    def in_record(self, seq: int, data: bytes) -> list[Finding]:
        """Return what is wrong with a record; nothing for one that the head does not list."""
        entry = self.entries.get(seq)
        if entry is None:
            return []
        return [Finding(self.label, seq, kind, text) for kind, text in self._record(entry, data)]

    def missing(self, seen: Iterable[int]) -> list[Finding]:
        """Return a finding for each record that the head lists and that is not among those that were seen."""
        absent = sorted(set(self.entries) - set(seen))
        return [Finding(self.label, seq, "missing", "the head lists it, but it is not stored") for seq in absent]

    # --- of the head ------------------------------------------------------------------------------

    def _definitions(self, head: Head) -> Iterator[tuple[int | None, str, str]]:
        for plain, definition in zip(head.definitions, self.definitions, strict=True):
            if definition is None and "words" in plain:
                yield None, "definition", f"its definition {shown(plain.get('fingerprint'))} cannot be read"
        for entry in head.entries:
            if not 0 <= entry.form < len(head.definitions):
                yield entry.seq, "definition", f"it names definition {entry.form} of {len(head.definitions)}"
        if self.definition is not None and self.label not in labels(self.definition.buckets):
            yield None, "bucket", f"it is not one of the {self.definition.buckets} buckets"

    def _order(self, head: Head) -> Iterator[tuple[int | None, str, str]]:
        for older, newer in pairwise(head.entries):
            if newer.seq <= older.seq:
                yield newer.seq, "order", f"it is listed after record {older.seq}"
        for entry in head.entries:
            if entry.seq >= head.next_seq:
                yield entry.seq, "order", f"its number must be below the next one, {head.next_seq}"
        if head.entries and head.entries[-1].nonce != head.nonce:
            text = "the head lists it as the last one, but had another mutation after it"
            yield head.entries[-1].seq, "nonce", text

    def _retention(self, head: Head) -> Iterator[tuple[int | None, str, str]]:
        if self.definition is None:
            return
        bound = self.definition.retained_after(head.position.get("horizon"))
        for entry in self.entries.values():
            if entry.newest <= bound:
                text = f"its newest time must be after {_text(bound)}, got {_text(entry.newest)}, which has expired"
                yield entry.seq, "retention", text

    # --- of a record ------------------------------------------------------------------------------

    def _record(self, entry: Entry, data: bytes) -> Iterator[tuple[str, str]]:
        try:
            table = table_of(data, entry)
            table.validate(full=True)
        except CorruptStateError:
            yield "nonce", "it is of another attempt than the head"
            return
        except Exception as error:  # of Arrow, or of anything that it makes of other bytes
            yield "unreadable", f"its bytes cannot be read: {shown(str(error))}"
            return
        if table.num_rows != entry.rows:
            yield "rows", f"it must have {entry.rows} rows, got {table.num_rows}"
        definition = self.written_by(entry)
        if definition is None:
            return
        wanted, found = _columns(definition.record_of(table)), _columns(table.schema)
        if found != wanted:
            yield "form", f"it must have the columns {', '.join(wanted)}, got {', '.join(found)}"
            return
        yield from self._rows(entry, table, definition)

    def _rows(self, entry: Entry, table: pa.Table, definition: StoredDefinition) -> Iterator[tuple[str, str]]:
        times, nulls = arrow.ticks(table, definition.words["time"])
        if nulls is not None and nulls.any():
            yield "rows", f"every row must have a time, but {int(nulls.sum())} have none"
        newest = int(times.max()) if len(times) else None
        # Panes may have become longer since, so that they start earlier than the entry says.
        if newest is not None and newest != definition.pane_start(entry.newest):
            yield "newest", f"its newest time must be {_text(entry.newest)}, got {_text(newest)}"
        strays = int((self._places(table, definition) != self.label).sum())
        if strays:
            yield "bucket", f"{strays} of its {table.num_rows} rows belong to another bucket"

    @staticmethod
    def _places(table: pa.Table, definition: StoredDefinition) -> NDArray[np.int32]:
        """Return the label of the bucket that each row belongs to."""
        numbers = buckets_of(table, definition.words["keys"], definition.buckets)
        return np.array(labels(definition.buckets), dtype=np.int32)[numbers]


@dataclass
class Tally:
    """What was found in a checkpoint, bucket by bucket."""

    findings: list[Finding] = field(default_factory=list)
    leftovers: int = 0

    def add(self, state: BucketState, seen: Iterable[int], found: Iterable[Finding]) -> None:
        """Add a bucket whose log has the records `seen`, in which `found` is wrong."""
        seen = list(seen)
        self.findings += [*state.in_head(), *state.missing(seen), *found]
        if state.head is not None:
            self.leftovers += len(set(seen) - set(state.entries))
        elif not state.broken and seen:
            text = f"{len(seen)} records are stored, but no head"
            self.findings.append(Finding(state.label, None, "head", text))


def definition_of(plain: object) -> StoredDefinition | None:
    """Return a stored definition, or None for one that cannot be read or has a fingerprint only."""
    if not isinstance(plain, dict) or "words" not in plain:
        return None
    try:
        definition = StoredDefinition.from_plain(plain)
        definition.retained_after(0)  # its durations can be read
        return definition if definition.record is not None else None
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException, SashError):
        return None


def _text(time: int) -> str:
    return str(np.datetime64(time, "us"))


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema]
