"""The results of a slide: the buffers that the core writes them to, and the columns made from them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.errors import SlideError
from sash.inputs import record
from sash.inputs.batch import is_struct
from sash.inputs.record import Room
from sash.monoid import Layout, Monoid


def room_for(kind: str, rows: int, parts: list[str]) -> Any:
    """Return the buffer that the core writes a slide's results to."""
    if kind == "object":
        return [None] * rows
    if kind == "record":
        return record.room_for(parts, rows)
    return np.empty(rows, dtype=kind)


def results_of(monoid: Monoid, out: Any, parts: list[str], rows: int) -> Any:
    """Return the result of a slide: an array, or a dict of arrays if the monoid is a struct."""
    if parts:
        return assembled(monoid.layout(), parts, out, rows)
    if not isinstance(out, list):
        return out[:rows]
    return columns_of(monoid, out[:rows])


def no_results(monoid: Monoid) -> Any:
    """Return the result of a slide over no rows, when the kind of the values is unknown."""
    return columns_of(monoid, []) if is_struct(monoid) else np.empty(0)


def slide_error(error: BaseException, index: int, results: Any) -> BaseException:
    """Return the exception that slide raises for an error in round `index`; an interrupt is returned unchanged."""
    if not isinstance(error, Exception):
        return error
    failed = SlideError(f"slide failed in round {index}: {error}", index, results)
    failed.__cause__ = error
    return failed


# --- columns --------------------------------------------------------------------------------------


def assembled(layout: Layout, result_kinds: list[str], room: Room, rows: int) -> Any:
    """Return a slide's results as a column, or as a dict of columns; masked arrays if some are null."""
    results, at = {}, 0
    for i, (part, kinds) in enumerate(zip(layout.parts, result_kinds, strict=True)):
        width = len(kinds) + kinds.count("I")
        there = room[1][i, :rows].view(np.bool_)
        results[part.name] = _result_column(part.fields, kinds, room[0][at : at + width, :rows], there)
        at += width
    return results if layout.structured else next(iter(results.values()))


def _result_column(fields: tuple[str, ...], kinds: str, words: NDArray[np.int64], there: NDArray[np.bool_]) -> Any:
    members, at = [], 0
    for kind in kinds:
        members.append(_member(kind, words[at : at + 1 + (kind == "I")]))
        at += 1 + (kind == "I")
    column = members[0] if len(kinds) == 1 and not fields else _structured(fields, members)
    return column if there.all() else np.ma.MaskedArray(column, mask=~there)


def _member(kind: str, words: NDArray[np.int64]) -> NDArray[Any]:
    low: NDArray[Any] = words[0]
    if kind == "f":
        return low.view(np.float64)
    if kind == "b":
        return low.astype(bool)
    if kind == "i" or not np.any(words[1] != low >> 63):
        return low
    wide = [int(high) << 64 | int(part) for high, part in zip(words[1], low.view(np.uint64), strict=True)]
    return np.array(wide, dtype=object)


def _structured(fields: tuple[str, ...], members: list[NDArray[Any]]) -> NDArray[Any]:
    names = fields or tuple(f"f{i}" for i in range(len(members)))
    rows = np.empty(len(members[0]), dtype=[(name, one.dtype) for name, one in zip(names, members, strict=True)])
    for name, one in zip(names, members, strict=True):
        rows[name] = one
    return rows


def columns_of(monoid: Monoid, results: list[Any]) -> Any:
    """Return results that are Python objects as a column, or as a dict of columns for a struct."""
    if monoid.name != "struct" or not monoid.built_in:
        return _object_column(results)
    return {name: _object_column([row[name] for row in results]) for name, _ in monoid.arguments}


def _object_column(values: list[Any]) -> NDArray[Any]:
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would turn a list of lists into a table
