"""Composition of affine functions, as in linear recurrences."""

from functools import partial

from sash.monoid import Input, Monoid, Part
from sash.monoids.arguments import named, real_pair


def _after(f: tuple[float, float], g: tuple[float, float]) -> tuple[float, float]:
    return g[0] * f[0], g[0] * f[1] + g[1]


def affine(a: str | None = None, b: str | None = None) -> Monoid:
    """Composition of functions x -> a*x + b, oldest applied first, as a pair `(a, b)`; (1.0, 0.0) if empty.

    A value is a pair `(a, b)`.

    >>> from sash import Window, monoids
    >>> Window(monoids.affine()).slide([1, 2], [(2.0, 1.0), (10.0, 5.0)], size=9, at="end")
    (20.0, 15.0)
    """
    return Monoid(
        identity=(1.0, 0.0),
        combine=_after,
        lift=partial(real_pair, "a, b"),
        commutative=False,
        exact=False,
        name="affine",
        arguments=named(a=a, b=b),
        parts=(Part("affine", (Input(a, "float"), Input(b, "float")), fields=("a", "b")),),
    )
