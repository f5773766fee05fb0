"""What `KeyedWindows` must return for each batch, by brute force, from docs/rolling.md alone."""

import math
from dataclasses import dataclass, field

from campaigns.fuzz.aggregates import AGGREGATES
from campaigns.fuzz.oracle import boundaries, results, same

NOWHERE = -(10**12)


@dataclass
class Batch:
    """What a push must return: rows that must come, and rows that may come, because the documentation allows both."""

    must: list[dict] = field(default_factory=list)
    may: list[dict] = field(default_factory=list)


class StreamOracle:
    """The rows of a stream as plain lists, and what was emitted for them.

    A row is a dict with its columns, and `#` for its number. A result is identified by its key and time or boundary,
    and by its id, or by its row where there are no ids.
    """

    def __init__(self, case: dict) -> None:
        self.case = case
        self.rows: list[dict] = []
        self.deleted: set = set()
        self.shown: dict[tuple, dict | None] = {}
        self.watermark = self.horizon = self.newest = NOWHERE
        self.number = self.arrivals = 0
        self.finished: set = set()
        self.maybe: set = set()  # keys and times whose rows were deleted by the batch that brought them
        self.metrics = dict.fromkeys(["rows_in", "bad_times", "bad_ids", "late", "repeated", "unmatched"], 0)

    def key(self, row: dict) -> tuple:
        """Return the key of a row."""
        return tuple(row[name] for name, _ in self.case["keys"])

    def ordered(self, key: tuple) -> list[dict]:
        """Return the rows of a key by time, then by id or arrival."""
        by_id = self.case["id"]
        rows = [row for row in self.rows if self.key(row) == key]
        return sorted(rows, key=lambda row: (row["t"], row["id"] if by_id else row["#"]))

    def forget(self) -> None:
        """Forget rows that no window can contain any more, to save time."""
        oldest = self.horizon - max(self.case["windows"]) - 2 * (self.case["every"] or 0) - 2
        self.rows = [row for row in self.rows if row["t"] >= oldest]

    def is_late(self, time: int) -> bool:
        """Return whether a row of this time is late."""
        if not self.case["every"]:
            return time < self.horizon
        pane = self.case["resolution"] or math.gcd(self.case["every"], *self.case["windows"])
        offset = self.case["offset"] or 0
        return (time - offset) // pane * pane + pane + offset <= self.horizon

    def push(self, rows: list[dict], watermark: int | None) -> Batch:
        """Apply a batch and return what is due."""
        self.number += 1
        self.maybe = set()
        self.forget()
        self.watermark = max(self.watermark, self.newest if watermark is None else watermark)
        if self.watermark > NOWHERE:
            self.horizon = max(self.horizon, self.watermark - self.case["lateness"])
        before = self.values() if self.case["emit"] == "update" else {}
        arrived, late, touched = self.accept(rows)
        if self.case["emit"] == "arrival":
            return Batch(self.arrived(rows))
        batch = self.final() if self.case["emit"] == "final" else self.update(before, arrived, touched)
        batch.must += late
        return batch

    def accept(self, rows: list[dict]) -> tuple[set, list[dict], set]:
        """Apply the rows; return the numbers of the new ones, the late ones, and the times of deletes."""
        kept, late, touched = [], [], set()
        for row in rows:
            self.metrics["rows_in"] += 1
            row["#"], self.arrivals = self.arrivals, self.arrivals + 1
            row["late"] = False
            if row["t"] is None:
                self.metrics["bad_times"] += 1
            elif self.case["id"] and row["id"] is None:
                self.metrics["bad_ids"] += 1
            elif self.is_late(row["t"]):
                self.metrics["late"] += 1
                row["late"] = True
                late.append(self.late_row(row))
            else:
                kept.append(row)
        self.newest = max([self.newest, *(row["t"] for row in kept)])
        deletes = [row for row in kept if self.case["retract"] and row["d"]]
        inserts = [row for row in kept if not (self.case["retract"] and row["d"])]
        if self.case["id"]:
            self.apply_ids(inserts, deletes)
        else:
            self.rows += inserts
            fresh = {row["#"] for row in inserts}
            for row in deletes:
                removed = self.remove_equal(row)
                if removed is not None:
                    (self.maybe if removed["#"] in fresh else touched).add((self.key(row), row["t"]))
        return {row["#"] for row in inserts}, late if self.case["late"] == "emit" else [], touched

    def apply_ids(self, inserts: list[dict], deletes: list[dict]) -> None:
        """Apply rows with ids: a delete wins over its insert, and a repeated insert counts once."""
        self.deleted |= {self.identity(row) for row in deletes}
        present = {self.identity(row) for row in self.rows}
        for row in inserts:
            if self.identity(row) in present:
                self.metrics["repeated"] += 1
            elif self.identity(row) not in self.deleted:
                self.rows.append(row)
                present.add(self.identity(row))
        self.rows = [row for row in self.rows if self.identity(row) not in self.deleted]

    def remove_equal(self, row: dict) -> dict | None:
        """Remove and return the oldest row that is equal in key, time and all aggregated columns, if there is one."""
        columns = sorted({c for _, (_, used) in self.case["aggs"] for c in used})
        for other in self.rows:
            equal = self.key(other) == self.key(row) and other["t"] == row["t"]
            if equal and all(same(other[c], row[c]) for c in columns):
                self.rows = [kept for kept in self.rows if kept is not other]
                return other
        self.metrics["unmatched"] += 1
        return None

    def identity(self, row: dict) -> tuple:
        """Return what identifies a row's result."""
        return (self.key(row), row["t"], row["id"] if self.case["id"] else row["#"])

    def late_row(self, row: dict) -> dict:
        """Return the result of a late row."""
        return {"key": self.key(row), "at": ("late", row["t"]), "row": row, "values": None}

    def arrived(self, rows: list[dict]) -> list[dict]:
        """Return the result of each row of the batch that remains, in its order."""
        present = {row["#"] for row in self.rows}
        found = []
        for row in rows:
            if row["#"] in present:
                found.append({"key": self.key(row), "at": row["t"], "row": row, "values": self.result(row["t"], row)})
            elif row["late"] and self.case["late"] == "emit":
                found.append(self.late_row(row))
        return found

    def result(self, end: int, row: dict) -> dict:
        """Return the results of a row."""
        closed = self.case["closed"] or "right"
        return results(self.ordered(self.key(row)), self.case["aggs"], self.case["windows"], end, closed)

    def grid(self) -> dict[tuple, dict]:
        """Return every boundary whose largest window is not empty, by key and boundary."""
        found = {}
        case = self.case
        for key in {self.key(row) for row in self.rows}:
            rows = self.ordered(key)
            pane, offset = case["resolution"], case["offset"] or 0
            if pane:
                rows = [{**row, "t": (row["t"] - offset) // pane * pane + offset} for row in rows]
                rows.sort(key=lambda row: (row["t"], row["#"]))
            for b in boundaries([row["t"] for row in rows], max(case["windows"]), case["every"], offset):
                if (key, b) not in self.finished:
                    values = results(rows, case["aggs"], case["windows"], b, "left")
                    found[key, b] = {"key": key, "at": b, "row": None, "values": values}
        return found

    def values(self) -> dict[tuple, dict]:
        """Return all results that are not final, by identity."""
        if self.case["every"]:
            return self.grid()
        found: dict[tuple, dict] = {}
        groups: dict[tuple, list[dict]] = {}
        answers: dict[tuple, dict] = {}
        closed = self.case["closed"] or "right"
        for row in self.rows:
            key, time = self.key(row), row["t"]
            if row["#"] in self.finished:
                continue
            if key not in groups:
                groups[key] = self.ordered(key)
            if (key, time) not in answers:
                answers[key, time] = results(groups[key], self.case["aggs"], self.case["windows"], time, closed)
            found[self.identity(row)] = {"key": key, "at": time, "row": row, "values": answers[key, time]}
        return found

    def final(self, everything: bool = False) -> Batch:
        """Return the results that have become final."""
        batch = Batch()
        for identity, result in self.values().items():
            at = result["at"]
            if everything or (self.horizon >= at if self.case["every"] else self.horizon > at):
                self.finished.add(identity if self.case["every"] else result["row"]["#"])
                batch.must.append(result)
        return batch

    def update(self, before: dict, arrived: set, touched: set, everything: bool = False) -> Batch:
        """Return new results, those that have changed, and those that have gone."""
        batch, now = Batch(), self.values()
        for identity, result in now.items():
            if self.case["every"] and not everything and self.watermark < result["at"]:
                continue
            old = self.shown.get(identity)
            share = not self.case["id"] and not self.case["every"] and (result["key"], result["at"]) in touched
            new = old is None or (result["row"] is not None and result["row"]["#"] in arrived)
            if new or share or self.has_changed(before.get(identity, old), old, result):
                batch.must.append(result)
                self.shown[identity] = result
            elif (result["key"], result["at"]) in self.maybe or not all(
                self.alike(r["values"], result["values"], True) for r in (old, before.get(identity, old))
            ):
                batch.may.append(result)
        self.gone(batch, now)
        self.close()
        return batch

    def has_changed(self, before: dict, old: dict, result: dict) -> bool:
        """Return whether a batch has changed a result, and from what was shown; drop_before may have come between."""
        return not any(self.alike(other["values"], result["values"], False) for other in (before, old))

    def alike(self, old: dict, new: dict, certain: bool) -> bool:
        """Return whether results are the same; if they round, they are surely so only if nothing was recombined."""
        exact = {name: AGGREGATES[agg].exact for name, (agg, _) in self.case["aggs"]}
        if certain and not all(exact.values()):
            return False
        return all(same(old[name], new[name], exact[name[0]]) for name in old)

    def gone(self, batch: Batch, now: dict) -> None:
        """Add a tombstone for each result that was shown and has gone; identities without ids share one."""
        left, marked = {identity[:2] for identity in now}, set()
        for identity in [i for i, result in self.shown.items() if result is not None and i not in now]:
            if self.is_finished(identity):
                continue
            result = self.shown[identity]
            self.shown[identity] = None
            tombstone = {**result, "values": None, "deleted": True}
            if self.case["id"] or self.case["every"]:
                batch.must.append(tombstone)
            elif identity[:2] not in left:
                (batch.may if identity[:2] in marked else batch.must).append(tombstone)
                marked.add(identity[:2])

    def is_finished(self, identity: tuple) -> bool:
        """Return whether a result is final."""
        at = identity[1]
        return self.horizon >= at if self.case["every"] else self.horizon > at

    def close(self) -> None:
        """Note which results are final, so that nothing is expected of them any more."""
        self.finished |= {identity for identity in self.shown if self.case["every"] and self.is_finished(identity)}
        if not self.case["every"]:
            self.finished |= {row["#"] for row in self.rows if row["t"] < self.horizon}

    def flush(self) -> Batch:
        """Return all pending results."""
        self.number += 1
        if self.case["emit"] == "arrival":
            return Batch()
        return self.final(True) if self.case["emit"] == "final" else self.update(self.values(), set(), set(), True)

    def drop_before(self, time: int) -> None:
        """Drop every row before a time, as if it had never arrived; what was shown for it stays as it is."""
        self.rows = [row for row in self.rows if row["t"] >= time]
        self.deleted = {identity for identity in self.deleted if identity[1] >= time}
        now = self.values()
        for identity in list(self.shown):
            if identity not in now:
                del self.shown[identity]
