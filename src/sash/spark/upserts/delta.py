"""The latest revision of each row in a Delta table, merged by the driver through delta-rs.

A micro-batch is one commit, which also has the id of its query and its number as an application transaction: both are
stored, or neither. Rows that are `deleted` are removed. Revisions of one query come in order, so nothing has to
remember what was removed. The table's properties have the definition of the upsert and the queries that wrote it.
Commits of their own, before that of the rows, add columns and change the definition; each can be repeated.

A merge rewrites the files that hold rows it changes. Its predicate has the range of times in the micro-batch as
literals, so that files with other times are not even opened; `delta_files` keeps files apart by time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from sash.errors import ConcurrentUseError, KindError, shown
from sash.inputs.arrow import pyarrow
from sash.locations import Location
from sash.spark.schema import all_nullable, utc_schema
from sash.spark.upserts import delta_spark, delta_table
from sash.spark.upserts.collected import Collected, collected, driver_query
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.delta_files import Upkeep
from sash.spark.upserts.delta_sql import Clauses, latest_of, live_of, matches_of, ranges_of
from sash.spark.upserts.target import (
    Place,
    added_columns,
    is_changed,
    is_repetition,
    require_columns,
    require_late_decided,
    require_own_query,
    require_same,
    without_late,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable

ROWS_AT_ONCE = 1_000_000  # of one merge on the driver
_UNSUPPORTED = (
    spark.DayTimeIntervalType,
    spark.YearMonthIntervalType,
    spark.CalendarIntervalType,
    spark.NullType,
    spark.VariantType,
)


@dataclass
class DeltaUpsert:
    """A sink that keeps the latest revisions in a Delta table; `upsert` makes it."""

    location: Location
    definition: Definition
    shared: bool
    late: str | None
    storage: dict[str, str] | None = None  # options of the object store
    upkeep: Upkeep = field(default_factory=Upkeep)
    _table: "DeltaTable | None" = field(default=None, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}  # a Spark Connect server opens its own

    def check(self, schema: spark.StructType) -> None:
        """Raise for rows that lack a column or have one of an unsupported type, before a query starts."""
        require_columns(self.definition, schema)
        require_late_decided(self.late, schema)
        for one in schema.fields:
            kind = next(_unsupported(one.dataType), None)
            if kind is not None:
                raise KindError(
                    f"target must be able to hold the rows, but Delta tables have no {kind.simpleString()}, the type "
                    f"of the column {shown(one.name)}; cast it, or drop it.",
                    argument="target",
                    column=one.name,
                )

    def writers(self) -> set[str]:
        """Return the ids of the queries that have written to the table."""
        table = self._current()
        return set() if table is None else set(delta_table.queries_of(table))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a micro-batch into the table."""
        self.check(batch.schema)
        batch = without_late(batch, self.late)
        if delta_spark.is_enabled(batch.sparkSession):
            self._merge_on_executors(batch, batch_id)
            return
        if driver_query(batch) is not None:
            with collected(batch) as rows:
                if rows.whole:
                    self._merge_all(batch.schema, rows, batch_id)
                    return
        # Rows of one identity must not be in two pieces, each of which is merged on its own.
        with collected(self._in_order(batch)) as rows:
            if self._is_empty():
                self._fill(batch.schema, rows, batch_id)
            else:
                self._merge_all(batch.schema, rows, batch_id)

    def overwrite(self, rows: DataFrame) -> None:
        """Replace all rows of the table, and its columns, in one commit."""
        self.check(rows.schema)
        rows = without_late(rows, self.late)
        table = self._current()
        if table is not None:
            require_same(self.definition, delta_table.definition_of(table, self.location), self.place)
        with collected(self._in_order(rows)) as found:
            self._fill(rows.schema, found, 0, mode="overwrite")
        table = self._current()
        if table is not None and delta_table.queries_of(table):
            delta_table.note(table, self.definition, [])  # whoever writes next begins with these rows

    @property
    def place(self) -> Place:
        """The argument that named the table, and its value."""
        return Place("target", str(self.location))

    # --- the table --------------------------------------------------------------------------------

    def _current(self) -> "DeltaTable | None":
        """Return the table as it is now, or None if there is none yet."""
        if self._table is None:
            self._table = delta_table.opened(self.location, self.storage)
        else:
            self._table.update_incremental()
        return self._table

    def _is_empty(self) -> bool:
        table = self._current()
        return table is None or not table.file_uris()

    def open_for(
        self, schema: spark.StructType, query: str | None, batch_id: int, digest: int | None = None
    ) -> "DeltaTable | None":
        """Return the table for a micro-batch, with its columns, or None if it has the micro-batch.

        A table is created if there is none; what does not fit raises an error. A number that comes again with more
        columns or another definition is not a repetition: the query was changed after it had written the micro-batch.
        Nor is one that comes with other rows, by their digest: the checkpoint was set back by one.
        """
        table = self._current()
        if table is None:
            return self._create(schema, query)
        stored, known = delta_table.definition_of(table, self.location), delta_table.queries_of(table)
        changed = is_changed(self.definition, stored, query in known, self.place)
        added = added_columns(delta_table.columns_of(table), self._stored(schema), self.place, tells_case=False)
        queries = [one for one in known if one == query or not changed]
        require_own_query(queries, query, self.definition, self.place, self.shared)
        written = is_repetition(self._last_batches(table, query), query, batch_id, self.place)
        if written and not added and not changed and not self._has_other_rows(table, query, digest):
            return None
        queries += [query] if query is not None and query not in queries else []
        if added or changed or queries != known:
            commit = _noted(query, batch_id - 1) if written else None
            self._commit(lambda: self._follow(table, added, queries, commit))
        return table

    def _follow(
        self,
        table: "DeltaTable",
        added: list[spark.StructField],
        queries: list[str],
        commit: "CommitProperties | None",
    ) -> None:
        """Change a table to the columns and the definition of its query; a writer that dies meanwhile does it again."""
        stored, revision = delta_table.definition_of(table, self.location), self.definition.revision
        if revision is not None and stored.revision is None and revision in delta_table.columns_of(table).names:
            delta_table.forget(table, revision, commit)
        if added:
            delta_table.add_columns(table, added, commit)
        if self.definition != stored or queries != delta_table.queries_of(table):
            delta_table.note(table, self.definition, queries, commit)

    def _create(self, schema: spark.StructType, query: str | None) -> "DeltaTable":
        self._table = delta_table.created(
            self.location, self._stored(schema), self.definition, [] if query is None else [query], self.storage
        )
        return self._table

    def _stored(self, schema: spark.StructType) -> spark.StructType:
        """Return the columns of the table: those of the rows, without the one that marks deleted ones."""
        kept = [one for one in all_nullable(schema).fields if one.name != self.definition.deleted]
        return spark.StructType([spark.StructField(one.name, one.dataType) for one in kept])

    # --- the rows ---------------------------------------------------------------------------------

    def _in_order(self, rows: DataFrame) -> DataFrame:
        return delta_spark.by_time(delta_spark.latest(rows, self.definition), self.definition)

    def _merge_all(self, schema: spark.StructType, rows: Collected, batch_id: int) -> None:
        tables = _joined(rows.tables, ROWS_AT_ONCE)
        first = next(tables, None)
        if first is None:
            return
        table = self.open_for(schema, rows.query, batch_id, rows.digest)
        if table is None:
            return
        # A micro-batch of several merges is noted with the last: those before it can be repeated.
        for following in tables:
            self._merge(table, first, None)
            first = following
        self._merge(table, first, _noted(rows.query, batch_id, rows.digest))
        self._note(table, rows.query, batch_id, rows.digest)
        self.upkeep.after(table, self.definition)

    def _merge_on_executors(self, batch: DataFrame, batch_id: int) -> None:
        query = driver_query(batch)
        with delta_spark.source(batch, self.definition) as rows:
            if not rows.count:
                return
            table = self.open_for(batch.schema, query, batch_id)
            if table is None:
                return
            noted = None if query is None else (delta_table.app_of(query), batch_id)
            absent = self._absent(table, batch.columns)
            self._commit(lambda: delta_spark.merge(str(self.location), rows, self.definition, absent, noted))
        table.update_incremental()
        self.upkeep.after(table, self.definition)

    def _absent(self, table: "DeltaTable", names: list[str]) -> list[str]:
        """Return the columns of a table that rows with these columns do not have."""
        written = set(names) - {self.definition.deleted}
        return [name for name in delta_table.columns_of(table).names if name not in written]

    @staticmethod
    def _last_batches(table: "DeltaTable", query: str | None) -> dict[str, int]:
        """Return the last micro-batch of a query that the table has, by the query."""
        version = None if query is None else table.transaction_version(delta_table.app_of(query))
        return {} if query is None or version is None else {query: version}

    @staticmethod
    def _has_other_rows(table: "DeltaTable", query: str | None, digest: int | None) -> bool:
        """Return whether the last micro-batch of a query had other rows, as far as their digests are known.

        To merge rows again does no harm, so the digest may be that of an earlier micro-batch.
        """
        before = None if query is None else table.transaction_version(delta_table.rows_of(query))
        return None not in (before, digest) and before != digest

    def _merge(self, table: "DeltaTable", rows: "pa.Table", noted: "CommitProperties | None") -> None:
        rows = latest_of(rows, self.definition)
        names = [name for name in rows.column_names if name != self.definition.deleted]
        clauses = Clauses.of(self.definition, names, self._absent(table, names))
        merge = table.merge(
            rows,
            predicate=" AND ".join([*ranges_of(rows, self.definition), *matches_of(rows, self.definition)]),
            source_alias="source",
            target_alias="target",
            streamed_exec=False,  # so that files are skipped by their statistics
            commit_properties=noted,
        )
        if clauses.removed is not None:
            merge = merge.when_matched_delete(predicate=clauses.removed)
        merge = merge.when_matched_update(clauses.columns, predicate=clauses.newer)
        merge = merge.when_not_matched_insert(clauses.columns, predicate=clauses.added)
        self._commit(merge.execute)

    def _note(self, table: "DeltaTable", query: str | None, batch_id: int, digest: int | None) -> None:
        """Note a micro-batch whose last merge changed nothing, which delta-rs therefore did not commit."""
        from deltalake import write_deltalake

        if query is not None and self._last_batches(table, query).get(query) != batch_id:
            empty = pyarrow().schema(table.schema().to_arrow()).empty_table()
            self._commit(
                lambda: write_deltalake(table, empty, mode="append", commit_properties=_noted(query, batch_id, digest))
            )

    def _fill(self, schema: spark.StructType, rows: Collected, batch_id: int, mode: Any = "append") -> None:
        """Write rows into a table that has none, or in place of all it has: in one commit, however many they are."""
        from deltalake import write_deltalake

        is_new = mode == "overwrite"
        table = self._current() or self._create(schema, rows.query)
        if not is_new and self.open_for(schema, rows.query, batch_id) is None:
            return
        kind = utc_schema(self._stored(schema) if is_new else delta_table.columns_of(table))
        tables = (_filled(live_of(one, self.definition), kind) for one in rows.tables)
        reader = pyarrow().RecordBatchReader.from_batches(kind, (part for one in tables for part in one.to_batches()))
        options: dict[str, Any] = {"mode": mode, "commit_properties": _noted(rows.query, batch_id)}
        if is_new:
            options["schema_mode"] = "overwrite"
        self._commit(lambda: write_deltalake(table, reader, **options))

    def _commit(self, write: Callable[[], Any]) -> None:
        from deltalake.exceptions import CommitFailedError

        try:
            write()
        except Exception as error:
            if not isinstance(error, CommitFailedError) and not delta_spark.is_conflict(error):
                raise
            raise ConcurrentUseError(
                f"{self.place} is being written by another writer, which changed the same rows; stop it.",
                argument="target",
            ) from error


def _noted(query: str | None, batch_id: int, digest: int | None = None) -> "CommitProperties | None":
    """Return what a commit notes: that it has this micro-batch of the query, and the digest of its rows."""
    from deltalake import CommitProperties, Transaction

    if query is None:
        return None
    noted = [Transaction(delta_table.app_of(query), batch_id)]
    noted += [] if digest is None else [Transaction(delta_table.rows_of(query), digest)]
    return CommitProperties(app_transactions=noted)


def _filled(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Return rows with the columns of a schema, null where they do not have them."""
    pa = pyarrow()
    columns = [rows[one.name] if one.name in rows.column_names else pa.nulls(len(rows), one.type) for one in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def _joined(tables: "Iterator[pa.Table]", rows: int) -> "Iterator[pa.Table]":
    """Yield tables joined until they have so many rows."""
    pa, held = pyarrow(), []
    for table in tables:
        held.append(table)
        if sum(one.num_rows for one in held) >= rows:
            yield pa.concat_tables(held)
            held = []
    if sum(one.num_rows for one in held):
        yield pa.concat_tables(held)


def _unsupported(kind: spark.DataType) -> Iterator[spark.DataType]:
    """Yield the types within a type that Delta tables do not have."""
    if isinstance(kind, _UNSUPPORTED):
        yield kind
    elif isinstance(kind, spark.StructType):
        for one in kind.fields:
            yield from _unsupported(one.dataType)
    elif isinstance(kind, spark.ArrayType):
        yield from _unsupported(kind.elementType)
    elif isinstance(kind, spark.MapType):
        yield from _unsupported(kind.keyType)
        yield from _unsupported(kind.valueType)
