"""Drawings of trees: the nodes of `Window.nodes()` and `KeyedWindows.nodes()` as SVG.

The colors are the paper's: the root gray, the left spine blue, the right spine green. Each box has the values (in an
inner node of `fiba` the times that separate its children), and below it the aggregate that the node stores.
"""

from dataclasses import dataclass, field
from html import escape
from typing import Any

from sash.errors import KindError, shown
from sash.window.window import Window

_FILL = {"root": "#d9d9d9", "left": "#9ec5ea", "right": "#a9d8a4", None: "#ffffff"}
_LETTER, _HIGH, _GAP, _LEVEL, _EDGE = 8.4, 26, 14, 92, 16
_FONT = "font-family='ui-monospace, DejaVu Sans Mono, monospace'"


@dataclass
class _Box:
    """A node with its position in the drawing."""

    text: str
    below: str
    spine: str | None
    children: list["_Box"] = field(default_factory=list)
    centre: float = 0.0

    @property
    def width(self) -> float:
        return max(len(self.text), 2) * _LETTER + 14


def svg(window: Window) -> str:
    """Return a drawing of a window's tree as an SVG document, for the structures "fiba", "paper" and "classic".

    >>> from sash import Window, monoids
    >>> w = Window(monoids.sum())
    >>> w.insert_many([1, 2], [10, 20])
    >>> svg(w)[:4], ">10 20<" in svg(w)
    ('<svg', True)
    """
    if not isinstance(window, Window):
        raise KindError(f"window must be a Window, got {shown(window)}.", argument="window")
    return svg_of(window.nodes())


def svg_of(root: dict[str, Any] | None) -> str:
    """Return the drawing of a tree from its nodes, those of a `Window` or of a key's rows.

    >>> "rect" in svg_of({"keys": [1], "values": [10], "aggregate": None, "spine": "root", "children": []})
    True
    """
    if root is None:
        return _document([], 120, 60)
    top = _box(root)
    right = _place(top, _EDGE)
    parts: list[str] = []
    _draw(top, _EDGE, parts)
    return _document(parts, right + _EDGE, 2 * _EDGE + (_depth(top) - 1) * _LEVEL + _HIGH + 14)


def _box(node: dict[str, Any]) -> _Box:
    items = node["values"] or node["keys"]
    letters = all(isinstance(item, str) and len(item) == 1 for item in items)
    text = ("" if letters else " ").join(map(_short, items))
    below = "" if node["aggregate"] is None else _short(node["aggregate"], 22)
    return _Box(text, below, node["spine"], [_box(child) for child in node["children"]])


def _short(value: Any, most: int = 12) -> str:
    if isinstance(value, dict) and len(value) == 1:  # the only aggregate of a key's rows
        (value,) = value.values()
    text = value if isinstance(value, str) else shown(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _place(box: _Box, left: float) -> float:
    """Place a subtree to the right of `left` and return its right edge."""
    right = left
    for child in box.children:
        right = _place(child, right) + _GAP
    own = max(box.width, len(box.below) * _LETTER * 0.8)
    right = max(right - _GAP * bool(box.children), left + own)
    inside = [child.centre for child in box.children]
    box.centre = (inside[0] + inside[-1]) / 2 if inside else (left + right) / 2
    return right


def _depth(box: _Box) -> int:
    return 1 + max(map(_depth, box.children), default=0)


def _draw(box: _Box, top: float, parts: list[str]) -> None:
    for child in box.children:
        parts.append(
            f"<path d='M{box.centre:.1f} {top + _HIGH:.1f} L{child.centre:.1f} {top + _LEVEL:.1f}' stroke='#888'/>"
        )
        _draw(child, top + _LEVEL, parts)
    left = box.centre - box.width / 2
    parts.append(
        f"<rect x='{left:.1f}' y='{top:.1f}' width='{box.width:.1f}' height='{_HIGH}' rx='5' "
        f"fill='{_FILL[box.spine]}' stroke='#333'/>"
    )
    parts.append(_text(box.centre, top + 18, 14, "#111", box.text))
    if box.below:
        parts.append(_text(box.centre, top + _HIGH + 14, 11, "#a03000", box.below))


def _text(x: float, y: float, size: int, colour: str, text: str) -> str:
    """Return a line of text with a white outline, so that the lines between nodes do not cross it."""
    style = "paint-order='stroke' stroke='#fff' stroke-width='3'" if size < 14 else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='middle' fill='{colour}' {style} {_FONT}>"
        f"{escape(text)}</text>"
    )


def _document(parts: list[str], width: float, height: float) -> str:
    size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
    ground = "<rect width='100%' height='100%' fill='#fff'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{ground}{''.join(parts)}</svg>\n"
