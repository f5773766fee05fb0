"""The stories that the page plays: operations on one window or on two at once, each step with a caption.

Letters are values, their place in the alphabet is their time. `+c` inserts c at 3, `-c` evicts it.
"""

import re
from dataclasses import dataclass, field

from sash.explore.planning import Operation


@dataclass(frozen=True)
class Side:
    """One of the windows of a story."""

    structure: str
    options: dict[str, int] = field(default_factory=dict)
    monoid: str = "text"


@dataclass(frozen=True)
class Step:
    """An operation with its caption; one with `moves` starts again, from the window that they lead to.

    `measured` are sizes of windows in which inserts at growing distances are measured.
    """

    caption: str
    request: Operation | None = None
    moves: str | None = None
    measured: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Story:
    """A story: its windows, what is done to all of them, and whether it is about coins."""

    key: str
    title: str
    intro: str
    sides: tuple[Side, ...]
    steps: tuple[Step, ...]
    coins: bool = False


def letter_moves(moves: str) -> list[Operation]:
    """Return the operations of moves with letters.

    >>> letter_moves("+c-a")
    [{'op': 'insert', 'time': 3, 'value': 'c'}, {'op': 'evict', 'time': 1}]
    """
    return [_move(sign, letter) for sign, letter in re.findall(r"([+-])(\w)", moves)]


def _move(sign: str, letter: str) -> Operation:
    time = ord(letter) - ord("a") + 1
    return {"op": "insert", "time": time, "value": letter} if sign == "+" else {"op": "evict", "time": time}


def _late(caption: str, late: int) -> Step:
    return Step(caption, {"op": "insert", "late": late})


def _next(caption: str) -> Step:
    return Step(caption, {"op": "insert"})


def _fill(caption: str, count: int) -> Step:
    return Step(caption, {"op": "fill", "count": count})


def _moved(caption: str, move: str) -> Step:
    (operation,) = letter_moves(move)
    return Step(caption, operation)


_SLIDE: Operation = {"op": "slide"}
_PAPER = Side("paper", {"min_arity": 2})
_CLASSIC = Side("classic", {"min_arity": 2})
_FIBA = Side("fiba", {"leaf_capacity": 4, "fanout": 4})

_FIRST_STEPS = Story(
    "first-steps",
    "First steps: why late entries are cheap",
    "A window keeps timed values in order and always knows the aggregate of all of them. Here the values are letters "
    "and the aggregate joins them, so that you can read which entries an aggregate covers.",
    (_PAPER,),
    (
        Step("An empty window. Press Next to go on, or the right arrow key."),
        _next("The first entry. There is one node, and it is the whole tree."),
        _next(
            "The second one is newer and goes behind it. Below a node stands its aggregate: what it covers, joined. To "
            "join two values once is a combine: what an operation costs is its combines, and the nodes that it touches."
        ),
        _next(
            "A node has at most 2µ children and one entry less. Here µ is 2, the smallest there is, so a node has room "
            "for three entries, and this one is full."
        ),
        _next("The fourth does not fit: the node splits, and one entry moves up into a new root."),
        _fill(
            "Twenty-one more, in order. The first and the last leaf are the fingers, where every search begins. The "
            "nodes from a finger up to the root are a spine: blue on the left, green on the right.",
            21,
        ),
        _next(
            "In order: the new entry belongs into the right finger. The search looks at that node and at no other, "
            "however large the window is. The number 1 says that it looked there first, the outline that the node "
            "changed."
        ),
        _late("Late by one: a single entry is newer. Its place is in the finger too.", 1),
        _next(
            "In order again. The finger was full, so it splits, which takes a little more. But a split makes room for "
            "the inserts that follow, and on average it adds little."
        ),
        _late(
            "Late by four. The search climbs from both fingers in turn, because it cannot know which end is nearer: 1 "
            "is the right finger, 2 the left one, and at 3 the place of the entry is below. Then it descends, to 4. "
            "Nodes that it only looked at are dotted; those with an outline changed, most of them their aggregate.",
            4,
        ),
        _late(
            "Late by ten: more than twice as far, but one level higher at most, because each level covers several "
            "times as many entries as the one below. So the cost grows like log d, where d is the distance to the "
            "nearer end. It does not depend on the size of the window, as the last steps show.",
            10,
        ),
        Step("Evicting the oldest looks at the two fingers and at nothing else.", {"op": "evict"}),
        Step(
            "A query of the whole window reads three aggregates: those of the left finger, the root and the right "
            "finger. The aggregate of a finger covers everything up to the root. Point at one to see its entries.",
            {"op": "query"},
        ),
        Step(
            "A query of a range, from 6 to 15. It takes aggregates of whole subtrees where it can, and single entries "
            "elsewhere. In the live explorer, drag over the time axis to ask for a range of your own.",
            {"op": "range", "start": 6, "stop": 15},
        ),
        _fill(
            "Now 10,000 entries more. Of so large a tree only the spines are drawn, and what an operation touches; a "
            "triangle stands for all that is below.",
            10_000,
        ),
        _next("In order: one node, as in the small window, although the tree is three times as high."),
        _late(
            "Late by a hundred. Both spines are climbed to the same height, far below the root, and then the search "
            "goes down. Compare the nodes touched with the nodes that there are.",
            100,
        ),
        Step(
            "And now measured, in a window of 1,000 entries and in one of 10,000. The rows are distances d, each twice "
            "the one before, and each doubling adds about the same number of nodes: that is O(log d). In order, d = 0, "
            "it is one node: O(1). Both columns agree, so the size of the window does not matter.",
            measured=(1_000, 10_000),
        ),
    ),
)

# How the paper's trees come about: the moves that lead to the first of each pair.
_PRELUDE = "+e+f+g+h +c+d +a+b +m+n-h+o+q +h+i+j+k-j+j-m +s+t+u"
TREES = {
    "A": _PRELUDE + "-h+h+l+m",
    "G": "+c+d+e+f+g+h+i+j+k+l+m+a-c+b",
    "I": "+f+g+h+i+d+e+b+c+j+k+l-k+k+m+n-m+m-n-b-c-e",
    "K": "+f+g+h+i+d+e+b+c+k+l+m-g-e-c+j-i-k+o-m",
    "M": _PRELUDE + "-n",
}

_A_TO_F = Story(
    "a-to-f",
    "The paper's worked example, A to F",
    "Figure 4 of the paper, with µ = 2. Letters are values, and their place in the alphabet is their time. Coins are "
    "the paper's bookkeeping: each operation is billed at most two, and rebalancing spends what was saved up.",
    (_PAPER,),
    (
        Step("Tree A.", moves=TREES["A"]),
        _moved("A to B: insert v at 22, in order. Only the right finger changes. One coin is refunded.", "+v"),
        _moved(
            "B to C: insert r at 18, out of order. Aggregates on the right spine depend on it, from here down to the "
            "finger, and are computed again. Two coins are billed.",
            "+r",
        ),
        _moved("C to D: evict a, the oldest. Only the left finger changes.", "-a"),
        _moved("D to E: insert p at 16. The node qrs has no room left, so it splits, and r moves up.", "+p"),
        _moved("E to F: evict b. Its node would be empty, so it merges with its neighbor, and c moves down.", "-b"),
    ),
    coins=True,
)

_G_TO_N = Story(
    "g-to-n",
    "The paper's worked example, G to N",
    "Four pairs of trees with the remaining cases: a tree that grows taller, an entry that moves over, a tree that "
    "becomes lower, and an eviction from an inner node.",
    (_PAPER,),
    (
        Step("Tree G. The root has as many children as it can.", moves=TREES["G"]),
        _moved(
            "G to H: insert c at 3. The leaf splits. Then the root is too full and splits as well, and a new root "
            "makes the tree one level taller.",
            "+c",
        ),
        Step("Tree I.", moves=TREES["I"]),
        _moved(
            "I to J: evict d at 4. Its leaf merges with the next one. That leaves the parent too empty, and it takes "
            "an entry over from its neighbor.",
            "-d",
        ),
        Step("Tree K.", moves=TREES["K"]),
        _moved("K to L: evict o, the newest. Two merges, one above the other, and the tree is one level lower.", "-o"),
        Step("Tree M.", moves=TREES["M"]),
        _moved(
            "M to N: evict i at 9. It separates two children of an inner node, so the next entry takes its place.", "-i"
        ),
    ),
    coins=True,
)

_RACE = Story(
    "race",
    "Race: fingers against the classic tree",
    "The same operations on FiBA as printed in the paper and on a B-tree where each aggregate covers its own subtree. "
    "The shapes are the same. What differs is where a search begins, and which aggregates a change makes wrong.",
    (_PAPER, _CLASSIC),
    (
        _fill("130 entries in order, in both.", 130),
        _next(
            "In order. With fingers, one node is touched. In the classic tree it is every node from the root down, "
            "because all of their aggregates cover the new entry."
        ),
        _next("Again. The way down is as long as the tree is high, so it grows with the window."),
        Step("Evicting the oldest is the same at the other end.", {"op": "evict"}),
        _late("Late by three: near the end, and still cheap with fingers.", 3),
        _late(
            "Late by twelve. The climb from the finger and the way down are together as long as the way from the root: "
            "in so small a window both cost about the same.",
            12,
        ),
        _late(
            "Late by fifty. Deep inside a window the classic tree is cheaper, because it only goes down. The cost with "
            "fingers depends on the distance, that of the classic tree on the size of the window.",
            50,
        ),
        Step("One round of a sliding window: evict the oldest and insert the next.", _SLIDE),
        Step(
            "Another one. Most events arrive in order or nearly so, and that is where fingers win, the more so the "
            "larger the window is.",
            _SLIDE,
        ),
        Step(
            "Measured in windows of 10,000 entries. The classic tree always goes all the way down. With fingers it "
            "depends on the distance d, and late entries are mostly late by little.",
            measured=(10_000,),
        ),
    ),
)

_LAYOUT = Story(
    "fiba",
    "The default structure: fiba",
    "`fiba` has the ideas of the paper in a layout of its own: entries in leaves only, the aggregate of a child "
    "stored in its parent, and nothing computed before a query needs it.",
    (_FIBA,),
    (
        _fill(
            "Entries in order, and a query. Inner nodes have only the times that separate their children. The small "
            "bars in a finger are the aggregates of its stack, one at each entry.",
            42,
        ),
        Step("An insert in order combines nothing at all.", {"op": "insert", "lazy": True}),
        Step("The query that follows extends the aggregates of the right finger by one.", {"op": "query"}),
        Step(
            "An insert that is late by nine marks what covers it as stale. Stale aggregates are not drawn.",
            {"op": "insert", "late": 9, "lazy": True},
        ),
        Step(
            "The query repairs them, from the leaf up to the spine and on to the middle. It does so once, however many "
            "inserts there were.",
            {"op": "query"},
        ),
        Step("Evicting the oldest takes the top off the left finger's stack.", {"op": "evict"}),
        Step("All entries up to 8 go at once. Their leaves are freed as they are.", {"op": "evict_until", "time": 8}),
        Step("A range: whole subtrees where possible.", {"op": "range", "start": 12, "stop": 31}),
    ),
)

_QUEUES = Story(
    "queues",
    "In order only: two stacks, and DABA",
    "If nothing is ever late, no tree is needed. Two stacks answer with O(1) combines on average, but now and then one "
    "of them is turned over at once. DABA spreads that work over all operations.",
    (Side("two_stacks"), Side("daba")),
    (
        _fill("Thirty entries in both. Below each one stands the aggregate that is stored with it.", 30),
        Step(
            "The first eviction. Two stacks turn over: every entry gets an aggregate that reaches to the end.",
            {"op": "evict"},
        ),
        Step("From now on an eviction only drops the first one. DABA was never behind with its work.", {"op": "evict"}),
        Step("A round of a sliding window: evict the oldest and insert the next.", _SLIDE),
        Step("Another round. DABA turns a little of the queue over each time.", _SLIDE),
        Step(
            "And another. Compare the bars of the two charts: two stacks work hard once and then hardly at all, DABA "
            "does a little more on average but never much at once.",
            _SLIDE,
        ),
        Step("An entry that is late: both refuse it, and the window stays as it was.", {"op": "insert", "late": 3}),
    ),
)

STORIES = {story.key: story for story in (_FIRST_STEPS, _A_TO_F, _G_TO_N, _RACE, _LAYOUT, _QUEUES)}
