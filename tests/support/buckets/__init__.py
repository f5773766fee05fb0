"""A cluster of buckets without Spark, and trials on it."""
