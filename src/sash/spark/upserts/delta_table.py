"""Delta tables of upserts: where they are, how they are created, and what their properties say."""

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from sash.errors import ArgumentError, CorruptStateError, UnsupportedError, shown
from sash.locations import Location
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import quoted

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_DEFINITION, _QUERIES = "sash.definition", "sash.queries"  # properties of the table
_LOG, _OLD = "_delta_log", "_manifest.json"
_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names
_READ = ("s3", "gs", "az", "abfs", "abfss", "adl", "azure")  # by delta-rs


def require_package() -> None:
    """Raise if delta-rs is not installed."""
    if find_spec("deltalake") is None:
        raise UnsupportedError(
            "target must be an SQLite file, or deltalake must be installed, which writes Delta tables: "
            "pip install 'sash[spark]'.",
            argument="target",
        )


def uri_of(location: Location) -> str:
    """Return a location as delta-rs writes it, or raise for one that it cannot open."""
    if location.local is not None:
        return str(location.local)
    scheme, _, rest = location.text.partition(":")
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme not in _READ:
        raise UnsupportedError(
            f"target must be a directory, or a URI that begins with one of {', '.join(_READ)}, got "
            f"{shown(location.text)}.",
            argument="target",
        )
    return f"{scheme}:{rest}"


def opened(location: Location, storage: dict[str, str] | None = None) -> "DeltaTable | None":
    """Return the table at a location, or None if there is none."""
    from deltalake import DeltaTable

    uri = uri_of(location)
    if location.local is not None and not (location.local / _LOG).is_dir():
        return None
    if not DeltaTable.is_deltatable(uri, storage):
        return None
    return DeltaTable(uri, storage_options=storage)


def created(
    location: Location,
    schema: StructType,
    definition: Definition,
    queries: list[str],
    storage: dict[str, str] | None,
) -> "DeltaTable":
    """Create a table; raise if the location has anything else."""
    from deltalake import DeltaTable, Schema

    _require_free(location)
    return DeltaTable.create(
        uri_of(location),
        Schema.from_json(schema.json()),
        partition_by=list(definition.partition_by) or None,
        configuration={_DEFINITION: definition.to_json(), _QUERIES: json.dumps(queries)},
        storage_options=storage,
        raise_if_key_not_exists=False,
    )


def _require_free(location: Location) -> None:
    """Raise for a directory that has files, or cannot be created."""
    path = location.local
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = sorted(one.name for one in path.iterdir())
    except OSError as error:
        raise ArgumentError(
            f"target must be a directory that can be created, got {shown(path)}: {error.strerror}.", argument="target"
        ) from None
    if _OLD in names:
        raise UnsupportedError(
            f"target {shown(path)} has the format of earlier versions, a manifest of Parquet files; upserts write "
            "Delta tables now. Use a new target and a new checkpoint.",
            argument="target",
        )
    if names:
        raise ArgumentError(
            f"target must be a new or empty directory, got {shown(path)}, which has {shown(names[0])} and no "
            f"{_LOG} of a Delta table.",
            argument="target",
        )


def definition_of(table: "DeltaTable", location: Location) -> Definition:
    """Return the definition of the upsert that created a table, or raise for another table."""
    text = table.metadata().configuration.get(_DEFINITION)
    if text is None:
        raise ArgumentError(
            f"target must be a new directory or the table of an upsert, got {shown(str(location))}, a Delta table "
            "that something else has created.",
            argument="target",
        )
    try:
        return Definition.from_json(text)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptStateError(
            f"target {shown(str(location))} has a property {_DEFINITION} that cannot be read: {error}.",
            argument="target",
        ) from None


def queries_of(table: "DeltaTable") -> list[str]:
    """Return the ids of the queries that have written to a table."""
    return [str(query) for query in json.loads(table.metadata().configuration.get(_QUERIES, "[]"))]


def note(
    table: "DeltaTable", definition: Definition, queries: list[str], commit: "CommitProperties | None" = None
) -> None:
    """Note the definition of the upsert, and which queries write to a table."""
    noted = {_DEFINITION: definition.to_json(), _QUERIES: json.dumps(queries)}
    table.alter.set_table_properties(noted, raise_if_not_exists=False, commit_properties=commit)


def columns_of(table: "DeltaTable") -> StructType:
    """Return the columns of a table."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def add_columns(table: "DeltaTable", columns: list[StructField], commit: "CommitProperties | None") -> None:
    """Add columns to a table; a merge that adds them would also change the table's id, which readers hold on to."""
    from deltalake import Schema

    fields = Schema.from_json(StructType(columns).json()).fields
    table.alter.add_columns(list(fields), commit_properties=commit)


def forget(table: "DeltaTable", column: str, commit: "CommitProperties | None") -> None:
    """Set a column to null in all rows."""
    name = quoted(column)
    table.update({name: "NULL"}, predicate=f"{name} IS NOT NULL", commit_properties=commit)


def app_of(query: str) -> str:
    """Return the id of the application that a query is in a table's transactions."""
    return f"sash-{query}"


def rows_of(query: str) -> str:
    """Return the id of the application whose version is a digest of the rows in the last micro-batch of a query."""
    return f"sash-{query}-rows"
