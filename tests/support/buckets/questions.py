"""Questions beside the events of a stream: a play of Spark with both, and what the answers must be, by brute force."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from oracles.keyed import Row
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.spec import Spec
from sash.spark.stream.packing import END, pack
from sash.spark.stream.plan import Plan
from sash.spark.stream.query import plan_of
from support.buckets.cluster import Play
from support.buckets.trial import TICK_US, concat, duration, letters

EVENTS = {"k": spark.StringType(), "t": spark.TimestampType(), "i": spark.LongType(), "x": spark.LongType()}
ASKED = {"q": pa.timestamp("us", "UTC"), "k": pa.string(), "name": pa.int64(), "note": pa.list_(pa.string())}


@dataclass(frozen=True, kw_only=True)
class Questioned:
    """The arguments of a stream with questions, in ticks."""

    sizes: tuple[int, ...] = (3, 8)
    emit: str = "final"
    lateness: int = 0
    late: str = "drop"
    closed: str = "right"
    retract: bool = False
    python: bool = False
    more: bool = False  # another aggregate
    counted: tuple[str, ...] = ()  # windows of rows, or "unbounded"
    idle: int = 10

    def plan(self, buckets: int = 3, **more: Any) -> Plan:
        """The plan of its stream."""
        from sash import monoids

        aggs: dict[str, Any] = {"n": monoids.count(), "s": monoids.sum("x"), "new": monoids.last("x")}
        aggs |= {"top": monoids.max("x")} if self.more else {}
        words: dict[str, Any] = {"aggs": aggs | ({"text": letters("x")} if self.python else {})}
        words |= {"id": "i", "retract": "gone"} if self.retract else {"id": "i"}
        words |= {"idle": duration(self.idle)} if self.counted else {}
        spec = Spec.of(
            keys=["k"], time="t", windows=[*map(duration, self.sizes), *self.counted], emit=self.emit, late=self.late,
            lateness=duration(self.lateness), closed=self.closed, **words,
        )  # fmt: skip
        kinds = EVENTS | ({"gone": spark.BooleanType()} if self.retract else {})
        schema = spark.StructType([spark.StructField(name, kind) for name, kind in kinds.items()])
        asked = self._asked
        return plan_of(schema, spec, buckets, asked, **{"protected": 2, **more})

    @property
    def _asked(self) -> Any:
        class Asked:
            def columns(self, spec: Spec, events: pa.Schema) -> QuestionColumns:
                return QuestionColumns.of(spec, events, pa.schema(list(ASKED.items())), "q", "name")

        return Asked()


class QuestionPlay(Play):
    """Micro-batches of events and questions."""

    questions: pa.Table

    def _maps(self) -> list[list[pa.RecordBatch]]:
        asked = [list(pack(self.plan, iter(part.to_batches()), asked=True)) for part in self._split(self.questions)]
        return [*super()._maps(), *asked]


@dataclass
class QuestionOracle:
    """The events that were accepted so far, and the answers that are due, by brute force."""

    asking: Questioned
    accepted: dict[int, Row] = field(default_factory=dict)  # by id
    gone: set[int] = field(default_factory=set)
    waiting: list[Row] = field(default_factory=list)  # questions that are not final
    shown: dict[int, Row] = field(default_factory=dict)  # what "update" has said last, by name

    def step(self, events: Sequence[Row], questions: Sequence[Row], horizon: int | None) -> list[Row]:
        """Take a micro-batch, and return its answers."""
        self._take(events, horizon)
        return self._answers(questions, horizon)

    def answer(self, question: Row) -> Row:
        """Return the answer to a question by what is known."""
        return self._marked(self._answer(question))

    def _take(self, events: Sequence[Row], horizon: int | None) -> None:
        for row in sorted(events, key=lambda row: (row["t"], bool(row.get("gone")))):
            if horizon is not None and row["t"] < horizon:
                continue
            if row.get("gone"):
                self.gone.add(row["i"])
            else:
                self.accepted.setdefault(row["i"], row)

    def _answers(self, questions: Sequence[Row], horizon: int | None) -> list[Row]:
        emit, found = self.asking.emit, []
        for row in questions:
            late = row["q"] is not None and horizon is not None and row["q"] < horizon
            if row["q"] is None or late:
                if not late or self.asking.late == "emit":
                    found.append(self._marked(row | dict.fromkeys(self._names()), late=late))
            elif emit == "arrival":
                found.append(self._marked(self._answer(row)))
            elif not any(row["name"] == other["name"] for other in self.waiting):
                self.waiting.append(row)
        if emit == "final":
            due = [row for row in self.waiting if horizon is not None and row["q"] < horizon]
            found += [self._marked(self._answer(row)) for row in due]
        if emit == "update":
            for row in self.waiting:
                answer = self._answer(row)
                if self.shown.get(row["name"]) != answer:
                    self.shown[row["name"]] = answer
                    found.append(self._marked(answer))
        if emit != "arrival":
            self.waiting = [row for row in self.waiting if horizon is None or row["q"] >= horizon]
        return found

    def _names(self) -> list[str]:
        aggs = ["n", "s", "new", *(["text"] if self.asking.python else []), *(["top"] if self.asking.more else [])]
        sizes = [*map(duration, self.asking.sizes), *(name.replace(" ", "") for name in self.asking.counted)]
        return [f"{agg}_{size}" for agg in aggs for size in sizes]

    def _marked(self, row: Row, late: bool = False) -> Row:
        row = row | ({"deleted": False} if self.asking.emit == "update" else {})
        return row | ({"late": late} if self.asking.late == "emit" else {})

    def _counted(self, rows: list[Row], window: str, at: int) -> list[Row]:
        """Return the last rows before a time, as many as a window counts, from the last gap on."""
        found: list[Row] = []
        most = len(rows) if window == "unbounded" else int(window.split()[0])
        for row in reversed(rows):
            if len(found) == most or at - row["t"] > self.asking.idle:
                break
            found.insert(0, row)
            at = row["t"]
        return found

    def _answer(self, question: Row) -> Row:
        answer = dict(question)
        high = question["q"] + (self.asking.closed == "right")
        rows = [row for i, row in self.accepted.items() if i not in self.gone]
        rows = [row for row in rows if row["k"] == question["k"] and row["t"] < high]
        rows.sort(key=lambda row: (row["t"], row["i"]))
        windows = {duration(size): [row for row in rows if row["t"] >= high - size] for size in self.asking.sizes}
        windows |= {name.replace(" ", ""): self._counted(rows, name, question["q"]) for name in self.asking.counted}
        for name, seen in windows.items():
            values = [row["x"] for row in seen]
            there = [value for value in values if value is not None]
            answer |= {f"n_{name}": len(seen), f"s_{name}": sum(there) if there else None}
            answer[f"new_{name}"] = there[-1] if there else None
            if self.asking.more:
                answer[f"top_{name}"] = max(there, default=None)
            if self.asking.python:
                text = ""
                for value in there:
                    text = concat(text, chr(ord("m") + value))
                answer[f"text_{name}"] = text if there else None
        return answer


@dataclass
class QuestionTrial:
    """A play beside the oracle."""

    asking: Questioned
    play: QuestionPlay
    oracle: QuestionOracle
    newest: list[int] = field(default_factory=lambda: [0, 0])
    answers: int = 0

    @classmethod
    def of(cls, asking: Questioned, seed: int, delay_ms: int) -> "QuestionTrial":
        """Start a play whose decisions one seed makes."""
        return cls(asking, QuestionPlay(asking.plan(), seed=seed, delay_ms=delay_ms), QuestionOracle(asking))

    def batch(self, events: Sequence[Row], questions: Sequence[Row], marker: bool = False) -> None:
        """Take a micro-batch, and compare its answers."""
        found, wanted = (sorted(map(plain, rows), key=repr) for rows in self.said(events, questions, marker))
        assert found == wanted
        self.answers += len(found)

    def said(
        self, events: Sequence[Row], questions: Sequence[Row], marker: bool = False
    ) -> tuple[list[Row], list[Row]]:
        """Take a micro-batch, and return the answers of the play and those of the oracle."""
        horizon = self._horizon()
        table, asked = self._tables(events, questions, marker)
        self.play.questions = asked
        for i, (column, rows) in enumerate((("t", table), ("q", asked))):
            times = [time for time in rows.column(column).cast(pa.int64()).to_pylist() if time is not None]
            self.newest[i] = max([self.newest[i], *times])
        said = self.play.batch(table, min(self.newest))
        return said.to_pylist(), self.oracle.step(events, questions, horizon)

    def change(self, asking: Questioned) -> None:
        """Continue with another definition over the same state, as after a restart."""
        before, self.asking, self.oracle.asking = self.play, asking, asking
        self.play = QuestionPlay(asking.plan(), seed=before.random.randrange(2**16), delay_ms=before.delay_ms)
        self.play.stores, self.play.watermark_ms = before.stores, before.watermark_ms

    def end(self) -> None:
        """Let both watermarks pass everything: all is answered, and nothing is left."""
        self.batch([], [], marker=True)
        self.batch([], [])
        assert self.play.empty()
        assert not self.oracle.waiting

    def _horizon(self) -> int | None:
        wm = self.play.watermark_ms
        return wm * 1000 // TICK_US - self.asking.lateness if wm > 0 else None

    def _tables(self, events: Sequence[Row], questions: Sequence[Row], marker: bool) -> tuple[pa.Table, pa.Table]:
        schema = self.play.plan.schema
        ready = [{**row, "t": row["t"] * TICK_US} for row in events]
        asked = [{**row, "q": None if row["q"] is None else row["q"] * TICK_US} for row in questions]
        if marker:
            ready.append({**dict.fromkeys(schema.names), "t": END})
            asked.append({**dict.fromkeys(ASKED), "q": END})
        return pa.Table.from_pylist(ready, schema=schema), pa.Table.from_pylist(asked, schema=pa.schema(ASKED))


def plain(row: Row) -> list[tuple[str, Any]]:
    """An answer without what only the engine knows; times are in ticks."""
    kept = {name: value for name, value in row.items() if name != "revision"}
    if kept["q"] is not None and not isinstance(kept["q"], int):
        kept["q"] = round(kept["q"].timestamp() * 1_000_000) // TICK_US
    return sorted(kept.items())
