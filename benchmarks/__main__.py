"""Print the benchmark tables: `make bench`, or some parts with `python -m benchmarks --only late,lost`.

`python -m benchmarks --only rounds --size 21 --rounds 100000` is a quick look.
"""

import argparse
from collections.abc import Callable

from benchmarks import aggregates, calls, events, keyed, kinds, late, lost, questions, rounds

Claim = tuple[str, float, float]
_HEADINGS: dict[str, tuple[str, Callable[[], list[Claim]]]] = {
    "calls": ("other costs", calls.claims),
    "monoids": ("monoids", aggregates.claims),
    "keyed": ("keyed windows", keyed.claims),
    "kinds": ("kinds of windows", kinds.claims),
    "events": ("one event at a time, and small batches", events.claims),
    "questions": ("questions", questions.claims),
    "late": ("late rows and deletes, one key", late.claims),
    "lost": ("regressions: today against the commit before the tree", lost.claims),
}


def main() -> None:
    """Measure the requested parts, then print the results and the claims."""
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
    parser.add_argument("--only", default=",".join(parts), help=f"comma-separated parts: {', '.join(parts)}")
    parser.add_argument("--size", type=int, default=22, help="window size in rounds, as a power of two, 21 or more")
    parser.add_argument("--rounds", type=int, default=500_000, help="rounds per structure and distance")
    parser.add_argument("--slices", type=int, default=10, help="slices in which the rounds are measured")
    options = parser.parse_args()
    if options.size < 21:
        parser.error(f"--size must be at least 21 for distances up to 2^20, got {options.size}.")
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(parts):
        parser.error(f"--only must name some of {', '.join(parts)}, got {', '.join(sorted(unknown))}.")
    return options


def _rounds(options: argparse.Namespace) -> None:
    print(f"evict, insert, query: nanoseconds per round, sum of int64, window of 2^{options.size}", flush=True)
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
    """Print each claim with the measured value, the bound, and whether it holds."""
    print()
    for sentence, found, bound in claims:
        print(f"{sentence:80} {found:6.2f}   must not exceed {bound:6.2f}   {'holds' if found <= bound else 'FAILS'}")


if __name__ == "__main__":
    main()
