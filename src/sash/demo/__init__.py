"""The demo: a pipeline over generated payments, the verification of its results, and a report."""
