"""Questions of a stream that await an answer, or a revision of one.

They are rows of a tree for each key too, so that those that are due, or that a late event changes, are found without a
look at the others.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sash import monoids
from sash.inputs import arrow
from sash.keyed.definition import Definition
from sash.keyed.emit import HIGHEST, LOWEST
from sash.keyed.intake import INSERTED, Status
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.questions import asked
from sash.keyed.retained_rows import RetainedRows
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sash import _core


class Pending:
    """The questions of a stream that are not done."""

    def __init__(self, columns: QuestionColumns, unit: str | None, *, remembers: bool) -> None:
        """Start without questions; if it `remembers` what they showed, it can say what has changed."""
        self.columns = columns
        tick = 1 if unit is None else f"1{unit}"
        spec = Spec.of(keys=columns.keys, time=columns.time, windows=[tick], aggs={"n": monoids.count()}, id=columns.id)
        table = columns.schema.empty_table()
        self.definition = replace(Definition.of(spec, table), shown=())  # nobody asks how many questions there are
        named = columns.id is not None and arrow.ids_are_named(columns.schema.field(columns.id).type)
        self.engine = self.definition.engine(spec, remembers=remembers, named=named)
        self.retained = RetainedRows(columns.schema.names, columns.schema)
        self._seq = 0

    def add(self, table: "pa.Table", times: NDArray[np.int64]) -> Status:
        """Take questions, and return what became of each: those with an id that there was already are repeated."""
        keys = arrow.key_batch(self.engine, table, self.columns.keys, self._seq)
        ids = None if self.columns.id is None else arrow.ids_of(table.column(self.columns.id))
        status = np.empty(len(times), dtype=np.uint8)
        self.engine.apply(keys, times, ids, None, None, self.definition.inputs_in(table), status)
        self.retained.add(table, self._seq, status == INSERTED, times)
        self._seq += len(times)
        return status

    def before(self, time: int) -> "_core.Anchors":
        """Return the questions before a time, in order of time and arrival."""
        return self.engine.between(LOWEST, min(time, HIGHEST + 1) - 1)

    def touch(self, keys: "pa.Table | None", times: NDArray[np.int64], until: NDArray[np.int64]) -> None:
        """Take note of events that may change the answers of questions until a time each."""
        self.engine.touch(asked(self.engine, keys, self.columns.keys, times), until)

    def rows(self, anchors: "_core.Anchors") -> "pa.Table":
        """Return the rows of questions."""
        return self.retained.rows(np.frombuffer(anchors.seqs(), dtype=np.int64))

    def forget(self, horizon: int) -> None:
        """Drop the questions before a time: nothing can change their answers."""
        bound = min(max(horizon - 1, LOWEST), HIGHEST)
        self.engine.expire(bound, LOWEST)
        self.retained.expire(bound)

    @property
    def newest(self) -> int | None:
        """The last time of a question, or None if there are none."""
        return self.engine.newest

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes."""
        return int(self.engine.live_bytes + self.retained.nbytes * 5 // 4)
