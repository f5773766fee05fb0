"""How PostgreSQL is written: rows are copied into a temporary table, which one statement merges into the real one.

The text of COPY is made column by column in Arrow: fields between tabs, lines between newlines, `\\N` for null, and a
backslash before what would be read as one of these.
"""

from typing import TYPE_CHECKING, Any

from sash.errors import ArgumentError, ConcurrentUseError, SashError, shown
from sash.inputs.arrow import pyarrow
from sash.spark.upserts.dialect import Transaction, quoted
from sash.spark.upserts.rows import IDENTITY, LEAST, RowsTable
from sash.spark.upserts.values import hexadecimal, instants, is_bytes, is_text, joined, typed_values

if TYPE_CHECKING:
    import pyarrow as pa

_COPIED = "pg_temp._sash_copied"
_LEAST = f"'{LEAST}'::bigint"  # as a plain number it would be numeric, which compares slowly
_ROWS_AT_ONCE = 10_000
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DRIVERS = ("psycopg", "psycopg2")
# lock_not_available, deadlock_detected, serialization_failure
_CONTENDED = ("55P03", "40P01", "40001")


class CopyWriter:
    """Merges the rows of a micro-batch by COPY and one statement."""

    def __init__(self, transaction: Transaction, table: RowsTable) -> None:
        self._transaction = transaction
        self._table = table
        self._count = 0
        # The columns are named by position and have the types of the real ones. Identities are sorted below, which is
        # fastest by their bytes.
        columns = ["0::bigint AS number", f'{IDENTITY} COLLATE "C" AS identity']
        columns += [f"{quoted(name)} AS c{place}" for place, name in enumerate(table.columns)]
        transaction.execute(
            f"CREATE TEMPORARY TABLE {_COPIED} ON COMMIT DROP AS "
            f"SELECT {', '.join(columns)} FROM {quoted(table.name)} WITH NO DATA"
        )

    def add(self, rows: "pa.Table") -> None:
        """Copy rows into the temporary table."""
        for part in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
            numbers = pyarrow().array(range(self._count, self._count + part.num_rows))
            fields = [numbers, self._table.identities(part), *part.columns]
            lines = copy_lines(fields, ["number", IDENTITY, *self._table.columns])
            self._transaction.copy(f"COPY {_COPIED} FROM STDIN WITH (FORMAT text, ENCODING 'UTF8')", lines)
            self._count += part.num_rows

    def finish(self) -> None:
        """Merge the latest row of each identity, because a statement must not write a row twice."""
        copied = ", ".join(["identity", *(f"c{place}" for place in range(len(self._table.columns)))])
        place = self._table.revision_place
        latest = "" if place is None else f"coalesce(c{place}, {_LEAST}) DESC, "
        rows = f"SELECT DISTINCT ON (identity) {copied} FROM {_COPIED} ORDER BY identity, {latest}number DESC"
        self._transaction.execute(self._table.insert(quoted, rows, _LEAST))


def copy_lines(columns: "list[pa.Array]", names: list[str]) -> "memoryview":
    """Return rows as the text of COPY; the names are those of the columns in error messages."""
    import pyarrow.compute as pc

    pa = pyarrow()
    fields = [_field(column, name).fill_null("\\N") for column, name in zip(columns, names, strict=True)]
    lines = joined(*fields, separator="\t")
    # One list of all lines, joined, is one value whose buffer is the text.
    (text,) = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    return memoryview(text.as_buffer())


def _field(column: "pa.Array", name: str) -> "pa.Array":
    """Return the values of a column as COPY reads them, and null where they are."""
    pa, kind = pyarrow(), column.type
    if is_text(kind):
        _require_no_nul(column, name)
        return _escaped(column.cast(pa.string()))
    if is_bytes(kind):
        return joined("\\\\x", hexadecimal(column))
    if pa.types.is_timestamp(kind):
        return joined(instants(column), "+00") if kind.tz else instants(column)
    if pa.types.is_nested(kind) or pa.types.is_duration(kind):
        return _escaped(pa.array(typed_values(column), pa.string()))
    return column.cast(pa.string())


def _escaped(texts: "pa.Array") -> "pa.Array":
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(texts, r"[\\\n\r\t]")).as_py():
        for character, escape in _ESCAPES.items():
            texts = pc.replace_substring(texts, character, escape)
    return texts


def _require_no_nul(texts: "pa.Array", name: str) -> None:
    import pyarrow.compute as pc

    found = pc.match_substring(texts, "\0")
    if pc.any(found).as_py():
        value = texts.filter(found)[0].as_py()
        raise ArgumentError(
            f"Column {shown(name)} must not have NUL characters, which PostgreSQL cannot store in text, got "
            f"{shown(value)}; remove them from the rows, as in replace(x, '\\0', '').",
            column=name,
        )


def refusal(error: BaseException, table: str) -> SashError | None:
    """Return an error of a PostgreSQL driver in one sentence; None if the error comes from elsewhere."""
    if type(error).__module__.split(".")[0] not in _DRIVERS:
        return None
    details: Any = getattr(error, "diag", None)
    reason = " ".join(str(getattr(details, "message_primary", None) or error).split()).rstrip(".")
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state in _CONTENDED:
        return ConcurrentUseError(
            f"table {shown(table)} is being written by another writer ({reason}); stop it, or let the connections "
            "wait longer.",
            argument="table",
        )
    return ArgumentError(f"table {shown(table)} cannot be written: {reason}.", argument="table")
