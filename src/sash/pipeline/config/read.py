"""Reading a pipeline file: one TOML file with a source, the windows to compute, and a sink.

`read` and `parse` return a `Pipeline` or raise an error that lists all mistakes, each with its line. What needs Spark
(columns, the format of a source) is checked when the DataFrames are built, in `sash.pipeline.run.dataframes`.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

from sash.errors import SashError
from sash.pipeline.config import rules, toml_lines
from sash.pipeline.config.errors import Mistake, Origin, PipelineFileError, message_of, unknown_key
from sash.pipeline.config.model import AS_LIST, AS_TABLE, TABLES, At, History, Output, Part, Pipeline, ValidationError

__all__ = ["Pipeline", "PipelineFileError", "override", "parse", "read"]

_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def read(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Pipeline:
    """Return the pipeline of a file; `overrides` such as "rolling.lateness=1 hour" replace its values."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PipelineFileError(f"{path}: not a UTF-8 text file; expected a TOML file.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PipelineFileError(f"{path}: {reason}; `sash new` writes a pipeline file.") from None
    return parse(text, str(path), overrides)


def parse(text: str, name: str = "pipeline.toml", overrides: Sequence[str] = ()) -> Pipeline:
    """Return the pipeline that a text describes, or raise an error that lists all mistakes."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(_syntax(text, name, str(error))) from None
    overridden = tuple(override(data, setting) for setting in overrides)
    origin = Origin(name, toml_lines.lines_of(text), overridden)
    mistakes = [*rules.conflicts(data), *_invalid(data)]
    if mistakes:
        raise origin.error(mistakes)
    pipeline = Pipeline.model_validate({"name": Path(name).stem, **data, "origin": origin})
    try:
        spec = pipeline.rolling.spec
        if pipeline.mode != "batch":
            spec.require_streamable()
    except SashError as error:
        path = ("rolling",) if error.argument is None else ("rolling", error.argument)
        raise pipeline.mistake(path, str(error)) from error
    return pipeline


def override(data: dict[str, Any], setting: str) -> toml_lines.Path:
    """Set a value such as "sink.path=out" in place, and return the path of its key."""
    key, equals, value = setting.partition("=")
    try:
        (parts,) = _paths(tomllib.loads(f"{key.strip()} = 0"))
    except (tomllib.TOMLDecodeError, ValueError):
        parts = ()
    if not equals or not parts:
        raise PipelineFileError(f"--set {setting}: must have the form KEY=VALUE, as in rolling.lateness=1h.")
    place: Any = data
    path: list[str | int] = []
    for part in parts[:-1]:
        path.append(int(part) if isinstance(place, list) and part.isdigit() else part)
        place = _entered(place, path[-1], setting)
    last: str | int = int(parts[-1]) if isinstance(place, list) and parts[-1].isdigit() else parts[-1]
    _entered(place, last, setting, holds=False)
    place[last] = _plain(value.strip())
    return (*path, last)


def _entered(place: Any, part: str | int, setting: str, *, holds: bool = True) -> Any:
    """Return the value at a key or index, a new table where there is none."""
    if isinstance(place, dict):
        return place.setdefault(part, {}) if holds else place
    if isinstance(place, list) and isinstance(part, int) and part < len(place):
        return place[part]
    raise PipelineFileError(f"--set {setting}: {part} is not a key of a table or an index of an array in the file.")


def _plain(value: str) -> Any:
    """Return a value parsed as TOML, or as text where it is not valid TOML: 1h needs no quotes here."""
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    return value if isinstance(parsed, (date, time)) else parsed


def _paths(data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, inner in data.items():
        if isinstance(inner, dict):
            yield from ((name, *rest) for rest in _paths(inner))
        else:
            yield (name,)


def _syntax(text: str, name: str, message: str) -> str:
    """Return the error for text that is not TOML, with its line: before Python 3.14 only tomllib's message has it."""
    parts = _SYNTAX.fullmatch(message)
    if parts is None:
        return f"{name}: invalid TOML: {message}."
    line = int(parts[2]) if parts[2] else len(text.splitlines())
    return f"{name}:{line}: invalid TOML: {parts[1]}."


def _invalid(data: dict[str, Any]) -> Iterator[Mistake]:
    """Yield the mistakes that pydantic finds."""
    if "origin" in data:
        yield Mistake(("origin",), unknown_key("origin", _keys(Pipeline)))
        return
    try:
        Pipeline.model_validate(data)
    except ValidationError as error:
        for details in error.errors():
            path = tuple(part for part in details["loc"] if part not in (AS_LIST, AS_TABLE))
            model, purpose = _described(path)
            yield Mistake(path, message_of(details, purpose, _keys(model)))


def _described(path: toml_lines.Path) -> tuple[type[Part] | None, str | None]:
    """Return the table that a key belongs to, and what the key is for."""
    model: type[Part] | None = Pipeline
    purpose = None
    for place, part in enumerate(path):
        if isinstance(part, int) or model is None:
            continue
        by_name = {field.alias or name: field for name, field in model.model_fields.items()}
        field = by_name.get(part)
        purpose = field.description if field is not None else None
        if place < len(path) - 1:
            model = TABLES.get(part) if model in (Pipeline, Output, History, At) else None
    return model, purpose


def _keys(model: type[Part] | None) -> list[str]:
    fields = {} if model is None else model.model_fields
    return [field.alias or name for name, field in fields.items() if name != "origin"]
