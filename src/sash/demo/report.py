"""The demo's report: one page in HTML that needs no other file, the same page as a picture, and the single pictures."""

import base64
import html
from pathlib import Path

from sash import formatting, plot_style
from sash.demo import pictures
from sash.demo.summary import Story

_NOTES = {
    "arrival": (
        "Events are drawn by when they happened and when they arrived. A payment may be reported minutes later, an "
        "outage holds back all payments of some cards and lets them go in a burst, and some payments are taken back."
    ),
    "revisions": (
        "A result is shown when the watermark reaches its window's end, and again whenever a late event changes it. "
        "Readers of the results see the latest revision only."
    ),
    "load": (
        "Each micro-batch of Spark takes the rows that arrived next. State follows what the largest window and the "
        "lateness reach back to, not how long the stream has been running."
    ),
}
_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; max-width: 1180px; margin: 2.5rem auto }
body { padding: 0 1.2rem }
h1 { font-size: 1.9rem; margin: 0 0 .3rem } .said { color: #6b7280; margin: 0 0 1.4rem; max-width: 60rem }
.facts { display: flex; flex-wrap: wrap; gap: 1rem 2.2rem; margin: 0 0 1.6rem }
.facts b { display: block; font-size: 1.7rem; color: #d1122f; line-height: 1.2 }
.facts span { color: #6b7280; font-size: .9rem }
.verdict { border-left: 5px solid #12864a; padding: .4rem 1rem; background: #f3faf6; margin: 0 0 2rem }
.verdict.wrong { border-color: #d1122f; background: #fdf3f4 }
figure { margin: 0 0 2.2rem } figure img { width: 100%; height: auto } figcaption { color: #6b7280; max-width: 60rem }
code { background: #f3f4f6; padding: .1em .35em; border-radius: 4px }
"""


def write_report(story: Story, out: Path) -> list[Path]:
    """Write report.html, report.png and pictures/ into a folder, and give the paths of the first two.

    Without matplotlib there is the page alone, without pictures.
    """
    drawn: list[Path] = []
    written = [out / "report.html"]
    if plot_style.available():
        drawn = pictures.draw_all(story, out / "pictures")
        written.append(out / "report.png")
        pictures.draw_page(story, written[-1], heading(story), facts(story))
    draft = written[0].with_suffix(".part")
    draft.write_text(page(story, drawn), encoding="utf-8")
    draft.replace(written[0])
    return written


def heading(story: Story) -> str:
    """Say in one line what was shown."""
    return "Late, out-of-order payments: " + ("every result verified" if story.verdict.holds else "RESULTS ARE WRONG")


def facts(story: Story) -> list[tuple[str, str]]:
    """Return the numbers at the head of the report, each with what it counts."""
    numbers = story.numbers
    return [
        (formatting.count(numbers["events"]), f"events of\n{numbers['keys']:,.0f} {story.rules.key}s"),
        (formatting.count(numbers["out_of_order"]), "arrived\nout of order"),
        (formatting.count(numbers["revising"]), "came after their\nresults were shown"),
        (formatting.count(numbers["revisions"]), "results\nrevised"),
        (f"{numbers['too_late']:,.0f}", "came too late:\ncounted, left out"),
        (f"{numbers['verified']:,.0f}", "results equal to\na recomputation" if story.verdict.holds else "compared"),
        (
            formatting.count(numbers["rows_per_second"]),
            f"rows/s, median;\n{formatting.duration(numbers['seconds'])} in all",
        ),
    ]


def page(story: Story, drawn: list[Path]) -> str:
    """Return the page, its pictures inside."""
    told = "".join(
        f"<div><b>{html.escape(number)}</b><span>{html.escape(' '.join(what.split()))}</span></div>"
        for number, what in facts(story)
    )
    titles = {name: title for name, (title, _, _) in pictures.sections(story).items()}
    figures = "".join(_figure(path, titles[path.stem]) for path in drawn)
    missing = "" if drawn else '<p>For pictures run <code>pip install "sash[plot]"</code> and the demo again.</p>'
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>sash demo</title><style>{_STYLE}</style>'
        f'</head>\n<body><h1>{html.escape(heading(story))}</h1>\n<p class="said">{html.escape(_asked(story))}</p>\n'
        f'<div class="facts">{told}</div>\n{_verdict(story)}\n{figures}{missing}</body></html>\n'
    )


def _asked(story: Story) -> str:
    rules = story.rules
    windows = " and ".join(rules.windows)
    return (
        f"Per {rules.key}, every {formatting.duration(rules.every / 1e6)}: how many payments, their total and the "
        f"largest one of the last {windows}, in a Spark stream. Results wait "
        f"{formatting.duration(rules.delay / 1e6)} for the watermark and are revised for "
        f"{formatting.duration(rules.lateness / 1e6)} more."
    )


def _verdict(story: Story) -> str:
    verdict = story.verdict
    if verdict.holds:
        return (
            f'<p class="verdict">Verified: {verdict.compared:,} results of {verdict.keys:,} {story.rules.key}s, each '
            "equal to what plain loops over the raw events give.</p>"
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
