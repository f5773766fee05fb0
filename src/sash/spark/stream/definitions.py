"""The definitions that the buckets of a checkpoint were written by, and which of them is the current one.

A bucket has the current definition once it has been touched since the query started with it.
"""

from collections.abc import Iterable

from sash.spark.stream.findings import definition_of
from sash.spark.stream.log import Head
from sash.spark.stream.stored_definition import StoredDefinition


def current_of(heads: Iterable[Head]) -> StoredDefinition | None:
    """Return the newest definition of some buckets, or None where no definition is stored.

    A definition that a bucket had before another is older than it. Where that does not decide, the bucket counts that
    was touched at the latest watermark, and then the one with the newest row.
    """
    known = [head for head in heads if definition_of(head.definition) is not None]
    earlier = {plain["fingerprint"] for head in known for plain in head.definitions[:-1]}
    latest = [head for head in known if head.fingerprint not in earlier] or known
    return definition_of(max(latest, key=_touched).definition) if latest else None


def watermark_of(head: Head, definition: StoredDefinition) -> int | None:
    """Return the watermark in ticks at which a bucket was last touched, or None if there was none."""
    horizon = head.position.get("horizon")
    return None if horizon is None else int(horizon) + definition.lateness


def _touched(head: Head) -> tuple[int, int]:
    definition = definition_of(head.definition)
    watermark = None if definition is None else watermark_of(head, definition)
    newest = head.position.get("newest")
    lowest = -(2**63)
    return (lowest if watermark is None else watermark, lowest if newest is None else int(newest))
