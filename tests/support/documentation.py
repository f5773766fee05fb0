"""The code in the documentation, run."""

import re
from pathlib import Path
from typing import Any


def run_blocks(page: Path, capsys: Any, scope: dict[str, Any] | None = None) -> int:
    """Run every Python block of a page, compare what it prints with its comments, and give how many there were.

    Each has names of its own, unless there is a scope for all.
    """
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, page.name, "exec"), {} if scope is None else scope)
        said = re.findall(r"print\(.*\)  # (.*)", block)
        shown = capsys.readouterr().out.splitlines()
        for line, wanted in zip(shown, said, strict=bool(said)):
            assert line.startswith(wanted.removesuffix("..."))
    return len(blocks)
