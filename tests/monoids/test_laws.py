"""Every built-in keeps the laws of a monoid, extreme values included, and `check_monoid` catches those that do not."""

import math
import operator
import random
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from sash import KindError, Monoid, SashError, monoids
from sash.testing import LawError, check_monoid, commutes

LOW, HIGH = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf
EXAMPLES = 20

# --- values ---------------------------------------------------------------------------------------

SMALL = st.integers(-9, 9)
INTS = st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH]) | st.integers(LOW, HIGH)
SPECIAL = st.sampled_from([NAN, INF, -INF, -0.0, 0.0, 5e-324, -1e308, 1e308])
FLOATS = SPECIAL | st.floats()
# Eighths add without rounding, and are never so close to one another that a moment is all cancellation.
TAME = st.integers(-800, 800).map(lambda n: n / 8)
BROKEN = st.sampled_from([NAN, INF, -INF, -0.0]) | TAME
POSITIVE = st.integers(1, 800).map(lambda n: n / 8)
WORDS = st.sampled_from(["", "a", "ä", "a\u0308", "\x00", "日本", "🎈", "\ud800"]) | st.text(max_size=3)
BYTES = st.binary(max_size=3)
TRUTHS = st.booleans() | st.sampled_from([0, 1, -0.0, NAN, 2.5])
ANYTHING = st.none() | SMALL | WORDS | FLOATS


def pairs(*members: Any) -> Any:
    return st.tuples(*members)


def alike(names: list[str], kinds: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(names, kinds)


ORDERED = {"ints": INTS, "floats": FLOATS, "words": WORDS}
NUMBERS = {"ints": INTS, "floats": FLOATS}
ROUNDED = {"ints": SMALL, "floats": TAME, "not finite": BROKEN}
JOINT = {"floats": pairs(TAME, TAME), "ints": pairs(SMALL, SMALL), "not finite": pairs(BROKEN, BROKEN)}
HASHED = {"ints": INTS, "floats": FLOATS, "words": WORDS, "bytes": BYTES}

# The values for each registered monoid; one without a line here fails the first test.
VALUES: dict[str, dict[str, Any]] = {
    "sum": ROUNDED | {"large ints": INTS, "large floats": st.floats(-1e300, 1e300)},
    "count": {"anything": ANYTHING},
    "count_if": {"truths": TRUTHS},
    "mean": ROUNDED | {"large ints": INTS},
    "product": {"ints": SMALL, "floats": POSITIVE},
    "weighted_mean": {"floats": pairs(TAME, POSITIVE), "not finite": pairs(BROKEN, POSITIVE)},
    **alike(["min", "max", "first", "last", "maxcount", "mincount"], ORDERED),
    **alike(["first_k", "last_k", "top_k", "bottom_k"], ORDERED),
    **alike(["range", "delta"], NUMBERS),
    **alike(["argmin", "argmax"], {kind: pairs(values, values) for kind, values in ORDERED.items()}),
    **alike(["variance", "std", "skewness", "kurtosis"], ROUNDED),
    **alike(["covariance", "correlation", "regression"], JOINT),
    "geomean": {"ints": st.integers(0, 99), "floats": POSITIVE, "not finite": st.sampled_from([NAN, INF, 0.0, 2.0])},
    **alike(["bit_and", "bit_or", "bit_xor"], {"ints": INTS}),
    **alike(["all", "any"], {"truths": TRUTHS}),
    "histogram": NUMBERS | {"at the edges": st.sampled_from([-0.0, 0, 10, 10.0, 20, 20.000000001])},
    **alike(["decayed_sum", "decayed_mean", "time_weighted_mean", "rate"], ROUNDED),
    "affine": {"ints": pairs(SMALL, SMALL), "floats": pairs(TAME, TAME)},
    **alike(["bloom", "hyperloglog"], HASHED),
    "struct": {"ints": INTS, "floats": FLOATS, "nulls": st.none() | INTS},
    "distinct": HASHED,
    "approx_quantile": NUMBERS | {"not finite": BROKEN},
    **alike(["quantile", "median"], {"ints": SMALL, "floats": TAME}),
    **alike(["collect_list", "collect_set"], HASHED),
    "string_agg": {"words": WORDS},
    "kll": {"ints": SMALL, "floats": TAME},
    **alike(["theta", "cpc"], {"ints": SMALL, "words": st.text("aäb日", max_size=2)}),
    "frequent_items": {"words": st.text("aäb日", max_size=2)},
}

# --- the built-ins --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A monoid, its values, and the other arguments of check_monoid."""

    label: str
    monoid: Monoid
    values: Any
    tolerance: float | None = None
    times: Any = None


def registered() -> list[Case]:
    return [
        Case(f"{name} of {kind}", monoid, values)
        for name, monoid in monoids.registry.EXAMPLES.items()
        for kind, values in VALUES.get(name, {}).items()
    ]


def several() -> Monoid:
    """A struct of fields that fail in different ways where nulls or times go wrong."""
    return monoids.struct(
        rows=monoids.count(),
        values=monoids.count("x"),
        total=monoids.sum("x"),
        least=monoids.min("y"),
        spread=monoids.variance("y"),
        newest=monoids.last("x"),
        best=monoids.argmax("x", "y"),
        kinds=monoids.hyperloglog("x", lg_k=4),
    )


def rows(x: Any, y: Any) -> Any:
    return st.fixed_dictionaries({"x": st.none() | x, "y": st.none() | y})


INSTANTS = st.integers(0, 60).map(lambda s: datetime(2024, 2, 29) + timedelta(seconds=s))
EVERY_NULL = st.just({"x": None, "y": None})
OTHERS = [
    Case("sum of ints is exact", monoids.sum(), INTS, 0.0),
    Case("mean of ints is exact", monoids.mean(), st.integers(-(2**40), 2**40), 0.0),
    Case("sum of big ints", monoids.sum(dtype=object), st.integers(), 0.0),
    Case("sum of fractions", monoids.sum(dtype=object), st.fractions(), 0.0),
    Case("exact sum", monoids.sum(exact=True), FLOATS),
    Case("product of big ints", monoids.product(dtype=object), st.integers(), 0.0),
    Case("product with no finite end", monoids.product(), st.sampled_from([NAN, INF, -INF, 1.0, -2.0])),
    Case("variance of a population", monoids.variance(ddof=0), TAME),
    Case("covariance of a population", monoids.covariance(ddof=0), pairs(TAME, TAME)),
    Case("first_k of one", monoids.first_k(1), SMALL),
    Case("top_k of many", monoids.top_k(99), FLOATS),
    Case("bloom by capacity", monoids.bloom(capacity=20, error=0.1), HASHED["words"]),
    Case("hyperloglog of few registers", monoids.hyperloglog(lg_k=4), INTS),
    Case("decayed_sum over instants", monoids.decayed_sum(timedelta(seconds=5)), TAME, times=INSTANTS),
    Case("decayed_mean over instants", monoids.decayed_mean(timedelta(seconds=5)), TAME, times=INSTANTS),
    Case("time_weighted_mean over instants", monoids.time_weighted_mean(), TAME, times=INSTANTS),
    Case("rate over floats", monoids.rate(), TAME, times=st.floats(-9, 9)),
    Case("struct of many fields", several(), rows(SMALL, TAME)),
    Case("struct of nulls alone", several(), EVERY_NULL),
    Case("struct of extremes", monoids.struct(a=monoids.max("x"), b=monoids.min("y")), rows(INTS, FLOATS)),
    Case(
        "struct with a time", monoids.struct(n=monoids.count(), mean=monoids.time_weighted_mean("y")), rows(INTS, TAME)
    ),
]
CASES = registered() + OTHERS


def test_every_registered_monoid_has_values() -> None:
    """A built-in without a line in the table above would not be tested."""
    assert set(monoids.registry.EXAMPLES) <= set(VALUES)
    assert set(monoids.registry.EXAMPLES) == set(monoids.registry.BUILT_IN)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_built_ins_keep_the_laws(case: Case) -> None:
    """Associative, neutral at both ends, changing nothing, pickling, and one answer by whatever path."""
    check_monoid(case.monoid, case.values, times=case.times, tolerance=case.tolerance, max_examples=EXAMPLES)


@pytest.mark.parametrize("name", sorted(monoids.registry.EXAMPLES))
def test_what_is_not_called_commutative_is_not(name: str) -> None:
    """A built-in leaves `commutative` at False only where some example shows that order matters."""
    monoid = monoids.registry.EXAMPLES[name]
    kind = "floats" if "floats" in VALUES[name] else next(iter(VALUES[name]))
    if not monoid.commutative:
        assert not commutes(monoid, VALUES[name][kind], max_examples=1000)


# --- monoids that are none ------------------------------------------------------------------------


def mean_of_means(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return (a + b) / 2


def left(a: Any, b: Any) -> Any:
    return a


def right(a: Any, b: Any) -> Any:
    return b


def extend(a: list[int], b: list[int]) -> list[int]:
    a.extend(b)
    return a


def prepend(a: list[int], b: list[int]) -> list[int]:
    b[:0] = a
    return b


def alone(value: int) -> list[int]:
    return [value]


def counted(value: list[int]) -> int:
    value.append(0)
    return len(value)


def drained(state: list[int]) -> int:
    total = sum(state)
    state.clear()
    return total


def concatenated(a: list[int], b: list[int]) -> list[int]:
    return a + b


def drifting(a: float, b: float) -> float:
    return a + b if abs(a) < 50 else a + b + 1e-3


class StopsAt(NamedTuple):
    """A combine of tuples that takes nothing more once its left side holds `most` values: associative up to there."""

    most: int

    def __call__(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return a if len(a) >= self.most else a + b


def lone(value: int) -> tuple[int]:
    return (value,)


CLAIMED = (("int64", "sum_int64"), ("float64", "sum_float64"))
NONE: dict[str, tuple[Monoid, Any, str]] = {
    "subtraction": (Monoid(identity=0, combine=operator.sub), SMALL, "combine is not associative|identity ⊗ a"),
    "mean of means": (Monoid(identity=None, combine=mean_of_means), TAME, r"not associative: \(a ⊗ b\) ⊗ c = "),
    "power": (Monoid(identity=1, combine=pow), st.integers(1, 3), "not associative|identity ⊗ a"),
    "an identity of max": (Monoid(identity=0, combine=max), SMALL, "identity ⊗ a = 0 for a=-1 and identity=0"),
    "no identity on the left": (Monoid(identity=None, combine=left), SMALL, "identity ⊗ a = None"),
    "no identity on the right": (Monoid(identity=None, combine=right), SMALL, "a ⊗ identity = None"),
    "a combine that changes its left": (
        Monoid(identity=[], combine=extend, lift=alone),
        SMALL,
        r"combine changes (its left argument|the identity): it was \[0\] and became \[0, 0\]",
    ),
    "a combine that changes its right": (
        Monoid(identity=[], combine=prepend, lift=alone),
        SMALL,
        r"combine changes its right argument: it was \[0\] and became \[0, 0\]",
    ),
    "a lift that changes its value": (
        Monoid(identity=0, combine=operator.add, lift=counted),
        st.lists(SMALL, max_size=2),
        r"lift changes its value: it was \[\] and became \[0\]",
    ),
    "a lower that changes its state": (
        Monoid(identity=[], combine=concatenated, lift=alone, lower=drained),
        SMALL,
        r"lower changes its state",
    ),
    "a concatenation that is called commutative": (
        Monoid(identity="", combine=operator.add, commutative=True),
        WORDS,
        "commutative=True is not true: a ⊗ b = ",
    ),
    "a native form that says something else": (
        Monoid(identity=0, combine=max, native=CLAIMED),
        st.integers(0, 9),
        "a window .* and the Python definition differ",
    ),
    "a sketch that stops at ten values": (
        Monoid(identity=(), combine=StopsAt(10), lift=lone, lower=len),
        SMALL,
        r"not associative: the state of 12 values is .* if they are folded from the left, but .* for the values \[",
    ),
    "a sketch that stops at sixty values": (
        Monoid(identity=(), combine=StopsAt(60), lift=lone),
        SMALL,
        r"not associative: the state of 100 values is ",
    ),
    "a sum that drifts more than it may": (
        Monoid(identity=0.0, combine=drifting, exact=False),
        TAME,
        "not associative|not neutral",
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_broken_monoids_are_caught(name: str) -> None:
    """One sentence names the law and the example."""
    monoid, values, message = NONE[name]
    with pytest.raises(LawError, match=message) as caught:
        check_monoid(monoid, values)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".") and not getattr(caught.value, "__notes__", [])
    assert isinstance(caught.value, AssertionError)


def test_a_lambda_asks_for_pickled_false() -> None:
    """A monoid of lambdas is legal where it stays in the process, and the error says how to say so."""
    monoid = Monoid(identity=0, combine=lambda a, b: a + b)
    with pytest.raises(LawError, match=r"cannot be pickled .* pickled=False"):
        check_monoid(monoid, SMALL)
    check_monoid(monoid, SMALL, pickled=False)


NOTHING = object()


def joined(a: Any, b: Any) -> Any:
    return b if a is NOTHING else a if b is NOTHING else a + b


def test_an_identity_known_by_where_it_lies_does_not_survive_a_pickle() -> None:
    """A sentinel is another object after a round trip; None is the one that is not."""
    with pytest.raises(LawError, match="not equal to its own pickle"):
        check_monoid(Monoid(identity=NOTHING, combine=joined), SMALL)
    check_monoid(Monoid(identity=NOTHING, combine=joined), SMALL, pickled=False)


class Forgetful(Monoid):
    """A monoid whose pickle is equal to it and does something else."""

    def __reduce__(self) -> Any:
        return forgotten, ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Monoid)

    __hash__ = Monoid.__hash__


def forgotten() -> Monoid:
    return Forgetful(identity=0, combine=operator.add, lift=abs)


def test_a_pickle_that_is_another_monoid() -> None:
    """Equality is not taken at its word: the pickle has to give the same results."""
    with pytest.raises(LawError, match=r"the monoid's pickle is another monoid: it returns 1 instead of -1"):
        check_monoid(Forgetful(identity=0, combine=operator.add), SMALL)


class Unsendable:
    """A state that does not pickle."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


def unsendable(value: int) -> Unsendable:
    return Unsendable()


def test_a_state_that_does_not_pickle() -> None:
    """The law of pickles holds for states too."""
    monoid = Monoid(identity=None, combine=joined_or_left, lift=unsendable, lower=bool)
    with pytest.raises(LawError, match="a state cannot be pickled"):
        check_monoid(monoid, SMALL)
    check_monoid(monoid, SMALL, pickled=False)


def joined_or_left(a: Any, b: Any) -> Any:
    return b if a is None else a


def test_a_combine_that_rolls_dice() -> None:
    """A combine that returns different results for the same arguments breaks one law or another."""
    monoid = Monoid(identity=0, combine=lambda a, b: a + b + random.randrange(1000))
    with pytest.raises(LawError):
        check_monoid(monoid, SMALL, pickled=False)


def test_what_is_not_called_commutative_may_be() -> None:
    """Only the claim is checked; `commutes` returns what the examples show."""
    check_monoid(Monoid(identity=0, combine=operator.add, commutative=False), SMALL)
    assert commutes(Monoid(identity=0, combine=operator.add), SMALL)
    assert not commutes(Monoid(identity="", combine=operator.add), WORDS)


def test_tolerance_is_what_the_caller_says() -> None:
    """Float sums differ in the last bits: too much for tolerance=0, nothing for an inexact monoid."""
    values = st.sampled_from([0.1, 0.2, 0.3, 0.7])
    check_monoid(Monoid(identity=0.0, combine=operator.add, exact=False), values)
    check_monoid(Monoid(identity=0.0, combine=operator.add), values, tolerance=1e-9)
    with pytest.raises(LawError, match="not associative"):
        check_monoid(Monoid(identity=0.0, combine=operator.add), values)


def test_zeros_have_signs_and_nan_is_itself() -> None:
    """0.0 in the place of -0.0 is a wrong answer; NaN in the place of NaN is none."""
    check_monoid(Monoid(identity=INF, combine=left_nan), st.sampled_from([NAN, 1.0]), pickled=False)
    with pytest.raises(LawError, match=r"identity ⊗ a = 0.0 for a=-0.0"):
        check_monoid(Monoid(identity=0.0, combine=operator.add), st.sampled_from([-0.0, 1.0]))


def left_nan(a: float, b: float) -> float:
    return NAN if NAN in (a, b) or a != a or b != b else min(a, b)


@dataclass
class Counter:
    """A state of a user's own, with no equality by value."""

    __eq__ = object.__eq__
    n: int


def tallied(value: Any) -> Counter:
    return Counter(1)


def added(a: Counter, b: Counter) -> Counter:
    return Counter(a.n + b.n)


def test_states_without_equality_are_compared_by_what_they_hold() -> None:
    """A user's class need not define __eq__ to be checked."""
    check_monoid(Monoid(identity=Counter(0), combine=added, lift=tallied), SMALL, pickled=False)
    with pytest.raises(LawError, match="not neutral"):
        check_monoid(Monoid(identity=Counter(1), combine=added, lift=tallied), SMALL, pickled=False)


def test_functions_fail_as_they_fail() -> None:
    """An error of the monoid's own comes through as it is."""
    with pytest.raises(ZeroDivisionError):
        check_monoid(Monoid(identity=1, combine=operator.floordiv), st.just(0))


def test_values_must_be_a_strategy() -> None:
    """A list of values in the place of a strategy is a KindError of one sentence."""
    with pytest.raises(KindError, match=r"^values must be a hypothesis strategy, got "):
        check_monoid(monoids.sum(), [1, 2, 3])  # type: ignore[arg-type]


def test_hypothesis_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hypothesis the error says what to install."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(SashError, match="pip install hypothesis"):
        check_monoid(monoids.sum(), SMALL)


def spread(value: float, time: Any) -> tuple[Any, float]:
    return time, value


def test_timed_monoids_get_times() -> None:
    """lift gets the time and lower the range; a lower that uses its own clock fails in the windows."""
    good = Monoid(identity=None, combine=joined_or_left, lift=spread, lower=age, timed=True)
    check_monoid(good, SMALL, max_examples=30)
    check_monoid(good, SMALL, max_examples=30, times=st.fractions(0, 9, max_denominator=9))


def age(state: tuple[Any, float] | None, start: Any, stop: Any) -> Any:
    return None if state is None else (stop - state[0], state[0] - start)
