"""An extension of mkdocstrings: examples in docstrings become blocks of code."""

import re
from typing import Any

import griffe

SIGNATURE = re.compile(r"\A(\w+)\(self(?:, )?(.*)\) -> (.+)\n")
EXAMPLE = re.compile(r"(?m)^>>> .*\n?(?:^(?!\s*$).*\n?)*")


class Fenced(griffe.Extension):
    """Fences every example of a docstring, from its first prompt to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **options: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with its examples, and a signature at its start, in fences.

    >>> fenced("Return two.\\n\\n>>> two()\\n2")
    'Return two.\\n\\n```pycon\\n>>> two()\\n2\\n```\\n'
    """
    text = SIGNATURE.sub(r"```python\n\1(\2) -> \3\n```\n\n", text)  # the core's methods have theirs in the docstring
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", text)
