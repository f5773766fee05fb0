"""What both kinds of upsert target share: which rows they take, and whose."""

from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, IntegralType, MapType, StructType

from sash.errors import ArgumentError, KindError, shown
from sash.spark.upserts.manifest import Definition


@dataclass(frozen=True)
class Place:
    """Where rows go, and the argument that said so, as errors name them."""

    argument: str
    name: str

    def __str__(self) -> str:
        return f"{self.argument}: {shown(self.name)}"


def query_id() -> str | None:
    """Give the id of the streaming query that the present task works for, None outside of one."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


def require_own_query(known: Any, query: str | None, made: Definition, target: Place, shared: bool) -> None:
    """Refuse a target that another query wrote: a new checkpoint counts revisions anew, and they would lose."""
    others = [other for other in known if other != query]
    if query is None or not others or shared or made.revision is None:
        return
    raise ArgumentError(
        f"{target} was written by query {others[0]}, and query {query} counts its revisions anew; "
        f"give a new {target.argument}, or shared=True where the revisions go together."
    )


def require_same(asked: Definition, held: Definition, target: Place, *, buckets: bool = True) -> None:
    """Refuse a definition that is not the one a target was made with."""
    for name in ("keys", "revision", "deleted", "partition_by", "buckets"):
        now, before = getattr(asked, name), getattr(held, name)
        if now != before and (name != "buckets" or buckets):
            raise ArgumentError(
                f"{name}: {shown(now)} is not what {shown(target.name)} was made with, {shown(before)}; "
                f"give that, or a new {target.argument}."
            )


def require_columns(definition: Definition, schema: StructType) -> None:
    """Refuse rows that lack a column of the definition, or have one of a type that cannot be used."""
    types = {field.name: field.dataType for field in schema.fields}
    named = {"keys": definition.keys, "revision": (definition.revision,), "deleted": (definition.deleted,)}
    for argument, names in named.items():
        for name in names:
            if name is not None and name not in types:
                raise ArgumentError(
                    f"{argument}: there is no column {shown(name)}; the rows have {', '.join(types)}.",
                    argument=argument,
                    column=name,
                )
    for name in definition.keys:
        if _is_no_key(types[name]):
            raise KindError(
                f"keys: {shown(name)} holds {types[name].simpleString()}, which has no stable equality; "
                "give columns of numbers without fractions, text, times, booleans or bytes."
            )
    if definition.revision is not None and not isinstance(types[definition.revision], IntegralType):
        kind = types[definition.revision].simpleString()
        raise KindError(
            f"revision: {shown(definition.revision)} holds {kind}; give a column of whole numbers, or None."
        )
    if definition.deleted is not None and types[definition.deleted].simpleString() != "boolean":
        kind = types[definition.deleted].simpleString()
        raise KindError(f"deleted: {shown(definition.deleted)} holds {kind}; give a column of booleans, or None.")


def _is_no_key(kind: DataType) -> bool:
    return isinstance(kind, (FloatType, DoubleType, MapType, ArrayType, StructType))


def require_same_columns(held: StructType, given: StructType, target: Place) -> None:
    """Refuse rows whose columns are not those of a target."""
    before = {field.name: field.dataType.simpleString() for field in held.fields}
    now = {field.name: field.dataType.simpleString() for field in given.fields}
    for name in [*before, *now]:
        if before.get(name) != now.get(name):
            raise ArgumentError(
                f"{target} has the column {shown(name)} as {before.get(name, 'none')}, the rows have "
                f"it as {now.get(name, 'none')}; give rows of the same columns, or a new {target.argument}."
            )
