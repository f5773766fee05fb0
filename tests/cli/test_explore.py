"""sash explore: it serves the page until Ctrl-C, and says so where it cannot."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from sash.cli.app import app


@pytest.mark.parametrize("command", [["-m", "sash", "explore", "--no-browser"], ["-m", "sash.explore"]])
def test_it_serves_until_it_is_interrupted(command):
    """It prints the address, answers there, and Ctrl-C ends it without a word."""
    arguments = [sys.executable, "-u", *command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        for call, request in (("new", {"lab": "a"}), ("apply", {"lab": "a", "operation": {"op": "fill", "count": 5}})):
            headers = {"Content-Type": "application/json"}
            asked = urllib.request.Request(f"{url}api/{call}", json.dumps(request).encode(), headers)
            with urllib.request.urlopen(asked, timeout=30) as answer:
                report = json.load(answer)
        assert report["answer"]["value"] == "abcde"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    assert rest.strip() == ""
    assert process.returncode == 0


def test_a_port_that_is_taken():
    """A port that another program listens on is an error with a sentence."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["explore", "--no-browser", "--port", str(port)])
    assert result.exit_code == 2
    assert f"port must be free on 127.0.0.1, got {port}" in result.output
