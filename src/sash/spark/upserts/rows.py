"""The table of an upsert's rows, and how statements write it: several rows each, in every database."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import Transaction
from sash.spark.upserts.values import identities

if TYPE_CHECKING:
    import pyarrow as pa

IDENTITY = "_sash_identity"
LEAST = -(2**63)  # what a null revision counts as
_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class RowsTable:
    """The table that has the rows, tombstones among them: its name, the rows' columns, and what identifies a row."""

    name: str
    columns: list[str]
    definition: Definition
    absent: tuple[str, ...] = ()  # columns that the table has and the rows do not: null from now on

    @property
    def revision_place(self) -> int | None:
        """The position of the revision among the columns, or None."""
        revision = self.definition.revision
        return None if revision is None else self.columns.index(revision)

    def identities(self, rows: "pa.Table | pa.RecordBatch") -> Any:
        """Return the identity of each row."""
        return identities([rows.column(self.columns.index(key)) for key in self.definition.keys])

    def insert(self, quote: Callable[[str], str], source: str, least: str = str(LEAST)) -> str:
        """Return the statement that merges the rows of a source, VALUES or a query, into the table.

        `least` is what a null revision counts as, in the SQL of the database.
        """
        names, rows = [quote(name) for name in self.columns], quote(self.name)
        newer = ""
        if self.definition.revision is not None:
            revision = quote(self.definition.revision)
            newer = f" WHERE coalesce(excluded.{revision}, {least}) >= coalesce({rows}.{revision}, {least})"
        values = [f"{name} = excluded.{name}" for name in names] + [f"{quote(name)} = NULL" for name in self.absent]
        return (
            f"INSERT INTO {rows} ({', '.join([IDENTITY, *names])}) {source} "
            f"ON CONFLICT ({IDENTITY}) DO UPDATE SET {', '.join(values)}{newer}"
        )


class StatementWriter:
    """Merges rows by statements with parameters."""

    def __init__(self, transaction: Transaction, table: RowsTable) -> None:
        self._transaction = transaction
        self._table = table

    def add(self, rows: "pa.Table") -> None:
        """Merge rows into the table."""
        latest, width = self._latest(rows), len(self._table.columns) + 1
        # Many rows per statement: DuckDB takes as long for one row as for a hundred, and so does a remote database.
        many = max(1, min(_ROWS_AT_ONCE, self._transaction.dialect.most_parameters // width))
        for start in range(0, len(latest), many):
            part = latest[start : start + many]
            marks = f"VALUES {self._transaction.marks(width, len(part))}"
            statement = self._table.insert(self._transaction.named, marks)
            self._transaction.execute(statement, [value for row in part for value in row])

    def finish(self) -> None:
        """Do nothing: the rows are in the table."""

    def _latest(self, rows: "pa.Table") -> list[tuple[Any, ...]]:
        """Return the latest row of each identity, because a statement must not write a row twice."""
        names = self._table.identities(rows).to_pylist()
        values = [self._transaction.dialect.values(column) for column in rows.columns]
        place = self._table.revision_place
        latest: dict[str, tuple[Any, ...]] = {}
        for row in zip(names, *values, strict=True):
            previous = latest.get(row[0])
            if previous is None or place is None or _or_least(row[place + 1]) >= _or_least(previous[place + 1]):
                latest[row[0]] = row
        return list(latest.values())


def _or_least(revision: int | None) -> int:
    return LEAST if revision is None else revision
