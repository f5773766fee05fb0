"""Sources of rows that come with sash: made-up events, files replayed, and the end of a stream."""
