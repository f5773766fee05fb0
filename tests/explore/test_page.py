"""The page in a real browser: each control does what it says, and the numbers are those of a window."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sash import Window
from sash.explore.lab import Lab
from sash.explore.play import played
from sash.explore.record import write_recorded
from sash.explore.stories import STORIES
from sash.explore.traced import monoid_named
from support.explorer import Explorer

pytestmark = pytest.mark.xdist_group("browser")
Open = Callable[..., Any]


def window_of(values: dict[float, str], structure: str = "paper") -> Window:
    """A plain window with these entries."""
    window = Window(monoid_named("text"), structure=structure, **({"min_arity": 2} if structure == "paper" else {}))
    for time, value in values.items():
        window.insert(float(time), value)
    return window


def test_inserts_and_evictions(explorer: Explorer) -> None:
    """Insert, late insert, slide, evict: by button and by key, with the numbers of a plain window."""
    window = window_of({})
    for time, letter in enumerate("abcde", 1):
        explorer.press("i") if time % 2 else explorer.click("insert-next")
        window.insert(float(time), letter)
        assert explorer.answer() == window.query()
        assert explorer.number("combines-total") == window.combines
    explorer.fill("late", 2)
    explorer.click("insert-late")
    window.insert(3.5, "f")
    assert explorer.answer() == window.query() == "abcfde"
    explorer.click("slide")
    window.evict(1.0)
    window.insert(6.0, "g")
    assert explorer.answer() == window.query() == "bcfdeg"
    explorer.press("e")
    window.evict(2.0)
    assert explorer.answer() == window.query()
    explorer.click("evict-newest")
    window.evict(6.0)
    assert explorer.answer() == window.query() == "cfde"
    assert explorer.number("combines-total") == window.combines
    assert explorer.count(".numbers .coins") == 0
    explorer.page.check("#coins")
    assert explorer.number("spent") >= 0
    assert explorer.number("entries") == len(window) == explorer.count(".axis .dot")
    assert explorer.count(".tree .cell[data-time]") == len(window)


def test_an_operation_at_a_time(explorer: Explorer) -> None:
    """Insert and evict at a time that one enters, evict up to it, and evict the entry that one clicks."""
    for time, value in ((3, "x"), (1, "y"), (2, "z"), (9, "w")):
        explorer.fill("time", time)
        explorer.fill("value", value)
        explorer.click("insert-at")
    assert explorer.answer() == "yzxw"
    explorer.fill("time", 2)
    explorer.click("evict-at")
    assert explorer.answer() == "yxw"
    explorer.page.click('.tree .cell[data-time="3"]')
    assert explorer.page.input_value("#time") == "3"
    assert explorer.count(".cell.selected") == 1
    explorer.press("Delete")
    assert explorer.answer() == "yw"
    explorer.fill("time", 5)
    explorer.click("evict-until")
    assert explorer.answer() == "w"


def test_undo_and_redo(explorer: Explorer) -> None:
    """Undo and redo by button and key; they are disabled where there is nothing to undo or redo."""
    assert explorer.page.is_disabled("#undo") and explorer.page.is_disabled("#redo")
    for _ in range(3):
        explorer.press("i")
    explorer.press("z")
    assert explorer.answer() == "ab"
    explorer.click("undo")
    assert explorer.answer() == "a" and explorer.number("entries") == 1
    explorer.press("y")
    explorer.click("redo")
    assert explorer.answer() == "abc" and explorer.page.is_disabled("#redo")


def test_a_range_by_dragging(explorer: Explorer) -> None:
    """Dragging over the time axis asks for the range, and fields do too; both are those of a window."""
    explorer.fill("fill-count", 26)
    explorer.press("f")
    box = explorer.page.locator(".axis").bounding_box()
    line = box["y"] + box["height"] * 0.9
    dots = [explorer.page.locator(f'.axis .dot[data-time="{time}"]').bounding_box() for time in (5, 12)]
    explorer.page.mouse.move(dots[0]["x"] - 4, line)
    explorer.page.mouse.down()
    explorer.page.mouse.move(dots[1]["x"] + dots[1]["width"] + 4, line, steps=3)
    explorer.page.mouse.up()
    explorer.settle()
    assert explorer.answer() == "efghijkl"
    assert explorer.count(".axis .piece") == explorer.number("combines-query") + 1
    explorer.fill("start", 2)
    explorer.fill("stop", 4.5)
    explorer.click("range")
    window = window_of({time: chr(96 + time) for time in range(1, 27)})
    assert explorer.answer() == window.query(2.0, 4.5) == "bcd"


def test_pointing_at_an_aggregate(explorer: Explorer) -> None:
    """Pointing at an aggregate marks its entries in the tree and on the axis and says which; so do the arrow keys."""
    explorer.fill("fill-count", 24)
    explorer.click("fill")
    chips = explorer.page.locator(".tree .aggregate")
    for place in range(chips.count()):
        chip = chips.nth(place)
        first, last = (float(chip.get_attribute(f"data-{end}")) for end in ("first", "last"))
        chip.hover()
        times = explorer.page.eval_on_selector_all(".axis .dot.covered", "all => all.map(one => +one.dataset.time)")
        assert times == list(range(int(first), int(last) + 1))
        assert f"covers the {len(times)} entr" in explorer.text(".note")
        assert explorer.count(".tree .cell.covered") == len(times)
        letters = "".join(chr(96 + int(time)) for time in times)
        assert chip.get_attribute("data-value") in (letters, f"{letters[:11]}…{letters[-11:]}")
    explorer.page.mouse.move(5, 5)
    assert explorer.count(".covered") == 0
    explorer.page.locator(".tree-box").focus()
    explorer.page.keyboard.press("ArrowRight")
    assert explorer.count(".aggregate.pointed") == 1


@pytest.mark.parametrize("name", ["fiba", "classic", "two_stacks", "daba", "reactive"])
def test_structures(explorer: Explorer, name: str) -> None:
    """Each structure is drawn with all its entries, and has the result of a window of its own."""
    explorer.choose("structure", name)
    explorer.fill("fill-count", 20)
    explorer.press("f")
    explorer.press("s")
    window = Window(monoid_named("text"), structure=name)
    lab = Lab(name, "text")
    for time, value in enumerate(
        explorer.page.evaluate("explorer.state.sides[0].report.entries.each.map(e => e[1])"), 2
    ):
        window.insert(float(time), value)
    lab.apply({"op": "fill", "count": 20})
    report = lab.apply({"op": "slide"})
    assert explorer.answer() == window.query() == report["answer"]["value"]
    assert explorer.number("combines-total") == report["totals"]["combines"]
    assert explorer.count(".tree .cell[data-time]") == 20
    explorer.press("d")
    assert explorer.count("#distances-chart tr") == 6
    if name in ("two_stacks", "daba"):
        explorer.fill("late", 4)
        explorer.press("l")
        assert "Refused" in explorer.text(".what")
        assert explorer.answer() == window.query()


def test_options_and_operators(explorer: Explorer) -> None:
    """µ, node sizes and the operator make a new window; the fields are those of the structure."""
    explorer.fill("min_arity", 4)
    explorer.page.locator("#min_arity").press("Tab")
    explorer.settle()
    explorer.choose("monoid", "sum")
    explorer.click("fill")
    window = Window(monoid_named("sum"), structure="paper", min_arity=4)
    for time, value in explorer.page.evaluate("explorer.state.sides[0].report.entries.each"):
        window.insert(time, int(value))
    assert explorer.answer() == window.query()
    assert "µ = 4" in explorer.text(".how")
    assert explorer.page.is_visible("#min_arity") and not explorer.page.is_visible("#fanout")
    explorer.choose("structure", "fiba")
    assert explorer.page.is_visible("#fanout") and not explorer.page.is_visible("#min_arity")
    explorer.click("new")
    assert explorer.number("entries") == 0


def test_a_query_can_wait(explorer: Explorer) -> None:
    """Without a query after each operation the result waits until one asks."""
    explorer.choose("structure", "fiba")
    explorer.page.uncheck("#eager")
    explorer.fill("fill-count", 9)
    explorer.press("f")
    assert explorer.text(".answer") == "result not asked yet"
    assert explorer.number("combines-total") == 0
    explorer.press("q")
    assert explorer.answer() == "abcdefghi"


def test_a_race(explorer: Explorer) -> None:
    """Both windows get the same operations; their combines are those of windows of their own."""
    explorer.choose("rival", "classic")
    explorer.fill("fill-count", 40)
    explorer.press("f")
    explorer.fill("late", 6)
    explorer.press("l")
    explorer.press("s")
    for side, name in enumerate(("paper", "classic")):
        lab = Lab(name, "text")
        for request in ({"op": "fill", "count": 40}, {"op": "insert", "late": 6}, {"op": "slide"}):
            report = lab.apply(request)
        assert explorer.answer(side) == report["answer"]["value"]
        assert explorer.number("combines-total", side) == report["totals"]["combines"]
    assert explorer.number("combines-total", 0) < explorer.number("combines-total", 1)
    assert explorer.count("#costs .chart") == 4
    explorer.press("z")
    assert explorer.number("entries", 0) == explorer.number("entries", 1) == 41


def test_mistakes_get_a_sentence(explorer: Explorer) -> None:
    """A missing or a bad number is said in a sentence, which goes with the next operation."""
    explorer.click("insert-at")
    assert explorer.message == "Enter a time first."
    explorer.fill("late", -3)
    explorer.click("insert-late")
    assert "late must be between" in explorer.message
    explorer.click("evict-oldest")
    assert "The window is empty" in explorer.message
    explorer.press("i")
    assert explorer.message == ""


def test_letters_in_fields_are_not_keys(explorer: Explorer) -> None:
    """What one types into a field does nothing else."""
    explorer.page.click("#value")
    explorer.page.keyboard.type("isle")
    explorer.settle()
    assert explorer.number("entries") == 0


def test_help_zoom_and_theme(explorer: Explorer) -> None:
    """Help opens and closes, light and dark differ and are kept, and the tree can be made larger and smaller."""
    assert not explorer.page.is_visible("#help")
    explorer.press("?")
    assert "fingers" in explorer.page.inner_text("#help")
    explorer.click("help-button")
    assert not explorer.page.is_visible("#help")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = explorer.page.evaluate(ground)
    explorer.click("theme")
    assert explorer.page.evaluate(ground) != light
    explorer.page.reload()
    explorer.page.wait_for_selector(".stage .numbers")
    assert explorer.page.evaluate(ground) != light
    explorer.press("t")
    assert explorer.page.evaluate(ground) == light
    explorer.click("fill")
    before = explorer.page.locator("svg.tree").bounding_box()["width"]
    explorer.press("+")
    assert explorer.page.locator("svg.tree").bounding_box()["width"] > before
    explorer.page.click('[aria-label="fit"]')
    assert explorer.page.locator("svg.tree").bounding_box()["width"] <= before * 1.01


def test_a_large_window_unfolds(explorer: Explorer) -> None:
    """Of 10,000 entries a part is drawn; a click on a subtree draws more, and steps go on."""
    explorer.choose("monoid", "sum")
    explorer.fill("fill-count", 10_000)
    explorer.press("f")
    explorer.fill("late", 3000)
    explorer.press("l")
    assert explorer.number("entries") == 10_001
    nodes = explorer.count(".tree .node")
    assert 20 < nodes < 250
    explorer.page.locator(".folded").first.dispatch_event("click")
    explorer.settle()
    assert explorer.count(".tree .node") > nodes
    explorer.press("s")
    assert explorer.number("entries") == 10_001


def check_story(explorer: Explorer, key: str) -> None:
    """Go through a story and compare each step with what windows do."""
    story = played(STORIES[key])
    explorer.choose("story", key)
    for place, step in enumerate(story["steps"]):
        assert explorer.page.inner_text("#caption") == step["caption"]
        assert explorer.page.inner_text("#story-step") == f"Step {place + 1} of {len(story['steps'])}"
        for side, report in enumerate(step["reports"]):
            assert explorer.number("combines-total", side) == report["totals"]["combines"]
            assert explorer.number("entries", side) == report["totals"]["entries"]
            if report["answer"]["value"] is not None:
                assert explorer.answer(side) == report["answer"]["value"]
            if report["billed"] and story["coins"]:
                assert explorer.number("spent", side) == report["billed"]["spent"]
                assert explorer.number("billed", side) == abs(report["billed"]["billed"])
        explorer.press("ArrowRight") if place % 2 else explorer.page.is_enabled("#next") and explorer.click("next")


def test_stories(explorer: Explorer) -> None:
    """Each story has the numbers of real windows at each step, and one can go on by hand from there."""
    for key in STORIES:
        check_story(explorer, key)
    explorer.choose("story", "a-to-f")
    explorer.press("ArrowRight")
    explorer.click("previous")
    explorer.click("next")
    explorer.click("resume")
    assert explorer.page.is_visible("#controls")
    assert explorer.answer() == "abcdefghijklmnoqstuv"
    explorer.press("z")
    assert explorer.answer() == "abcdefghijklmnoqstu"
    explorer.choose("story", "race")
    explorer.click("by-hand")
    assert explorer.page.is_visible("#controls")


def test_a_story_plays_by_itself(explorer: Explorer) -> None:
    """Play goes on to the next step, and pause stops it."""
    explorer.choose("story", "a-to-f")
    explorer.click("play")
    explorer.page.get_by_text("Step 2 of 6").wait_for()
    explorer.click("play")
    assert explorer.page.inner_text("#play") == "Play"


def test_the_page_without_a_server(open_page: Open, tmp_path: Path) -> None:
    """From a folder on the disk, all stories play with the same numbers, and nothing asks for a server."""
    write_recorded(tmp_path)
    explorer = Explorer(open_page((tmp_path / "index.html").as_uri() + "?story=race&step=3"))
    assert explorer.page.inner_text("#story-step") == "Step 3 of 10"
    assert not explorer.page.is_visible("#resume") and not explorer.page.is_visible("#by-hand")
    for key in STORIES:
        check_story(explorer, key)


def test_every_control_is_named(explorer: Explorer) -> None:
    """Each control has a name for those who do not see it, and each is reached by the Tab key."""
    unnamed = explorer.page.evaluate(
        """() => [...document.querySelectorAll('button, input, select')].filter(one =>
             !(one.getAttribute('aria-label') || one.textContent.trim() || (one.labels && one.labels.length)))
             .map(one => one.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    for _ in range(80):
        explorer.page.keyboard.press("Tab")
        reached.add(explorer.page.evaluate("document.activeElement.id"))
    controls = re.findall(r'(?:button|input|select) id="([\w-]+)"', explorer.page.content())
    hidden = {
        name for name in controls if not explorer.page.is_visible(f"#{name}") or explorer.page.is_disabled(f"#{name}")
    }
    assert set(controls) - hidden <= reached
