"""Measure, draw and report: `python -m experiments --quick`, or without it for the full run.

A run that was stopped resumes where it was when it is started again. Rows go to experiments/results/ (those of a quick
run to its folder quick/), pictures and report.html to experiments/figures/.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from experiments import FIGURES

HERE = Path(__file__).resolve().parent
JOURNAL = ".unfinished.jsonl"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = _options(arguments)
    results = options.results or HERE / "results" / ("quick" if options.quick else "")
    if not options.draw:
        measure(options.figures_named or FIGURES, options.quick, results, options.fresh, options.plan)
    if not options.plan:
        draw(results, options.pictures)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller windows and fewer points: about two minutes")
    parser.add_argument(
        "--only", dest="figures_named", nargs="+", choices=FIGURES, metavar="FIGURE", help=f"of {', '.join(FIGURES)}"
    )
    parser.add_argument("--plan", action="store_true", help="show what would be measured and how long it takes")
    parser.add_argument("--draw", action="store_true", help="draw existing measurements without measuring")
    parser.add_argument("--fresh", action="store_true", help="discard the measurements of a stopped run")
    parser.add_argument("--results", type=Path, help="the folder of the CSV files")
    parser.add_argument("--pictures", type=Path, default=HERE / "figures", help="the folder of the pictures")
    return parser.parse_args(arguments)


def measure(figures: Sequence[str], quick: bool, results: Path, fresh: bool = False, plan_only: bool = False) -> None:
    """Measure these figures, resuming a stopped run if there is one, and write their CSV files."""
    from experiments.case import scale, write_csv
    from experiments.machine import core_digest, stamp
    from experiments.progress import Progress, minutes
    from experiments.runner import CaseFailedError, Journal, Runner, expected_s, run_all

    size = scale(quick)
    groups = [group for figure in figures for group in import_module(f"experiments.{figure}").plan(size)]
    cases = sum(map(len, groups))
    if plan_only:
        print(f"{size.name}: {cases} cases, about {minutes(sum(map(expected_s, groups)))}.")
        return
    if fresh:
        (results / JOURNAL).unlink(missing_ok=True)
    stamped = stamp(size.name)
    heading = {name: value for name, value in stamped.items() if name not in ("date", "commit")} | {
        "core": core_digest()
    }
    journal = Journal(results / JOURNAL, heading)
    if journal.stale:
        _say("The stopped run was of another build, machine or scale: starting over.")
    left = sum(expected_s(group) for group in groups if any(case.key not in journal.rows for case in group))
    done = sum(case.key in journal.rows for group in groups for case in group)
    _say(f"{cases} cases, {done} of them already measured; the rest takes about {minutes(left)} ({size.name}).")
    began = time.monotonic()
    try:
        with Progress(left) as progress:
            rows = run_all(groups, journal, stamped, Runner().run, progress.heard)
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command resumes from here.")
    except CaseFailedError as error:
        sys.exit(f"{error}\nThe same command retries from here.")
    for figure in figures:
        write_csv(results / f"{figure}.csv", (row for row in rows if row["figure"] == figure))
    journal.forget(groups)
    _say(f"Measured in {minutes(time.monotonic() - began)}.")


def draw(results: Path, pictures: Path) -> None:
    """Draw every figure that has rows and write the report."""
    from experiments.report import write_report
    from experiments.series import MissingSeriesError
    from sash.errors import UnsupportedError

    try:
        report = write_report(results, pictures)
    except (UnsupportedError, FileNotFoundError, MissingSeriesError) as error:
        sys.exit(str(error))
    _say(f"Drawn: {report}")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
