"""Monoid: what a window aggregates with.

A monoid is a set of states with an associative `combine` and an `identity`; `lift` turns an inserted value into a state
and `lower` a state into a result. Associativity is all that is asked: no inverse, no commutativity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, shown

# The core's monoids, each with the kind of value it reads; only sash.monoids has a use for them.
_NATIVE = {
    ("int64", "sum_int64"),
    ("float64", "sum_float64"),
    ("float64", "geomean"),
    ("any", "count"),
    ("any", "bloom"),
    *((kind, name) for kind in ("int64", "float64") for name in ("min", "max", "first", "last", "maxcount")),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Monoid:
    """An associative operator with its identity, and the way in and out.

    `combine` must not change its arguments. States are shared between the nodes of a tree.

    >>> from sash import Monoid, Window
    >>> text = Monoid(identity="", combine=lambda a, b: a + b, name="text")
    >>> w = Window(text)
    >>> w.insert_many([3, 1, 2], ["c", "a", "b"])
    >>> w.query()
    'abc'
    """

    identity: Any
    combine: Callable[[Any, Any], Any]
    lift: Callable[[Any], Any] | None = None
    lower: Callable[[Any], Any] | None = None
    commutative: bool = False
    name: str | None = None
    version: str | None = None
    column: str | None = None
    dtype: str | None = None
    native: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what could never be called."""
        for argument in ("combine", "lift", "lower"):
            function = getattr(self, argument)
            if not callable(function) and not (function is None and argument != "combine"):
                raise KindError(f"{argument}: {shown(function)} cannot be called; give a function.")

        for form in self.native:
            if form not in _NATIVE:
                raise ArgumentError(f"native: {shown(form)} is no form of a monoid in the core; leave it out.")

    def empty(self) -> Any:
        """Give the result of a window that holds nothing: the identity, lowered."""
        return self.identity if self.lower is None else self.lower(self.identity)

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.version, self.column, self.dtype, self.combine, self.lift, self.lower, self.native)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same operator by name, version, functions and identity."""
        if not isinstance(other, Monoid):
            return NotImplemented
        same = self.identity is other.identity or bool(np.all(self.identity == other.identity))
        return same and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash by name and version, which equal monoids share."""
        return hash((self.name, self.version, self.column, self.dtype))

    def __repr__(self) -> str:
        """Show the call that makes a built-in, or name a user's own."""
        if not self.native:
            return f"Monoid({self.name or getattr(self.combine, '__name__', 'combine')})"
        arguments = [repr(self.column)] * (self.column is not None) + [f"dtype={self.dtype!r}"] * bool(self.dtype)
        return f"{self.name}({', '.join(arguments)})"
