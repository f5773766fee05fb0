"""rolling over a streaming DataFrame, with its state in buckets of keys."""
