"""Monoid: what a window aggregates with.

A monoid is a set of states with an associative `combine` and an `identity`; `lift` turns an inserted value into a state
and `lower` a state into a result. Associativity is all that is asked: no inverse, no commutativity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sash.errors import KindError


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
    native: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse what could never be called."""
        for argument in ("combine", "lift", "lower"):
            function = getattr(self, argument)
            if not callable(function) and not (function is None and argument != "combine"):
                raise KindError(f"{argument}: {function!r} cannot be called; give a function.")

    def empty(self) -> Any:
        """Give the result of a window that holds nothing: the identity, lowered."""
        return self.identity if self.lower is None else self.lower(self.identity)

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.version, self.column, self.dtype, self.combine, self.lift, self.lower)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same operator by name, version and functions."""
        return self._key() == other._key() if isinstance(other, Monoid) else NotImplemented

    def __hash__(self) -> int:
        """Hash by name and version, which equal monoids share."""
        return hash((self.name, self.version, self.column, self.dtype))

    def __repr__(self) -> str:
        """Show the call that makes a built-in, or name a user's own."""
        if not self.native:
            return f"Monoid({self.name or getattr(self.combine, '__name__', 'combine')})"
        arguments = [repr(self.column)] * (self.column is not None) + [f"dtype={self.dtype!r}"] * bool(self.dtype)
        return f"{self.name}({', '.join(arguments)})"
