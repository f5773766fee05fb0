"""Rounds of evict, insert and query for all structures, and the claims that must hold."""

from benchmarks.load import Rounds, Scattered, measure

ARITIES = (2, 4, 8)
IN_ORDER = ("two_stacks", "daba", "reactive")
DISTANCES = (0, 2**4, 2**10, 2**16, 2**20)
SCATTERED = "below 2^20"
Table = dict[int | str, dict[str, float]]


def measured(size: int, rounds: int, slices: int) -> Table:
    """Return the nanoseconds per round by distance and structure."""
    table: Table = {}
    for distance in DISTANCES:
        # In order a slice is one whole turn of the window, so that each includes one flip of two-stacks.
        turns = size * 4 if distance == 0 else rounds
        trees = [("fiba", None), *((s, mu) for s in ("paper", "classic") for mu in ARITIES)]
        cases = [Rounds(_label(s, mu), s, distance, size, turns, mu) for s, mu in trees]
        if distance == 0:
            cases += [Rounds(name, name, 0, size, turns) for name in IN_ORDER]
        table[distance] = measure(cases, 4 if distance == 0 else slices)
        print(f"  measured d = {distance}", flush=True)
    trees = [("fiba", None), *(("paper", mu) for mu in ARITIES)]
    scattered: list[Rounds] = [Scattered(_label(s, mu), s, 2**20, size, rounds, mu) for s, mu in trees]
    table[SCATTERED] = measure(scattered, slices)
    return table


def _label(structure: str, arity: int | None) -> str:
    return structure if arity is None else f"{structure} µ={arity}"


def claims(table: Table) -> list[tuple[str, float, float]]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    near, middle, far = table[0], table[2**10], table[2**20]
    best_in_order = min(near["two_stacks"], near["daba"])
    against_paper = [
        (0, 1 / 6),
        (2**4, 1 / 3),
        (2**10, 1 / 2.5),
        (2**16, 1 / 2),
        (2**20, 1 / 1.5),
        (SCATTERED, 1 / 2),
    ]
    return [
        ("paper / classic, µ=4, d = 0", near["paper µ=4"] / near["classic µ=4"], 0.5),
        ("paper / classic, µ=4, d = 2^10", middle["paper µ=4"] / middle["classic µ=4"], 1.0),
        ("paper / classic, µ=4, d = 2^20", far["paper µ=4"] / far["classic µ=4"], 1.15),
        ("daba / paper µ=4, d = 0", near["daba"] / near["paper µ=4"], 1.0),
        ("two_stacks / paper µ=4, d = 0", near["two_stacks"] / near["paper µ=4"], 1.0),
        # Two-Stacks Lite in a loop of its own: 2.5 times as fast as what these were once compared with (8 and 20).
        ("paper µ=4 at d = 0 / two_stacks", near["paper µ=4"] / near["two_stacks"], 20.0),
        ("paper µ=4 at d = 2^10 / two_stacks", middle["paper µ=4"] / near["two_stacks"], 50.0),
        ("fiba / the better of two_stacks, daba", near["fiba"] / best_in_order, 1.25),
        *(
            (f"fiba / paper, d = {distance}", table[distance]["fiba"] / _rival(table[distance], distance), bound)
            for distance, bound in against_paper
        ),
    ]


def _rival(row: dict[str, float], distance: int | str) -> float:
    """Return the paper's tree that fiba is measured against: µ=4 in order, the best of all elsewhere."""
    return row["paper µ=4"] if distance == 0 else min(row[_label("paper", mu)] for mu in ARITIES)
