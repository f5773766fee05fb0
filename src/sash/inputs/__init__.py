"""Conversion of rows, records, batches and tables to the columns that the core reads."""
