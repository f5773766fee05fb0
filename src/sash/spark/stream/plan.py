"""What every task of a streaming query needs: the spec, the columns that travel, and whose state it is."""

import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from sash.keyed.definition import Definition
from sash.keyed.panes import RECORD
from sash.keyed.question_columns import QuestionColumns
from sash.keyed.result_schema import answer_schema, result_schema
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream
from sash.spark.stream.cache import DEFAULT, Limit
from sash.spark.stream.stored_definition import CHANGEABLE, StoredDefinition, fingerprint_of

Probe = Callable[[str, Hashable, dict[str, int]], None]


def _no_probe(point: str, key: Hashable, counts: dict[str, int]) -> None:
    pass


@dataclass(frozen=True)
class Plan:
    """A rolling aggregation of a stream with these columns."""

    spec: Spec
    schema: pa.Schema  # of the rows that are packed
    buckets: int
    condition: str | None = None  # for deletes, as text; the rows have a column in its place
    operator: str = ""  # distinguishes two of them in one query, the same whenever it starts
    start: str = field(default_factory=lambda: uuid.uuid4().hex)  # of the query: custom monoids may differ in the next
    checked: bool = True  # whether nonces are compared; only a test that they are needed turns this off
    cache_limit: Limit = DEFAULT  # of buckets in memory
    chained: bool = False  # the rows come from another stateful operator
    asking: QuestionColumns | None = None  # of questions that come beside the events
    protected: int = 8  # newest records that are never merged, so that a worker that is behind can catch up
    probe: Probe = _no_probe  # called at each step of a bucket; tests inject failures there
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", fingerprint_of(self.spec, self.schema, self.buckets, self.asking))

    @cached_property
    def definition(self) -> Definition:
        """The definition of the engine."""
        return Definition.of(self.spec, self.schema.empty_table())

    @cached_property
    def merges(self) -> bool:
        """Whether rows travel as panes."""
        return self.definition.merges(self.spec)

    @cached_property
    def packed(self) -> pa.Schema:
        """The schema of the rows or panes that travel."""
        return self.stream().schema if self.merges else self.schema

    @cached_property
    def logged(self) -> list[str]:
        """The columns of rows that are stored in the state; questions that are have some more."""
        if self.merges:
            return [*self.spec.keys, self.spec.time, RECORD]
        return list(self.stream().schema.names)

    @cached_property
    def stored(self) -> StoredDefinition:
        """The definition as it is stored with the state."""
        return StoredDefinition.of(
            self.spec, self.definition, self.schema, self.logged, self.buckets, self.condition, self.asking
        )

    def wrote(self, definition: dict[str, Any]) -> bool:
        """Return whether a stored definition is that of the plan; earlier versions did not store conditions."""
        if definition["fingerprint"] != self.fingerprint:
            return False
        retract = definition.get("words", {}).get("retract")
        return not isinstance(retract, dict) or retract == self.stored.words["retract"]

    @cached_property
    def stored_plain(self) -> dict[str, Any]:
        """The same as plain data, for the heads; every micro-batch of a bucket writes it."""
        return self.stored.to_plain()

    @cached_property
    def result(self) -> pa.Schema:
        """The schema of results."""
        if self.asking is not None:
            return answer_schema(self.spec, self.definition, self.asking.schema)
        return result_schema(self.spec, self.definition, self.schema)

    def stream(self) -> Stream:
        """Start a stream."""
        rows = self.schema.empty_table()
        return Stream.of(self.spec, rows, panes=self.merges, asking=self.asking, chained=self.chained)


_PLANS: dict[tuple[Any, ...], Plan] = {}


def process_plan(plan: Plan) -> Plan:
    """Return the equal plan that this process has used before, with its cached properties, or this one."""
    if len(_PLANS) > 64:
        _PLANS.clear()
    changeable = [getattr(plan.spec, name) for name in CHANGEABLE]
    facts = (plan.start, plan.fingerprint, plan.checked, plan.protected, plan.chained, plan.cache_limit)
    return plan if plan.probe is not _no_probe else _PLANS.setdefault((*facts, *changeable), plan)
