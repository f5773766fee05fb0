"""Pipelines described by a TOML file: its format, its sources, and running it. The layer above `sash.spark`."""
