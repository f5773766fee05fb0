"""The explorer's server: what it answers, and whom it refuses."""

import gc
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sash.errors import SashError
from sash.explore import server as server_module
from sash.explore.server import Bench, Handler, Server
from sash.explore.stories import STORIES


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on a free port."""
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: Server, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """The status and the body of the answer to a request, with headers of the page's own unless others are named."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if method == "POST" else {}
    try:
        connection.request(method, path, data, {**kind, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        is_json = "json" in (answer.headers["Content-Type"] or "")
        return answer.status, json.loads(text) if is_json else text, answer.headers
    finally:
        connection.close()


def test_the_page_needs_nothing_from_elsewhere(server: Server) -> None:
    """The page and its files are served, are small, and name no other host."""
    total = 0
    for path in ("/", "/explorer.css", "/tree.js", "/axis.js", "/costs.js", "/explorer.js", "/?story=race"):
        status, text, headers = ask(server, "GET", path)
        assert status == 200, path
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        outside = text.replace(b"http://www.w3.org/2000/svg", b"")  # a name, which nobody loads
        assert b"http:" not in outside and b"https:" not in outside and b"//cdn" not in outside
        total += len(text)
    assert total < 300_000
    assert ask(server, "GET", "/recorded.js")[:2] == (200, b"")


def test_it_listens_on_this_machine_only(server: Server) -> None:
    """The socket is bound to the loopback address."""
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_an_answer_does_not_wait_for_an_acknowledgment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of an answer follows its headers at once: the system does not keep small packets back."""
    options = []

    class Watched(Handler):
        def setup(self) -> None:
            super().setup()
            options.append(self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(server, "RequestHandlerClass", Watched)
    assert ask(server, "POST", "/api/about", {})[0] == 200
    assert len(options) == 1 and options[0] != 0


def test_a_step_collects_no_garbage() -> None:
    """Collections wait until a step is done, also one that is refused."""
    bench, inside, seen = Bench(), [], []
    bench.call("new", {"lab": "one", "structure": "paper", "monoid": "sum"})
    bench.call("apply", {"lab": "one", "operation": {"op": "fill", "count": 3000}})
    apply = bench._calls["apply"]

    def watched(request: dict[str, Any]) -> Any:
        inside.append(request)
        try:
            return apply(request)
        finally:
            inside.clear()

    def watch(phase: str, _: dict[str, int]) -> None:
        seen.extend(inside)

    bench._calls["apply"] = watched
    gc.callbacks.append(watch)
    try:
        bench.call("apply", {"lab": "one", "operation": {"op": "insert", "late": 1500}})
        with pytest.raises(SashError):
            bench.call("apply", {"lab": "one", "operation": {"op": "insert", "late": -1}})
    finally:
        gc.callbacks.remove(watch)
    assert seen == []
    assert gc.isenabled()


@pytest.mark.parametrize("method, path", [("GET", "/"), ("POST", "/api/about")])
def test_other_hosts_are_refused(server: Server, method: str, path: str) -> None:
    """A request that names another host, or comes from another site's page, is refused."""
    port = server.server_port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(server, method, path, {} if method == "POST" else None, {"Host": host})[0] == 200
    strangers = ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{port}")
    for host in strangers:
        status, answer, _ = ask(server, method, path, {} if method == "POST" else None, {"Host": host})
        assert (status, answer["error"]) == (403, "The explorer answers to this machine only.")
    for origin in ("http://evil.example", f"https://localhost:{port}", "null", f"http://localhost:{port}.evil.example"):
        assert ask(server, method, path, {} if method == "POST" else None, {"Origin": origin})[0] == 403
    assert ask(server, method, path, {} if method == "POST" else None, {"Origin": f"http://localhost:{port}"})[0] == 200


def test_a_request_without_a_host_is_refused(server: Server) -> None:
    """HTTP/1.0 allows requests without a host; they get nothing."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as raw:
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b" 403 " in raw.recv(200)


@pytest.mark.parametrize(
    "path, body, headers, status",
    [
        ("/api/about", b"{}", {"Content-Type": "text/plain"}, 415),
        ("/api/about", b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("/api/about", b"{", {}, 400),
        ("/api/about", b"[]", {}, 200),
        ("/api/about", b"\xff\xfe", {}, 400),
        ("/api/about", b"[" * 90_000, {}, 400),
        ("/api/about", b"{" + b" " * 200_000 + b"}", {}, 413),
        ("/api/about", b"{}", {"Content-Length": "many"}, 413),
        ("/api/nothing", b"{}", {}, 200),
        ("/api/new", b'{"lab": ""}', {}, 200),
        ("/api/new", b'{"lab": "a", "structure": {}}', {}, 200),
        ("/api/apply", b'{"lab": "unknown", "operation": {"op": "insert"}}', {}, 200),
        ("/api/story", b'{"story": "none"}', {}, 200),
        ("/api/resume", b'{"story": "race", "labs": "a", "step": 1}', {}, 200),
        ("/api/resume", b'{"story": "race", "labs": ["a", "b"], "step": "1"}', {}, 200),
    ],
)
def test_bad_requests_get_a_sentence(
    server: Server, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Whatever is sent, the answer is a sentence and the server lives on."""
    found, answer, _ = ask(server, "POST", path, body, headers)
    assert found == status
    assert answer["error"]
    assert ask(server, "POST", "/api/about", {})[0] == 200


@pytest.mark.parametrize("path", ["/nothing", "/../lab.py", "/explorer.js/..", "/page/index.html", "//etc/passwd"])
def test_only_the_page_is_served(server: Server, path: str) -> None:
    """No other file can be read."""
    assert ask(server, "GET", path)[0] == 404


def test_windows_of_pages_are_apart(server: Server) -> None:
    """Each name has its own window, and the errors of sash come with their argument."""
    for lab, value in (("one", "x"), ("two", "y")):
        assert ask(server, "POST", "/api/new", {"lab": lab})[0] == 200
        operation = {"op": "insert", "time": 1, "value": value}
        status, report, _ = ask(server, "POST", "/api/apply", {"lab": lab, "operation": operation})
        assert (status, report["answer"]["value"]) == (200, value)
    status, report, _ = ask(server, "POST", "/api/undo", {"lab": "one"})
    assert report["totals"]["entries"] == 0
    status, answer, _ = ask(server, "POST", "/api/apply", {"lab": "two", "operation": {"op": "insert", "late": "x"}})
    assert (status, answer["argument"]) == (200, "late")


def test_old_windows_make_room(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server keeps the windows that were used last, and says so of one that is gone."""
    monkeypatch.setattr(server_module, "_MOST_LABS", 2)
    for name in ("a", "b", "c"):
        ask(server, "POST", "/api/new", {"lab": name})
    assert ask(server, "POST", "/api/look", {"lab": "c"})[0] == 200
    status, answer, _ = ask(server, "POST", "/api/look", {"lab": "a"})
    assert status == 200 and "start a new one" in answer["error"]


def test_about_lists_what_there_is(server: Server) -> None:
    """The page builds its lists from the answer."""
    _, about, _ = ask(server, "POST", "/api/about", {})
    assert [story["key"] for story in about["stories"]] == list(STORIES)
    assert "fiba" in about["structures"] and "sum" in about["monoids"]


def test_a_port_that_is_taken_is_an_error(server: Server) -> None:
    """A second server on one port raises."""
    with pytest.raises(OSError, match="in use"):
        Server(server.server_port)
