"""Open sessions in the log of a bucket: what is folded of rows behind the horizon, which the log then drops.

Whenever a step folds rows of a key, its record gets the whole open session of that key besides the accepted rows: keys,
in the column of times the session's end, and start, last event and aggregates as words. A later one of the same key
takes its place. An open session expires as a row does whose time is its end, so nothing else in the log knows of them.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.keyed.stream import Stream
from sash.spark.stream.row_order import in_order

SESSION = "__sash_session"  # of stored rows: the words of an open session, null for events
_WORD = 8
_OWN = 2  # words besides those of the record: when a session starts, and its last event
_EXACT = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)


def kind_of(record_words: int) -> pa.DataType:
    """Return the type of the column, for records of so many words."""
    return pa.binary((_OWN + record_words) * _WORD)


def with_open_sessions(stream: Stream, rows: pa.Table) -> pa.Table:
    """Return the rows that a step accepted, and the sessions of which it folded rows."""
    if stream.spec.gap is None:
        return rows
    sessions, records = stream.engine.folded()
    if not len(sessions):
        return rows
    spec, schema, gap = stream.spec, stream.schema, stream.definition.largest
    starts, lasts = (np.frombuffer(part, dtype=np.int64) for part in (sessions.times(), sessions.seqs()))
    words = np.frombuffer(records, dtype=np.int64).reshape(len(sessions), -1)
    stored = np.ascontiguousarray(np.column_stack([starts, lasts, words]))
    kinds = [arrow.key_kind(schema.field(name).type) for name in spec.keys]
    columns = dict(zip(spec.keys, arrow.anchor_keys(stream.engine, sessions, kinds), strict=True))
    ends = arrow.plus(lasts, gap)
    columns[spec.time] = arrow.times_of(ends, schema.field(spec.time).type)
    kind = kind_of(stream.engine.record_words)
    columns[SESSION] = pa.Array.from_buffers(kind, len(stored), [None, pa.py_buffer(stored.tobytes())])
    table, _ = in_order(pa.table(columns), ends)
    typed = [pa.field(field.name, field.type) for field in schema if field.name in columns]
    return pa.concat_tables([rows, table.cast(pa.schema([*typed, (SESSION, kind)]))], promote_options="default")


def replay(stream: Stream, table: pa.Table) -> None:
    """Replay a record: its rows, and its open sessions in place of earlier ones."""
    if SESSION not in table.column_names:
        stream.replay(table)
        return
    there = table.column(SESSION).is_valid()
    stream.replay(table.filter(pc.invert(there)).drop_columns(SESSION))
    sessions = table.filter(there)
    words = words_of(sessions)
    keys = arrow.key_batch(stream.engine, sessions, stream.spec.keys, stream.position.seq)
    starts, lasts = (np.ascontiguousarray(words[:, i]) for i in range(_OWN))
    stream.engine.unfold(keys, starts, lasts, np.ascontiguousarray(words[:, _OWN:]))


def words_of(sessions: pa.Table) -> NDArray[np.int64]:
    """Return the words of open sessions, a row for each."""
    column = sessions.column(SESSION).combine_chunks()
    width = column.type.byte_width
    data = column.buffers()[1]
    words = np.frombuffer(data, dtype=np.int64)[column.offset * width // _WORD :]
    return words[: len(column) * width // _WORD].reshape(len(column), width // _WORD)


def latest(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return records that were joined without the open sessions in whose place later ones are."""
    exact = all(any(is_a(table.schema.field(name).type) for is_a in _EXACT) for name in keys)
    if SESSION not in table.column_names or not exact:  # numbers may be equal that are other keys
        return table
    place = pa.array(np.arange(table.num_rows))
    there = table.column(SESSION).is_valid()
    sessions = pa.table({**{name: table.column(name) for name in keys}, SESSION: place}).filter(there)
    last = sessions.group_by(list(keys), use_threads=False).aggregate([(SESSION, "max")]).column(f"{SESSION}_max")
    return table.filter(pc.or_(pc.invert(there), pc.is_in(place, value_set=last.combine_chunks())))
