"""Compiled monoids: the C functions agree with the Python ones, what cannot be compiled is refused in a sentence."""

import ctypes
import operator
import pickle
import random
import struct
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

from sash import ArgumentError, KindError, Monoid, numba_compile
from sash.numba_compile import Program

# --- the monoids under test -----------------------------------------------------------------------


def after(f, g):
    return g[0] * f[0], g[0] * f[1] + g[1]


def add_pair(a, b):
    return a[0] + b[0], a[1] + b[1]


def one_of(x):
    return x, 1


def mean_or_nan(state):
    return state[0] / state[1] if state[1] else float("nan")


def matrix_product(a, b):
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def of_row(row):
    return row[0], row[1], 0.0, 1.0


LEAST = -(10**15)


def best_run(a, b):
    return (
        max(a[0], b[0], a[2] + b[1]),
        max(a[1], a[3] + b[1]),
        max(b[2], b[3] + a[2]),
        a[3] + b[3],
    )


def run_of_one(x):
    return x, x, x, x


def best(state):
    return state[0]


def saturating(a, b):
    return min(a + b, 1000)


class Case(NamedTuple):
    monoid: Monoid
    value: object  # random.Random -> a value
    outputs: tuple


def pair_of_floats(draw):
    return draw.uniform(-1, 1), draw.uniform(-9, 9)


def number(draw):
    return draw.uniform(-9, 9)


def integer(draw):
    return draw.randrange(-50, 50)


@pytest.fixture(scope="module")
def cases():
    """Every monoid of this file, built once; the time it takes is printed and not judged."""
    start = time.perf_counter()
    made = {
        "affine": Case(Monoid.compiled(identity=(1.0, 0.0), combine=after), pair_of_floats, ("float64",) * 2),
        "mean": Case(
            Monoid.compiled(identity=(0.0, 0), combine=add_pair, lift=one_of, lower=mean_or_nan, commutative=True),
            number,
            ("float64",),
        ),
        "matrix": Case(
            Monoid.compiled(identity=(1.0, 0.0, 0.0, 1.0), combine=matrix_product, lift=of_row, columns=["x", "y"]),
            pair_of_floats,
            ("float64",) * 4,
        ),
        "best_run": Case(
            Monoid.compiled(
                identity=(LEAST, LEAST, LEAST, 0), combine=best_run, lift=run_of_one, lower=best, dtype="int64"
            ),
            integer,
            ("int64",),
        ),
        "saturating": Case(Monoid.compiled(identity=0, combine=saturating), integer, ("int64",)),
    }
    typed = time.perf_counter()
    for case in made.values():
        program(case.monoid).addresses()
    print(f"\n5 compiled monoids: {typed - start:.2f} s to type, {time.perf_counter() - typed:.2f} s to compile")
    return made


# --- calling the C functions ----------------------------------------------------------------------


def program(monoid) -> Program:
    return monoid.parts[0].program


def words(kinds, value) -> bytes:
    values = value if isinstance(value, tuple) else (value,)
    return struct.pack("".join("q" if kind == "int64" else "d" for kind in kinds), *values)


def value_of(kinds, memory) -> object:
    found = struct.unpack_from("".join("q" if kind == "int64" else "d" for kind in kinds), memory)
    return found if len(found) > 1 else found[0]


def call(address, state, other, *numbers):
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * len(numbers))
    signature(address)(state, state, other, other, *numbers)


def memory(content: bytes):
    return ctypes.create_string_buffer(content, max(len(content), 8))


def lifted(monoid, value):
    return value if monoid.lift is None else monoid.lift(value)


def natively(monoid, values, split):
    """Return the result by the C functions: fold the values before `split`, then join the states of the others."""
    p = program(monoid)
    lift, fold, join, lower = p.addresses()
    state = memory(words(p.state_kinds, monoid.identity))
    rows = memory(b"".join(words(p.input_kinds, value) for value in values[:split]))
    call(fold, state, rows, split)

    gap = b"\xff" * 8  # others lie a word further apart than they are long
    others = []
    for value in values[split:]:
        other = memory(b"\xff" * 8 * len(p.state_kinds))
        call(lift, other, memory(words(p.input_kinds, value)))
        others.append(other.raw + gap)
    call(join, state, memory(b"".join(others)), len(p.state_kinds) + 1, len(others))

    if not lower:
        return value_of(p.state_kinds, state)
    out = memory(b"\xff" * 8 * len(p.output_kinds))
    call(lower, state, out)
    return value_of(p.output_kinds, out)


@pytest.mark.parametrize("name", ["affine", "mean", "matrix", "best_run", "saturating"])
def test_agrees_with_python(cases, name):
    """Fold, lift, join and lower give what the Python functions give, to the last bit."""
    monoid, draw_value, outputs = cases[name]
    assert program(monoid).output_kinds == outputs
    draw = random.Random(5)
    for size in (1, 2, 3, 10, 100):
        values = [draw_value(draw) for _ in range(size)]
        state = reduce(monoid.combine, (lifted(monoid, value) for value in values), monoid.identity)
        expected = state if monoid.lower is None else monoid.lower(state)
        for split in {0, 1, size // 2, size}:
            assert natively(monoid, values, split) == expected


def test_division_by_zero_gives_nan():
    """Compiled arithmetic is NumPy's: nothing raises inside the core."""
    monoid = Monoid.compiled(identity=(0.0, 0), combine=add_pair, lift=one_of, lower=lambda s: s[0] / s[1])
    p = program(monoid)
    out = memory(b"")
    call(p.addresses()[3], memory(words(p.state_kinds, monoid.identity)), out)
    assert str(value_of(p.output_kinds, out)) == "nan"


def test_kinds_and_parts(cases):
    """A compiled monoid's layout has its inputs with their columns, its words and the fields of a result."""
    mean, matrix = cases["mean"].monoid, cases["matrix"].monoid
    assert program(mean).state_kinds == ("float64", "int64")
    assert program(mean).input_kinds == ("float64",)
    assert [(read.column, read.form) for read in matrix.parts[0].inputs] == [("x", "float"), ("y", "float")]
    assert matrix.parts[0].fields == ("_1", "_2", "_3", "_4")
    assert mean.parts[0].fields == ()
    assert [read.form for read in cases["best_run"].monoid.parts[0].inputs] == ["int"]
    assert cases["saturating"].monoid.exact
    assert not mean.exact
    named = Monoid.compiled(identity=0, combine=saturating, column="n", name="capped", version="2")
    assert (named.column, named.name, named.version, named.parts[0].inputs[0].column) == ("n", "capped", "2", "n")
    assert Monoid.compiled(identity=False, combine=operator.or_).parts[0].program.state_kinds == ("int64",)


# --- one compilation for the same code ------------------------------------------------------------


def capped_at(most):
    return lambda a, b: min(a + b, most)


def test_compiles_the_same_code_once():
    """The same code with the same captured constants compiles once a process, and other constants give other code."""
    first, again, other, floating = (
        program(Monoid.compiled(identity=identity, combine=capped_at(most)))
        for identity, most in [(0, 100), (0, 100), (0, 200), (0.0, 100)]
    )
    assert first.addresses() == again.addresses() == first.addresses()
    assert len({first.addresses(), other.addresses(), floating.addresses()}) == 3


def test_constants_differ_by_type_and_sign(monkeypatch):
    """1, 1.0 and True are different constants, as are 0.0 and -0.0, and globals count as well as closures."""
    functions = [capped_at(most) for most in (1, 1.0, True, 0.0, -0.0)]
    assert len({numba_compile._meaning(function) for function in functions}) == 5
    before = numba_compile._meaning(below_limit)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 6)
    assert numba_compile._meaning(below_limit) != before


LIMIT = 5


def below_limit(a, b):
    return min(a + b, LIMIT)


# --- equality and pickling ------------------------------------------------------------------------


def test_equal_where_the_functions_are(cases):
    """Two monoids built alike from the same functions are equal; another lower makes another monoid."""
    mean = cases["mean"].monoid
    make = {"identity": (0.0, 0), "combine": add_pair, "lift": one_of, "commutative": True}
    assert Monoid.compiled(**make, lower=mean_or_nan) == mean
    assert hash(Monoid.compiled(**make, lower=mean_or_nan)) == hash(mean)
    assert Monoid.compiled(**make) != mean


def in_another_process(monoid):
    """Run there: fold three values."""
    return natively(monoid, [1.0, 2.0, 6.0], 2)


def test_pickles_and_compiles_again_elsewhere(cases):
    """A monoid goes to a fresh process as its functions, and is compiled there at first use."""
    mean = cases["mean"].monoid
    assert pickle.loads(pickle.dumps(mean)) == mean
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(in_another_process, mean).result() == 3.0


def test_without_numba():
    """Without Numba the message says what to install, and importing sash does not need it."""
    code = """
import sys; sys.modules["numba"] = None
import sash
try: sash.Monoid.compiled(identity=0, combine=max)
except sash.UnsupportedError as error: print(error)
"""
    source = str(Path(numba_compile.__file__).parent.parent)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": source})
    assert run.stdout == 'Monoid.compiled needs Numba, which is not installed; run pip install "sash[jit]".\n', (
        run.stderr
    )


# --- refusals -------------------------------------------------------------------------------------


class Both(NamedTuple):
    a: int
    b: int


def helper(a):
    return a


def checked(a, b):
    assert a <= b
    return a


REFUSED = [
    ({"identity": None}, KindError, "^identity must be a number or a plain tuple of numbers, got None"),
    ({"identity": "x"}, KindError, "^identity must be a number or a plain tuple of numbers, got 'x'"),
    ({"identity": [0, 0]}, KindError, r"^identity must be a number or a plain tuple of numbers, got \[0, 0\]"),
    ({"identity": (0, (1, 2))}, KindError, r"^identity must be a number or a plain tuple .*, got \(0, \(1, 2\)\)"),
    ({"identity": ()}, KindError, r"^identity must be a number or a tuple of at least two numbers, got \(\)"),
    ({"identity": (0,)}, KindError, r"^identity must be a number or a tuple of at least two numbers, got \(0,\)"),
    ({"identity": Both(0, 0)}, KindError, r"^identity must be a number or a plain tuple .*, got Both\(a=0, b=0\)"),
    ({"identity": 2**63}, ArgumentError, "^identity must fit int64 or be a float, got 9223372036854775808"),
    ({"combine": None}, KindError, "^combine must be callable, got None"),
    ({"lift": 3}, KindError, "^lift must be callable, got 3"),
    ({"dtype": "object"}, ArgumentError, '^dtype must be "int64", "float64" or None, got .object.'),
    ({"dtype": "float64"}, ArgumentError, r"^dtype must match the identity \(int64\) .*, got 'float64'"),
    (
        {"column": "a", "columns": ["b"]},
        ArgumentError,
        r"^columns must be None if column= is set, got \['b'\] and column='a'",
    ),
    ({"columns": "ab"}, KindError, "^columns must be a list of column names, got 'ab'"),
    ({"columns": []}, KindError, r"^columns must be a list of column names, got \[\]"),
    ({"columns": 3}, KindError, "^columns must be a list of column names, got 3"),
    ({"columns": ["a", "b"]}, ArgumentError, r"^columns must name one column .* which is a number, got \('a', 'b'\)"),
    ({"combine": lambda a, b: a / b}, KindError, "^combine must return an int, as the identity has, got a float"),
    (
        {"combine": lambda a, b: (a, b)},
        KindError,
        "^combine must return a number, as the identity is, got a tuple of 2",
    ),
    (
        {"combine": lambda a, b: helper(a)},
        KindError,
        "^combine must .* Numba cannot compile it .Untyped global name 'helper'",
    ),
    ({"combine": lambda a, b: a[0]}, KindError, r"^combine must .* Numba cannot compile it .*getitem\(int64"),
    ({"combine": lambda a: a}, KindError, "^combine must .* Numba cannot compile it .Signature mismatch"),
    ({"combine": lambda a, b: str(a)}, KindError, "^combine must return a number or a flat tuple .*, got unicode_type"),
    ({"combine": checked}, ArgumentError, "^combine must not raise or assert"),
    ({"lift": lambda x: x}, KindError, "^lift must return an int, as the identity has, got a float"),
    (
        {"lower": lambda s: s if s else None},
        KindError,
        "^lower must return a number, such as nan, on every path, got None",
    ),
    ({"lower": lambda s: ((s, s), s)}, KindError, "^lower must return a number or a flat tuple of numbers, got "),
]


@pytest.mark.parametrize("changed, error, sentence", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_refuses_in_one_sentence(changed, error, sentence):
    """What cannot be compiled is named by its argument, in one line, at once and not at first use."""
    with pytest.raises(error, match=sentence) as caught:
        Monoid.compiled(**({"identity": 0, "combine": saturating} | changed))
    assert caught.value.argument == str(caught.value).split()[0]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_an_int_is_fine_for_a_float():
    """A float state takes ints, bools and smaller kinds."""
    monoid = Monoid.compiled(identity=(0.0, 0), combine=lambda a, b: (1, a[0] > b[0]))
    assert natively(monoid, [(2.5, 7), (3.5, 8)], 1) == (1.0, 0)
