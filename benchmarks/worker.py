"""The process of one side, started by `benchmarks.baseline`: it creates a case and calls its methods on request.

A message is a line of JSON with a method's name and its arguments. The answer is a line with a kind and the result of
the method. Anything else that is printed goes to standard error.
"""

import importlib
import json
import os
import sys
from typing import Any, TextIO

import sash


def main() -> None:
    """Serve requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, "done", sash.__file__)
    case: Any = None
    for line in sys.stdin:
        name, options = json.loads(line)
        try:
            if name == "make":
                case = None  # free the previous one first
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
