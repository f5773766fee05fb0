"""What the core must know to read an event and to show its results (core/python/event_module.cpp), as plain data."""

from typing import TYPE_CHECKING, Any

from sash.inputs import arrow
from sash.keyed.spec import Spec
from sash.keyed.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INPUTS = {"int64": "i", "float64": "f", "hash": "h", "truth": "t", "any": "a"}
_OTHER = {"kind": "x", "bits": 64, "per_second": 1, "zone": None, "in_utc": False, "shown": None}


def plan_of(spec: Spec, stream: Stream, counts: dict[str, int]) -> dict[str, Any]:
    """Return how events of a stream are read, answered and counted."""
    definition, names = stream.definition, stream.schema.names
    kinds = definition.kinds[1:-1].split(",") if definition.layout.reads else []
    return {
        "engine": stream.engine,
        "stream": vars(stream),
        "position": vars(stream.position),
        "horizon": vars(stream.horizon),
        "counts": counts,
        "columns": [_type_of(field.type) | {"name": field.name} for field in stream.schema],
        "keys": [names.index(name) for name in spec.keys],
        "time": names.index(spec.time),
        "id": -1 if spec.id is None else names.index(spec.id),
        "retract": names.index(spec.retract) if isinstance(spec.retract, str) else -1,
        "inputs": [
            (names.index(str(read.where)), _INPUTS[kind])
            for read, kind in zip(definition.layout.reads, kinds, strict=True)
        ],
        "compared": [names.index(name) for name in definition.compared(spec)],
        "windows": len(definition.windows),
        "lateness": stream.horizon.lateness,
        "left": not spec.ends_inside,
        "shows_late": spec.late == "emit",
        "strict": spec.on_error == "raise",
        "results": _results(stream),
    }


def _type_of(kind: "pa.DataType") -> dict[str, Any]:
    """Return a type as the core reads values of it; others are left to Arrow."""
    pa = arrow.pyarrow()
    is_a = pa.types
    if is_a.is_signed_integer(kind) or is_a.is_unsigned_integer(kind):
        return _OTHER | {"kind": "i" if is_a.is_signed_integer(kind) else "u", "bits": kind.bit_width}
    if is_a.is_timestamp(kind):
        return _OTHER | _instant(kind)
    simple = {"null": "n", "bool": "b", "double": "d", "float": "f", "date32[day]": "D"}
    texts = {"string": "s", "large_string": "s", "binary": "z", "large_binary": "z"}
    return _OTHER | {"kind": (simple | texts).get(str(kind), "x")}


def _instant(kind: "pa.DataType") -> dict[str, Any]:
    """Return how instants are read; those in nanoseconds are no datetimes, and each is shown by Arrow itself."""
    pa = arrow.pyarrow()
    plain = {"kind": "t", "per_second": _PER_SECOND[kind.unit]}
    if kind.unit == "ns":
        plain["shown"] = lambda ticks: pa.scalar(ticks, kind).as_py()
    if kind.tz is None:
        return plain
    try:
        zone = pa.scalar(0, kind).as_py().tzinfo
    except (LookupError, ValueError):  # a zone that this machine does not know
        return {"kind": "x"}
    return plain | {"zone": zone, "in_utc": kind.tz == "UTC"}


def _results(stream: Stream) -> list[tuple[str, int, Any]]:
    """Return the columns of results, which window each is of, and what it is made of."""
    definition = stream.definition
    shapes = definition.shapes(stream.engine)

    def made_of(name: str) -> Any:
        if name in definition.structs:
            return {field: made_of(f"{name}.{field}") for field in definition.structs[name]}
        if name not in definition.shown:
            return None  # Python computes it
        part = definition.shown.index(name)
        shape, kinds, _ = shapes[part]
        return part, shape, kinds, tuple(definition.layout.parts[part].fields or ())

    return [
        (f"{name}_{size}", window, made_of(name))
        for name in definition.names
        for window, (size, _) in enumerate(definition.windows)
    ]
