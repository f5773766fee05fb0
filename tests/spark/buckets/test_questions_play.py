"""Questions beside a stream's events, in the play of Spark with its failures, against answers by brute force."""

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.stream import log
from support.buckets.questions import Questioned, QuestionTrial, plain

KEYS = st.sampled_from(["a", "b", "c", None])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.integers(2000, 2040), st.none() | st.integers(0, 9), st.booleans()), max_size=8),
        st.lists(st.tuples(KEYS, st.none() | st.integers(1990, 2060)), max_size=4),
    ),
    min_size=1,
    max_size=6,
)
SEEN: Counter[str] = Counter()


class Feed:
    """Rows and questions of micro-batches whose times move on, with deletes of earlier rows where there are deletes."""

    def __init__(self, asking: Questioned) -> None:
        self.asking, self.numbers, self.names = asking, count(), count()
        self.past: list[dict[str, Any]] = []

    def micro_batch(self, step: Any, number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        (events, questions), shift, rows = step, 12 * number, []
        for key, time, value, gone in events:
            if self.asking.retract and gone and self.past:
                rows.append({**self.past[time % len(self.past)], "gone": True, "x": None})
            else:
                rows.append({"k": key, "t": time + shift, "i": next(self.numbers), "x": value})
                self.past.append(rows[-1])
        if self.asking.retract:
            rows = [{"gone": False, **row} for row in rows]
        asked = [
            {"q": None if q is None else q + shift, "k": key, "name": next(self.names), "note": [str(q), None]}
            for key, q in questions
        ]
        return rows, asked


def run(asking: Questioned, steps: list[Any], seed: int) -> None:
    """Run micro-batches to their end."""
    trial, feed = QuestionTrial.of(asking, seed, delay_ms=1), Feed(asking)
    for number, step in enumerate(steps):
        trial.batch(*feed.micro_batch(step, number))
    trial.end()
    names = ("hits", "catch_ups", "rebuilds", "timers", "late_questions", "revised")
    SEEN.update({name: trial.play.counts[name] for name in names})
    SEEN["answers"] += trial.answers


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
@given(STEPS, st.integers(0, 2**16), st.sampled_from(["right", "left"]), st.sampled_from([0, 4]), st.booleans())
def test_answers_are_those_of_the_accepted_rows(
    emit: str, steps: list[Any], seed: int, closed: str, lateness: int, some: bool
) -> None:
    """Whatever fails, and wherever a bucket runs next; with late questions dropped or emitted, with deletes or not."""
    late = "emit" if some else "drop"
    run(Questioned(emit=emit, closed=closed, lateness=lateness, late=late, retract=not some), steps, seed)


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
@given(STEPS, st.integers(0, 2**16), st.sampled_from(["right", "left"]), st.sampled_from([0, 4]), st.booleans())
def test_answers_about_the_last_rows_and_about_everything(
    emit: str, steps: list[Any], seed: int, closed: str, lateness: int, retract: bool
) -> None:
    """A question has the rows before it, as many as a window counts, and starts from nothing after a gap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "SURPLUS_ROWS", 2)
        counted = ("2 rows", "5 rows", "unbounded")
        run(Questioned(emit=emit, closed=closed, lateness=lateness, retract=retract, counted=counted), steps, seed)


@given(STEPS, st.integers(0, 2**16))
def test_aggregates_in_python_answer_questions_of_a_stream(steps: list[Any], seed: int) -> None:
    """The same, where rows are retained for them."""
    run(Questioned(emit="update", lateness=4, python=True), steps, seed)


@given(STEPS, STEPS, st.integers(0, 2**16), st.sampled_from(["final", "update"]))
def test_a_changed_definition_answers_what_waits(before: list[Any], after: list[Any], seed: int, emit: str) -> None:
    """With fewer windows and one more aggregate; of "update" the last answers count, whenever they come again."""
    first, second = Questioned(emit=emit, lateness=4), Questioned(emit=emit, lateness=4, sizes=(3,), more=True)
    trial, feed = QuestionTrial.of(first, seed, delay_ms=1), Feed(first)
    for number, step in enumerate(before):
        trial.batch(*feed.micro_batch(step, number))
    asked = list(trial.oracle.waiting)
    trial.change(second)
    said = []
    for number, step in enumerate(after, len(before)):
        rows, questions = feed.micro_batch(step, number)
        said += trial.said(rows, questions)[0]
        asked += [row for row in trial.oracle.waiting if row in questions]
    for marker in (True, False):
        said += trial.said([], [], marker)[0]
    assert trial.play.empty()
    last = {row["name"]: row for row in said}
    for question in asked:
        assert plain(last[question["name"]]) == plain(trial.oracle.answer(question))
    if emit == "final":
        assert len(last) == len(said)
    SEEN["changed"] += len(asked)


def test_everything_was_seen() -> None:
    """The tests above have met what they are about."""
    for name in ("hits", "catch_ups", "rebuilds", "timers", "late_questions", "revised", "answers", "changed"):
        assert SEEN[name], name
