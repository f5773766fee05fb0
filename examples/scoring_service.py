"""A scoring service: POST an event and get its features back, from windows that are kept in memory.

Run it, score an event, ask for a card, and stop it with Ctrl-C:

    python examples/scoring_service.py --port 8080 --state scores.bin
    curl -d '{"card": "a", "ts": "2026-01-01T12:00:00+00:00", "amount": 25}' localhost:8080/event
    curl 'localhost:8080/now?card=a'

The state is saved on shutdown and restored on the next start, so that windows go on where they were. It lives in one
process: run one service for each share of the cards, with a router in front that sends a card to the same one always.

    python examples/scoring_service.py --load 20000

starts the service on a free port, sends it that many events, compares the last answers with an engine of its own, and
prints how many events per second it scored, and the latency that 99 % of them did not exceed.
"""

import argparse
import http.client
import json
import math
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from sash import KeyedWindows, RetentionError, SashError, monoids

SCHEMA = pa.schema({"card": pa.string(), "ts": pa.timestamp("us", "UTC"), "amount": pa.float64()})
MOST_BYTES = 64 * 1024  # of an event


def engine() -> KeyedWindows:
    """Return the features: what each card did in the last hour, six hours and day."""
    return KeyedWindows(
        keys=["card"],
        time="ts",
        windows=["1h", "6h", "24h"],
        aggs={"n": monoids.count(), "total": monoids.sum("amount"), "top": monoids.max("amount")},
        lateness="10 minutes",
        schema=SCHEMA,
    )


def restored(path: Path | None) -> KeyedWindows:
    """Return the engine that was saved, or a new one."""
    if path is None or not path.exists():
        return engine()
    return KeyedWindows.from_bytes(path.read_bytes())


def save(windows: KeyedWindows, path: Path) -> None:
    """Save the state: the file is either the old one or the new one, never half of it."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(windows.to_bytes())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


# --- the service ----------------------------------------------------------------------------------


class Service(ThreadingHTTPServer):
    """A server with an engine; a thread for each connection, and the engine takes one call at a time."""

    daemon_threads = False  # closing waits for them
    request_queue_size = 128

    def __init__(self, port: int, windows: KeyedWindows) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.windows = windows
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and keep it in mind."""
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stop: what was received is answered, and then every connection ends."""
        for connection in list(self._connections):
            with suppress(OSError):  # it has just been closed
                connection.shutdown(socket.SHUT_RD)
        super().server_close()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    """POST /event scores an event, GET /now?card=…&at=… shows a card, GET /metrics counts."""

    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True  # an answer is not held back
    wbufsize = -1  # headers and body leave together
    server: Service

    def do_POST(self) -> None:
        """Score an event: its features, or null where it is late or has no time."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BYTES:
            self.close_connection = True
            return self._answer(413, {"error": f"an event must have at most {MOST_BYTES} bytes, got {length}."})
        body = self.rfile.read(length)
        if urlsplit(self.path).path != "/event":
            return self._answer(404, {"error": "POST /event"})
        try:
            event = json.loads(body)
            if isinstance(event, dict):
                event["ts"] = _time_of(event.get("ts"))
            return self._answer(200, self.server.windows.event(event))
        except (SashError, ValueError) as error:  # JSON and times that are not such are ValueErrors
            return self._answer(400, {"error": str(error)})

    def do_GET(self) -> None:
        """Show the features of a card as of a time, by default that of the newest event."""
        url = urlsplit(self.path)
        if url.path == "/metrics":
            return self._answer(200, self.server.windows.metrics)
        asked = parse_qs(url.query)
        if url.path != "/now" or "card" not in asked:
            return self._answer(404, {"error": "GET /now?card=..."})
        try:
            at = _time_of(asked["at"][0].replace(" ", "+")) if "at" in asked else None  # a + that was not escaped
            return self._answer(200, self.server.windows.now({"card": asked["card"][0]}, at=at))
        except RetentionError as error:
            return self._answer(410, {"error": str(error)})
        except (SashError, ValueError) as error:
            return self._answer(400, {"error": str(error)})

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(_plain(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about each request."""


def _time_of(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else text


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: a time as text, and null for a float that is not finite."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def serve(port: int, path: Path | None) -> None:
    """Serve until SIGINT or SIGTERM, then save the state."""
    service = Service(port, restored(path))

    def stop(*_: Any) -> None:
        threading.Thread(target=service.shutdown).start()  # which waits for the loop that this interrupts

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    print(f"listening on http://127.0.0.1:{service.port}", flush=True)
    try:
        service.serve_forever(poll_interval=0.05)
    finally:
        service.server_close()
        if path is not None:
            save(service.windows, path)
            print(f"saved {service.windows.metrics['live_rows']} rows in {path}", flush=True)


# --- load -----------------------------------------------------------------------------------------


def load(count: int, clients: int) -> None:
    """Send so many events over some connections, and print what came of it."""
    service = Service(0, engine())
    threading.Thread(target=service.serve_forever, daemon=True).start()
    events = _events(count)
    parts = [events[i::clients] for i in range(clients)]
    seconds: list[float] = []
    threads = [threading.Thread(target=_send, args=(service.port, part, seconds)) for part in parts]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    _compare(service, events)
    service.shutdown()
    service.server_close()
    slowest = sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1]
    print(f"{count / took:.0f} events/s over {clients} connections, p99 {slowest * 1e3:.2f} ms", flush=True)


def _events(count: int) -> list[dict[str, Any]]:
    """Return events of a thousand cards; their times are those in which they were made, one after another."""
    numbers, start = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "card": f"card-{numbers.randrange(1000)}",
            "ts": (start + timedelta(milliseconds=20 * i)).isoformat(),
            "amount": float(numbers.randrange(1, 500)),
        }
        for i in range(count)
    ]


def _send(port: int, events: Sequence[dict[str, Any]], seconds: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for event in events:
        body = json.dumps(event)
        began = time.perf_counter()
        connection.request("POST", "/event", body)
        answer = connection.getresponse()
        scored = json.loads(answer.read())
        seconds.append(time.perf_counter() - began)
        if answer.status != 200 or not scored["n_1h"]:
            raise SystemExit(f"{event} was answered with {answer.status}: {scored}")
    connection.close()


def _compare(service: Service, events: Sequence[dict[str, Any]]) -> None:
    """Exit unless the service says of every card what an engine says that took the same events as one batch."""
    other = engine()
    other.push(pa.Table.from_pylist([event | {"ts": _time_of(event["ts"])} for event in events], SCHEMA))
    for card in sorted({event["card"] for event in events}):
        if service.windows.now({"card": card}) != other.now({"card": card}):
            raise SystemExit(f"{card} has other features than a batch of the same events gives it.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, or test the load."""
    parser = argparse.ArgumentParser(description="score events as they come")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on; 0: a free one")
    parser.add_argument("--state", type=Path, help="file that the state is restored from, and saved in on shutdown")
    parser.add_argument("--load", type=int, metavar="EVENTS", help="send so many events to a service, and exit")
    parser.add_argument("--clients", type=int, default=4, help="connections of the load")
    options = parser.parse_args(arguments)
    if options.load is not None:
        load(options.load, options.clients)
    else:
        serve(options.port, options.state)


if __name__ == "__main__":
    main(sys.argv[1:])
