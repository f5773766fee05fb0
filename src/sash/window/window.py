"""Window: one out-of-order sliding window.

`Window` extends the core's type with what does not need C++: batches, iteration, copies, pickles. Single calls
(`insert`, `evict`, `query`) go straight to the core.
"""

import pickle
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from sash import _core, serialize
from sash.errors import ArgumentError, KindError, SashError, shown
from sash.inputs import batch
from sash.inputs.batch import Kinds
from sash.monoid import Monoid
from sash.monoids import syntax
from sash.monoids.arguments import checked_int
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
    """A time-ordered window that accepts values in any order and aggregates all of them, or any time range.

    `n` is the number of entries, `d` the number of entries between an entry and the nearer end, and `m` the number of
    entries in a range.

    | structure    | insert             | evict            | query    | range query        |
    |--------------|--------------------|------------------|----------|--------------------|
    | "fiba"       | O(log d) amort.    | O(log d) amort.  | O(1)     | O(log d + log m)   |
    | "paper"      | O(log d) amort.    | O(log d) amort.  | O(1)     | O(log d + log m)   |
    | "classic"    | O(log n)           | O(log n)         | O(1)     | O(log n)           |
    | "two_stacks" | O(1), in order     | O(1) amort.      | O(1)     | no                 |
    | "daba"       | O(1), in order     | O(1)             | O(1)     | no                 |
    | "reactive"   | O(log n), in order | O(log n)         | O(log n) | O(log n)           |

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
        monoid: Monoid | str,
        *,
        structure: str = "fiba",
        min_arity: int | None = None,
        leaf_capacity: int | None = None,
        fanout: int | None = None,
    ) -> None:
        """Create an empty window; `monoid` is a Monoid, or text such as "quantile(0.9)".

        `min_arity` is the paper's µ and applies to "paper" and "classic"; `leaf_capacity` and `fanout` apply to "fiba",
        which by default chooses them by the cost of the monoid.
        """
        monoid = syntax.monoid_of(monoid, "monoid")
        if not isinstance(monoid, Monoid):
            raise KindError(f"monoid must be a Monoid, got {shown(monoid)}.", argument="monoid")
        if structure not in STRUCTURES:
            raise ArgumentError(
                f"structure must be one of {', '.join(STRUCTURES)}, got {shown(structure)}.", argument="structure"
            )
        values = {"min_arity": min_arity, "leaf_capacity": leaf_capacity, "fanout": fanout}
        options = {name: _checked_option(structure, name, value) for name, value in values.items() if value is not None}
        super().__init__(monoid, structure, *({"min_arity": 4, "leaf_capacity": 0, "fanout": 0} | options).values())
        self._structure = structure
        self._options = options

    @property
    def structure(self) -> str:
        """The name of the structure."""
        return self._structure

    @property
    def min_arity(self) -> int | None:
        """The paper's µ, the minimum number of children of a node; None for structures without it."""
        return self._options.get("min_arity", 4) if self._structure in _OPTIONS["min_arity"].structures else None

    # --- batches ----------------------------------------------------------------------------------

    def insert_many(self, times: Any, values: Any) -> None:
        """Insert a batch, equivalent to inserting its rows one by one; on an error, nothing is inserted.

        Accepts lists, arrays, and pandas, polars and Arrow columns.

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
        """Slide over a stream and return the aggregate after each arrival, entirely in native code.

        With `size=`, for each pair: insert, evict all times at or before newest − size, query. With `count=`, the
        paper's round: evict the oldest if the window has that many entries, insert, query. With `at="end"`: insert all,
        evict, and query once. An error stops the slide and is raised as a `SlideError`, which has the round.

        >>> from sash import Window, monoids
        >>> Window(monoids.sum()).slide([1, 2, 4, 3], [1, 10, 100, 1000], size=2)
        array([   1,   11,  100, 1100])
        >>> Window(monoids.sum()).slide([1, 2, 4, 3], [1, 10, 100, 1000], count=2)
        array([   1,   11,  110, 1100])
        """
        if at not in ("each", "end"):
            raise ArgumentError(f'at must be "each" or "end", got {shown(at)}.', argument="at")
        if (size is None) == (count is None):
            raise ArgumentError(
                f"size or count must be set, but not both, got size={shown(size)} and count={shown(count)}.",
                argument="size",
            )
        if count is not None and not is_integer(count):
            raise KindError(f"count must be an int, got {shown(count)}.", argument="count")
        if count is not None and count < 1:
            raise ArgumentError(f"count must be positive, got {shown(count)}.", argument="count")
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

    # --- container protocol -----------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the times, oldest first."""
        return (time for time, _ in self._walk(None, None, "both", False, "times"))

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over the times, newest first."""
        return (time for time, _ in self._walk(None, None, "both", True, "times"))

    def items(
        self, start: Any = None, stop: Any = None, *, closed: str = "both", reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Iterate over pairs of a time and its aggregate.

        >>> from sash import Window, monoids
        >>> w = Window(monoids.count())
        >>> w.insert_many([1, 2, 2, 3], list("abcd"))
        >>> list(w.items(2, None)), list(w.items(reverse=True, closed="left", stop=3))
        ([(2, 2), (3, 1)], [(2, 2), (1, 1)])
        """
        return self._walk(start, stop, closed, bool(reverse), "results")

    def _walk(self, start: Any, stop: Any, closed: str, reverse: bool, shown: str) -> Iterator[tuple[Any, Any]]:
        """Iterate in chunks. The first is read now, so that an invalid argument raises now."""
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
            raise RuntimeError("window changed during iteration")

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same entries and the same monoid; their structures may differ."""
        if not isinstance(other, Window):
            return NotImplemented
        if self.monoid != other.monoid or len(self) != len(other):
            return False
        mine = self._walk(None, None, "both", False, "states")
        theirs = other._walk(None, None, "both", False, "states")
        return all(_same(a, b) for one, two in zip(mine, theirs, strict=True) for a, b in zip(one, two, strict=True))

    def __repr__(self) -> str:
        """Return a summary: the monoid, the structure, the number of entries and their ends."""
        entries = f"{len(self)} entries from {shown(self.oldest)} to {shown(self.newest)}" if len(self) else "empty"
        return f"<Window of {self.monoid!r}, {self.structure}, {entries}>"

    # --- copies -----------------------------------------------------------------------------------

    def copy(self) -> "Window":
        """Return an independent window with the same entries, shape and counters. O(n)."""
        twin = _blank(type(self), self.monoid, self._structure, self._options, getattr(self, "__dict__", None))
        twin._copy_from(self)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Window":
        """Return a copy that shares the states, which are never changed in place."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the entries, as native bytes if they are native; unpickling rebuilds the tree from them."""
        blank = (type(self), self.monoid, self._structure, self._options, getattr(self, "__dict__", None))
        packed = self._pack()
        return _restored, (blank, self._kinds, *(packed or self._freeze()))

    def to_bytes(self) -> bytes:
        """Return the window as versioned bytes with a checksum, for `from_bytes`; native windows contain no pickle.

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
    def from_bytes(cls, data: Any, monoid: Monoid | str | None = None, *, allow_pickle: bool = False) -> "Window":
        """Return the window that `to_bytes` saved, or raise a `CorruptStateError` for other bytes.

        Built-in monoids are found by name; pass a custom one as `monoid`. A window of Python objects is pickled, and
        unpickling runs code: set `allow_pickle=True` only for bytes that you trust.
        """
        header, times, entries = serialize.part(data)
        try:
            own = monoid_of(header, monoid)
            window = _shell(cls, header, own)
            kinds = header["kinds"] and (
                header["kinds"][0],
                serialize.codec_from(header["kinds"][1]),
                header["kinds"][2],
            )
            pickled, rows, wide = bool(header["pickle"]), header["rows"], bool(header["wide"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, SashError):
                raise
            raise serialize.corrupt(f"data has a header that is not a window's: {shown(error)}.") from None
        if not is_integer(rows) or not 0 <= rows <= len(data):
            raise serialize.corrupt(f"data has a header with an impossible number of rows: {shown(rows)}.")
        if not isinstance(kinds, (tuple, type(None))) or (kinds and not isinstance(kinds[2], str)):
            raise serialize.corrupt(f"data describes kinds that no window can have: {shown(kinds)}.")
        if kinds and pickled:
            load_objects(window, kinds, entries, allow_pickle)
        elif kinds:
            native = native_kinds(kinds, own)
            require_instants(native[1], times)
            window._unpack(native, times, entries, rows, wide)
        return window


def _shell(cls: type[Window], header: dict[str, Any], monoid: Monoid) -> Window:
    try:
        return _blank(cls, monoid, header["structure"], dict(header["options"]), None)
    except SashError as error:
        raise serialize.corrupt(f"data has an invalid header: {error}") from None


def _blank(
    cls: type[Window], monoid: Monoid, structure: str, options: dict[str, int], attributes: dict[str, Any] | None
) -> Window:
    """Return an empty window of a class whose own `__init__` may have other parameters."""
    window = cls.__new__(cls)
    Window.__init__(window, monoid, structure=structure, **options)
    if attributes:
        window.__dict__.update(attributes)
    return window


def _restored(blank: Any, kinds: Kinds | None, times: Any, entries: Any, *rest: Any) -> Window:
    window = _blank(*blank)
    if kinds is not None and isinstance(times, bytes):
        window._unpack(kinds, times, entries, *rest)
    elif kinds is not None:
        window._load(kinds, times, entries, *rest)
    return window


def _same(a: Any, b: Any) -> bool:
    """Return whether two times or states are equal, where NaN equals NaN, also inside a state."""
    if a is b or (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(map(_same, a, b))):
        return True
    return bool(a == b) or bool(a != a and b != b)


def _checked_option(structure: str, name: str, value: Any) -> int:
    structures, least, most = _OPTIONS[name]
    if structure not in structures:
        raise ArgumentError(
            f"{name} must be None for structure {shown(structure)}, got {shown(value)}; "
            f"it applies to {' and '.join(structures)}.",
            argument=name,
        )
    return checked_int(name, value, least, most)


def _checked_size(kinds: Kinds, size: Any, times: batch.Column) -> Any:
    """Return the size in the window's ticks, or None if it is larger than any difference of times."""
    kind, codec, _ = kinds
    if kind == "object":
        return _checked_object_size(size, times)
    ticks: float | None
    if codec is not None:
        ticks = codec.size(size)
    elif kind == "float":
        if isinstance(size, bool) or as_number(size) is None:
            raise KindError(
                f"size must be a number because this window's times are floats, got {shown(size)}.", argument="size"
            )
        ticks = None if size >= _LARGEST else float(size)
    else:
        if not is_integer(size):
            raise KindError(
                f"size must be an int because this window's times are ints, got {shown(size)}.", argument="size"
            )
        ticks = None if size > 2**63 - 1 else int(size)
    if ticks is not None and not ticks > 0:
        raise ArgumentError(f"size must be positive, got {shown(size)}.", argument="size")
    return ticks


def _checked_object_size(size: Any, times: batch.Column) -> Any:
    try:
        positive = not len(times) or times[0] - size < times[0]
    except (TypeError, OverflowError):
        raise KindError(
            f"size must be subtractable from times such as {shown(times[0])}, got {shown(size)}; use count= instead.",
            argument="size",
        ) from None
    if not positive:
        raise ArgumentError(f"size must be positive, got {shown(size)}.", argument="size")
    return size
