"""Running a pipeline on Spark: its DataFrames, its sinks, and the run itself."""
