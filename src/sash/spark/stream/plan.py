"""What every task of a streaming query must know: the question, the columns that travel, and whose state it is."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from sash import serialize
from sash.keyed.definition import Definition
from sash.keyed.panes import RECORD
from sash.keyed.spec import Asked
from sash.keyed.stream import Stream
from sash.spark.stream.cache import CACHE_BYTES

_CHANGEABLE = ("lateness", "on_error")  # without an effect on what is stored


def _nothing(point: str, key: Any, counts: dict[str, int]) -> None:
    pass


@dataclass(frozen=True)
class Plan:
    """A rolling aggregation of a stream with these columns."""

    asked: Asked
    schema: pa.Schema  # of the rows that are packed
    buckets: int
    operator: str  # tells two of them in one query apart
    checked: bool = True  # whether nonces are looked at; only a test that they are needed turns this off
    cache_bytes: int = CACHE_BYTES  # that a worker keeps of buckets
    protected: int = 8  # newest records that are never merged, so that a worker that is behind can catch up
    probe: Callable[[str, Any, dict[str, int]], None] = _nothing  # told where a bucket is; tests disturb it there
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", _fingerprint(self.asked, self.schema, self.buckets))

    @cached_property
    def definition(self) -> Definition:
        """What the engine is made of."""
        return Definition.of(self.asked, self.schema.empty_table())

    @cached_property
    def merges(self) -> bool:
        """Whether rows travel as panes."""
        return self.definition.merges(self.asked)

    @cached_property
    def packed(self) -> pa.Schema:
        """The columns that travel."""
        return self.stream().schema if self.merges else self.schema

    @cached_property
    def logged(self) -> list[str]:
        """The columns that are kept in the state."""
        if self.merges:
            return [*self.asked.keys, self.asked.time, RECORD]
        stream = self.stream()
        return [field.name for field in stream.schema]

    @cached_property
    def result(self) -> pa.Schema:
        """The columns of results."""
        stream = Stream.of(self.asked, self.schema.empty_table())
        schema: pa.Schema = stream.push(self.schema.empty_table(), None).results.schema
        return schema

    def stream(self) -> Stream:
        """Start a stream."""
        return Stream.of(self.asked, self.schema.empty_table(), panes=self.merges)


_KNOWN: dict[Any, Plan] = {}


def known(plan: Plan) -> Plan:
    """Give the plan that this process has worked with before, which has all that is worked out from it at hand."""
    if len(_KNOWN) > 64:
        _KNOWN.clear()
    facts = (plan.operator, plan.fingerprint, plan.asked.lateness, plan.asked.on_error, plan.checked, plan.protected)
    return plan if plan.probe is not _nothing else _KNOWN.setdefault((*facts, plan.cache_bytes), plan)


def _fingerprint(asked: Asked, schema: pa.Schema, buckets: int) -> str:
    """Give what must not change between two runs over one checkpoint."""
    words = {name: value for name, value in asked.words().items() if name not in _CHANGEABLE}
    words["aggs"] = {name: (serialize.monoid_to(monoid), monoid.columns) for name, monoid in asked.aggs.items()}
    words["columns"] = [(field.name, str(field.type)) for field in schema]
    words["buckets"] = buckets
    return hashlib.sha256(json.dumps(words, default=str).encode()).hexdigest()[:16]
