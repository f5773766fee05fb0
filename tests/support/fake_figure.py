"""An experiment that measures nothing, for the tests of the runner: its series say how it behaves."""

import os
import time
from collections.abc import Iterable

from experiments.case import Case, Row, row_of


def run(case: Case, turns: Iterable[int]) -> Row:
    if case.monoid == "raises":
        raise ValueError("no such thing")
    if case.monoid == "dies":
        os._exit(3)
    moments = [float(time.monotonic_ns()) for _ in turns]
    return row_of(case, moments or [0.0], "ns", 1, process=os.getpid())
