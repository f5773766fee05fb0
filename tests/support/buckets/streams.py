"""Random streams of micro-batches: disorder, ties, repeats, deletes, quiet times and jumps ahead."""

import itertools
import zlib
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from oracles.keyed import Row

Stream = list[list[Row]]


@dataclass
class Draft:
    """A row on its way: who it is, as far as that was drawn."""

    key: str | None
    ahead: int  # of where its micro-batch begins
    id: int
    delete: bool
    back: int | None  # a delete is of the row so many before


@dataclass
class Batch:
    """A micro-batch on its way, and how far it is from the one before."""

    drafts: list[Draft]
    jump: int


BATCHES = st.lists(
    st.builds(
        Batch,
        st.lists(
            st.builds(
                Draft,
                st.sampled_from(["a", "a", "b", None]),
                st.integers(0, 11),
                st.integers(0, 2),
                st.sampled_from([False, False, True]),
                st.sampled_from([None, 1, 2, 4, 7]),
            ),
            max_size=8,
        ),
        st.sampled_from([2, 3, 4, 2, 3, 4, 2, 3, 4, 40]),
    ),
    min_size=6,
    max_size=14,
)


def row_of(key: str | None, time: int | None, id: Any, *, delete: bool = False, named: bool = True) -> Row:
    """A row whose values follow from who it is."""
    number = zlib.crc32(repr((key, time, id)).encode())
    row = {
        "k": key,
        "t": time,
        "x": (None, *range(-5, 6))[number % 12],
        "a": (None, -1.0, 1.0, 2.0, 0.0)[number // 12 % 5],
        "b": (None, -2.0, -1.0, 0.0, 1.0, 2.0)[number // 60 % 6],
        "c": f"{key}/{time}/{id}",
        "gone": delete,
    }
    return row | ({"i": id} if named else {})


def times_of(batches: list[Batch]) -> list[list[tuple[Draft, int]]]:
    starts = itertools.accumulate(batch.jump for batch in batches)
    return [
        [(draft, start + draft.ahead) for draft in batch.drafts] for start, batch in zip(starts, batches, strict=True)
    ]


def plain(batches: list[Batch]) -> Stream:
    """Rows without ids, no two of them the same, some without a time."""
    number = itertools.count()
    return [
        [row_of(draft.key, None if draft.back == 7 else time, next(number), named=False) for draft, time in batch]
        for batch in times_of(batches)
    ]


def distinct(batches: list[Batch]) -> Stream:
    """Rows without ids, of which no two of a key have one time."""
    seen: set[Any] = set()
    stream: Stream = []
    for batch in times_of(batches):
        fresh = dict.fromkeys((draft.key, time) for draft, time in batch if (draft.key, time) not in seen)
        seen |= fresh.keys()
        stream.append([row_of(key, time, 0, named=False) for key, time in fresh])
    return stream


def identified(batches: list[Batch], ids: type, deletes: bool) -> Stream:
    """Rows with ids, repeats and some bad ones among them; a delete is of a row before, or of one that may come."""
    earlier: list[tuple[Any, ...]] = []
    stream: Stream = []
    for batch in times_of(batches):
        rows = []
        for draft, time in batch:
            who = (draft.key, time, name_of(draft.id, ids))
            if draft.back is not None and draft.back <= len(earlier) and (draft.delete or draft.back == 1):
                who = earlier[-draft.back]
            earlier.append(who)
            rows.append(row_of(*who, delete=deletes and draft.delete))
            if draft.back == 7 and not draft.delete:
                rows[-1]["i"] = None
        stream.append(rows)
    return stream


def name_of(id: int, ids: type) -> Any:
    return id - 1 if ids is int else ("b", "", "ba")[id]


def blind(batches: list[Batch], single: bool) -> Stream:
    """Inserts and deletes without ids; of one key and time only either in one micro-batch, because it has no order.

    Where it is `single`, no two rows of one key and time are there at once.
    """
    alive: list[tuple[Any, ...]] = []
    stream: Stream = []
    for batch in times_of(batches):
        kinds: dict[Any, bool] = {}
        rows = []
        for draft, time in batch:
            delete = (draft.delete or draft.id == 2) and bool(alive)  # often enough for nothing to be left
            who = alive[-(draft.back or 1) % len(alive)] if delete else (draft.key, time, 0 if single else draft.id % 2)
            mixed = kinds.setdefault(who[:2], delete) != delete
            if mixed or (single and not delete and who in alive):
                continue
            alive.remove(who) if delete else alive.append(who)
            rows.append(row_of(*who, delete=delete, named=False))
        stream.append(rows)
    return stream
