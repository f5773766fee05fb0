"""The server of the explorer: the page and a JSON interface to windows, for this machine alone.

It listens on 127.0.0.1 only. Requests must name it by that address or as localhost, so that no other site can reach it
by a name of its own that points here, and those that change something must be JSON from the page itself.
"""

import gc
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from sash.errors import ArgumentError, KindError, SashError, shown
from sash.explore.lab import Lab
from sash.explore.options import OPTIONS
from sash.explore.planning import MOST_ENTRIES, ORDERS
from sash.explore.play import described, labs_at, played, story_named
from sash.explore.stories import STORIES
from sash.explore.traced import MONOIDS
from sash.times import is_integer
from sash.window.window import STRUCTURES

ADDRESS = "127.0.0.1"
_MOST_LABS = 16
_MOST_BYTES = 100_000
_FILES = {
    "/": ("index.html", "text/html"),
    "/explorer.css": ("explorer.css", "text/css"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("tree", "axis", "costs", "explorer")},
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Bench:
    """The windows of all open pages, the latest used ones; one request at a time works on them."""

    def __init__(self) -> None:
        """Start without windows."""
        self._labs: OrderedDict[str, Lab] = OrderedDict()
        self._lock = threading.Lock()
        self._calls: dict[str, Callable[[dict[str, Any]], Any]] = {
            "about": self._about,
            "new": self._new,
            "apply": self._apply,
            "undo": lambda request: self._lab(request).undo(),
            "redo": lambda request: self._lab(request).redo(),
            "look": lambda request: self._lab(request).look(_unfolded(request)),
            "distances": lambda request: self._lab(request).distances(),
            "story": lambda request: played(story_named(request.get("story"))),
            "resume": self._resume,
        }

    def clear(self) -> None:
        """Forget all windows now, because threads that still serve a connection would keep them to the end."""
        with self._lock:
            self._labs.clear()
        gc.collect()

    def call(self, name: str, request: dict[str, Any]) -> Any:
        """Return the answer to a request, or raise an error of sash."""
        if name not in self._calls:
            raise ArgumentError(f"The call must be one of {', '.join(self._calls)}, got {shown(name)}.")
        with self._lock, _no_collections():
            return self._calls[name](request)

    def _about(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "structures": STRUCTURES,
            "monoids": list(MONOIDS),
            "options": OPTIONS,
            "orders": ORDERS,
            "most_entries": MOST_ENTRIES,
            "stories": [described(story) for story in STORIES.values()],
        }

    def _new(self, request: dict[str, Any]) -> Any:
        """Start a window, with the entries of another one if the request names it."""
        lab = Lab(request.get("structure", "paper"), request.get("monoid", "text"), request.get("options"))
        if request.get("entries_of") is not None:
            lab.take_over(self._lab({"lab": request["entries_of"]}))
        self._keep(_name(request), lab)
        return lab.report

    def _resume(self, request: dict[str, Any]) -> Any:
        """Put the windows of a story after a step under the names that the page gives them."""
        names, step = request.get("labs"), request.get("step")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise KindError(f"labs must be a list of names, got {shown(names)}.", argument="labs")
        if not is_integer(step):
            raise KindError(f"step must be an int, got {shown(step)}.", argument="step")
        labs = labs_at(story_named(request.get("story")), int(step))  # type: ignore[arg-type]
        for name, lab in zip(names, labs, strict=False):
            self._keep(name, lab)
        return [lab.report for lab in labs]

    def _apply(self, request: dict[str, Any]) -> Any:
        return self._lab(request).apply(request.get("operation"), _unfolded(request))

    def _keep(self, name: str, lab: Lab) -> None:
        self._labs[name] = lab
        self._labs.move_to_end(name)
        while len(self._labs) > _MOST_LABS:
            self._labs.popitem(last=False)

    def _lab(self, request: dict[str, Any]) -> Lab:
        name = _name(request)
        if name not in self._labs:
            raise ArgumentError(
                "This window is gone, because the server was restarted; start a new one.", argument="lab"
            )
        self._labs.move_to_end(name)
        return self._labs[name]


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect no garbage inside the block.

    Half way through a step all that it has read is alive. A collection would take that for lasting, and full ones,
    which go through all windows, would come every few steps.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _name(request: dict[str, Any]) -> str:
    name = request.get("lab")
    if not isinstance(name, str) or not 0 < len(name) <= 40:
        raise ArgumentError(f"lab must be a name of 1 to 40 letters, got {shown(name)}.", argument="lab")
    return name


def _unfolded(request: dict[str, Any]) -> tuple[int, ...]:
    nodes = request.get("unfolded", [])
    if not isinstance(nodes, list) or not all(is_integer(node) for node in nodes):
        raise KindError(f"unfolded must be a list of ints, got {shown(nodes)}.", argument="unfolded")
    return tuple(nodes)


class Handler(BaseHTTPRequestHandler):
    """Answers requests of the page."""

    protocol_version = "HTTP/1.1"
    # Headers and body are sent apart. Nagle's algorithm keeps the body back until the browser acknowledges the headers,
    # which takes it 40 ms.
    disable_nagle_algorithm = True
    server: "Server"

    def do_GET(self) -> None:
        """Send a file of the page."""
        if not self._is_local():
            return self._refuse(403, "The explorer answers to this machine only.")
        path = self.path.partition("?")[0]
        if path == "/recorded.js":  # which the page without a server has instead of this one
            return self._send(200, "text/javascript", b"")
        if path not in _FILES:
            return self._refuse(404, f"There is no {path[:80]} here.")
        name, kind = _FILES[path]
        self._send(200, kind, page_file(name))

    def do_POST(self) -> None:
        """Answer a call of the page."""
        if not self._is_local():
            return self._refuse(403, "The explorer answers to this machine only.")
        if self.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return self._refuse(415, "Content-Type must be application/json.")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            return self._refuse(413, f"Content-Length must be at most {_MOST_BYTES}.")
        self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise KindError(f"The request must be an object, got {shown(request)}.")
            answer = self.server.bench.call(self.path.removeprefix("/api/"), request)
        except SashError as error:  # a user's mistake: the request itself was fine
            answer = {"error": str(error), "argument": error.argument}
        except (ValueError, RecursionError) as error:
            return self._refuse(400, f"The request must be JSON: {error}.")
        self._send(200, "application/json", json.dumps(answer, ensure_ascii=False).encode())

    def _is_local(self) -> bool:
        """Return whether a request names this server, and comes from its page or from no page at all."""
        here = self.server.names
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in here and (origin is None or origin.removeprefix("http://") in here)

    def _refuse(self, status: int, sentence: str, argument: str | None = None) -> None:
        self.close_connection = True  # what may be left of the request is not read
        self._send(status, "application/json", json.dumps({"error": sentence, "argument": argument}).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the terminal shows the address."""


class Server(ThreadingHTTPServer):
    """Serves the explorer on this machine; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        """Listen on a port of 127.0.0.1."""
        self.bench = Bench()
        super().__init__((ADDRESS, port), Handler)
        self.names = frozenset(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    def server_close(self) -> None:
        """Stop listening, and forget all windows."""
        super().server_close()
        self.bench.clear()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"


def page_file(name: str) -> bytes:
    """Return a file of the page."""
    return (resources.files("sash.explore") / "page" / name).read_bytes()
