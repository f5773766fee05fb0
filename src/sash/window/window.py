"""Window: one out-of-order sliding window.

`Window` is the core's own type; this class adds what is not worth C++: batches, iteration, copies, pickles. Single
calls (`insert`, `evict`, `query`) go straight to the core.
"""

import pickle
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from sash import _core, serialize
from sash.errors import ArgumentError, CorruptStateError, KindError, SashError, shown
from sash.inputs import batch
from sash.inputs.batch import Kinds
from sash.monoid import Monoid
from sash.times import as_number, is_integer
from sash.window import slide_results
from sash.window.bytes import load_objects, monoid_of, native_kinds, require_instants

STRUCTURES: tuple[str, ...] = tuple(_core.structures())
_CHUNK = 512
_LARGEST = float(np.finfo(np.float64).max)


class _Option(NamedTuple):
    structures: tuple[str, ...]
    least: int
    most: int


_OPTIONS = {
    "min_arity": _Option(("paper", "classic"), 2, 2**16),
    "leaf_capacity": _Option(("fiba",), 2, 2**12),
    "fanout": _Option(("fiba",), 4, 64),
}


class Window(_core.Window):
    """A time-ordered window that takes values in any order and answers for all of it, or any stretch, at once.

    `n` is the number of entries, `d` how many lie between an entry and the nearer end.

    | structure    | insert           | evict            | query | stretch                  |
    |--------------|------------------|------------------|-------|--------------------------|
    | "fiba"       | O(log d) amort.  | O(log d) amort.  | O(1)  | O(log d + log n of it)   |
    | "paper"      | O(log d) amort.  | O(log d) amort.  | O(1)  | O(log d + log n of it)   |
    | "classic"    | O(log n)         | O(log n)         | O(1)  | O(log n)                 |
    | "two_stacks" | O(1), in order   | O(1) amort.      | O(1)  | no                       |
    | "daba"       | O(1), in order   | O(1)             | O(1)  | no                       |
    | "reactive"   | O(log n), in o.  | O(log n)         | O(log n) | O(log n)              |

    >>> from sash import Window, monoids
    >>> w = Window(monoids.max())
    >>> for time, value in [(17, 4), (19, 3), (20, 0), (18, 5)]:
    ...     w.insert(time, value)
    >>> w.query(), w.query(19, None), len(w), w.oldest
    (5, 3, 4, 17)
    >>> w.evict(18), w.evict(18), w.query()
    (True, False, 4)
    """

    __slots__ = ("_options", "_structure")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        monoid: Monoid,
        *,
        structure: str = "fiba",
        min_arity: int | None = None,
        leaf_capacity: int | None = None,
        fanout: int | None = None,
    ) -> None:
        """Make an empty window.

        `min_arity` is the paper's µ and belongs to "paper" and "classic"; `leaf_capacity` and `fanout` belong to
        "fiba", which otherwise chooses them by what the monoid costs.
        """
        if not isinstance(monoid, Monoid):
            raise KindError(f"monoid: {shown(monoid)} is not a Monoid; give one of sash.monoids or a sash.Monoid.")
        if structure not in STRUCTURES:
            raise ArgumentError(f"structure: {shown(structure)} is not known; give one of {', '.join(STRUCTURES)}.")
        options = {"min_arity": min_arity, "leaf_capacity": leaf_capacity, "fanout": fanout}
        given = {name: _checked_option(structure, name, value) for name, value in options.items() if value is not None}
        super().__init__(monoid, structure, *({"min_arity": 4, "leaf_capacity": 0, "fanout": 0} | given).values())
        self._structure = structure
        self._options = given

    @property
    def structure(self) -> str:
        """The structure's name."""
        return self._structure

    @property
    def min_arity(self) -> int | None:
        """The paper's µ, of which a node has at least so many children; None where there are no such nodes."""
        return self._options.get("min_arity", 4) if self._structure in _OPTIONS["min_arity"].structures else None

    # --- batches ----------------------------------------------------------------------------------

    def insert_many(self, times: Any, values: Any) -> None:
        """Insert a batch, as if one by one in the order given; all of it or, on an error, nothing.

        Lists, arrays, pandas, polars and Arrow columns are taken.

        >>> from sash import Window, monoids
        >>> w = Window(monoids.sum())
        >>> w.insert_many([2, 1, 2], [10, 20, 30])
        >>> list(w.items())
        [(1, 20), (2, 40)]
        """
        kinds, time_column, value_column = batch.read_batch(self, times, values)
        if kinds is not None and len(time_column):
            self._insert_many(kinds, time_column, value_column)

    def slide(self, times: Any, values: Any, *, size: Any = None, count: int | None = None, at: str = "each") -> Any:
        """Slide over a stream and give the aggregate after each arrival, in native code throughout.

        With `size=`, for each pair: insert, drop all times at or before newest − size, query. With `count=`, the
        paper's round: evict the oldest if the window holds so many, insert, query. With `at="end"`: insert all, drop,
        one query. An error stops it and is raised as a `SlideError`, which names the round.

        >>> from sash import Window, monoids
        >>> Window(monoids.sum()).slide([1, 2, 4, 3], [1, 10, 100, 1000], size=2)
        array([   1,   11,  100, 1100])
        >>> Window(monoids.sum()).slide([1, 2, 4, 3], [1, 10, 100, 1000], count=2)
        array([   1,   11,  110, 1100])
        """
        if at not in ("each", "end"):
            raise ArgumentError(f'at: {shown(at)} is not known; give "each" or "end".')
        if (size is None) == (count is None):
            raise ArgumentError(f"size: {shown(size)} came with count={shown(count)}; give one of the two.")
        if count is not None and not is_integer(count):
            raise KindError(f"count: {shown(count)} is not an int; give an int of at least 1.")
        if count is not None and count < 1:
            raise ArgumentError(f"count: {shown(count)} is no size of a window; give an int of at least 1.")
        kinds, time_column, value_column = batch.read_batch(self, times, values)
        if kinds is None:
            return self.query() if at == "end" else slide_results.no_results(self.monoid)
        width = _checked_size(kinds, size, time_column) if count is None else None
        steps = min(int(count), 2**62) if count is not None else 0
        if at == "end":
            result, error = self._slide(kinds, time_column, value_column, width, steps, None)
            if error is not None:
                raise slide_results.slide_error(error, 0, np.empty(0))
            return result
        return self._slide_each(kinds, time_column, value_column, width, steps)

    def _slide_each(self, kinds: Kinds, times: batch.Column, values: batch.Column, width: Any, steps: int) -> Any:
        kind, rows = self._result_type(kinds), len(times)
        parts = self._result_kinds(kinds) if kind == "record" else []
        out = slide_results.room_for(kind, rows, parts)
        done, error = self._slide(kinds, times, values, width, steps, out)
        results = slide_results.results_of(self.monoid, out, parts, rows if error is None else done)
        if error is not None:
            raise slide_results.slide_error(error, done, results)
        return results

    # --- container manners ------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the times, oldest first."""
        return (time for time, _ in self._walk(None, None, "both", False, "times"))

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the times, newest first."""
        return (time for time, _ in self._walk(None, None, "both", True, "times"))

    def items(
        self, start: Any = None, stop: Any = None, *, closed: str = "both", reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Iterate over pairs of a time and the aggregate of that one time.

        >>> from sash import Window, monoids
        >>> w = Window(monoids.count())
        >>> w.insert_many([1, 2, 2, 3], list("abcd"))
        >>> list(w.items(2, None)), list(w.items(reverse=True, closed="left", stop=3))
        ([(2, 2), (3, 1)], [(2, 2), (1, 1)])
        """
        return self._walk(start, stop, closed, bool(reverse), "results")

    def _walk(self, start: Any, stop: Any, closed: str, reverse: bool, shown: str) -> Iterator[tuple[Any, Any]]:
        """Read the first chunk now, so that a wrong argument is told now, and the others as they are needed."""
        return self._chunks(
            self._scan(start, stop, closed, reverse, _CHUNK, shown), self._version, start, stop, closed, reverse, shown
        )

    def _chunks(
        self,
        chunk: tuple[list[Any], list[Any]],
        version: int,
        start: Any,
        stop: Any,
        closed: str,
        reverse: bool,
        shown: str,
    ) -> Iterator[tuple[Any, Any]]:
        while True:
            for pair in zip_longest(*chunk):
                self._require_version(version)
                yield pair
            self._require_version(version)
            if len(chunk[0]) < _CHUNK:
                return
            last = chunk[0][-1]
            if reverse:
                stop, closed = last, {"both": "left", "right": "neither"}.get(closed, closed)
            else:
                start, closed = last, {"both": "right", "left": "neither"}.get(closed, closed)
            chunk = self._scan(start, stop, closed, reverse, _CHUNK, shown)

    def _require_version(self, version: int) -> None:
        if self._version != version:
            raise RuntimeError("window changed while it was iterated over")

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same entries for the same monoid; their structures may differ."""
        if not isinstance(other, Window):
            return NotImplemented
        if self.monoid != other.monoid or len(self) != len(other):
            return False
        mine = self._walk(None, None, "both", False, "states")
        theirs = other._walk(None, None, "both", False, "states")
        return all(_same(a, b) for one, two in zip(mine, theirs, strict=True) for a, b in zip(one, two, strict=True))

    def __repr__(self) -> str:
        """Show the monoid, the structure and what is inside, not the entries."""
        inside = f"{len(self)} entries from {shown(self.oldest)} to {shown(self.newest)}" if len(self) else "empty"
        return f"<Window of {self.monoid!r}, {self.structure}, {inside}>"

    # --- copies -----------------------------------------------------------------------------------

    def copy(self) -> "Window":
        """Return a window of its own with the same entries, shape and counters. O(n)."""
        twin = _blank(type(self), self.monoid, self._structure, self._options, getattr(self, "__dict__", None))
        twin._copy_from(self)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Window":
        """Copy; states are never changed in place, so they are shared."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the entries, as native bytes where they are native; the tree is built anew from them."""
        made = (type(self), self.monoid, self._structure, self._options, getattr(self, "__dict__", None))
        packed = self._pack()
        return _restored, (made, self._kinds, *(packed or self._freeze()))

    def to_bytes(self) -> bytes:
        """Return the window as bytes, checked and versioned, that `from_bytes` loads; native windows hold no pickle.

        >>> from sash import Window, monoids
        >>> w = Window(monoids.sum())
        >>> w.insert_many([1, 2, 3], [10, 20, 30])
        >>> Window.from_bytes(w.to_bytes()) == w
        True
        """
        kinds, packed = self._kinds, self._pack()
        header: dict[str, Any] = {
            "structure": self._structure,
            "options": self._options,
            "monoid": serialize.monoid_to(self.monoid),
            "kinds": kinds and [kinds[0], serialize.codec_to(kinds[1]), kinds[2]],
            "pickle": kinds is not None and packed is None,
        }
        if packed is not None:
            return serialize.join({**header, "rows": packed[2], "wide": packed[3]}, packed[0], packed[1])
        objects = pickle.dumps(self._freeze()[:2]) if kinds else b""
        return serialize.join({**header, "rows": len(self), "wide": False}, b"", objects)

    @classmethod
    def from_bytes(cls, data: Any, monoid: Monoid | None = None, *, allow_pickle: bool = False) -> "Window":
        """Load what `to_bytes` gave; a `CorruptStateError` where it is anything else.

        A built-in monoid is known by its name; give the `monoid` where it is your own. A window of Python objects was
        pickled, and unpickling runs code: `allow_pickle=True` is for bytes that you trust.
        """
        header, times, entries = serialize.part(data)
        try:
            known = monoid_of(header, monoid)
            window = _shell(cls, header, known)
            kinds = header["kinds"] and (
                header["kinds"][0],
                serialize.codec_from(header["kinds"][1]),
                header["kinds"][2],
            )
            pickled, rows, wide = bool(header["pickle"]), header["rows"], bool(header["wide"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, SashError):
                raise
            raise CorruptStateError(f"data: its header is not that of a window: {shown(error)}.") from None
        if not is_integer(rows) or not 0 <= rows <= len(data):
            raise CorruptStateError(f"data: its header counts {shown(rows)} rows, and there is not room for them.")
        if not isinstance(kinds, (tuple, type(None))) or (kinds and not isinstance(kinds[2], str)):
            raise CorruptStateError(f"data: it names kinds that no window has, {shown(kinds)}.")
        if kinds and pickled:
            load_objects(window, kinds, entries, allow_pickle)
        elif kinds:
            native = native_kinds(kinds, known)
            require_instants(native[1], times)
            window._unpack(native, times, entries, rows, wide)
        return window


def _shell(cls: type[Window], header: dict[str, Any], monoid: Monoid) -> Window:
    try:
        return _blank(cls, monoid, header["structure"], dict(header["options"]), None)
    except SashError as error:
        raise CorruptStateError(f"data: its header asks for what there is not: {error}") from None


def _blank(
    cls: type[Window], monoid: Monoid, structure: str, options: dict[str, int], attributes: dict[str, Any] | None
) -> Window:
    """Make an empty window of a class whose own `__init__` may want other arguments."""
    window = cls.__new__(cls)
    Window.__init__(window, monoid, structure=structure, **options)
    if attributes:
        window.__dict__.update(attributes)
    return window


def _restored(made: Any, kinds: Kinds | None, times: Any, entries: Any, *rest: Any) -> Window:
    window = _blank(*made)
    if kinds is not None and isinstance(times, bytes):
        window._unpack(kinds, times, entries, *rest)
    elif kinds is not None:
        window._load(kinds, times, entries, *rest)
    return window


def _same(a: Any, b: Any) -> bool:
    """Return whether two times or states are equal; NaN is the same as NaN here, also inside a state."""
    if a is b or (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(_same, a, b))):
        return True
    return bool(a == b) or bool(a != a and b != b)


def _checked_option(structure: str, name: str, value: Any) -> int:
    structures, least, most = _OPTIONS[name]
    if structure not in structures:
        raise ArgumentError(
            f"{name}: {shown(value)} came with structure {shown(structure)}; only {' and '.join(structures)} take it."
        )
    if not is_integer(value):
        raise KindError(f"{name}: {shown(value)} is not an int; give an int from {least} to {most}.")
    if not least <= value <= most:
        raise ArgumentError(f"{name}: {value} is out of range; give an int from {least} to {most}.")
    return int(value)


def _checked_size(kinds: Kinds, size: Any, times: batch.Column) -> Any:
    """Return the size as a difference in the window's own ticks; None is one that nothing exceeds."""
    kind, codec, _ = kinds
    if kind == "object":
        return _checked_object_size(size, times)
    ticks: float | None
    if codec is not None:
        ticks = codec.size(size)
    elif kind == "float":
        if isinstance(size, bool) or as_number(size) is None:
            raise KindError(
                f"size: {shown(size)} is not a number, but this window's times are floats; give one above 0."
            )
        ticks = None if size >= _LARGEST else float(size)
    else:
        if not is_integer(size):
            raise KindError(
                f"size: {shown(size)} is not an int, but this window's times are ints; give an int above 0."
            )
        ticks = None if size > 2**63 - 1 else int(size)
    if ticks is not None and not ticks > 0:
        raise ArgumentError(f"size: {shown(size)} is no size of a window; give one above 0.")
    return ticks


def _checked_object_size(size: Any, times: batch.Column) -> Any:
    try:
        positive = not len(times) or times[0] - size < times[0]
    except (TypeError, OverflowError):
        raise KindError(
            f"size: {shown(size)} cannot be subtracted from the time {shown(times[0])}; use count=."
        ) from None
    if not positive:
        raise ArgumentError(f"size: {shown(size)} is no size of a window; give one above 0.")
    return size
