"""What went wrong while a pipeline ran, in one sentence: the root cause, without the stacks around it."""

import re
from typing import Any

from sash import errors
from sash.errors import SashError

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z]\w*): (.+)$", re.MULTILINE)
_WRAPPED = re.compile(r"^.*?terminated with exception: |\s*=== Streaming Query ===.*$", re.DOTALL)
_LOST = re.compile(r"Job aborted due to stage failure:.*?most recent failure: Lost task [^:]*: ", re.DOTALL)
_THROWN = re.compile(r"(?:^|\n)\s*(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z][\w$]*): (?=\S)")
_CLASS = re.compile(r"^\[[A-Z0-9_.]+] ")
_TAIL = re.compile(r"(?:\s*SQLSTATE: \w{5})+.*$|; line \d+ pos \d+;?.*$", re.DOTALL)
# What says nothing by itself: Spark looks for a class when it finds no format of a name, and says so before.
_HOLLOW = ("java.lang.ClassNotFoundException",)


class PipelineError(SashError):
    """A pipeline that failed while it ran; `__cause__` is what Spark raised."""


def told(error: BaseException) -> str:
    r"""Give the cause of an error, Spark's or another, in one sentence.

    >>> told(ValueError("[X_Y] Table `a` is gone. SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]"))
    'Table `a` is gone.'
    """
    if isinstance(error, SashError):
        return str(error)
    text = _LOST.sub("", _WRAPPED.sub("", str(error)))
    if _TRACEBACK in text:
        return _of_python(text)
    return _tidied(_of_java(text)) or f"{type(error).__name__}."


def _of_python(text: str) -> str:
    """Give the message below the last traceback in a text, which the innermost failure wrote."""
    below = text.rsplit(_TRACEBACK, 1)[1]
    raised = list(_RAISED.finditer(below))
    if not raised:
        return _tidied(text)
    kind, said = raised[-1][1], _tidied(raised[-1][2])
    return said if _is_ours(kind) else f"{kind}: {said}"


def _is_ours(kind: str) -> bool:
    found: Any = getattr(errors, kind, None)
    return isinstance(found, type) and issubclass(found, SashError)


def _of_java(text: str) -> str:
    """Give the message of the innermost Java exception, with its name where the message needs one."""
    thrown = [found for found in _THROWN.finditer(text) if found[1] not in _HOLLOW]
    if not thrown:
        return text
    last = thrown[-1]
    said, name = text[last.end() :], last[1].rsplit(".", 1)[1]
    plain = _CLASS.match(said) or name in ("SparkException", "RuntimeException", "IOException")
    return said if plain else f"{name}: {said}"


def _tidied(text: str) -> str:
    """Give the first line that says something, without the names that Spark gives to errors."""
    first = next((line.strip() for line in text.strip().splitlines() if line.strip()), "")
    first = _TAIL.sub("", _CLASS.sub("", first)).strip()
    return first if not first or first.endswith((".", "?", "!")) else f"{first}."
