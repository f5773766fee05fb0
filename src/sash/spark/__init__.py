"""Spark: what keeps revised results, for streams that say again what they know better."""

from sash.spark.upsert import read_upserted, upsert, upserted_files, upserted_table

__all__ = ["read_upserted", "upsert", "upserted_files", "upserted_table"]
