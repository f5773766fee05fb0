"""A headless Chromium, and pages of it that fail a test on any error or request to another host."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from sash.explore.server import Server
from support.explorer import Explorer

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium of the system. Without one the tests are skipped, except where CI is set."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        sentence = "The tests of the page need a browser; install Debian's chromium."
        pytest.fail(sentence) if os.environ.get("CI") else pytest.skip(sentence)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Where a server of the explorer is."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """A function that opens a page; at the end no page may have logged an error or asked another host."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(20_000)
    errors: list[str] = []

    def opened(address: str) -> Any:
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.extend(strange_request(request.url, address)))
        page.goto(address)
        page.wait_for_selector(".stage .numbers")
        return page

    yield opened
    context.close()
    assert errors == []


@pytest.fixture
def explorer(open_page: Callable[..., Any], url: str) -> Explorer:
    """The page with an empty window of the paper's tree."""
    made = Explorer(open_page(f"{url}?story=none"))
    made.settle()
    return made


def strange_request(asked: str, address: str) -> list[str]:
    """The address of a request, if it is to another place than the page's own."""
    here, there = urlsplit(address), urlsplit(asked)
    return [] if there.scheme == "data" or (there.scheme, there.netloc) == (here.scheme, here.netloc) else [asked]
