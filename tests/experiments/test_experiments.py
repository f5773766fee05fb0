"""The experiments: figures from the committed rows, claims on made-up rows, loads against the oracle, the runner."""

import io
import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from benchmarks import combines as counted
from experiments import FIGURES, combines, report, style, tables
from experiments.__main__ import main
from experiments.case import Case, Rows, bloom_size, read_csv, row_of, scale, write_csv
from experiments.claims import PAPERS
from experiments.fiba_claims import OURS, losses
from experiments.load import Batches, Rounds, Shared, WrongAnswerError, follow, timed
from experiments.machine import STAMPS, stamp
from experiments.random_distance import Scattered, arrivals
from experiments.runner import CaseFailedError, Journal, Runner, expected_s, run_all
from experiments.series import ALL, MONOIDS, ON_SPARK, SHOWN, TREES, MissingSeriesError
from sash import Monoid, SashError, Window, monoids
from support import made_up_rows
from support.structures import STRUCTURES

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"


def committed(figure: str) -> Rows:
    return read_csv(RESULTS / f"{figure}.csv", STAMPS)


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_are_drawn_from_the_committed_rows(figure):
    """Every figure can be drawn from what is in the repository, with a name for each series that it must show."""
    with style.context():
        drawn = import_module(f"experiments.{figure}").draw(committed(figure))
        drawn.savefig(io.BytesIO(), dpi=30)
    texts = " ".join(text.get_text() for text in drawn.findobj(lambda artist: hasattr(artist, "get_text")))
    for series in SHOWN[figure].series:
        assert style.LOOKS[series].name in texts.replace("\n", " "), series


@pytest.mark.parametrize("figure", ["distance", "fifo", "sharing", "bulk", "random_distance"])
def test_every_panel_has_a_line_for_every_series(figure):
    """No panel is thinner than the list of series says."""
    with style.context():
        drawn = import_module(f"experiments.{figure}").draw(committed(figure))
    for axes in drawn.axes:
        labels = [line.get_label() for line in axes.lines]
        for series in SHOWN[figure].series:
            lines = len(SHOWN[figure].variants) if figure == "sharing" else 1
            assert labels.count(style.LOOKS[series].name) == lines, series


@pytest.mark.parametrize("figure", FIGURES)
def test_a_missing_series_is_an_error(figure):
    """A figure is not drawn when one of its series has no rows."""
    rows = committed(figure)
    for monoid, variant, series in SHOWN[figure].expected():
        without = Rows(
            row for row in rows if (row["monoid"], row["variant"], row["series"]) != (monoid, variant, series)
        )
        assert len(without) < len(rows)
        with pytest.raises(MissingSeriesError, match=re.escape(series)):
            import_module(f"experiments.{figure}").draw(without)


def test_nothing_is_drawn_that_is_not_tested():
    """Every series is a structure of the model tests, and has a look of its own."""
    assert {series.structure for series in ALL.values()} == {structure.name for structure in STRUCTURES}
    assert set(style.LOOKS) == {*ALL, *ON_SPARK}
    looks = [(look.color, look.marker, str(look.dash), look.hollow) for look in style.LOOKS.values()]
    assert len(set(looks)) == len(looks)
    grey = [(look.marker, str(look.dash), look.hollow, look.width) for look in style.LOOKS.values()]
    assert len(set(grey)) == len(grey)


@pytest.mark.parametrize("quick", [True, False])
def test_plans_hold_every_series_and_fit_their_time(quick):
    """A run measures what the figures must show: quickly in three minutes, in full within an hour."""
    groups = [group for figure in FIGURES for group in import_module(f"experiments.{figure}").plan(scale(quick))]
    cases = [case for group in groups for case in group]
    assert len({case.key for case in cases}) == len(cases)
    for figure in FIGURES:
        planned = {(case.monoid, case.variant, case.series) for case in cases if case.figure == figure}
        assert planned == set(SHOWN[figure].expected())
    assert sum(map(expected_s, groups)) < (150 if quick else 3600)


def test_bloom_windows_take_half_the_memory():
    """Bloom filters get the largest window, up to the paper's, that half the memory holds."""
    assert bloom_size(24 * 2**30) == 2**20
    assert bloom_size(2**40) == 2**22
    assert bloom_size(2**20) == 2**10


def test_rows_survive_the_csv(tmp_path):
    """What is written is what is read, the stamps as text."""
    case = Case("fifo", "sum", "", "fiba", 4, 4, 0, 2, 1.0)
    row = row_of(case, [1.5, 2.25, 9.0], "ns", 7) | stamp("quick")
    assert (row["median"], row["low"], row["high"]) == (2.25, 1.5, 9.0)
    assert row["samples"] == "1.5 2.25 9"
    write_csv(tmp_path / "fifo.csv", [row])
    assert read_csv(tmp_path / "fifo.csv", STAMPS) == [row]
    assert all(row[name] for name in STAMPS)


# --- claims ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [*PAPERS, *OURS], ids=lambda claim: claim.check.__name__)
def test_claims_can_hold_and_can_fail(claim):
    """Each claim holds in a world made so, does not in its opposite, and cannot be told from nothing."""
    assert claim.found(made_up_rows.as_claimed()).holds is True, claim.found(made_up_rows.as_claimed()).measured
    assert claim.found(made_up_rows.the_opposite()).holds is False, claim.found(made_up_rows.the_opposite()).measured
    assert claim.found({}) == ("not measured", None)


@pytest.mark.parametrize("claim", [*PAPERS, *OURS], ids=lambda claim: claim.check.__name__)
def test_claims_can_be_read_from_the_committed_rows(claim):
    """Each claim says something of the rows in the repository."""
    found = claim.found({figure: committed(figure) for figure in FIGURES})
    assert found.measured
    assert found.holds in (True, False, None)


def test_too_few_points_tell_nothing():
    """A claim about a curve is not judged by one point of it."""
    rows = Rows(row for row in made_up_rows.as_claimed()["distance"] if row["x"] == 0)
    assert all(claim.found({"distance": rows}).holds is None for claim in PAPERS if claim.figure == "distance")


def test_losses_name_the_rival():
    """Where fiba is behind, the report says by whom, where and by how much; where it is not, nothing."""
    rows = [("fiba", 1, 20.0), ("daba", 1, 10.0), ("fiba", 2, 10.0), ("daba", 2, 9.9)]
    found = losses(
        {"fifo": Rows({"series": s, "x": x, "median": ns, "monoid": "sum", "variant": ""} for s, x, ns in rows)}
    )
    assert [tuple(loss) for loss in found] == [("fifo", "sum", "1", "DABA takes 50% of ours at 1")]


def test_the_report_stands_alone(tmp_path, monkeypatch):
    """The report embeds its pictures, refers to no other file, and holds every claim."""
    monkeypatch.setattr(report, "draw", lambda figure, rows, path: path.write_bytes(b"picture"))
    text = report.write_report(RESULTS, tmp_path).read_text()
    assert text.count("data:image/png;base64,") == len(FIGURES)
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert text.count('<td class="') == len(PAPERS) + len(OURS)


def test_the_tables_of_the_documentation_are_those_of_the_rows():
    """`python -m experiments.tables` writes them."""
    page = tables.PAGE.read_text()
    assert tables.written(page) == page
    assert all(table.count("\n") >= 5 and table in page for table in tables.tables().values())


# --- loads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("monoid", MONOIDS)
@pytest.mark.parametrize("series", ALL)
def test_rounds_answer_as_the_oracle_does(series, monoid):
    """Every structure that is measured gives the oracle's answers round by round, at every distance it takes."""
    for n, d in ((1, 0), (2, 0), (40, 0), (40, 1), (40, 17), (40, 40)):
        if not d or not ALL[series].in_order:
            load = Rounds(series, monoid, n, d)
            follow(load)
            assert load.right()


@pytest.mark.parametrize("monoid", MONOIDS)
@pytest.mark.parametrize("series", SHOWN["sharing"].series)
def test_shared_windows_answer_as_the_oracle_does(series, monoid):
    """Twin and range agree with the oracle for the big window and for the small one."""
    for variant in ("twin", "range"):
        for small in (1, 2, 16, 40):
            load = Shared(series, monoid, 40, small, variant)
            follow(load)
            assert load.right()


@pytest.mark.parametrize("series", TREES)
def test_batches_and_scattered_rounds_answer_as_the_oracle_does(series):
    """The loads beyond the paper agree with the oracle too."""
    loads = [Batches(series, "sum", 40, d, m) for d in (0, 10) for m in (1, 7)]
    loads += [Scattered(series, "sum", 40, law, 8, 100) for law in ("uniform", "heavy-tailed")]
    for load in loads:
        follow(load)
        assert load.right()


def test_a_wrong_answer_is_not_timed(monkeypatch):
    """A load that loses a round is found out by the oracle, and one that loses it later by the recomputation."""
    case = Case("distance", "sum", "", "fiba", 0, 1000, 0, 1, 0.1)
    monkeypatch.setattr(Rounds, "go", lambda self, times, values: None)
    with pytest.raises(WrongAnswerError, match="the oracle"):
        timed(case, range(1), Rounds("fiba", "sum", 10, 0), lambda: Rounds("fiba", "sum", 1000, 0))
    monkeypatch.setattr("experiments.load.follow", lambda small: None)
    with pytest.raises(WrongAnswerError, match="a wrong answer"):
        timed(case, range(1), Rounds("fiba", "sum", 10, 0), lambda: Rounds("fiba", "sum", 1000, 0))


def distances_of(stream: np.ndarray, early: np.ndarray) -> np.ndarray:
    come = np.concatenate([early, stream])
    return np.array([np.count_nonzero(come[:i] > come[i]) for i in range(len(early), len(come))])


def test_uniform_distances_are_uniform():
    """Below x, all distances are about as frequent."""
    early, stream = arrivals("uniform", 256, 4000, 2000)
    found = distances_of(stream, early)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert np.mean(found < 256 * share) == pytest.approx(share, abs=0.05)
    assert len(set(stream) | set(early)) == len(stream) + len(early)


def test_heavy_tailed_distances_have_their_median_and_tail():
    """Half are below x, and P(distance > δ) falls like x / δ."""
    early, stream = arrivals("heavy-tailed", 32, 4000, 3000)
    found = distances_of(stream, early)
    assert np.median(found) == pytest.approx(32, rel=0.2)
    assert np.mean(found > 320) == pytest.approx(1 / 11, rel=0.4)


def test_combines_are_those_of_the_benchmark():
    """The figure counts what the table in docs/algorithm.md counts."""
    for series, d in (("fiba", 0), ("fiba", 64), ("paper µ=4", 64), ("classic µ=2", 0)):
        case = Case("combines", "sum", "by distance", series, d, 2**12, d, 1, 1.0, rounds=1024)
        wanted = counted.per_round(ALL[series].structure, ALL[series].options, d, 2**12, 1024)
        assert combines.run(case)["median"] == pytest.approx(wanted, abs=0.1)


def test_measuring_loops_refuse_what_they_cannot_measure():
    """The native loops name what they lack instead of running on it."""
    times = np.arange(6)
    window, other = Window(monoids.sum()), Window(monoids.sum(), structure="paper")
    with pytest.raises(SashError, match="must have entries"):
        window._run_rounds(times, times, 3, None, None, 0)
    window.insert_many(times, times)
    other.insert_many(times, times)
    python = Window(Monoid(identity=0, combine=lambda a, b: a + b))
    python.insert_many([1], [1])
    for said, call in {
        "count": lambda: window._run_rounds(times, times, 0, None, None, 0),
        "twin must be another window": lambda: window._run_rounds(times, times, 3, None, window, 2),
        "this window's structure": lambda: window._run_rounds(times, times, 3, None, other, 2),
        "starts": lambda: window._run_rounds(times, times, 3, times[:2], None, 0),
        "cuts": lambda: window._run_batches(times, times, times, 2),
        "values": lambda: python._run_rounds(times, [1] * 6, 3, None, None, 0),
    }.items():
        with pytest.raises(SashError, match=said):
            call()
    assert list(window) == list(times) and window.query() == times.sum()


# --- the runner -----------------------------------------------------------------------------------


def fake(series: str, x: int = 0, monoid: str = "sum", repeats: int = 3) -> Case:
    return Case("fake_figure", monoid, "", series, x, 8, 0, repeats, 1.0)


def test_cases_of_a_group_take_turns_in_processes_of_their_own():
    """Samples alternate: the first of every case, then the second of every case."""
    group = [fake("fiba"), fake("paper µ=4"), fake("classic µ=4")]
    rows = Runner(cores=2, package="tests.support").run(group)
    assert [row["series"] for row in rows] == [case.series for case in group]
    assert len({row["process"] for row in rows}) == 3
    samples = [[float(sample) for sample in row["samples"].split()] for row in rows]
    assert all(len(taken) == 3 for taken in samples)
    for turn in (0, 1):
        assert max(taken[turn] for taken in samples) < min(taken[turn + 1] for taken in samples)


@pytest.mark.parametrize("monoid, said", [("raises", "no such thing"), ("dies", "ended with 3")])
def test_a_case_that_fails_is_named(monoid, said):
    """What a process raised, or that it died, comes with the name of its case."""
    with pytest.raises(CaseFailedError, match=f"(?s)fake_figure, {monoid}, fiba.*{said}"):
        Runner(cores=2, package="tests.support").run([fake("paper µ=4"), fake("fiba", monoid=monoid)])


GROUPS = [[fake("fiba", x), fake("daba", x)] for x in range(4)]
HEADING = {"scale": "quick", "core": "1"}


def measured_by(calls: list[int], failing_at: int | None = None):
    def measure(group):
        if group[0].x == failing_at:
            raise KeyboardInterrupt
        calls.append(group[0].x)
        return [row_of(case, [float(case.x)], "ns", 1) for case in group]

    return measure


def test_a_stopped_run_goes_on(tmp_path):
    """What was measured before the stop is not measured again, and the rows come in the order of the plan."""
    path, calls, left = tmp_path / "journal.jsonl", [], []
    with pytest.raises(KeyboardInterrupt):
        run_all(GROUPS, Journal(path, HEADING), {"commit": "a"}, measured_by(calls, failing_at=2), lambda *_: None)
    assert calls == [0, 1]
    with path.open("a") as file:
        file.write('{"case": ["cut off in the mid')
    journal = Journal(path, HEADING)
    rows = run_all(GROUPS, journal, {"commit": "b"}, measured_by(calls), lambda group, s: left.append(s))
    assert calls == [0, 1, 2, 3]
    assert [(row["x"], row["commit"]) for row in rows] == [(0, "a")] * 2 + [(1, "a")] * 2 + [(2, "b")] * 2 + [
        (3, "b")
    ] * 2
    assert left == sorted(left, reverse=True) and len(left) == 2
    journal.forget(GROUPS[:3])
    assert set(Journal(path, HEADING).rows) == {case.key for case in GROUPS[3]}
    journal.forget(GROUPS)
    assert not path.exists()


def test_a_run_of_another_build_starts_anew(tmp_path):
    """Rows of another core, machine or scale are never mixed in."""
    path, calls = tmp_path / "journal.jsonl", []
    run_all(GROUPS, Journal(path, HEADING), {}, measured_by(calls), lambda *_: None)
    journal = Journal(path, HEADING | {"core": "2"})
    assert journal.stale and not journal.rows
    run_all(GROUPS, journal, {}, measured_by(calls), lambda *_: None)
    assert calls == [0, 1, 2, 3] * 2
    assert json.loads(path.read_text().splitlines()[0]) == HEADING | {"core": "2"}


def test_the_plan_says_how_long_it_takes(capsys):
    """`--plan` measures nothing and says how much there is to do."""
    main(["--quick", "--plan", "--only", "fifo"])
    assert re.search(r"quick: \d+ cases, about \d+ seconds", capsys.readouterr().out)
