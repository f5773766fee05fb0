"""The view of a running pipeline, recorded as text: the panel, the plain lines, and how each ends."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from sash.cli.view import View
from sash.pipeline.run.run import Outcome, Progress

OUTCOME = Outcome(rows_in=60_000, emitted=1_500, late=3, revised=40, quarantined=7, batches=3, seconds=75.0)


def progress_of(batch=0, **changed):
    """Return the progress of a micro-batch."""
    usual = {
        "rows": 20_000,
        "seconds": 2.0,
        "rows_per_second": 10_000.0,
        "watermark": "2026-01-01T00:05:00.000Z",
        "late": 0,
        "revised": 0,
        "emitted": 500,
        "quarantined": 0,
        "state_bytes": 2_500_000,
        "live_keys": 1_000,
        "value": 42.5,
    }
    return Progress(batch, **(usual | changed))


def shown(updates, outcome=None, *, live, width=100):
    """Return everything that a view of these micro-batches wrote."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=live, width=width, color_system=None, highlight=False)
    with View("payments", "total_1h", live, console) as view:
        for progress in updates:
            view.update(progress)
        if outcome is not None:
            view.finish(outcome)
    return out.getvalue()


def panel_after(updates, width=100):
    """Return the panel alone, as it stands after these micro-batches."""
    console = Console(file=io.StringIO(), width=width, color_system=None, record=True)
    view = View("payments", "total_1h", False, console)
    for progress in updates:
        view.update(progress)
    console.export_text()  # forgets the plain lines
    console.print(view)
    return console.export_text()


UPDATES = [
    progress_of(0, watermark=None, value=None),
    progress_of(1, rows_per_second=20_000.0, late=2, revised=30),
    progress_of(2, watermark="2026-01-01T00:15:00.000Z", late=1, revised=10, quarantined=7, value=50.0),
]


def test_plain_lines_are_one_for_each_micro_batch():
    """A log gets a line per micro-batch and one for the end, and nothing that moves a cursor."""
    text = shown(UPDATES, OUTCOME, live=False, width=40)
    assert "\x1b" not in text and "\r" not in text
    lines = text.splitlines()
    assert len(lines) == 5
    assert lines[1] == (
        "batch 0 | 20,000 rows in 2.0 s (10k rows/s) | watermark – | 500 out | 0 late | 0 revised | 0 quarantined "
        "| state 2.5 MB | 1,000 keys"
    )
    assert lines[3].startswith("batch 2 | ") and lines[3].endswith("| total_1h 50")
    assert lines[4] == (
        "payments: done after 1 min 15 s: 60,000 rows in, 1,500 results out (40 revised), 3 late, 7 quarantined, "
        "3 micro-batches"
    )


def test_panel_adds_up_and_draws():
    """The panel has totals of what was counted, the last of what is measured, and both lines of blocks."""
    text = panel_after(UPDATES)
    assert "60,000" in text and "3 late" in text and "40 revised" in text and "7 quarantined" in text
    assert "2026-01-01 00:15:00" in text and "advanced by 10 min" in text
    assert "2.5 MB" in text and "1,000 live keys" in text and "10k" in text
    assert " ▁█" in text  # the value: nothing, 42.5, 50
    assert "▁█▁" in text  # rows/s


@pytest.mark.parametrize("width", [40, 80, 200])
def test_panel_fits_its_terminal(width):
    lines = panel_after([replace(progress, batch=i) for i, progress in enumerate(UPDATES * 50)], width).splitlines()
    assert max(map(len, lines)) <= width and len(lines) <= 10


def test_panel_waits_for_the_first_micro_batch():
    assert "Starting Spark" in panel_after([])


def test_a_micro_batch_without_rows_has_no_speed():
    """Timers that fire alone say nothing about rows per second."""
    text = panel_after([progress_of(0), progress_of(1, rows=0, rows_per_second=0.0)])
    assert "10k" in text


def test_the_end_of_a_stream_is_not_a_date():
    text = shown([progress_of(watermark="9998-12-31T23:59:30.000Z")], live=False)
    assert "watermark end of stream" in text and "9998" not in text


def test_the_lag_of_kafka_is_shown():
    """In the line and in the panel, and only if the source is Kafka."""
    behind = progress_of(kafka_lag=1_234)
    assert " | lag 1,234 records | " in shown([behind], live=False) and "lag" not in shown([progress_of()], live=False)
    assert re.search(r"lag +1,234 +records of Kafka that are not read yet", panel_after([behind]))


def test_questions_are_counted_where_there_are_some():
    """In the line, in the panel and at the end."""
    asked = progress_of(questions=1_500, late_questions=2)
    text = shown([asked, asked], replace(OUTCOME, questions=3_000, late_questions=4), live=False)
    assert text.count(" | 1,500 questions (2 late) | total_1h") == 2
    assert "60,000 rows in, 3,000 questions (4 late), 1,500 results out" in text
    assert re.search(r"questions +3,000 +4 late", panel_after([asked, asked]))
    assert "questions" not in shown(UPDATES, OUTCOME, live=False) + panel_after(UPDATES)


def test_live_view_leaves_its_last_panel_and_the_counts():
    text = shown(UPDATES, replace(OUTCOME, stopped=True), live=True)
    assert text.splitlines()[-1].endswith("3 micro-batches") and "payments: stopped after 1 min 15 s" in text
    assert "2026-01-01 00:15:00" in text and "\x1b[?25h" in text  # the cursor is shown again


def test_live_view_survives_an_error():
    """What was drawn stays when the run fails, and the cursor comes back."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    view = View("payments", "total_1h", True, console)
    with pytest.raises(ValueError), view:
        view.update(UPDATES[2])
        raise ValueError("the sink is gone")
    assert "\x1b[?25h" in out.getvalue()
