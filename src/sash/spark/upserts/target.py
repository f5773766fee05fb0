"""Checks that both kinds of upsert target share: of the rows, and of the query that writes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, IntegralType, MapType, StructField, StructType

from sash.errors import ArgumentError, KindError, shown
from sash.spark.columns import column
from sash.spark.upserts.definition import Definition

LATE = "late"


@dataclass(frozen=True)
class Place:
    """Where rows are written, and the argument that named it, for error messages."""

    argument: str
    name: str

    def __str__(self) -> str:
        return f"{self.argument} {shown(self.name)}"


def require_own_query(
    writers: Iterable[str], query: str | None, definition: Definition, target: Place, shared: bool
) -> None:
    """Raise for a target that another query wrote: a new checkpoint restarts revisions, and old ones would win."""
    others = [other for other in writers if other != query]
    if query is None or not others or shared or definition.revision is None:
        return
    raise ArgumentError(
        f"{target} was written by query {others[0]}, and query {query} restarts its revisions; "
        f"use a new {target.argument}, or shared=True if the revisions belong together.",
        argument=target.argument,
    )


def is_repetition(last: Mapping[str, int], query: str | None, batch_id: int, target: Place) -> bool:
    """Return whether a micro-batch has the number of the last one that a query wrote; raise if it is older.

    Spark repeats only its last micro-batch. An older number means that the checkpoint was set back: the rows of that
    micro-batch need not be those that were written under its number, and skipping them would lose them. Set back by
    one, the source is read again from where the last micro-batch began, so what it wrote comes again and is replaced.
    """
    written = -1 if query is None else last.get(query, -1)
    if batch_id < written:
        raise ArgumentError(
            f"The checkpoint is older than the {target}: the query is at micro-batch {batch_id}, and the "
            f"{target.argument} has rows of micro-batch {written}; restore the checkpoint or the {target.argument} so "
            f"that both are of the same time, or start with a new checkpoint and a new {target.argument}.",
            argument=target.argument,
        )
    return batch_id == written


def without_late(rows: DataFrame, late: str | None) -> DataFrame:
    """Return the rows that an upsert takes: with "drop" those that are not late, without the column that says so."""
    return rows.filter(~F.coalesce(column(LATE), F.lit(False))).drop(LATE) if late == "drop" else rows


def require_late_decided(late: str | None, schema: StructType) -> None:
    """Raise if the rows may include late ones, which have the identity of a result but no values, by oversight."""
    kind = schema[LATE].dataType.simpleString() if LATE in schema.names else "none"
    if late is None and kind == "boolean":
        raise ArgumentError(
            f"late must be 'drop', to leave out the rows that `rolling` marks in the column {LATE}, or 'keep' if it is "
            "a column of yours, got None.",
            argument="late",
            column=LATE,
        )
    if late == "drop" and kind != "boolean":
        raise KindError(
            f"late must be omitted unless the rows have a column {LATE} of booleans, which is {kind}.",
            argument="late",
            column=LATE,
        )


def is_changed(definition: Definition, stored: Definition, known: bool, target: Place) -> bool:
    """Return whether a query changes the definition of a target; raise ArgumentError if it must not.

    A query that the target knows may begin or cease to emit revisions, and flags of deleted rows.
    """
    given = {name: (getattr(definition, name), getattr(stored, name)) for name in ("revision", "deleted")}
    taken = {name: before for name, (now, before) in given.items() if known and None in (now, before)}
    require_same(replace(definition, **taken), stored, target)
    return definition != stored


def require_same(definition: Definition, stored: Definition, target: Place) -> None:
    """Raise ArgumentError for a definition other than the one that a target was created with."""
    for name in ("keys", "revision", "deleted", "partition_by"):
        now, before = getattr(definition, name), getattr(stored, name)
        if now != before:
            raise ArgumentError(
                f"{name} must be {shown(before)}, with which {shown(target.name)} was created, got {shown(now)}; "
                f"or use a new {target.argument}.",
                argument=name,
            )


def require_columns(definition: Definition, schema: StructType) -> None:
    """Raise for rows that lack a column of the definition, or have one of an unsupported type."""
    types = {field.name: field.dataType for field in schema.fields}
    named = {"keys": definition.keys, "revision": (definition.revision,), "deleted": (definition.deleted,)}
    for argument, names in named.items():
        for name in names:
            if name is not None and name not in types:
                raise ArgumentError(
                    f"{argument} must name columns of the rows ({', '.join(types)}), got {shown(name)}.",
                    argument=argument,
                    column=name,
                )
    for name in definition.keys:
        if not _is_key_type(types[name]):
            wanted = "integers, decimals, text, times, booleans or bytes, which have a stable equality"
            raise _type_error("keys", name, types[name], wanted)
    revision, deleted = definition.revision, definition.deleted
    if revision is not None and not isinstance(types[revision], IntegralType):
        raise _type_error("revision", revision, types[revision], "integers")
    if deleted is not None and types[deleted].simpleString() != "boolean":
        raise _type_error("deleted", deleted, types[deleted], "booleans")


def _type_error(argument: str, name: str, kind: DataType, wanted: str) -> KindError:
    message = f"{argument} must hold {wanted}, but column {shown(name)} holds {kind.simpleString()}."
    return KindError(message, argument=argument, column=name)


def _is_key_type(kind: DataType) -> bool:
    return not isinstance(kind, (FloatType, DoubleType, MapType, ArrayType, StructType))


def added_columns(stored: StructType, rows: StructType, target: Place, *, tells_case: bool) -> list[StructField]:
    """Return the columns of rows that a target lacks; raise ArgumentError for one that cannot be there.

    Unless the target `tells_case`, names that differ by case only are the same to it.
    """
    names = {name if tells_case else name.lower(): name for name in stored.names}
    added = []
    for field in rows.fields:
        name = names.setdefault(field.name if tells_case else field.name.lower(), field.name)
        if name != field.name:
            raise ArgumentError(
                f"{target} has the column {shown(name)}, and the rows have {shown(field.name)}, which differs from it "
                f"by case only; rename it, or use a new {target.argument}.",
                argument=target.argument,
                column=field.name,
            )
        if name not in stored.names:
            added.append(field)
        else:
            _require_type(stored[name].dataType, field, target)
    return added


def _require_type(stored: DataType, field: StructField, target: Place) -> None:
    before, now = stored.simpleString(), field.dataType.simpleString()
    if before != now:
        raise ArgumentError(
            f"{target} has the column {shown(field.name)} as {before}, but the rows have it as {now}; "
            f"write rows with the same types, or use a new {target.argument}.",
            argument=target.argument,
            column=field.name,
        )
