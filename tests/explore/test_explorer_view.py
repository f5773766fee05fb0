"""What the page shows where: touched nodes in view, all of a large tree, nothing beyond the edge; and controls."""

from collections.abc import Callable
from typing import Any

import pytest

from sash.explore.stories import STORIES
from support.explorer import Explorer

pytestmark = pytest.mark.xdist_group("browser")
TOUCHED = ".node.looked, .node.changed, .node.created, .node.asked"
# How far the touched nodes reach beyond a box, in pixels, and how many there are.
BEYOND = """([inside, nodes]) => [...document.querySelectorAll('.stage')].map((stage) => {
  const box = inside ? stage.querySelector(inside).getBoundingClientRect() : new DOMRect(0, 0, innerWidth, innerHeight);
  const all = [...stage.querySelectorAll(nodes)].map((one) => one.querySelector('rect, path').getBoundingClientRect());
  const over = (one) =>
    Math.max(box.left - one.left, box.top - one.top, one.right - box.right, one.bottom - box.bottom);
  return [all.length, Math.max(0, ...all.map(over))];
})"""
WIDER = "document.documentElement.scrollWidth - innerWidth"


def beyond(explorer: Explorer, inside: str | None, nodes: str = TOUCHED) -> list[list[float]]:
    """For each window the number of nodes, and how far they reach beyond the box."""
    return explorer.page.evaluate(BEYOND, [inside, nodes])  # type: ignore[no-any-return]


def resize(explorer: Explorer, wide: int, high: int) -> None:
    explorer.page.set_viewport_size({"width": wide, "height": high})
    explorer.page.wait_for_timeout(200)  # until the page has noticed


def test_touched_nodes_are_in_view(explorer: Explorer) -> None:
    """At 1280x800 each step of the first story shows all nodes that it touched, and the page does not scroll."""
    resize(explorer, 1280, 800)
    explorer.choose("story", "first-steps")
    for _ in range(len(STORIES["first-steps"].steps)):
        for inside in (None, ".tree-box"):
            ((count, over),) = beyond(explorer, inside)
            assert over < 2, explorer.page.inner_text("#caption")
        caption = explorer.page.inner_text("#caption")
        assert (count == 0) == caption.startswith(("An empty window", "Now 10,000 entries")), caption
        assert explorer.page.evaluate("document.documentElement.scrollHeight") <= 800
        explorer.press("ArrowRight")


@pytest.mark.parametrize("key", STORIES)
def test_nothing_is_beyond_the_edge(explorer: Explorer, key: str) -> None:
    """At 900 pixels no story scrolls sideways, and each tree has what was touched in view."""
    resize(explorer, 900, 800)
    explorer.choose("story", key)
    for _ in range(len(STORIES[key].steps)):
        assert explorer.page.evaluate(WIDER) <= 0
        assert all(over < 2 for _, over in beyond(explorer, ".tree-box"))
        explorer.press("ArrowRight")


@pytest.mark.parametrize("structures", ["structure=paper", "structure=fiba", "structure=paper&rival=classic"])
def test_a_large_tree_fits(open_page: Callable[..., Any], url: str, structures: str) -> None:
    """Of 10,000 entries the root and the touched nodes are in view until one zooms, and the touched ones after that."""
    explorer = Explorer(open_page(f"{url}?{structures}"))
    explorer.settle()
    resize(explorer, 1280, 800)
    explorer.fill("fill-count", 10_000)
    explorer.press("f")
    for late in (1, 100, 4000):
        explorer.fill("late", late)
        explorer.press("l")
        assert explorer.page.evaluate("explorer.state.lastStepMs") < 1000  # 50 on an idle machine
        for count, over in beyond(explorer, ".tree-box"):
            assert count > 0 and over < 2
        for count, over in beyond(explorer, ".tree-box", ".node.root"):
            assert count == 1 and over < 2
    for _ in range(6):
        explorer.press("+")
    explorer.press("i")
    for _, over in beyond(explorer, ".tree-box", ".node.right.looked, .node.right.changed"):
        assert over < 400  # the leaf is in the middle; what is above it may be outside
    explorer.page.click('.stage[data-side="0"] [aria-label="fit"]')
    assert all(over < 2 for _, over in beyond(explorer, ".tree-box", ".node"))


def test_zoom_buttons_stay(explorer: Explorer) -> None:
    """The buttons for the scale keep their place when the tree is scrolled."""
    explorer.fill("fill-count", 60)
    explorer.press("f")
    for _ in range(8):
        explorer.press("+")
    before = explorer.page.locator('[aria-label="fit"]').bounding_box()
    explorer.page.evaluate("document.querySelector('.tree-box').scrollTo(200, 100)")
    assert explorer.page.locator('[aria-label="fit"]').bounding_box() == before


def test_looked_at_and_changed_differ(explorer: Explorer) -> None:
    """The search's way is numbered; a node that it only looked at has no outline of a change."""
    explorer.choose("story", "first-steps")
    while not explorer.page.inner_text("#caption").startswith("Late by four"):
        explorer.press("ArrowRight")
    numbers = explorer.page.eval_on_selector_all(".order-number", "all => all.map(one => +one.textContent)")
    assert sorted(numbers) == [1, 2, 3, 4]
    assert explorer.count(".node.looked:not(.changed)") == 1 and explorer.count(".node.changed") == 3
    assert explorer.number("seen") == 4 and explorer.number("altered") == 3 and explorer.number("touched") == 4


def test_a_query_outlines_its_nodes(explorer: Explorer) -> None:
    """The nodes that a range query touched are outlined, and as many as are counted."""
    explorer.fill("fill-count", 25)
    explorer.press("f")
    explorer.fill("start", 6)
    explorer.fill("stop", 15)
    explorer.click("range")
    assert explorer.number("touched") == explorer.count(".node.asked") > 3
    assert explorer.count(".node.changed, .node.looked") == 0


def test_enter_presses_the_button_beside(explorer: Explorer) -> None:
    """Enter in a field does what the button beside it does."""
    for name, value, entries in (("fill-count", 9, 9), ("late", 3, 10), ("time", 77, 11)):
        explorer.fill(name, value)
        explorer.page.locator(f"#{name}").press("Enter")
        explorer.settle()
        assert explorer.number("entries") == entries
    explorer.fill("value", "zz")
    explorer.page.locator("#value").press("Enter")
    explorer.settle()
    assert explorer.answer().endswith("zz")
    explorer.fill("start", 1)
    explorer.fill("stop", 3)
    explorer.page.locator("#stop").press("Enter")
    explorer.settle()
    assert explorer.answer() == "abc"


def test_a_click_selects_an_entry(explorer: Explorer) -> None:
    """A click on an entry, on its letter on the axis too, selects it in both places, and Del evicts it."""
    explorer.fill("fill-count", 20)
    explorer.press("f")
    box = explorer.page.locator('.axis .dot[data-time="7"]').bounding_box()
    explorer.page.mouse.click(box["x"] + 3, box["y"] - 8)
    assert explorer.page.input_value("#time") == "7"
    assert explorer.count(".axis .dot.selected") == explorer.count(".tree .cell.selected") == 1
    explorer.press("Delete")
    assert explorer.answer() == "abcdefhijklmnopqrst"
    explorer.page.click('.axis .dot[data-time="3"]')
    assert explorer.page.input_value("#time") == "3"


def test_a_dragged_range_snaps(explorer: Explorer) -> None:
    """A range that is drawn reaches from entry to entry, even where it was drawn between two."""
    explorer.fill("fill-count", 12)
    explorer.press("f")
    dots = [explorer.page.locator(f'.axis .dot[data-time="{time}"]').bounding_box() for time in (4, 5, 9)]
    for start, stop, expected in (
        (dots[0]["x"] + 20, dots[2]["x"] + 20, ("5", "9")),
        (dots[0]["x"] + 15, dots[0]["x"] + 25, ("4", "4")),
    ):
        explorer.page.mouse.move(start, dots[0]["y"])
        explorer.page.mouse.down()
        explorer.page.mouse.move(stop, dots[0]["y"], steps=3)
        explorer.page.mouse.up()
        explorer.settle()
        assert (explorer.page.input_value("#start"), explorer.page.input_value("#stop")) == expected


def test_another_structure_keeps_the_entries(explorer: Explorer) -> None:
    """Structure, µ, operator and race change what the window is, not its entries; New window empties it."""
    explorer.fill("fill-count", 30)
    explorer.press("f")
    explorer.fill("late", 4)
    explorer.press("l")
    answer = explorer.answer()
    for name in ("fiba", "classic", "daba", "two_stacks", "reactive", "paper"):
        explorer.choose("structure", name)
        assert explorer.answer() == answer and explorer.number("entries") == 31
        assert explorer.page.inner_text(".stage h2") == name
    explorer.choose("rival", "classic")
    assert explorer.answer(0) == explorer.answer(1) == answer
    explorer.fill("min_arity", 1)
    explorer.page.locator("#min_arity").press("Enter")
    explorer.settle()
    assert "min_arity must be" in explorer.message and explorer.page.input_value("#min_arity") == "2"
    explorer.choose("monoid", "sum")
    assert explorer.number("entries") == 31
    explorer.click("new")
    assert explorer.number("entries") == 0


def test_a_story_leaves_the_window_alone(explorer: Explorer) -> None:
    """After a story one is back at the window that one worked on, with what can be undone."""
    explorer.press("i")
    explorer.press("i")
    explorer.choose("story", "fiba")
    explorer.click("by-hand")
    assert explorer.answer() == "ab" and explorer.page.input_value("#structure") == "paper"
    explorer.press("z")
    assert explorer.answer() == "a"


def test_arrows_after_a_story_was_chosen(explorer: Explorer) -> None:
    """The list of stories lets go of the keys, so the right arrow is the next step."""
    explorer.page.focus("#story")
    explorer.choose("story", "a-to-f")
    explorer.page.keyboard.press("ArrowRight")
    assert explorer.page.inner_text("#story-step") == "Step 2 of 6"


def test_the_legend_has_what_is_shown(explorer: Explorer) -> None:
    """The legend has the rows of the structure, coins are drawn when one asks, and in stories about them."""
    assert explorer.page.is_visible(".swatch.looked") and not explorer.page.is_visible('[data-if="queue"]')
    explorer.press("f")
    assert explorer.count("circle.coin") == 0
    explorer.page.check("#coins")
    assert explorer.count("circle.coin") > 0
    explorer.choose("structure", "daba")
    for row in ("root", "spines", "coins", "folded"):
        assert not explorer.page.is_visible(f'[data-if="{row}"]')
    explorer.choose("story", "a-to-f")
    assert explorer.number("coins") == 9 == explorer.count("circle.coin")
    assert explorer.number("combines-total") == 0


def test_help_lies_above_the_page(explorer: Explorer) -> None:
    """Help does not move the page, and Esc closes it."""
    place = explorer.page.locator("main").bounding_box()
    explorer.press("?")
    assert explorer.page.is_visible("#help") and explorer.page.locator("main").bounding_box() == place
    explorer.page.focus("#late")
    explorer.page.keyboard.press("Escape")
    assert not explorer.page.is_visible("#help")


def test_what_the_table_says(explorer: Explorer) -> None:
    """Measure says what its numbers mean: how fast they grow, up to where fingers win, and why late is refused."""
    explorer.press("d")
    assert "The window is empty" in explorer.message
    explorer.choose("rival", "classic")
    explorer.fill("fill-count", 2000)
    explorer.press("f")
    explorer.press("d")
    assert explorer.message == ""
    fingers, classic = (
        [rung["looked"] for rung in side["rungs"]] for side in explorer.page.evaluate("explorer.state.distances")
    )
    distances = [0, *(2**k for k in range(10))]
    last = max(d for d, a, b in zip(distances, fingers, classic, strict=True) if a < b)
    said = explorer.page.inner_text("#distances-chart")
    assert f"paper looks at fewer nodes than classic up to d = {last}:" in said
    assert "nodes at every d" in said and "each doubling of d adds about" in said
    explorer.choose("rival", "")
    explorer.choose("structure", "two_stacks")
    explorer.press("d")
    assert explorer.page.inner_text("#distances-chart").count("takes times in order") == 1


def test_the_first_story_ends_with_the_table(explorer: Explorer) -> None:
    """The last step shows what distance costs in a small and in a large window, in view at 1280x800."""
    resize(explorer, 1280, 800)
    explorer.choose("story", "first-steps")
    assert not explorer.page.is_visible("#distances-panel")
    for _ in range(len(STORIES["first-steps"].steps) - 1):
        explorer.press("ArrowRight")
    assert "1,000 entries: 1 at d = 0" in explorer.page.inner_text("#distances-chart")
    box = explorer.page.locator("#distances-chart tr").last.bounding_box()
    assert box["y"] + box["height"] < 800
    table = explorer.page.locator("#distances-chart table").bounding_box()
    panel = explorer.page.locator("#distances-panel").bounding_box()
    assert table["x"] + table["width"] <= panel["x"] + panel["width"]
