"""Streams on Spark by the overlap of windows: ours against Spark's own `window`. The paper has no such figure."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from experiments import curves, style
from experiments.case import Case, Row, Rows, Scale, row_of
from experiments.load import WrongAnswerError
from experiments.series import OURS_ON_SPARK, SHOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spark"
CAPTION = (
    "Sum and max of 100 keys every minute, over windows of x minutes, in micro-batches of 100,000 rows on two cores. "
    "Spark's own window puts every row into x groups; ours keeps one partial aggregate per minute and combines those."
)
_ROWS, _KEYS, _CORES = 100_000, 100, 2
_MINUTE_US = 60 * 10**6


def plan(scale: Scale) -> Iterator[list[Case]]:
    """Return windows of 1, 4, 16 … slides; the two take turns.

    Every case is a JVM that has to start, warm up and be verified before it is timed, so a quick run has one overlap.
    """
    overlaps, batches, repeats = ((64,), 4, 2) if scale.name == "quick" else ((1, 4, 16, 64, 256), 10, 3)
    for x in overlaps:
        more: dict[str, Any] = {"repeats": repeats, "slice_ms": 0.0, "rounds": batches}
        yield [scale.case(NAME, "sum", "", series, x, _ROWS, 0, **more) for series in SHOWN[NAME].series]


def run(case: Case, turns: Iterable[int] = range(2)) -> Row:
    """Measure the milliseconds per micro-batch; a sample is the median of a whole stream."""
    from benchmarks import spark_streaming as streams
    from sash.spark import session

    spark = session(f"local[{_CORES}]", "sash-figures", **{"spark.driver.memory": "2g"})
    events = streams.Events(_KEYS, batches=case.rounds)
    try:
        _require_right(case, spark)
        samples = [_sample(case, events.stream(spark)) for _ in turns]
    finally:
        spark.stop()
        shutil.rmtree(events.path, ignore_errors=True)
    return row_of(case, samples, "ms", case.rounds)


def _made(case: Case, df: Any) -> Any:
    from benchmarks import spark_streaming as streams

    make = streams.sashs_own if case.series == OURS_ON_SPARK else streams.sparks_own
    return make(df, f"{case.x} minutes")


def _sample(case: Case, df: Any) -> float:
    from benchmarks import spark_streaming as streams

    query, where = streams.run(_made(case, df))
    shutil.rmtree(where, ignore_errors=True)
    full = [progress.batchDuration for progress in query.recentProgress if progress.numInputRows >= _ROWS]
    return float(statistics.median(full[max(1, len(full) // 5) :]))


# --- checking -------------------------------------------------------------------------------------


def _require_right(case: Case, spark: Any) -> None:
    """Compare the results of a small stream with sums computed from its files."""
    from benchmarks import spark_streaming as streams

    events = streams.Events(7, batches=3, rows=2_000, span_us=10 * _MINUTE_US)
    _, where = streams.run(_made(case, events.stream(spark)), "parquet")
    given, wanted = _given(where / "out"), _recomputed(events.path, case.x)
    shutil.rmtree(where, ignore_errors=True)
    shutil.rmtree(events.path, ignore_errors=True)
    if not wanted or given != wanted:
        raise WrongAnswerError(f"{case.series}, windows of {case.x} minutes: a wrong answer.")


def _given(out: Path) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (sum, max) by key and the minute at which a window ends, without the far future."""
    found = {}
    for row in pq.read_table(out).to_pylist():
        end = row["window_end"] if "window_end" in row else row["window"]["end"]
        total, top = (next(row[name] for name in row if name.startswith(kind)) for kind in ("total", "top"))
        if end.year < 2000:
            found[row["k"], int(end.timestamp()) // 60] = (total, top)
    return found


def _recomputed(path: Path, minutes: int) -> dict[tuple[int, int], tuple[int, int]]:
    table = pq.read_table(sorted(path.glob("0*.parquet")))
    keys, values = table["k"].to_numpy(), table["x"].to_numpy()
    panes = table["t"].cast("int64").to_numpy() // _MINUTE_US
    found = {}
    for key in np.unique(keys).tolist():
        mine, of_key = panes[keys == key], values[keys == key]
        for end in range(int(mine.min()) + 1, int(mine.max()) + minutes + 1):
            inside = of_key[(mine < end) & (mine >= end - minutes)]
            if len(inside):
                found[key, end] = (int(inside.sum()), int(inside.max()))
    return found


# --- drawing --------------------------------------------------------------------------------------


def draw(rows: Rows) -> Figure:
    """Draw rows per second against the overlap."""
    shown, rows = SHOWN[NAME], rows.required(NAME)
    said = curves.fine_print(
        f"{_KEYS} keys, sum and max every minute",
        f"{_ROWS:,} rows a micro-batch, local[{_CORES}]",
        curves.machine(rows),
    )
    figure, axes = style.sheet("A stream on Spark, by how many windows a row is in", said, 1, legend=0.1)
    axis = axes[0][0]
    for series in shown.series:
        points = rows.curve(series=series)
        xs, rates = [style.place(x) for x in points], [_ROWS / ms * 1000 for ms in points.values()]
        axis.plot(xs, rates, **style.LOOKS[series].line())
        low, high = (rows.curve(column, series=series).values() for column in ("high", "low"))
        shade = {"color": style.LOOKS[series].color, "alpha": 0.13, "linewidth": 0, "zorder": 1}
        axis.fill_between(xs, [_ROWS / ms * 1000 for ms in low], [_ROWS / ms * 1000 for ms in high], **shade)
        offset = (0, 17) if series == OURS_ON_SPARK else (-78, 0)  # beside a line that falls
        style.name(axis, xs[-1], rates[-1], offset, style.LOOKS[series].name, style.LOOKS[series].color)
    style.power_axis(axis, "slides in a window: how many windows hold a row", (row["x"] for row in rows))
    style.log_axis(axis, "rows per second")
    style.legend(figure, shown.series)
    return figure
