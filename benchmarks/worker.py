"""One side's process, which `benchmarks.baseline` starts: it makes a case and calls its methods as told.

A message is a line of JSON, a method's name and its arguments; the answer is a line too, a kind and what the method
returned. Whatever else is printed goes to the standard error.
"""

import importlib
import json
import os
import sys
from typing import Any, TextIO

import sash


def main() -> None:
    """Do what comes in until there is no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, "done", sash.__file__)
    case: Any = None
    for line in sys.stdin:
        name, options = json.loads(line)
        try:
            if name == "make":
                case = None  # what it held is let go of first
                case, result = _made(**options), None
            else:
                result = getattr(case, name)(**options)
        except SystemExit as wrong:
            _say(answers, "error", str(wrong))
            return
        _say(answers, "done", result)


def _made(path: str, **options: Any) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)(**options)


def _say(answers: TextIO, kind: str, content: Any) -> None:
    answers.write(json.dumps([kind, content]) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
