"""The pipeline file: what it may say, how it is read, and what is wrong with it."""
