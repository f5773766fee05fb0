"""The product of monoids: several aggregates over one window, each with its name."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sash.errors import ArgumentError, KindError, shown
from sash.monoid import Monoid, Part
from sash.times import is_null

_MOST = 64
_MOST_READ = 64  # inputs of which the core can keep nulls as bits
_COUNTS = ("count", "count_if")  # what null is 0 for, instead of null

_State = tuple[Any, ...]  # one entry a field, None where it has seen no value


class _Field(NamedTuple):
    name: str
    monoid: Monoid
    columns: tuple[str | None, ...]  # what its values are made of; none at all counts rows


def _field(name: str, monoid: Any) -> _Field:
    if not isinstance(monoid, Monoid):
        raise KindError(f"{name}: {shown(monoid)} is not a Monoid; give one of sash.monoids or a sash.Monoid.")
    if monoid.name == "struct":
        raise ArgumentError(f"{name}: {shown(monoid)} is a struct in a struct; give its fields here.")
    if len(monoid.parts) == 1:
        return _Field(name, monoid, tuple(read.column for read in monoid.parts[0].inputs))
    return _Field(name, monoid, (monoid.column,))


def _require_one_way_in(fields: tuple[_Field, ...]) -> bool:
    """Tell whether rows are mappings: all the fields that read anything name their columns, or none does."""
    reading = [field for field in fields if field.columns]
    unnamed = [field.name for field in reading if None in field.columns]
    named = [field.name for field in reading if None not in field.columns]
    if named and unnamed:
        raise ArgumentError(
            f"{unnamed[0]}: it names no column, but {named[0]} does; name the columns of every field or of none."
        )
    return bool(named)


# --- the way in -----------------------------------------------------------------------------------


def _value_of(field: _Field, row: Any, mapped: bool) -> Any:
    """Give what a field reads of a row, or None where any of it is null."""
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
        raise KindError(f"value: {shown(row)} is no row; give a dict from column to value.")
    for field in fields:
        for column in field.columns:
            if column not in row:
                raise KindError(f"value: {shown(row)} has no column {shown(column)}; give a dict that has it.")


# --- states and results ---------------------------------------------------------------------------


def _combine(fields: tuple[_Field, ...], a: _State, b: _State) -> _State:
    return tuple(
        y if x is None else x if y is None else field.monoid.combine(x, y)
        for field, x, y in zip(fields, a, b, strict=True)
    )


def _lowered(field: _Field, state: Any, stretch: tuple[Any, ...]) -> Any:
    if state is None:
        return 0 if any(part.op in _COUNTS for part in field.monoid.parts) else None
    lower = field.monoid.lower
    if lower is None:
        return state
    return lower(state, *stretch) if field.monoid.timed else lower(state)


def _lower(fields: tuple[_Field, ...], state: _State, *stretch: Any) -> dict[str, Any]:
    return {field.name: _lowered(field, entry, stretch) for field, entry in zip(fields, state, strict=True)}


def _parts(fields: tuple[_Field, ...]) -> tuple[Part, ...]:
    """Give the parts of the record that the core runs, or none where Python must."""
    parts = tuple(replace(part, name=field.name) for field in fields for part in field.monoid.parts)
    reads = {(read, field.monoid.dtype) for field in fields for part in field.monoid.parts for read in part.inputs}
    widths = {len(field.columns) for field in fields if None in field.columns}  # of the value that each one reads whole
    if not all(field.monoid.parts for field in fields) or len(reads) > _MOST_READ or len(widths) > 1:
        return ()
    return parts


def struct(**fields: Monoid) -> Monoid:
    """Several aggregates over one window, as a dict of their results; of none: None in each, 0 where it counts.

    Where the fields name columns, a value is a dict from column to value; otherwise every field reads the value
    itself. As in SQL a null, here None, is passed over, and a field that saw nothing else gives None; NaN is no null.
    A column that starts with nulls alone is kept as Python objects, unless `dtype=` says what it holds.

    >>> from sash import Window, monoids
    >>> w = Window(monoids.struct(n=monoids.count(), total=monoids.sum("amount"), top=monoids.max("amount")))
    >>> w.insert_many([1, 2, 3], [{"amount": 5}, {"amount": None}, {"amount": 7}])
    >>> w.query()
    {'n': 3, 'total': 12, 'top': 7}
    """
    if not 1 <= len(fields) <= _MOST:
        raise ArgumentError(f"fields: {len(fields)} make no struct; give from 1 to {_MOST}.")
    known = tuple(_field(name, monoid) for name, monoid in fields.items())
    mapped = _require_one_way_in(known)
    return Monoid(
        identity=(None,) * len(known),
        combine=partial(_combine, known),
        lift=partial(_lift, known, mapped),
        lower=partial(_lower, known),
        commutative=all(monoid.commutative for monoid in fields.values()),
        timed=any(monoid.timed for monoid in fields.values()),
        exact=all(monoid.exact for monoid in fields.values()),
        name="struct",
        arguments=tuple(fields.items()),
        parts=_parts(known),
    )
