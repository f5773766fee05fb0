"""The demo's verification and its report, from a run without Spark."""

import ast
import base64
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sash import plot_style
from sash.demo import pictures, report, summary, verify
from support import demo_summary
from support.demo_summary import MINUTE, ROWS, RULES


@pytest.fixture(scope="module")
def results():
    _, history, _ = demo_summary.run()
    return demo_summary.latest(history)


def judged(table, late=None):
    events, _, _ = demo_summary.run()
    return verify.verify(events, RULES, table, late)


def changed(table, column, row, value):
    values = table.column(column).to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


# --- verification ---------------------------------------------------------------------------------------


def test_right_results_hold(results):
    """Results of the engine are those of the loops, and so is what came too late."""
    _, _, late = demo_summary.run()
    verdict = judged(results, late)
    assert verdict.holds and verdict.wrong == ()
    assert verdict.compared == results.num_rows > 5_000
    assert verdict.keys == 40 and verdict.late == late > 0


@pytest.mark.parametrize("column", RULES.columns)
def test_one_wrong_value_is_found_and_named(results, column):
    """A single value that is off by one is reported with its key, its time and both numbers."""
    row = results.num_rows // 2
    right = results.column(column)[row].as_py()
    verdict = judged(changed(results, column, row, right + 1))
    place = f"card {results['card'][row]} at {results['window_end'][row].as_py():%Y-%m-%d %H:%M:%S}"
    assert verdict.wrong == (f"{place}: {column} is {right + 1}, not {right}",)
    assert not verdict.holds


def test_a_missing_result_and_one_too_many_are_found(results):
    missing = judged(results.slice(1))
    assert len(missing.wrong) == 1 and missing.wrong[0].endswith(": missing result")
    stranger = changed(results.slice(0, 1), "card", 0, "card-99")
    extra = judged(pa.concat_tables([results, stranger]))
    assert len(extra.wrong) == 1 and "card card-99 at 2026-01-01" in extra.wrong[0]
    assert extra.wrong[0].endswith(": unexpected result")


def test_a_wrong_count_of_late_rows_is_found(results):
    _, _, late = demo_summary.run()
    (said,) = judged(results, late - 1).wrong
    assert said == f"late: the pipeline counted {late - 1} rows that arrived too late, not {late}"


def test_loops_by_hand():
    """Three payments and a retraction, added up on paper."""
    events = verify.Events(
        times=np.array([10, 70, 75, 70]) * 10**6,
        arrivals=np.array([10, 70, 75, 80]) * 10**6,
        keys=np.array(["a", "a", "b", "a"]),
        ids=np.array([0, 1, 2, 1]),
        amounts=np.array([5, 9, 3, 9]),
        deletes=np.array([False, False, False, True]),
    )
    rules = verify.Rules("card", {"1m": MINUTE, "2m": 2 * MINUTE}, MINUTE, 0, 0, 10)
    assert verify.recomputed(events, rules, np.zeros(4, dtype=bool)) == {
        ("a", MINUTE): (1, 5, 5, 1, 5, 5),
        ("a", 2 * MINUTE): (0, None, None, 1, 5, 5),
        ("b", 2 * MINUTE): (1, 3, 3, 1, 3, 3),
        ("b", 3 * MINUTE): (0, None, None, 1, 3, 3),
    }


def test_how_events_came_by_hand():
    """In micro-batches of two, with a delay of one minute and a lateness of one."""
    minutes = np.array([1, 10, 9, 11, 8, 9, 10, 7])
    events = verify.Events(*[minutes * MINUTE] * 2, *[np.zeros(8, dtype=np.int64)] * 3, np.zeros(8, dtype=bool))
    rules = verify.Rules("card", {"1m": MINUTE}, MINUTE, MINUTE, MINUTE, 2)
    # Watermarks are none, 9, 10, 10 minutes; results are shown up to none, none, 9, 10.
    fine, behind, late = verify.IN_ORDER, verify.OUT_OF_ORDER, verify.TOO_LATE
    assert verify.arrived(events, rules).tolist() == [fine, fine, behind, fine, late, behind, behind, late]


def test_the_verification_knows_nothing_of_the_engine():
    """It reads the made-up events and no other part of sash."""
    tree = ast.parse(Path(verify.__file__).read_text())
    named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    named |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in named if name.split(".")[0] == "sash"} == {"sash.pipeline.sources.generated"}


# --- the summary ----------------------------------------------------------------------------------------


def test_first_and_last_revision():
    """The first row that was shown of each result, and the last, in whatever order they stand."""
    rows = [("a", 60, 3, 30, False), ("a", 60, 1, 10, False), ("a", 120, 2, 5, False), ("a", 120, 4, None, True)]
    cards, ends, numbers, totals, gone = (list(column) for column in zip(*rows, strict=True))
    times = pa.array(ends, pa.timestamp("us", "UTC"))
    columns = {"card": cards, "window_end": times, "revision": numbers, "total_10m": totals, "deleted": gone}
    history = pa.table(columns)
    revised = summary.revised_of(history, RULES, "total_10m")
    assert revised.key == "a" and revised.ends.tolist() == [60, 120] and revised.changed == 2
    assert revised.first.tolist() == [10, 5] and revised.last[0] == 30 and np.isnan(revised.last[1])


def test_progress_survives_a_crash(tmp_path):
    """A truncated line is skipped, and of a micro-batch that ran twice the last line counts."""
    path = tmp_path / "progress.jsonl"
    assert summary.recorded(path) == []
    for number, rows in ((0, 5), (1, 6), (1, 7)):
        summary.record(path, {"batch": number, "rows": rows})
    with path.open("a") as lines:
        lines.write('{"batch": 2, "ro')
    assert summary.recorded(path) == [{"batch": 0, "rows": 5}, {"batch": 1, "rows": 7}]
    summary.record(path, {"batch": 2, "rows": 8})
    summary.record(path, {"batch": 3, "rows": 9})
    assert [batch["batch"] for batch in summary.recorded(path)] == [0, 1, 2, 3]


def test_numbers_are_those_of_the_events():
    summarized = demo_summary.summarized()
    numbers = summarized.numbers
    assert numbers["events"] == ROWS and numbers["verified"] == summarized.verdict.compared
    assert numbers["out_of_order"] > numbers["revising"] > numbers["too_late"] > 0
    assert numbers["seconds"] == pytest.approx(sum(batch["seconds"] for batch in summarized.batches))


# --- the report -----------------------------------------------------------------------------------------


def test_report_needs_no_other_file(tmp_path):
    """The page holds its pictures, and refers to nothing outside."""
    summarized = demo_summary.summarized()
    page, picture = report.write_report(summarized, tmp_path)
    text = page.read_text()
    images = [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', text)]
    assert [image[:4] for image in images] == [b"\x89PNG"] * 3
    assert images == [(tmp_path / "pictures" / f"{name}.png").read_bytes() for name in ("arrival", "revisions", "load")]
    assert "http" not in text and re.findall(r'(?:src|href)="(?!data:)', text) == []
    assert f"Verified: {summarized.verdict.compared:,} results of 40 cards" in text
    assert picture.read_bytes()[:4] == b"\x89PNG" and not list(tmp_path.glob("**/*.part"))


def test_report_of_wrong_results_says_so():
    summarized = demo_summary.summarized()
    wrong = replace(summarized, verdict=replace(summarized.verdict, wrong=("card <7> at noon: n is 1, not 2",)))
    text = report.page(wrong, [])
    assert "RESULTS ARE WRONG" in text and "card &lt;7&gt; at noon: n is 1, not 2" in text and "Verified" not in text


def test_report_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(plot_style, "available", lambda: False)
    assert report.write_report(demo_summary.summarized(), tmp_path) == [tmp_path / "report.html"]
    assert 'pip install "sash[plot]"' in (tmp_path / "report.html").read_text()


def test_titles_say_what_is_seen():
    summarized = demo_summary.summarized()
    arrival, revisions, load = (title for title, _, _ in pictures.sections(summarized).values())
    share = (summarized.came != verify.IN_ORDER).mean()
    assert arrival.startswith(f"{share:.0%} of the events arrive out of order")
    assert f"of the first results for {summarized.revised.key} were revised" in revisions
    assert "of 40 micro-batches" in load and "120 kB of state" in load
