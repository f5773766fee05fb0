"""The scoring service: started as a program, asked over HTTP, stopped and started again."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "scoring_service.py"


class Client:
    """A connection to a service that runs."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self.connection.request(method, path, body if isinstance(body, bytes | None) else json.dumps(body))
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self.connection.close()

    def event(self, card: str, ts: str, amount: float) -> Any:
        status, scored = self.ask("POST", "/event", {"card": card, "ts": f"2026-01-01T{ts}+00:00", "amount": amount})
        assert status == 200
        return scored


@contextmanager
def service(state: Path) -> Iterator[Client]:
    """Start a service on a free port; at the end it is told to stop, and saves its state."""
    command = [sys.executable, str(SCRIPT), "--port", "0", "--state", str(state)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:"), line
            with closing(Client(int(line.rsplit(":", 1)[1]))) as client:
                yield client
                process.send_signal(signal.SIGTERM)  # while the connection is open
                assert "saved" in process.stdout.read()
                assert process.wait() == 0
        finally:
            process.kill()
            process.wait()


def test_events_are_scored_and_the_state_survives_a_restart(tmp_path: Path) -> None:
    """The second service goes on where the first one was stopped."""
    state = tmp_path / "scores.bin"
    with service(state) as first:
        assert first.event("a", "12:00:00", 20)["total_1h"] == 20.0
        scored = first.event("a", "12:30:00", 5)
        assert scored["ts"] == "2026-01-01T12:30:00+00:00"
        assert (scored["n_1h"], scored["total_6h"], scored["top_24h"]) == (2, 25.0, 20.0)
        assert first.event("b", "12:40:00", 1)["n_1h"] == 1
        shown = first.ask("GET", "/now?card=a")
        assert shown == (200, {name: value for name, value in scored.items() if name.endswith("h")})
        assert first.ask("GET", "/now?card=a&at=2026-01-01T13:10:00%2B00:00")[1]["n_1h"] == 1
    with service(state) as second:
        assert second.ask("GET", "/now?card=a") == shown
        assert second.event("a", "12:50:00", 7)["total_1h"] == 32.0
        assert second.ask("GET", "/metrics")[1]["emitted"] == 4


def test_what_cannot_be_answered_is_said(tmp_path: Path) -> None:
    """Late events have no score, and what is wrong with a request is in the answer; the connection stays open."""
    with service(tmp_path / "scores.bin") as client:
        client.event("a", "12:00:00", 1)
        client.event("a", "14:00:00", 1)
        client.event("a", "14:00:01", 1)
        assert client.event("a", "12:00:00", 1) is None
        assert client.ask("POST", "/event", b"{")[0] == 400
        status, answer = client.ask("POST", "/event", {"card": "a", "ts": "2026-01-01T15:00:00", "amount": 1})
        assert (status, "batch must hold timestamp" in answer["error"]) == (400, True)
        assert client.ask("POST", "/event", {"card": "a", "ts": "noon", "amount": 1})[0] == 400
        assert client.ask("POST", "/event", [1])[1]["error"].startswith("row must be a dict")
        assert client.ask("POST", "/other", {})[0] == client.ask("GET", "/now")[0] == 404
        status, answer = client.ask("GET", "/now?card=a&at=2026-01-01T12:00:00%2B00:00")
        assert (status, "or later" in answer["error"]) == (410, True)
        assert client.ask("GET", "/now?card=new")[1]["n_24h"] == 0


def test_the_load_test_compares_what_the_service_says() -> None:
    """It prints how many events were scored in a second, and how long the slowest of a hundred took."""
    command = [sys.executable, str(SCRIPT), "--load", "300", "--clients", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "events/s over 3 connections, p99" in done.stdout


@pytest.mark.parametrize("port", ["-1", "many"])
def test_a_port_that_is_none_is_refused(port: str, tmp_path: Path) -> None:
    """Before anything is saved."""
    command = [sys.executable, str(SCRIPT), "--port", port, "--state", str(tmp_path / "none")]
    assert subprocess.run(command, capture_output=True).returncode != 0
    assert not (tmp_path / "none").exists()
