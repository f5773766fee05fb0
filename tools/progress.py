"""Run a command that builds with ninja, printing each step of ninja as one short line, or all output if it fails.

Usage: python tools/progress.py python -m pip install --verbose .
"""

import re
import subprocess
import sys

STEP = re.compile(r"\s*(\[[1-9]\d*/\d+\]).*?([^/\s]+?)(?:\.o)?\s*$")


def main(command: list[str]) -> int:
    """Run the command and return its exit status."""
    output: list[str] = []
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, errors="replace", **together) as run:
        assert run.stdout is not None
        for line in run.stdout:
            output.append(line)
            if step := STEP.match(line):
                print(*step.groups(), flush=True)
    if run.returncode:
        sys.stderr.writelines(output)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
