"""How long a single round takes: median, 99.9th percentile and worst, and the worst single query.

`python -m benchmarks.latency` prints the table. To show the structure and not the machine's noise, each round is run in
five identical runs and its shortest time counts. Every number includes one reading of the clock, about 25 ns.
"""

import numpy as np

from benchmarks.load import FAR_FUTURE, SEED
from sash import Window, monoids

SIZE, ROUNDS, RUNS = 2**22, 200_000, 5
CASES = (("fiba", {}), ("paper", {"min_arity": 4}), ("classic", {"min_arity": 4}), ("daba", {}))


def main() -> None:
    """Print one row per structure and distance."""
    print(f"{'':22}{'median':>10}{'99.9 %':>10}{'worst':>10}{'worst query':>13}   ns per round, window of 2^22")
    for distance in (0, 2**20):
        for structure, options in CASES:
            if structure != "daba" or distance == 0:
                print(f"{structure:8} d = {distance:<8} " + _row(structure, options, distance), flush=True)


def _row(structure: str, options: dict[str, int], distance: int) -> str:
    rounds, queries = (np.full(ROUNDS, np.iinfo(np.int64).max) for _ in range(2))
    for _ in range(RUNS):
        run = _run(structure, options, distance)
        rounds, queries = np.minimum(rounds, run[0]), np.minimum(queries, run[1])
    median, high = np.percentile(rounds, [50, 99.9])
    return f"{median:10.0f}{high:10.0f}{rounds.max():10.0f}{queries.max():13.0f}"


def _run(structure: str, options: dict[str, int], distance: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng(SEED).integers(-1000, 1000, SIZE + ROUNDS)
    settled = SIZE - distance
    window = Window(monoids.sum(), structure=structure, **options)
    window.insert_many(np.concatenate([np.arange(settled), FAR_FUTURE + np.arange(distance)]), values[:SIZE])
    times = np.arange(settled, settled + ROUNDS)
    window.slide(times[:1000], values[SIZE : SIZE + 1000].copy(), count=SIZE)  # what filling left to repair
    rounds, queries = np.zeros(ROUNDS, np.int64), np.zeros(ROUNDS, np.int64)
    window._time_rounds(times[1000:], values[SIZE + 1000 :].copy(), SIZE, rounds[1000:], queries[1000:])
    expected = int(values[ROUNDS:settled].sum() + values[SIZE:].sum() + values[settled:SIZE].sum())
    if window.query() != expected:
        raise SystemExit(f"{structure}: a wrong answer at d = {distance}; nothing was measured.")
    return rounds, queries


if __name__ == "__main__":
    main()
