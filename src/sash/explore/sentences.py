"""What an operation did, in plain sentences for someone who has not read the paper."""

from typing import Any

from sash.explore.effects import Effects
from sash.explore.picture import written
from sash.explore.planning import Operation


def title_of(operation: Operation) -> str:
    """Return an operation as a heading.

    >>> title_of({"op": "insert", "time": 3, "value": "c"})
    'insert c at 3'
    """
    name = operation["op"]
    if name == "insert":
        return f"insert {written(operation['value'])} at {written(operation['time'])}"
    if name == "slide":
        oldest = "nothing" if operation["evict"] is None else written(operation["evict"])
        return f"slide: evict {oldest}, insert {written(operation['value'])} at {written(operation['time'])}"
    if name == "fill":
        return f"insert {operation['count']:,} entries, {operation['order']}"
    if name == "range":
        return f"query from {written(operation['start'])} to {written(operation['stop'])}"
    if name in ("evict", "evict_until"):
        return f"evict {'everything up to ' if name == 'evict_until' else ''}{written(operation['time'])}"
    return "query"


def sentences_of(facts: dict[str, Any], update: Effects, query: Effects | None) -> list[str]:
    """Return sentences about an operation: where it was, and what numbers alone do not say about it."""
    said = [_place(facts), *_rebalancing(facts, update), _combined(facts, update, query)]
    if query is not None:
        said.append(_query(facts, query))
    return [sentence for sentence in said if sentence]


def _place(facts: dict[str, Any]) -> str:
    name, distance = facts["op"], facts.get("distance")
    if name == "evict" and not facts.get("found", True):
        return "The window has no entry at that time, so nothing changes."
    if name == "insert" and facts.get("merged"):
        return "The window has an entry at that time, so the new value is combined with it, on the right."
    if distance is None or name not in ("insert", "evict"):
        return ""
    newer = facts["newer"]
    if facts.get("wanted"):
        there = facts["before"]
        return f"Only {_entries(there)} {_are(there)} in the window, so it goes in front of all (distance 0)."
    if distance == 0:
        which = "newest" if newer == 0 else "oldest"
        return f"It is the {which} in the window (distance 0)."
    if name == "insert" and newer == distance:
        return f"It is late: {_entries(newer)} in the window {_are(newer)} newer (distance {distance})."
    return f"{_entries(distance)} {_are(distance)} between it and the nearer end (distance {distance})."


def _rebalancing(facts: dict[str, Any], update: Effects) -> list[str]:
    said: list[str] = []
    if facts["op"] in ("fill", "evict_until") or facts["structure"] in ("two_stacks", "daba", "reactive"):
        return said
    if update.splits:
        said.append(f"A node was too full: {_count(update.splits, 'split', 'splits')}.")
    if update.merges:
        said.append(f"A node was too empty: {_count(update.merges, 'merge', 'merges')}.")
    if update.moves:
        said.append("A node was too empty and took an entry over from its neighbor.")
    if update.grew and facts["before"]:
        said.append("The tree is one level taller." if update.grew > 0 else "The tree is one level lower.")
    return said


def _combined(facts: dict[str, Any], update: Effects, query: Effects | None) -> str:
    if facts["op"] == "fill":
        return f"On average {update.combines / facts['count']:.1f} combines for each entry."
    is_stale = facts["structure"] == "fiba" and facts["op"] not in ("query", "range") and not update.combines
    if not is_stale:
        return ""
    return "The next query repairs aggregates." if query is None else "The query after it repaired aggregates."


def _query(facts: dict[str, Any], query: Effects) -> str:
    if facts["op"] != "range":
        return ""
    parts = len(query.read) + len(query.taken)
    return f"The answer was put together from {_count(parts, 'stored piece', 'stored pieces')}."


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _entries(number: int) -> str:
    return _count(number, "entry", "entries")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
