"""How a push talks to the core: few calls, and nothing that depends on an earlier call except through values."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash import ArgumentError, KeyedWindows, Monoid, monoids
from sash.inputs import arrow
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream

ROWS = pa.table({"k": ["a", "b", "a", "b"], "t": [1, 2, 12, 14], "i": [0, 1, 2, 3], "x": [1] * 4, "d": [False] * 4})
MORE = pa.table({"k": ["a", "b", "a"], "t": [3, 2, 17], "i": [4, 1, 5], "x": [5, 2, 6], "d": [False, True, False]})
LONGEST = Monoid(identity=0, combine=max, column="x", name="longest", returns="int64")
MODES: dict[str, dict[str, Any]] = {
    "arrival": {"emit": "arrival"},
    "final": {"emit": "final"},
    "update": {"emit": "update", "id": "i", "retract": "d"},
    "final boundaries": {"every": 5, "emit": "final"},
    "updated boundaries": {"every": 5, "emit": "update", "id": "i", "retract": "d"},
}


class Counting:
    """An engine that counts the calls of its methods."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.calls = engine, Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.engine, name)
        if not callable(found):
            return found

        def called(*arguments: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments)

        return called


def stream_of(aggs: dict[str, Any], **words: Any) -> tuple[Stream, Counting]:
    spec = Spec.of(keys=["k"], time="t", windows=[10, 5], aggs=aggs, lateness=5, **words)
    stream = Stream.of(spec, ROWS)
    engine = Counting(stream.engine)
    stream.engine = stream.intake.engine = stream.emitter.context.engine = engine
    return stream, engine


@pytest.mark.parametrize("mode", MODES)
def test_a_push_makes_at_most_eight_calls(mode: str) -> None:
    """Whatever is emitted, and also if Python computes an aggregate."""
    native = {"n": monoids.count(), "total": monoids.sum("x")}
    for aggs in (native, native | {"longest": LONGEST}):
        stream, engine = stream_of(aggs, **MODES[mode])
        emitted = 0
        for batch, watermark in ((ROWS, 14), (MORE, 20), (MORE.slice(0, 0), 60)):
            engine.calls.clear()
            emitted += stream.step(batch, watermark).results.num_rows
            assert sum(engine.calls.values()) <= 8, engine.calls
        assert emitted


def test_anchors_and_batches_of_keys_that_have_gone_are_refused() -> None:
    """Keys are numbered, and a number is used again: what was found before a key went must not be used after."""
    spec = Spec.of(keys=["k"], time="t", windows=[10], aggs={"n": monoids.count()}, emit="final", lateness=0)
    stream = Stream.of(spec, ROWS)
    engine = stream.engine
    stream.step(ROWS, 14)
    keys = arrow.key_batch(engine, ROWS, spec.keys, 4)
    anchors = engine.between(0, 100)
    assert len(keys) == 4 and len(anchors)
    engine.expire(1_000, 1_000)
    assert engine.live_keys == 0
    status = np.empty(4, dtype=np.uint8)
    with pytest.raises(ArgumentError, match="keys have expired since"):
        engine.arrived(keys, np.zeros(4, dtype=np.int64), status)
    with pytest.raises(ArgumentError, match="keys have expired since"):
        engine.answer(anchors, [], False)
    with pytest.raises(ArgumentError, match="keys have expired since"):
        engine.keys(anchors, [0])


@pytest.mark.parametrize("words", [{}, {"every": 5}], ids=["events", "boundaries"])
def test_a_result_that_only_changes_the_sign_of_zero_is_not_revised(words: dict[str, Any]) -> None:
    """-0.0 and 0.0 are equal, and which of the two a sum is may depend on how it was grouped."""
    kw = KeyedWindows(
        keys=[], time="t", windows=[10], aggs={"s": monoids.sum("x")}, emit="update", lateness=100, **words
    )
    kw.push({"t": [8], "x": [-0.0]}, watermark=8)
    first = kw.push({"t": pa.array([], pa.int64()), "x": pa.array([], pa.float64())}, watermark=10)
    again = kw.push({"t": [7], "x": [0.0]}, watermark=10)
    assert kw.metrics["revised"] == 0
    assert again.num_rows == (0 if words else 1) and first.num_rows == (1 if words else 0)
    assert kw.push({"t": [6], "x": [1.0]}, watermark=10).num_rows == (1 if words else 3)
