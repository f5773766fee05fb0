"""Windows of many keys over tables and streams: `rolling`, `KeyedWindows`, and what both are made of."""

from sash.keyed.windows import KeyedWindows

__all__ = ["KeyedWindows"]
