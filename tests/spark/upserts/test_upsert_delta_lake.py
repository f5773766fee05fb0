"""Merges on the executors, in a session that has Delta Lake: Spark 4.2, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from support import delta_lake

CASES = Path(__file__).with_name("delta_lake_cases.py")


def test_merges_on_the_executors():
    """Every case of `delta_lake_cases.py` passes."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, env=delta_lake.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
