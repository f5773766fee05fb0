"""Print the benchmark tables: `make bench`, or `python -m benchmarks --size 21 --rounds 100000` for a quicker look."""

import argparse

from benchmarks import aggregates, calls, keyed, rounds


def main() -> None:
    """Measure, then print nanoseconds a round and what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=22, help="the window's size as a power of two, 21 or more")
    parser.add_argument("--rounds", type=int, default=500_000, help="rounds per structure and distance")
    parser.add_argument("--slices", type=int, default=10, help="parts the rounds are measured in")
    options = parser.parse_args()
    if options.size < 21:
        parser.error(f"--size: {options.size} is too small for distances up to 2^20; give 21 or more.")
    print(f"evict, insert, query: nanoseconds a round, sum of int64, window of 2^{options.size}", flush=True)
    table = rounds.measured(2**options.size, options.rounds, options.slices)
    print_table(table)
    print_claims(rounds.claims(table))
    print("\nother costs", flush=True)
    print_claims(calls.claims())
    print("\nmonoids", flush=True)
    print_claims(aggregates.claims())
    print("\nkeyed windows", flush=True)
    print_claims(keyed.claims())


def print_table(table: rounds.Table) -> None:
    """Print one row per structure, one column per distance."""
    labels = list(dict.fromkeys(label for row in table.values() for label in row))
    print(f"\n{'':14}" + "".join(f"{'d = ' + str(d) if isinstance(d, int) else d:>14}" for d in table))
    for label in labels:
        cells = [f"{row[label]:14.1f}" if label in row else f"{'-':>14}" for row in table.values()]
        print(f"{label:14}" + "".join(cells))


def print_claims(claims: list[tuple[str, float, float]]) -> None:
    """Print each claim with what was found; one that fails ends with a word that says so."""
    print()
    for sentence, found, bound in claims:
        print(f"{sentence:50} {found:6.2f}   must not exceed {bound:5.2f}   {'holds' if found <= bound else 'FAILS'}")


if __name__ == "__main__":
    main()
