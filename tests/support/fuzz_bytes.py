"""Bytes of KeyedWindows changed on purpose, checksum and all: each must be refused, or give an engine that works.

    make fuzz-bytes COUNT=1000000 SEED=1       in child processes; reports what goes wrong, by its seed
    PYTHONPATH=tests .venv/bin/python -m support.fuzz_bytes --only 1234       one of them, in this process

Under AddressSanitizer: `make sanitize PYTEST_ARGS="-k changed_bytes"`, or `make sanitize` to build build/sanitize and
then the second line with the environment that the Makefile sets. A crash of the core ends the process that it is in,
which is why there are children.
"""

import argparse
import json
import os
import random
import resource
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash import CorruptStateError, InvariantError, KeyedWindows, Monoid, SashError, _core, monoids

MEMORY = 4 << 30  # that a child may have, so that no change fills the machine's; not under AddressSanitizer
SECONDS = 300  # that a thousand of them may take before they count as a hang
_TESTS = Path(__file__).parents[1]
_START = struct.Struct("<4sHI")

# --- states ---------------------------------------------------------------------------------------


def _rows(count: int, start: int, step: int = 1) -> dict[str, Any]:
    t = [start + i * step % (count + 1) for i in range(count)]
    return {
        "k": ["a" if i % 3 else None if i % 2 else "bc" for i in range(count)],
        "b": [i % 2 == 0 for i in range(count)],
        "t": t,
        "i": [f"id{x}" for x in t],
        "n": t,
        "x": pa.array([None if i % 5 == 0 else i * 7 % 11 for i in range(count)], pa.int64()),
        "y": [i / 4 for i in range(count)],
        "s": [f"s{i % 4}" for i in range(count)],
        "gone": [i % 7 == 6 for i in range(count)],
    }


def _letters() -> Monoid:
    return Monoid(identity="", combine="".__class__.__add__, column="s", name="letters", returns="string")


def _pushed(batches: list[Any], aggs: dict[str, Monoid], **options: Any) -> KeyedWindows:
    kw = KeyedWindows(time="t", aggs=aggs, **{"keys": ["k"], "windows": [8], "lateness": 30} | options)
    for batch in batches:
        kw.push(batch)
    return kw


_PLAIN = {"total": monoids.sum("x"), "top": monoids.max("y"), "n": monoids.count("s")}
_LATE = [_rows(16, 0), _rows(8, 10, 7)]
_SESSIONS: dict[str, Any] = {"windows": None, "per": "session", "gap": 2, "lateness": 6}  # some rows are folded


def _wide() -> KeyedWindows:
    many = {f"m{i}": monoids.sum(f"c{i}") for i in range(18)}
    table = {**_rows(12, 0), **{f"c{i}": [None if j % (i + 2) == 0 else j for j in range(12)] for i in range(18)}}
    return _pushed([table], many, emit="final")


def _instants() -> KeyedWindows:
    start = datetime(2024, 1, 1)
    table = {
        "k": pa.array([Decimal(i % 3) for i in range(20)], pa.decimal128(5, 2)),
        "d": [(start + timedelta(days=i % 2)).date() for i in range(20)],
        "t": [start + timedelta(seconds=i * 3 % 21) for i in range(20)],
        "x": list(range(20)),
    }
    aggs = {"r": monoids.rate("x"), "m": monoids.time_weighted_mean("x")}
    return _pushed([table], aggs, keys=["k", "d"], windows=["8s"], lateness="30s", emit="update")


def _grouped() -> KeyedWindows:
    aggs = {"v": monoids.variance("y"), "h": monoids.hyperloglog("s", lg_k=4), "k": monoids.top_k(3, "x")}
    return _pushed(_LATE, aggs, keys=["k", "b"], every=4, emit="update")


STATES: dict[str, Callable[[], KeyedWindows]] = {
    "arrival": lambda: _pushed(_LATE, _PLAIN, keys=["k", "b"]),
    "text ids": lambda: _pushed(_LATE, _PLAIN, id="i", retract="gone", emit="update"),
    "number ids": lambda: _pushed(_LATE, _PLAIN, keys=[], id="n", retract="gone", emit="final", carry=["s"]),
    "no ids": lambda: _pushed(_LATE, {**_PLAIN, "own": _letters()}, retract="gone", emit="update"),
    "panes": _grouped,
    "boundaries": lambda: _pushed(_LATE, {**_PLAIN, "own": _letters()}, every=4, emit="update", retract="gone"),
    "resolution": lambda: _pushed(_LATE, {"new": monoids.last("x")}, every=4, resolution=2, windows=[9]),
    "quantiles": lambda: _pushed(
        _LATE, {"p": monoids.approx_quantile("y", [0.1, 0.9], relative_error=0.5)}, every=4, resolution=2, windows=[9]
    ),
    "wide": _wide,
    "instants": _instants,
    "nothing": lambda: _pushed([], _PLAIN),
    "sessions": lambda: _pushed(_LATE, {**_PLAIN, "new": monoids.last("x")}, **_SESSIONS, emit="final"),
    "sessions of text ids": lambda: _pushed(_LATE, _PLAIN, **_SESSIONS, emit="update", id="i", retract="gone"),
}


@cache
def _saved(name: str) -> tuple[bytes, dict[str, Monoid] | None]:
    kw = STATES[name]()
    own = any(not monoid.built_in for monoid in kw.spec.aggs.values())
    return kw.to_bytes(), kw.spec.aggs if own else None


# --- changes --------------------------------------------------------------------------------------

_WORDS = [0, 1, 2, 255, 2**15, 2**16, 2**31, 2**32 - 1, 2**47, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
_VALUES = [None, True, -1, 0, 1, 2, 2**31, 2**63 - 1, 2**64, -(2**63), 1.5, "", "x", [], ["k"], {}, "1 s", [5, 6]]


def _changed(draw: random.Random, contents: bytearray) -> None:
    """Change some bytes: a bit, a word, or a piece that is cut, repeated or moved."""
    if not contents:
        return
    at = draw.randrange(len(contents))
    kind = draw.randrange(8)
    if kind < 3:
        contents[at] ^= 1 << draw.randrange(8)
    elif kind < 6:
        size = draw.choice([1, 2, 4, 8])
        at -= at % draw.choice([1, 4, 8])
        contents[at : at + size] = struct.pack("<Q", draw.choice(_WORDS))[:size]
    elif kind == 6:
        del contents[at : at + draw.choice([1, 4, 8, 40])]
    else:
        piece = contents[at : at + draw.choice([4, 8, 48])]
        where = draw.randrange(len(contents))
        contents[where : where + draw.choice([0, len(piece)])] = piece


def _change_leaf(draw: random.Random, value: Any) -> Any:
    """Return plain data with one of its parts replaced."""
    if isinstance(value, dict) and value and draw.randrange(8):
        name = draw.choice(sorted(value))
        return {**value, name: _change_leaf(draw, value[name])}
    if isinstance(value, list) and value and draw.randrange(4):
        at = draw.randrange(len(value))
        return [*value[:at], _change_leaf(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, int) and draw.randrange(2):
        return value + draw.choice([-1, 1, 2**16, -(2**40)])
    return draw.choice(_VALUES)


def mutated(draw: random.Random, data: bytes) -> bytes:
    """Return bytes with a part of them changed, and everything that says how long they are and what they add up to."""
    length = _START.unpack_from(data)[2]
    header = json.loads(data[_START.size : _START.size + length])
    rest = data[_START.size + length : -8]
    rows, retained = bytearray(rest[: header["times"]]), bytearray(rest[header["times"] :])
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        which = draw.randrange(10)
        if which < 6:
            _changed(draw, rows)
        elif which < 9:
            _changed(draw, retained)
        else:
            header = _change_leaf(draw, header)
    if isinstance(header, dict):
        header |= {"times": len(rows), "entries": len(retained)}
    head = json.dumps(header).encode()
    return bytes(_core.sealed([_START.pack(b"SASH", 2, len(head)), head, bytes(rows), bytes(retained)]))


# --- what must hold -------------------------------------------------------------------------------


def outcome(seed: int) -> str:
    """Return "refused" or "accepted" for the change of a seed; anything else that happens is an exception."""
    draw = random.Random(seed)
    data, own = _saved(draw.choice(list(STATES)))
    try:
        kw = KeyedWindows.from_bytes(mutated(draw, data), own)
    except CorruptStateError:
        return "refused"
    except SashError as error:
        if error.argument not in ("aggs", "retract"):  # which are compared with the bytes
            raise
        return "refused"
    kw.check_invariants()
    if _asks_for_millions(kw):
        return "accepted"
    again = KeyedWindows.from_bytes(kw.to_bytes(), own) if seed % 8 == 0 else kw
    for one in {id(kw): kw, id(again): again}.values():
        _use(one)
    rows = kw.flush()
    if again is not kw and str(rows.to_pydict()) != str(again.flush().to_pydict()):
        raise AssertionError("an engine and its copy differ")
    return "accepted"


def _asks_for_millions(kw: KeyedWindows) -> bool:
    """Whether each row has so many boundaries that the results would fill the memory: that is what was asked for."""
    return isinstance(kw.spec.every, int) and _widest(kw) // kw.spec.every > 100_000


def _widest(kw: KeyedWindows) -> int:
    return max((size for size in kw.spec.windows.values() if isinstance(size, int)), default=0)


def _use(kw: KeyedWindows) -> None:
    """Insert, delete, emit and ask; a definition that was changed may not take these batches."""
    batch = _rows(9, 8, 3)
    for gone in (True, False):
        try:
            kw.push({**batch, "gone": [gone] * len(batch["t"])})
        except InvariantError:
            raise
        except SashError:
            pass
    kw.check_invariants()


def _child(first: int, count: int) -> None:
    """Print a line for each seed."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in range(first, first + count):
        try:
            print(outcome(seed), flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)


def _children(first: int, count: int) -> Iterator[tuple[int, list[str]]]:
    """Yield a seed and the outcomes from it on; where a child died, the last of them is why."""
    while count > 0:
        chunk = min(count, 1000)
        words = [sys.executable, "-m", "support.fuzz_bytes", "--child", "--seed", str(first), "--count", str(chunk)]
        try:
            done = subprocess.run(words, cwd=_TESTS, capture_output=True, timeout=SECONDS, check=False)
            lines, died = done.stdout.decode().splitlines(), f"exit status {done.returncode}" * bool(done.returncode)
        except subprocess.TimeoutExpired as late:
            lines, died = (late.stdout or b"").decode().splitlines(), f"nothing for {SECONDS} s"
        lines += [died] if died else []
        yield first, lines
        first, count = first + len(lines), count - len(lines)


def fuzz(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Try the changes of some seeds in child processes; return how many had which outcome, and what went wrong."""
    totals: Counter[str] = Counter()
    wrong: list[str] = []
    for start, lines in _children(first, count):
        totals.update(line if line in ("refused", "accepted") else "wrong" for line in lines)
        ill = [f"--only {start + i}: {line}" for i, line in enumerate(lines) if line not in ("refused", "accepted")]
        print(f"{start + len(lines)}", *ill, sep="\n", flush=True)
        wrong += ill
    return totals, wrong


def main() -> int:
    """Run the command line; the exit status is 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        _child(chosen.seed, chosen.count)
        return 0
    if chosen.only is not None:
        print(outcome(chosen.only))
        return 0
    totals, wrong = fuzz(chosen.seed, chosen.count)
    print(dict(totals))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
