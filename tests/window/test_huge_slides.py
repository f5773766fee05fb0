"""Slides whose sums leave int64: they stop at the round whose result does not fit, which stays done."""

import random
from itertools import accumulate

import pytest

from sash import ResultOverflowError, SlideError, monoids
from support.structures import Structure

INT64 = range(-(2**63), 2**63)
HUGE = [2**63 - 1, -(2**63), 2**62, -(2**62), 1, -1, 0]


def stream(rng: random.Random, structure: Structure, rows: int, start: int = 0) -> tuple[list[int], list[int]]:
    values = [rng.choice(HUGE) for _ in range(rows)]
    if structure.in_order:
        return list(accumulate((rng.randrange(3) for _ in range(rows)), initial=start))[1:], values
    return [start + rng.randrange(12) for _ in range(rows)], values


def insert(held: dict[int, int], time: int, value: int) -> None:
    held[time] = held.get(time, 0) + value


def drop(held: dict[int, int], limit: dict[str, int]) -> None:
    if "count" in limit:
        gone = sorted(held)[: max(0, len(held) - limit["count"])]
    else:
        gone = [time for time in held if time <= max(held) - limit["size"]]
    for time in gone:
        del held[time]


def one_round(held: dict[int, int], time: int, value: int, limit: dict[str, int]) -> dict[int, int]:
    after = dict(held)
    if "count" in limit:
        drop(after, {"count": limit["count"] - 1})
    insert(after, time, value)
    if "size" in limit:
        drop(after, limit)
    return after


@pytest.mark.parametrize("limit", [{"count": 2}, {"count": 4}, {"size": 3}, {"size": 9}], ids=str)
def test_a_slide_stops_at_the_first_result_that_does_not_fit(structure: Structure, limit: dict[str, int]) -> None:
    """The round itself stays done, and the slide can be resumed with the next one."""
    stops = 0
    for seed in range(60):
        rng = random.Random(seed)
        window, held = structure.window(monoids.sum()), {}
        times, values = stream(rng, structure, 40)
        while times:
            expected = []
            for time, value in zip(times, values, strict=True):
                held = one_round(held, time, value, limit)
                if sum(held.values()) not in INT64:
                    break
                expected.append(sum(held.values()))
            try:
                assert list(window.slide(times, values, **limit)) == expected
                break
            except SlideError as error:
                stops += 1
                assert isinstance(error.__cause__, ResultOverflowError)
                assert error.index == len(expected) < len(times) and list(error.results) == expected
                window.check_invariants()
                assert dict(zip(*window._freeze()[:2], strict=True)) == held
                times, values = times[error.index + 1 :], values[error.index + 1 :]
    assert stops > 20


@pytest.mark.parametrize("limit", [{"count": 4}, {"size": 5}], ids=str)
def test_a_slide_to_the_end_stays_done(structure: Structure, limit: dict[str, int]) -> None:
    """A last result that does not fit is raised; the rows are in the window, as after `insert_many` and `query`."""
    stops = 0
    for seed in range(60):
        rng = random.Random(seed)
        window, held, start = structure.window(monoids.sum()), {}, 0
        for _ in range(6):
            times, values = stream(rng, structure, rng.randrange(1, 9), start)
            for time, value in zip(times, values, strict=True):
                insert(held, time, value)
            drop(held, limit)
            if sum(held.values()) in INT64:
                assert window.slide(times, values, at="end", **limit) == sum(held.values())
            else:
                stops += 1
                with pytest.raises(SlideError):
                    window.slide(times, values, at="end", **limit)
            window.check_invariants()
            assert dict(zip(*window._freeze()[:2], strict=True)) == held
            start = max(held, default=0)
    assert stops > 20
