"""Windows of many keys over tables and streams: `rolling`, `KeyedWindows`, and what both are made of."""
