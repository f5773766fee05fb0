"""Errors of Spark as one sentence: the root cause, without the stack traces around it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sash import errors
from sash.errors import SashError
from sash.pipeline.config.errors import PipelineFileError
from sash.pipeline.config.read import Pipeline
from sash.pipeline.config.toml_lines import Path

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z]\w*): (.+)$", re.MULTILINE)
_WRAPPED = re.compile(r"^.*?terminated with exception: |\s*=== Streaming Query ===.*$", re.DOTALL)
_LOST = re.compile(r"Job aborted due to stage failure:.*?most recent failure: Lost task [^:]*: ", re.DOTALL)
_THROWN = re.compile(r"(?:^|\n)\s*(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z][\w$]*): (?=\S)")
_CLASS = re.compile(r"^\[[A-Z0-9_.]+] ")
_TAIL = re.compile(r"(?:\s*SQLSTATE: \w{5})+.*$|; line \d+ pos \d+;?.*$", re.DOTALL)
# Uninformative: Spark looks for a class of this name after it has reported an unknown format.
_IGNORED = ("java.lang.ClassNotFoundException",)


class PipelineError(SashError):
    """A pipeline failed while it ran; `__cause__` is the error that Spark raised."""


def cause_of(error: BaseException) -> str:
    r"""Return the root cause of an error, Spark's or another, in one sentence.

    >>> cause_of(ValueError("[X_Y] Table `a` is gone. SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]"))
    'Table `a` is gone.'
    """
    if isinstance(error, SashError):
        return str(error)
    text = _LOST.sub("", _WRAPPED.sub("", str(error)))
    if _TRACEBACK in text:
        return _of_python(text)
    return _tidied(_of_java(text)) or f"{type(error).__name__}."


@contextmanager
def reported_at(pipeline: Pipeline, path: Path) -> Iterator[None]:
    """Raise errors of Spark as mistakes at a key of the file."""
    try:
        yield
    except PipelineFileError:
        raise
    except Exception as error:
        raise pipeline.mistake(path, cause_of(error)) from error


def condition_of(error: BaseException) -> str | None:
    """Return the condition of an error of Spark's, such as "PATH_NOT_FOUND", or None."""
    # py4j has errors that pyspark does not convert; they refer to the exception in Java.
    thrown: Any = getattr(error, "java_exception", error)
    try:
        condition = thrown.getCondition()
    except Exception:  # of Python, or of Java without conditions
        return None
    return None if condition is None else str(condition)


def _of_python(text: str) -> str:
    """Return the message below the last traceback in a text, which is that of the innermost error."""
    below = text.rsplit(_TRACEBACK, 1)[1]
    raised = list(_RAISED.finditer(below))
    if not raised:
        return _tidied(text)
    name, message = raised[-1][1], _tidied(raised[-1][2])
    return message if _is_sash_error(name) else f"{name}: {message}"


def _is_sash_error(name: str) -> bool:
    kind = getattr(errors, name, None)
    return isinstance(kind, type) and issubclass(kind, SashError)


def _of_java(text: str) -> str:
    """Return the message of the innermost Java exception, with its name where the message alone is unclear."""
    thrown = [match for match in _THROWN.finditer(text) if match[1] not in _IGNORED]
    if not thrown:
        return text
    last = thrown[-1]
    message, name = text[last.end() :], last[1].rsplit(".", 1)[1]
    clear = _CLASS.match(message) or name in ("SparkException", "RuntimeException", "IOException")
    return message if clear else f"{name}: {message}"


def _tidied(text: str) -> str:
    """Return the first line that is not empty, without Spark's error classes and SQL states."""
    first = next((line.strip() for line in text.strip().splitlines() if line.strip()), "")
    first = _TAIL.sub("", _CLASS.sub("", first)).strip()
    return first if not first or first.endswith((".", "?", "!")) else f"{first}."
