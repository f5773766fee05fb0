"""The stories: each caption is true of what the windows do, and the paper's example has the paper's numbers."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sash.errors import SashError
from sash.explore.play import labs_at, played, story_named
from sash.explore.record import PAGE, recorded, write_recorded
from sash.explore.stories import STORIES, letter_moves

Steps = list[dict[str, Any]]


def steps_of(key: str) -> Steps:
    """The steps of a story, with the reports of its first window."""
    return played(STORIES[key])["steps"]


def step_with(steps: Steps, caption: str) -> list[dict[str, Any]]:
    """The reports of the step whose caption starts so."""
    (found,) = [step["reports"] for step in steps if step["caption"].startswith(caption)]
    return found


# Of the paper: coins spent, and billed or (below zero) refunded.
# fmt: off
PAPER = {"B": (0, -1), "C": (0, 2), "D": (0, 1), "E": (1, -1), "F": (1, 0),
         "H": (2, 0), "J": (2, 1), "L": (2, -2), "N": (0, 1)}
# fmt: on
COINS = dict(zip("ABCDEFGHIJKLMN", [9, 8, 10, 11, 9, 8, 4, 2, 6, 5, 6, 2, 6, 7], strict=True))


@pytest.mark.parametrize("key", ["a-to-f", "g-to-n"])
def test_the_papers_example_has_the_papers_numbers(key: str) -> None:
    """Coins of each tree, and what each step spends and is billed."""
    seen = 0
    for step in steps_of(key):
        name = re.match(r"Tree (\w)|\w to (\w)", step["caption"])
        tree = name[1] or name[2]
        (report,) = step["reports"]
        assert report["totals"]["coins"] == COINS[tree]
        if tree in PAPER:
            assert (report["billed"]["spent"], report["billed"]["billed"]) == PAPER[tree]
            seen += 1
    assert seen == (5 if key == "a-to-f" else 4)


def test_the_tree_of_step_f() -> None:
    """The last tree of A to F is the paper's, with the aggregates that it prints."""
    (report,) = steps_of("a-to-f")[-1]["reports"]
    nodes = {"".join(node["values"]): node["aggregates"][0]["value"] for node in report["picture"]["nodes"]}
    assert nodes == {
        "go": "ghijklmno", "e": "ef", "cd": "cdef", "f": "f", "k": "hijklmn", "hij": "hij", "lmn": "lmn",
        "rt": "pqrst", "pq": "pq", "s": "s", "uv": "pqrstuv",
    }  # fmt: skip


def test_what_the_first_story_says_is_so() -> None:
    """One node in order, the fingers for the oldest, a few more by distance, three aggregates for a query."""
    steps = steps_of("first-steps")
    assert step_with(steps, "The fourth")[0]["update"]["splits"] == 1
    for caption in ("In order: the", "Late by one"):
        (report,) = step_with(steps, caption)
        assert report["update"]["touched"] == 1 and report["update"]["splits"] == 0
    assert step_with(steps, "In order again")[0]["update"]["splits"] == 1
    late = [step_with(steps, f"Late by {number}")[0] for number in ("one", "four", "ten")]
    assert [report["distance"] for report in late] == [1, 4, 10]
    looked = [len(report["update"]["looked"]) for report in late]
    assert 1 == looked[0] < looked[1] < looked[2] < 10
    (oldest,) = step_with(steps, "Evicting the oldest")
    assert len(oldest["update"]["looked"]) == 2
    (query,) = step_with(steps, "A query of the whole")
    assert len(query["query"]["read"]) == query["query"]["touched"] == 3
    (filled,) = step_with(steps, "Twenty-one more")
    assert filled["operation"]["count"] == 21 and filled["totals"]["entries"] == 25


def test_the_way_of_the_search_is_as_the_first_story_says() -> None:
    """Late by four: the right finger, the left one, a node of the right spine, the leaf; one does not change."""
    (report,) = step_with(steps_of("first-steps"), "Late by four")
    nodes = {node["id"]: node for node in report["picture"]["nodes"]}
    way = [(nodes[name]["spine"], nodes[name]["level"]) for name in report["update"]["looked"]]
    assert way == [("right", 0), ("left", 0), ("right", 1), (None, 0)]
    assert (report["update"]["seen"], report["update"]["altered"]) == (4, 3)


def test_what_the_first_story_says_of_a_large_window_is_so() -> None:
    """One node in order among 10,000 entries; late by a hundred stays below the root; the table grows like log d."""
    steps = steps_of("first-steps")
    (small,), (appended,), (late,) = (
        step_with(steps, start) for start in ("A query of a r", "In order: one", "Late by a h")
    )
    assert appended["update"]["touched"] == 1
    assert appended["totals"]["height"] == 3 * small["totals"]["height"]
    assert appended["totals"]["entries"] > 10_000 and late["distance"] == 100
    root = next(node["id"] for node in late["picture"]["nodes"] if node["parent"] is None)
    assert root not in late["update"]["looked"]
    less, more = ([rung["looked"] for rung in one["rungs"]] for one in steps[-1]["measured"])
    assert less[0] == more[0] == 1
    assert all(abs(a - b) <= 1 for a, b in zip(less, more, strict=False))
    assert all(0 <= after - before <= 3 for before, after in pairwise(more))
    assert [rung["distance"] for rung in steps[-1]["measured"][1]["rungs"]][-1] == 4096


def test_what_the_race_says_is_so() -> None:
    """Near the ends the fingers touch fewer nodes, deep inside the classic tree does, and fingers win in total."""
    steps = steps_of("race")

    def combines(caption: str) -> list[int]:
        return [report["update"]["combines"] + report["query"]["combines"] for report in step_with(steps, caption)]

    assert step_with(steps, "In order.")[0]["update"]["touched"] == 1
    for caption in ("In order.", "Again.", "Evicting", "Late by three", "One round", "Another one"):
        fingers, classic = combines(caption)
        assert fingers < classic, caption
    for caption, distance in (("Late by three", 3), ("Late by twelve", 12), ("Late by fifty", 50)):
        assert [report["distance"] for report in step_with(steps, caption)] == [distance] * 2
    fingers, classic = ([rung["looked"] for rung in one["rungs"]] for one in steps[-1]["measured"])
    assert len(set(classic)) == 1 and fingers[0] < classic[0] < fingers[-1]
    near, far = combines("Late by twelve"), combines("Late by fifty")
    assert abs(near[0] - near[1]) <= 4
    assert far[0] > far[1]


def test_what_the_story_of_fiba_says_is_so() -> None:
    """Inserts combine nothing, the query after one repairs what it made stale."""
    steps = steps_of("fiba")
    (appended,) = step_with(steps, "An insert in order")
    assert appended["update"]["combines"] == 0 and appended["query"] is None and appended["answer"]["text"] is None
    assert step_with(steps, "The query that follows")[0]["query"]["combines"] <= 4
    (late,) = step_with(steps, "An insert that is late")
    assert late["distance"] == 9 and late["update"]["combines"] == 0
    assert step_with(steps, "The query repairs")[0]["query"]["combines"] > 4


def test_what_the_story_of_queues_says_is_so() -> None:
    """Two stacks turn over at once, DABA never does much at once, and both refuse what is late."""
    steps = steps_of("queues")
    flip, spread = (report["update"]["combines"] for report in step_with(steps, "The first eviction"))
    assert flip == 29 and spread <= 4
    later = [step["reports"] for step in steps[2:-1]]
    assert max(report["update"]["combines"] for report, _ in later) <= 2
    assert 1 <= max(report["update"]["combines"] for _, report in later) <= 8
    assert all(report["refused"] for report in steps[-1]["reports"])


@pytest.mark.parametrize("key", STORIES)
def test_one_can_go_on_from_any_step(key: str) -> None:
    """The windows of a step are those that its reports show, and they work."""
    story = played(STORIES[key])
    for place, step in enumerate(story["steps"]):
        labs = labs_at(STORIES[key], place)
        for lab, report in zip(labs, step["reports"], strict=True):
            assert lab.report["totals"] == report["totals"]
            lab.check()
    report = labs[0].apply({"op": "insert"})
    assert report["refused"] is None


def test_unknown_stories() -> None:
    """A story that does not exist is an error that lists those that do."""
    with pytest.raises(SashError, match="first-steps"):
        story_named("none")
    assert letter_moves("+b-a")[1] == {"op": "evict", "time": 1}


def test_the_recorded_page(tmp_path: Path) -> None:
    """`python -m sash.explore.record` writes the page, under 300 kB, and all steps, the same at each call."""
    subprocess.run([sys.executable, "-m", "sash.explore.record", str(tmp_path / "out")], check=True)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {*PAGE, "recorded.js"}
    assert sum((tmp_path / "out" / name).stat().st_size for name in PAGE) < 300_000
    script = (tmp_path / "out" / "recorded.js").read_text(encoding="utf-8")
    data = json.loads(script.removeprefix("window.RECORDED = ").rstrip().removesuffix(";"))
    assert list(data["played"]) == list(STORIES)
    assert len(data["played"]["a-to-f"]["steps"]) == 6
    assert recorded() == recorded()
    write_recorded(tmp_path / "out")
    assert (tmp_path / "out" / "recorded.js").read_text(encoding="utf-8") == recorded()
