"""The columns of questions that come in a stream beside its events, and the rows in which both are stored together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sash.errors import ArgumentError, shown
from sash.inputs import arrow
from sash.keyed.questions import require_alike
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

ASKED = "__sash_asked"  # of stored rows: true for questions, null for events
_PREFIX = "__sash_at_"  # of the columns that only questions have


@dataclass(frozen=True)
class QuestionColumns:
    """Which columns questions have; their keys and times are of the types that those of the events are."""

    schema: "pa.Schema"
    keys: tuple[str, ...]
    time: str
    id: str | None  # distinguishes questions of the same key and time
    events: "pa.Schema"
    event_time: str

    @classmethod
    def of(cls, spec: Spec, events: "pa.Schema", schema: "pa.Schema", time: str, id: str | None) -> "QuestionColumns":
        """Check the columns of questions against those of the events."""
        for name in (*spec.keys, time, *([] if id is None else [id])):
            if schema.names.count(name) != 1:
                raise ArgumentError(
                    f"at must have the column {shown(name)} once, got the columns {shown(schema.names)}.",
                    argument="at",
                    column=name,
                )
        if spec.emit == "update" and id is None:
            raise ArgumentError(
                "at_id must name a column that distinguishes questions with emit='update', whose results are revised, "
                "got None.",
                argument="at_id",
            )
        if spec.carry:
            raise ArgumentError(
                f"carry must be left out with at=, whose own columns come back, got {shown(list(spec.carry))}.",
                argument="carry",
            )
        for name in spec.keys:
            _require_same(schema.field(name).type, events.field(name).type, name)
        require_alike(schema.field(time).type, events.field(spec.time).type, time)
        _require_same(schema.field(time).type, events.field(spec.time).type, time)
        return cls(schema, spec.keys, time, id, events, spec.time)

    # --- rows of events and questions -------------------------------------------------------------

    def stored(self, events: "pa.Table", questions: "pa.Table") -> "pa.Table":
        """Return events and questions as one table: keys and times are in the same columns, all others apart."""
        if not questions.num_rows:
            return events
        pa = arrow.pyarrow()
        columns = {name: questions.column(name) for name in self.keys}
        columns[self.event_time] = questions.column(self.time)
        columns |= {field.name: questions.column(name) for name, field in self._stored_fields().items()}
        columns[ASKED] = pa.array([True] * questions.num_rows)
        return pa.concat_tables([events, pa.table(columns)], promote_options="default")

    def apart(self, stored: "pa.Table") -> "tuple[pa.Table, pa.Table]":
        """Return the events and the questions of such a table."""
        if ASKED not in stored.column_names:
            return stored, self.schema.empty_table()
        fields = self._stored_fields()
        asked = stored.column(ASKED).is_valid()
        own = [ASKED, *(field.name for field in fields.values())]
        rows = stored.filter(asked)
        columns = {name: rows.column(name) for name in self.keys}
        columns[self.time] = rows.column(self.event_time)
        columns |= {name: rows.column(field.name) for name, field in fields.items()}
        questions = arrow.pyarrow().table([columns[name] for name in self.schema.names], schema=self.schema)
        return stored.filter(arrow.pyarrow().compute.invert(asked)).drop_columns(own), questions

    def _stored_fields(self) -> "dict[str, pa.Field]":
        return stored_fields(self.schema, (*self.keys, self.time))


def stored_fields(columns: "pa.Schema", shared: Iterable[str]) -> "dict[str, pa.Field]":
    """Return the columns in which stored questions have what only they have, by their names in the questions."""
    own = [field for field in columns if field.name not in set(shared)]
    return {field.name: field.with_name(f"{_PREFIX}{i}") for i, field in enumerate(own)}


def events_in(stored: "pa.Table") -> "pa.Table":
    """Return the events of a table that may have questions among them."""
    if ASKED not in stored.column_names:
        return stored
    rows = stored.filter(stored.column(ASKED).is_null())
    return rows.drop_columns([name for name in rows.column_names if is_own(name)])


def is_own(name: str) -> bool:
    """Return whether only stored questions have a column."""
    return name == ASKED or name.startswith(_PREFIX)


def _require_same(own: "pa.DataType", kind: "pa.DataType", name: str) -> None:
    if arrow.plain_kind(own) != arrow.plain_kind(kind):
        raise ArgumentError(
            f"at must hold {kind} in the column {shown(name)}, as the events do, got {own}; cast it.",
            argument="at",
            column=name,
        )
