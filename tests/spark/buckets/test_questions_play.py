"""Questions beside a stream's events, in the play of Spark with its failures, against answers by brute force."""

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.buckets.questions import Questioned, QuestionTrial

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


def run(asking: Questioned, steps: list[Any], seed: int) -> QuestionTrial:
    """Run micro-batches whose times move on, with deletes of earlier rows where there are deletes."""
    trial, numbers, names = QuestionTrial.of(asking, seed, delay_ms=1), count(), count()
    past: list[dict[str, Any]] = []
    for number, (events, questions) in enumerate(steps):
        shift = 12 * number
        rows = []
        for key, time, value, gone in events:
            if asking.retract and gone and past:
                rows.append({**past[time % len(past)], "gone": True, "x": None})
            else:
                rows.append({"k": key, "t": time + shift, "i": next(numbers), "x": value})
                past.append(rows[-1])
        if asking.retract:
            rows = [{"gone": False, **row} for row in rows]
        asked = [
            {"q": None if q is None else q + shift, "k": key, "name": next(names), "note": [str(q), None]}
            for key, q in questions
        ]
        trial.batch(rows, asked)
    trial.end()
    SEEN.update(
        {name: trial.play.counts[name] for name in ("hits", "catch_ups", "rebuilds", "timers", "late_questions")}
    )
    SEEN.update({name: trial.play.counts[name] for name in ("questions", "revised", "merges")})
    SEEN["answers"] += trial.answers
    return trial


@pytest.mark.parametrize("emit", ["arrival", "final", "update"])
@given(STEPS, st.integers(0, 2**16), st.sampled_from(["right", "left"]), st.sampled_from([0, 4]), st.booleans())
def test_answers_are_those_of_the_accepted_rows(
    emit: str, steps: list[Any], seed: int, closed: str, lateness: int, some: bool
) -> None:
    """Whatever fails, and wherever a bucket runs next; with late questions dropped or emitted, with deletes or not."""
    late = "emit" if some else "drop"
    run(Questioned(emit=emit, closed=closed, lateness=lateness, late=late, retract=not some), steps, seed)


@given(STEPS, st.integers(0, 2**16))
def test_aggregates_in_python_answer_questions_of_a_stream(steps: list[Any], seed: int) -> None:
    """The same, where rows are retained for them."""
    run(Questioned(emit="update", lateness=4, python=True), steps, seed)


def test_everything_was_seen() -> None:
    """The tests above have met what they are about."""
    for name in ("hits", "catch_ups", "rebuilds", "timers", "late_questions", "revised", "answers"):
        assert SEEN[name], name
