"""Rolling aggregates over Spark's DataFrames."""
