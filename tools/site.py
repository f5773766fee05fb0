"""Hooks of MkDocs: pages and files that the site takes from elsewhere in the repository.

The pages in docs/ are read on a code host too, so their links are those of the repository. Here they are turned into
those of the site. The explorer is recorded from the installed sash at each build.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from sash.explore.record import PAGE, recorded
from sash.explore.server import page_file

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "experiments" / "figures"
CAPTIONS = {
    "distance": "Throughput by out-of-order distance",
    "random_distance": "Throughput at random distances",
    "combines": "Combines of a round",
    "fifo": "In order, by the size of the window",
    "latency": "How long single rounds take",
    "sharing": "A small window beside a large one",
    "bulk": "Batches",
    "memory": "Bytes for each entry",
    "spark": "On Spark",
}
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))|(?<= src=')([^':]+)(?=')")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files that are not in docs/."""
    added: dict[str, str | bytes] = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        "CHANGELOG.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        "decisions/index.md": decisions(),
        "figures.md": figures(),
        "explorer/recorded.js": recorded(),
        "examples/scoring_service.py": (ROOT / "examples" / "scoring_service.py").read_bytes(),
    }
    added |= {f"explorer/{name}": page_file(name) for name in PAGE}
    added |= {f"figures/{path.name}": path.read_bytes() for path in FIGURES.iterdir() if path.is_file()}
    for uri, content in added.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links of the repository into links of the site."""
    uri = page.file.src_uri
    home = posixpath.join("docs", posixpath.dirname(uri)) if is_in_docs(uri) else ""

    def turned(match: re.Match[str]) -> str:
        path, anchor = match[1] or match[3], match[2] or ""
        target = place_of(posixpath.normpath(posixpath.join(home, path)))
        return posixpath.relpath(target, posixpath.dirname(uri) or ".") + anchor

    return LINK.sub(turned, markdown)


def is_in_docs(uri: str) -> bool:
    """Return whether a page of the site is a file in docs/."""
    return (ROOT / "docs" / uri).exists()


def place_of(path: str) -> str:
    """Return where a file of the repository is in the site.

    >>> place_of("README.md"), place_of("docs/spark.md"), place_of("experiments/figures/fifo.png")
    ('index.md', 'spark.md', 'figures/fifo.png')
    """
    if path in ("README.md", "docs/decisions"):
        return {"README.md": "index.md"}.get(path, "decisions/index.md")
    return path.removeprefix("docs/").replace("experiments/figures/", "figures/")


def decisions() -> str:
    """Return a page that lists the decision records."""
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    lines = [f"* [{title_of(path)}](docs/decisions/{path.name})" for path in records]
    return "# Design decisions\n\nHalf a page for each choice that someone will question.\n\n" + "\n".join(lines) + "\n"


def title_of(path: Path) -> str:
    """Return the heading of a page."""
    return path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def figures() -> str:
    """Return the page of figures, with the report of the last run if there is one."""
    names = [name for name in CAPTIONS if (FIGURES / f"{name}.png").exists()]
    pictures = "\n\n".join(f"## {CAPTIONS[name]}\n\n![{CAPTIONS[name]}](figures/{name}.png)" for name in names)
    report = "[The report of the last run](figures/report.html) has all numbers and claims.\n\n"
    has_report = (FIGURES / "report.html").exists()
    return (
        "# Figures\n\nThe figures of the paper and a few more, as `make figures-full` measured them. What they show is "
        f"in [benchmarks](benchmarks.md); `make figures` draws them on your machine.\n\n{report if has_report else ''}"
        f"{pictures}\n"
    )
