"""The latest revision of each row in a Parquet dataset: merged part by part in Spark, committed by the manifest."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sash.errors import ArgumentError, shown
from sash.inputs.arrow import pyarrow
from sash.spark.columns import column, with_numbered_columns
from sash.spark.durable import make_directory, sync
from sash.spark.schema import all_nullable
from sash.spark.upserts import manifest as manifests
from sash.spark.upserts.manifest import Definition, File, Manifest
from sash.spark.upserts.target import (
    Place,
    is_repetition,
    query_id,
    require_columns,
    require_late_decided,
    require_own_query,
    require_same,
    require_same_columns,
    without_late,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_PART, _FRESH, _RANK = "_sash_part", "_sash_fresh", "_sash_rank"


@dataclass
class ParquetUpsert:
    """A sink that keeps the latest revisions in a Parquet dataset; `upsert` makes it."""

    root: Path
    definition: Definition
    buckets_given: bool
    keep: int
    wait_seconds: float
    shared: bool
    late: str | None
    swept: bool = field(default=False, init=False)

    def check(self, schema: StructType) -> None:
        """Raise for rows that lack a column or have one of an unsupported type, before a query starts."""
        require_columns(self.definition, schema)
        require_late_decided(self.late, schema)

    def writers(self) -> set[str]:
        """Return the ids of the queries that have written to the target."""
        manifest = manifests.load(self.root)
        return set() if manifest is None else set(manifest.queries)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Merge a micro-batch into the dataset."""
        self.check(batch.schema)
        batch = without_late(batch, self.late)
        if manifests.load(self.root) is None:
            manifests.prepare(self.root)
        with manifests.locked(self.root, self.wait_seconds):
            manifest = self._open(batch.schema)
            if not self.swept:
                manifests.sweep(self.root, manifest)
            self.swept = False  # the next merge sweeps what a failed one leaves
            self._merge(batch, batch_id, manifest)
            self.swept = True

    @property
    def _place(self) -> Place:
        return Place("target", str(self.root))

    def _open(self, schema: StructType) -> Manifest:
        """Return the current generation, or an empty one; raise for another definition or other columns."""
        manifest = manifests.load(self.root)
        if manifest is None:
            return Manifest(self.definition, all_nullable(schema).jsonValue())
        require_same(self.definition, manifest.definition, self._place, buckets=self.buckets_given)
        require_same_columns(StructType.fromJson(manifest.schema), schema, self._place)
        return manifest

    def _merge(self, batch: DataFrame, batch_id: int, manifest: Manifest) -> None:
        columns = [column(field["name"]) for field in manifest.schema["fields"]]
        rows = batch.select(*columns, self._part(manifest.definition).alias(_PART)).persist()
        try:
            # This runs the whole micro-batch, even one that was written before: the next one needs the state that it
            # commits, and only a job over all rows commits it.
            touched, query = _touched(rows)
            if not touched or is_repetition(manifest.queries, query, batch_id, self._place):
                return
            require_own_query(manifest.queries, query, manifest.definition, self._place, self.shared)
            written = self._write(rows, manifest, touched)
        finally:
            rows.unpersist()
        following = manifest.next_generation(touched, written, query, batch_id)
        current = following.without_expired(self.keep)
        manifests.commit(self.root, current)
        manifests.remove(self.root, [old.path for old in following.dead if old not in current.dead])

    def _part(self, definition: Definition) -> Column:
        """Return the part that a row belongs to; partitions with the same hash only share a file."""
        bucket = F.pmod(F.xxhash64(*map(column, definition.keys)), F.lit(definition.buckets)).cast("string")
        if not definition.partition_by:
            return bucket
        return F.concat_ws("-", F.hex(F.xxhash64(*map(column, definition.partition_by))), bucket)

    def _write(self, rows: DataFrame, manifest: Manifest, touched: set[str]) -> list[File]:
        """Rewrite the touched parts, old rows and new, and return their files."""
        fresh = rows.withColumn(_FRESH, F.lit(True))
        live = tuple(file for file in manifest.files if file.part in touched)
        if live:
            old = rows_of(rows.sparkSession, self.root, manifest, live)
            part = self._part(manifest.definition).alias(_PART)
            fresh = fresh.unionByName(old.select("*", part, F.lit(False).alias(_FRESH)))
        directory = manifests.fresh_directory(self.root, manifest.generation + 1)
        latest = _latest(fresh, manifest.definition, len(touched))
        names = [name for name in latest.columns if name != _PART]
        write = partial(_write_parts, str(self.root), str(directory), names)
        report = with_numbered_columns(latest.select(_PART, *map(column, names))).mapInArrow(
            write, "part string, path string"
        )
        files = [File(row.path, row.part) for row in report.collect()]
        self._require_visible(files)
        return files

    def _require_visible(self, files: list[File]) -> None:
        """Raise before the commit if the driver does not see what the tasks wrote."""
        for file in files:
            if not (self.root / file.path).is_file():
                raise ArgumentError(
                    f"target must be on a file system that the driver and executors share, got {shown(self.root)}: the "
                    f"driver does not see the file {file.path} that a task wrote.",
                    argument="target",
                )


def _latest(rows: DataFrame, definition: Definition, parts: int) -> DataFrame:
    """Return the greatest revision of each identity, the rows of each part together.

    Rows are partitioned by part alone, which keeps the rows of an identity together too: one shuffle and one sort serve
    both.
    """
    greatest = [] if definition.revision is None else [column(definition.revision).desc_nulls_last()]
    window = Window.partitionBy(_PART, *map(column, definition.keys)).orderBy(*greatest, F.col(_FRESH).desc())
    ranked = rows.repartition(min(parts, _tasks(rows)), _PART).withColumn(_RANK, F.row_number().over(window))
    return ranked.filter(F.col(_RANK) == 1).drop(_RANK, _FRESH)


def _tasks(rows: DataFrame) -> int:
    return int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)


def rows_of(spark: SparkSession, root: Path, manifest: Manifest, files: Sequence[File]) -> DataFrame:
    """Return the rows of some files of a dataset, including tombstones."""
    schema = StructType.fromJson(manifest.schema)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*[str(root / file.path) for file in files])


def _touched(rows: DataFrame) -> tuple[set[str], str | None]:
    """Return the parts that a micro-batch touches, and the id of its query or None."""
    report = rows.select(_PART).mapInArrow(_parts_and_query, "part string, query string").collect()
    return {row.part for row in report}, next((row.query for row in report if row.query), None)


def _parts_and_query(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    pa, parts = pyarrow(), set()
    for batch in batches:
        parts |= set(batch.column(0).unique().to_pylist())
    columns = {"part": pa.array(sorted(parts), pa.string()), "query": pa.array([query_id()] * len(parts), pa.string())}
    yield pa.RecordBatch.from_pydict(columns)


def _write_parts(
    root: str, directory: str, names: list[str], batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Write rows into one file per part and yield the files; each attempt at a task uses new file names."""
    pa = pyarrow()
    writer: pq.ParquetWriter | None = None
    files: list[tuple[str, str]] = []
    try:
        for part, rows in _runs(batches, names):
            if not files or files[-1][0] != part:
                _close(writer, files)
                files.append((part, os.path.join(directory, f"{part}-{uuid4().hex}.parquet")))
                writer = _writer(files[-1][1], rows.schema)
            assert writer is not None
            writer.write_batch(rows)
    finally:
        _close(writer, files)
    parts, paths = [part for part, _ in files], [os.path.relpath(path, root) for _, path in files]
    yield pa.RecordBatch.from_pydict({"part": pa.array(parts, pa.string()), "path": pa.array(paths, pa.string())})


def _runs(batches: "Iterator[pa.RecordBatch]", names: list[str]) -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Yield runs of rows of one part, under their own names and without the part, which is the first column."""
    import pyarrow.compute as pc

    for batch in batches:
        rows, runs = batch.remove_column(0).rename_columns(names), pc.run_end_encode(batch.column(0))
        start = 0
        for part, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield part, rows.slice(start, end - start)
            start = end


def _writer(path: str, schema: "pa.Schema") -> "pq.ParquetWriter":
    import pyarrow.parquet as pq

    make_directory(os.path.dirname(path))
    # Without the Arrow schema instants are read back in UTC, whatever the time zone of the session was.
    return pq.ParquetWriter(path, schema, compression="zstd", store_schema=False)


def _close(writer: "pq.ParquetWriter | None", files: list[tuple[str, str]]) -> None:
    """Close the last file and make it durable, as the manifest that will name it is."""
    if writer is None:
        return
    writer.close()
    sync(files[-1][1])
    sync(os.path.dirname(files[-1][1]))
