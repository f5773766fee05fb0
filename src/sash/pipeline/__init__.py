"""Pipelines in a file: sources of events, and what runs them. The layer above `sash.spark`."""
