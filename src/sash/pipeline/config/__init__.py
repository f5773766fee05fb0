"""The pipeline file: its keys, how it is read, and the mistakes in it."""
