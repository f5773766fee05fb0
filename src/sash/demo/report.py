"""The demo's report: a self-contained HTML page, the same page as an image, and the single figures."""

import base64
import html
from pathlib import Path

from sash import formatting, plot_style
from sash.demo import pictures
from sash.demo.summary import Summary

_NOTES = {
    "arrival": (
        "Events by when they happened and when they arrived. A payment may be reported minutes late, an outage delays "
        "all payments of some cards until they arrive in a burst, and some payments are retracted."
    ),
    "revisions": (
        "A result is emitted when the watermark reaches the end of its window, and again whenever a late event changes "
        "it. Readers of the results only see the latest revision."
    ),
    "load": (
        "Each micro-batch processes the rows that arrived next. The size of the state depends on the largest window "
        "and the lateness, not on how long the stream has been running."
    ),
}
_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; max-width: 1180px; margin: 2.5rem auto }
body { padding: 0 1.2rem }
h1 { font-size: 1.9rem; margin: 0 0 .3rem } .intro { color: #6b7280; margin: 0 0 1.4rem; max-width: 60rem }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 2.2rem; margin: 0 0 1.6rem }
.facts b { display: block; font-size: 1.7rem; color: #d1122f; line-height: 1.2 }
.facts span { color: #6b7280; font-size: .9rem }
.verdict { border-left: 5px solid #12864a; padding: .4rem 1rem; background: #f3faf6; margin: 0 0 2rem }
.verdict.wrong { border-color: #d1122f; background: #fdf3f4 }
figure { margin: 0 0 2.2rem } figure img { width: 100%; height: auto } figcaption { color: #6b7280; max-width: 60rem }
code { background: #f3f4f6; padding: .1em .35em; border-radius: 4px }
"""


def write_report(summary: Summary, out: Path) -> list[Path]:
    """Write report.html, report.png and pictures/ to a folder, and return the paths of the first two.

    Without matplotlib, only the page is written, without figures.
    """
    figures: list[Path] = []
    written = [out / "report.html"]
    if plot_style.available():
        figures = pictures.draw_all(summary, out / "pictures")
        written.append(out / "report.png")
        pictures.draw_page(summary, written[-1], heading(summary), facts(summary))
    draft = written[0].with_suffix(".part")
    draft.write_text(page(summary, figures), encoding="utf-8")
    draft.replace(written[0])
    return written


def heading(summary: Summary) -> str:
    """Return the title of the report."""
    return "Late, out-of-order payments: " + ("every result verified" if summary.verdict.holds else "RESULTS ARE WRONG")


def facts(summary: Summary) -> list[tuple[str, str]]:
    """Return the numbers at the top of the report, each with its label."""
    numbers = summary.numbers
    return [
        (formatting.count(numbers["events"]), f"events of\n{numbers['keys']:,.0f} {summary.rules.key}s"),
        (formatting.count(numbers["out_of_order"]), "arrived\nout of order"),
        (formatting.count(numbers["revising"]), "arrived after their\nresults were emitted"),
        (formatting.count(numbers["revisions"]), "results\nrevised"),
        (f"{numbers['too_late']:,.0f}", "arrived too late:\ncounted, left out"),
        (f"{numbers['verified']:,.0f}", "results equal to\na recomputation" if summary.verdict.holds else "compared"),
        (
            formatting.count(numbers["rows_per_second"]),
            f"rows/s in the median\nof {len(summary.busy)} micro-batches",
        ),
    ]


def page(summary: Summary, figures: list[Path]) -> str:
    """Return the page, with its figures embedded."""
    numbers = "".join(
        f"<div><b>{html.escape(number)}</b><span>{html.escape(' '.join(what.split()))}</span></div>"
        for number, what in facts(summary)
    )
    titles = {name: title for name, (title, _, _) in pictures.sections(summary).items()}
    embedded = "".join(_figure(path, titles[path.stem]) for path in figures)
    hint = "" if figures else '<p>To add figures, run <code>pip install "sash[plot]"</code> and the demo again.</p>'
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>sash demo</title><style>{_STYLE}</style>'
        f"</head>\n<body><h1>{html.escape(heading(summary))}</h1>\n"
        f'<p class="intro">{html.escape(_introduction(summary))}</p>\n'
        f'<div class="facts">{numbers}</div>\n{_verdict(summary)}\n{embedded}{hint}</body></html>\n'
    )


def _introduction(summary: Summary) -> str:
    rules = summary.rules
    windows = " and ".join(rules.windows)
    return (
        f"For each {rules.key}, every {formatting.duration(rules.every / 1e6)}: the number of payments, their total "
        f"and the largest one over the last {windows}, computed by a Spark stream. Results are emitted "
        f"{formatting.duration(rules.delay / 1e6)} behind the newest event, and revised for "
        f"{formatting.duration(rules.lateness / 1e6)} more."
    )


def _verdict(summary: Summary) -> str:
    verdict = summary.verdict
    if verdict.holds:
        return (
            f'<p class="verdict">Verified: {verdict.compared:,} results of {verdict.keys:,} {summary.rules.key}s, each '
            "equal to a recomputation from the raw events with plain loops.</p>"
        )
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in verdict.wrong[:10])
    return f'<div class="verdict wrong"><p>{len(verdict.wrong):,} results are wrong:</p><ul>{listed}</ul></div>'


def _figure(path: Path, title: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    note = html.escape(_NOTES[path.stem])
    return (
        f'<figure><img alt="{html.escape(title, quote=True)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{note}</figcaption></figure>\n"
    )
