"""How many combines a round costs: a table that depends on nothing but the algorithms.

`python -m benchmarks.combines` prints it as docs/algorithm.md holds it; a test compares the two.
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
    """Give the combines of a round of evict, insert and query at this distance, on the average of many rounds."""
    window = Window(monoids.sum(), structure=structure, **options)
    settled = size - distance
    window.insert_many(np.arange(settled), np.ones(settled, dtype=np.int64))
    window.insert_many(FAR_FUTURE + np.arange(distance), np.ones(distance, dtype=np.int64))
    times = np.arange(settled, settled + 2 * rounds)
    window.slide(times[:rounds], times[:rounds], count=size)  # what the filling left to repair is not counted
    before = window.combines
    window.slide(times[rounds:], times[rounds:], count=size)
    return (window.combines - before) / rounds


def table() -> str:
    """Give the table in Markdown."""
    lines = ["| | " + " | ".join(f"d = {_power(d)}" for d in DISTANCES) + " |", "|---" * (len(DISTANCES) + 1) + "|"]
    for label, structure, options in TREES:
        cells = [f"{per_round(structure, options, distance):.1f}" for distance in DISTANCES]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _power(number: int) -> str:
    return f"2^{number.bit_length() - 1}" if number > 1 else str(number)


if __name__ == "__main__":
    print(table())
