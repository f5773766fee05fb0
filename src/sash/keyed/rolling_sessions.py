"""Sessions of a complete table: one pass along the sorted rows of each key."""

from typing import Any

from sash.inputs import arrow
from sash.keyed.answers import Answers
from sash.keyed.definition import Definition
from sash.keyed.progress import shown_on_terminal
from sash.keyed.python_aggregates import Spans
from sash.keyed.result_columns import require_unlike, result_names
from sash.keyed.session_columns import session_columns
from sash.keyed.spec import Spec


def sessions_of(table: Any, spec: Spec, definition: Definition) -> tuple[Any, Answers]:
    """Return the keys, starts and ends of the sessions of a table, and their answers."""
    require_unlike(result_names(definition, spec))
    times = table.column(spec.time)
    if times.null_count:
        table = table.filter(times.is_valid())
    ticks, _ = arrow.ticks(table, spec.time)
    engine, inputs = definition.engine(spec, remembers=False), definition.inputs_in(table)
    keys = arrow.key_batch(engine, table, spec.keys, 0)
    sessions = engine.sessions_in(keys, ticks)
    answers = Answers(definition, engine, len(sessions))
    with shown_on_terminal("rolling", len(ticks), lambda: engine.progress):
        parts = engine.answer_table(keys, sessions, ticks, inputs, answers.rooms, bool(definition.foreign))
    if parts is not None:
        pa = arrow.pyarrow()
        answers.fold_sessions(
            Spans.of(parts, 1), sessions, lambda names, seqs: table.select(names).take(pa.array(seqs))
        )
    bounds = session_columns(engine, spec, definition.largest, table.schema, sessions)
    return bounds, answers
