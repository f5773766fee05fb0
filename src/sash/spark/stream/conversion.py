"""Records that were written by one definition, in the form of another.

Rows are stored whole, so another definition finds in them what it reads, if it is there. Panes are partial aggregates:
their records are taken apart by aggregate, and panes may become longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.errors import shown
from sash.inputs import arrow
from sash.keyed import panes
from sash.keyed.expired import apart
from sash.keyed.question_columns import is_own
from sash.spark.stream.plan import Plan
from sash.spark.stream.stored_definition import HEADER_WORDS, StoredDefinition


@dataclass(frozen=True)
class Conversion:
    """Records of an earlier definition in the form that a plan stores."""

    old: StoredDefinition
    plan: Plan

    def obstacles(self) -> Iterator[str]:
        """Yield what the records lack, each as a clause; nothing if they can be converted."""
        if self.old.panes is None:
            yield from self._missing_columns()
        elif not self.plan.merges:
            yield "its rows were combined into panes as they arrived, and the new definition needs every row"
        else:
            yield from self._missing_panes()

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return a record in the new form."""
        if self.old.panes is not None:
            return self._panes(table)
        wanted = self.plan.stored.logged if not self.plan.merges else self._read_by_panes
        expired, table = apart(table)
        if expired is not None and self.plan.definition.unbounded:
            return pa.concat_tables([expired, self(table)], promote_options="default")
        asked = [name for name in table.column_names if is_own(name)]
        fields = [self.plan.schema.field(name) for name in wanted]
        rows = table.select([*wanted, *asked]).cast(pa.schema([*fields, *(table.field(name) for name in asked)]))
        return panes.partials_of(self.plan.definition, self.plan.spec, rows) if self.plan.merges else rows

    # --- rows -------------------------------------------------------------------------------------

    @property
    def _read_by_panes(self) -> tuple[str, ...]:
        spec = self.plan.spec
        return tuple(dict.fromkeys([*spec.keys, spec.time, *self.plan.definition.columns]))

    def _missing_columns(self) -> Iterator[str]:
        for name in self._read_by_panes if self.plan.merges else self.plan.stored.logged:
            kind = self.old.kind_of(name)
            if name not in self.old.logged or kind is None:
                yield f"its rows were stored without the column {shown(name)}"
            elif not _widens(kind, self.plan.schema.field(name).type):
                new = self.plan.schema.field(name).type
                yield f"its rows have {kind} in the column {shown(name)}, which does not fit {new}"

    # --- panes ------------------------------------------------------------------------------------

    def _missing_panes(self) -> Iterator[str]:
        new, old = self.plan.stored, self.old
        assert new.panes is not None
        assert new.pane is not None
        assert old.panes is not None
        assert old.pane is not None
        have = {field.what for field in old.panes}
        names = [
            name for name, field in zip(self.plan.definition.shown, new.panes, strict=True) if field.what not in have
        ]
        if names:
            what = f"aggregate {names[0]}" if len(names) == 1 else f"aggregates {', '.join(names)}"
            yield f"its rows were combined into panes without the {what}"
        if new.pane[0] % old.pane[0] or (new.pane[1] - old.pane[1]) % old.pane[0]:
            yield (
                f"its rows were combined into panes of {_ticks(self.plan, old.pane[0])}, and the new windows need "
                + (f"panes of {_ticks(self.plan, new.pane[0])}")
            )

    def _panes(self, table: pa.Table) -> pa.Table:
        new, old = self.plan.stored, self.old
        assert new.panes is not None
        assert new.pane is not None
        table = table.rename_columns([*self.plan.spec.keys, self.plan.spec.time, panes.RECORD])
        words = panes.records_of(table).view(np.int64).reshape(table.num_rows, -1)
        made = np.zeros((len(words), HEADER_WORDS + sum(field.words for field in new.panes)), dtype=np.int64)
        made[:, 1] = words[:, 1]
        places, at, bit = _places(old), HEADER_WORDS, 0
        for field in new.panes:
            old_at, old_bit = places[field.what]
            made[:, at : at + field.words] = words[:, old_at : old_at + field.words]
            seen = (words[:, 0] >> old_bit) & ((1 << field.parts) - 1)
            made[:, 0] |= seen << bit
            at, bit = at + field.words, bit + field.parts
        return self._longer(table, made, new.pane)

    def _longer(self, table: pa.Table, records: NDArray[np.int64], pane: tuple[int, int]) -> pa.Table:
        """Return panes with new records, those of one new pane joined."""
        spec, schema = self.plan.spec, self.plan.packed
        times, _ = arrow.ticks(table, spec.time)
        starts = times - (times - pane[1]) % pane[0]
        kind = schema.field(panes.RECORD).type
        fixed = pa.Array.from_buffers(kind, len(records), [None, pa.py_buffer(records.tobytes())])
        columns = [table.column(name) for name in spec.keys]
        columns += [arrow.times_of(starts, schema.field(spec.time).type), fixed]
        made = pa.table(columns, names=[*spec.keys, spec.time, panes.RECORD])
        return panes.merged(self.plan.definition, spec, made) if len(records) else made


def _places(old: StoredDefinition) -> dict[str, tuple[int, int]]:
    """Return the first word and the first bit of each aggregate in a record."""
    places: dict[str, tuple[int, int]] = {}
    at, bit = HEADER_WORDS, 0
    for field in old.panes or ():
        places.setdefault(field.what, (at, bit))
        at, bit = at + field.words, bit + field.parts
    return places


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of a type has an equal one in another."""
    if old == new:
        return True
    numbers = (pa.types.is_integer, pa.types.is_floating)
    if any(is_a(old) and is_a(new) for is_a in numbers):
        signed = pa.types.is_signed_integer(old) == pa.types.is_signed_integer(new)
        return signed and bool(new.bit_width >= old.bit_width)
    return bool(pa.types.is_decimal(old) and pa.types.is_decimal(new)) and (
        new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    )


def _ticks(plan: Plan, ticks: int) -> str:
    return f"{ticks} {plan.definition.unit}"
