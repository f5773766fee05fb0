"""rolling over a batch DataFrame."""
