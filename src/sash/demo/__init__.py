"""The demo: a pipeline over made-up payments, its results verified and told on one page."""
