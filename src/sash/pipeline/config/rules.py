"""Keys of a pipeline file that need, or exclude, each other.

They are checked on the data as TOML has it, so that these mistakes are reported together with those of single keys.
Values of a wrong type are skipped here.
"""

import re
from collections.abc import Iterator
from typing import Any

from sash.errors import SashError, shown
from sash.keyed.session_spec import SESSION
from sash.locations import local_path, location
from sash.pipeline.config.errors import Mistake, unknown_key
from sash.pipeline.config.model import TO_PATHS, UPSERTS, flat

FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
STREAMS = ("streaming", "available-now")
UPSERT_OPTIONS = ("compact", "keys", "partition_by", "retain", "shared", "storage_options", "table", "wait")
POSTGRESQL_OPTIONS = ("dsn", "dsn_env", "keys", "shared")
# In a DSN of both forms: `password=secret`, and `postgresql://user:secret@host`.
_PASSWORD = re.compile(r"password\s*=|://[^/?#]*:[^@/?#]*@")
_SHARED = "a directory on a file system that all workers have mounted"
_SERVERS = "kafka.bootstrap.servers"
_TOPICS = ("assign", "subscribe", "subscribepattern")  # options of Spark's that choose topics
_PATHS = (("checkpoint",), *((name, "path") for name in ("source", "history", "at", "quarantine", "sink")))


def conflicts(data: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the mistakes in keys that depend on other keys."""
    mode = data.get("mode", "streaming")
    if mode in STREAMS and "checkpoint" not in data:
        yield Mistake(("checkpoint",), f"missing; mode = {shown(mode)} needs a path for its state.")
    yield from _source(data, "source", mode)
    yield from _history(data, mode)
    yield from _questions(data, mode)
    yield from _sessions(_table(data, "rolling"), data)
    yield from _steps(data.get("steps"), ("steps",))
    yield from _steps(_table(data, "output").get("steps"), ("output", "steps"))
    yield from _places(data)
    yield from _quarantine(_table(data, "quarantine"))
    yield from _sink(_table(data, "sink"), _table(data, "rolling"), mode)
    yield from _postgresql_sink(_table(data, "sink"))
    yield from _kafka_sink(_table(data, "sink"))


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name)
    return table if isinstance(table, dict) else {}


def _sessions(rolling: dict[str, Any], data: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the mistakes in keys that windows, or sessions, need."""
    if rolling.get("per") != SESSION:
        if rolling and "windows" not in rolling:
            yield Mistake(("rolling", "windows"), 'missing; expected sizes, as in ["1h", "24h"].')
        if "gap" in rolling:
            yield Mistake(("rolling", "gap"), 'cannot be used without per = "session".')
        return
    if "gap" not in rolling:
        message = 'missing; per = "session" needs the longest time between two events, as in "30 minutes".'
        yield Mistake(("rolling", "gap"), message)
    for key in ("windows", "every", "offset", "resolution", "carry", "closed"):
        if key in rolling:
            yield Mistake(("rolling", key), 'must be omitted with per = "session".')
    for table in ("history", "at"):
        if table in data:
            yield Mistake((table,), 'must be omitted with per = "session".')


def _steps(steps: Any, path: tuple[str, ...]) -> Iterator[Mistake]:
    for place, step in enumerate(steps if isinstance(steps, list) else []):
        if isinstance(step, dict) and ("where" in step) == ("select" in step):
            yield Mistake((*path, place), "a step must have exactly one of `where` and `select`.")


def _source(data: dict[str, Any], name: str, mode: Any) -> Iterator[Mistake]:
    """Yield the mistakes in a table that says where rows come from."""
    if not isinstance(data.get(name), dict):
        return
    source = data[name]
    yield from _kafka_source(name, source)
    kind = source.get("format")
    if kind is None and "table" not in source:
        yield Mistake((name, "format"), 'missing; expected a Spark format, "demo", "replay", or a `table`.')
    if kind == "table" and "table" not in source:
        yield Mistake((name, "table"), "missing; expected the name of a table.")
    if kind not in (None, "table") and "table" in source:
        yield Mistake((name, "table"), f"cannot be combined with format = {shown(kind)}; remove one of them.")
    if kind in FILES and "path" not in source:
        yield Mistake((name, "path"), f"missing; format = {shown(kind)} needs the path of the files to read.")
    if mode not in STREAMS:
        return
    if "watermark" not in source:
        yield Mistake(
            (name, "watermark"),
            f'missing; mode = {shown(mode)} needs a duration such as "10 minutes", or nothing would become final.',
        )
    if kind in FILES and kind != "text" and "schema" not in source:
        yield Mistake(
            (name, "schema"),
            'missing; a stream of files needs its columns in advance, as in "card string, at timestamp".',
        )


def _history(data: dict[str, Any], mode: Any) -> Iterator[Mistake]:
    """Yield the mistakes in the source of the rows before a stream, and in what is done with them."""
    if "history" not in data:
        return
    history, kind = _table(data, "history"), _table(data, "sink").get("format")
    if mode not in STREAMS:
        yield Mistake(("history",), f"must be omitted with mode = {shown(mode)}; it is what came before a stream.")
    if "watermark" in history:
        yield Mistake(("history", "watermark"), "must be omitted; the history ends with its newest row.")
    yield from _source(data, "history", "batch")
    yield from _steps(history.get("steps"), ("history", "steps"))
    if isinstance(kind, str) and kind not in (*UPSERTS, "kafka") and "at" not in data:
        accepted = ", ".join(f'"{name}"' for name in UPSERTS)
        message = (
            "needs a sink whose rows replace those before them, because a backfill that is interrupted begins again: "
            f'{accepted} or "kafka", got {shown(kind)}.'
        )
        yield Mistake(("history",), message)


def _questions(data: dict[str, Any], mode: Any) -> Iterator[Mistake]:
    """Yield the mistakes in the source of questions, and in keys that do not go with them."""
    if "at" not in data:
        return
    at, rolling = _table(data, "at"), _table(data, "rolling")
    yield from _source(data, "at", mode)
    yield from _steps(at.get("steps"), ("at", "steps"))
    if "every" in rolling:
        yield Mistake(("rolling", "every"), "must be omitted with [at], whose rows say when.")
    if "carry" in rolling:
        yield Mistake(("rolling", "carry"), "must be omitted with [at], whose own columns come back.")
    if rolling.get("emit") == "update" and "id" not in at:
        message = 'missing; results that are revised, with emit = "update", need a column that tells questions apart.'
        yield Mistake(("at", "id"), message)


def _places(data: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the mistakes in paths and URIs."""
    for path in _PATHS:
        value = (data if len(path) == 1 else _table(data, path[0])).get(path[-1])
        try:
            if isinstance(value, str):
                # Python writes the quarantine, Spark what is in the other places; an upsert checks its own target.
                local_path(value, "path", _SHARED) if path[0] == "quarantine" else location(value, path[-1])
        except SashError as error:
            yield Mistake(path, str(error))


def _quarantine(quarantine: dict[str, Any]) -> Iterator[Mistake]:
    if "ahead_of" in quarantine and "ahead" not in quarantine:
        yield Mistake(("quarantine", "ahead_of"), "cannot be used without `ahead`.")


def _sink(sink: dict[str, Any], rolling: dict[str, Any], mode: Any) -> Iterator[Mistake]:
    kind = sink.get("format")
    if kind == "table" and "table" not in sink:
        yield Mistake(("sink", "table"), "missing; expected the name of a table.")
    if kind in (*FILES, *TO_PATHS) and "path" not in sink:
        yield Mistake(("sink", "path"), f"missing; format = {shown(kind)} needs a path to write to.")
    if kind in UPSERTS:
        yield from _upsert_mode(sink, mode)
    if kind not in TO_PATHS:
        return
    options = sink.get("options")
    for name in options if isinstance(options, dict) else ():
        if name not in UPSERT_OPTIONS:
            yield Mistake(("sink", "options", name), unknown_key(name, UPSERT_OPTIONS))
    if not rolling.get("keys") and "every" not in rolling and "time" not in rolling:
        yield Mistake(("sink", "format"), "an upsert needs columns that identify a row; set `rolling.keys`.")


def _upsert_mode(sink: dict[str, Any], mode: Any) -> Iterator[Mistake]:
    allowed = ("append",) if mode in STREAMS else ("append", "overwrite")
    if sink.get("mode", "append") not in allowed:
        message = "must be omitted for an upsert, which merges rows; a batch can also overwrite them"
        yield Mistake(("sink", "mode"), f"{message}, got {shown(sink['mode'])}.")


# --- PostgreSQL -----------------------------------------------------------------------------------


def _postgresql_sink(sink: dict[str, Any]) -> Iterator[Mistake]:
    if sink.get("format") == "postgres":
        yield Mistake(("sink", "format"), "must be 'postgresql', got 'postgres'.")
    if sink.get("format") != "postgresql":
        return
    if "table" not in sink:
        yield Mistake(("sink", "table"), 'missing; format = "postgresql" needs the name of the table to write.')
    if "path" in sink:
        message = (
            'cannot be combined with format = "postgresql"; name the server in `options.dsn` or `options.dsn_env`.'
        )
        yield Mistake(("sink", "path"), message)
    options = sink.get("options")
    yield from _postgresql_options(options if isinstance(options, dict) else {})


def _postgresql_options(options: dict[str, Any]) -> Iterator[Mistake]:
    for name in options:
        if name not in POSTGRESQL_OPTIONS:
            yield Mistake(("sink", "options", name), unknown_key(name, POSTGRESQL_OPTIONS))
    if "dsn" in options and "dsn_env" in options:
        yield Mistake(("sink", "options", "dsn"), "cannot be combined with `dsn_env`; remove one of them.")
    for name in ("dsn", "dsn_env"):
        if not isinstance(options.get(name, ""), str):
            yield Mistake(("sink", "options", name), f"must be a string, got {shown(options[name])}.")
    dsn = options.get("dsn")
    if isinstance(dsn, str) and _PASSWORD.search(dsn):
        yield Mistake(
            ("sink", "options", "dsn"),
            "must not hold a password; use PGPASSWORD or ~/.pgpass, or name in `dsn_env` the environment variable that "
            "holds the DSN.",
        )


# --- Kafka ----------------------------------------------------------------------------------------


def _kafka_source(name: str, source: dict[str, Any]) -> Iterator[Mistake]:
    if source.get("format") != "kafka":
        yield from _without_kafka(name, source, ("topic", "servers", "value"))
        return
    yield from _kafka_keys(name, source)
    chosen = [option for option in _options(source) if option.lower() in _TOPICS]
    if not chosen and not source.get("topic"):
        yield Mistake((name, "topic"), 'missing; format = "kafka" needs one topic to read, or an array of them.')
    if chosen and "topic" in source:
        yield Mistake((name, "topic"), f"cannot be combined with the option {shown(chosen[0])}; remove one of them.")
    if source.get("value", "json") == "json" and "schema" not in source:
        yield Mistake(
            (name, "schema"),
            'missing; values in JSON need their columns, as in "card string, at timestamp"; `value = "bytes"` leaves '
            "them to the steps.",
        )
    if source.get("value") == "bytes" and "schema" in source:
        yield Mistake((name, "schema"), 'cannot be combined with value = "bytes"; remove one of them.')


def _kafka_sink(sink: dict[str, Any]) -> Iterator[Mistake]:
    if sink.get("format") != "kafka":
        yield from _without_kafka("sink", sink, ("topic", "servers"))
        return
    yield from _kafka_keys("sink", sink)
    if not sink.get("topic"):
        yield Mistake(("sink", "topic"), 'missing; format = "kafka" needs the topic to write to.')
    if sink.get("mode", "append") != "append":
        yield Mistake(("sink", "mode"), f"must be omitted for Kafka, which only appends, got {shown(sink['mode'])}.")


def _kafka_keys(name: str, table: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the mistakes in the keys that a source and a sink have in common."""
    in_options = _SERVERS in _options(table)
    if not in_options and not table.get("servers"):
        message = 'missing; format = "kafka" needs the addresses of brokers, as in "broker1:9092".'
        yield Mistake((name, "servers"), message)
    if in_options and "servers" in table:
        yield Mistake((name, "servers"), f"cannot be combined with the option {shown(_SERVERS)}; remove one of them.")
    if "path" in table:
        yield Mistake((name, "path"), 'cannot be combined with format = "kafka"; use `topic`.')
    if name == "sink" and "table" in table:
        yield Mistake((name, "table"), 'cannot be combined with format = "kafka"; use `topic`.')


def _without_kafka(name: str, table: dict[str, Any], keys: tuple[str, ...]) -> Iterator[Mistake]:
    for key in keys:
        if key in table:
            yield Mistake((name, key), f'needs format = "kafka", got {shown(table.get("format"))}.')


def _options(table: dict[str, Any]) -> dict[str, Any]:
    options = flat(table.get("options"))
    return options if isinstance(options, dict) else {}
