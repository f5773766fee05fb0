"""to_bytes and from_bytes: what goes out comes back, and nothing else comes in."""

import json
import pickle
import random
import struct
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from sash import ArgumentError, CorruptStateError, KindError, Monoid, SashError, Window, _core, monoids
from support.structures import Structure

HIGH = 2**63 - 1
TIMES = {
    "int": lambda i: i,
    "float": lambda i: i / 4,
    "pair": lambda i: (i // 3, i),
    "naive": lambda i: datetime(2020, 1, 1) + timedelta(seconds=i),
    "aware": lambda i: datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")) + timedelta(hours=i),
    "offset": lambda i: datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2))) + timedelta(hours=i),
    "utc": lambda i: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=i),
    "numpy": lambda i: np.datetime64(i, "ms"),
    "pandas": lambda i: pd.Timestamp(10**18 + i, unit="ns"),
}
NATIVE = ["sum", "count", "min", "max", "first", "last", "maxcount", "geomean", "bloom"]


def filled(window: Window, time=TIMES["int"], rows: int = 200) -> Window:
    window.insert_many([time(i) for i in range(rows)], [(7 * i) % 13 for i in range(rows)])
    window.insert(time(rows - 1), 5)
    return window


@pytest.mark.parametrize("kind", TIMES)
def test_every_kind_of_time_comes_back(structure: Structure, kind: str) -> None:
    """Times are returned in the type in which they were inserted."""
    window = filled(structure.window(monoids.sum()), TIMES[kind])
    twin = Window.from_bytes(window.to_bytes())
    twin.check_invariants()
    assert twin == window and twin.query() == window.query() and twin.structure == window.structure
    assert list(twin) == list(window) and type(twin.oldest) is type(window.oldest)
    assert twin.newest.tzinfo == window.newest.tzinfo if isinstance(window.newest, datetime) else True


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("real", [False, True])
def test_every_native_monoid_comes_back(structure: Structure, name: str, real: bool) -> None:
    """Entries come back bit by bit, and no pickle is in the bytes."""
    window = filled(structure.window(monoids.BUILT_IN[name]("amount")))
    if real:
        window = structure.window(monoids.BUILT_IN[name]())
        window.insert_many([1, 2, 3, 3], [0.5, 2.25, 3.0, 1.0])
    data = window.to_bytes()
    twin = Window.from_bytes(data)
    twin.check_invariants()
    assert twin == window and twin.monoid == window.monoid and twin.query() == window.query()
    assert pickle.loads(pickle.dumps(window)) == window
    assert b'"pickle": false' in data


def test_wide_entries_come_back(structure: Structure) -> None:
    """Entries beyond int64, also those that stand in two parts, keep every bit."""
    window = structure.window(monoids.sum())
    for time, value in [(1, HIGH), (1, HIGH), (2, -HIGH), (2, -5)]:
        window.insert(time, value)
    twin = Window.from_bytes(window.to_bytes())
    assert twin == window and twin.query() == window.query()
    parts = structure.window(monoids.sum())
    parts.insert(1, 5)
    parts.insert(2, HIGH)
    parts.evict(1)
    parts.insert(2, HIGH)
    parts.insert(3, -HIGH)
    assert Window.from_bytes(parts.to_bytes()).query() == HIGH


def test_empty_windows_come_back(structure: Structure) -> None:
    """A window that never had entries has no kinds; one that was emptied keeps its kinds."""
    window = structure.window(monoids.sum())
    assert Window.from_bytes(window.to_bytes())._kinds is None
    window.insert(1.5, 2)
    window.evict(1.5)
    twin = Window.from_bytes(window.to_bytes())
    assert len(twin) == 0 and twin._kinds == window._kinds


def test_objects_ask_for_permission() -> None:
    """Python states are pickled, and loading them requires allow_pickle=True."""
    text = Monoid(identity="", combine=lambda a, b: a + b, name="text", version="1")
    window = Window(text)
    window.insert_many([1, 2], ["a", "b"])
    data = window.to_bytes()
    with pytest.raises(ArgumentError, match="monoid"):
        Window.from_bytes(data)
    with pytest.raises(ArgumentError, match="allow_pickle"):
        Window.from_bytes(data, text)
    assert Window.from_bytes(data, text, allow_pickle=True) == window
    with pytest.raises(ArgumentError, match="monoid"):
        Window.from_bytes(
            data, Monoid(identity="", combine=lambda a, b: a + b, name="text", version="2"), allow_pickle=True
        )
    with pytest.raises(ArgumentError, match="monoid"):
        Window.from_bytes(data, monoids.sum(), allow_pickle=True)


def small() -> Window:
    window = Window(monoids.max(), leaf_capacity=4, fanout=4)
    window.insert_many([1.5, 2.5, 3.5, 9.0], [3.0, -1.0, 7.5, 0.0])
    return window


def test_every_truncation_is_noticed() -> None:
    """A state that was cut short anywhere is refused."""
    data = small().to_bytes()
    for length in range(len(data)):
        with pytest.raises(CorruptStateError):
            Window.from_bytes(data[:length])
    with pytest.raises(CorruptStateError):
        Window.from_bytes(data + b"\0")


def test_every_flipped_bit_is_noticed() -> None:
    """A state with any one bit flipped is refused."""
    data = small().to_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptStateError):
            Window.from_bytes(bytes(flipped))


@pytest.mark.parametrize("data", [b"", b"SASH", b"\x80\x04N.", bytes(100), b"PAR1" + bytes(50)], ids=repr)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    """Bytes that are not a state raise."""
    with pytest.raises(CorruptStateError):
        Window.from_bytes(data)


def test_what_is_no_bytes() -> None:
    """Only bytes are loaded."""
    with pytest.raises(KindError, match="data"):
        Window.from_bytes("SASH")


def signed(body: bytes) -> bytes:
    return _core.sealed([body])


def test_a_newer_format_is_named() -> None:
    """Bytes of another version say which."""
    data = bytearray(small().to_bytes()[:-8])
    data[4] = 9
    with pytest.raises(CorruptStateError, match="version 9"):
        Window.from_bytes(signed(bytes(data)))


@pytest.mark.parametrize("name", ["sum", "max", "maxcount", "count", "geomean", "bloom", "first"])
def test_forged_states_never_build_a_wrong_window(name: str) -> None:
    """Bytes whose check sum was made to fit are refused, or are a sound window."""
    rng = random.Random(name)
    refused = 0
    for structure in ("fiba", "paper", "daba"):
        window = Window(monoids.BUILT_IN[name](), structure=structure)
        window.insert_many([1.5, 2.5, 3.5, 9.0], [3.0, 1.0, 7.5, 0.0])
        body = window.to_bytes()[:-8]
        for _ in range(1500):
            forged = bytearray(body)
            for _ in range(rng.choice([1, 1, 2, 8])):
                forged[rng.randrange(len(forged))] = rng.randrange(256)
            if rng.random() < 0.2:
                del forged[rng.randrange(len(forged)) :]
            try:
                twin = Window.from_bytes(signed(bytes(forged)))
            except SashError:
                refused += 1
                continue
            twin.check_invariants()
            times = list(twin)
            assert times == sorted(set(times))
    assert refused > 500


@pytest.mark.parametrize(
    "change",
    [
        {"structure": "heap"},
        {"options": {"min_arity": 4}},
        {"options": {"fanout": 10**9}},
        {"options": 5},
        {"kinds": ["int"]},
        {"kinds": ["object", None, "int64"]},
        {"kinds": ["instant", None, "float64"]},
        {"kinds": ["int", None, "geomean"]},
        {
            "kinds": [
                "instant",
                {"unit": "us", "shown_as": "datetime", "aware": True, "zone": "Nowhere/Land"},
                "float64",
            ]
        },
        {"rows": 10**18},
        {"rows": -1},
        {"rows": "four"},
        {"wide": True},
        {"monoid": None},
    ],
    ids=str,
)
def test_forged_headers(change: dict) -> None:
    """An invalid header raises, also with a valid checksum."""
    data = small().to_bytes()
    (length,) = struct.unpack_from("<I", data, 6)
    header = {**json.loads(data[10 : 10 + length]), **change}
    named = json.dumps(header).encode()
    body = data[:6] + struct.pack("<I", len(named)) + named + data[10 + length : -8]
    with pytest.raises(SashError):
        Window.from_bytes(signed(body))


def test_states_of_an_earlier_form_are_named() -> None:
    """States of moments once had other members: bytes of that form are refused, not read as what they are not."""
    window = Window(monoids.struct(n=monoids.count(), spread=monoids.variance("x")))
    window.insert_many([1, 1, 2], {"x": [1.0, 2.0, 4.0]})
    body = window.to_bytes()[:-8]
    assert Window.from_bytes(signed(body)) == window
    earlier = body.replace(b'"version": "2"', b'"version":null')
    with pytest.raises(CorruptStateError, match=r"states of variance\(.*\) in a form that this version"):
        Window.from_bytes(signed(earlier))
