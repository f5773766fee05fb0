"""Mistakes in a pipeline file: what is wrong, at which key, on which line. All of them are reported at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from sash.errors import ArgumentError, shown
from sash.pipeline.config.toml_lines import Path, line_of, shown_path

_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
}

_OF_QUESTIONS = (("rolling", "time"), ("rolling", "id"))  # keys that questions have of their own


class Mistake(NamedTuple):
    """One thing that is wrong: the path of the key, and a sentence."""

    path: Path
    message: str


class PipelineFileError(ArgumentError):
    """A pipeline file that cannot be used; `mistakes` holds everything that is wrong with it, in the order of lines."""

    def __init__(self, message: str, mistakes: tuple[Mistake, ...] = ()) -> None:
        super().__init__(message)
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.mistakes)


@dataclass(frozen=True)
class Origin:
    """Where a pipeline was read from: its file, the lines of its keys, and the keys that were overridden."""

    name: str = "pipeline.toml"
    lines: dict[Path, int] = field(default_factory=dict)
    overridden: tuple[Path, ...] = ()
    table: str | None = None  # "history" or "at", whose source and steps those of the pipeline are

    def error(self, mistakes: Iterable[Mistake]) -> PipelineFileError:
        """Return the error that lists mistakes, one per line, in the order of the file."""
        here = [Mistake(self._path(mistake.path), mistake.message) for mistake in mistakes]
        ordered = sorted(dict.fromkeys(here), key=lambda mistake: line_of(self.lines, mistake.path))
        lines = [f"{self.place(path)}: {shown_path(path)}: {message}" for path, message in ordered]
        return PipelineFileError("\n".join(lines), tuple(ordered))

    def place(self, path: Path) -> str:
        """Return the file and line of a key, or that it was set on the command line."""
        path = self._path(path)
        if any(path[: len(key)] == key or (key[: len(path)] == path not in self.lines) for key in self.overridden):
            return f"{self.name} with --set"
        return f"{self.name}:{line_of(self.lines, path)}"

    def of(self, table: str) -> "Origin":
        """Return the origin of a pipeline that reads the history, or the questions, in place of its source."""
        return replace(self, table=table)

    def _path(self, path: Path) -> Path:
        if self.table is None:
            return path
        if path[:1] == ("source",) or (self.table == "at" and path in _OF_QUESTIONS):
            return (self.table, *path[1:])
        return (self.table, *path) if path[:1] == ("steps",) else path


def unknown_key(name: str, keys: Iterable[str]) -> str:
    """Return the message for a key that does not exist, with the one that may have been meant."""
    keys = sorted(keys)
    close = get_close_matches(name, keys, 1)
    return f"unknown key; did you mean `{close[0]}`?" if close else f"unknown key; expected one of {', '.join(keys)}."


def message_of(error: Mapping[str, Any], purpose: str | None, keys: Iterable[str]) -> str:
    """Return the sentence for an error of pydantic's.

    `purpose` says what a missing key is for, and `keys` are those that the table may have.
    """
    kind, value = error["type"], error.get("input")
    if kind == "missing":
        return f"missing; expected {purpose}." if purpose else "missing."
    if kind == "extra_forbidden":
        return unknown_key(str(error["loc"][-1]), keys)
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}, got {shown(value)}."
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, got {shown(value)}."
    return f"cannot be {shown(value)}: {error['msg']}."
