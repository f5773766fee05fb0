"""The explorer's windows: what they report, against plain windows that get the same operations."""

import random
from itertools import pairwise
from typing import Any

import pytest

from sash import Monoid, Window
from sash.errors import SashError
from sash.explore import lab as lab_module
from sash.explore.lab import Lab
from sash.explore.options import OPTIONS
from sash.explore.planning import rows_of
from sash.explore.shape import shape_of
from sash.explore.traced import monoid_named
from sash.window.window import STRUCTURES
from support.cases import concat_monoid

IN_ORDER = ("two_stacks", "daba", "reactive")
STRUCTURE = pytest.mark.parametrize("name", STRUCTURES)


def python_only(name: str) -> Monoid:
    """The monoid of a lab without what the core has for it: combines are then counted one by one."""
    known = monoid_named(name)
    return Monoid(identity=known.identity, combine=known.combine, lift=known.lift, lower=known.lower, name=name)


class Twin:
    """A plain window that gets the operations of a lab, as they are reported."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.inserted = 0
        self.window = Window(python_only(lab.monoid_name), structure=lab.structure, **lab.options)
        self.window.query()

    def follow(self, operation: dict[str, Any]) -> Any:
        """Repeat an operation, and return the answer that comes with it."""
        name, window = operation["op"], self.window
        if name == "slide" and operation["evict"] is not None:
            window.evict(float(operation["evict"]))
        if name in ("insert", "slide"):
            window.insert(float(operation["time"]), operation["value"])
            self.inserted += 1
        elif name == "evict":
            window.evict(float(operation["time"]))
        elif name == "evict_until":
            window.evict_until(float(operation["time"]))
        elif name == "fill":
            for time, value in rows_of(operation, self.inserted, self.lab.monoid_name):
                window.insert(float(time), value)
            self.inserted += operation["count"]
        if operation.get("lazy"):
            return None
        if name == "range":
            return window.query(float(operation["start"]), float(operation["stop"]))
        return window.query()


def requests(structure: str, steps: int, seed: int) -> list[dict[str, Any]]:
    """Random requests that the structure can serve."""
    chance, made = random.Random(seed), []
    for _ in range(steps):
        kind = chance.random()
        if kind < 0.35:
            made.append({"op": "insert"})
        elif kind < 0.55 and structure not in IN_ORDER:
            made.append({"op": "insert", "late": chance.randrange(12)})
        elif kind < 0.7:
            made.append({"op": "slide"})
        elif kind < 0.8:
            made.append({"op": "evict", "newest": structure not in IN_ORDER and chance.random() < 0.5})
        elif kind < 0.85:
            made.append({"op": "fill", "count": chance.randrange(1, 12), "order": "in order"})
        elif kind < 0.95 and structure not in ("two_stacks", "daba"):
            made.append({"op": "range", "start": chance.randrange(80), "stop": chance.randrange(80)})
        else:
            made.append({"op": "query"})
        if chance.random() < 0.2 and made[-1]["op"] not in ("range", "query"):
            made[-1]["lazy"] = True
    return made


def applied(lab: Lab, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of all requests; the window is filled where one finds it empty."""
    reports = []
    for request in made:
        try:
            reports.append(lab.apply(request))
        except SashError:
            reports.append(lab.apply({"op": "insert"}))
    return reports


@STRUCTURE
@pytest.mark.parametrize("operator", ["text", "sum", "mean"])
def test_numbers_are_those_of_a_window(name: str, operator: str) -> None:
    """Results, combines, splits and entries of a lab are those of a plain window with the same operations."""
    lab = Lab(name, operator)
    twin = Twin(lab)
    for report in applied(lab, requests(name, 60, 1)):
        assert report["refused"] is None
        expected = twin.follow(report["operation"])
        if report["answer"]["text"] is not None:
            assert report["answer"]["value"] == expected
        assert report["totals"]["combines"] == twin.window.combines
        assert report["totals"]["spent"] == twin.window.spent
        assert report["totals"]["entries"] == len(twin.window)
        assert [time for time, _ in report["entries"]["each"]] == list(twin.window)
    lab.check()


@STRUCTURE
def test_combines_of_a_step_add_up(name: str) -> None:
    """What a report says to update and to query is by what the total grows."""
    lab, total = Lab(name, "sum"), 0
    for report in applied(lab, requests(name, 60, 2)):
        total += report["update"]["combines"] + (report["query"]["combines"] if report["query"] else 0)
        assert report["totals"]["combines"] == total


@STRUCTURE
def test_an_aggregate_covers_what_it_says(name: str) -> None:
    """The value of each aggregate in the picture is that of the entries from its first to its last time."""
    lab = Lab(name, "text")
    seen = 0
    for report in applied(lab, requests(name, 120, 3)):
        entries = report["entries"]["each"]
        picture = report["picture"]
        stored = [one for node in picture.get("nodes", ()) for one in node["aggregates"]]
        stored += [element["aggregate"] for element in picture.get("elements", ()) if element["aggregate"]]
        for one in stored:
            if one["first"] > one["last"]:  # in a ring, across its end
                assert name == "reactive"
                continue
            text = "".join(value for time, value in entries if one["first"] <= time <= one["last"])
            assert one["value"] == text or "…" in one["value"]
            seen += 1
    assert seen > 200


def test_a_query_reads_the_fingers_and_the_root() -> None:
    """A query of the paper's tree reads three aggregates, whose entries are those of the window."""
    lab = Lab("paper", "text")
    report = lab.apply({"op": "fill", "count": 40})
    nodes = {one["name"]: (node, one) for node in report["picture"]["nodes"] for one in node["aggregates"]}
    read = [nodes[name] for name in report["query"]["read"]]
    assert [(node["spine"], node["level"] == 0) for node, _ in read] == [
        ("left", True),
        ("root", False),
        ("right", True),
    ]
    spans = [(one["first"], one["last"]) for _, one in read]
    assert (spans[0][0], spans[-1][1]) == (1, 40)
    assert all(left[1] < right[0] for left, right in pairwise(spans))


@pytest.mark.parametrize("name", ["paper", "classic", "fiba"])
def test_pieces_of_a_range_are_the_range(name: str) -> None:
    """What a range query was put together from covers the range, each entry once, in order."""
    lab, chance = Lab(name, "text"), random.Random(4)
    lab.apply({"op": "fill", "count": 150, "order": "shuffled"})
    for _ in range(40):
        start, stop = sorted(chance.sample(range(1, 151), 2))
        report = lab.apply({"op": "range", "start": start, "stop": stop})
        named = {one.name: (one.state.first, one.state.last) for one in lab.shape.stored()}
        spans = [named[name] for name in report["query"]["read"]] + [(time, time) for time in report["query"]["taken"]]
        covered = [time for first, last in spans for time in range(first, last + 1)]
        assert sorted(covered) == list(range(start, stop + 1))
        assert len(spans) == report["query"]["combines"] + 1


@pytest.mark.parametrize("options", [{"min_arity": 2}, {"min_arity": 4}])
def test_touched_nodes_follow_the_distance(options: dict[str, int]) -> None:
    """In order an insert looks at one node, late by d at O(log d); in the classic tree at all levels."""
    for size in (500, 3000):
        lab, classic = Lab("paper", "sum", options), Lab("classic", "sum", options)
        for one in (lab, classic):
            one.apply({"op": "fill", "count": size})
        rungs, flat = lab.distances(), classic.distances()
        assert rungs[0]["looked"] == 1
        for rung in rungs[1:]:
            assert rung["looked"] <= 3 + 3 * rung["distance"].bit_length() / (options["min_arity"] - 1).bit_length()
        assert {rung["looked"] for rung in flat} <= {classic.shape.height, classic.shape.height - 1}
    assert [rung["distance"] for rung in rungs] == [0, *(2**k for k in range(11))]


def test_trials_change_nothing() -> None:
    """Measuring distances leaves the window and its counters as they were."""
    lab = Lab("fiba", "sum")
    before = lab.apply({"op": "fill", "count": 100})["totals"]
    lab.distances()
    assert lab.apply({"op": "query"})["totals"]["entries"] == before["entries"]
    assert lab.times() == list(range(1, 101))


COUNTS = ("combines", "compares", "splits", "merges", "moves", "grew", "seen", "altered", "touched", "gone")


@pytest.mark.parametrize("name", ["paper", "classic", "fiba", "reactive"])
@pytest.mark.parametrize("larger", [False, True])
def test_a_part_tells_as_much_as_the_whole(name: str, larger: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large trees only a part is read, and the counts are those of reading everything."""
    options = {option: least + 2 * larger for option, (least, *_) in OPTIONS.get(name, {}).items()}
    made = [{"op": "fill", "count": 300, "order": "in order"}, *requests(name, 120, 6)]
    chance = random.Random(7)
    if name != "reactive":
        made += [{"op": "evict", "time": chance.randrange(300)} for _ in range(120)]
    reports = {}
    for extent, limit in (("part", 0), ("whole", 10**6)):
        monkeypatch.setattr(lab_module, "_ALL_READ", limit)
        reports[extent] = applied(Lab(name, "sum", options), made)
    for part, whole in zip(reports["part"], reports["whole"], strict=True):
        assert part["operation"] == whole["operation"]
        assert part["totals"] == whole["totals"], part["title"]
        assert part["billed"] == whole["billed"]
        for count in COUNTS:
            assert part["update"][count] == whole["update"][count], (count, part["title"])
        assert len(part["update"]["created"]) == len(whole["update"]["created"])
        assert len(part["update"]["changed"]) == len(whole["update"]["changed"])


@STRUCTURE
def test_undo_and_redo(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo gives back every earlier report, redo every later one, and a change after an undo ends the redo."""
    monkeypatch.setattr(lab_module, "_BETWEEN_COPIES", 7)
    lab = Lab(name, "text")
    reports = [lab.report, *applied(lab, requests(name, 40, 8))]
    for report in reversed(reports[:-1]):
        assert essence(lab.undo()) == essence(report)
    assert essence(lab.undo()) == essence(reports[0])
    for report in reports[1:]:
        assert essence(lab.redo()) == essence(report)
    assert essence(lab.redo()) == essence(reports[-1])
    lab.undo()
    lab.undo()
    lab.apply({"op": "insert"})
    assert lab.report["step"] == lab.report["steps"] == len(reports) - 2
    lab.check()


def essence(report: dict[str, Any]) -> dict[str, Any]:
    """What a report says, without the numbers of nodes."""
    kept = ("operation", "title", "said", "answer", "totals", "entries", "distance", "billed", "step", "costs")
    return {name: report[name] for name in kept}


@pytest.mark.parametrize("name", ["paper", "classic", "fiba"])
def test_the_tree_after_an_undo_is_the_one_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo and redo give back every node of a large window, with its entries and aggregates."""
    monkeypatch.setattr(lab_module, "_BETWEEN_COPIES", 7)
    lab = Lab(name, "sum", {"leaf_capacity": 4, "fanout": 4} if name == "fiba" else {"min_arity": 2})
    trees = [nodes_of(lab)]
    for request in [{"op": "fill", "count": 2600, "order": "late"}, *requests(name, 30, 9)]:
        lab.apply(request)
        trees.append(nodes_of(lab))
    for tree in reversed(trees[:-1]):
        lab.undo()
        assert nodes_of(lab) == tree
    for tree in trees[1:]:
        lab.redo()
        assert nodes_of(lab) == tree


def nodes_of(lab: Lab) -> list[Any]:
    """All nodes of the window of a lab, as they are drawn, without their numbers."""
    nodes = shape_of(lab._window, {}).nodes.values()
    aggregates = [[(one.part, one.position, one.state.first, one.state.last) for one in node.stored] for node in nodes]
    return [
        (node.level, node.spine, node.keys, node.coins, [state.value for state in node.states], stored)
        for node, stored in zip(nodes, aggregates, strict=True)
    ]


@STRUCTURE
def test_a_step_copies_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window is copied once in many steps, never before a step that may be refused."""
    lab = Lab(name, "sum")
    lab.apply({"op": "fill", "count": 500})
    monkeypatch.setattr(Window, "copy", lambda window: pytest.fail("a step copied the whole window"))
    applied(lab, requests(name, 60, 10))


@pytest.mark.parametrize("name", ["two_stacks", "daba"])
def test_a_refusal_changes_nothing(name: str) -> None:
    """An insert that is late, and a range, are refused with a sentence, and are not in the history."""
    lab = Lab(name, "sum")
    before = lab.apply({"op": "fill", "count": 10})
    refusals = ({"op": "insert", "late": 3}, {"op": "range", "start": 1, "stop": 4}, {"op": "evict", "time": 5},
                {"op": "fill", "count": 9, "order": "shuffled"}, {"op": "slide", "late": 3})  # fmt: skip
    for request in refusals:
        report = lab.apply(request)
        assert name in report["refused"]
        assert "object at 0x" not in report["refused"]
        assert report["totals"] == before["totals"] and report["step"] == before["step"]
        assert report["entries"] == before["entries"] and lab.times() == list(range(1, 11))
        lab.check()
    assert lab.undo()["totals"]["entries"] == 0
    assert lab.redo()["totals"] == before["totals"]


def test_an_entry_that_is_there_is_combined() -> None:
    """A second value at a time is combined on the right; evicting an absent time does nothing and says so."""
    lab = Lab("paper", "text")
    lab.apply({"op": "insert", "time": 1, "value": "a"})
    report = lab.apply({"op": "insert", "time": 1, "value": "b"})
    assert report["answer"]["value"] == "ab" and report["totals"]["entries"] == 1
    assert "combined with it" in report["said"][0]
    report = lab.apply({"op": "evict", "time": 7})
    assert "no entry at that time" in report["said"][0]
    assert report["totals"]["entries"] == 1


BAD = [
    (None, "operation must be an object"),
    ({}, "op must be one of"),
    ({"op": ["insert"]}, "op must be one of"),
    ({"op": "insert", "time": "noon"}, "time must be a number"),
    ({"op": "insert", "time": True}, "time must be a number"),
    ({"op": "insert", "time": float("nan")}, "time must be between"),
    ({"op": "insert", "time": 1e300}, "time must be between"),
    ({"op": "insert", "value": "x"}, "value must be a number"),
    ({"op": "insert", "value": "nan"}, "value must be at most"),
    ({"op": "insert", "late": 1.5}, "late must be an int"),
    ({"op": "insert", "late": -1}, "late must be between"),
    ({"op": "fill", "count": 0}, "count must be between"),
    ({"op": "fill", "count": 10**9}, "count must be between"),
    ({"op": "fill", "count": 19_999}, "at most 20000 entries"),
    ({"op": "fill", "count": 3, "order": "up"}, "order must be one of"),
    ({"op": "range", "start": 1}, "stop must be a number"),
    ({"op": "evict_until"}, "time must be a number"),
]


@pytest.mark.parametrize("request_, sentence", BAD, ids=str)
def test_bad_requests(request_: Any, sentence: str) -> None:
    """A bad request raises one sentence and changes nothing."""
    lab = Lab("paper", "sum")
    before = lab.apply({"op": "fill", "count": 5})
    with pytest.raises(SashError, match=sentence):
        lab.apply(request_)
    assert lab.apply({"op": "query"})["totals"]["entries"] == before["totals"]["entries"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("heap",), "structure must be one of"),
        ((["paper"],), "structure must be one of"),
        (("paper", "median"), "monoid must be one of"),
        (("paper", "sum", {"min_arity": 1}), "min_arity must be an int from 2"),
        (("fiba", "sum", {"fanout": 65}), "fanout must be an int from 4 to 64"),
        (("fiba", "sum", {"leaf_capacity": True}), "leaf_capacity must be an int"),
        (("paper", "sum", 3), "options must be an object"),
    ],
)
def test_bad_settings(arguments: tuple[Any, ...], sentence: str) -> None:
    """Settings that are not possible are refused."""
    with pytest.raises(SashError, match=sentence):
        Lab(*arguments)


def test_later_than_all_is_said() -> None:
    """An entry that would be late by more than there are goes in front of all, which a sentence says."""
    lab = Lab("paper", "text")
    lab.apply({"op": "fill", "count": 25})
    report = lab.apply({"op": "insert", "late": 100})
    assert report["said"][0].startswith("Only 25 entries are in the window")
    assert report["answer"]["value"][1:3] == "ab" and lab.undo()["totals"]["entries"] == 25
    assert lab.redo()["said"] == report["said"]


@STRUCTURE
def test_another_window_takes_the_entries_over(name: str) -> None:
    """A window with the entries of another one has its result, no costs so far, and nothing to undo."""
    first = Lab("paper", "text")
    first.apply({"op": "fill", "count": 300, "order": "shuffled"})
    first.apply({"op": "insert", "time": 5, "value": "again"})
    other = Lab(name, "text")
    other.take_over(first)
    assert other.report["answer"] == {**first.report["answer"], "first": 1, "last": 300}
    assert other.report["totals"]["combines"] == other.report["steps"] == 0 and other.times() == first.times()
    other.check()
    report = other.apply({"op": "insert"})
    assert report["totals"]["entries"] == 301
    assert other.undo()["totals"]["entries"] == 300
    numbers = Lab(name, "sum")
    numbers.take_over(first)
    assert numbers.report["answer"]["value"] == sum((i * 7 + 3) % 9 + 1 for i in range(300))


def test_a_query_counts_the_nodes_that_it_reads() -> None:
    """A query of the paper's tree touches the fingers and the root; one of `fiba` counts what it repairs as well."""
    lab = Lab("paper", "text")
    lab.apply({"op": "fill", "count": 40})
    assert lab.apply({"op": "query"})["query"]["touched"] == 3
    assert lab.apply({"op": "range", "start": 3, "stop": 30})["query"]["touched"] > 3
    fiba = Lab("fiba", "text")
    fiba.apply({"op": "fill", "count": 60})
    fiba.apply({"op": "insert", "late": 9, "lazy": True})
    query = fiba.apply({"op": "query"})["query"]
    assert query["altered"] > 1 and query["touched"] > query["altered"]
    again = fiba.apply({"op": "query"})["query"]
    assert again["altered"] == 0 and again["touched"] == 3


def test_an_empty_window_has_nothing_to_evict() -> None:
    """Evicting from an empty window says so, and so does measuring; sliding it inserts."""
    lab = Lab("paper", "text")
    with pytest.raises(SashError, match="nothing to measure"):
        lab.distances()
    with pytest.raises(SashError, match="The window is empty"):
        lab.apply({"op": "evict"})
    report = lab.apply({"op": "slide"})
    assert report["answer"]["value"] == "a"


def test_times_between_others_never_meet_them() -> None:
    """Late inserts at one distance halve the gap until there is no room, which is said in a sentence."""
    lab = Lab("paper", "count")
    lab.apply({"op": "fill", "count": 3})
    with pytest.raises(SashError, match="late must leave room"):
        for _ in range(80):
            lab.apply({"op": "insert", "late": 1})
    assert lab.times() == sorted(set(lab.times()))
    assert len(lab.times()) > 20


def test_a_large_window_is_folded() -> None:
    """Of 3,000 entries a few dozen nodes are drawn; the others are counted, and unfold where one asks."""
    lab = Lab("paper", "sum")
    report = lab.apply({"op": "fill", "count": 3000})
    report = lab.apply({"op": "insert", "late": 700})
    nodes = report["picture"]["nodes"]
    assert len(nodes) < 200
    drawn = {node["id"]: node for node in nodes}
    assert set(report["update"]["changed"]) <= drawn.keys()
    shown = sum(node["folded"]["entries"] for node in nodes if "folded" in node) + sum(len(n["values"]) for n in nodes)
    assert shown == report["totals"]["entries"] == 3001
    folded = next(node for node in nodes if "folded" in node and node["level"] > 1)
    more = lab.look((folded["id"],))["picture"]["nodes"]
    assert [node for node in more if node["parent"] == folded["id"]]
    assert len(report["entries"]["bins"]) == 300 and sum(report["entries"]["bins"]) == 3001


def test_concat_is_the_text_of_the_explorer() -> None:
    """The operator that joins letters is a monoid, and not commutative."""
    text, known = monoid_named("text"), concat_monoid()
    assert text.combine("a", "b") == known.combine("a", "b") == "ab"
    assert not text.commutative
