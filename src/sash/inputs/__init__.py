"""Rows, records, batches and tables as the core takes them."""
