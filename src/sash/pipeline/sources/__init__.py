"""Sources that come with sash: generated events, replayed files, and the end of a stream."""
