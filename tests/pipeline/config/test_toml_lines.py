"""Lines of keys in TOML: every key that tomllib finds has one, and it is the right one."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.pipeline.config.toml_lines import line_of, lines_of, shown_path

CASES = {
    "tables and dotted keys": (
        'a = 1\n\n[b]\nc.d = 2\n"e f".g = 3\n[b.h.i]\n  j = 4',
        {("a",): 1, ("b",): 3, ("b", "c"): 4, ("b", "c", "d"): 4, ("b", "e f"): 5, ("b", "e f", "g"): 5}
        | {("b", "h"): 6, ("b", "h", "i"): 6, ("b", "h", "i", "j"): 7},
    ),
    "quoted keys": (
        '"a.b" = 1\n\'c"d\' = 2\n"\\u0065\\"" = 3\n[ "x.y" . z ]\n"" = 4',
        {("a.b",): 1, ('c"d',): 2, ('e"',): 3, ("x.y",): 4, ("x.y", "z"): 4, ("x.y", "z", ""): 5},
    ),
    "repeated tables": (
        "[[s]]\na = 1\n[[s]]\na = 2\n[s.t]\nb = 3\n[[s.u]]\nc = 4\n[[s.u]]\nc = 5\n[[s]]\n[[s.u]]\nc = 6",
        {("s",): 1, ("s", 0): 1, ("s", 0, "a"): 2, ("s", 1): 3, ("s", 1, "a"): 4, ("s", 1, "t"): 5}
        | {("s", 1, "t", "b"): 6, ("s", 1, "u"): 7, ("s", 1, "u", 0): 7, ("s", 1, "u", 0, "c"): 8}
        | {("s", 1, "u", 1): 9, ("s", 1, "u", 1, "c"): 10, ("s", 2): 11, ("s", 2, "u"): 12}
        | {("s", 2, "u", 0): 12, ("s", 2, "u", 0, "c"): 13},
    ),
    "arrays over lines": (
        'a = [ # one\n  1, 2,\n\n  "x, ]", # ]\n  [3,\n   4],\n]\nb = []',
        {("a",): 1, ("a", 0): 2, ("a", 1): 2, ("a", 2): 4, ("a", 3): 5, ("a", 3, 0): 5, ("a", 3, 1): 6, ("b",): 8},
    ),
    "inline tables": (
        'a = {b = 1, c.d = "}", e = {f = [1, {g = 2}]}}\nh = [{i = 1},\n {i = 2}]',
        {("a",): 1, ("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d"): 1, ("a", "e"): 1, ("a", "e", "f"): 1}
        | {("a", "e", "f", 0): 1, ("a", "e", "f", 1): 1, ("a", "e", "f", 1, "g"): 1, ("h",): 2, ("h", 0): 2}
        | {("h", 0, "i"): 2, ("h", 1): 3, ("h", 1, "i"): 3},
    ),
    "strings over lines that look like keys": (
        'a = """\n[x]\nb = 1 \\"""\n""""\nc = \'\'\'\nd = 2\n[[y]]\'\'\'\ne = "f = \\" #"\ng = \'#\' # h = 1',
        {("a",): 1, ("c",): 5, ("e",): 8, ("g",): 9},
    ),
    "other values and line ends": (
        "a = 1979-05-27 07:32:00 # x\r\nb = 0x1f\r\nc = -inf\r\n\r\nd = true\r\n",
        {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 5},
    ),
    "nothing": ("# [a]\n\n", {}),
}


@pytest.mark.parametrize("text, wanted", CASES.values(), ids=CASES)
def test_lines_of_keys(text, wanted):
    """Every key has its line, and text inside of strings and comments has none."""
    assert paths_in(tomllib.loads(text)) == set(wanted)
    assert lines_of(text) == wanted


def paths_in(value, path=()):
    """Return all paths of what tomllib gave."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = set()
    for key, inner in items:
        found |= {(*path, key)} | paths_in(inner, (*path, key))
    return found


KEYS = st.text(st.sampled_from("ab.-_ \"'#=[]é"), max_size=4)
SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.text(st.sampled_from("a=[]{}#,\"'\n\\ "), max_size=9))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


class Writer:
    """Writes TOML in a way that draws decide, and notes the line of each key as it goes."""

    def __init__(self, draw):
        self.draw, self.text, self.lines = draw, "", {}

    def put(self, text):
        self.text += text

    def note(self, path):
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def gap(self):
        self.put(self.draw(st.sampled_from(["", " ", "\n", "\n# a = [1]\n", "\t"])))

    def key(self, name):
        self.put(name if name.replace("a", "").replace("b", "") == "" != name else json.dumps(name))

    def value(self, value, path):
        if isinstance(value, dict):
            self.inline(value, path)
        elif isinstance(value, list):
            self.put("[")
            for place, inner in enumerate(value):
                self.gap()
                self.note((*path, place))
                self.value(inner, (*path, place))
                self.gap()
                self.put(",")
            self.gap()
            self.put("]")
        elif isinstance(value, str):
            self.string(value)
        else:
            self.put(json.dumps(value))

    def string(self, value):
        """Write text in one of three ways; TOML leaves out a line's end that comes first in one over lines."""
        if "'''" not in value and not value.endswith("'") and self.draw(st.booleans()):
            self.put(f"'''\n{value}'''")
        elif self.draw(st.booleans()):
            self.put('"""\n' + value.replace("\\", "\\\\").replace('"', '\\"') + '"""')
        else:
            self.put(json.dumps(value))

    def inline(self, table, path):
        self.put("{")
        for place, (name, inner) in enumerate(table.items()):
            self.put(", " if place else " ")
            self.note((*path, name))
            self.key(name)
            self.put(" = ")
            self.value(inner, (*path, name))
        self.put(" }")

    def table(self, table, path):
        """Write plain values first, then tables and arrays of tables under their headers."""
        headed = {name: inner for name, inner in table.items() if self.headed(inner)}
        for name, inner in table.items():
            if name not in headed:
                self.note((*path, name))
                self.key(name)
                self.put(" = ")
                self.value(inner, (*path, name))
                self.put(self.draw(st.sampled_from(["\n", " # b = 2\n", "\n\n"])))
        for name, inner in headed.items():
            for place, element in enumerate(inner if isinstance(inner, list) else [inner]):
                repeated = isinstance(inner, list)
                at = (*path, name, place) if repeated else (*path, name)
                self.note((*path, name))
                self.note(at)
                self.header([part for part in at if isinstance(part, str)], repeated)
                self.table(element, at)

    def headed(self, value):
        tables = isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value)
        return (isinstance(value, dict) or tables) and self.draw(st.booleans())

    def header(self, names, repeated):
        self.put("[[" if repeated else "[")
        for place, name in enumerate(names):
            self.put(" . " if place else "")
            self.key(name)
        self.put("]]\n" if repeated else "]\n")


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_lines_of_any_text(data, table):
    """Whatever is written in whatever way, the lines are those on which it was written."""
    writer = Writer(data.draw)
    writer.table(table, ())
    assert tomllib.loads(writer.text) == table
    assert lines_of(writer.text) == writer.lines


def test_a_missing_key_stands_where_its_table_does():
    lines = lines_of("\n[a]\nb = 1\n[[c]]\n[[c]]")
    assert line_of(lines, ("a", "x")) == 2
    assert line_of(lines, ("c", 1, "where")) == 5
    assert line_of(lines, ("x",)) == 1


def test_paths_are_shown_as_they_are_written():
    assert shown_path(("a", 0, "b c", 2, 3)) == 'a[0]."b c"[2][3]'
