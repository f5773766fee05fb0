"""The bounds of the paper, checked by counting combines and never by the clock.

A repair of one node costs at most about 4 mu combines, and a level of the tree covers log2(mu) doublings of
the distance, hence the shape of `bound`: it holds per round of evict, insert, query at every window size.
"""

from collections.abc import Callable, Iterable
from math import log2

import pytest

from sash import Monoid, Window, monoids
from support.structures import Structure

SIZES = [2**8, 2**12, 2**16]
ARITIES = [2, 3, 4, 8]
FAR = 2**40
ROUNDS = 1500


def bound(mu: int, distance: int) -> float:
    """Combines of one round at this distance: a + b log2(distance + 2)."""
    return 5 * mu + 4 + 4 * mu / log2(mu) * log2(distance + 2)


def range_bound(mu: int, *distances: int) -> float:
    """Combines of one range query: a chain of nodes towards each end."""
    return 4 * mu + 4 * mu / log2(mu) * sum(log2(distance + 2) for distance in distances)


def filled(structure: str, n: int, distance: int = 0, mu: int | None = None) -> Window:
    """A window of n entries, the newest `distance` of them in the far future."""
    window = Window(monoids.sum(), structure=structure, min_arity=mu)
    window.insert_many([*range(n - distance), *range(FAR, FAR + distance)], [1] * n)
    return window


def counted(window: Window, call: Callable[[], object]) -> int:
    before = window.combines
    call()
    return window.combines - before


def per_round(structure: str, n: int, distance: int = 0, mu: int | None = None) -> float:
    """Amortised combines of evicting the oldest, inserting below the far-future entries, and asking."""
    window = filled(structure, n, distance, mu)
    before = window.combines
    for time in range(n - distance, n - distance + ROUNDS):
        window.evict(window.oldest)
        window.insert(time, 1)
        assert window.query() == n
    return (window.combines - before) / ROUNDS


def distances(n: int) -> list[int]:
    return [0, *(2**k for k in range(0, n.bit_length() - 2, 2))]


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("n", SIZES)
def test_paper_follows_the_distance(n: int, mu: int) -> None:
    """A round at distance d costs O(log d) combines, whatever the size of the window."""
    for distance in distances(n):
        assert per_round("paper", n, distance, mu) <= bound(mu, distance), distance


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("distance", [0, 1, 16])
def test_paper_ignores_the_size(distance: int, mu: int) -> None:
    """At a small distance a large window costs what a small one costs."""
    costs = [per_round("paper", n, distance, mu) for n in SIZES]
    assert max(costs) <= (1.2 if distance == 0 else 1.6) * min(costs), costs


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_paper_counts_from_the_nearer_end(end: str, mu: int) -> None:
    """Inserting and evicting at distance d from either end costs O(log d) combines."""
    n = 2**14
    window = Window(monoids.sum(), structure="paper", min_arity=mu)
    window.insert_many(range(0, 2 * n, 2), [1] * n)
    for distance in distances(n):
        around = range(distance, distance + 64)
        times = [2 * i + 1 for i in around] if end == "oldest" else [2 * (n - i) - 1 for i in around]
        cost = sum(counted(window, lambda t=time: (window.insert(t, 1), window.evict(t))) for time in times)
        assert cost / len(times) <= 2 * bound(mu, distance + 64), distance


@pytest.mark.parametrize("mu", ARITIES)
def test_paper_query_takes_two_combines(mu: int) -> None:
    """A query of the whole window costs at most two combines."""
    for n in SIZES:
        window = filled("paper", n, 0, mu)
        assert counted(window, window.query) <= 2


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("n", SIZES)
def test_classic_follows_the_size(n: int, mu: int) -> None:
    """A round costs O(log n) combines at every distance, and the query none."""
    for distance in (0, 16, n // 2):
        assert per_round("classic", n, distance, mu) <= bound(mu, n), distance
    window = filled("classic", n, 0, mu)
    assert counted(window, window.query) == 0


@pytest.mark.parametrize("mu", ARITIES)
def test_classic_grows_with_the_size(mu: int) -> None:
    """At distance 0 the classic tree pays for its height and breaks the bound that the paper's keeps."""
    small, large = per_round("classic", 2**8, 0, mu), per_round("classic", 2**16, 0, mu)
    assert large >= 1.5 * small
    assert large > bound(mu, 0) >= per_round("paper", 2**16, 0, mu)


def range_ends(n: int) -> Iterable[tuple[int, int]]:
    """First and last index of ranges near the ends, in the middle, narrow and wide."""
    marks = sorted({0, 1, 7, 60, n // 3, n // 2, n // 2 + 1, n // 2 + 9, n - 60, n - 7, n - 2, n - 1})
    return [(first, last) for first in marks for last in marks if first <= last]


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("n", SIZES)
def test_paper_range_query(n: int, mu: int) -> None:
    """A range query costs O(log d_from + log d_to + log n_sub) combines."""
    window = filled("paper", n, 0, mu)
    for first, last in range_ends(n):
        cost = counted(window, lambda a=first, b=last: window.query(a, b))
        limit = range_bound(mu, min(first, n - first), min(last, n - last), last - first)
        assert cost <= limit, (first, last)
        assert window.query(first, last) == last - first + 1


@pytest.mark.parametrize("mu", ARITIES)
def test_paper_range_query_at_the_end_ignores_the_size(mu: int) -> None:
    """The newest k entries cost the same number of combines, up to a node, in a small and a large window."""
    for k in (1, 8, 64):
        costs = []
        for n in SIZES:
            window = filled("paper", n, 0, mu)
            costs.append(counted(window, lambda w=window, a=n - k: w.query(a, None)))
        assert max(costs) <= range_bound(mu, 0, k), costs
        assert max(costs) - min(costs) <= 4 * mu, costs


@pytest.mark.parametrize("mu", ARITIES)
@pytest.mark.parametrize("n", SIZES)
def test_classic_range_query(n: int, mu: int) -> None:
    """A range query of the classic tree costs O(log n) combines."""
    window = filled("classic", n, 0, mu)
    for first, last in range_ends(n):
        cost = counted(window, lambda a=first, b=last: window.query(a, b))
        assert cost <= range_bound(mu, n, n), (first, last)


def worst_of(structure: str, n: int) -> dict[str, int]:
    """The dearest single insert, evict and query while a window grows to n, slides, wavers and drains."""
    window = Window(monoids.sum(), structure=structure)
    worst = {"insert": 0, "same time": 0, "evict": 0, "query": 0}
    time = 0

    def note(name: str, call: Callable[[], object]) -> None:
        worst[name] = max(worst[name], counted(window, call))
        worst["query"] = max(worst["query"], counted(window, window.query))

    def grow(k: int) -> None:
        nonlocal time
        for _ in range(k):
            time += 1
            note("insert", lambda t=time: window.insert(t, 1))
            if time % 7 == 0:
                note("same time", lambda t=time: window.insert(t, 1))

    def shrink(k: int) -> None:
        for _ in range(k):
            note("evict", lambda: window.evict(window.oldest))

    grow(n)
    for _ in range(2 * n):
        shrink(1)
        grow(1)
    shrink(n // 2)
    grow(n // 3)
    for width in (1, 2, 3, 5, 8, 13):
        shrink(width)
        grow(2 * width)
    shrink(len(window))
    grow(5)
    return worst


def test_daba_is_constant_in_the_worst_case() -> None:
    """No single insert, evict or query of daba costs more than 4 combines, at any size.

    An insert joins the total and makes one step of two; an evict makes one step for each element of its time.
    """
    for n in (1, 2, 3, 10, 100, 1000, 2**14):
        worst = worst_of("daba", n)
        assert worst["insert"] <= 3 and worst["same time"] <= 2 and worst["query"] <= 1 and worst["evict"] <= 4, n


def test_two_stacks_is_constant_amortised_only() -> None:
    """A round of two_stacks costs at most 3 combines on average, though the one that flips costs about n."""
    for n in SIZES:
        assert per_round_long("two_stacks", n) <= 3
    assert worst_of("two_stacks", 1000)["evict"] >= 500 > 4 >= worst_of("daba", 1000)["evict"]


def per_round_long(structure: str, n: int) -> float:
    """Amortised combines of a round, over enough rounds to renew the window twice."""
    window = filled(structure, n)
    before = window.combines
    window.slide(range(n, 3 * n), [1] * (2 * n), count=n)
    return (window.combines - before) / (2 * n)


def test_daba_amortised() -> None:
    """A round of daba costs at most 4 combines on average."""
    for n in SIZES:
        assert per_round_long("daba", n) <= 4


@pytest.mark.parametrize("n", SIZES)
def test_reactive_is_logarithmic(n: int) -> None:
    """A round of reactive costs O(log n) combines, wherever the evicted entry stands."""
    assert per_round("reactive", n) <= 8 + 4 * log2(n)
    window = filled("reactive", n)
    before = window.combines
    evicted = range(1, n - 1, max(1, n // 512))
    for time in evicted:
        assert window.evict(time)
        window.query()
    assert (window.combines - before) / len(evicted) <= 8 + 4 * log2(n)


def test_reactive_range_query() -> None:
    """A range query of reactive costs O(log n) combines."""
    for n in SIZES:
        window = filled("reactive", n)
        for first, last in range_ends(n):
            cost = counted(window, lambda w=window, a=first, b=last: w.query(a, b))
            assert cost <= 8 + 4 * log2(n), (n, first, last)


def test_filling_in_order_is_linear() -> None:
    """Inserting n entries in order costs a constant number of combines each in paper, daba and two_stacks."""
    for structure in ("paper", "daba", "two_stacks"):
        assert filled(structure, 2**16).combines <= 25 * 2**16


def test_combines_are_counted(structure: Structure) -> None:
    """combines counts each call of a Python combine, and nothing else."""
    calls = 0

    def add(left: int, right: int) -> int:
        nonlocal calls
        calls += 1
        return left + right

    window = structure.window(Monoid(identity=0, combine=add))
    assert window.combines == 0
    for time in range(200):
        window.insert(time, 1)
        window.query()
        if time % 3 == 0:
            window.evict(window.oldest)
        assert window.combines == calls
    assert calls > 0
