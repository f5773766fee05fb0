"""Plain English in code, documentation and messages: phrases that crept in before and should not return."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Between two words there may be a line break, with the marks of a comment or of a string literal around it.
GAP = r"""["'\s/#*]+f?["']?"""
PHRASES = {
    r"\bGive\b": "start with what is returned or done, as in 'Return ...'",
    # "there is no such key" and "it is no longer known" are plain English; "-1 is no size" is not.
    rf"(?<![Tt]here\s)\bis{GAP}no\b(?!{GAP}longer\b)": "write 'is not a ...' or 'must be ...'",
    r"\banew\b": "write 'again', or the verb: 'rebuild'",
    rf"\bat{GAP}hand\b": "write 'current' or 'available'",
    rf"\bunless{GAP}told\b": "write 'default'",
}
# A line that quotes a phrase on purpose carries this mark.
QUOTED = "english: quoted"

PLACES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "CMakeLists.txt", "pyproject.toml"]
PLACES += ["src", "core", "docs", "tools", "benchmarks", "experiments"]
SUFFIXES = {".py", ".pyi", ".toml", ".hpp", ".cpp", ".md", ".sh"}


def files_of(place: str) -> list[Path]:
    """Return the text files of a place; decision records are left as they were written."""
    path = ROOT / place
    found = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
    return [file for file in found if ROOT / "docs" / "decisions" not in file.parents]


def text_of(file: Path) -> str:
    """Return the text of a file, of the changelog the part that is not released."""
    text = file.read_text(encoding="utf-8")
    return "".join(re.split(r"(?m)^(?=## )", text)[:2]) if file.name == "CHANGELOG.md" else text


def tics_in(text: str) -> list[tuple[int, str, str]]:
    """Return the line, the phrase and the advice for each phrase in a text."""
    lines = text.split("\n")
    found = []
    for phrase, advice in PHRASES.items():
        for match in re.finditer(phrase, text):
            line = text.count("\n", 0, match.start()) + 1
            if QUOTED not in lines[line - 1]:
                found.append((line, " ".join(match[0].split()), advice))
    return sorted(found)


@pytest.mark.parametrize("place", PLACES)
def test_plain_english(place):
    """No text that a user or a contributor reads has one of the phrases."""
    files = files_of(place)
    assert files, f"{place} has no text files"
    found = [
        f"{file.relative_to(ROOT)}:{line}: {phrase!r}: {advice}"
        for file in files
        for line, phrase, advice in tics_in(text_of(file))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        '"""Give the sum."""',
        "Nothing. Give it a name.",
        "size: -1 is no size",
        "// which is\n    // no number",
        'f"{x} is "\n    f"no number"',
        "built anew",
        "the batch at hand",
        "all at\nhand",
        "| key | unless told |",
    ],
)
def test_the_phrases_are_found(text):
    """Each phrase is found wherever it stands, also across the lines of a comment or of a string."""
    assert len(tics_in(text)) == 1
    assert not tics_in(text.replace("\n", f"  # {QUOTED}\n", 1) if "\n" in text else f"{text}  # {QUOTED}")


@pytest.mark.parametrize(
    "text",
    [
        "Return the sum.",
        "it is no longer known",
        "there is no such key",
        "is not a size",
        "if x is None",
        "a given name",
        "to give one",
        "canewas",
        "at handover",
        "that hand",
    ],
)
def test_good_english_passes(text):
    """What only looks like one of the phrases is fine."""
    assert not tics_in(text)


def test_the_line_is_that_of_the_phrase():
    """The report names the line at which the phrase starts."""
    assert [line for line, _, _ in tics_in("one\ntwo\nat hand\nfour\nbuilt anew")] == [3, 5]
