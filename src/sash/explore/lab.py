"""A window that is worked on by hand: operations with what they did, undo and redo.

Undo goes back to a copy and replays the operations since: structures are deterministic, and a copy has the same shape
and the same counters.
"""

from bisect import bisect_left, bisect_right
from typing import Any

from sash.errors import ArgumentError, OutOfOrderError, UnsupportedError
from sash.explore.distances import distances_of, trial
from sash.explore.effects import Effects, coins_gained, effects_of
from sash.explore.options import checked_options, checked_structure
from sash.explore.performing import distance_of, inserts_of, perform
from sash.explore.picture import MOST_ENTRIES, entries_of, picture_of, written
from sash.explore.planning import Operation, planned, value_for
from sash.explore.sentences import sentences_of, title_of
from sash.explore.shape import Shape, shape_of
from sash.explore.traced import Log, Moment, Number, State, monoid_named, result_of, traced
from sash.window.window import Window

_BETWEEN_COPIES = 400  # inserts and evictions that undo may have to replay
_MOST_COPIES = 60
_SHOWN_COSTS = 60
_ALL_READ = 200  # entries up to which all of a window is read after each operation
_LONGEST = 600
Report = dict[str, Any]
_NOTHING: Report = {
    "said": [],
    "update": Effects().plain(),
    "query": Effects().plain(),
    "distance": None,
    "billed": None,
    "marked": [],
}


class Lab:
    """One window, its operations so far, and the place among them that is shown."""

    def __init__(self, structure: Any = "paper", monoid: Any = "text", options: Any = None) -> None:
        """Create an empty window of traced times and states."""
        self.structure = checked_structure(structure)
        self.options = checked_options(structure, options)
        self.monoid = monoid_named(monoid)
        self.monoid_name = str(monoid)
        self.log = Log()
        self._window = Window(traced(self.monoid, self.log), structure=structure, **self.options)
        self.shape = Shape()
        self._numbers: dict[int, int] = {}
        self._times: list[Number] = []
        self._has_coins = structure in ("paper", "classic")
        self._coins = self._total = 0
        self._after = [(0, 0)]  # the coins and the combines so far, after each operation
        self._operations: list[Operation] = []
        self._costs: list[dict[str, Any]] = []
        self._at = 0
        self._inserted = 0
        self._weight = 0
        self._kept: dict[int, Report] = {}
        self._copies = {0: self._copied()}
        self.report = self._started()

    # --- what the page asks for -----------------------------------------------------------------------

    def apply(self, request: Any, unfolded: tuple[int, ...] = ()) -> Report:
        """Run an operation and return what it did. One that the structure refuses changes nothing."""
        operation = planned(request, self.times(), self._inserted, self.monoid_name)
        if isinstance(request, dict) and request.get("lazy") is True:
            operation["lazy"] = True
        try:
            report = self._run(operation, unfolded)
        except (OutOfOrderError, UnsupportedError) as error:
            if operation["op"] in ("fill", "slide"):  # which may be half done
                self._rebuild(self._at)
            self._read()
            return {
                **self.report,
                **_NOTHING,
                "operation": operation,
                "refused": str(error),
                "title": title_of(operation),
            }
        self._remember(operation, report)
        return self.report

    def undo(self) -> Report:
        """Go back by one operation."""
        return self._go_to(max(0, self._at - 1))

    def redo(self) -> Report:
        """Run the operation again that was undone last."""
        return self._go_to(min(len(self._operations), self._at + 1))

    def forget(self) -> None:
        """Make the current window the start of the history: nothing before it can be undone."""
        self._operations, self._costs, self._kept, self._at, self._weight = [], [], {}, 0, 0
        with self.log.paused():
            self._window.query()  # so that nothing is left to repair for an operation that did not make it stale
        self._copies = {0: self._copied()}
        self._read()
        self._total = 0
        self._after = [(self._coins, self._total)]
        self.report = self._started()

    def take_over(self, other: "Lab") -> None:
        """Insert the entries of another window, oldest first, as the start of the history."""
        with other.log.paused():
            entries = [(moment.time, result_of(other.monoid, state)) for moment, state in other._window.items()]
        is_alike = (self.monoid_name == "text") == (other.monoid_name == "text")
        with self.log.paused():
            for place, (time, value) in enumerate(entries):
                kept = value if is_alike else value_for(place, self.monoid_name)
                self._window.insert(Moment(time, self.log), (time, kept))
        self._inserted = len(entries)
        self.forget()

    def look(self, unfolded: tuple[int, ...]) -> Report:
        """Return the last report, drawn with these nodes unfolded."""
        around = self._around(self.report["operation"] or {"op": "query"}, unfolded)
        self.shape = self._seen(around)
        self.report = {**self.report, "picture": self._picture(self.report["marked"], unfolded)}
        return self.report

    def times(self) -> list[Number]:
        """Return the times of all entries, oldest first."""
        if len(self._times) != len(self._window):
            with self.log.paused():
                self._times = [moment.time for moment in self._window]
        return self._times

    def entries(self) -> list[tuple[Number, str]]:
        """Return the time of each entry and its value as text, oldest first."""
        with self.log.paused():
            return [(moment.time, self._text(state)) for moment, state in self._window.items()]

    def distances(self) -> list[dict[str, Any]]:
        """Return what inserts would cost at growing distances from the newest entry; the window does not change."""
        with self.log.paused():
            owners = self._seen().owners()
        times = self.times()
        if not times:
            raise ArgumentError("The window is empty: there is nothing to measure.", argument="lab")
        return [
            trial(self._window, self.log, late, times, owners, self.monoid_name) for late in distances_of(len(times))
        ]

    def check(self) -> None:
        """Check all invariants of the window."""
        with self.log.paused():
            self._window.check_invariants()

    # --- one operation --------------------------------------------------------------------------------

    def _run(self, operation: Operation, unfolded: tuple[int, ...] = ()) -> Report:
        times = self.times()
        facts: dict[str, Any] = {"op": operation["op"], "structure": self.structure, "before": len(times)}
        facts["wanted"] = operation.get("wanted")
        facts |= {"count": inserts_of(operation), **distance_of(operation, times)}
        around = self._around(operation, unfolded)
        around = self._widened(around, self._seen(around))
        before, spent, coins = self._seen(around), self._window.spent, self._coins
        serial = self.log.serial
        self.log.clear()
        facts["found"] = perform(self._window, operation, self.log, self._inserted, self.monoid_name)
        self._follow(operation)
        around = self._widened(around, self._seen(around))
        self.shape = self._seen(around)
        update = effects_of(before, self.shape, self.log, serial, _own_times(operation))
        update.moves = max(0, self._window.spent - spent - update.splits - update.merges) if self._has_coins else 0
        query, answer = self._answer(operation, around)
        self._coins += coins_gained(before, self.shape)
        self._total += update.combines + (query.combines if query else 0)
        marked = [*update.looked, *update.changed, *update.created]
        if query and operation["op"] in ("query", "range"):
            marked = [*query.looked, *query.asked, *query.changed]
        if operation["op"] == "fill":  # which touches nearly all
            marked = []
        return {
            "operation": operation,
            "title": title_of(operation),
            "said": sentences_of(facts, update, query),
            "refused": None,
            "update": update.plain(),
            "query": query and query.plain(),
            "distance": facts.get("distance"),
            "billed": self._billed(coins, spent),
            "answer": answer,
            "marked": marked,
            **self._state(),
            "picture": self._picture(marked, unfolded),
        }

    def _around(self, operation: Operation, unfolded: tuple[int, ...]) -> list[Moment] | None:
        """Return the times that an operation can be about; None if it is about all, or if all is little."""
        if operation["op"] in ("fill", "evict_until") or len(self._window) <= _ALL_READ:
            return None
        times = [*_own_times(operation), self.times()[0], self.times()[-1]]
        opened = [self.shape.nodes[name].first for name in unfolded if name in self.shape.nodes]
        return [Moment(time, self.log, stored=False) for time in [*times, *opened]]

    def _widened(self, around: list[Moment] | None, shape: Shape) -> list[Moment] | None:
        """Return times around which a split or a merge shows too: those beside each node on the ways to the times."""
        if around is None:
            return None
        times, more = self.times(), {moment.time for moment in around}
        for node in {node.id: node for moment in around for node in shape.way_to(moment.time)}.values():
            low, high = bisect_left(times, node.first) - 1, bisect_right(times, node.last)
            more |= {times[place] for place in (low, high) if 0 <= place < len(times)}
        return [Moment(time, self.log, stored=False) for time in more]

    def _read(self) -> None:
        """Read all of the window again."""
        self.shape, self._times = self._seen(), []
        self._coins = sum(node.coins or 0 for node in self.shape.nodes.values())

    def _seen(self, around: list[Moment] | None = None) -> Shape:
        with self.log.paused():
            return shape_of(self._window, self._numbers, around)

    def _follow(self, operation: Operation) -> None:
        """Keep the list of times in step with the window, or forget it."""
        times = self._times
        if operation["op"] in ("evict", "slide"):
            gone = operation["evict"] if operation["op"] == "slide" else operation["time"]
            place = bisect_left(times, gone) if gone is not None else len(times)
            if place < len(times) and times[place] == gone:
                del times[place]
        if operation["op"] in ("insert", "slide"):
            place = bisect_left(times, operation["time"])
            if place == len(times) or times[place] != operation["time"]:
                times.insert(place, operation["time"])
        if operation["op"] in ("fill", "evict_until"):
            self._times = []

    def _answer(self, operation: Operation, around: list[Moment] | None) -> tuple[Effects | None, dict[str, Any]]:
        """Run the query that follows every operation, or the one that the operation is."""
        if operation.get("lazy"):
            return None, {"text": None, "value": None}
        before, serial = self.shape, self.log.serial
        self.log.clear()
        state = self._ask(operation)
        log = Log(self.log.compares[:], self.log.combines[:], self.log.lowered[:])
        self.shape = self._seen(around)
        query = effects_of(before, self.shape, log, serial, _own_times(operation))
        return query, self._shown(state)

    def _ask(self, operation: Operation) -> Any:
        if operation["op"] != "range":
            return self._window.query()
        start, stop = (Moment(operation[name], self.log, stored=False) for name in ("start", "stop"))
        return self._window.query(start, stop)

    def _shown(self, state: State) -> dict[str, Any]:
        result = result_of(self.monoid, state)
        value = result if not isinstance(result, str) or len(result) <= _LONGEST else None
        return {"text": written(result, _LONGEST), "value": value, "first": state.first, "last": state.last}

    def _billed(self, coins: int, spent: int) -> dict[str, int] | None:
        """Return the coins of the paper's analysis that the operation spent, and those that were billed for it."""
        if not self._has_coins:
            return None
        cost = self._window.spent - spent
        return {"spent": cost, "billed": self._coins + cost - coins}

    def _state(self) -> Report:
        count = len(self._window)
        return {
            "structure": self.structure,
            "monoid": self.monoid_name,
            "options": self.options,
            "totals": {
                "combines": self._total,
                "spent": self._window.spent,
                "coins": self._coins if self._has_coins else None,
                "entries": count,
                "nodes": self.shape.size,
                "height": self.shape.height,
            },
            "entries": entries_of(count, self.times(), self.entries() if count <= MOST_ENTRIES else ()),
        }

    def _picture(self, marked: list[int], unfolded: tuple[int, ...]) -> dict[str, Any]:
        return picture_of(self.shape, self._text, marked, unfolded)

    def _text(self, state: State) -> str:
        return written(result_of(self.monoid, state))

    # --- the history ----------------------------------------------------------------------------------

    def _started(self) -> Report:
        entries = len(self._window)
        with self.log.paused():
            state = self._window.query()
        return {
            **_NOTHING,
            "operation": None,
            "title": f"a window of {entries} entries" if entries else "an empty window",
            "said": [] if entries else ["The window is empty. Insert something."],
            "refused": None,
            "answer": self._shown(state),
            **self._state(),
            "picture": self._picture([], ()),
            **self._place(),
        }

    def _remember(self, operation: Operation, report: Report) -> None:
        del self._operations[self._at :], self._costs[self._at :], self._after[self._at + 1 :]
        self._after.append((self._coins, self._total))
        self._copies = {at: copy for at, copy in self._copies.items() if at <= self._at}
        self._operations.append(operation)
        self._costs.append(_cost(operation, report))
        self._passed(operation)
        self.report = {**report, **self._place()}
        self._kept = {at: kept for at, kept in self._kept.items() if at < self._at}
        if operation["op"] == "fill":  # which would take longest to repeat
            self._kept[self._at] = report

    def _passed(self, operation: Operation) -> None:
        self._at += 1
        self._inserted += inserts_of(operation)
        self._weight += max(1, inserts_of(operation))
        if self._weight >= _BETWEEN_COPIES and self._at not in self._copies:
            self._weight = 0
            self._copies[self._at] = self._copied()
            if len(self._copies) > _MOST_COPIES:
                del self._copies[sorted(self._copies)[1]]

    def _place(self) -> Report:
        costs = self._costs[max(0, self._at - _SHOWN_COSTS) : self._at]
        return {"step": self._at, "steps": len(self._operations), "costs": costs}

    def _go_to(self, place: int) -> Report:
        """Return to an earlier or later place, and report the operation that leads to it."""
        is_kept = place in self._copies and place in self._kept
        last = place if is_kept else max(0, place - 1)
        self._rebuild(last)
        self.shape = self._seen(self._around({"op": "query"}, ()))
        if is_kept or place == 0:
            report = self._kept[place] if is_kept else self._started()
        else:
            operation = self._operations[last]
            report = self._run(operation)
            self._passed(operation)
        self.report = {**report, **self._place()}
        return self.report

    def _rebuild(self, place: int) -> None:
        """Make the window what it is after the first `place` operations."""
        self._at = max(at for at in self._copies if at <= place)
        window, self._inserted, times = self._copies[self._at]
        self._window, self._times, self._weight = window.copy(), times[:], 0
        for operation in self._operations[self._at : place]:
            self._repeat(operation)
        self._coins, self._total = self._after[place]

    def _copied(self) -> tuple[Window, int, list[Number]]:
        return self._window.copy(), self._inserted, self._times[:]

    def _repeat(self, operation: Operation) -> None:
        with self.log.paused():
            perform(self._window, operation, self.log, self._inserted, self.monoid_name)
            if not operation.get("lazy"):
                self._ask(operation)
        self._follow(operation)
        self._passed(operation)


def _own_times(operation: Operation) -> set[Number]:
    return {operation[name] for name in ("time", "evict", "start", "stop") if operation.get(name) is not None}


def _cost(operation: Operation, report: Report) -> dict[str, Any]:
    query = report["query"]
    return {
        "op": operation["op"],
        "title": report["title"],
        "distance": report["distance"],
        "update": report["update"]["combines"],
        "query": query["combines"] if query else 0,
        "touched": report["update"]["touched"],
        "query_touched": query["touched"] if query else 0,
    }
