"""A process that runs commands of sash one after the other, in one Spark session that stays warm.

`python -m support.command_server` reads a list of words in JSON per line, and answers each with its exit code and what
it printed. A session keeps the jars that it was started with, so Kafka's connector needs a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


class CommandServer:
    """Such a process, and what it answers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.command_server"],
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, directory: Path | None = None) -> tuple[int, str]:
        """Run a command in a directory, and return its exit code and output."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([str(directory or Path.cwd()), *words]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"the server ended: {self.process.poll()}"
        code, output = json.loads(answer)
        return code, output

    def stop(self) -> None:
        """End the process and its Spark."""
        self.process.communicate()


def serve() -> None:
    """Answer until the input ends."""
    from typer.testing import CliRunner

    from sash.cli.app import app

    for line in sys.stdin:
        directory, *words = json.loads(line)
        os.chdir(directory)
        result = CliRunner().invoke(app, words)
        print(json.dumps([result.exit_code, result.output]), flush=True)


if __name__ == "__main__":
    serve()
