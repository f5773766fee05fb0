"""The content of the demo's report: its numbers, and the series of its figures; no plotting here."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sash.demo import verify
from sash.demo.verify import Events, Rules, Verdict

if TYPE_CHECKING:
    from pyarrow import Table

_BUSY = 25  # the report shows the key whose results changed most, of this many busy keys


@dataclass(frozen=True)
class Revised:
    """The first and final results of one key; times in microseconds, NaN for no result."""

    key: str
    column: str
    ends: NDArray[np.int64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @property
    def changed(self) -> int:
        """The number of results whose final value differs from the first."""
        same = (self.first == self.last) | (np.isnan(self.first) & np.isnan(self.last))
        return int((~same).sum())


@dataclass(frozen=True)
class Summary:
    """Everything that the report shows."""

    events: Events
    rules: Rules
    came: NDArray[np.int8]
    verdict: Verdict
    revised: Revised
    batches: list[dict[str, Any]]

    @property
    def busy(self) -> list[dict[str, Any]]:
        """The micro-batches that had rows."""
        return [batch for batch in self.batches if batch["rows"]]

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers at the top of the report."""
        speeds = [batch["rows_per_second"] for batch in self.busy]
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


def revised_of(history: "Table", rules: Rules, column: str) -> Revised:
    """Return the busy key whose results changed most relative to their size, from all revisions of all results."""
    keys = history.column(rules.key).to_pylist()
    ends = history.column("window_end").cast("int64").to_pylist()
    numbers = history.column("revision").to_pylist()
    gone, values = history.column("deleted").to_pylist(), history.column(column).to_pylist()
    revisions: dict[str, dict[int, list[tuple[int, float]]]] = {}
    for key, end, number, deleted, value in zip(keys, ends, numbers, gone, values, strict=True):
        result = np.nan if deleted or value is None else float(value)
        revisions.setdefault(key, {}).setdefault(end, []).append((number, result))
    all_keys = [_revised(key, column, results) for key, results in revisions.items()]
    busy = sorted(all_keys, key=lambda one: float(np.nansum(one.last)), reverse=True)[:_BUSY]
    return max(busy, key=lambda one: float(np.nansum(np.abs(one.last - one.first)) / max(np.nansum(one.last), 1)))


def _revised(key: str, column: str, results: Mapping[int, list[tuple[int, float]]]) -> Revised:
    ends = sorted(results)
    first, last = ([pick(results[end])[1] for end in ends] for pick in (min, max))
    return Revised(key, column, np.array(ends), np.array(first), np.array(last))


# --- progress that survives a restart ---------------------------------------------------------------


def record(path: Path, batch: Mapping[str, Any]) -> None:
    """Append a micro-batch to a file of JSON lines; a line truncated by a crash is skipped when it is read."""
    truncated = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as lines:
        lines.write(("\n" if truncated else "") + json.dumps(batch) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the micro-batches of a file of JSON lines by number, the last line for one that ran twice."""
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
    """Return the minute in which the most events arrived out of order, and their number."""
    late = events.arrivals[came != verify.IN_ORDER] // 60_000_000
    if not late.size:
        return 0, 0
    minutes, counts = np.unique(late, return_counts=True)
    most = int(counts.argmax())
    return int(minutes[most]) * 60_000_000, int(counts[most])


def tables_of(paths: Sequence[Path]) -> "Table":
    """Return the rows of Parquet files as one table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
