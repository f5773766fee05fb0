"""How a definition differs from the one that a bucket's state was written by, and what that asks of the bucket.

The state is a log of accepted rows, so another definition can be answered from them wherever they have what it needs.
What cannot be answered is refused with a sentence for each difference that stands in the way.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from sash import durations
from sash.errors import CorruptStateError, shown
from sash.keyed.emit import LOWEST
from sash.keyed.emit_boundaries import BoundaryUpdate
from sash.keyed.kinds import calendar_step, counts
from sash.keyed.spec import named_windows
from sash.keyed.stream import Stream
from sash.spark.retractions import MARK
from sash.spark.stream.conversion import Conversion
from sash.spark.stream.log import Head
from sash.spark.stream.plan import Plan
from sash.spark.stream.reaches import uncovered
from sash.spark.stream.stored_definition import StoredDefinition, call_of

# What says which events are the same, which results there are and where they are stored.
FIXED = ("keys", "time", "id", "retract", "per", "gap", "every", "offset", "resolution", "closed", "zone", "idle")
_DURATIONS = ("gap", "every", "offset", "resolution", "lateness", "idle")
FREE = ("windows", "min_rows", "emit", "lateness", "late", "carry", "on_error")
_NEW = "Start from a new checkpoint, with history= for the rows so far, or use the definition it was written with."


@dataclass(frozen=True)
class Change:
    """The way from an earlier definition to a plan."""

    old: StoredDefinition
    plan: Plan

    @cached_property
    def conversion(self) -> Conversion:
        """The records of the earlier definition in the form of the plan."""
        return Conversion(self.old, self.plan)

    # --- what differs -----------------------------------------------------------------------------

    def differences(self) -> list[str]:
        """Return what the plan has instead, each as a clause such as `emit is "final", was "update"`."""
        new = self.plan.stored
        found = [text for _, text in self._words((*FIXED, *FREE))]
        if new.buckets != self.old.buckets:
            found.append(f"buckets is {new.buckets}, was {self.old.buckets}")
        return [*found, *self._questions(), *self._aggregates(), *self._types()]

    def _words(self, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the arguments that differ, each with a clause; durations differ by their length."""
        new, old = self.plan.stored.words, self.old.words
        for name in names:
            one, other = _plain(new.get(name)), _plain(old.get(name))
            if name in _DURATIONS and _length(one) == _length(other):
                continue
            unknown = other == MARK and isinstance(one, dict)  # of a version that did not store the condition
            if one != other and not unknown:
                yield name, f"{name} is {_text(one)}, was {_text(other)}"

    def _aggregates(self) -> Iterator[str]:
        new, old = self.plan.stored.aggs, self.old.aggs
        for name in [*new, *(name for name in old if name not in new)]:
            if name not in old:
                yield f"aggregate {name} is new"
            elif name not in new:
                yield f"aggregate {name} is gone"
            elif _plain(new[name]) != old[name]:
                yield f"aggregate {name} is {call_of(new[name])}, was {call_of(old[name])}"

    def _types(self) -> Iterator[str]:
        for field in self.plan.schema:
            before = self.old.kind_of(field.name)
            if before is not None and before != field.type:
                yield f"column {shown(field.name)} is {field.type}, was {before}"

    # --- what stands in the way -------------------------------------------------------------------

    def obstacles(self, head: Head) -> list[str]:
        """Return why the state of a bucket cannot follow, each as a clause; what its records lack is not among them."""
        new = self.plan.stored
        found = [f"{text}, and cannot change" for name, text in self._words(FIXED) if self._matters(name)]
        if new.buckets != self.old.buckets:
            found.append(
                f"buckets is {new.buckets}, was {self.old.buckets}, and cannot change in place; "
                "export the rows and start again with history="
            )
        found += [*self._fixed_types(), *self._questions()]
        if found:
            return found
        if self.plan.spec.gap is not None:
            return [f"{text}, and sessions cannot change: their rows are folded" for text in self.differences()]
        lost = [*self._lost_rows(head), *self._lost_deletes(), *self._blind_deletes()]
        return lost + list(self._too_wide(head.position.get("horizon")))

    def _matters(self, name: str) -> bool:
        """Return whether both definitions have windows, or boundaries, that an argument is about."""
        both = (self.old, self.plan.stored)
        if name == "idle":
            return all(one.counts for one in both)
        return name != "zone" or all(one.on_calendar for one in both)

    def _fixed_types(self) -> Iterator[str]:
        spec = self.plan.spec
        for name in dict.fromkeys([*spec.keys, spec.time, *([spec.id] if spec.id else [])]):
            before, after = self.old.kind_of(name), self.plan.schema.field(name).type
            if before != after:
                yield f"column {shown(name)} is {after}, was {before}, and cannot change"

    def _questions(self) -> Iterator[str]:
        """Results are for questions, or for rows; those that wait have the columns that they came with."""
        new, old = self.plan.stored.asking, self.old.asking
        if (new is None) != (old is None):
            yield f"at is {'passed' if new else 'left out'}, was {'passed' if old else 'left out'}, and cannot change"
        elif new is not None and old is not None:
            columns = [[(field.name, str(field.type)) for field in one.columns] for one in (new, old)]
            if new[1:] != old[1:] or columns[0] != columns[1]:
                yield "at has other columns, and cannot change"

    def _lost_rows(self, head: Head) -> Iterator[str]:
        """Rows that are not final have not been emitted, and lack columns that "arrival" passes through.

        The query may have had other definitions since: a bucket that was not touched knows nothing of them.
        """
        if self.plan.spec.emit != "arrival" or self.old.words["emit"] != "final":
            return
        if any(entry.rows and entry.newest >= head.position["finished"] for entry in head.entries):
            yield (
                'emit is "arrival", and rows that came while it was "final" are not final yet: they would never be '
                'emitted; use emit="update" until they are'
            )

    def _lost_deletes(self) -> Iterator[str]:
        """Results of "update" may have to be withdrawn, which only "update" can say."""
        emit, spec = self.plan.spec.emit, self.plan.spec
        if self.old.words["emit"] != "update" or emit == "update":
            return
        if spec.retract is not None:
            yield f'emit is "{emit}", was "update": deletes of rows whose results are out could not be reported'
        elif spec.every is not None and self._shrinks:
            yield f'emit is "{emit}", was "update": boundaries that only the largest window reached would stay'

    def _blind_deletes(self) -> Iterator[str]:
        """Deletes without ids compare what the aggregates read: otherwise they would have removed other rows."""
        spec = self.plan.spec
        if spec.retract is None or spec.id is not None or self.old.compared == self.plan.stored.compared:
            return
        before = {name for agg in self.old.aggs.values() for name in agg["columns"]}
        after = {name for agg in spec.aggs.values() for name in agg.columns}
        names = ", ".join(sorted(before ^ after)) or "another way to read them"
        yield f"deletes without id compare the aggregated columns, and {names} would change which rows they remove"

    def _too_wide(self, horizon: int | None) -> Iterator[str]:
        """Yield a window whose rows have expired; before the bucket has a horizon, none has."""
        if horizon is None:
            return
        definition, before = self.plan.definition, ", ".join(self.old.longest)
        for name in uncovered(definition.windows, self.old.kinds, definition.unit):
            yield f"window {name} needs rows that have expired: they are stored for {before}"
        if definition.unbounded and self._differs():
            yield "what has expired for an unbounded window is one result of the aggregates before"

    def _differs(self) -> bool:
        """Return whether other aggregates are computed."""
        new, old = self.plan.stored.aggs, self.old.aggs
        return list(new) != list(old) or any(_plain(new[name]) != old[name] for name in new)

    @property
    def _shrinks(self) -> bool:
        """Whether a boundary may have had a row in a window before, and have none now."""
        timed = [kind for kind in self.old.kinds if not kind.counts]
        kept = [kind for _, kind in self.plan.definition.windows]
        return bool(uncovered([("", kind) for kind in timed], kept, self.plan.definition.unit))

    # --- what the bucket does ---------------------------------------------------------------------

    @property
    def repeats(self) -> bool:
        """Whether results that were emitted and are not final are to be emitted again."""
        if self.plan.spec.emit != "update":
            return False
        new, old = self.plan.stored, self.old
        windows, before = ([*named_windows(one.words["windows"]).items()] for one in (new, old))
        first = self.plan.spec.every is not None and windows[0][1] != before[0][1]
        added = [window for window in windows if window not in before]
        others = any(name not in old.aggs or _plain(agg) != old.aggs[name] for name, agg in new.aggs.items())
        carried = set(new.words["carry"]) - set(old.words["carry"])
        fewer = new.words.get("min_rows") != old.words.get("min_rows")
        return old.words["emit"] != "update" or bool(first or added or others or carried or fewer)

    @cached_property
    def empties(self) -> bool:
        """Whether boundaries that were emitted may have no result any more.

        A boundary has a result while its largest window has a row; that window may be gone.
        """
        spec = self.plan.spec
        return spec.every is not None and spec.emit == self.old.words["emit"] == "update" and self._shrinks

    @cached_property
    def with_old_windows(self) -> Plan:
        """The plan with the windows of before that bring boundaries, which those that count do not."""
        windows = {name: one for name, one in named_windows(self.old.words["windows"]).items() if not counts(one)}
        return replace(self.plan, spec=replace(self.plan.spec, windows=windows, idle=None))

    def emptied(self, position: dict[str, Any], before: Stream, has: pa.Table) -> pa.Table:
        """Return the keys and times of boundaries that were emitted, are not final, and have no result any more.

        `before` has the rows of the bucket and the windows of before, `has` the boundaries that have results.
        """
        names = [*self.plan.spec.keys, "window_end"]
        had = self.bounds(before, position)
        left = set(map(_place, has.select(names).to_pylist()))
        gone = [_place(row) not in left for row in had.select(names).to_pylist()]
        return had.filter(pa.array(gone, pa.bool_()))

    @staticmethod
    def bounds(stream: Stream, position: dict[str, Any]) -> pa.Table:
        """Return the keys and times of a stream's boundaries that were emitted and are not final."""
        assert isinstance(stream.emitter, BoundaryUpdate)
        until = position["shown"]
        start = LOWEST if position["horizon"] is None else min(position["horizon"], until)
        return stream.emitter.bounds(stream.engine.boundaries(start, until, None))

    def position(self, position: dict[str, Any]) -> dict[str, Any]:
        """Return the position from which a stream of the plan resumes."""
        before, after = self.old.words["emit"], self.plan.spec.emit
        if before == after or not position:
            return position
        horizon = LOWEST if position["horizon"] is None else position["horizon"]
        if after == "final":
            return position | {"finished": max(position["finished"], horizon)}
        return position | {"shown": max(position["shown"], position["finished"])}


_CHANGES: dict[tuple[str, ...], Change] = {}


def change_from(plan: Plan, definition: dict[str, Any]) -> Change:
    """Return the way from an earlier definition, which is plain data, to a plan; a process makes it once."""
    if len(_CHANGES) > 64:
        _CHANGES.clear()
    # A fingerprint leaves out what may change without an effect on what is stored.
    place = (plan.start, plan.fingerprint, definition["fingerprint"], json.dumps(definition["words"], sort_keys=True))
    if place not in _CHANGES:
        _CHANGES[place] = Change(StoredDefinition.from_plain(definition), plan)
    return _CHANGES[place]


def obstacles_of(plan: Plan, head: Head) -> list[str]:
    """Return all that stands in the way of a change of a bucket, each as a clause."""
    obstacles = change_from(plan, head.definition).obstacles(head)
    if obstacles:
        return obstacles
    forms = sorted({entry.form for entry in head.entries if entry.rows})
    clauses = [change_from(plan, head.definitions[form]).conversion.obstacles() for form in forms]
    return list(dict.fromkeys(clause for some in clauses for clause in some))


def require_answerable(plan: Plan, head: Head) -> Change:
    """Return the change from the definition of a bucket, or raise CorruptStateError with all that stands in its way."""
    if "words" not in head.definition:
        raise CorruptStateError(
            "The checkpoint was written with another definition, by an earlier version of sash that did not store "
            "which; run the definition it was written with once, and then change it, or start from a new checkpoint.",
            argument="checkpoint",
        )
    obstacles = obstacles_of(plan, head)
    if obstacles:
        raise CorruptStateError(
            "The checkpoint was written with another definition, and cannot be changed to this one: "
            f"{'; '.join(obstacles)}. {_NEW}",
            argument="checkpoint",
        )
    return change_from(plan, head.definition)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without the difference of tuples and lists."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _length(value: Any) -> Any:
    calendar = isinstance(value, str) and calendar_step(value, None) is not None  # of no fixed length
    return durations.nanoseconds(value, "every") if isinstance(value, str) and not calendar else value or 0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value.get("condition", value), ensure_ascii=False)
    if value == MARK:
        return "a condition"
    return shown(list(value) if isinstance(value, tuple) else value).replace("'", '"')


def _place(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(repr, row.values()))
