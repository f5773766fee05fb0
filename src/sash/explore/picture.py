"""A shape as plain data for the page. Of a large tree only a part is drawn; the rest is folded into subtrees."""

from collections.abc import Callable, Iterable
from typing import Any

from sash.explore.shape import Node, Shape, Stored
from sash.explore.traced import Number

MOST_NODES = 60
_ALL_DRAWN = 64  # entries up to which all of a tree is drawn
MOST_ELEMENTS = 72
MOST_ENTRIES = 1500
_BINS = 300

Text = Callable[[Any], str]


def picture_of(shape: Shape, text: Text, marked: Iterable[int], unfolded: Iterable[int]) -> dict[str, Any]:
    """Return the picture of a shape: its nodes or elements with the aggregates that they store.

    Nodes that are `marked` are drawn if at all possible, and the children of those that the user has `unfolded`.
    `text` writes the value of a state.
    """
    if shape.times:
        return _queue(shape, text)
    open_nodes = _open(shape, list(marked), set(unfolded))
    nodes = [
        _node(node, text, node.id in open_nodes)
        for node in shape.nodes.values()
        if node.parent is None or node.parent in open_nodes
    ]
    return {"kind": "tree", "nodes": nodes}


def _open(shape: Shape, marked: list[int], unfolded: set[int]) -> set[int]:
    """Return the nodes whose children are drawn: of a small tree all, otherwise spines and marked ones."""
    readable = {node.id for node in shape.nodes.values() if node.children and not node.folded}
    if shape.size <= MOST_NODES and shape.root and shape.root.entries <= _ALL_DRAWN:
        return readable
    drawn = 1
    chosen: set[int] = set()
    spines = [node.id for node in shape.nodes.values() if node.spine]
    for name in [*spines, *unfolded, *marked[:MOST_NODES]]:
        for node in _way_to(shape, name):
            if (
                node.id in readable
                and node.id not in chosen
                and (drawn + len(node.children) <= 3 * MOST_NODES or name in unfolded)
            ):
                chosen.add(node.id)
                drawn += len(node.children)
    return chosen


def _way_to(shape: Shape, name: int) -> list[Node]:
    """Return the nodes from the root to one, itself included."""
    way: list[Node] = []
    node = shape.nodes.get(name)
    while node is not None:
        way.append(node)
        node = None if node.parent is None else shape.nodes[node.parent]
    return way[::-1]


def _node(node: Node, text: Text, is_open: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": node.id,
        "parent": node.parent,
        "level": node.level,
        "spine": node.spine,
        "first": node.first,
        "last": node.last,
        "keys": node.keys,
        "values": [text(state) for state in node.states],
        "aggregates": [_stored(stored, text) for stored in node.stored],
    }
    if node.coins is not None:
        plain["coins"] = node.coins
    if node.level and not is_open:
        plain["folded"] = {"entries": node.entries - len(node.states), "nodes": node.nodes - 1}
    return plain


def _stored(stored: Stored, text: Text) -> dict[str, Any]:
    return {
        "name": stored.name,
        "part": stored.part,
        "position": stored.position,
        "first": stored.state.first,
        "last": stored.state.last,
        "value": text(stored.state),
    }


def _queue(shape: Shape, text: Text) -> dict[str, Any]:
    length = len(shape.times)
    places: Iterable[int] = range(length)
    if length > MOST_ELEMENTS:  # both ends, and what is around the cuts
        near = [0, length, *shape.cuts.values()]
        wide = MOST_ELEMENTS // 12
        shown = {place for cut in near for place in range(cut - wide, cut + wide)}
        places = sorted(place for place in shown if 0 <= place < length)
    elements = [_element(shape, place, text) for place in places]
    totals = [_stored(stored, text) for stored in shape.totals]
    return {"kind": "queue", "elements": elements, "totals": totals, "cuts": shape.cuts, "length": length}


def _element(shape: Shape, place: int, text: Text) -> dict[str, Any]:
    stored = shape.element(place)
    return {
        "place": place,
        "time": shape.times[place],
        "value": text(shape.states[place]),
        "aggregate": stored and _stored(stored, text),
    }


def entries_of(count: int, times: list[Number], each: Iterable[tuple[Number, str]]) -> dict[str, Any]:
    """Return the entries for the time axis: each one, or how many there are in each part of the axis."""
    if count <= MOST_ENTRIES:
        return {"count": count, "each": [list(entry) for entry in each]}
    first, last = times[0], times[-1]
    scale = _BINS / (last - first)
    bins = [0] * (_BINS + 1)
    for time in times:
        bins[int((time - first) * scale)] += 1
    newest = bins.pop()  # just beyond the last part
    bins[-1] += newest
    return {"count": count, "first": first, "last": last, "bins": bins}


def written(value: Any, most: int = 24) -> str:
    """Return a value as short text.

    >>> written(1234.5678901), written("abcdefghijklmnopqrstuvwxyz", 9), written(None)
    ('1234.57', 'abcd…wxyz', '–')
    """
    if value is None:
        return "–"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
