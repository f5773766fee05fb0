"""What inserts cost by their distance from the newest entry, measured on copies of a window."""

from bisect import insort
from typing import Any

from sash.errors import OutOfOrderError
from sash.explore.performing import perform
from sash.explore.planning import late_time, value_for
from sash.explore.traced import Log, Number
from sash.window.window import Window

_TRIALS = 8


def distances_of(entries: int) -> list[int]:
    """Return the distances to try: 0, then powers of two.

    >>> distances_of(9)
    [0, 1, 2, 4, 8]
    """
    return [0, *(2**k for k in range(max(0, entries).bit_length()) if 2**k <= entries)]


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
        except OutOfOrderError:
            return {"distance": late, "looked": None, "combines": None}
        copy.query()
        insort(times, time)
        if number == 0:
            looked = len({owners[moment.time] for moment in log.compares if moment.time in owners})
    return {"distance": late, "looked": looked, "combines": round(len(log.combines) / _TRIALS, 1)}
