"""The line of every key and array element of a TOML text, which `tomllib` does not report.

`lines_of` takes text that `tomllib` has parsed already: it validates nothing and, quoted keys aside, parses no values.
A path consists of keys and, for arrays, indices: ("rolling", "windows", 1).
"""

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_GAP = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}\n#]*")
# A multi-line string ends with its last three quotes: up to two more may precede them.
_STRINGS = {
    '"""': re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})', re.DOTALL),
    "'''": re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    '"': re.compile(r'"(?:\\.|[^"\\\n])*"'),
    "'": re.compile(r"'[^'\n]*'"),
}


def lines_of(text: str) -> dict[Path, int]:
    r"""Return the line, from 1, of every key, table and array element of a TOML text.

    >>> lines = lines_of('[a]\nb = [1,\n  2]\n[[c]]\nd = {e = 1}')
    >>> lines["a", "b", 1], lines["c", 0], lines["c", 0, "d", "e"]
    (3, 4, 5)
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def line_of(lines: dict[Path, int], path: Path) -> int:
    """Return the line of a key, or that of the table it is missing from.

    >>> line_of({("a",): 3, ("a", "b"): 4}, ("a", "c"))
    3
    """
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 1


def shown_path(path: Path) -> str:
    """Return a path as TOML writes it, with indices in brackets.

    >>> shown_path(("rolling", "windows", 1)), shown_path(("spark", "conf", "spark.ui.port"))
    ('rolling.windows[1]', 'spark.conf."spark.ui.port"')
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE.fullmatch(part) else f'"{part}"')
    return text


class _Scanner:
    """A scanner over a TOML text that records the line of each key."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}  # arrays of tables, and their lengths
        self._counted = (0, 1)  # a position and its line, to count from

    def document(self) -> None:
        table: Path = ()
        while self._skip(_SPACE) < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        repeated = self.text.startswith("[[", self.at)
        line = self._line()
        self.at += 2 if repeated else 1
        names = [name for name, _ in self._key()]
        self.at += 2 if repeated else 1
        path: Path = ()
        for name in names[:-1]:
            path = self._inside((*path, name), line)
        path = (*path, names[-1])
        if repeated:
            self._tables[path] = self._tables.get(path, 0) + 1
        return self._inside(path, line)

    def _inside(self, path: Path, line: int) -> Path:
        """Return the path of a table, or of the last table of an array, and record where it begins."""
        self.lines.setdefault(path, line)
        if path in self._tables:
            path = (*path, self._tables[path] - 1)
            self.lines.setdefault(path, line)
        return path

    def _pair(self, table: Path) -> None:
        path = table
        for name, line in self._key():
            path = (*path, name)
            self.lines.setdefault(path, line)
        self.at += 1  # the equals sign
        self._skip(_GAP)
        self._value(path)

    def _key(self) -> Iterator[tuple[str, int]]:
        """Yield the parts of a key, which may be dotted, and stop at what follows it."""
        while True:
            self._skip(_GAP)
            line = self._line()
            quote = self.text[self.at]
            pattern = _STRINGS.get(quote, _BARE)
            found = self._take(pattern)
            yield (next(iter(tomllib.loads(f"{found} = 0"))) if quote in _STRINGS else found), line
            self._skip(_GAP)
            if self.text[self.at] != ".":
                return
            self.at += 1

    def _value(self, path: Path) -> None:
        for quotes, pattern in _STRINGS.items():
            if self.text.startswith(quotes, self.at):
                self._take(pattern)
                return
        if self.text[self.at] == "[":
            self._array(path)
        elif self.text[self.at] == "{":
            self._table(path)
        else:
            self._take(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        place = 0
        while self.text[self._skip(_SPACE)] != "]":
            self.lines[(*path, place)] = self._line()
            self._value((*path, place))
            place += 1
            if self.text[self._skip(_SPACE)] == ",":
                self.at += 1
        self.at += 1

    def _table(self, path: Path) -> None:
        self.at += 1
        while self.text[self._skip(_SPACE)] != "}":
            self._pair(path)
            if self.text[self._skip(_SPACE)] == ",":
                self.at += 1
        self.at += 1

    def _line(self) -> int:
        since, line = self._counted
        self._counted = (self.at, line + self.text.count("\n", since, self.at))
        return self._counted[1]

    def _skip(self, pattern: re.Pattern[str]) -> int:
        self._take(pattern)
        return self.at

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None, f"not TOML at {self.at}"
        self.at = found.end()
        return found[0]
