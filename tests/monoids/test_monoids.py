"""The built-in monoids by their Python definitions: laws, results, refusals, and what each says of itself."""

import datetime as dt
import itertools
import math
import pickle
import random
import statistics
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest

from sash import ArgumentError, KindError, Monoid, Window, monoids
from sash.monoid import Input, Part
from support.folds import answer, lifted, result

INF, NAN = math.inf, math.nan
NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]
PAIRED = [(float(a), float(b)) for a, b in zip(NUMBERS, [2, 7, 1, 8, 2, 8, 1, 8], strict=True)]


WORDS = ("string_agg", "frequent_items")
SKETCHES = ("kll", "frequent_items", "theta", "cpc")
IN_PYTHON = ("distinct", "quantile", "median", "collect_list", "collect_set", "string_agg", *SKETCHES)


def values_for(monoid: Monoid) -> list[Any]:
    if monoid.name in WORDS:
        return [str(number) for number in NUMBERS]
    return PAIRED if monoid.parts and len(monoid.parts[0].inputs) == 2 else NUMBERS


def same(a: Any, b: Any, exact: bool = True) -> bool:
    if exact or a is None or b is None or isinstance(a, list):
        return bool(a == b) and type(a) is type(b)
    return bool(np.allclose(a, b, rtol=1e-12, atol=1e-12))


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", monoids.EXAMPLES)
def test_identity_changes_nothing(name: str) -> None:
    """A state combined with the identity, on either side, is that state."""
    monoid = monoids.EXAMPLES[name]
    for state in lifted(monoid, values_for(monoid)):
        assert monoid.combine(monoid.identity, state) == state == monoid.combine(state, monoid.identity)
    assert monoid.combine(monoid.identity, monoid.identity) == monoid.identity


@pytest.mark.parametrize("name", monoids.EXAMPLES)
def test_grouping_does_not_matter(name: str) -> None:
    """However the states are bracketed, the result is the same, to the last bit where the monoid is exact."""
    monoid = monoids.EXAMPLES[name]
    states = lifted(monoid, values_for(monoid))
    expected = result(monoid, reduce(monoid.combine, states))
    for i, j in itertools.combinations(range(1, len(states)), 2):
        parts = [reduce(monoid.combine, part) for part in (states[:i], states[i:j], states[j:])]
        right = monoid.combine(parts[0], monoid.combine(parts[1], parts[2]))
        assert same(result(monoid, right), expected, monoid.exact)


@pytest.mark.parametrize("name", monoids.EXAMPLES)
def test_commutative_is_true(name: str) -> None:
    """If a monoid claims to commute, every order has the same result; if not, some order differs."""
    monoid = monoids.EXAMPLES[name]
    values = [(1.0, 5.0), (1.0, 6.0), (2.0, 7.0)] if values_for(monoid) is PAIRED else [3, 1, 2]
    if name == "argmax":
        values = [(2.0, 5.0), (2.0, 6.0), (1.0, 7.0)]
    if name in ("first_k", "last_k"):
        values = [3, 1, 2, 9]
    if name in WORDS:
        values = ["b", "a", "c"]
    orders = [reduce(monoid.combine, order) for order in itertools.permutations(lifted(monoid, values))]
    agree = all(same(result(monoid, orders[0]), result(monoid, other), monoid.exact) for other in orders)
    assert agree == monoid.commutative


def test_the_monoids_that_do_not_commute() -> None:
    """Order matters where time decides, or where the oldest of ties does."""
    ordered = {name for name, monoid in monoids.EXAMPLES.items() if not monoid.commutative}
    assert ordered == {
        "argmin", "argmax", "first", "last", "first_k", "last_k", "delta", "affine", "time_weighted_mean",
        "collect_list", "string_agg",
    }  # fmt: skip


@pytest.mark.parametrize("name", monoids.EXAMPLES)
def test_they_pickle_print_and_compare(name: str) -> None:
    """A built-in equals its pickle and what its repr evaluates to, and no other built-in."""
    monoid = monoids.EXAMPLES[name]
    twin = pickle.loads(pickle.dumps(monoid))
    assert twin == monoid and hash(twin) == hash(monoid)
    assert eval(repr(monoid), dict(vars(monoids))) == monoid
    assert [other for other, example in monoids.EXAMPLES.items() if example == monoid] == [name]
    assert monoid.name == name and bool(monoid.parts) == (name not in IN_PYTHON)


@pytest.mark.parametrize("name", [name for name in monoids.EXAMPLES if not monoids.EXAMPLES[name].timed])
def test_windows_agree_with_the_definition(name: str) -> None:
    """A window's result equals a fold of the Python definition; an empty one's is the lowered identity."""
    monoid = monoids.EXAMPLES[name]
    window = Window(monoid)
    assert same(window.query(), monoid.empty())
    window.insert_many(range(8), values_for(monoid))
    assert same(window.query(), answer(monoid, values_for(monoid)), monoid.exact)


# --- what each says of itself ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "monoid, text",
    [
        (monoids.sum("amount", dtype=int), "sum('amount', dtype='int64')"),
        (monoids.sum("amount", exact=True), "sum(exact=True, column='amount')"),
        (monoids.top_k(3, "amount"), "top_k(k=3, column='amount')"),
        (monoids.weighted_mean("price", "size"), "weighted_mean(value='price', weight='size')"),
        (monoids.covariance("a", "b", ddof=0), "covariance(x='a', y='b', ddof=0)"),
        (monoids.decayed_sum(dt.timedelta(minutes=1)), "decayed_sum(half_life=60.0)"),
        (monoids.bloom(capacity=100), "bloom(capacity=100, error=0.01)"),
        (monoids.struct(n=monoids.count(), top=monoids.max("x")), "struct(n=count(), top=max('x'))"),
        (Monoid(identity=0, combine=max, name="mine"), "Monoid(mine)"),
    ],
    ids=repr,
)
def test_repr_is_the_call(monoid: Monoid, text: str) -> None:
    """A built-in shows the call that makes it, a user's own its name."""
    assert repr(monoid) == text


def test_arguments_tell_monoids_apart() -> None:
    """Monoids that were called otherwise differ."""
    assert monoids.top_k(3) != monoids.top_k(4)
    assert monoids.variance() == monoids.variance(ddof=1) != monoids.variance(ddof=0)
    assert monoids.sum() != monoids.sum(exact=True)
    assert monoids.bloom() != monoids.bloom(capacity=100)
    assert monoids.decayed_sum(60) == monoids.decayed_sum(dt.timedelta(minutes=1)) != monoids.decayed_sum(61)
    assert monoids.struct(a=monoids.sum()) != monoids.struct(b=monoids.sum())


def test_columns_are_named_once_in_order() -> None:
    """A monoid knows the columns it reads."""
    assert monoids.sum().columns == () and monoids.sum("a").columns == ("a",)
    assert monoids.argmin("b", "a").columns == ("b", "a")
    own = Monoid(identity="", combine=lambda a, b: a + b, column="word")
    assert own.columns == ("word",)
    joint = monoids.struct(n=monoids.count(), r=monoids.correlation("y", "x"), text=own, top=monoids.max("x"))
    assert set(joint.columns) == {"y", "x", "word"} and len(joint.columns) == 3
    assert joint.parts == ()


def test_parts_describe_the_native_record() -> None:
    """The layout has the operation, its inputs and its parameters."""
    assert monoids.sum("a", dtype=float).parts == (Part("sum", (Input("a", "number", "float64"),)),)
    assert monoids.std(ddof=0).parts == (Part("variance", (Input(None, "float"),), (0, 1)),)
    assert monoids.count().parts == (Part("count", ()),)
    assert monoids.count("a").parts == (Part("count", (Input("a", "any"),)),)
    assert monoids.maxcount().parts[0].fields == ("max", "count")
    assert monoids.sum(dtype=object).parts == monoids.max(dtype=object).parts == ()
    named = monoids.struct(n=monoids.count(), top=monoids.top_k(2, "a")).parts
    assert [(part.name, part.op, part.parameters) for part in named] == [("n", "count", ()), ("top", "top_k", (2,))]
    (bloom,) = monoids.bloom(capacity=10).parts
    assert bloom.parameters == (128, 9) and bloom.finish(bytes(16)) == monoids.bloom(capacity=10).empty()


def test_every_built_in_has_a_card() -> None:
    """The cards describe the result, and take the flags from the monoid itself."""
    cards = {card.name: card for card in monoids.cards()}
    assert list(cards) == list(monoids.BUILT_IN) == list(monoids.EXAMPLES)
    assert set(cards) <= set(monoids.__all__)
    assert cards["top_k"].call == "top_k(k, column=None)" and not cards["argmin"].commutative
    assert not cards["mean"].exact and all(card.gives.endswith(".") for card in cards.values())
    assert len(monoids.cards_markdown().splitlines()) == len(cards) + 2


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "monoid, values, expected",
    [
        (monoids.count_if(), [True, 0, "x", 2.5], 3),
        (monoids.mean(), [1, 2], 1.5),
        (monoids.mean(dtype=object), [Fraction(1, 3), Fraction(2, 3)], Fraction(1, 2)),
        (monoids.product(), [2, 3, 7], 42.0),
        (monoids.product(dtype=object), [2**80, 3], 3 * 2**80),
        (monoids.weighted_mean(), [(10, 1), (20, 3)], 17.5),
        (monoids.weighted_mean(), [(10, 1), (20, -1)], None),
        (monoids.range(), [4, -2, 9], 11),
        (monoids.range(dtype=object), [Decimal("0.1"), Decimal("0.3")], Decimal("0.2")),
        (monoids.argmin(), [(3, "a"), (1, "b"), (1, "c")], "b"),
        (monoids.argmax(), [(3, "a"), (3, "b"), (1, "c")], "a"),
        (monoids.argmax(), [(INF, "a"), (NAN, "b"), (NAN, "c")], "b"),
        (monoids.first_k(2), "abc", ["a", "b"]),
        (monoids.last_k(2), "abc", ["b", "c"]),
        (monoids.last_k(5), "abc", ["a", "b", "c"]),
        (monoids.top_k(3), [1.0, 5.0, 5.0, 3.0], [5.0, 5.0, 3.0]),
        (monoids.bottom_k(3), [0.0, INF, -0.0, 7.0], [-0.0, 0.0, 7.0]),
        (monoids.mincount(), [2, 1, 1], (1, 2)),
        (monoids.delta(), [7], 0),
        (monoids.delta(), [7, 100, 4], -3),
        (monoids.geomean(), [2, 8], 4.0),
        (monoids.bit_and(), [6, 3, -1], 2),
        (monoids.bit_or(), [6, 3], 7),
        (monoids.bit_xor(), [6, 3, True], 4),
        (monoids.all(), [1, 2.0, "x"], True),
        (monoids.all(), [1, 0], False),
        (monoids.any(), [0, ""], False),
        (monoids.any(), [0, NAN], True),
        (monoids.affine(), [(2, 1), (3, 0)], (6.0, 3.0)),
        (monoids.correlation(), [(1, 2), (2, 4), (3, 6)], 1.0),
        (monoids.correlation(), [(1, 2)], None),
        (monoids.regression(), [(1, 5), (2, 7)], (2.0, 3.0)),
        (monoids.regression(), [(1, 5)], None),
        (monoids.variance(), [5], None),
        (monoids.variance(ddof=0), [5], 0.0),
        (monoids.covariance(ddof=2), [(1, 1), (2, 2)], None),
    ],
    ids=repr,
)
def test_small_examples(monoid: Monoid, values: Any, expected: Any) -> None:
    """What can be worked out by hand."""
    found = answer(monoid, values)
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


def test_bottom_k_keeps_the_sign_of_zero() -> None:
    """-0.0 comes before 0.0."""
    assert list(map(str, answer(monoids.bottom_k(2), [0.0, -0.0]))) == ["-0.0", "0.0"]
    assert list(map(str, answer(monoids.top_k(2), [-0.0, 0.0]))) == ["0.0", "-0.0"]


def test_nan_is_the_largest_among_ints_too() -> None:
    """The order is total where ints and floats meet."""
    for values in itertools.permutations([NAN, 3, -INF, 2.5]):
        assert answer(monoids.bottom_k(3), values) == [-INF, 2.5, 3]
        assert math.isnan(answer(monoids.max(), values)) and answer(monoids.min(), values) == -INF


@pytest.mark.parametrize("name, nothing", [("count_if", 0), ("product", 1.0), ("histogram", [0, 0]), ("top_k", []),
                                           ("affine", (1.0, 0.0)), ("hyperloglog", 0), ("decayed_sum", 0.0),
                                           ("decayed_mean", None),
                                           ("rate", None), ("mean", None), ("all", None), ("argmin", None),
                                           ("struct", {"n": 0, "top": None}), ("approx_quantile", None)])  # fmt: skip
def test_of_nothing(name: str, nothing: Any) -> None:
    """An empty window answers the lowered identity."""
    assert same(monoids.EXAMPLES[name].empty(), nothing)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_moments_are_those_of_the_definition(offset: float) -> None:
    """However the values are grouped, and far from zero, moments agree with two passes over exact numbers."""
    rng = random.Random(5)
    values = [offset + rng.choice([rng.random(), rng.expovariate(1.0)]) for _ in range(200)]
    states = {m.name: [m.lift(v) for v in values] for m in (monoids.variance(), monoids.skewness())}
    for folded in states.values():
        merge = monoids.variance().combine if len(folded[0]) == 4 else monoids.skewness().combine
        while len(folded) > 1:
            i = rng.randrange(len(folded) - 1)
            folded[i : i + 2] = [merge(folded[i], folded[i + 1])]
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / 200
    m2, m3, m4 = (float(sum((v - mean) ** p for v in exact) / 200) for p in (2, 3, 4))
    near = lambda x: pytest.approx(x, rel=1e-12)  # noqa: E731
    assert monoids.variance(ddof=0).lower(states["variance"][0]) == near(m2)
    assert monoids.std().lower(states["variance"][0]) == near(statistics.stdev(exact))
    assert monoids.skewness().lower(states["skewness"][0]) == near(m3 / m2**1.5)
    assert monoids.kurtosis().lower(states["skewness"][0]) == near(m4 / m2**2 - 3)


def test_pairs_agree_with_numpy() -> None:
    """Covariance, correlation and regression are NumPy's."""
    x, y = np.random.default_rng(1).normal([[5], [1e6]], size=(2, 100))
    pairs = list(zip(x, y, strict=True))
    assert answer(monoids.covariance(), pairs) == pytest.approx(np.cov(x, y)[0, 1], rel=1e-9)
    assert answer(monoids.correlation(), pairs) == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-9)
    assert tuple(answer(monoids.regression(), pairs)) == pytest.approx(tuple(np.polyfit(x, y, 1)), rel=1e-8)


def test_what_does_not_vary() -> None:
    """Equal values have no shape, and no line goes through one x."""
    assert math.isnan(answer(monoids.skewness(), [0.1] * 3)) and math.isnan(answer(monoids.kurtosis(), [7]))
    assert math.isnan(answer(monoids.correlation(), [(1, 2), (1, 3)]))
    assert all(map(math.isnan, answer(monoids.regression(), [(1, 2), (1, 3)])))
    assert math.isnan(answer(monoids.kurtosis(), [5e-324, 0.0])) and answer(monoids.variance(), [0.1] * 9) == 0.0


def test_histogram_is_numpys() -> None:
    """Bins are closed below, the last one above too; what lies outside is not counted."""
    edges, rng = [-1.0, 0.0, 0.5, 2.0, 10.0], random.Random(2)
    values = [*edges, *(rng.uniform(-3, 12) for _ in range(100)), INF, -INF]
    assert answer(monoids.histogram(edges), [*values, NAN]) == np.histogram(values, edges)[0].tolist()
    assert answer(monoids.histogram(np.array([0, 1])), [0, 1, 2]) == [2]


@pytest.mark.parametrize(
    "values, expected",
    [
        ([0.1] * 10, 1.0),
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1e308], INF),
        ([-1e308, -1e308], -INF),
        ([5e-324, 5e-324, 1e300, -1e300], 1e-323),
        ([1.0, INF], INF),
        ([-INF, 1.0], -INF),
        ([], 0.0),
        ([1, 2, True], 4.0),
    ],
)
def test_exact_sums(values: list[Any], expected: float) -> None:
    """The exact sum is rounded once, at the end."""
    found = answer(monoids.sum(exact=True), values)
    assert found == expected and isinstance(found, float)


def test_exact_sums_of_what_is_no_number() -> None:
    """NaN makes NaN, and so do the two infinities together."""
    assert math.isnan(answer(monoids.sum(exact=True), [1.0, NAN, INF]))
    assert math.isnan(answer(monoids.sum(exact=True), [INF, 1.0, -INF]))


def test_exact_sums_are_fsums() -> None:
    """In any order, the exact sum is that of `math.fsum`."""
    rng = random.Random(3)
    values = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300) for _ in range(500)]
    expected = math.fsum(values)
    rng.shuffle(values)
    assert answer(monoids.sum(exact=True), values) == expected


# --- structs --------------------------------------------------------------------------------------


def test_struct_skips_nulls() -> None:
    """A null in any column of a field skips the row for that field; NaN is not null."""
    monoid = monoids.struct(
        rows=monoids.count(),
        n=monoids.count("a"),
        big=monoids.count_if("a"),
        total=monoids.sum("a"),
        best=monoids.argmax("a", "b"),
        top=monoids.top_k(2, "c"),
    )
    rows = [{"a": 3, "b": "x", "c": None}, {"a": None, "b": "y", "c": None}, {"a": 5, "b": None, "c": None, "d": 0}]
    assert answer(monoid, rows) == {"rows": 3, "n": 2, "big": 2, "total": 8, "best": "x", "top": None}
    assert math.isnan(answer(monoid, [{"a": None, "b": 1, "c": NAN}])["top"][0])
    assert monoid.empty() == {"rows": 0, "n": 0, "big": 0, "total": None, "best": None, "top": None}


def test_struct_without_columns() -> None:
    """Where no field names a column, every field reads the value itself."""
    monoid = monoids.struct(n=monoids.count(), low=monoids.min(), high=monoids.max())
    assert answer(monoid, [4, 1, None, 9]) == {"n": 4, "low": 1, "high": 9}
    pairs = monoids.struct(line=monoids.regression(), r=monoids.correlation())
    assert answer(pairs, [(1, 2), (None, 5), (2, 4)]) == {"line": (2.0, 0.0), "r": pytest.approx(1.0)}


def joined_words(a: str, b: str) -> str:
    return a + b


def test_struct_of_ones_own_monoids() -> None:
    """A user's monoid is a field like any other, reads its column, and keeps the struct in Python."""
    own = Monoid(identity="", combine=joined_words, column="word")
    monoid = monoids.struct(text=own, n=monoids.count("word"))
    assert answer(monoid, [{"word": "a"}, {"word": None}, {"word": "b"}]) == {"text": "ab", "n": 2}
    assert not monoid.commutative and monoid.exact and monoid.parts == ()
    assert pickle.loads(pickle.dumps(monoid)) == monoid


def test_struct_passes_time_to_those_that_ask() -> None:
    """A struct is timed where a field is, and only that field gets the time."""
    monoid = monoids.struct(n=monoids.count(), total=monoids.sum("v"), pace=monoids.rate("v"))
    assert monoid.timed and monoid.commutative and not monoid.exact
    assert answer(monoid, [{"v": 4}, {"v": 6}], [0, 5], (0, 5)) == {"n": 2, "total": 10, "pace": 2.0}
    assert monoid.empty() == {"n": 0, "total": None, "pace": None}


def test_struct_in_a_window() -> None:
    """Rows come as dicts, in any order."""
    window = Window(monoids.struct(first=monoids.first("v"), last=monoids.last("v"), n=monoids.count()))
    window.insert_many([2, 1, 3], [{"v": "b"}, {"v": "a"}, {"v": "c"}])
    assert window.query() == {"first": "a", "last": "c", "n": 3}
    assert window.query(2, None) == {"first": "b", "last": "c", "n": 2}
    with pytest.raises(KindError, match=r"^value must have a column 'v', got {'w': 1}"):
        window.insert(4, {"w": 1})
    with pytest.raises(KindError, match=r"^value must be a dict of columns, got 7"):
        window.insert(4, 7)
    assert len(window) == 3


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, error, sentence",
    [
        (lambda: monoids.sum([1, 2]), KindError, "column must be a str or None, got [1, 2]."),
        (lambda: monoids.mean(dtype="int8"), ArgumentError, 'dtype must be "int64", "float64", "object" or None, got'),
        (lambda: monoids.product(dtype=int), ArgumentError, 'dtype must be "float64", "object" or None for a product'),
        (
            lambda: monoids.sum(dtype=int, exact=True),
            ArgumentError,
            'dtype must be "float64" or None if exact=True, got',
        ),
        (lambda: monoids.top_k(0), ArgumentError, "k must be an int from 1 to 4096, got 0."),
        (lambda: monoids.first_k(4097), ArgumentError, "k must be an int from 1 to 4096, got 4097."),
        (lambda: monoids.last_k(True), KindError, "k must be an int from 1 to 4096, got True."),
        (lambda: monoids.bottom_k("3"), KindError, "k must be an int from 1 to 4096, got '3'."),
        (lambda: monoids.variance(ddof=-1), ArgumentError, "ddof must be an int of at least 0, got -1."),
        (lambda: monoids.covariance(ddof=0.5), KindError, "ddof must be an int of at least 0, got 0.5."),
        (lambda: monoids.weighted_mean("price"), ArgumentError, "weight must be a column name if value='price'"),
        (lambda: monoids.argmin(value="v"), ArgumentError, "by must be a column name if value='v' is one, got None."),
        (lambda: monoids.affine(1, 2), KindError, "a must be a column name or None, got 1."),
        (
            lambda: monoids.histogram([1]),
            ArgumentError,
            "edges must be at least two finite numbers in strictly increasing order, got [1].",
        ),
        (lambda: monoids.histogram([1, 1]), ArgumentError, "in strictly increasing order, got [1, 1]."),
        (lambda: monoids.histogram([0, INF]), ArgumentError, "in strictly increasing order, got [0, inf]."),
        (lambda: monoids.histogram([NAN, 1]), ArgumentError, "in strictly increasing order, got [nan, 1]."),
        (lambda: monoids.histogram("ab"), KindError, "in strictly increasing order, got 'ab'."),
        (lambda: monoids.histogram(5), KindError, "in strictly increasing order, got 5."),
        (lambda: monoids.histogram([0, "b"]), KindError, "in strictly increasing order, got [0, 'b']."),
        (lambda: monoids.decayed_sum(0), ArgumentError, "half_life must be a positive number"),
        (lambda: monoids.decayed_sum(INF), ArgumentError, "or a positive timedelta, got inf."),
        (lambda: monoids.decayed_sum(-dt.timedelta(1)), ArgumentError, "or a positive timedelta, got "),
        (lambda: monoids.decayed_sum(np.timedelta64(1, "M")), ArgumentError, "or a positive timedelta, got "),
        (lambda: monoids.decayed_sum(np.timedelta64("NaT")), ArgumentError, "or a positive timedelta, got "),
        (lambda: monoids.decayed_sum("1h"), KindError, "or a positive timedelta, got '1h'."),
        (lambda: monoids.decayed_sum(True), KindError, "or a positive timedelta, got True."),
        (lambda: monoids.bloom(error=0.1), ArgumentError, "error must be None if capacity is None, got 0.1."),
        (lambda: monoids.bloom(capacity=0), ArgumentError, "capacity must be an int of at least 1, got 0."),
        (lambda: monoids.bloom(capacity=5, error=1), ArgumentError, "error must be a number between 0 and 1, got 1."),
        (lambda: monoids.bloom(capacity=5, error="x"), KindError, "error must be a number between 0 and 1, got 'x'."),
        (lambda: monoids.bloom(capacity=10**12), ArgumentError, "got 1000000000000, which with error=0.01 needs"),
        (lambda: monoids.hyperloglog(lg_k=3), ArgumentError, "lg_k must be an int from 4 to 18, got 3."),
        (lambda: monoids.struct(), ArgumentError, "fields must be 1 to 64 monoids, got 0."),
        (lambda: monoids.struct(**{f"f{i}": monoids.sum() for i in range(65)}), ArgumentError, "monoids, got 65."),
        (lambda: monoids.struct(a=sum), KindError, "a must be a Monoid, got <built-in function sum>."),
        (
            lambda: monoids.struct(a=monoids.struct(b=monoids.sum())),
            ArgumentError,
            "a must not be a struct itself, got struct(b=sum()).",
        ),
        (
            lambda: monoids.struct(a=monoids.sum("x"), b=monoids.max()),
            ArgumentError,
            "b must name its column because a does: all fields name columns, or none.",
        ),
    ],
)
def test_bad_arguments(make: Any, error: type[Exception], sentence: str) -> None:
    """The message has the argument, what is accepted and the value."""
    with pytest.raises(error) as caught:
        make()
    assert sentence in str(caught.value) and str(caught.value).endswith(".")
    assert caught.value.argument == str(caught.value).split()[0]


@pytest.mark.parametrize(
    "monoid, value, sentence",
    [
        (monoids.count_if(), None, "value must not be None."),
        (monoids.mean(), "5", "value must be a number, got '5'."),
        (monoids.product(), "5", "value must be a number, got '5'."),
        (monoids.variance(), [1], "value must be a number, got [1]."),
        (monoids.rate(), dt.timedelta(1), "value must be a number, got datetime.timedelta"),
        (monoids.weighted_mean(), 5, "value must be a pair (value, weight), got 5."),
        (monoids.argmin(), (1, None), "value must be a pair (by, value), got (1, None)."),
        (monoids.correlation(), (1, 2, 3), "value must be a pair (x, y), got (1, 2, 3)."),
        (monoids.affine(), (1, "b"), "value must be a number, got 'b'."),
        (monoids.top_k(2), None, "value must not be None."),
        (monoids.bit_or(), 1.0, "value must be an int, got 1.0."),
        (monoids.bit_or(), None, "value must be an int, got None."),
        (monoids.all(), np.arange(2), "value must be a bool or a number, got array"),
        (monoids.histogram([0, 1]), None, "value must be a number, got None."),
    ],
    ids=repr,
)
def test_bad_values(monoid: Monoid, value: Any, sentence: str) -> None:
    """A value that a monoid cannot read is refused in one sentence."""
    with pytest.raises(KindError) as caught:
        lifted(monoid, [value])
    assert sentence in str(caught.value)
