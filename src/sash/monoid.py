"""Monoid: what a window aggregates with.

A monoid is a set of states with an associative `combine` and an `identity`; `lift` turns an inserted value into a state
and `lower` a state into a result. Associativity is all that is asked: no inverse, no commutativity.

`Part` and `Input` describe a built-in to the core, which runs it natively as a record of parts; the Python definition
beside them says the same for every other kind of value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from sash.errors import ArgumentError, KindError, shown

# The core's monoids, each with the kind of value it reads; only sash.monoids has a use for them.
_NATIVE = {
    ("int64", "sum_int64"),
    ("float64", "sum_float64"),
    ("float64", "geomean"),
    ("any", "count"),
    ("any", "bloom"),
    *((kind, name) for kind in ("int64", "float64") for name in ("min", "max")),
}

Form = Literal["number", "float", "int", "truth", "hash", "any"]


@dataclass(frozen=True)
class Input:
    """A column that a part reads, and as what: "any" asks only whether there is a value."""

    column: str | None
    form: Form
    dtype: str | None = None


@dataclass(frozen=True)
class Part:
    """One operation of the core, with what it reads and how its result is shown.

    `fields` name the members of a result that has several, `finish` makes the result of the core's tuple or bytes,
    `name` is the field of a struct, and `program` the compiled functions where `op` is "compiled".
    """

    op: str
    inputs: tuple[Input, ...]
    parameters: tuple[float | int, ...] = ()
    fields: tuple[str, ...] = ()
    finish: Callable[[Any], Any] | None = field(default=None, compare=False)
    name: str | None = None
    program: Any = None


class Read(NamedTuple):
    """An input of a record: a named column, or a position in the value."""

    where: str | int
    form: Form
    dtype: str | None


class Layout(NamedTuple):
    """A monoid as the core runs it: what it reads of a value, and the parts of its record.

    A part is (op, which of `reads`, parameters, fields, finish, name, program, commutative).
    """

    reads: tuple[Read, ...]
    parts: tuple[tuple[Any, ...], ...]
    named: bool
    nullable: bool  # as in SQL: nulls are passed over
    structured: bool  # the result is a dict
    arity: int  # of a value that is read by position


@dataclass(frozen=True, kw_only=True, eq=False)
class Monoid:
    """An associative operator with its identity, and the way in and out.

    `combine` must not change its arguments. States are shared between the nodes of a tree. A `timed` monoid gets
    `lift(value, time)` and `lower(state, start, stop)`; of nothing, both ends may be None. Where it is not `exact`,
    rounding makes results depend, within their precision, on how the states were grouped. `returns` names the Arrow
    type of its results, "float64" or "string", for tables that must know it beforehand.

    >>> from sash import Monoid, Window
    >>> text = Monoid(identity="", combine=lambda a, b: a + b, name="text")
    >>> w = Window(text)
    >>> w.insert_many([3, 1, 2], ["c", "a", "b"])
    >>> w.query()
    'abc'
    """

    identity: Any
    combine: Callable[[Any, Any], Any]
    lift: Callable[..., Any] | None = None
    lower: Callable[..., Any] | None = None
    commutative: bool = False
    name: str | None = None
    version: str | None = None
    column: str | None = None
    dtype: str | None = None
    native: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timed: bool = False
    exact: bool = True
    arguments: tuple[tuple[str, Any], ...] = ()
    returns: Any = None
    parts: tuple[Part, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what could never be called or read."""
        for argument in ("combine", "lift", "lower"):
            function = getattr(self, argument)
            if not callable(function) and not (function is None and argument != "combine"):
                raise KindError(f"{argument}: {shown(function)} cannot be called; give a function.")

        for form in self.native:
            if form not in _NATIVE:
                raise ArgumentError(f"native: {shown(form)} is no form of a monoid in the core; leave it out.")

        for name in (self.column, *(read.column for part in self.parts for read in part.inputs)):
            if name is not None and not isinstance(name, str):
                raise KindError(f"column: {shown(name)} is no name of a column; give a str or None.")

    @classmethod
    def compiled(
        cls,
        *,
        identity: Any,
        combine: Callable[[Any, Any], Any],
        lift: Callable[[Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
        commutative: bool = False,
        name: str | None = None,
        version: str | None = None,
        column: str | None = None,
        columns: Sequence[str] | None = None,
        dtype: str | None = None,
    ) -> "Monoid":
        """Give a monoid over numbers, or plain tuples of numbers, that the core runs as machine code.

        Needs Numba: `pip install "sash[jit]"`. The identity says what a state is made of, ints (64 bits, which wrap)
        and floats; `combine` gives the same. Without `lift` a value is a state. With it a value is one number, or a
        tuple of as many as `columns` names, of the kind `dtype`, "float64" unless told. `lower` gives a number or a
        tuple of numbers. No function may raise or give None. Each must also work as plain Python, which runs where
        times are not native and for the result of nothing. It compiles once a process, in about a second.

        >>> from sash import Monoid, Window
        >>> def saturating(a, b): return min(a + b, 100)
        >>> w = Window(Monoid.compiled(identity=0, combine=saturating))
        >>> w.insert_many([1, 2, 3], [50, 40, 30])
        >>> w.query()
        100
        """
        from sash.numba_compile import input_columns, program

        named = input_columns(column, columns)
        made = program(identity, combine, lift, lower, named, dtype)
        names = named or (None,) * len(made.input_kinds)
        inputs = tuple(
            Input(name, "int" if kind == "int64" else "float", kind)
            for name, kind in zip(names, made.input_kinds, strict=True)
        )
        fields = () if made.output.single else tuple(f"_{i}" for i in range(1, len(made.output_kinds) + 1))
        return cls(
            identity=identity,
            combine=combine,
            lift=lift,
            lower=lower,
            commutative=commutative,
            exact="float64" not in made.state_kinds,
            name=name,
            version=version,
            column=column,
            dtype=dtype,
            arguments=() if columns is None else (("columns", named),),
            parts=(Part("compiled", inputs, fields=fields, program=made),),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns it reads, each once, in order.

        >>> from sash import monoids
        >>> monoids.struct(n=monoids.count(), vwap=monoids.weighted_mean("price", "size")).columns
        ('price', 'size')
        """
        named = [read.column for part in self.parts for read in part.inputs] + [self.column]
        for _, value in self.arguments:
            named += value.columns if isinstance(value, Monoid) else ()
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def built_in(self) -> bool:
        """Whether it is one of `sash.monoids`, known by where its way in is defined."""
        lift = self.lift
        while isinstance(lift, partial):
            lift = lift.func
        return str(getattr(lift, "__module__", None)).startswith("sash.monoids.")

    def layout(self) -> Layout:
        """Give what the core needs to run this as a record."""
        named = any(read.column is not None for part in self.parts for read in part.inputs)
        structured = any(part.name is not None for part in self.parts)
        reads: dict[Read, int] = {}
        parts = []
        for part in self.parts:
            places = [
                Read(i if read.column is None else read.column, read.form, read.dtype or self.dtype)
                for i, read in enumerate(part.inputs)
            ]
            if not structured:  # the value itself, whatever its column is called
                places = [place._replace(where=i) for i, place in enumerate(places)]
            at = tuple(reads.setdefault(place, len(reads)) for place in places)
            facts = (part.parameters, part.fields, part.finish, part.name, part.program, self.commutative)
            parts.append((part.op, at, *facts))
        arity = max((len(part.inputs) for part in self.parts), default=1)
        return Layout(tuple(reads), tuple(parts), named and structured, structured, structured, arity)

    def empty(self, start: Any = None, stop: Any = None) -> Any:
        """Give the result of a window, or of a stretch of it, that holds nothing: the identity, lowered."""
        if self.lower is None:
            return self.identity
        return self.lower(self.identity, start, stop) if self.timed else self.lower(self.identity)

    def _key(self) -> tuple[Any, ...]:
        functions = tuple(map(_anatomy, (self.combine, self.lift, self.lower)))
        facts = (self.commutative, self.timed, self.exact, self.arguments, self.native, self.parts)
        return (self.name, self.version, self.column, self.dtype, functions, facts)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same operator by name, version, functions, arguments and identity."""
        if not isinstance(other, Monoid):
            return NotImplemented
        same = self.identity is other.identity or bool(np.all(self.identity == other.identity))
        return same and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash by name and version, which equal monoids share."""
        return hash((self.name, self.version, self.column, self.dtype))

    def __repr__(self) -> str:
        """Show the call that makes a built-in, or name a user's own."""
        if not self.built_in:
            return f"Monoid({self.name or getattr(self.combine, '__name__', 'combine')})"
        named = [f"{name}={value!r}" for name, value in self.arguments]
        if self.column is not None:
            named.append(f"column={self.column!r}" if named else repr(self.column))
        if self.dtype is not None:
            named.append(f"dtype={self.dtype!r}")
        return f"{self.name}({', '.join(named)})"


def _anatomy(function: Any) -> Any:
    """Give what tells functions apart: two partials of one function and the same arguments are the same."""
    if not isinstance(function, partial):
        return function
    return partial, _anatomy(function.func), tuple(map(_anatomy, function.args)), function.keywords
