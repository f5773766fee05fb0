"""Values of a pipeline file as Spark's readers and writers expect them."""

from typing import Any

from sash.locations import location


def absolute(path: str) -> str:
    """Return a path or URI that is the same wherever Spark runs: a relative path starts from the working directory."""
    return str(location(path, "path"))


def text_of(value: Any) -> str:
    """Return the text of an option, as Spark expects it.

    >>> text_of(True), text_of(0.5)
    ('true', '0.5')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
