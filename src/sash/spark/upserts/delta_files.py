"""Upkeep of a Delta table's files: apart by time, of a fair size, and removed when nobody needs them.

A merge rewrites every file that has a row it changes, and puts new rows into the same files. Changes are mostly recent,
so the file of the latest times would grow without end, and each merge with it. Every so many commits, files that have
grown, or whose times overlap, are rewritten in the order of time; old ones that are small are joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sash.inputs.arrow import pyarrow
from sash.spark.upserts.definition import Definition
from sash.spark.upserts.delta_sql import is_time, literal
from sash.spark.upserts.dialect import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

FILE_ROWS = 50_000  # of files that merges still change
OLD_ROWS = 1_000_000  # of files that are joined
_MANY = 20  # small files side by side that are worth a rewrite
_RECENT = 4  # files at the end that merges still change: they are split, and not joined


@dataclass(frozen=True)
class DataFile:
    """A file of a table, and the times in it."""

    rows: int
    size: int
    least: Any  # an Arrow scalar, as are the others
    most: Any
    nulls: int  # rows without a time


@dataclass
class Upkeep:
    """What is done every `compact` commits (0: never), and for how long readers of old versions keep their files."""

    compact: int = 50
    retain_hours: float | None = 168  # None: for good
    _done: int | None = field(default=None, init=False)

    def after(self, table: "DeltaTable", definition: Definition) -> None:
        """Do what is due after a merge."""
        version = table.version()
        if self._done is None:
            self._done = version - version % max(self.compact, 1)
        if not self.compact or version - self._done < self.compact:
            return
        tidy(table, definition)
        if self.retain_hours is not None:
            table.vacuum(int(self.retain_hours), dry_run=False, enforce_retention_duration=False)
        self._done = table.version()


def tidy(table: "DeltaTable", definition: Definition) -> None:
    """Rewrite files that have grown or overlap; a writer that comes between has done no harm, the next time will do."""
    from deltalake.exceptions import CommitFailedError

    time = time_of(table, definition)
    try:
        if time is None or definition.partition_by:
            table.optimize.compact()
            return
        for region, rows_per_file in regions(files_of(table, time)):
            _rewrite(table, time, region, rows_per_file)
    except CommitFailedError:
        table.update_incremental()


def time_of(table: "DeltaTable", definition: Definition) -> str | None:
    """Return the key that files are kept apart by: the first that holds times."""
    schema = pyarrow().schema(table.schema().to_arrow())
    return next((name for name in definition.keys if is_time(schema.field(name).type)), None)


def files_of(table: "DeltaTable", time: str) -> list[DataFile]:
    """Return the files of a table in the order of their times; none if statistics are missing."""
    actions = pyarrow().table(table.get_add_actions(flatten=True))
    names = ["num_records", "size_bytes", f"min.{time}", f"max.{time}", f"null_count.{time}"]
    if not set(names) <= set(actions.column_names) or any(actions[name].null_count for name in names):
        return []
    columns = zip(*map(actions.column, names), strict=True)
    found = [DataFile(rows.as_py(), size.as_py(), a, b, nulls.as_py()) for rows, size, a, b, nulls in columns]
    return sorted(found, key=lambda file: file.least.as_py())


def regions(files: list[DataFile]) -> Iterator[tuple[list[DataFile], int]]:
    """Yield files to rewrite together, and how many rows each new file should have."""
    groups = list(_overlapping(files))
    for place, together in enumerate(groups):
        rows = sum(file.rows for file in together)
        has_grown = rows > 2 * FILE_ROWS and place >= len(groups) - _RECENT
        if (len(together) > 1 or has_grown) and rows <= OLD_ROWS and not any(file.nulls for file in together):
            yield together, FILE_ROWS
    alone = [together[0] if len(together) == 1 else None for together in groups[:-_RECENT]]
    for small, group in groupby(alone, lambda file: file is not None and file.rows <= FILE_ROWS and not file.nulls):
        run = [file for file in group if file is not None]
        if small and len(run) >= _MANY:
            yield run[:_MANY], OLD_ROWS


def _overlapping(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Yield files in groups whose times do not overlap."""
    group: list[DataFile] = []
    most: Any = None
    for file in files:
        if group and file.least.as_py() > most:
            yield group
            group = []
        most = file.most.as_py() if not group else max(most, file.most.as_py())
        group.append(file)
    if group:
        yield group


def _rewrite(table: "DeltaTable", time: str, files: list[DataFile], rows_per_file: int) -> None:
    """Write the rows of files again, in the order of time."""
    import pyarrow.compute as pc
    from deltalake import write_deltalake

    least, most = files[0].least, _upper(max((file.most for file in files), key=lambda one: one.as_py()))
    inside = (pc.field(time) >= least) & (pc.field(time) <= most)
    rows: pa.Table = table.to_pyarrow_dataset().to_table(filter=inside).sort_by(time)
    ends = [literal(end, end.type) for end in (least, most)]
    per_row = sum(file.size for file in files) / max(sum(file.rows for file in files), 1)
    write_deltalake(
        table,
        rows,
        mode="overwrite",
        predicate=f"{quoted(time)} >= {ends[0]} AND {quoted(time)} <= {ends[1]}",
        target_file_size=max(int(per_row * rows_per_file), 1),
    )
    table.update_incremental()


def _upper(most: Any) -> Any:
    """Return a bound of times whose greatest is given by statistics, which are cut to milliseconds."""
    pa = pyarrow()
    if not pa.types.is_timestamp(most.type):
        return most
    return pa.scalar(most.cast(pa.int64()).as_py() + 999, pa.int64()).cast(most.type)
