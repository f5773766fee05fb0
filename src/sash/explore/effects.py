"""What one operation did to a window, from its shape before and after and the log of its times and states."""

from dataclasses import asdict, dataclass, field
from typing import Any

from sash.explore.shape import Node, Shape
from sash.explore.traced import Log, Number


@dataclass
class Effects:
    """Counts of one operation, and which nodes and aggregates they are about.

    `looked` are nodes with a time that was compared, `changed` those whose keys or children changed, `created` new
    ones, `fresh` aggregates that were computed, `read` aggregates and `taken` entries that a query combined; the nodes
    that have those are `asked`. `seen` counts the nodes that were looked at, `altered` those that were changed, created
    or removed or have a fresh aggregate, and `touched` all of them.
    """

    combines: int = 0
    compares: int = 0
    splits: int = 0
    merges: int = 0
    moves: int = 0
    grew: int = 0
    seen: int = 0
    altered: int = 0
    touched: int = 0
    looked: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    created: list[int] = field(default_factory=list)
    gone: int = 0
    fresh: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    taken: list[Number] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the effects as plain data, with lists that are cut after what a page can show."""
        return {name: value[:200] if isinstance(value, list) else value for name, value in asdict(self).items()}


def effects_of(before: Shape, after: Shape, log: Log, since: int, own: set[Number]) -> Effects:
    """Return what happened between two shapes; states with serial numbers above `since` are new.

    `own` are the times of the operation itself.
    """
    found = Effects(combines=len(log.combines), compares=len(log.compares))
    found.looked, unread = _looked(before, log, own)
    _compare_nodes(before, after, found)
    found.fresh = [stored.name for stored in after.stored() if stored.state.serial > since]
    found.fresh += [f"e{i}" for i, state in enumerate(after.aggregates) if state is not None and state.serial > since]
    owners = {stored.name: node.id for node in after.nodes.values() for stored in node.stored}
    fresh = {owners[name] for name in found.fresh if name in owners}
    _read(after, log, found)
    taken = [node.id for node in after.nodes.values() if node.states and not set(found.taken).isdisjoint(node.keys)]
    found.asked = list(dict.fromkeys([*(owners[name] for name in found.read if name in owners), *taken]))
    altered = {*found.changed, *found.created, *fresh}
    found.seen, found.altered = len(found.looked) + unread, len(altered) + found.gone
    found.touched = len({*found.looked, *found.asked, *altered}) + found.gone + unread
    return found


def _looked(shape: Shape, log: Log, own: set[Number]) -> tuple[list[int], int]:
    """Return the nodes that comparisons looked at, and how many more there were that were not read.

    Those are leaves of `reactive`, each with one time: it searches its array by halving.
    """
    owners, compared = shape.owners(), dict.fromkeys(moment.time for moment in log.compares)
    seen = dict.fromkeys(owners[time] for time in compared if time in owners)
    partly = any(node.folded for node in shape.nodes.values())
    return list(seen), len(compared.keys() - owners.keys() - own) if partly else 0


def _compare_nodes(before: Shape, after: Shape, found: Effects) -> None:
    found.grew = after.height - before.height
    found.created = [node.id for node in only_in(after, before)]
    gone = only_in(before, after)
    found.gone = len(gone)
    for name, node in after.nodes.items():
        old = before.nodes.get(name)
        if old and old.folded == node.folded and _content(node) != _content(old):
            found.changed.append(name)
    if before.root and after.root:
        found.splits = max(0, len(found.created) - max(0, found.grew))
        found.merges = max(0, len(gone) - max(0, -found.grew))


def only_in(shape: Shape, other: Shape) -> list[Node]:
    """Return the nodes of a shape that another one does not have, leaving out those that were only not read there."""
    hidden = [node for node in other.nodes.values() if node.folded]
    return [
        node
        for node in shape.nodes.values()
        if node.id not in other.nodes
        and not any(above.level > node.level and above.first <= node.first <= above.last for above in hidden)
    ]


def coins_gained(before: Shape, after: Shape) -> int:
    """Return how many coins more the nodes of a shape have than those of an earlier one."""
    kept = [(node, before.nodes[name]) for name, node in after.nodes.items() if name in before.nodes]
    return (
        sum((node.coins or 0) - (old.coins or 0) for node, old in kept)
        + sum(node.coins or 0 for node in only_in(after, before))
        - sum(node.coins or 0 for node in only_in(before, after))
    )


def _content(node: Node) -> tuple[Any, ...]:
    return node.keys, not node.folded and node.children, [state.serial for state in node.states]


def _read(shape: Shape, log: Log, found: Effects) -> None:
    """Find what the results were combined from: stored aggregates, and single entries."""
    stored = {state.serial: f"e{i}" for i, state in enumerate(shape.aggregates) if state is not None}
    for one in shape.stored():
        if one.part == "node" or one.state.serial not in stored:
            stored[one.state.serial] = one.name
    entries = {
        state.serial: time
        for node in shape.nodes.values()
        for time, state in (zip(node.keys, node.states, strict=True) if node.states else ())
    }
    pieces = _pieces(log, {*stored, *entries})
    found.read = [stored[serial] for serial in pieces if serial in stored]
    found.taken = [entries[serial] for serial in pieces if serial in entries and serial not in stored]


def _pieces(log: Log, known: set[int]) -> list[int]:
    """Return the states that the results were combined from, oldest first, taken apart down to those that are known."""
    made = {combine.result: combine for combine in log.combines}
    found, rest = [], list(reversed(log.lowered))
    while rest:
        serial = rest.pop()
        if serial in known or serial not in made:
            found.append(serial)
        else:
            rest += [made[serial].right, made[serial].left]
    return found
