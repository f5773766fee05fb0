"""rolling over a streaming DataFrame, with the state in buckets of keys."""
