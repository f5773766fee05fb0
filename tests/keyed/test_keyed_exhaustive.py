"""Every history of a few operations, on trees with tiny nodes, against a list that is folded from scratch.

Histories run side by side, each in a key of its own, so that a step is one push for all of them. The watermark is the
same for all keys, so there is one stream for each choice of the steps at which it advances. After each step all that is
stored is checked, and what came out is compared.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from sash import KeyedWindows, monoids
from sash.keyed import definition

SIZES = (12, 100)
LATENESS = 300
HORIZONS = (-40, -8, 130, 150)  # after each advance, from the newest time of the prefix: some expires, more, all
ADVANCE = "!"
AGGS = {
    "n": monoids.count(),
    "s": monoids.sum("x"),
    "old": monoids.first("x"),
    "new": monoids.last("x"),
    "f": monoids.affine("a", "x"),  # ±y + x: does not commute, and is exact
}
COLUMNS = [f"{agg}_{size}" for size in SIZES for agg in AGGS]


# What the rows of a letter hold.
LETTERS = "abcdfop"
X = {letter: 3**at for at, letter in enumerate(LETTERS)}
A = {letter: -1.0 if letter in "bcfp" else 1.0 for letter in LETTERS}


class Event(NamedTuple):
    """A row of a key: where it stands, and the letter that says what it holds and is its id."""

    time: int
    letter: str


# Letters of histories, and their times from the newest of the prefix; capitals delete. The prefix has the letters o, p.
TIMES = {"a": 5, "b": -5, "c": -10, "d": -30, "f": -150}
INSERTS = "abcdfB" + ADVANCE
DELETES = "abABO" + ADVANCE
FEW = "bcB" + ADVANCE + "f"


class Known(NamedTuple):
    """What a plain list knows of a key, and what the last operation gave: rows with their answers."""

    rows: tuple[Event, ...]
    tombs: frozenset[Event]
    advances: int
    given: tuple[tuple[Event, tuple[Any, ...]], ...]


@cache
def folded(letters: str) -> tuple[Any, ...]:
    """Every aggregate of the rows with these letters, in this order."""
    values = [(X[letter], A[letter]) for letter in letters]
    if not values:
        return 0, None, None, None, None
    slope, offset = 1.0, 0.0
    for x, a in values:
        slope, offset = a * slope, a * offset + x
    return len(values), sum(x for x, _ in values), values[0][0], values[-1][0], (slope, offset)


class Oracle:
    """A list for each history."""

    def __init__(self, prefix: int, identified: bool, emit: str) -> None:
        self.newest, self.identified, self.emit = 10 * prefix, identified, emit
        self.prefix = tuple(Event(10 * at, "op"[at % 2]) for at in range(1, prefix + 1))
        self.after = cache(self._after)

    def event(self, letter: str) -> Event:
        """The event that a letter, small or capital, is about; that of O is a row of the prefix."""
        small = letter.lower()
        return Event(self.newest - 10, "op"[(self.newest // 10 - 1) % 2]) if small == "o" else self.timed(small)

    def timed(self, letter: str) -> Event:
        return Event(self.newest + TIMES[letter], letter)

    def horizon(self, advances: int) -> int:
        return self.newest + (HORIZONS[min(advances, 4) - 1] if advances else -LATENESS)

    def answer(self, event: Event, rows: Sequence[Event]) -> tuple[Any, ...]:
        (narrow, wide), now = SIZES, event.time
        return folded("".join([letter for time, letter in rows if now - narrow < time <= now])) + folded(
            "".join([letter for time, letter in rows if now - wide < time <= now])
        )

    def _after(self, history: str) -> Known:
        if not history:
            return Known(self.prefix, frozenset(), 0, ())
        rows, tombs, advances, _ = self.after(history[:-1])
        if history[-1] == ADVANCE:
            return self._advanced(rows, tombs, advances)
        event, gone = self.event(history[-1]), history[-1].isupper()
        late = event.time < self.horizon(advances)
        if late or (self.identified and not gone and (event in rows or event in tombs)):
            return Known(rows, tombs, advances, ())
        if gone:
            tombs |= {event}
            at = rows.index(event) if event in rows else len(rows)
            return Known(rows[:at] + rows[at + 1 :], tombs, advances, ())
        rows = tuple(sorted([*rows, event], key=lambda r: (r.time, r.letter if self.identified else "")))
        given = ((event, self.answer(event, rows)),) if self.emit == "arrival" else ()
        return Known(rows, tombs, advances, given)

    def _advanced(self, rows: tuple[Event, ...], tombs: frozenset[Event], advances: int) -> Known:
        before, now = self.horizon(advances), self.horizon(advances + 1)
        due = [row for row in rows if before <= row.time < now] if self.emit == "final" else []
        given = tuple((row, self.answer(row, rows)) for row in due)
        return Known(tuple(row for row in rows if row.time > now - max(SIZES)), tombs, advances + 1, given)


# --- histories side by side -----------------------------------------------------------------------


def histories(alphabet: str, length: int) -> Iterator[list[str]]:
    """All histories of a length, in lists of those that advance at the same steps."""
    others = alphabet.replace(ADVANCE, "")
    for pattern in itertools.product(*[[True, False]] * length if ADVANCE in alphabet else [[False]] * length):
        free = itertools.product(others, repeat=pattern.count(False))
        yield [woven(pattern, iter(letters)) for letters in free]


def woven(pattern: tuple[bool, ...], letters: Iterator[str]) -> str:
    return "".join(ADVANCE if advances else next(letters) for advances in pattern)


def table(keyed: Sequence[tuple[int, Event, bool]]) -> pa.Table:
    events = [event for _, event, _ in keyed]
    return pa.table(
        {
            "k": pa.array([key for key, _, _ in keyed], pa.int64()),
            "t": pa.array([event.time for event in events], pa.int64()),
            "i": pa.array([ord(event.letter) for event in events], pa.int64()),
            "x": pa.array([X[event.letter] for event in events], pa.int64()),
            "a": pa.array([A[event.letter] for event in events], pa.float64()),
            "gone": pa.array([gone for _, _, gone in keyed], pa.bool_()),
        }
    )


def told(result: pa.Table) -> list[tuple[Any, ...]]:
    """Key, time, x and answers of each row that came out."""
    columns = [result[name].to_pylist() for name in ["k", "t", "x", *COLUMNS]]
    for at, name in enumerate(["k", "t", "x", *COLUMNS]):
        if name.startswith("f_"):
            columns[at] = [None if pair is None else tuple(pair.values()) for pair in columns[at]]
    return list(zip(*columns, strict=True))


def wanted(oracle: Oracle, done: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        (key, event.time, X[event.letter], *answer)
        for key, history in enumerate(done)
        for event, answer in oracle.after(history).given
    ]


def stream(oracle: Oracle) -> KeyedWindows:
    options = {"id": "i"} if oracle.identified else {}
    carry = {} if oracle.emit == "arrival" else {"carry": ["x"]}
    return KeyedWindows(
        keys=["k"],
        time="t",
        windows=list(SIZES),
        aggs=AGGS,
        emit=oracle.emit,
        lateness=LATENESS,
        retract="gone",
        **options,
        **carry,
    )


def run(oracle: Oracle, together: list[str]) -> None:
    """Run histories that advance at the same steps, each in its key, and compare step by step."""
    kw = stream(oracle)
    kw.push(table([(key, event, False) for key in range(len(together)) for event in oracle.prefix]))
    kw.check_invariants()
    order: Callable[[Any], Any] = sorted if oracle.emit == "final" else list
    for step, letter in enumerate(together[0], start=1):
        done = [history[:step] for history in together]
        if letter == ADVANCE:
            horizon = oracle.horizon(done[0].count(ADVANCE))
            result = kw.push(table([]), watermark=horizon + LATENESS)
        else:
            rows = [(key, oracle.event(history[-1]), history[-1].isupper()) for key, history in enumerate(done)]
            result = kw.push(table(rows))
        kw.check_invariants()
        assert order(told(result)) == order(wanted(oracle, done)), done
    assert kw.metrics["live_rows"] == sum(len(oracle.after(history).rows) for history in together)
    ending(kw, oracle, together)


def ending(kw: KeyedWindows, oracle: Oracle, together: list[str]) -> None:
    """What was pending comes out at the end, and nothing is left."""
    result = kw.flush()
    if oracle.emit == "final":
        assert sorted(told(result)) == sorted(pending(oracle, together))
    kw.check_invariants()
    assert kw.metrics["live_rows"] == 0


def pending(oracle: Oracle, together: list[str]) -> Iterator[tuple[Any, ...]]:
    for key, history in enumerate(together):
        rows, _, advances, _ = oracle.after(history)
        for event in rows:
            if event.time >= oracle.horizon(advances):
                yield key, event.time, X[event.letter], *oracle.answer(event, rows)


@pytest.fixture(autouse=True)
def tiny_nodes(monkeypatch):
    """Two rows to a leaf and four children to a node."""
    monkeypatch.setattr(definition, "NODE_SIZES", (2, 4))


IDENTIFIED = pytest.mark.parametrize("identified", [True, False], ids=["ids", "no ids"])
EACH_EMIT = pytest.mark.parametrize("emit", ["arrival", "final"])


@IDENTIFIED
@EACH_EMIT
@pytest.mark.parametrize(
    ("prefix", "alphabet", "length"),
    [(0, INSERTS, 4), (5, INSERTS, 5), (20, INSERTS, 4), (5, DELETES, 4), (20, DELETES, 4), (0, FEW, 5)],
)
def test_every_history(prefix, alphabet, length, emit, identified):
    """Whatever the order of late rows, twins, repeats, deletes and advances, answers are those of a list."""
    oracle = Oracle(prefix, identified, emit)
    for together in histories(alphabet, length):
        run(oracle, together)


@pytest.mark.parametrize(
    ("alphabet", "length", "identified"), [("abfB!", 6, True), ("abfB!", 6, False), ("bcB!", 7, True)]
)
def test_every_long_history(alphabet, length, identified):
    """The same of histories of six and seven steps, of fewer letters."""
    oracle = Oracle(5, identified, "arrival")
    for together in histories(alphabet, length):
        run(oracle, together)


@pytest.mark.parametrize(("prefix", "alphabet", "identified"), [(5, FEW, True), (20, DELETES, False)])
def test_every_history_alone(prefix, alphabet, identified):
    """The same, where each history has a stream of its own and a push holds one row."""
    oracle = Oracle(prefix, identified, "arrival")
    for together in histories(alphabet, 3):
        for history in together:
            run(oracle, [history])


@IDENTIFIED
@pytest.mark.parametrize(("prefix", "length"), [(0, 4), (5, 4), (20, 4)])
def test_every_history_in_one_push(prefix, length, identified):
    """The same in one push: a delete wins over its insert whichever came first, with ids and without."""
    oracle = Oracle(prefix, identified, "final")
    (together,) = histories((INSERTS + "A").replace(ADVANCE, ""), length)
    kw = stream(oracle)
    kw.push(table([(key, event, False) for key in range(len(together)) for event in oracle.prefix]))
    kw.push(table([(key, oracle.event(at), at.isupper()) for key, history in enumerate(together) for at in history]))
    kw.check_invariants()
    if not identified:
        together = ["".join(sorted(history, key=str.isupper)) for history in together]
    ending(kw, oracle, together)
