"""A monoid's result as a fold of its Python definition, with no window in between."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from sash import Monoid


def lifted(monoid: Monoid, values: Sequence[Any], times: Sequence[Any] | None = None) -> list[Any]:
    times = times or range(len(values))
    return [monoid.lift(v, t) if monoid.timed else monoid.lift(v) for v, t in zip(values, times, strict=True)]


def result(monoid: Monoid, state: Any, stretch: tuple[Any, Any] = (0, 10)) -> Any:
    if monoid.lower is None:
        return state
    return monoid.lower(state, *stretch) if monoid.timed else monoid.lower(state)


def answer(monoid: Monoid, values: Sequence[Any], times: Any = None, stretch: tuple[Any, Any] = (0, 10)) -> Any:
    return result(monoid, reduce(monoid.combine, lifted(monoid, values, times), monoid.identity), stretch)
