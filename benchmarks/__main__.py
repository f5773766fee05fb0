"""Print the benchmark tables: `make bench`, or a part of them by `python -m benchmarks --only late,lost`.

`python -m benchmarks --only rounds --size 21 --rounds 100000` is a quick look.
"""

import argparse
from collections.abc import Callable

from benchmarks import aggregates, calls, keyed, late, lost, rounds

Claim = tuple[str, float, float]
_HEADINGS: dict[str, tuple[str, Callable[[], list[Claim]]]] = {
    "calls": ("other costs", calls.claims),
    "monoids": ("monoids", aggregates.claims),
    "keyed": ("keyed windows", keyed.claims),
    "late": ("late rows and deletes, one key", late.claims),
    "lost": ("nothing lost: today against the commit before the tree", lost.claims),
}


def main() -> None:
    """Measure what is asked for, then print it and what it says."""
    options = _options()
    for part in options.only:
        if part == "rounds":
            _rounds(options)
        else:
            heading, claims = _HEADINGS[part]
            print(f"\n{heading}", flush=True)
            print_claims(claims())


def _options() -> argparse.Namespace:
    parts = ["rounds", *_HEADINGS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(parts), help=f"parts by name, with commas: {', '.join(parts)}")
    parser.add_argument(
        "--size", type=int, default=22, help="the size of a window in rounds as a power of two, 21 or more"
    )
    parser.add_argument("--rounds", type=int, default=500_000, help="rounds per structure and distance")
    parser.add_argument("--slices", type=int, default=10, help="parts the rounds are measured in")
    options = parser.parse_args()
    if options.size < 21:
        parser.error(f"--size: {options.size} is too small for distances up to 2^20; give 21 or more.")
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(parts):
        parser.error(f"--only: there is no part {', '.join(sorted(unknown))}; take some of {', '.join(parts)}.")
    return options


def _rounds(options: argparse.Namespace) -> None:
    print(f"evict, insert, query: nanoseconds a round, sum of int64, window of 2^{options.size}", flush=True)
    table = rounds.measured(2**options.size, options.rounds, options.slices)
    print_table(table)
    print_claims(rounds.claims(table))


def print_table(table: rounds.Table) -> None:
    """Print one row per structure, one column per distance."""
    labels = list(dict.fromkeys(label for row in table.values() for label in row))
    print(f"\n{'':14}" + "".join(f"{'d = ' + str(d) if isinstance(d, int) else d:>14}" for d in table))
    for label in labels:
        cells = [f"{row[label]:14.1f}" if label in row else f"{'-':>14}" for row in table.values()]
        print(f"{label:14}" + "".join(cells))


def print_claims(claims: list[Claim]) -> None:
    """Print each claim with what was found; one that fails ends with a word that says so."""
    print()
    for sentence, found, bound in claims:
        print(f"{sentence:80} {found:6.2f}   must not exceed {bound:6.2f}   {'holds' if found <= bound else 'FAILS'}")


if __name__ == "__main__":
    main()
