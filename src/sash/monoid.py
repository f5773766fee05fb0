"""Monoid: the operator that a window aggregates with.

A monoid is a set of states with an associative `combine` and an `identity`; `lift` turns an inserted value into a state
and `lower` a state into a result. Associativity is the only requirement: no inverse, no commutativity.

`Part` and `Input` describe a built-in to the core, which runs it natively as a record of parts. The Python definition
computes the same for all other kinds of values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sash.errors import ArgumentError, KindError, shown

if TYPE_CHECKING:
    from sash.numba_compile import Program

# The core's monoids, each with the kind of value it reads; only sash.monoids uses them.
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
    """A column that a part reads, and the form it reads it in: "any" only tests whether there is a value."""

    column: str | None
    form: Form
    dtype: str | None = None


@dataclass(frozen=True)
class Part:
    """One operation of the core, with its inputs and the form of its result.

    `fields` names the members of a result that has several, `finish` converts the core's tuple or bytes to the result,
    `name` is the field of a struct, and `program` has the compiled functions where `op` is "compiled".
    """

    op: str
    inputs: tuple[Input, ...]
    parameters: tuple[float | int, ...] = ()
    fields: tuple[str, ...] = ()
    finish: Callable[[Any], Any] | None = field(default=None, compare=False)
    name: str | None = None
    program: "Program | None" = None


class Read(NamedTuple):
    """An input of a record: a named column, or a position in the value."""

    where: str | int
    form: Form
    dtype: str | None


class RecordPart(NamedTuple):
    """A part of a record as the core runs it; core/monoids/plan.cpp reads it by these names."""

    op: str
    reads: tuple[int, ...]  # places in the layout's reads
    parameters: tuple[float | int, ...]
    fields: tuple[str, ...]
    finish: Callable[[Any], Any] | None
    name: str | None
    program: "Program | None"
    commutative: bool


class Layout(NamedTuple):
    """A monoid as the core runs it: the inputs that it reads from a value, and the parts of its record."""

    reads: tuple[Read, ...]
    parts: tuple[RecordPart, ...]
    named: bool
    nullable: bool  # as in SQL, nulls are skipped
    structured: bool  # the result is a dict
    arity: int  # of a value that is read by position


@dataclass(frozen=True, kw_only=True, eq=False)
class Monoid:
    """An associative operator with its identity, and the functions `lift` and `lower` for values and results.

    `combine` must not change its arguments: the nodes of a tree share states. The functions of a `timed` monoid are
    `lift(value, time)` and `lower(state, start, stop)`, where both ends may be None for an empty window. If it is not
    `exact`, results depend on how the states were grouped, within the rounding error. `returns` names the Arrow type of
    the results, such as "float64" or "string", for tables whose schema must be known in advance.

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
        """Raise for functions that cannot be called and columns that cannot be read."""
        for argument in ("combine", "lift", "lower"):
            function = getattr(self, argument)
            if not callable(function) and not (function is None and argument != "combine"):
                raise KindError(f"{argument} must be callable, got {shown(function)}.", argument=argument)

        for form in self.native:
            if form not in _NATIVE:
                raise ArgumentError(
                    f"native must name monoids of the core and their kinds of value, got {shown(form)}.",
                    argument="native",
                )

        for name in (self.column, *(read.column for part in self.parts for read in part.inputs)):
            if name is not None and not isinstance(name, str):
                raise KindError(f"column must be a str or None, got {shown(name)}.", argument="column")

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
        """Return a monoid over numbers, or plain tuples of numbers, that the core runs as machine code.

        Requires Numba: `pip install "sash[jit]"`. The identity determines the type of a state: ints (64 bits, which
        wrap) and floats; `combine` returns the same. Without `lift` a value is a state. With it a value is one number,
        or a tuple with one number per name in `columns`, of type `dtype`, "float64" by default. `lower` returns a
        number or a tuple of numbers. No function may raise or return None. Each must also work as plain Python, which
        runs where times are not native and for the result of an empty window. Compilation takes about a second, once
        per process.

        >>> from sash import Monoid, Window
        >>> def saturating(a, b): return min(a + b, 100)
        >>> w = Window(Monoid.compiled(identity=0, combine=saturating))
        >>> w.insert_many([1, 2, 3], [50, 40, 30])
        >>> w.query()
        100
        """
        from sash.numba_compile import input_columns, program

        names = input_columns(column, columns)
        code = program(identity, combine, lift, lower, names, dtype)
        return cls(
            identity=identity,
            combine=combine,
            lift=lift,
            lower=lower,
            commutative=commutative,
            exact="float64" not in code.state_kinds,
            name=name,
            version=version,
            column=column,
            dtype=dtype,
            arguments=() if columns is None else (("columns", names),),
            parts=(_compiled_part(code, names),),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads, without duplicates, in order.

        >>> from sash import monoids
        >>> monoids.struct(n=monoids.count(), vwap=monoids.weighted_mean("price", "size")).columns
        ('price', 'size')
        """
        names = [read.column for part in self.parts for read in part.inputs] + [self.column]
        for _, value in self.arguments:
            names += value.columns if isinstance(value, Monoid) else ()
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def built_in(self) -> bool:
        """Whether it is one of `sash.monoids`, which is where its `lift` is defined."""
        lift = self.lift
        while isinstance(lift, partial):
            lift = lift.func
        return str(getattr(lift, "__module__", None)).startswith("sash.monoids.")

    def layout(self) -> Layout:
        """Return the layout by which the core runs this as a record."""
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
            result = (part.parameters, part.fields, part.finish, part.name, part.program)
            parts.append(RecordPart(part.op, at, *result, commutative=self.commutative))
        arity = max((len(part.inputs) for part in self.parts), default=1)
        return Layout(tuple(reads), tuple(parts), named and structured, structured, structured, arity)

    def empty(self, start: Any = None, stop: Any = None) -> Any:
        """Return the result of an empty window or time range: the identity, lowered."""
        if self.lower is None:
            return self.identity
        return self.lower(self.identity, start, stop) if self.timed else self.lower(self.identity)

    def _key(self) -> tuple[Any, ...]:
        functions = tuple(map(_anatomy, (self.combine, self.lift, self.lower)))
        properties = (self.commutative, self.timed, self.exact, self.arguments, self.native, self.parts)
        return (self.name, self.version, self.column, self.dtype, functions, properties)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same operator: equal name, version, functions, arguments and identity."""
        if not isinstance(other, Monoid):
            return NotImplemented
        same = self.identity is other.identity or bool(np.all(self.identity == other.identity))
        return same and self._key() == other._key()

    def __hash__(self) -> int:
        """Return the hash of the name, version, column and dtype, which equal monoids share."""
        return hash((self.name, self.version, self.column, self.dtype))

    def __repr__(self) -> str:
        """Return the call that makes a built-in, or the name of a custom monoid."""
        if not self.built_in:
            return f"Monoid({self.name or getattr(self.combine, '__name__', 'combine')})"
        arguments = [f"{name}={value!r}" for name, value in self.arguments]
        if self.column is not None:
            arguments.append(f"column={self.column!r}" if arguments else repr(self.column))
        if self.dtype is not None:
            arguments.append(f"dtype={self.dtype!r}")
        return f"{self.name}({', '.join(arguments)})"


def _compiled_part(code: "Program", names: tuple[str, ...] | None) -> Part:
    inputs = tuple(
        Input(name, "int" if kind == "int64" else "float", kind)
        for name, kind in zip(names or (None,) * len(code.input_kinds), code.input_kinds, strict=True)
    )
    fields = () if code.output.single else tuple(f"_{i}" for i in range(1, len(code.output_kinds) + 1))
    return Part("compiled", inputs, fields=fields, program=code)


def _anatomy(function: Any) -> Any:
    """Return a key for a function: partials of the same function with the same arguments are equal."""
    if not isinstance(function, partial):
        return function
    return partial, _anatomy(function.func), tuple(map(_anatomy, function.args)), function.keywords
