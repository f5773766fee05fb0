"""The explorer without a server: the page with all stories recorded, in a folder that any browser opens.

`python -m sash.explore.record FOLDER` writes it.
"""

import json
import sys
from pathlib import Path

from sash.explore.play import described, played
from sash.explore.server import page_file
from sash.explore.stories import STORIES

PAGE = ("index.html", "explorer.css", "tree.js", "axis.js", "costs.js", "explorer.js")


def write_recorded(folder: Path) -> None:
    """Write the page and the recorded steps of all stories to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGE:
        (folder / name).write_bytes(page_file(name))
    (folder / "recorded.js").write_text(recorded(), encoding="utf-8")


def recorded() -> str:
    """Return the recorded steps as a script, which a page from a disk may load where it may not load JSON."""
    data = {
        "stories": [described(story) for story in STORIES.values()],
        "played": {story.key: played(story) for story in STORIES.values()},
    }
    return f"window.RECORDED = {json.dumps(data, ensure_ascii=False, separators=(',', ':'))};\n"


if __name__ == "__main__":
    write_recorded(Path(sys.argv[1]))
