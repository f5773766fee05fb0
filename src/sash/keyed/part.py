"""Answers for a part of a table in order, of whose rows the ones before have expired, where a window is unbounded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash import _core
from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.emit import HIGHEST, LOWEST
from sash.keyed.expired import expired_of, load_expired
from sash.keyed.questions import asked, instants_in, keys_in
from sash.keyed.result_columns import boundary_columns
from sash.keyed.rolling import columns_of
from sash.keyed.spec import Spec


@dataclass(frozen=True)
class Part:
    """The answers of a part, and what the next one has to know of it."""

    answers: Any
    expired: Any  # of each key, as a table
    held: NDArray[np.int64]  # places of the rows that windows can still see
    keys: tuple[str, ...]

    def holds(self, rows: int) -> NDArray[np.bool_]:
        """Return which of so many rows windows can still see."""
        mask = np.zeros(rows, dtype=bool)
        mask[self.held] = True
        return mask

    def expired_of(self, key: Any) -> Any:
        """Return what has expired of the key of a row, or None if nothing has."""
        pa = arrow.pyarrow()
        table = self.expired
        same = np.ones(table.num_rows, dtype=bool)
        for name in self.keys:
            value, column = key.column(name)[0], table.column(name)
            equal = pa.compute.equal(column, value).fill_null(False) if value.is_valid else column.is_null()
            same &= np.asarray(equal, dtype=bool)
        return table.filter(pa.array(same)) if same.any() else None


class _Engine:
    """An engine with what has expired before a part, and the rows of the part."""

    def __init__(self, table: Any, spec: Spec, expired: Any) -> None:
        self.table, self.spec = table, spec
        self.definition = Definition.of(spec, table)
        self.engine = self.definition.engine(spec, remembers=False)
        if expired is not None:
            load_expired(self.engine, spec, expired)
        self.times, self.bad = arrow.ticks(table, spec.time)
        self.batch = arrow.key_batch(self.engine, table, spec.keys, 0)
        self.status = np.empty(len(self.times), dtype=np.uint8)
        late = None if self.bad is None else np.ascontiguousarray(self.bad, dtype=np.uint8)
        inputs = self.definition.inputs_in(table)
        self.engine.apply(self.batch, self.times, None, None, late, inputs, self.status)

    def answers(self, anchors: _core.Anchors) -> dict[str, Any]:
        def values(names: list[str], seqs: NDArray[np.int64]) -> Any:
            return self.table.select(names).take(arrow.pyarrow().array(seqs))

        return columns_of(Answers.of(self.definition, self.engine, anchors, values), self.spec)

    def answered(self, questions: Any, time: str) -> Any:
        times, bad = instants_in(questions, time, self.spec, self.table.schema)
        keys = keys_in(questions, self.spec.keys, self.table.schema, "at") if self.spec.keys else None
        if bad is not None:
            times, keys = times[~bad], None if keys is None else keys.filter(arrow.pyarrow().array(~bad))
        return _spread(self.answers(asked(self.engine, keys, self.spec.keys, times)), bad)

    def part(self, answers: Any, bound: int, new: int) -> Part:
        self.engine.expire(bound, new)
        held = np.frombuffer(self.engine.held([])[0], dtype=np.int64)
        return Part(answers, expired_of(self.engine, self.spec, self.table.schema), held, self.spec.keys)


def part_of(
    table: Any, spec: Spec, expired: Any, bound: int, new: int, questions: Any = None, at_time: str = ""
) -> Part:
    """Return the answers of a part: for its rows, for the boundaries that they bring, or to questions about them.

    Afterwards rows before `new` will not come any more, and those up to `bound` expire.
    """
    part = _Engine(table, spec, expired)
    if questions is not None:
        return part.part(part.answered(questions, at_time), bound, new)
    if spec.every is not None:
        anchors = part.engine.boundaries(LOWEST, HIGHEST, None)
        bounds = boundary_columns(part.definition, part.engine, spec, table.schema, anchors)
        return part.part(arrow.with_columns(bounds, part.answers(anchors)), bound, new)
    anchors = part.engine.arrived(part.batch, part.times, part.status)
    return part.part(_spread(part.answers(anchors), part.bad), bound, new)


def _spread(columns: dict[str, Any], bad: NDArray[np.bool_] | None) -> Any:
    """Return columns as a table, with nulls where a row has no time."""
    spread = columns if bad is None else {name: arrow.spread(column, ~bad) for name, column in columns.items()}
    return arrow.pyarrow().table(spread)
