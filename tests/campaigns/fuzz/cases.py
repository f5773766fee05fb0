"""One seed is one case: make it, run it, and make it as small as it can be if it differs."""

from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any

from campaigns.fuzz import queries, questions, streams, tables, windows

KINDS: dict[str, ModuleType] = {
    "windows": windows,
    "tables": tables,
    "streams": streams,
    "questions": questions,
    "queries": queries,
}
ATTEMPTS = 3000


@dataclass(frozen=True)
class Report:
    """What came of a case."""

    kind: str
    seed: int
    steps: int
    difference: str | None = None
    reproduction: str | None = None


def case_of(kind: str, seed: int) -> dict:
    """Return the case of a seed, always the same one."""
    return KINDS[kind].make(Random(f"{kind}-{seed}"))


def run_seed(kind: str, seed: int, *, wrong: bool = False, shrinking: bool = True) -> Report:
    """Run the case of a seed; `wrong` gives the oracle a wrong answer, which must be found."""
    module, case = KINDS[kind], case_of(kind, seed)
    steps, difference = module.steps(case), module.run(case, wrong)
    if difference is None:
        return Report(kind, seed, steps)
    smallest = shrink(module, case, wrong) if shrinking else case
    return Report(kind, seed, steps, module.run(smallest, wrong), module.reproduction(smallest))


def shrink(module: ModuleType, case: dict, wrong: bool) -> dict:
    """Return a smaller case that still differs: leave out halves, quarters and so on, then single parts."""
    attempts, size = 0, max(len(module.parts(case)) // 2, 1)
    while attempts < ATTEMPTS:
        smaller, at = False, 0
        while at < len(module.parts(case)) and attempts < ATTEMPTS:
            attempts += 1
            parts = module.parts(case)
            trial = module.without(case, set(parts[at : at + size]))
            if len(module.parts(trial)) < len(parts) and module.run(trial, wrong) is not None:
                case, smaller = trial, True
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(size // 2, 1)
    return case


def work(kinds: list[str], first: int, stride: int, stop: Any, reports: Any) -> None:
    """Run every `stride`th seed, of each kind in turn, until told to stop, and report each."""
    seed = first
    while not stop.is_set():
        for kind in kinds:
            reports.put(run_seed(kind, seed, shrinking=not stop.is_set()))
        seed += stride
