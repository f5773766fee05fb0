"""A pipeline at work on Spark: its DataFrames, its sinks, and the run itself."""
