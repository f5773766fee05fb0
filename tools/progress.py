"""Run a command that builds with ninja and show ninja's steps, one short line each; all of its output if it fails.

Usage: python tools/progress.py python -m pip install --verbose .
"""

import re
import subprocess
import sys

STEP = re.compile(r"\s*(\[[1-9]\d*/\d+\]).*?([^/\s]+?)(?:\.o)?\s*$")


def main(command: list[str]) -> int:
    """Return the command's own exit status."""
    kept: list[str] = []
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, errors="replace", **together) as run:
        assert run.stdout is not None
        for line in run.stdout:
            kept.append(line)
            if step := STEP.match(line):
                print(*step.groups(), flush=True)
    if run.returncode:
        sys.stderr.writelines(kept)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
