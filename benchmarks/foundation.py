"""The paper's structures against each other and against the in-order rivals, and the claims that must hold."""

from benchmarks.load import Rounds, measure

TREES = [(structure, arity) for structure in ("classic", "paper") for arity in (2, 4, 8)]
IN_ORDER = ("two_stacks", "daba", "reactive")
DISTANCES = (0, 2**10, 2**20)


def measured(size: int, rounds: int, slices: int) -> dict[int, dict[str, float]]:
    """Give the nanoseconds a round by distance and structure."""
    table = {}
    for distance in DISTANCES:
        cases = [
            Rounds(f"{structure} µ={arity}", structure, distance, size, rounds, arity) for structure, arity in TREES
        ]
        if distance == 0:
            cases += [Rounds(name, name, 0, size, rounds) for name in IN_ORDER]
        table[distance] = measure(cases, slices)
        print(f"  measured d = {distance}", flush=True)
    return table


def claims(table: dict[int, dict[str, float]]) -> list[tuple[str, float, float]]:
    """Give each claim as a sentence, what was found, and the bound it may not exceed."""
    near, middle, far = (table[d] for d in DISTANCES)
    stacks = near["two_stacks"]
    return [
        ("paper / classic, µ=4, d = 0", near["paper µ=4"] / near["classic µ=4"], 0.5),
        ("paper / classic, µ=4, d = 2^10", middle["paper µ=4"] / middle["classic µ=4"], 1.0),
        ("paper / classic, µ=4, d = 2^20", far["paper µ=4"] / far["classic µ=4"], 1.15),
        ("daba / paper µ=4, d = 0", near["daba"] / near["paper µ=4"], 1.0),
        ("two_stacks / paper µ=4, d = 0", stacks / near["paper µ=4"], 1.0),
        ("paper µ=4 at d = 0 / two_stacks", near["paper µ=4"] / stacks, 8.0),
        ("paper µ=4 at d = 2^10 / two_stacks", middle["paper µ=4"] / stacks, 20.0),
    ]
