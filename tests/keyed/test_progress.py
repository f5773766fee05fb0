"""The line of progress: on a terminal, while work runs, and gone afterwards."""

import io
import threading

import numpy as np
import pyarrow as pa
import pytest

from sash import monoids, rolling
from sash.keyed import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of stderr; not as a fixture, because pytest puts its own there when the test begins."""
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    return shown


def test_it_is_shown_and_then_gone(monkeypatch):
    """It says how much is done as often as it looks, and leaves an empty line."""
    shown = terminal(monkeypatch)
    looked = threading.Event()

    def done() -> int:
        looked.set()
        return 500

    with progress.shown_on_terminal("rolling", 1_000, done):
        assert looked.wait(60)
    assert "rolling ████████████" in shown.getvalue()
    assert " 50%" in shown.getvalue()
    assert shown.getvalue().endswith("\r\033[K")


def test_nobody_looks(monkeypatch):
    """Without a terminal nothing is written, and nothing is counted."""
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.shown_on_terminal("rolling", 1_000, lambda: pytest.fail("looked")):
        pass
    assert shown.getvalue() == ""


def test_it_ends_with_the_work_that_fails(monkeypatch):
    """What raises inside raises outside, and the watcher is gone."""
    terminal(monkeypatch)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), progress.shown_on_terminal("rolling", 10, lambda: 1):
        _ = 1 // 0
    assert threading.active_count() == before


def test_the_engine_says_how_far_it_is(monkeypatch):
    """What is done is never more than what there is to do, of all windows together."""
    seen = []
    real = progress.line

    def line(label: str, total: int, done: int, seconds: float) -> str:
        seen.append((total, done))
        return real(label, total, done, seconds)

    terminal(monkeypatch)
    monkeypatch.setattr(progress, "line", line)
    table = pa.table({"t": np.arange(200_000), "x": np.arange(200_000)})
    rolling(table, time="t", windows=[10, 1000], aggs={"s": monoids.sum("x")})
    assert seen
    assert all(total == 400_000 and 0 <= done <= total for total, done in seen)
