"""A short tour: out-of-order aggregation in a few lines, then the paper's worked example, step by step.

`python -m sash.window.tour` prints it.
"""

import re
from typing import Any

from sash.monoid import Monoid
from sash.monoids import maxcount
from sash.window.window import Window

# Inserts (+) and evicts (-) that build the paper's tree A, and the steps from there. Letters are values; their place in
# the alphabet is their time.
_TO_TREE_A = "+e+f+g+h +c+d +a+b +m+n-h+o+q +h+i+j+k-j+j-m +s+t+u -h+h+l+m"
_STEPS = {
    "A→B": ("+v", "in order, nothing to rebalance"),
    "B→C": ("+r", "out of order, nothing to rebalance"),
    "C→D": ("-a", "in order, nothing to rebalance"),
    "D→E": ("+p", "out of order, a node overflows: split"),
    "E→F": ("-b", "a node underflows: merge"),
}


def _concatenate(a: str, b: str) -> str:
    return a + b


def main() -> None:
    """Print the tour."""
    _print_opening()
    window = Window(Monoid(identity="", combine=_concatenate, name="text"), structure="paper", min_arity=2)
    for sign, letter in re.findall(r"([+-])(\w)", _TO_TREE_A):
        _play(window, sign, letter)
    print("\nThe paper's worked example (µ = 2, values are letters, ⊗ joins them). Tree A:\n")
    _print_tree(window)
    for step, (move, story) in _STEPS.items():
        _print_step(window, step, move, story)


def _print_opening() -> None:
    print("A window accepts values in any order and has the aggregate of all of them at any time.\n")
    window = Window(maxcount())
    for time, value in [(17, 4), (19, 3), (20, 0), (21, 4), (22, 4), (18, 5)]:
        window.insert(time, value)
        print(f"  insert({time}, {value})   max and how often: {window.query()}")
    for time in (17, 18):
        window.evict(time)
        print(f"  evict({time})       max and how often: {window.query()}")
    print(f"  query(20, 21)   of a time range: {window.query(20, 21)}")


def _play(window: Window, sign: str, letter: str) -> None:
    time = ord(letter) - ord("a") + 1
    if sign == "+":
        window.insert(time, letter)
    else:
        window.evict(time)


def _print_step(window: Window, step: str, move: str, story: str) -> None:
    spent, coins, combines = window.spent, _coins(window.nodes()), window.combines
    _play(window, move[0], move[1])
    spent, combines = window.spent - spent, window.combines - combines
    billed = _coins(window.nodes()) + spent - coins
    verb = "insert" if move[0] == "+" else "evict"
    paid = f"billed {billed}" if billed >= 0 else f"refunded {-billed}"
    print(f"\nStep {step}, {verb} {move[1]}: {story}. Spent {spent}, {paid}; {combines} combines.\n")
    _print_tree(window)
    print(f"\n  query() = {window.query()}")


def _coins(node: dict[str, Any] | None) -> int:
    return 0 if node is None else int(node["coins"]) + sum(map(_coins, node["children"]))


def _print_tree(window: Window) -> None:
    def draw(node: dict[str, Any], indent: str) -> None:
        place = {"root": "root", "left": "left spine", "right": "right spine", None: ""}[node["spine"]]
        line = f"{indent}{''.join(node['values'])}"
        print(f"{line:14} aggregate {node['aggregate']:12} {'●' * node['coins']:3} {place}".rstrip())
        for child in node["children"]:
            draw(child, indent + "    ")

    root = window.nodes()
    if root is not None:
        draw(root, "  ")


if __name__ == "__main__":
    main()
