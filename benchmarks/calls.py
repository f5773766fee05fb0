"""Other claims about fiba: expensive and Python monoids, batches against memcpy, memory, single calls."""

import subprocess
import sys
import timeit
from collections.abc import Callable

import numpy as np

from benchmarks.load import FAR_FUTURE, Rounds, measure
from sash import Monoid, Window, monoids

Claim = tuple[str, float, float]


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    return [*expensive(), *python_monoid(), *batches(), *single_calls(), *memory()]


def expensive() -> list[Claim]:
    """Bloom filters of 2^14 bits over a window of 2^16."""
    size, rounds = 2**16, 20_000
    bloom = monoids.bloom()
    near = measure([Rounds(s, s, 0, size, rounds, None, bloom) for s in ("fiba", "daba", "two_stacks")], 10)
    cases = [Rounds("fiba", "fiba", 2**10, size, rounds, None, bloom)]
    cases += [Rounds(f"paper {mu}", "paper", 2**10, size, rounds, mu, bloom) for mu in (2, 4, 8)]
    far = measure(cases, 10)
    print("  bloom, d = 0:", _shown(near), " d = 2^10:", _shown(far), flush=True)
    best = min(ns for name, ns in far.items() if name != "fiba")
    return [
        ("bloom, d = 0: fiba / daba", near["fiba"] / near["daba"], 1.0),
        ("bloom, d = 2^10: fiba / paper, best µ", far["fiba"] / best, 1 / 1.5),
    ]


def python_monoid() -> list[Claim]:
    """A sum through Python callables."""
    add = Monoid(identity=0, combine=lambda a, b: a + b)
    cases = [Rounds("fiba", "fiba", 0, 2**14, 40_000, None, add), Rounds("paper", "paper", 0, 2**14, 40_000, 4, add)]
    found = measure(cases, 10)
    print("  Python monoid, d = 0:", _shown(found), flush=True)
    return [("Python monoid, d = 0: fiba / paper µ=4", found["fiba"] / found["paper"], 1 / 2)]


def batches() -> list[Claim]:
    """A sorted run inserted and evicted at once, against a memcpy of the same bytes, and a run in the middle."""
    n = 2**22
    times, values = np.arange(n), np.arange(n)
    window, copies = Window(monoids.sum()), (np.empty(n, np.int64), np.empty(n, np.int64))
    inserts, evicts, memcpys = [], [], []
    for _ in range(7):
        inserts.append(_time(lambda: window.insert_many(times, values)))
        if window.query() != n * (n - 1) // 2:
            raise SystemExit("insert_many: a wrong answer; nothing was measured.")
        memcpys.append(_time(lambda: (np.copyto(copies[0], times), np.copyto(copies[1], values))))
        evicts.append(_time(lambda: window.evict_until(n)))
    memcpy = float(np.median(memcpys[1:]))
    print(f"  memcpy {memcpy * 1e3:.1f} ms, insert_many {np.median(inserts[1:]) * 1e3:.1f}, ", end="")
    print(f"evict_until {np.median(evicts[1:]) * 1e3:.1f}", flush=True)
    return [
        ("insert_many of 2^22 sorted, warm / memcpy", float(np.median(inserts[1:])) / memcpy, 4.0),
        ("evict_until of all 2^22 / memcpy", float(np.median(evicts[1:])) / memcpy, 2.0),
        *_run_in_the_middle(),
    ]


def _run_in_the_middle() -> list[Claim]:
    n, m, distance = 2**22, 2**16, 2**20
    settled = np.arange(n - distance)
    run = np.arange(n, n + m)
    seconds, combines, answers = [], [], []
    for insert in (lambda w: w.insert_many(run, run), lambda w: w.slide(run, run, count=n + m)):
        window = Window(monoids.sum())
        window.insert_many(np.concatenate([settled, FAR_FUTURE + np.arange(distance)]), np.ones(n, np.int64))
        window.query()
        before = window.combines
        seconds.append(_time(lambda w=window, insert=insert: (insert(w), w.query())))
        combines.append(window.combines - before)
        answers.append(window.query())
    if answers[0] != answers[1]:
        raise SystemExit("insert_many in the middle: a wrong answer; nothing was measured.")
    return [
        ("run of 2^16 at d = 2^20: combines / one by one", combines[0] / combines[1], 0.25),
        ("run of 2^16 at d = 2^20: time / one by one", seconds[0] / seconds[1], 0.2),
    ]


def single_calls() -> list[Claim]:
    """One call from Python, against an empty method of the same type."""
    window = Window(monoids.sum())
    window.insert_many(range(1000), range(1000))
    window.query()
    calls = 50_000

    def cost(call: Callable[[], object]) -> float:
        return min(timeit.repeat(call, number=calls, repeat=9)) / calls * 1e9

    newest = iter(range(1000, 10**9))
    oldest = iter(range(10**9))
    nothing = cost(lambda: window._nothing())
    stepping = cost(lambda: next(newest)) - cost(lambda: None)
    insert = cost(lambda: window.insert(next(newest), 1)) - stepping
    evict = cost(lambda: window.evict(next(oldest))) - stepping
    query = cost(lambda: window.query())
    print(f"  a call: nothing {nothing:.0f} ns, insert {insert:.0f}, evict {evict:.0f}, query {query:.0f}", flush=True)
    names = (("insert", insert), ("evict", evict), ("query", query))
    return [(f"one call of {name} / an empty method", found / nothing, 3.0) for name, found in names]


_MEMORY = """
import numpy as np, ctypes
from sash import Window, monoids
def held():
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096
n, w = 2**22, Window(monoids.sum())
times = np.arange(n) if {in_order} else np.random.default_rng(1).permutation(n)
w.insert_many(np.arange(10), np.arange(10)); w.query()
before = held()
if {in_order}:
    w.insert_many(times, times)
else:
    for part in np.array_split(times, 2**14):  # late events arrive in small batches
        w.insert_many(part, part)
w.query()
full = held()
w.evict_until(n - 10)
print((full - before) / n, (held() - before) / n)
"""


def memory() -> list[Claim]:
    """Bytes per entry of 16 bytes, each case in a separate process, and what remains when all but ten are evicted."""
    found = []
    for in_order in (True, False):
        code = _MEMORY.format(in_order=in_order)
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        found.append(tuple(map(float, shown.split())))
    return [
        ("bytes per entry, in order", found[0][0], 18.0),
        ("bytes per entry, after random inserts", found[1][0], 30.0),
        ("bytes per entry left after eviction, in order", found[0][1], 1.0),
        ("bytes per entry left after eviction, random", found[1][1], 1.0),
    ]


def _time(call: Callable[[], object]) -> float:
    return timeit.timeit(call, number=1)


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {ns:.0f} ns" for name, ns in found.items())
