"""The paper's worked example, steps A to F and the cases G to N, at min_arity 2: every aggregate, every coin.

Letters are values, their place in the alphabet is their time. Trees are written `keys:aggregate [children]`.
"""

import re
from typing import Any, NamedTuple

import pytest

from sash import Window
from support.cases import concat_monoid

# Insertions (+) and evictions (-) that lead to the trees in which the steps begin.
PRELUDE = "+e+f+g+h +c+d +a+b +m+n-h+o+q +h+i+j+k-j+j-m +s+t+u"
BUILD = {
    "A": PRELUDE + "-h+h+l+m",
    "G": "+c+d+e+f+g+h+i+j+k+l+m+a-c+b",
    "I": "+f+g+h+i+d+e+b+c+j+k+l-k+k+m+n-m+m-n-b-c-e",
    "K": "+f+g+h+i+d+e+b+c+k+l+m-g-e-c+j-i-k+o-m",
    "M": PRELUDE + "-n",
}

MIDDLE = "k:hijklmn [hij:hij lmn:lmn]"  # steps A to F leave it alone
TREES = {
    "A": f"go:ghijklmno [ce:cdef [ab:abcdef d:d f:f] {MIDDLE} t:qst [qs:qs u:qstu]]",
    "B": f"go:ghijklmno [ce:cdef [ab:abcdef d:d f:f] {MIDDLE} t:qst [qs:qs uv:qstuv]]",
    "C": f"go:ghijklmno [ce:cdef [ab:abcdef d:d f:f] {MIDDLE} t:qrst [qrs:qrs uv:qrstuv]]",
    "D": f"go:ghijklmno [ce:cdef [b:bcdef d:d f:f] {MIDDLE} t:qrst [qrs:qrs uv:qrstuv]]",
    "E": f"go:ghijklmno [ce:cdef [b:bcdef d:d f:f] {MIDDLE} rt:pqrst [pq:pq s:s uv:pqrstuv]]",
    "F": f"go:ghijklmno [e:ef [cd:cdef f:f] {MIDDLE} rt:pqrst [pq:pq s:s uv:pqrstuv]]",
    "G": "ehk:efghijk [abd:abd fg:fg ij:ij lm:lm]",
    "H": "h:h [ce:cdefg [ab:abcdefg d:d fg:fg] k:ijk [ij:ij lm:ijklm]]",
    "I": "h:h [f:fg [d:dfg g:g] jl:ijkl [i:i k:k m:ijklm]]",
    "J": "j:j [h:hi [fg:fghi i:i] l:kl [k:k m:klm]]",
    "K": "h:h [d:df [b:bdf f:f] l:jl [j:j o:jlo]]",
    "L": "dh:dfh [b:b f:f jl:jl]",
    "M": "go:ghijko [ce:cdef [ab:abcdef d:d f:f] i:hijk [h:h jk:jk] t:qst [qs:qs u:qstu]]",
    "N": "go:ghjko [ce:cdef [ab:abcdef d:d f:f] j:hjk [h:h k:k] t:qst [qs:qs u:qstu]]",
}

COINS = dict(zip("ABCDEFGHIJKLMN", [9, 8, 10, 11, 9, 8, 4, 2, 6, 5, 6, 2, 6, 7], strict=True))


class Step(NamedTuple):
    """One step of the paper: what it does, what it spends, and what is billed (or, below zero, refunded)."""

    before: str
    move: str
    after: str
    spent: int
    billed: int


STEPS = [
    Step("A", "+v", "B", spent=0, billed=-1),
    Step("B", "+r", "C", spent=0, billed=2),
    Step("C", "-a", "D", spent=0, billed=1),
    Step("D", "+p", "E", spent=1, billed=-1),
    Step("E", "-b", "F", spent=1, billed=0),
    Step("G", "+c", "H", spent=2, billed=0),
    Step("I", "-d", "J", spent=2, billed=1),
    Step("K", "-o", "L", spent=2, billed=-2),
    Step("M", "-i", "N", spent=0, billed=1),
]
PARENTS = {step.after: step for step in STEPS}


def play(window: Window, moves: str) -> None:
    """Insert (+) and evict (-) letters at their place in the alphabet."""
    for sign, letter in re.findall(r"([+-])(\w)", moves):
        time = ord(letter) - ord("a") + 1
        if sign == "+":
            window.insert(time, letter)
        else:
            assert window.evict(time)


def tree_at(name: str, structure: str = "paper") -> Window:
    """A window that has gone through the moves that lead to the named tree."""
    if name in BUILD:
        window = Window(concat_monoid(), structure=structure, min_arity=2)
        play(window, BUILD[name])
        return window
    window = tree_at(PARENTS[name].before, structure)
    play(window, PARENTS[name].move)
    return window


def written(node: dict[str, Any]) -> str:
    """A tree in the notation of this file."""
    letters = "".join(chr(ord("a") - 1 + time) for time in node["keys"])
    assert letters == "".join(node["values"])
    below = " ".join(written(child) for child in node["children"])
    return f"{letters}:{node['aggregate']}" + (f" [{below}]" if below else "")


def total_coins(node: dict[str, Any]) -> int:
    return int(node["coins"]) + sum(total_coins(child) for child in node["children"])


def letters_of(tree: str) -> str:
    return "".join(sorted("".join(re.findall(r"(\w+):", tree))))


@pytest.mark.parametrize("name", TREES)
def test_trees_are_the_papers(name: str) -> None:
    """Shape, keys and every stored aggregate are those of the paper's figure."""
    window = tree_at(name)
    window.check_invariants()
    assert written(window.nodes()) == TREES[name]


@pytest.mark.parametrize("name", TREES)
def test_queries_of_the_trees(name: str) -> None:
    """Left finger, root and right finger give the letters in order."""
    assert tree_at(name).query() == letters_of(TREES[name])


@pytest.mark.parametrize("name", TREES)
def test_coins_of_the_trees(name: str) -> None:
    """The coins on the nodes add up to the paper's."""
    assert total_coins(tree_at(name).nodes()) == COINS[name]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.before}{step.after}")
def test_coins_of_the_steps(step: Step) -> None:
    """Each step spends and bills the coins that the paper says."""
    window = tree_at(step.before)
    spent, coins = window.spent, total_coins(window.nodes())
    play(window, step.move)
    assert window.spent - spent == step.spent
    assert total_coins(window.nodes()) + window.spent - spent - coins == step.billed


def test_coins_of_single_nodes() -> None:
    """In tree A the coins sit on the nodes of arity 2 (one) and 4 (two), none on the root."""
    root = tree_at("A").nodes()
    by_keys = {}

    def walk(node: dict[str, Any]) -> None:
        by_keys["".join(node["values"])] = node["coins"]
        for child in node["children"]:
            walk(child)

    walk(root)
    assert by_keys == {
        "go": 0,
        "ce": 0,
        "ab": 0,
        "d": 1,
        "f": 1,
        "k": 1,
        "hij": 2,
        "lmn": 2,
        "t": 1,
        "qs": 0,
        "u": 1,
    }


def test_spines_of_tree_a() -> None:
    """The first and last child of the root head the spines, which end in the fingers."""
    root = tree_at("A").nodes()
    left, middle, right = root["children"]
    assert root["spine"] == "root"
    assert [left["spine"], middle["spine"], right["spine"]] == ["left", None, "right"]
    assert [child["spine"] for child in left["children"]] == ["left", None, None]
    assert [child["spine"] for child in middle["children"]] == [None, None]
    assert [child["spine"] for child in right["children"]] == [None, "right"]


@pytest.mark.parametrize("name", TREES)
def test_classic_has_the_same_shape(name: str) -> None:
    """The classic tree has the same keys, coins and shape, and each aggregate covers its whole subtree."""
    paper, classic = tree_at(name), tree_at(name, "classic")

    def subtree(node: dict[str, Any]) -> str:
        """The letters below a node, having checked that its aggregate is all of them."""
        below = sorted("".join(node["values"]) + "".join(subtree(child) for child in node["children"]))
        assert node["aggregate"] == "".join(below)
        return "".join(below)

    def same_shape(one: dict[str, Any], other: dict[str, Any]) -> None:
        assert (one["keys"], one["coins"]) == (other["keys"], other["coins"])
        assert other["spine"] == ("root" if one["spine"] == "root" else None)
        for left, right in zip(one["children"], other["children"], strict=True):
            same_shape(left, right)

    assert subtree(classic.nodes()) == letters_of(TREES[name])
    same_shape(paper.nodes(), classic.nodes())
    assert paper.spent == classic.spent
