"""Draws every figure that has rows and writes report.html, a self-contained file."""

import base64
import html
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from string import Template

from experiments import FIGURES, style
from experiments.case import Row, Rows, read_all
from experiments.claims import PAPERS
from experiments.evidence import Claim, Found, Measured
from experiments.fiba_claims import OURS, losses
from experiments.machine import STAMPS

_WORDS = {True: "holds", False: "does not hold", None: "cannot tell"}
_CLASSES = {True: "yes", False: "no", None: "open"}


def write_report(results: Path, pictures: Path) -> Path:
    """Draw all figures into a folder and return the path of the report next to them."""
    measured = dict(read_all(results, FIGURES, STAMPS))
    if not measured:
        raise FileNotFoundError(f"{results} has no results to draw; measure first.")
    pictures.mkdir(parents=True, exist_ok=True)
    for figure, rows in measured.items():
        draw(figure, rows, pictures / f"{figure}.png")
    path = pictures / "report.html"
    path.write_text(_page(measured, pictures), encoding="utf-8")
    return path


def draw(figure: str, rows: Rows, path: Path) -> None:
    """Draw one figure into a file."""
    with style.context():
        style.save(import_module(f"experiments.{figure}").draw(rows), path)


# --- the page -------------------------------------------------------------------------------------


def _page(measured: Measured, pictures: Path) -> str:
    found = {id(claim): claim.found(measured) for claim in (*PAPERS, *OURS)}
    row = next(iter(measured.values()))[0]
    return _PAGE.substitute(
        stamps=" · ".join(html.escape(part) for part in _stamps(row)),
        summary=_summary([found[id(claim)] for claim in PAPERS]),
        figures="\n".join(_figure(figure, pictures, found) for figure in measured),
        ours=_table(OURS, found),
        losses=_losses(measured),
        method=_method(row),
    )


def _stamps(row: Row) -> Iterable[str]:
    yield f"{row['scale']} run of {row['date']}"
    yield f"commit {row['commit']}"
    yield f"{row['cpu']}, {row['cores']} cores, {row['memory']}"
    yield f"{row['system']}, {row['compiler']}, Python {row['python']}, NumPy {row['numpy']}"


def _summary(found: list[Found]) -> str:
    count = {holds: sum(one.holds is holds for one in found) for holds in (True, False, None)}
    return (
        f"Of {len(found)} sentences of the paper that can be checked, <b>{count[True]} hold</b> here, "
        f"<b>{count[False]} do not</b>, and {count[None]} cannot be decided from these rows."
    )


def _figure(figure: str, pictures: Path, found: dict[int, Found]) -> str:
    data = base64.b64encode((pictures / f"{figure}.png").read_bytes()).decode()
    caption = html.escape(import_module(f"experiments.{figure}").CAPTION)
    claims = [claim for claim in PAPERS if claim.figure == figure]
    return (
        f'<section id="{figure}"><figure><img alt="{figure}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>{_table(claims, found)}</section>"
    )


def _table(claims: list[Claim], found: dict[int, Found]) -> str:
    if not claims:
        return ""
    lines = [_line(claim, found[id(claim)]) for claim in claims]
    head = "<tr><th>claim</th><th>holds if</th><th>measured here</th><th></th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _line(claim: Claim, found: Found) -> str:
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in (claim.sentence, claim.counts, found.measured))
    return f'<tr>{cells}<td class="{_CLASSES[found.holds]}">{_WORDS[found.holds]}</td></tr>'


def _losses(measured: Measured) -> str:
    lines = [f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in loss)}</tr>" for loss in losses(measured)]
    if not lines:
        return "<p>Nowhere in these rows.</p>"
    return f"<table><tr><th>figure</th><th>panel</th><th>at</th><th>at worst</th></tr>{''.join(lines)}</table>"


def _method(row: Row) -> str:
    repeats = len(row["samples"].split())
    return (
        f"Every case ran in a separate process. Before it was timed, its load ran on a small window and was compared "
        f"with a recomputation from scratch after every round; the answer of the large window was checked before and "
        f"after. {repeats} samples of each case were taken in turns with its rivals. Figures show medians, with the "
        f"minimum and the maximum as a shade. Loops are native, creating the input is not timed, and the clock is that "
        f"of the thread. Seeds are fixed. All samples are in the CSV files."
    )


_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>sash: the paper's figures, redrawn</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 1180px; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 2rem; margin-bottom: .2rem; } h2 { margin-top: 3rem; }
.stamps, figcaption { color: #6b7280; font-size: .92rem; }
figure { margin: 2.6rem 0 .8rem; } img { width: 100%; height: auto; border: 1px solid #e5e7eb; border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .6rem 0 1rem; }
th { text-align: left; color: #6b7280; font-weight: 600; }
td, th { padding: .4rem .7rem .4rem 0; border-bottom: 1px solid #e5e7eb; vertical-align: top; }
td:last-child { white-space: nowrap; } td.yes { color: #12864a; font-weight: 600; }
td.no { color: #d1122f; font-weight: 600; } td.open { color: #6b7280; }
</style></head><body>
<h1>The paper's figures, redrawn</h1>
<p class="stamps">$stamps</p>
<p>“Sub-O(log n) Out-of-Order Sliding-Window Aggregation” measures rounds of evict, insert and query. These are its four
figures on this machine, and five more: <b>fiba</b> is sash's own tree, <b>paper</b> is FiBA as printed, <b>classic</b>
the augmented B-tree.</p>
<p>$summary</p>
$figures
<h2>Claims about fiba</h2>
$ours
<h2>Where fiba loses</h2>
<p>Every panel in which another structure is ahead by 5 % or more at some point: in time, or in bytes or combines where
those are shown.</p>
$losses
<h2>How this was measured</h2>
<p>$method</p>
</body></html>
""")
