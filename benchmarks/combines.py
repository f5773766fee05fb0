"""The number of combines per round: a table that depends only on the algorithms.

`python -m benchmarks.combines` prints it in the form of docs/algorithm.md; a test compares the two.
"""

import numpy as np

from benchmarks.load import FAR_FUTURE
from sash import Window, monoids

SIZE = 2**22
ROUNDS = 4096
DISTANCES = (0, 2**4, 2**10, 2**20)
TREES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("fiba", "fiba", {}),
    ("fiba, leaves of 16, fanout 8", "fiba", {"leaf_capacity": 16, "fanout": 8}),
    ("paper µ=2", "paper", {"min_arity": 2}),
    ("paper µ=4", "paper", {"min_arity": 4}),
    ("classic µ=4", "classic", {"min_arity": 4}),
)


def per_round(structure: str, options: dict[str, int], distance: int, size: int = SIZE, rounds: int = ROUNDS) -> float:
    """Return the average number of combines per round of evict, insert and query at this distance."""
    window = Window(monoids.sum(), structure=structure, **options)
    settled = size - distance
    window.insert_many(np.arange(settled), np.ones(settled, dtype=np.int64))
    window.insert_many(FAR_FUTURE + np.arange(distance), np.ones(distance, dtype=np.int64))
    times = np.arange(settled, settled + 2 * rounds)
    window.slide(times[:rounds], times[:rounds], count=size)  # repairs that filling left behind are not counted
    before = window.combines
    window.slide(times[rounds:], times[rounds:], count=size)
    return (window.combines - before) / rounds


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| | " + " | ".join(f"d = {_power(d)}" for d in DISTANCES) + " |", "|---" * (len(DISTANCES) + 1) + "|"]
    for label, structure, options in TREES:
        cells = [f"{per_round(structure, options, distance):.1f}" for distance in DISTANCES]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _power(number: int) -> str:
    return f"2^{number.bit_length() - 1}" if number > 1 else str(number)


if __name__ == "__main__":
    print(table())
