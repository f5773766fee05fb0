"""The specification of rolling aggregates: the arguments that `rolling`, `KeyedWindows` and Spark share."""

from dataclasses import dataclass, fields
from typing import Any

from sash import durations
from sash.errors import ArgumentError, KindError, shown
from sash.keyed.session_spec import SESSION, require_per

CHOICES = {
    "emit": ("arrival", "final", "update"),
    "late": ("drop", "emit"),
    "on_error": ("null", "raise"),
    "closed": ("right", "left"),
}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The arguments of a call, checked as far as possible without a table."""

    keys: tuple[str, ...]
    time: str
    windows: tuple[Any, ...]
    aggs: dict[str, Any]
    every: Any = None
    emit: str = "arrival"
    lateness: Any = None
    late: str = "drop"
    retract: Any = None
    id: str | None = None
    carry: tuple[str, ...] = ()
    closed: str = "right"
    offset: Any = None
    resolution: Any = None
    on_error: str = "null"
    gap: Any = None  # of sessions; None: results are for events or boundaries

    @classmethod
    def of(cls, *, per: Any = "event", **words: Any) -> "Spec":
        """Check the arguments of a call; None means the default, which depends on `every` for some."""
        sessions = require_per(per, words)
        sliding = words.get("every") is not None
        defaults = {"emit": "final" if sliding or sessions else "arrival", "closed": "left" if sliding else "right"}
        words |= {name: default for name, default in defaults.items() if words.get(name) is None}
        for name, known in CHOICES.items():
            if name in words and words[name] not in known:
                raise ArgumentError(
                    f"{name} must be one of {', '.join(known)}, got {shown(words[name])}.",
                    argument=name,
                )
        words["keys"] = column_names(words["keys"], "keys")
        words["carry"] = column_names(words.get("carry"), "carry")
        words["windows"] = () if sessions else tuple(durations.listed(words["windows"]))
        for name in ("time", "id"):
            if words.get(name) is not None or name == "time":
                require_name(words.get(name), name)
        asked = cls(**words)
        asked._require_grid() if sliding else asked._require_events()
        return asked

    def _require_events(self) -> None:
        for name in ("offset", "resolution"):
            if getattr(self, name) is not None:
                raise ArgumentError(
                    f"{name} must be left out without every=, got {shown(getattr(self, name))}.",
                    argument=name,
                )

    def _require_grid(self) -> None:
        if self.emit == "arrival":
            raise ArgumentError(
                "emit must be 'final' or 'update' with every=, got 'arrival'.",
                argument="emit",
            )
        if self.closed != "left":
            raise ArgumentError(
                f"closed must be 'left' with every=, whose windows are [b - size, b), got {shown(self.closed)}.",
                argument="closed",
            )
        if self.carry:
            raise ArgumentError(
                f"carry must be left out with every=, whose results are for boundaries, got {shown(list(self.carry))}.",
                argument="carry",
            )

    def words(self) -> dict[str, Any]:
        """Return the arguments as plain data, without the aggregates; a condition is only marked as one."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "aggs"}
        if not (self.retract is None or isinstance(self.retract, str)):
            plain["retract"] = {"condition": str(self.retract)}
        plain["windows"] = [plain_size(size) for size in self.windows]
        for name in ("every", "lateness", "offset", "resolution"):
            plain[name] = plain_size(plain[name])
        gap = plain.pop("gap")  # so that definitions from before sessions are what they were
        return plain if gap is None else plain | {"per": SESSION, "gap": plain_size(gap)}


def plain_size(size: Any) -> Any:
    """Return a size as equivalent text or number."""
    return size if size is None or isinstance(size, (str, int)) else durations.name_of(size)


def column_names(names: Any, argument: str) -> tuple[str, ...]:
    """Return column names as a tuple; one name or None are fine too."""
    if names is None:
        return ()
    listed = [names] if isinstance(names, str) or not hasattr(names, "__iter__") else list(names)
    return tuple(require_name(name, argument) for name in listed)


def require_name(name: Any, argument: str) -> str:
    """Return a column name, or raise if it is not a str."""
    if not isinstance(name, str):
        raise KindError(
            f"{argument} must be a column name (str), got {shown(name)}.",
            argument=argument,
        )
    return name
