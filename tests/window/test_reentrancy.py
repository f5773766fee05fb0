"""A window that is used from inside one of its own callbacks refuses, and stays as it was."""

from collections.abc import Callable
from typing import Any

import pytest

from sash import ConcurrentUseError, Monoid, SashError, SlideError, Window
from support.faults import snapshot
from support.structures import Structure

INNER: dict[str, Callable[[Window], Any]] = {
    "insert": lambda w: w.insert(99, "z"),
    "insert_many": lambda w: w.insert_many([98, 99], ["y", "z"]),
    "evict": lambda w: w.evict(1),
    "evict_until": lambda w: w.evict_until(2),
    "query": lambda w: w.query(),
    "slide": lambda w: w.slide([99], ["z"], count=3),
    "len": len,
    "contains": lambda w: 1 in w,
    "items": lambda w: list(w.items()),
    "copy": lambda w: w.copy(),
}
OUTER: dict[str, Callable[[Window], Any]] = {
    "insert": lambda w: w.insert(9, "x"),
    "insert_many": lambda w: w.insert_many([9, 9, 10], ["x", "y", "z"]),
    "query": lambda w: w.query(),
}


class Meddler:
    """A concatenation that can be set to use its window from inside one callback."""

    def __init__(self, structure: Structure, where: str) -> None:
        self.act: Callable[[Window], Any] | None = None
        self.where = where
        self.window = structure.window(
            Monoid(
                identity="",
                combine=lambda left, right: self.meddle("combine", left + right),
                lift=lambda value: self.meddle("lift", value),
                lower=lambda state: self.meddle("lower", state),
            )
        )
        self.window.insert_many(range(10), list("abcdefghij"))

    def meddle(self, where: str, value: str) -> str:
        if self.act is not None and where == self.where:
            self.act(self.window)
        return value

    def run(self, act: Callable[[Window], Any], outer: Callable[[Window], Any]) -> Any:
        self.act = act
        try:
            return outer(self.window)
        finally:
            self.act = None


@pytest.mark.parametrize("where, outer", [("combine", "insert"), ("lift", "insert_many"), ("lower", "query")])
@pytest.mark.parametrize("inner", INNER)
def test_use_from_a_callback_is_refused(structure: Structure, inner: str, where: str, outer: str) -> None:
    """Any use of a window from its own callback raises ConcurrentUseError, and nothing changes."""
    meddler = Meddler(structure, where)
    before = snapshot(meddler.window)
    with pytest.raises(ConcurrentUseError):
        meddler.run(INNER[inner], OUTER[outer])
    assert snapshot(meddler.window) == before


def test_a_callback_may_catch_the_refusal(structure: Structure) -> None:
    """A callback that catches the error continues, and so does the operation around it."""
    meddler = Meddler(structure, "combine")
    caught = []

    def try_it(window: Window) -> None:
        try:
            window.insert(99, "z")
        except ConcurrentUseError as error:
            caught.append(str(error))

    meddler.run(try_it, OUTER["insert"])
    assert caught and all("\n" not in message for message in caught)
    assert meddler.window.query() == "abcdefghijx"
    meddler.window.check_invariants()


def test_slide_wraps_the_refusal(structure: Structure) -> None:
    """From slide the refusal comes as the cause of a SlideError."""
    meddler = Meddler(structure, "lift")
    with pytest.raises(SlideError) as caught:
        meddler.run(len, lambda w: w.slide([9, 10], ["x", "y"], count=20))
    assert isinstance(caught.value.__cause__, ConcurrentUseError)
    assert caught.value.index == 0 and len(caught.value.results) == 0
    assert meddler.window.query() == "abcdefghij"


def test_another_window_may_be_used_in_a_callback(structure: Structure) -> None:
    """The refusal is for the busy window alone: a callback may use any other."""
    meddler, other = Meddler(structure, "combine"), Meddler(structure, "combine")
    meddler.run(lambda _: other.window.insert(9, "!"), OUTER["insert"])
    assert meddler.window.query() == "abcdefghijx"
    assert other.window.query().startswith("abcdefghij!")


def test_the_refusal_is_a_runtime_error_of_sash() -> None:
    """Callers may catch it as SashError or as RuntimeError."""
    assert issubclass(ConcurrentUseError, SashError) and issubclass(ConcurrentUseError, RuntimeError)
