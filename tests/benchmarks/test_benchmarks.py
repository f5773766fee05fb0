"""What the benchmarks stand on: rows that are late as they say, an oracle that agrees, a baseline that can be told."""

import numpy as np
import pytest

from benchmarks import baseline, late
from benchmarks.streams import Rows, boundaries_of, windows_of


@pytest.mark.parametrize("case", late._cases(2**22), ids=lambda case: case.sentence)
def test_every_case_agrees_with_the_oracle(case):
    """A case is verified in small before it is measured, and so is its like in order."""
    assert late.Pair(**case.small(2**22)).answers() == late.Pair(**case.small(2**22)).answers()


def test_one_late_row_and_late_events_agree_with_the_oracle():
    """The cases that push single rows are verified too."""
    late.OneRow(256, [16, 64]).answers()
    late.Updates([(256, 10), (256, 64)]).answers()


def test_an_engine_under_the_clock_does_the_same():
    """The clock passes every call on and adds up what it took."""
    row = late.OneRow(256, [16, 64])
    found = row.turn(2)
    assert all(ns > 0 for ns in found["ns"])
    assert row.stream.engine.metrics["live_rows"] > 256


def test_late_rows_fall_between_those_in_order():
    """Times are distinct; those in order are even, late ones odd and within the window."""
    rows = Rows(1_000, 500, late=0.1)
    first = rows.in_order(1_000)["t"].to_numpy()
    batches = [rows.next()["t"].to_numpy() for _ in range(10)]
    times = np.concatenate([first, *batches])
    assert len(np.unique(times)) == len(times)
    for batch in batches:
        in_order = batch[batch % 2 == 0]
        assert len(in_order) == 450
        assert np.all(np.diff(in_order) == 4)
        assert np.all(batch[batch % 2 == 1] > in_order[0] - 4 * 1_001)


def test_deletes_are_of_rows_that_are_there():
    """No row is deleted twice, and the oracle leaves deleted rows out."""
    rows = Rows(200, 100, deletes=0.1, named=True, keeps=True)
    rows.in_order(200)
    for _ in range(5):
        rows.next()
    gone = np.concatenate([ids[deleted] for _, ids, deleted in rows.kept])
    assert len(np.unique(gone)) == len(gone) == 50
    assert len(rows.held()[0]) == 200 + 5 * 90 - 50


def test_the_oracle_by_hand():
    """Windows are open on the left, and those of boundaries on the right."""
    times, values = np.array([0, 4, 5, 8]), np.array([1, 2, 3, 1])
    sums, tops = windows_of(times, values, times, 4)
    assert (sums.tolist(), tops.tolist()) == ([1, 2, 5, 4], [1, 2, 3, 3])
    sums, tops = windows_of(times, values, np.array([4, 8]), 4, "left")
    assert (sums.tolist(), tops.tolist()) == ([1, 5], [1, 3])
    assert boundaries_of(times, 4, 4).tolist() == [4, 8, 12]


def test_a_loss_is_a_median_beyond_the_quartiles():
    """The bound is the upper quartile of before."""
    before = baseline.Spread.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert before == (3.0, 2.0, 4.0)
    assert baseline.compare(baseline.Spread.of([3.9]), before) == (1.3, 4 / 3)


def test_a_missing_baseline_is_told(monkeypatch, tmp_path, capsys):
    """Without the commit there is a sentence, and today's side can still be measured."""
    monkeypatch.setitem(baseline.COMMITS, baseline.BASELINE, "0" * 40)
    monkeypatch.setattr(baseline, "_PLACE", tmp_path)
    assert baseline.available() == [baseline.CURRENT]
    assert "git" in capsys.readouterr().out


def test_a_worker_answers_and_says_what_is_wrong():
    """Calls go to the case in the other process; a wrong answer there ends the run here."""
    small = {"size": 256, "batch": 100, "late": 0.01}
    with baseline.workers("benchmarks.late:Pair", [baseline.CURRENT], small, **small) as started:
        assert len(baseline.alternate(started, 2, current={"pushes": 1})[baseline.CURRENT]) == 2
        started[0].make("benchmarks.late:Updates", cases=[(256, 300)])
        with pytest.raises(SystemExit, match="rows instead of 301"):
            started[0].call("turn")
