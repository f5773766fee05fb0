"""The shape of a window: its nodes or elements, and every aggregate that is stored, read from `Window.nodes()`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sash.explore.traced import Moment, Number, State
from sash.window.window import Window


@dataclass(slots=True)
class Stored:
    """An aggregate that a window stores: its part in the structure, its place there, and its state."""

    name: str
    part: str
    position: int
    state: State


@dataclass(slots=True)
class Node:
    """A node of a tree. Inner nodes of `fiba` have keys that separate children, but no entries.

    `first`, `last`, `entries` and `nodes` are about the node and all that is below it; the children of a `folded` node
    were not read.
    """

    id: int
    parent: int | None
    level: int
    spine: str | None
    keys: list[Number]
    states: list[State]
    children: list[int]
    coins: int | None
    folded: bool
    stored: list[Stored] = field(default_factory=list)
    first: Number = 0
    last: Number = 0
    entries: int = 0
    nodes: int = 1


@dataclass(slots=True)
class Shape:
    """What a window looks like: `nodes` in preorder, the root first, or the elements of a queue, oldest first."""

    nodes: dict[int, Node] = field(default_factory=dict)
    times: list[Number] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    aggregates: list[State | None] = field(default_factory=list)
    totals: list[Stored] = field(default_factory=list)  # of whole parts of a queue
    cuts: dict[str, int] = field(default_factory=dict)

    @property
    def root(self) -> Node | None:
        """The root of a tree that is not empty."""
        return next(iter(self.nodes.values()), None)

    @property
    def height(self) -> int:
        """The number of levels."""
        return self.root.level + 1 if self.root else 0

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.root.nodes if self.root else 0

    def stored(self) -> Iterator[Stored]:
        """Yield every aggregate that is stored in a node that was read, or for a part of a queue."""
        yield from self.totals
        for node in self.nodes.values():
            yield from node.stored

    def element(self, place: int) -> Stored | None:
        """Return the aggregate that an element of a queue stores."""
        state = self.aggregates[place]
        return None if state is None else Stored(f"e{place}", "element", place, state)

    def way_to(self, time: Number) -> Iterator[Node]:
        """Yield the nodes on the way to a time, as far as they were read."""
        node = self.root
        while node is not None:
            yield node
            below = [self.nodes[name] for name in node.children]
            node = next((child for child in below if time <= child.last), below[-1] if below else None)

    def owners(self) -> dict[Number, int]:
        """Return for each time the node that a comparison with it looks at.

        The times that separate the children of an inner node of `fiba` are stored in its leaves too: a comparison with
        one is taken for one with the inner node, except for those of a finger, where every search begins.
        """
        found: dict[Number, int] = {}
        for node in reversed(self.nodes.values()):
            if node.level or node.spine is None:
                found.update(dict.fromkeys(node.keys, node.id))
        for node in self.nodes.values():
            if not node.level and node.spine is not None:
                found.update(dict.fromkeys(node.keys, node.id))
        return found


def shape_of(window: Window, numbers: dict[int, int], around: Sequence[Moment] | None = None) -> Shape:
    """Return the shape of a window of traced times and states, in a large tree only what is `around` some times.

    `numbers` has a small number for each node that was seen before, and gets one for each that is new.
    """
    nodes = window.nodes(around)
    if nodes is None:
        return Shape()
    if "cuts" not in nodes:
        return _tree(nodes, numbers)
    times = [moment.time for moment in nodes["keys"]]
    totals = [Stored(f"t{name}", name, 0, state) for name, state in nodes.get("totals", {}).items()]
    aggregates, cuts = nodes["aggregates"], dict(nodes["cuts"])
    return Shape(times=times, states=nodes["values"], aggregates=aggregates, totals=totals, cuts=cuts)


def _tree(root: dict[str, Any], numbers: dict[int, int]) -> Shape:
    shape = Shape()
    _add(shape, root, None, _height(root), numbers)
    for end in root.get("ends", ()):
        node = _owner_of(shape, end["part"], end["level"])
        name = f"{node.id}:{end['part']}:{end['position']}"
        node.stored.append(Stored(name, end["part"], end["position"], end["aggregate"]))
    return shape


def _height(root: dict[str, Any]) -> int:
    """Return the height of a tree, which is that of the tallest way that was read."""
    return max((1 + _height(child) for child in root["children"]), default=0)


def _add(shape: Shape, raw: dict[str, Any], parent: int | None, level: int, numbers: dict[int, int]) -> Node:
    keys, folded = [moment.time for moment in raw["keys"]], "entries" in raw
    number = numbers.setdefault(raw["id"], len(numbers) + 1)
    node = Node(number, parent, level, raw["spine"], keys, raw["values"], [], raw.get("coins"), folded)
    shape.nodes[node.id] = node
    if raw["aggregate"] is not None and raw["aggregate"].first is not None:
        node.stored.append(Stored(f"{node.id}:node:0", "node", 0, raw["aggregate"]))
    below = [_add(shape, child, node.id, level - 1, numbers) for child in raw["children"]]
    node.children = [child.id for child in below]
    if folded:
        node.entries, node.nodes = raw["entries"], raw["nodes"]
        node.first, node.last = raw["first"].time, raw["last"].time
        return node
    node.entries = len(node.states) + sum(child.entries for child in below)
    node.nodes += sum(child.nodes for child in below)
    times = [time for child in below for time in (child.first, child.last)] + (keys if node.states else [])
    node.first, node.last = min(times), max(times)
    return node


def _owner_of(shape: Shape, part: str, level: int) -> Node:
    """Return the node that an aggregate of the ends belongs to: on a spine, on a finger, or the root."""
    assert shape.root is not None
    node = shape.root
    while node.level > level:
        left = part.startswith(("left", "suffix"))
        node = shape.nodes[node.children[0 if left else -1]]
    return node
