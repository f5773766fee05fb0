"""Bytes from anyone: they give an engine that works, or a CorruptStateError, whatever is in them."""

import json
import struct
from typing import Any

import pytest

from sash import ArgumentError, CorruptStateError, KeyedWindows, KindError, Monoid, _core, monoids
from support import fuzz_bytes
from support.keyed_batches import batch, engine, marked, sliding


def resealed(kw: KeyedWindows, change: Any) -> bytes:
    """The bytes of an engine with a changed header, or changed rows, and a checksum that is right."""
    data = kw.to_bytes()[:-8]
    length = struct.unpack_from("<4sHI", data)[2]
    header, rest = json.loads(data[10 : 10 + length]), bytearray(data[10 + length :])
    change(header, rest)
    text = json.dumps(header).encode()
    return _core.sealed([struct.pack("<4sHI", b"SASH", 2, len(text)), text, bytes(rest)])


def refused(kw: KeyedWindows, change: Any) -> None:
    with pytest.raises(CorruptStateError):
        KeyedWindows.from_bytes(resealed(kw, change))


def replaced(old: bytes, new: bytes) -> Any:
    def change(_: Any, contents: bytearray) -> None:
        at = contents.index(old)
        contents[at : at + len(old)] = new

    return change


def test_changed_bytes_are_refused_or_sound() -> None:
    """Ten thousand of them; `make fuzz-bytes` tries more."""
    totals, wrong = fuzz_bytes.fuzz(0, 10_000)
    assert wrong == []
    assert min(totals["refused"], totals["accepted"]) > 1000


@pytest.mark.parametrize("seed", [105169, 125200, 595741, 734120])
def test_what_a_million_changes_found(seed: int) -> None:
    """Windows of a billion boundaries, a mark for deletes that is not a column, a delete of the last instant."""
    assert fuzz_bytes.outcome(seed) in ("refused", "accepted")


@pytest.mark.parametrize("retract", [0, True, -1, 1.5, ["k"]])
def test_what_marks_deletes_is_a_column_or_a_condition(retract: Any) -> None:
    """Anything else would be taken for a condition, and the engine saved again for bytes that nobody can load."""

    def change(header: Any, _: bytearray) -> None:
        header["asked"]["retract"] = retract

    refused(pushed(), change)


def pushed(**options: Any) -> KeyedWindows:
    kw = engine(retract="gone", **options)
    kw.push(batch([5], [7], ["abcd"], gone=[False]))
    return kw


@pytest.mark.parametrize("size", [0, 1, 3, 5, 2**16, 2**32 - 1])
def test_a_key_is_as_long_as_it_says(size: int) -> None:
    """The text inside a key has its own length, which is not believed."""
    refused(pushed(), replaced(struct.pack("<BI", 1, 4) + b"abcd", struct.pack("<BI", 1, size) + b"abcd"))


@pytest.mark.parametrize("key", [b"\2\4\0\0\0abcd", b"\0\4\0\0\0abcd", b"\1\4\0\0\0ab\xff\xfe"])
def test_a_key_is_a_value_of_its_column(key: bytes) -> None:
    """There or not there, and text is UTF-8."""
    refused(pushed(), replaced(b"\1\4\0\0\0abcd", key))


@pytest.mark.parametrize("place", [1, 2**20, 2**47, 2**48 - 1])
def test_a_row_has_a_place_before_the_next(place: int) -> None:
    """A delete finds a row of its own batch by its place, and would write there."""
    row = struct.pack("<qqq", 5, 0, 0)
    refused(pushed(), replaced(row, struct.pack("<qqQ", 5, 0, place << 16)))
    refused(pushed(), replaced(row, struct.pack("<qqQ", 5, place, place << 16)))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"seq": seq} for seq in (-1, 0, 2**48, 2**70, 1.5, None, True, "1")),
        *({"newest": newest} for newest in ("x", 2**70)),
        *({"revision": revision} for revision in (-1, 2**63, None)),
        {"finished": 2**63},
        {"shown": -(2**63) - 1},
        {"horizon": []},
        {"more": 1},
    ],
)
def test_a_position_is_one_that_a_stream_can_have(wrong: dict[str, Any]) -> None:
    """Numbers, in range, and no others."""
    refused(pushed(), lambda header, _: header["stream"].update(wrong))


@pytest.mark.parametrize("part", ["aggs", "asked", "counts", "stream"])
@pytest.mark.parametrize("wrong", [None, 3, "x", [], {"x": 1}])
def test_a_header_of_other_kinds_is_refused(part: str, wrong: Any) -> None:
    """Whatever stands there instead."""
    refused(pushed(), lambda header, _: header.update({part: wrong}))


def test_a_row_without_its_columns_is_refused() -> None:
    """What is retained of a row belongs to it: its place and its time are the same in both."""
    kw = engine(emit="final")
    kw.push(batch([5], [7]))
    times = struct.pack("<q", 5)

    def change(header: Any, contents: bytearray) -> None:
        at = contents.index(times, header["times"])
        contents[at : at + 8] = struct.pack("<q", 6)

    refused(kw, change)


def test_fixed_bytes_of_any_width_are_keys() -> None:
    """No width is mistaken for another type's."""
    import pyarrow as pa

    for width in (1000, 1001, 1002):
        kw = sliding()
        keys = pa.array([b"x" * width, b"y" * width], pa.binary(width))
        kw.push(pa.table({"k": keys, "t": [1, 2], "x": [1, 2]}))
        assert KeyedWindows.from_bytes(kw.to_bytes()).flush()["k"].to_pylist()[0] == b"x" * width


# --- aggregates -----------------------------------------------------------------------------------

OWN = Monoid(identity=0, combine=max, column="x", name="own", returns="int64")


@pytest.mark.parametrize(
    ("saved", "given"),
    [
        (monoids.hyperloglog("x"), monoids.last("x")),
        (monoids.hyperloglog("x"), monoids.hyperloglog("x", lg_k=12)),
        (monoids.approx_quantile("x"), monoids.approx_quantile("x", relative_error=0.02)),
        (monoids.sum("x"), monoids.sum("t")),
        (monoids.sum("x"), monoids.sum("x", dtype=float)),
        (OWN, monoids.max("x")),
        (OWN, Monoid(identity=0, combine=max, column="x", name="other", returns="int64")),
    ],
)
def test_other_aggregates_are_refused(saved: Monoid, given: Monoid) -> None:
    """They would read the rows of one as those of the other."""
    kw = engine(aggs={"a": saved})
    kw.push(batch([1, 2]))
    with pytest.raises(ArgumentError, match="aggs must be those that were saved, but a was") as error:
        KeyedWindows.from_bytes(kw.to_bytes(), aggs={"a": given})
    assert (error.value.argument, error.value.column) == ("aggs", "a")
    again = KeyedWindows.from_bytes(kw.to_bytes(), aggs={"a": saved})
    assert again.push(batch([3])).to_pylist() == kw.push(batch([3])).to_pylist()


def test_aggregates_are_passed_by_name() -> None:
    """Their order is that of the saved ones; a name more or less is refused, and so is anything but a monoid."""
    aggs = {"n": monoids.count(), "total": monoids.sum("x")}
    kw = engine(aggs=aggs)
    kw.push(batch([1]))
    again = KeyedWindows.from_bytes(kw.to_bytes(), aggs=dict(reversed(aggs.items())))
    assert again.push(batch([2])).to_pylist() == kw.push(batch([2])).to_pylist()
    with pytest.raises(ArgumentError, match=r"aggs must be those that were saved, \['n', 'total'\], got \['n'\]"):
        KeyedWindows.from_bytes(kw.to_bytes(), aggs={"n": monoids.count()})
    with pytest.raises(KindError, match="aggs must be a dict from names to monoids"):
        KeyedWindows.from_bytes(kw.to_bytes(), aggs={"n": 1, "total": 2})


def test_a_custom_aggregate_is_asked_for() -> None:
    """Bytes hold no code."""
    kw = engine(aggs={"a": OWN})
    kw.push(batch([1]))
    with pytest.raises(ArgumentError, match="aggs must be passed, because 'a' was saved with the custom monoid 'own'"):
        KeyedWindows.from_bytes(kw.to_bytes())


def test_deletes_that_wait_are_saved() -> None:
    """Those of ids; without ids none waits, and bytes that say so are refused."""
    kw = engine(id="i", retract="gone", lateness=9)
    kw.push(marked([(5, 1, 1, True)]))
    assert KeyedWindows.from_bytes(kw.to_bytes()).push(marked([(5, 1, 1, False)])).num_rows == 0


def test_without_ids_no_delete_waits() -> None:
    """Bytes that say so are refused."""

    def change(header: Any, contents: bytearray) -> None:
        contents[header["times"] - 4 : header["times"]] = b"\1\0\0\0" + bytes(16)
        header["times"] += 16

    refused(pushed(), change)
