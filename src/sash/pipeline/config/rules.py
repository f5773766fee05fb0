"""Keys of a pipeline file that need, or exclude, each other.

They are looked at as TOML gave them, so that these mistakes are told together with those of a key by itself; what has a
wrong type is passed over here.
"""

import re
from collections.abc import Iterator
from typing import Any

from sash.errors import shown
from sash.pipeline.config.errors import Mistake, unknown

FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
STREAMS = ("streaming", "available-now")
UPSERT_OPTIONS = ("buckets", "keep", "keys", "partition_by", "shared", "table", "wait")
_ELSEWHERE = re.compile(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]*://")


def crossed(data: dict[str, Any]) -> Iterator[Mistake]:
    """Give all mistakes of keys beside each other."""
    mode = data.get("mode", "streaming")
    if mode in STREAMS and "checkpoint" not in data:
        yield Mistake(("checkpoint",), f"it is missing, and mode = {shown(mode)} keeps its state there; give a path.")
    yield from _source(_table(data, "source"), mode)
    steps = data.get("steps")
    for place, step in enumerate(steps if isinstance(steps, list) else []):
        if isinstance(step, dict) and ("where" in step) == ("select" in step):
            yield Mistake(("steps", place), "a step has one of where and select; give exactly one.")
    yield from _quarantine(_table(data, "quarantine"))
    yield from _sink(_table(data, "sink"), _table(data, "rolling"))


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _source(source: dict[str, Any], mode: Any) -> Iterator[Mistake]:
    if not source:
        return
    kind = source.get("format")
    if kind is None and "table" not in source:
        yield Mistake(("source", "format"), 'it is missing; give a format of Spark\'s, "demo", "replay", or a table.')
    if kind == "table" and "table" not in source:
        yield Mistake(("source", "table"), "it is missing; give the name of the table.")
    if kind not in (None, "table") and "table" in source:
        yield Mistake(("source", "table"), f"a source has a table or format = {shown(kind)}; leave one of them out.")
    if kind in FILES and "path" not in source:
        yield Mistake(("source", "path"), f"it is missing, and format = {shown(kind)} reads files; give their path.")
    if mode not in STREAMS:
        return
    if "watermark" not in source:
        yield Mistake(
            ("source", "watermark"),
            f'it is missing, and with mode = {shown(mode)} nothing would ever be final; give one such as "10 minutes".',
        )
    if kind in FILES and kind != "text" and "schema" not in source:
        yield Mistake(
            ("source", "schema"),
            "it is missing, and a stream of files must know its columns before the first one; "
            'give them, as in "card string, at timestamp".',
        )


def _quarantine(quarantine: dict[str, Any]) -> Iterator[Mistake]:
    if "ahead_of" in quarantine and "ahead" not in quarantine:
        yield Mistake(("quarantine", "ahead_of"), "it says of what, but not how far; give ahead too.")
    path = quarantine.get("path")
    if isinstance(path, str) and _ELSEWHERE.match(path):
        yield Mistake(
            ("quarantine", "path"),
            f"{shown(path)} is no path that Python can rename files at; give a directory that all workers share.",
        )


def _sink(sink: dict[str, Any], rolling: dict[str, Any]) -> Iterator[Mistake]:
    kind = sink.get("format")
    if kind == "table" and "table" not in sink:
        yield Mistake(("sink", "table"), "it is missing; give the name of the table.")
    if kind in (*FILES, "upsert") and "path" not in sink:
        yield Mistake(("sink", "path"), f"it is missing, and format = {shown(kind)} writes files; give a path.")
    if kind != "upsert":
        return
    options = sink.get("options")
    for name in options if isinstance(options, dict) else ():
        if name not in UPSERT_OPTIONS:
            yield Mistake(("sink", "options", name), unknown(name, UPSERT_OPTIONS))
    if not rolling.get("keys") and "every" not in rolling and "time" not in rolling:
        yield Mistake(("sink", "format"), "an upsert needs keys that tell rows apart; give rolling.keys.")
