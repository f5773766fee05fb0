"""Long searches for differences: seeded, resumable, and not part of `make test`."""
