"""What inserts cost by their distance from the newest entry, their nearer end, measured on copies of a window."""

from bisect import insort
from typing import Any

from sash.errors import OutOfOrderError
from sash.explore.performing import perform
from sash.explore.planning import late_time, value_for
from sash.explore.traced import Log, Number
from sash.window.window import Window

_TRIALS = 8


def distances_of(entries: int) -> list[int]:
    """Return the distances to try: 0, then powers of two, up to the middle of a window.

    >>> distances_of(9)
    [0, 1, 2, 4]
    """
    return [0, *(2**k for k in range((max(0, entries) // 2).bit_length()))]


def trial(
    window: Window, log: Log, late: int, times: list[Number], owners: dict[Number, int], monoid: str
) -> dict[str, Any]:
    """Return how many nodes an insert looks at, and the combines of a round with a query, the mean of several.

    `times` are those of the window, and `owners` has the node of each; `late` entries are newer than what is inserted.
    """
    copy, times, looked = window.copy(), times[:], 0
    log.clear()
    for number in range(_TRIALS):
        time = late_time(times, late)
        try:
            perform(copy, {"op": "insert", "time": time, "value": value_for(number, monoid)}, log, 0, monoid)
        except OutOfOrderError as error:
            return {"distance": late, "looked": None, "combines": None, "refused": str(error)}
        copy.query()
        insort(times, time)
        if number == 0:
            looked = len({owners[moment.time] for moment in log.compares if moment.time in owners})
    return {"distance": late, "looked": looked if owners else None, "combines": round(len(log.combines) / _TRIALS, 1)}
