"""The statements of a merge: which rows are the same, which one is later, and which files can have them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sash.inputs.arrow import pyarrow
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.dialect import quoted
from sash.spark.upserts.rows import LEAST

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = "_sash_place"


@dataclass(frozen=True)
class Clauses:
    """The conditions and assignments of a merge, in SQL that DataFusion reads."""

    columns: dict[str, str]
    newer: str | None  # when the source's row replaces the target's; None: always
    removed: str | None  # when it removes it; None: never
    added: str | None  # when a row that the target does not have is added; None: always

    @classmethod
    def of(cls, definition: Definition, names: list[str], absent: list[str]) -> "Clauses":
        """Return the clauses for rows with these columns, besides the one that marks deleted rows.

        The columns that are `absent` from the rows become null.
        """
        columns = {f"target.{quoted(name)}": f"source.{quoted(name)}" for name in names}
        columns |= {f"target.{quoted(name)}": "NULL" for name in absent}
        newer = removed = added = None
        if definition.revision is not None:
            one, other = (f"coalesce({side}.{quoted(definition.revision)}, {LEAST})" for side in ("source", "target"))
            newer = f"{one} >= {other}"
        if definition.deleted is not None:
            gone = f"coalesce(source.{quoted(definition.deleted)}, false)"
            removed, added = " AND ".join([gone, *([newer] if newer else [])]), f"NOT {gone}"
        return cls(columns, newer, removed, added)


def matches_of(rows: "pa.Table", definition: Definition) -> list[str]:
    """Return the conditions that make two rows the same: equal keys, nulls included.

    A comparison that takes nulls for equal is slower, so only columns that have some get it.
    """
    found = []
    for name in definition.keys:
        one, other = f"target.{quoted(name)}", f"source.{quoted(name)}"
        equal = f"{one} = {other}"
        found.append(f"({equal} OR ({one} IS NULL AND {other} IS NULL))" if rows[name].null_count else equal)
    return found


def ranges_of(rows: "pa.Table", definition: Definition) -> list[str]:
    """Return the ranges that the target's rows must be in to match, as literals that statistics are compared with."""
    import pyarrow.compute as pc

    found = []
    for name in definition.keys:
        column = rows[name]
        if is_time(column.type) and not column.null_count and len(column):
            ends = pc.min_max(column)
            least, most = (literal(ends[end], column.type) for end in ("min", "max"))
            found.append(f"target.{quoted(name)} >= {least} AND target.{quoted(name)} <= {most}")
    return found


def is_time(kind: "pa.DataType") -> bool:
    """Return whether values of a type are dates or times."""
    types = pyarrow().types
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def literal(value: "pa.Scalar", kind: "pa.DataType") -> str:
    """Return a date or a time in microseconds as SQL, without the detour through text."""
    types = pyarrow().types
    if types.is_date(kind):
        return f"arrow_cast({value.cast('int32').as_py()}, 'Date32')"
    zone = 'Some("UTC")' if kind.tz else "None"
    return f"arrow_cast({value.cast('int64').as_py()}, 'Timestamp(Microsecond, {zone})')"


def latest_of(rows: "pa.Table", definition: Definition) -> "pa.Table":
    """Return the latest row of each identity, because a merge must not write a row twice."""
    pa = pyarrow()
    if definition.revision is not None:
        revisions = rows[definition.revision].cast(pa.int64()).fill_null(LEAST).to_numpy()
        rows = rows.take(pa.array(np.argsort(revisions, kind="stable")))
    places = rows.select(list(definition.keys)).append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
    last = places.group_by(list(definition.keys), use_threads=False).aggregate([(_PLACE, "max")])
    return rows if last.num_rows == rows.num_rows else rows.take(last[f"{_PLACE}_max"])


def live_of(rows: "pa.Table", definition: Definition) -> "pa.Table":
    """Return the rows that are not deleted."""
    import pyarrow.compute as pc

    flag = definition.deleted
    return rows if flag is None else rows.filter(pc.invert(rows[flag].fill_null(False)))
