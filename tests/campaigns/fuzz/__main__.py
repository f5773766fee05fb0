"""Run the campaign: `python -m campaigns.fuzz --minutes 10 --seed 0 --only tables,questions --jobs 2`."""

import argparse
import multiprocessing
import re
import sys
import time
from typing import Any

from campaigns.fuzz.cases import KINDS, Report, run_seed, work

STRIDE = 20  # seconds between lines of progress
SHOWN = 20  # different differences that are printed


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="campaigns.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long to run; 1 unless steps are given")
    parser.add_argument("--steps", type=int, help="how many operations and rows to run")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, help="how many seeds to run; 1 repeats a case")
    parser.add_argument("--only", default=",".join(KINDS), help="the kinds to run")
    parser.add_argument("--jobs", type=int, default=1, help="the number of processes")
    return parser.parse_args()


def start(args: argparse.Namespace, kinds: list[str]) -> tuple[list, Any, Any]:
    """Start the processes."""
    context = multiprocessing.get_context("spawn")
    stop, reports = context.Event(), context.Queue(maxsize=100)
    workers = [
        context.Process(target=work, args=(kinds, args.seed + i, args.jobs, stop, reports), daemon=True)
        for i in range(args.jobs)
    ]
    for worker in workers:
        worker.start()
    return workers, stop, reports


def progress(begun: float, steps: dict[str, int], differences: int) -> None:
    """Print a line of progress."""
    counts = ", ".join(f"{name} {count:,}" for name, count in steps.items())
    total = sum(steps.values())
    print(f"{time.monotonic() - begun:6.0f} s  {total:,} steps ({counts})  {differences} differences", flush=True)


def show(report: Report, seen: set[str]) -> None:
    """Print a difference, unless one that reads the same, or many others, were printed before."""
    words = report.kind + re.sub(r"[-\d.]+", "#", report.difference or "")[:120]
    if words not in seen and len(seen) < SHOWN:
        print(f"\n{report.kind}, seed {report.seed}: {report.difference}\n\n{report.reproduction}\n", flush=True)
    elif words in seen:
        print(f"{report.kind}, seed {report.seed}: another of these", flush=True)
    seen.add(words)


def repeat(args: argparse.Namespace, kinds: list[str]) -> int:
    """Run a number of seeds in this process; return how many differ."""
    begun, steps, differences, seen = time.monotonic(), dict.fromkeys(kinds, 0), 0, set()
    for seed in range(args.seed, args.seed + args.cases):
        for kind in kinds:
            report = run_seed(kind, seed)
            steps[kind] += report.steps
            differences += bool(report.difference)
            if report.difference:
                show(report, seen)
    progress(begun, steps, differences)
    return differences


def campaign(args: argparse.Namespace, kinds: list[str]) -> int:
    """Run until the time or the steps are used up; return how many cases differ."""
    seconds = 60 * (args.minutes if args.minutes else 1 if args.steps is None else 1e6)
    workers, stop, reports = start(args, kinds)
    begun = last = time.monotonic()
    steps, differences, seen = dict.fromkeys(kinds, 0), 0, set()
    while time.monotonic() - begun < seconds and (args.steps is None or sum(steps.values()) < args.steps):
        report = next_report(workers, reports)
        steps[report.kind] += report.steps
        if report.difference:
            differences += 1
            show(report, seen)
        if time.monotonic() - last > STRIDE:
            last = time.monotonic()
            progress(begun, steps, differences)
    stop.set()
    for worker in workers:
        worker.terminate()
    progress(begun, steps, differences)
    return differences


def next_report(workers: list, reports: Any) -> Report:
    """Return the next report, or raise if a process has died."""
    while True:
        try:
            return reports.get(timeout=1)
        except Exception:
            dead = [worker.exitcode for worker in workers if not worker.is_alive()]
            if dead:
                raise SystemExit(f"a process ended with {dead[0]}: the seed that it was at crashes") from None


def main() -> int:
    """Run what the command line asks for; return 1 if there were differences."""
    args = options()
    kinds = [kind for kind in args.only.split(",") if kind]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise SystemExit(f"--only must be some of {', '.join(KINDS)}, got {args.only!r}.")
    differences = repeat(args, kinds) if args.cases else campaign(args, kinds)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
