"""What a changed definition says of results that were emitted before it and are not final.

They come with the first step after the change, unless that step says something newer of them: a row has one result in
each revision.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.inputs import arrow
from sash.spark.stream.plan import Plan

_MARKS = ("revision", "deleted", "late")


@dataclass(frozen=True)
class Repeated:
    """Results by the changed definition, and the keys and times of those that there are no more."""

    plan: Plan
    results: pa.Table | None
    gone: pa.Table | None

    @classmethod
    def of(cls, plan: Plan, results: pa.Table | None, gone: pa.Table | None) -> "Repeated | None":
        """Return what is to be repeated, or None if there is nothing."""
        found = [table for table in (results, gone) if table is not None and table.num_rows]
        return cls(plan, results, gone) if found else None

    def added_to(self, step: pa.Table, revision: int) -> tuple[pa.Table, Counter[str]]:
        """Return the results of a step and what is repeated, with the step's revision, and what that adds to counts."""
        parts = [(self.gone, True), (self.results, False)]
        tables = [
            self._marked(table.filter(pa.array(~self._said(table, step))), revision, deleted)
            for table, deleted in parts
            if table is not None
        ]
        gone = tables[0].num_rows if self.gone is not None else 0
        rows = sum(table.num_rows for table in tables)
        return pa.concat_tables([*tables, step]), Counter(emitted=rows, deleted=gone)

    def _marked(self, table: pa.Table, revision: int, deleted: bool) -> pa.Table:
        rows, marks = table.num_rows, {"revision": revision, "deleted": deleted, "late": False}
        columns = {
            field.name: pa.array(np.full(rows, marks[field.name]), field.type)
            if field.name in _MARKS and field.name not in table.column_names
            else table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(rows, field.type)
            for field in self.plan.result
        }
        return pa.table(columns, schema=self.plan.result)

    def _said(self, table: pa.Table, step: pa.Table) -> NDArray[np.bool_]:
        """Return which rows the step says something newer of.

        Rows of one key and time without ids share their results. A step that has others has them for all of them, and
        one that has the same only adds a row.
        """
        spec = self.plan.spec
        names = identity_of(self.plan)
        said = _found(table, step, names)
        if spec.every is None and spec.id is None and self.plan.asking is None:
            own = {*names, *spec.carry, *_MARKS}
            results = [name for name in table.column_names if name not in own]
            live = step.filter(pc.invert(step.column("deleted"))) if "deleted" in step.column_names else step
            said &= ~_found(table, live, [*names, *results])
        return said


def _found(table: pa.Table, other: pa.Table, names: list[str]) -> NDArray[np.bool_]:
    """Return which rows another table has too, by the hash of some columns that identify them and then by values."""
    keys = [name for name in names if arrow.is_bytewise(table.schema.field(name).type)]
    mine, theirs = (_hashes(some, keys) for some in (table, other))
    found = np.isin(mine, theirs)
    places = np.flatnonzero(found)
    known = set(_places(other.filter(pa.array(np.isin(theirs, mine[found]))), names))
    found[places] = [place in known for place in _places(table.take(pa.array(places)), names)]
    return found


def identity_of(plan: Plan) -> list[str]:
    """Return the columns that identify a result."""
    spec, asking = plan.spec, plan.asking
    if asking is not None:
        return [*spec.keys, asking.time, *([] if asking.id is None else [asking.id])]
    when = [spec.time] if spec.every is None else ["window_end"]
    return [*spec.keys, *when, *([spec.id] if spec.every is None and spec.id is not None else [])]


def _hashes(table: pa.Table, names: list[str]) -> NDArray[np.uint64]:
    columns = [arrow.one_array(arrow.plain(table.column(name))) for name in names]
    return arrow.row_hashes(columns, table.num_rows)


def _places(table: pa.Table, names: list[str]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row.values())) for row in table.select(names).to_pylist()]
