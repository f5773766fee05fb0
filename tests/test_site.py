"""The documentation as a site: a strict build, in which broken links and missing references fail."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    """Each page in docs/ has a page of the site, and so have the explorer and what comes from elsewhere."""
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    for page in [*pages, Path("CHANGELOG"), Path("CONTRIBUTING"), Path("figures"), Path("decisions")]:
        assert (site / page / "index.html").exists(), page
    made = ("explorer/index.html", "explorer/recorded.js", "figures/distance.png", "search/search_index.json")
    for name in made:
        assert (site / name).exists(), name


def test_the_reference_has_the_methods_of_the_core(site: Path) -> None:
    """The page of Window documents methods that are written in C++, with their examples."""
    text = (site / "reference" / "window" / "index.html").read_text(encoding="utf-8")
    for name in ("insert", "evict_until", "query", "slide", "nodes", "from_bytes"):
        assert f'id="sash.Window.{name}"' in text
    assert "around" in text


def test_the_site_asks_no_other_host(site: Path) -> None:
    """No page loads a script, a style, a font or a picture from elsewhere."""
    source = r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//"""
    style = r"""<link[^>]*rel=["']?stylesheet[^>]*href=["']?(?:https?:)?//"""
    loaded = re.compile(f"{source}|{style}")
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text(encoding="utf-8")), page
