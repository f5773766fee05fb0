"""The manners of a container: len, in, iteration, items, ends, copy, pickle, equality, repr."""

import gc
import pickle
import weakref

import pytest

from sash import Monoid, Window, monoids
from support.cases import bracket_monoid, concat_monoid
from support.structures import STRUCTURES, Structure


def filled(structure: Structure, monoid: Monoid | None = None) -> Window:
    window = structure.window(monoid or concat_monoid())
    window.insert_many([1, 2, 3, 5, 8], list("abcde"))
    return window


def test_an_empty_window(structure: Structure) -> None:
    """An empty window has no ends, no items, and answers with the identity."""
    window = structure.window(concat_monoid())
    assert len(window) == 0 and not window and list(window) == list(reversed(window)) == list(window.items()) == []
    assert window.oldest is None and window.newest is None and window.query() == ""
    assert window.evict(3) is False and window.evict_until(3) == 0 and 3 not in window
    window.check_invariants()


def test_an_emptied_window(structure: Structure) -> None:
    """A window that was emptied is like a new one, and fills again."""
    window = filled(structure)
    assert window.evict_until(8) == 5
    assert len(window) == 0 and window.query() == "" and window.newest is None
    window.insert(1, "z")
    assert list(window.items()) == [(1, "z")]


def test_times_and_items_in_both_directions(structure: Structure) -> None:
    """Iteration ascends, reversed descends, items pairs each time with its value."""
    window = filled(structure)
    assert list(window) == [1, 2, 3, 5, 8] and list(reversed(window)) == [8, 5, 3, 2, 1]
    assert list(window.items()) == list(zip([1, 2, 3, 5, 8], "abcde", strict=True))
    assert list(window.items(2, 5)) == [(2, "b"), (3, "c"), (5, "d")]
    assert list(window.items(2, 5, closed="right", reverse=True)) == [(5, "d"), (3, "c")]
    assert list(window.items(stop=2)) == [(1, "a"), (2, "b")]
    assert (window.oldest, window.newest) == (1, 8)


def test_items_are_lowered(structure: Structure) -> None:
    """items returns the lowered aggregate of each time."""
    window = structure.window(bracket_monoid())
    window.insert_many([1, 2, 2], list("abc"))
    assert list(window.items()) == [(1, "<a>"), (2, "<bc>")] and window.query() == "<abc>"


def test_iterators_are_independent(structure: Structure) -> None:
    """Two iterators over one window do not disturb each other."""
    window = filled(structure)
    one, other = iter(window), iter(window)
    assert [next(one), next(one), next(other), next(one), next(other)] == [1, 2, 1, 3, 2]


@pytest.mark.parametrize("change", ["insert", "combine", "insert_many", "evict", "evict_until", "slide"])
def test_changing_while_iterating(structure: Structure, change: str) -> None:
    """A change makes every iterator over the window raise RuntimeError, and never crash."""
    for begin in (iter, reversed, Window.items):
        window = filled(structure)
        iterator = iter(begin(window))
        next(iterator)
        {
            "insert": lambda w=window: w.insert(9, "z"),
            "combine": lambda w=window: w.insert(8, "z"),
            "insert_many": lambda w=window: w.insert_many([9, 10], ["y", "z"]),
            "evict": lambda w=window: w.evict(1),
            "evict_until": lambda w=window: w.evict_until(5),
            "slide": lambda w=window: w.slide([9], ["z"], count=2),
        }[change]()
        with pytest.raises(RuntimeError):
            next(iterator)


def test_an_iterator_outlives_its_window(structure: Structure) -> None:
    """An iterator keeps what it needs alive."""
    iterator = iter(filled(structure).items())
    assert list(iterator) == list(zip([1, 2, 3, 5, 8], "abcde", strict=True))


def test_queries_do_not_disturb_iteration(structure: Structure) -> None:
    """Queries do not count as changes."""
    window = filled(structure)
    seen = []
    for time in window:
        window.query()
        len(window)
        assert time in window and window.evict(99) is False
        seen.append(time)
    assert seen == [1, 2, 3, 5, 8]


def test_equality_is_about_monoid_and_contents() -> None:
    """Windows with one monoid and the same contents are equal whatever their structure or history."""
    windows = [filled(structure) for structure in STRUCTURES]
    for window in windows:
        assert window == windows[0] and not window != windows[0]
    for structure in STRUCTURES:
        other = filled(structure)
        other.insert(9, "x")
        assert other != windows[0]
        if other.structure != "two_stacks" and structure.evicts_anywhere:
            other.evict(9)
            assert other == windows[0]
        other = structure.window(concat_monoid())
        other.insert_many([1, 2, 3, 5, 8], list("abcdX"))
        assert other != windows[0]
        assert filled(structure, Monoid(identity="", combine=lambda a, b: b + a)) != windows[0]


def test_equality_with_strangers(structure: Structure) -> None:
    """A window equals no other kind of thing, and has no hash."""
    window = filled(structure)
    assert window != [1, 2, 3, 5, 8] and window != None  # noqa: E711
    with pytest.raises(TypeError):
        hash(window)


def test_copy_is_independent(structure: Structure) -> None:
    """Changes to a copy stay in the copy."""
    window = filled(structure)
    copy = window.copy()
    copy.insert(9, "x")
    copy.evict(1)
    assert window.query() == "abcde" and copy.query() == "bcdex"
    assert (copy.structure, copy.min_arity, copy.monoid) == (
        window.structure,
        window.min_arity,
        window.monoid,
    )
    copy.check_invariants()


def test_copy_keeps_the_kinds(structure: Structure) -> None:
    """A copy of an emptied window holds on to its kind of time."""
    window = filled(structure)
    window.evict_until(8)
    for other in (window.copy(), pickle.loads(pickle.dumps(window))):
        with pytest.raises(TypeError):
            other.insert("one", "a")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(structure: Structure, protocol: int) -> None:
    """A pickled window comes back equal, sound and alive."""
    for monoid, values in ((concat_monoid(), list("abcde")), (monoids.sum(), [1, 2, 3, 4, 5])):
        window = structure.window(monoid)
        window.insert_many([1, 2, 3, 5, 8], values)
        window.evict(1)
        loaded = pickle.loads(pickle.dumps(window, protocol))
        assert loaded == window and (loaded.structure, loaded.min_arity) == (
            window.structure,
            window.min_arity,
        )
        loaded.insert(9, values[0])
        assert len(loaded) == 5 and len(window) == 4
        loaded.check_invariants()


def test_repr_says_what_it_is(structure: Structure) -> None:
    """repr names the class and the structure on one line, however long the window."""
    window = structure.window(monoids.sum())
    window.insert_many(range(10_000), [1] * 10_000)
    shown = repr(window)
    assert "Window" in shown and structure.name in shown and "\n" not in shown and len(shown) < 300


def test_properties(structure: Structure) -> None:
    """A window says what it was made of, and does not let that be changed."""
    monoid = concat_monoid()
    window = structure.window(monoid)
    assert window.monoid == monoid and window.structure == structure.name
    assert window.min_arity == structure.kwargs.get("min_arity")
    for name in ("monoid", "structure", "min_arity", "combines", "spent", "oldest", "newest"):
        with pytest.raises(AttributeError):
            setattr(window, name, None)


def test_default_arity() -> None:
    """Trees have min_arity 4 by default."""
    assert Window(monoids.sum(), structure="paper").min_arity == 4
    assert Window(monoids.sum(), structure="classic").min_arity == 4


def test_evict_until_counts(structure: Structure) -> None:
    """evict_until removes up to and with the time, or up to and without it, and counts."""
    window = filled(structure)
    assert window.evict_until(3, inclusive=False) == 2 and window.oldest == 3
    assert window.evict_until(4) == 1 and window.evict_until(4) == 0
    assert window.query() == "de"


def test_large_windows_fill_and_drain(structure: Structure) -> None:
    """Thousands of entries go in and out, singly and in bulk, and the invariants hold along the way."""
    window = structure.window(monoids.sum())
    n = 3000
    window.insert_many(range(n), [1] * n)
    window.check_invariants()
    for time in range(n // 2):
        assert window.evict(time)
    window.check_invariants()
    assert window.query() == n - n // 2
    assert window.evict_until(n - 2) == n - n // 2 - 1
    window.check_invariants()
    assert list(window) == [n - 1]


class RetainedRows:
    """Something whose life can be watched."""


def held_monoid() -> Monoid:
    return Monoid(identity=(), combine=lambda left, right: left + right, lift=lambda value: (value,))


def test_evicted_values_are_let_go(structure: Structure) -> None:
    """A window keeps its values alive no longer than it holds them, in its aggregates neither."""
    window = structure.window(held_monoid())
    watched = []
    for time in range(60):
        value = RetainedRows()
        watched.append(weakref.ref(value))
        window.insert(time, value)
    del value
    window.query()
    assert all(ref() is not None for ref in watched)
    assert window.evict_until(39) == 40
    window.query()
    gc.collect()
    assert [ref() is not None for ref in watched] == [False] * 40 + [True] * 20
    del window
    gc.collect()
    assert all(ref() is None for ref in watched)


def test_failed_calls_let_go_of_their_values(structure: Structure) -> None:
    """A value whose insert failed is not kept."""

    def refuse(left: object, right: object) -> object:
        raise ValueError

    window = structure.window(Monoid(identity=None, combine=refuse))
    window.insert(1, RetainedRows())
    value = RetainedRows()
    watched = weakref.ref(value)
    for call in (lambda v: window.insert(1, v), lambda v: window.insert_many([2, 2], [1, v])):
        with pytest.raises(ValueError):
            call(value)
    del value
    gc.collect()
    assert watched() is None and len(window) == 1


def entangled(structure: Structure) -> weakref.ref[RetainedRows]:
    """Leave behind a window that its own monoid and values refer to, and give a watch on what they hold."""
    held = RetainedRows()
    box: list[object] = [held]
    monoid = Monoid(identity=(), combine=lambda left, right: left + right, lift=lambda value: (value, box))
    window = structure.window(monoid)
    box.append(window)
    window.insert_many(range(50), [box] * 50)
    return weakref.ref(held)


def test_cycles_through_the_monoid_are_collected(structure: Structure) -> None:
    """A window whose own monoid or values refer to it is garbage once nothing else does."""
    watched = entangled(structure)
    gc.collect()
    assert watched() is None
