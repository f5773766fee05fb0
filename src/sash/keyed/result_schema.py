"""The Arrow schema of results, computed from a spec, its definition and the schema of the input.

Spark plans before it runs, so it needs the columns and their types before the first row.
"""

from typing import TYPE_CHECKING

from sash import durations
from sash.inputs import arrow
from sash.keyed.definition import Definition, column_name
from sash.keyed.result_columns import (
    event_columns,
    own_columns,
    question_names,
    require_new,
    require_unlike,
    result_names,
)
from sash.keyed.session_columns import session_fields
from sash.keyed.spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa


def result_schema(spec: Spec, definition: Definition, schema: "pa.Schema") -> "pa.Schema":
    """Return the schema of the results of `rolling` and `KeyedWindows` for batches with this schema.

    The type of a Python aggregate without `returns=` is null where only its results tell. Raise ArgumentError if two
    columns would have the same name.

    >>> import pyarrow as pa
    >>> from sash import monoids
    >>> spec = Spec.of(keys="k", time="t", windows=[5], aggs={"mean": monoids.mean("x")}, emit="update")
    >>> schema = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64()})
    >>> result_schema(spec, Definition.of(spec, schema.empty_table()), schema).names
    ['k', 't', 'mean_5', 'revision', 'deleted']
    """
    pa = arrow.pyarrow()
    added = aggregate_fields(spec, definition)
    if spec.emit == "update":
        added += [pa.field("revision", pa.int64()), pa.field("deleted", pa.bool_())]
    if spec.late == "emit":
        added.append(pa.field("late", pa.bool_()))
    if spec.every is not None:
        require_unlike(result_names(definition, spec))
        return pa.schema(_boundary_fields(spec, schema) + added, _resolution(spec))
    if spec.gap is not None:
        require_unlike(result_names(definition, spec))
        return pa.schema(session_fields(spec, schema) + added)
    if spec.emit == "arrival":
        require_new(schema.names, [field.name for field in added])
        return pa.schema([*schema, *added], schema.metadata)
    carried = [schema.field(name) for name in own_columns(spec)]
    require_unlike([field.name for field in carried + added])
    return pa.schema(carried + added)


def answer_schema(spec: Spec, definition: Definition, questions: "pa.Schema") -> "pa.Schema":
    """Return the schema of the answers to questions with this schema, which come in a stream."""
    pa = arrow.pyarrow()
    require_new(questions.names, question_names(definition, spec))
    added = aggregate_fields(spec, definition)
    if spec.emit == "update":
        added += [pa.field("revision", pa.int64()), pa.field("deleted", pa.bool_())]
    if spec.late == "emit":
        added.append(pa.field("late", pa.bool_()))
    return pa.schema([*questions, *added])


def require_readable(spec: Spec, definition: Definition, schema: "pa.Schema") -> None:
    """Raise KindError if a key, an id or an aggregated column has a type that the engine cannot read."""
    rows = schema.empty_table()
    arrow.key_batch(definition.engine(spec, remembers=False), rows, spec.keys, 0)
    if spec.id is not None:
        arrow.ids_of(rows.column(spec.id))
    definition.inputs_in(rows)


# --- columns of the input -------------------------------------------------------------------------


def _boundary_fields(spec: Spec, schema: "pa.Schema") -> "list[pa.Field]":
    pa = arrow.pyarrow()
    fields = [pa.field(name, arrow.key_kind(schema.field(name).type)) for name in spec.keys]
    fields += [pa.field(name, schema.field(name).type) for name in event_columns(spec)]
    kind = arrow.time_kind(schema.field(spec.time).type)
    return fields + [pa.field(name, kind) for name in ("window_start", "window_end")]


def _resolution(spec: Spec) -> dict[str, str] | None:
    return None if spec.resolution is None else {"sash.resolution": durations.name_of(spec.resolution)}


# --- columns of aggregates ------------------------------------------------------------------------


def aggregate_fields(spec: Spec, definition: Definition) -> "list[pa.Field]":
    """Return the columns of each aggregate and window."""
    pa = arrow.pyarrow()
    types = {name: kind or pa.null() for name, _, kind in definition.foreign}
    shapes = definition.shapes(definition.engine(spec, remembers=False))
    for i, name in enumerate(definition.shown):
        shape, kinds, _ = shapes[i]
        types[name] = _core_type(shape, kinds, definition.native.parts[i].fields)
    for name, inner in definition.structs.items():
        types[name] = pa.struct([(one, types[f"{name}.{one}"]) for one in inner])
    windows = [window for window, _ in definition.windows]
    return [pa.field(column_name(name, window), types[name]) for name in definition.names for window in windows]


def _core_type(shape: str, kinds: str, fields: tuple[str, ...]) -> "pa.DataType":
    """Return the type of a result of the core: "f" is a float, "b" a boolean, all other kinds are integers."""
    pa = arrow.pyarrow()
    if shape == "bytes":
        return pa.binary()
    members = [{"f": pa.float64(), "b": pa.bool_()}.get(kind, pa.int64()) for kind in kinds]
    if shape == "list":
        return pa.list_(members[0])
    return pa.struct(list(zip(fields, members, strict=True))) if fields else members[0]
