"""The pipeline file: one TOML file that says where rows come from, what is made of them, and where it goes.

`read` and `parse` give a `Pipeline` or tell all mistakes at once, each with its line. What needs Spark (columns, the
format of a source) is checked when the DataFrames are built, in `sash.pipeline.run.dataframes`, with the same lines.
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
from sash.pipeline.config.errors import Mistake, Origin, PipelineFileError, after_its_name, in_words
from sash.pipeline.config.model import TABLES, Part, Pipeline, ValidationError

__all__ = ["Pipeline", "PipelineFileError", "override", "parse", "read"]

_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def read(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Pipeline:
    """Give the pipeline of a file; `overrides` are such as "rolling.lateness=1 hour" and come before what it says."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PipelineFileError(f"{path}: it is no text in UTF-8, so no pipeline file; give a TOML file.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PipelineFileError(f"{path}: {reason}; give the path of a pipeline file, or make one: sash new.") from None
    return parse(text, str(path), overrides)


def parse(text: str, name: str = "pipeline.toml", overrides: Sequence[str] = ()) -> Pipeline:
    """Give the pipeline that a text describes, or tell all that is wrong with it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(_syntax(text, name, str(error))) from None
    changed = tuple(override(data, given) for given in overrides)
    origin = Origin(name, toml_lines.lines_of(text), changed)
    mistakes = [*rules.crossed(data), *_shapes(data)]
    if mistakes:
        raise origin.error(mistakes)
    pipeline = Pipeline.model_validate({"name": Path(name).stem, **data, "origin": origin})
    try:
        _ = pipeline.rolling.asked
    except SashError as error:
        argument, said = after_its_name(error)
        raise pipeline.mistake(("rolling", argument) if argument else ("rolling",), said) from error
    return pipeline


def override(data: dict[str, Any], given: str) -> toml_lines.Path:
    """Put a value such as "sink.path=out" where it belongs, and give the path of its key."""
    key, equals, value = given.partition("=")
    try:
        (parts,) = _paths(tomllib.loads(f"{key.strip()} = 0"))
    except (tomllib.TOMLDecodeError, ValueError):
        parts = ()
    if not equals or not parts:
        raise PipelineFileError(f"--set {given}: it is no key with a value; give one such as rolling.lateness=1h.")
    place: Any = data
    path: list[str | int] = []
    for part in parts[:-1]:
        path.append(int(part) if isinstance(place, list) and part.isdigit() else part)
        place = _entered(place, path[-1], given)
    last: str | int = int(parts[-1]) if isinstance(place, list) and parts[-1].isdigit() else parts[-1]
    _entered(place, last, given, holds=False)
    place[last] = _plain(value.strip())
    return (*path, last)


def _entered(place: Any, part: str | int, given: str, *, holds: bool = True) -> Any:
    """Go into a table or an array, into a new table where there is none."""
    if isinstance(place, dict):
        return place.setdefault(part, {}) if holds else place
    if isinstance(place, list) and isinstance(part, int) and part < len(place):
        return place[part]
    raise PipelineFileError(f"--set {given}: there is nothing at {part} that could be set; give a key of the file.")


def _plain(value: str) -> Any:
    """Give a value as TOML has it, and as text where it is none: 1h needs no quotes here."""
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    return value if isinstance(found, (date, time)) else found


def _paths(data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, inner in data.items():
        if isinstance(inner, dict):
            yield from ((name, *rest) for rest in _paths(inner))
        else:
            yield (name,)


def _syntax(text: str, name: str, said: str) -> str:
    found = _SYNTAX.fullmatch(said)
    if found is None:
        return f"{name}: {said}."
    line = int(found[2]) if found[2] else len(text.splitlines())
    return f"{name}:{line}: this is no TOML: {found[1][:1].lower()}{found[1][1:]}."


def _shapes(data: dict[str, Any]) -> Iterator[Mistake]:
    """Give what pydantic finds."""
    if "origin" in data:
        yield Mistake(("origin",), "there is no such key; leave it out.")
        return
    try:
        Pipeline.model_validate(data)
    except ValidationError as error:
        for found in error.errors():
            path = tuple(found["loc"])
            model, wanted = _described(path)
            yield Mistake(path, in_words(found, wanted, _keys(model)))


def _described(path: toml_lines.Path) -> tuple[type[Part] | None, str | None]:
    """Give the table that a key stands in, and what the key is for."""
    model: type[Part] | None = Pipeline
    wanted = None
    for place, part in enumerate(path):
        if isinstance(part, int) or model is None:
            continue
        by_name = {field.alias or name: field for name, field in model.model_fields.items()}
        field = by_name.get(part)
        wanted = field.description if field is not None else None
        if place < len(path) - 1:
            model = TABLES.get(part) if model is Pipeline else None
    return model, wanted


def _keys(model: type[Part] | None) -> list[str]:
    fields = {} if model is None else model.model_fields
    return [field.alias or name for name, field in fields.items() if name != "origin"]
