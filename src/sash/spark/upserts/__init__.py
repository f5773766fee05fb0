"""A sink that keeps the latest revision of each row, in a Parquet dataset or a database."""
