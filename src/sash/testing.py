"""Property-based checks of the monoid laws, for the tests of custom monoids.

`check_monoid` draws values and raises an error that names the law that a monoid breaks, with an example. It requires
hypothesis, which sash itself does not: `pip install hypothesis`.

States and results are compared as in `sash.equality`. Two states are equal if their values are, or if no result
distinguishes them: neither their own nor one with further states before and after them. With a tolerance (for a
monoid that is not `exact`, or `tolerance=`), finite numbers are equal if they differ by at most the tolerance times the
largest number among the compared states.
"""

import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sash.equality import Frozen, is_finite, numbers_in, same
from sash.errors import KindError, ResultOverflowError, SashError, shown
from sash.monoid import Monoid
from sash.window.window import Window

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LawError", "check_monoid", "commutes"]

_TOLERANCE = 1e-9
_INT64 = np.iinfo(np.int64)

# Small nodes, so that a dozen entries make a tree. The queues take times in order only.
_TREES: dict[str, dict[str, int]] = {
    "fiba": {"leaf_capacity": 2, "fanout": 4},
    "paper": {"min_arity": 2},
    "classic": {"min_arity": 2},
}
_QUEUES = ("two_stacks", "daba", "reactive")


class LawError(AssertionError):
    """A monoid breaks a law; the message names the law and has an example."""


def check_monoid(
    monoid: Monoid,
    values: "SearchStrategy[Any]",
    *,
    times: "SearchStrategy[Any] | None" = None,
    max_examples: int = 100,
    tolerance: float | None = None,
    pickled: bool = True,
) -> None:
    """Raise a `LawError` if an example breaks a law that windows rely on.

    The laws: `combine` is associative and `identity` neutral on both sides; the states of up to 100 values have one
    aggregate in every grouping; `lift`, `combine` and `lower` do not change their arguments; `commutative=True` is
    true; the monoid and its states survive pickling (`pickled=False` skips that, for lambdas); windows of every
    structure, including native ones, return the same results as the Python definition, for native times and for
    others. A native integer result that does not fit int64 raises in the window, which is not a violation.

    `values` is a hypothesis strategy for inserted values, and `times` one for times, by default small ints. A timed
    monoid gets the ends of the query as its range, or the window's oldest and newest time if there are none.
    `tolerance` is relative, see above: by default 0 for an `exact` monoid and 1e-9 for others. Exceptions of the
    monoid's own functions are not caught.

    >>> from hypothesis import strategies as st
    >>> from sash import Monoid, monoids
    >>> check_monoid(monoids.max(), st.integers(-9, 9))
    >>> check_monoid(Monoid(identity=0, combine=max), st.integers(-9, 9))
    Traceback (most recent call last):
    sash.testing.LawError: the identity is not neutral: identity ⊗ a = 0 for a=-1 and identity=0.
    """
    laws = _Laws(monoid, tolerance)
    if pickled:
        laws.pickling()
    instants = _times(times)
    _run(laws.states, (_groups(values), _ascending(instants, _GROUPED) if monoid.timed else None), max_examples)
    _run(laws.folds, (_runs(values, instants if monoid.timed else None),), max(max_examples // 4, 1))
    _run(laws.windows, (_events(values, instants), _ascending(instants, 2)), max_examples)


def commutes(
    monoid: Monoid,
    values: "SearchStrategy[Any]",
    *,
    times: "SearchStrategy[Any] | None" = None,
    max_examples: int = 100,
    tolerance: float | None = None,
) -> bool:
    """Return whether no example was found for which the order of arguments changes the result of `combine`.

    For a monoid with `commutative=False`: if this returns True, it may be worth a proof.

    >>> from hypothesis import strategies as st
    >>> from sash import monoids
    >>> commutes(monoids.max(), st.integers()), commutes(monoids.last(), st.integers())
    (True, False)
    """
    laws = _Laws(monoid, tolerance)
    drawn = (_groups(values), _ascending(_times(times), _GROUPED) if monoid.timed else None)
    try:
        _run(lambda groups, instants: laws.commutative(laws.drawn(groups, instants)), drawn, max_examples)
    except LawError:
        return False
    return True


# --- examples -------------------------------------------------------------------------------------

_GROUPED = 8  # the most values in one example of states: 1 + 2 + 2 + 2 + 1
_LENGTHS = (3, 6, 12, 25, 50, 100)  # of runs: how many values a state of bounded size holds is not known


def _hypothesis() -> Any:
    try:
        import hypothesis
    except ImportError:
        raise SashError("sash.testing needs hypothesis, which is not installed; run pip install hypothesis.") from None
    return hypothesis


def _groups(values: Any) -> Any:
    """Return a strategy for five lists of values: one before, three to combine, and one after."""
    st = _strategies(values, "values")
    one, some = st.lists(values, max_size=1), st.lists(values, min_size=1, max_size=2)
    return st.tuples(one, some, some, some, one)


def _runs(values: Any, times: Any) -> Any:
    """Return a strategy for many values in a row, with times in order or None."""
    st = _strategies(values, "values")
    moments = st.none() if times is None else times

    def run(length: int) -> Any:
        return st.tuples(
            st.lists(values, min_size=length, max_size=length),
            st.lists(moments, min_size=length, max_size=length).map(
                lambda each: each if times is None else sorted(each)
            ),
            st.integers(1, length - 1),
        )

    return st.sampled_from(_LENGTHS).flatmap(run)


def _ascending(times: Any, count: int) -> Any:
    return _strategies(times, "times").lists(times, min_size=count, max_size=count).map(sorted)


def _events(values: Any, times: Any) -> Any:
    st = _strategies(values, "values")
    return st.lists(st.tuples(times, values), max_size=10)


def _times(times: Any) -> Any:
    return _hypothesis().strategies.integers(-6, 6) if times is None else times


def _strategies(strategy: Any, argument: str) -> Any:
    st = _hypothesis().strategies
    if not isinstance(strategy, st.SearchStrategy):
        raise KindError(f"{argument} must be a hypothesis strategy, got {shown(strategy)}.", argument=argument)
    return st


def _run(law: Callable[..., None], drawn: tuple[Any, ...], max_examples: int) -> None:
    """Check a law over examples, and raise the error of the smallest one that fails."""
    hypothesis = _hypothesis()
    st, none = hypothesis.strategies, hypothesis.strategies.none()

    def example(arguments: tuple[Any, ...]) -> None:
        law(*arguments)

    quietly = hypothesis.settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    strategy = st.tuples(*(none if each is None else each for each in drawn))
    try:
        quietly(hypothesis.given(strategy)(example))()
    except LawError as error:
        raise LawError(*error.args) from None
    except hypothesis.errors.Flaky:
        raise LawError("the monoid returns different results for the same values.") from None


# --- laws -----------------------------------------------------------------------------------------


class _State(NamedTuple):
    """A state, and the values that it was computed from."""

    state: Any
    values: list[Any]


class _Drawn(NamedTuple):
    before: _State
    a: _State
    b: _State
    c: _State
    behind: _State
    start: Any
    stop: Any

    def described(self, *names: str) -> str:
        states = [getattr(self, name) for name in names]
        shown_states = ", ".join(f"{name}={shown(each.state)}" for name, each in zip(names, states, strict=True))
        lifted = [each.values[0] if len(each.values) == 1 else each.state for each in states]
        if all(same(one, each.state) for one, each in zip(lifted, states, strict=True)):
            return shown_states
        return f"{shown_states}, from the values {', '.join(shown(each.values) for each in states)}"


class _Laws:
    """The laws of one monoid."""

    def __init__(self, monoid: Monoid, tolerance: float | None) -> None:
        self.monoid = monoid
        self.tolerance = (0.0 if monoid.exact else _TOLERANCE) if tolerance is None else tolerance
        self.twin: _Laws | None = None  # those of the monoid's own pickle

    # The monoid's functions, each checked: they must not change their arguments.

    def lift(self, value: Any, time: Any) -> Any:
        lift: Any = self.monoid.lift
        if lift is None:
            return value
        arguments = (value, time) if self.monoid.timed else (value,)
        return self._watched("lift", lift, arguments, ("its value", "its time"))

    def combine(self, a: Any, b: Any) -> Any:
        return self._watched("combine", self.monoid.combine, (a, b), ("its left argument", "its right argument"))

    def lower(self, state: Any, start: Any, stop: Any) -> Any:
        lower: Any = self.monoid.lower
        if lower is None:
            return state
        arguments = (state, start, stop) if self.monoid.timed else (state,)
        return self._watched("lower", lower, arguments, ("its state", "its start", "its stop"))

    def _watched(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], words: tuple[str, ...]
    ) -> Any:
        before = [Frozen(each) for each in arguments]
        identity = Frozen(self.monoid.identity)
        result = function(*arguments)
        for frozen, now, word in zip(before, arguments, words, strict=False):
            if frozen.differs(now):
                raise LawError(f"{name} changes {word}: it was {frozen.text} and became {shown(now)}.")
        if identity.differs(self.monoid.identity):
            raise LawError(f"{name} changes the identity: {identity.text} became {shown(self.monoid.identity)}.")
        return result

    # States.

    def drawn(self, groups: tuple[list[Any], ...], instants: list[Any] | None) -> _Drawn:
        """Lift the values of an example, and combine those of each group."""
        moments = instants or [None] * _GROUPED
        remaining = iter(moments)
        before, a, b, c, behind = (self._group(values, remaining) for values in groups)
        return _Drawn(before, a, b, c, behind, moments[0], moments[-1])

    def _group(self, values: list[Any], times: Iterator[Any]) -> _State:
        lifted = [self.lift(value, next(times)) for value in values]
        return _State(reduce(self.combine, lifted) if lifted else self.monoid.identity, values)

    def states(self, groups: tuple[list[Any], ...], instants: list[Any] | None) -> None:
        """Check the laws of states with one example."""
        drawn = self.drawn(groups, instants)
        self.associative(drawn)
        self.neutral(drawn)
        if self.monoid.commutative:
            self.commutative(drawn)

    def folds(self, run: tuple[list[Any], list[Any], int]) -> None:
        """Check that the states of many values have one aggregate, however they are grouped."""
        values, times, cut = run
        states = [self.lift(value, time) for value, time in zip(values, times, strict=True)]
        one_by_one = reduce(self.combine, states)
        first, whole, last = _State(states[0], values[:1]), _State(one_by_one, values), _State(states[-1], values[-1:])
        drawn = _Drawn(first, whole, whole, whole, last, times[0], times[-1])
        for grouping, got in (
            ("in two parts", self.combine(reduce(self.combine, states[:cut]), reduce(self.combine, states[cut:]))),
            ("from the right", reduce(lambda later, state: self.combine(state, later), reversed(states))),
            ("as a balanced tree", self._balanced(states)),
        ):
            if not self._alike(one_by_one, got, drawn):
                raise LawError(
                    f"combine is not associative: the state of {len(values)} values is {shown(one_by_one)} if they are "
                    f"folded from the left, but {shown(got)} if folded {grouping}, for the values {shown(values)}."
                )

    def _balanced(self, states: list[Any]) -> Any:
        middle = len(states) // 2
        return self.combine(self._balanced(states[:middle]), self._balanced(states[middle:])) if middle else states[0]

    def associative(self, drawn: _Drawn) -> None:
        a, b, c = drawn.a.state, drawn.b.state, drawn.c.state
        left = self.combine(self.combine(a, b), c)
        right = self.combine(a, self.combine(b, c))
        if not self._alike(left, right, drawn):
            raise LawError(
                f"combine is not associative: (a ⊗ b) ⊗ c = {shown(left)} but a ⊗ (b ⊗ c) = {shown(right)} "
                f"for {drawn.described('a', 'b', 'c')}."
            )

    def neutral(self, drawn: _Drawn) -> None:
        a, identity = drawn.a.state, self.monoid.identity
        for formula, got in (
            ("identity ⊗ a", self.combine(identity, a)),
            ("a ⊗ identity", self.combine(a, identity)),
        ):
            if not self._alike(got, a, drawn):
                raise LawError(
                    f"the identity is not neutral: {formula} = {shown(got)} for {drawn.described('a')} "
                    f"and identity={shown(identity)}."
                )

    def commutative(self, drawn: _Drawn) -> None:
        ab, ba = self.combine(drawn.a.state, drawn.b.state), self.combine(drawn.b.state, drawn.a.state)
        if not self._alike(ab, ba, drawn):
            raise LawError(
                f"commutative=True is not true: a ⊗ b = {shown(ab)} but b ⊗ a = {shown(ba)} "
                f"for {drawn.described('a', 'b')}; leave commutative at False."
            )

    def _alike(self, left: Any, right: Any, drawn: _Drawn) -> bool:
        """Return whether two states are equal: their values, or all results that they lead to."""
        states = [each.state for each in drawn[:5]]
        if same(left, right, self._slack(left, right, *states)):
            return True
        if self.monoid.lower is None:
            return False
        before, behind = drawn.before.state, drawn.behind.state
        pairs = [
            (left, right),
            (self.combine(before, left), self.combine(before, right)),
            (self.combine(left, behind), self.combine(right, behind)),
        ]
        results = [[self.lower(state, drawn.start, drawn.stop) for state in pair] for pair in pairs]
        return all(same(one, two, self._slack(one, two, left, right, *states)) for one, two in results)

    def _slack(self, *compared: Any) -> float | None:
        """Return how much numbers may differ, or None if they must be equal."""
        if not self.tolerance:
            return None
        return self.tolerance * max((abs(n) for n in numbers_in(compared) if is_finite(n)), default=0.0)

    # Pickles.

    def pickling(self) -> None:
        """Check that the monoid's pickle is equal to it."""
        try:
            twin = pickle.loads(pickle.dumps(self.monoid))
        except Exception as error:
            raise LawError(
                f"the monoid cannot be pickled ({shown(error)}): define its functions in a module, "
                f"or set pickled=False if it never leaves this process."
            ) from None
        if twin != self.monoid:
            raise LawError(f"the monoid is not equal to its own pickle: {shown(self.monoid)} became {shown(twin)}.")
        self.twin = _Laws(twin, self.tolerance)

    def survives(self, state: Any, result: Any, start: Any, stop: Any) -> None:
        """Check that a state's pickle lowers to the same result, by the monoid's own pickle."""
        if self.twin is None:
            return
        try:
            loaded = pickle.loads(pickle.dumps(state))
        except Exception as error:
            raise LawError(f"a state cannot be pickled: {shown(state)} ({shown(error)}).") from None
        joined = self.twin.combine(self.twin.monoid.identity, loaded)
        for got in (self.twin.lower(loaded, start, stop), self.twin.lower(joined, start, stop)):
            if not same(got, result, self._slack(got, result, state)):
                raise LawError(
                    f"a state changes by pickling: {shown(state)} has the result {shown(result)}, "
                    f"and its pickle {shown(got)}."
                )

    def repeats(self, ordered: list[tuple[Any, Any]], expected: "_Answer") -> None:
        """Check that the monoid's pickle returns the same result."""
        got = expected if self.twin is None else self.twin._expected(ordered, None)
        if not same(got.result, expected.result, expected.slack):
            raise LawError(
                f"the monoid's pickle is another monoid: it returns {shown(got.result)} instead of "
                f"{shown(expected.result)} for the times and values {_listed(ordered)}."
            )

    # Windows.

    def windows(self, events: list[tuple[Any, Any]], cuts: list[Any]) -> None:
        """Check the results of windows against those of the Python definition."""
        ordered = sorted(events, key=lambda event: event[0])
        everything = self._expected(ordered, None)
        self.repeats(ordered, everything)
        inside = self._expected([e for e in ordered if cuts[0] <= e[0] <= cuts[1]], (cuts[0], cuts[1]))
        rest = self._expected([e for e in ordered if cuts[0] < e[0]], None)
        for name, options in _TREES.items():
            window = Window(self.monoid, structure=name, **options)
            _fill(window, events, name == "fiba")
            self._compare(window, everything, events, name)
            self._compare(window, inside, events, name, *cuts)
            window.evict_until(cuts[0])
            self._compare(window, rest, events, name)
        for name in _QUEUES:
            window = Window(self.monoid, structure=name)
            _fill(window, ordered, name == "daba")
            self._compare(window, everything, ordered, name)
            window.evict_until(cuts[0])
            self._compare(window, rest, ordered, name)
        self._objects(events, cuts, everything, inside)

    def _objects(
        self, events: list[tuple[Any, Any]], cuts: list[Any], everything: "_Answer", inside: "_Answer"
    ) -> None:
        """Check windows with the same times as objects, which are not native, so that the Python definition runs."""
        as_object: Callable[[Any], Any] = _tuple
        if self.monoid.timed:
            if not all(isinstance(time, int) for time in [*cuts, *(time for time, _ in events)]):
                return  # such times have no objects with the same differences
            as_object = Fraction
        window = Window(self.monoid, leaf_capacity=2, fanout=4)
        _fill(window, [(as_object(time), value) for time, value in events], True)
        self._compare(window, everything, events, "fiba of times that are objects")
        self._compare(window, inside, events, "fiba of times that are objects", *map(as_object, cuts))

    def _expected(self, ordered: list[tuple[Any, Any]], bounds: tuple[Any, Any] | None) -> "_Answer":
        if not ordered:
            return _Answer(self.lower(self.monoid.identity, *bounds) if bounds else self.monoid.empty(), None)
        lifted = [self.lift(value, time) for time, value in ordered]
        states = list(accumulate(lifted, self.combine))
        start, stop = bounds or (ordered[0][0], ordered[-1][0])
        result = self.lower(states[-1], start, stop)
        self.survives(states[-1], result, start, stop)
        return _Answer(result, self._slack(lifted, states, result))

    def _compare(
        self, window: Window, expected: "_Answer", events: list[tuple[Any, Any]], name: str, *ends: Any
    ) -> None:
        try:
            got = window.query(*ends)
        except ResultOverflowError:
            if any(not _INT64.min <= number <= _INT64.max for number in numbers_in(expected.result)):
                return
            got = "an overflow"
        if not same(got, expected.result, expected.slack):
            call = f"query({', '.join(map(shown, ends))})"
            raise LawError(
                f"a window ({name}) and the Python definition differ: {call} = {shown(got)} but lift, combine and "
                f"lower return {shown(expected.result)} for the times and values {_listed(events)}."
            )


class _Answer(NamedTuple):
    result: Any
    slack: float | None


def _fill(window: Window, events: list[tuple[Any, Any]], singly: bool) -> None:
    if singly:
        for time, value in events:
            window.insert(time, value)
    elif events:
        times, values = zip(*events, strict=True)
        window.insert_many(list(times), list(values))


def _tuple(time: Any) -> tuple[Any]:
    return (time,)


def _listed(events: list[tuple[Any, Any]]) -> str:
    return "[" + ", ".join(map(shown, events)) + "]"
