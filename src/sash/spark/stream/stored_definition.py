"""Whose state a checkpoint holds, compared with a definition on the driver before its query starts.

A head has only a hash of the definition. What differs is found by trying: definitions with one argument changed, until
one has the hash that is stored.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sash.errors import CorruptStateError, SashError, shown
from sash.keyed.spec import CHOICES, Spec
from sash.spark.stream.inspect import fingerprints
from sash.spark.stream.query import plan_of

_MOST_BUCKETS = 256  # that are tried
_OPTIONAL = ("offset", "resolution", "retract", "id", "carry")


def require_same_definition(
    spark: SparkSession, checkpoint: str, columns: StructType, spec: Spec, buckets: int | None
) -> None:
    """Raise CorruptStateError if a checkpoint was written with another definition, and name the difference if found."""
    wanted = plan_of(columns, spec, buckets)
    others = fingerprints(spark, checkpoint) - {wanted.fingerprint}
    for stored in others:
        found = difference(columns, spec, wanted.buckets, stored)
        what = "keys, windows, aggregates, columns or buckets differ" if found is None else f"it has {found}"
        raise CorruptStateError(
            f"The checkpoint was written with another definition: {what}; use the definition it was written with, or "
            "start from a new checkpoint and a new target.",
            argument="checkpoint",
        )


def difference(columns: StructType, spec: Spec, buckets: int, stored: str) -> str | None:
    """Return what a definition would have to have for a fingerprint, or None if no single change leads there."""
    plan = plan_of(columns, spec, buckets)
    for count in range(1, _MOST_BUCKETS + 1):
        if replace(plan, buckets=count).fingerprint == stored:
            return f"buckets = {count}"
    for name, other in _alternatives(spec):
        try:
            if plan_of(columns, other, buckets).fingerprint == stored:
                return name
        except SashError:
            continue
    return None


def _alternatives(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield specs that differ in one argument, each with what it has instead."""

    def changed(field: str, value: Any) -> Spec:
        return replace(spec, **{field: value})

    for name in ("emit", "late", "closed"):
        for value in CHOICES[name]:
            yield f'{name} = "{value}"', changed(name, value)
    for name in _OPTIONAL:
        yield f"no {name}", changed(name, () if name == "carry" else None)
    for name in spec.aggs:
        yield f"no aggregate {name}", changed("aggs", {agg: spec.aggs[agg] for agg in spec.aggs if agg != name})
    for name in ("windows", "keys"):
        for value in getattr(spec, name):
            fewer = tuple(other for other in getattr(spec, name) if other != value)
            yield f"no {shown(value)} among its {name}", changed(name, fewer)
