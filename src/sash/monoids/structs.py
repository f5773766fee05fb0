"""The product of monoids: several named aggregates over one window."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Monoid, Part
from sash.monoids.syntax import monoid_of
from sash.times import is_null

_MOST = 64
_MOST_READ = 64  # the core stores the nulls of the inputs as bits of one word
_COUNTS = ("count", "count_if")  # 0 instead of None if all values are null

_State = tuple[Any, ...]  # one entry per field, None if it has seen no value


class _Field(NamedTuple):
    name: str
    monoid: Monoid
    columns: tuple[str | None, ...]  # the columns that it reads; empty for a count of rows


def _field(name: str, monoid: Any) -> _Field:
    if not isinstance(monoid, Monoid):
        raise KindError(f"{name} must be a Monoid, got {shown(monoid)}.", argument=name)
    if monoid.name == "struct":
        raise ArgumentError(f"{name} must not be a struct itself, got {shown(monoid)}.", argument=name)
    if len(monoid.parts) == 1:
        return _Field(name, monoid, tuple(read.column for read in monoid.parts[0].inputs))
    return _Field(name, monoid, (monoid.column,))


def _reads_mappings(fields: tuple[_Field, ...]) -> bool:
    """Return whether rows are mappings; raise if only some of the fields name their columns."""
    reading = [field for field in fields if field.columns]
    unnamed = [field.name for field in reading if None in field.columns]
    named = [field.name for field in reading if None not in field.columns]
    if named and unnamed:
        raise ArgumentError(
            f"{unnamed[0]} must name its column because {named[0]} does: all fields name columns, or none.",
            argument=unnamed[0],
        )
    return bool(named)


# --- lift -----------------------------------------------------------------------------------------


def _value_of(field: _Field, row: Any, mapped: bool) -> Any:
    """Return the value of a row that a field reads, or None if any part of it is null."""
    value = tuple(row[column] for column in field.columns) if mapped else row
    if len(field.columns) > 1 and isinstance(value, (tuple, list)):
        return None if any(map(is_null, value)) else value
    return value[0] if mapped else value


def _lifted(field: _Field, row: Any, mapped: bool, time: tuple[Any, ...]) -> Any:
    value = _value_of(field, row, mapped) if field.columns else True
    if is_null(value):
        return None
    lift = field.monoid.lift
    if lift is None:
        return value
    return lift(value, *time) if field.monoid.timed else lift(value)


def _lift(fields: tuple[_Field, ...], mapped: bool, row: Any, *time: Any) -> _State:
    if mapped:
        _require_columns(fields, row)
    return tuple(_lifted(field, row, mapped, time) for field in fields)


def _require_columns(fields: tuple[_Field, ...], row: Any) -> None:
    if not isinstance(row, Mapping):
        raise KindError(f"value must be a dict of columns, got {shown(row)}.", argument="value")
    for field in fields:
        for column in field.columns:
            if column not in row:
                raise KindError(
                    f"value must have a column {shown(column)}, got {shown(row)}.", argument="value", column=column
                )


# --- combine and lower ----------------------------------------------------------------------------


def _combine(fields: tuple[_Field, ...], a: _State, b: _State) -> _State:
    return tuple(
        y if x is None else x if y is None else field.monoid.combine(x, y)
        for field, x, y in zip(fields, a, b, strict=True)
    )


def _lowered(field: _Field, state: Any, ends: tuple[Any, ...]) -> Any:
    if state is None:
        return 0 if any(part.op in _COUNTS for part in field.monoid.parts) else None
    lower = field.monoid.lower
    if lower is None:
        return state
    return lower(state, *ends) if field.monoid.timed else lower(state)


def _lower(fields: tuple[_Field, ...], state: _State, *ends: Any) -> dict[str, Any]:
    return {field.name: _lowered(field, entry, ends) for field, entry in zip(fields, state, strict=True)}


def _parts(fields: tuple[_Field, ...]) -> tuple[Part, ...]:
    """Return the parts of the record that the core runs, or none if only Python can."""
    parts = tuple(replace(part, name=field.name) for field in fields for part in field.monoid.parts)
    reads = {(read, field.monoid.dtype) for field in fields for part in field.monoid.parts for read in part.inputs}
    widths = {len(field.columns) for field in fields if None in field.columns}  # of values that are read whole
    if not all(field.monoid.parts for field in fields) or len(reads) > _MOST_READ or len(widths) > 1:
        return ()
    return parts


def struct(**fields: Monoid | str) -> Monoid:
    """Several aggregates over one window, as a dict of their results; None in each if empty, 0 for counts.

    A field is a monoid, or text such as "sum(amount)".

    If the fields name columns, a value is a dict of columns; otherwise every field reads the value itself. As in SQL,
    nulls (None) are skipped, and a field that has seen only nulls is None. NaN is not null. A column that starts with
    only nulls is stored as Python objects unless `dtype=` sets its type.

    >>> from sash import Window, monoids
    >>> w = Window(monoids.struct(n=monoids.count(), total=monoids.sum("amount"), top=monoids.max("amount")))
    >>> w.insert_many([1, 2, 3], [{"amount": 5}, {"amount": None}, {"amount": 7}])
    >>> w.query()
    {'n': 3, 'total': 12, 'top': 7}
    """
    if not 1 <= len(fields) <= _MOST:
        raise ArgumentError(f"fields must be 1 to {_MOST} monoids, got {len(fields)}.", argument="fields")
    monoids = {name: monoid_of(field, name) for name, field in fields.items()}
    members = tuple(_field(name, monoid) for name, monoid in monoids.items())
    mapped = _reads_mappings(members)
    return Monoid(
        identity=(None,) * len(members),
        combine=partial(_combine, members),
        lift=partial(_lift, members, mapped),
        lower=partial(_lower, members),
        commutative=all(monoid.commutative for monoid in monoids.values()),
        timed=any(monoid.timed for monoid in monoids.values()),
        exact=all(monoid.exact for monoid in monoids.values()),
        name="struct",
        arguments=tuple(monoids.items()),
        parts=_parts(members),
    )
