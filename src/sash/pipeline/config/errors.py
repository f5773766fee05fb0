"""Mistakes in a pipeline file: what is wrong, at which key, on which line. All of them come at once."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from sash.errors import ArgumentError, SashError, shown
from sash.pipeline.config.toml_lines import Path, line_of, shown_path

_NAMED = re.compile(r"([a-z_]+)(?:\[\d+])?: (.*)", re.DOTALL)
_WANTED = {
    "string_type": ("text", "text in quotes"),
    "int_type": ("whole number", "one"),
    "float_type": ("number", "one"),
    "bool_type": ("truth value", "true or false"),
    "list_type": ("list", "one, as in [...]"),
    "dict_type": ("table", "one"),
    "model_type": ("table", "one"),
}


class Mistake(NamedTuple):
    """One thing that is wrong: the path of the key, and a sentence."""

    path: Path
    said: str


class PipelineFileError(ArgumentError):
    """A pipeline file that cannot be used; `mistakes` holds all that is wrong with it, in the order of lines."""

    def __init__(self, message: str, mistakes: tuple[Mistake, ...] = ()) -> None:
        super().__init__(message)
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.mistakes)


@dataclass(frozen=True)
class Origin:
    """Where a pipeline was read: the name of its file, the lines of its keys, and the keys that were set elsewhere."""

    name: str = "pipeline.toml"
    lines: dict[Path, int] = field(default_factory=dict)
    overridden: tuple[Path, ...] = ()

    def error(self, mistakes: Iterable[Mistake]) -> PipelineFileError:
        """Give the error that tells of mistakes, a line each, in the order of the file."""
        ordered = sorted(dict.fromkeys(mistakes), key=lambda mistake: line_of(self.lines, mistake.path))
        told = [f"{self.place(path)}: {shown_path(path)}: {said}" for path, said in ordered]
        return PipelineFileError("\n".join(told), tuple(ordered))

    def place(self, path: Path) -> str:
        """Give the file and line of a key, or that it was not written there."""
        if any(path[: len(key)] == key or (key[: len(path)] == path not in self.lines) for key in self.overridden):
            return f"{self.name} with --set"
        return f"{self.name}:{line_of(self.lines, path)}"


def after_its_name(error: BaseException) -> tuple[str | None, str]:
    """Give the argument that an error of sash begins with, and the rest of its sentence.

    >>> after_its_name(ArgumentError("windows: '1 mo' has no fixed length; give days."))
    ('windows', "'1 mo' has no fixed length; give days.")
    """
    found = _NAMED.fullmatch(str(error)) if isinstance(error, SashError) else None
    return (None, str(error)) if found is None else (found[1], found[2])


def unknown(name: str, known: Iterable[str]) -> str:
    """Say that there is no such key, and which one may have been meant."""
    known = sorted(known)
    close = get_close_matches(name, known, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}."
    return f"there is no such key; {hint}"


def in_words(error: Mapping[str, Any], wanted: str | None, known: Iterable[str]) -> str:
    """Give a sentence for what pydantic found; `wanted` says what a missing key is for, `known` has those there are."""
    kind, given = error["type"], error.get("input")
    if kind == "missing":
        return f"it is missing; give {wanted}." if wanted else "it is missing; give one."
    if kind == "extra_forbidden":
        return unknown(str(error["loc"][-1]), known)
    if kind == "literal_error":
        return f"{shown(given)} is not known; give {error['ctx']['expected']}."
    if kind == "value_error":
        return str(error["ctx"]["error"]).replace(", or a timedelta", "")
    if kind in _WANTED:
        what, instead = _WANTED[kind]
        return f"{shown(given)} is no {what}; give {instead}."
    return f"{shown(given)} cannot be used: {error['msg'][:1].lower()}{error['msg'][1:]}."
