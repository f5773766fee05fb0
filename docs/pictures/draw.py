"""Draw the pictures of docs/algorithm.md: `python docs/pictures/draw.py` writes them next to this file."""

from pathlib import Path

from sash import KeyedWindows, Monoid, Window, monoids
from sash.keyed import definition
from sash.window.draw import svg, svg_of

TEXT = Monoid(identity="", combine=lambda a, b: a + b, name="text")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def filled(**options: object) -> Window:
    """Return a window of the alphabet with every aggregate computed."""
    window = Window(TEXT, **options)  # type: ignore[arg-type]
    window.insert_many(range(len(LETTERS)), list(LETTERS))
    window.query()
    return window


def key_tree() -> str:
    """Return the tree of one key's rows, after a late row was inserted and a window was answered."""
    usual, definition.NODE_SIZES = definition.NODE_SIZES, (4, 4)
    kw = KeyedWindows(
        keys=["card"], time="ts", windows=[80], aggs={"total": monoids.sum("amount")}, emit="arrival", lateness=100
    )
    times = [*range(2, 62, 2)]
    kw.push({"card": ["a"] * len(times), "ts": times, "amount": [*range(1, 31)]})
    kw.push({"card": ["a"], "ts": [25], "amount": [500]})
    definition.NODE_SIZES = usual
    return svg_of(kw.nodes({"card": "a"}))


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    late = filled(leaf_capacity=4, fanout=4)
    late.evict(14)
    slid = filled(leaf_capacity=4, fanout=4)
    slid.evict_until(8)
    slid.query()
    return {
        "fiba.svg": svg(filled(leaf_capacity=4, fanout=4)),
        "paper.svg": svg(filled(structure="paper", min_arity=2)),
        "fiba-stale.svg": svg(late),
        "fiba-slid.svg": svg(slid),
        "key.svg": key_tree(),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        Path(__file__).with_name(name).write_text(picture)
