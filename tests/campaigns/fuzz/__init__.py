"""A fuzz campaign: random windows, tables and streams against answers written from the documentation alone."""
