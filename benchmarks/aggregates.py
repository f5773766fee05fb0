"""Claims about monoids: a struct against one sum, compiled against native and Python, wide states."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.load import CHUNK, FAR_FUTURE, SEED
from sash import Monoid, Window, monoids

Claim = tuple[str, float, float]


@dataclass
class Load:
    """The paper's load for any monoid; the last answer is compared with that of a recomputation."""

    label: str
    monoid: Monoid
    distance: int
    size: int
    rounds: int
    values: Callable[[np.random.Generator, int], Any]
    verify: Callable[[Any, Any], bool]  # (the last answer, the values in the window in time order)
    nanoseconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fill the window."""
        settled = self.size - self.distance
        self._values = self.values(np.random.default_rng(SEED), self.size + self.rounds)
        self._times = np.concatenate(
            [np.arange(settled), FAR_FUTURE + np.arange(self.distance), settled + np.arange(self.rounds)]
        )
        self.window = Window(self.monoid)
        self.window.insert_many(self._times[: self.size], self._values[: self.size])
        self._done = self.size

    def run(self, rounds: int) -> None:
        """Time the next rounds, in native code throughout."""
        spent = 0
        for at in range(0, rounds, CHUNK):
            rows = slice(self._done + at, self._done + min(at + CHUNK, rounds))
            began = time.perf_counter_ns()
            self.window.slide(self._times[rows], self._values[rows], count=self.size)
            spent += time.perf_counter_ns() - began
        self._done += rounds
        self.nanoseconds.append(spent / rounds)
        self._check()

    def _check(self) -> None:
        held = np.argsort(self._times[: self._done], kind="stable")[-self.size :]
        values = self._values[held] if isinstance(self._values, np.ndarray) else [self._values[i] for i in held]
        if not self.verify(self.window.query(), values):
            raise SystemExit(f"{self.label}: a wrong answer at d = {self.distance}; nothing was measured.")


def measure(cases: list[Load], slices: int) -> dict[str, float]:
    """Run all cases in turn, slice by slice, and return the median nanoseconds per round of each."""
    for _ in range(slices):
        for case in cases:
            case.run(case.rounds // slices)
    return {case.label: float(np.median(case.nanoseconds)) for case in cases}


def claims() -> list[Claim]:
    """Return each claim as a sentence, the measured value, and the bound that it must not exceed."""
    return [*alone(), *product(), *compiled(), *wide(), *quantiles()]


# --- one aggregate against a sum ------------------------------------------------------------------


def _reals(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(1e9, 1, n)


def alone() -> list[Claim]:
    """Mean and standard deviation, each alone in its window."""
    cases = [
        Load("sum", monoids.sum(), 0, 2**20, 400_000, _integers, lambda a, v: a == v.sum()),
        Load("mean of ints", monoids.mean(), 0, 2**20, 400_000, _integers, lambda a, v: bool(np.isclose(a, v.mean()))),
        Load("mean", monoids.mean(), 0, 2**20, 400_000, _reals, lambda a, v: bool(np.isclose(a, v.mean(), rtol=1e-12))),
        Load(
            "std", monoids.std(), 0, 2**20, 400_000, _reals, lambda a, v: bool(np.isclose(a, v.std(ddof=1), rtol=1e-9))
        ),
    ]
    ns = measure(cases, 8)
    print("  d = 0:", ", ".join(f"{name} {cost:.1f} ns" for name, cost in ns.items()), flush=True)
    return [(f"{name} alone / sum, d = 0", ns[name] / ns["sum"], 2.0) for name in ("mean of ints", "mean", "std")]


# --- a struct against one sum ---------------------------------------------------------------------


def _integers(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(-1000, 1000, n)


def _five(answer: dict[str, Any], values: Any) -> bool:
    exact = (len(values), values.sum(), values.min(), values.max())
    found = tuple(answer[name] for name in ("n", "total", "least", "most"))
    return found == exact and bool(np.isclose(answer["spread"], values.std(ddof=1), rtol=1e-9))


def product() -> list[Claim]:
    """Count, sum, min, max and standard deviation over one tree."""
    five = monoids.struct(
        n=monoids.count(), total=monoids.sum(), least=monoids.min(), most=monoids.max(), spread=monoids.std()
    )
    found = []
    for distance in (0, 2**10):
        cases = [
            Load("sum", monoids.sum(), distance, 2**20, 400_000, _integers, lambda a, v: a == v.sum()),
            Load("struct", five, distance, 2**20, 400_000, _integers, _five),
        ]
        ns = measure(cases, 8)
        print(f"  d = {distance}: sum {ns['sum']:.1f} ns, struct of five {ns['struct']:.1f}", flush=True)
        found.append((f"struct of five / sum, d = {distance}", ns["struct"] / ns["sum"], 4.0 if distance == 0 else 5.0))
    return found


# --- compiled against native and Python -----------------------------------------------------------


def _then(f: tuple[float, float], g: tuple[float, float]) -> tuple[float, float]:
    return g[0] * f[0], g[0] * f[1] + g[1]


def _pairs(rng: np.random.Generator, n: int) -> Any:
    return np.column_stack([rng.uniform(0.5, 1.0, n), rng.uniform(-1.0, 1.0, n)])


def _composed(answer: Any, values: Any) -> bool:
    state = (1.0, 0.0)
    for a, b in values:
        state = _then(state, (a, b))
    return bool(np.allclose(answer, state, rtol=1e-6, atol=1e-12))


def compiled() -> list[Claim]:
    """Affine functions composed: native, compiled from Python, and through Python callables."""
    ours = Monoid.compiled(identity=(1.0, 0.0), combine=_then)
    theirs = Monoid(identity=(1.0, 0.0), combine=_then)
    cases = [
        Load("native", monoids.affine(), 2**10, 2**14, 100_000, _pairs, _composed),
        Load("compiled", ours, 2**10, 2**14, 100_000, _pairs, _composed),
        Load("Python", theirs, 2**10, 2**14, 20_000, _tuples, _composed),
    ]
    ns = measure(cases, 5)
    print("  affine, d = 2^10:", ", ".join(f"{name} {cost:.0f} ns" for name, cost in ns.items()), flush=True)
    return [
        ("compiled affine / native, d = 2^10", ns["compiled"] / ns["native"], 4.0),
        ("compiled affine / Python callables, d = 2^10", ns["compiled"] / ns["Python"], 1 / 5),
    ]


def _tuples(rng: np.random.Generator, n: int) -> Any:
    return [tuple(row) for row in _pairs(rng, n).tolist()]


# --- wide states ----------------------------------------------------------------------------------


def _estimates(answer: int, values: Any) -> bool:
    return abs(answer / len(np.unique(values)) - 1) < 5 * 1.04 / 2**5.5


def wide() -> list[Claim]:
    """HyperLogLog of 2^11 registers against a Bloom filter of 2^14 bits, both of 2,048 bytes."""
    size, rounds = 10**5, 20_000
    found = []
    for distance in (0, 2**10):
        cases = [
            Load("bloom", monoids.bloom(), distance, size, rounds, _items, lambda a, v: int(v[0]) in a),
            Load("hyperloglog", monoids.hyperloglog(lg_k=11), distance, size, rounds, _items, _estimates),
        ]
        ns = measure(cases, 8)
        print(f"  d = {distance}: bloom {ns['bloom']:.0f} ns, hyperloglog {ns['hyperloglog']:.0f}", flush=True)
        found.append((f"hyperloglog / bloom, d = {distance}", ns["hyperloglog"] / ns["bloom"], 1.5))
    shown = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True).stdout
    return [*found, ("MB of 10^5 entries of hyperloglog", float(shown), 40.0)]


# --- quantiles ------------------------------------------------------------------------------------

_SHARES = (0.5, 0.95, 0.99)


def _latencies(rng: np.random.Generator, n: int) -> Any:
    return rng.lognormal(3, 1.5, n)


def _near(answer: list[float], values: Any) -> bool:
    return bool(np.allclose(answer, np.quantile(values, _SHARES), rtol=0.01))


def _near_in_rank(answer: list[float], values: Any) -> bool:
    return bool(np.all(np.abs([np.mean(values <= found) for found in answer] - np.array(_SHARES)) < 0.03))


def quantiles() -> list[Claim]:
    """Three quantiles at 1 % against HyperLogLog of 2^11 registers, and against KLL."""
    size, found = 10**5, []
    for distance in (0, 2**10):
        cases = [
            Load("hyperloglog", monoids.hyperloglog(lg_k=11), distance, size, 20_000, _items, _estimates),
            Load("approx_quantile", monoids.approx_quantile(q=_SHARES), distance, size, 20_000, _latencies, _near),
            Load("kll", monoids.kll(q=_SHARES), distance, size, 800, _latencies, _near_in_rank),
        ]
        ns = measure(cases, 4)
        print(f"  d = {distance}:", ", ".join(f"{name} {cost:.0f} ns" for name, cost in ns.items()), flush=True)
        ours = ns["approx_quantile"]
        found.append((f"approx_quantile of three / hyperloglog, d = {distance}", ours / ns["hyperloglog"], 2.0))
        found.append((f"approx_quantile of three / kll of three, d = {distance}", ours / ns["kll"], 1 / 30))
    return found


def _items(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 2**62, n)


_MEMORY = """
import numpy as np
from sash import Window, monoids
def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
values = np.random.default_rng(1).integers(0, 2**62, 10**5)
Window(monoids.hyperloglog()).slide([1, 2], [1, 2], count=1)
w = Window(monoids.hyperloglog(lg_k=11))
before = held()
w.insert_many(np.arange(10**5), values)
w.query()
print((held() - before) / 1e6)
"""
