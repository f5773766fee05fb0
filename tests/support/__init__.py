"""Cases, streams and rows that tests share."""
