"""rolling over a DataFrame that is all there."""
