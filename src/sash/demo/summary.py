"""What the demo has to tell: its numbers, and the series that its pictures are drawn from; no drawing here."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.demo import verify
from sash.demo.verify import Events, Rules, Verdict

_BUSY = 25  # of so many busy keys the one is shown whose results changed most


@dataclass(frozen=True)
class Revised:
    """One key's results as they were first shown and as they are at last; times in microseconds, NaN for no result."""

    key: str
    column: str
    ends: NDArray[np.int64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @property
    def changed(self) -> int:
        """How many results are not what was first shown."""
        same = (self.first == self.last) | (np.isnan(self.first) & np.isnan(self.last))
        return int((~same).sum())


@dataclass(frozen=True)
class Story:
    """Everything the report says."""

    events: Events
    rules: Rules
    came: NDArray[np.int8]
    verdict: Verdict
    revised: Revised
    batches: list[dict[str, Any]]

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers at the head of the report."""
        speeds = [batch["rows_per_second"] for batch in self.batches if batch["rows"]]
        return {
            "events": len(self.events.times),
            "out_of_order": int((self.came != verify.IN_ORDER).sum()),
            "revising": int((self.came == verify.REVISING).sum()),
            "too_late": int((self.came == verify.TOO_LATE).sum()),
            "retractions": int(self.events.deletes.sum()),
            "revisions": sum(batch["revised"] for batch in self.batches),
            "keys": self.verdict.keys,
            "verified": self.verdict.compared,
            "rows_per_second": float(np.median(speeds)) if speeds else 0.0,
            "seconds": sum(batch["seconds"] for batch in self.batches),
        }


def revised_of(history: Any, rules: Rules, column: str) -> Revised:
    """Return that of the busy keys whose results changed most for its size, from all rows that were ever shown."""
    keys = history.column(rules.key).to_pylist()
    ends = history.column("window_end").cast("int64").to_pylist()
    numbers = history.column("revision").to_pylist()
    gone, values = history.column("deleted").to_pylist(), history.column(column).to_pylist()
    shown: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for key, end, number, deleted, value in zip(keys, ends, numbers, gone, values, strict=True):
        kept = np.nan if deleted or value is None else float(value)
        shown.setdefault(key, {}).setdefault(end, []).append((number, kept))
    made = [_revised(key, column, results) for key, results in shown.items()]
    busy = sorted(made, key=lambda one: float(np.nansum(one.last)), reverse=True)[:_BUSY]
    return max(busy, key=lambda one: float(np.nansum(np.abs(one.last - one.first)) / max(np.nansum(one.last), 1)))


def _revised(key: str, column: str, results: Mapping[int, list[tuple[int, float]]]) -> Revised:
    ends = sorted(results)
    first, last = ([pick(results[end])[1] for end in ends] for pick in (min, max))
    return Revised(key, column, np.array(ends), np.array(first), np.array(last))


# --- progress that survives a restart ---------------------------------------------------------------


def record(path: Path, batch: Mapping[str, Any]) -> None:
    """Add a micro-batch to a file of lines; one that is cut short by a crash is left out when it is read."""
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as lines:
        lines.write(("\n" if torn else "") + json.dumps(batch) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the micro-batches of a file of lines by their number, of those that ran twice the last."""
    if not path.exists():
        return []
    batches = [batch for line in path.read_text(encoding="utf-8").splitlines() for batch in _batch(line)]
    return [batch for _, batch in sorted({batch["batch"]: batch for batch in batches}.items())]


def _batch(line: str) -> Iterable[dict[str, Any]]:
    try:
        batch = json.loads(line)
    except json.JSONDecodeError:
        return ()
    return (batch,) if isinstance(batch, dict) and "batch" in batch else ()


def busiest_outage(events: Events, came: NDArray[np.int8]) -> tuple[int, int]:
    """Return the minute in which most events arrived that were behind others, and how many they were."""
    late = events.arrivals[came != verify.IN_ORDER] // 60_000_000
    if not late.size:
        return 0, 0
    minutes, counts = np.unique(late, return_counts=True)
    most = int(counts.argmax())
    return int(minutes[most]) * 60_000_000, int(counts[most])


def tables_of(paths: Sequence[Path]) -> Any:
    """Return Parquet files as one table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
