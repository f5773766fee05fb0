"""What is asked of a rolling engine, in the words that `rolling`, `KeyedWindows` and Spark share."""

from dataclasses import dataclass, fields
from typing import Any

from sash import durations
from sash.errors import ArgumentError, KindError, shown

_CHOICES = {
    "emit": ("arrival", "final", "update"),
    "late": ("drop", "emit"),
    "on_error": ("null", "raise"),
    "closed": ("right", "left"),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The words of a call, checked as far as they can be without a table."""

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

    @classmethod
    def of(cls, *, per: Any = "event", **words: Any) -> "Asked":
        """Check the words of a call; what is None takes its default, which `every` decides for some."""
        if per != "event":
            raise ArgumentError(
                f'per: {shown(per)} is not known; give "event", or every= for slide boundaries.',
                argument="per",
            )
        sliding = words.get("every") is not None
        defaults = {"emit": "final" if sliding else "arrival", "closed": "left" if sliding else "right"}
        words |= {name: default for name, default in defaults.items() if words.get(name) is None}
        for name, known in _CHOICES.items():
            if name in words and words[name] not in known:
                raise ArgumentError(
                    f"{name}: {shown(words[name])} is not known; give one of {', '.join(known)}.",
                    argument=name,
                )
        words["keys"] = column_names(words["keys"], "keys")
        words["carry"] = column_names(words.get("carry"), "carry")
        words["windows"] = tuple(durations.listed(words["windows"]))
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
                    f"{name}: {shown(getattr(self, name))} has no meaning without every=; leave it out.",
                    argument=name,
                )

    def _require_grid(self) -> None:
        if self.emit == "arrival":
            raise ArgumentError(
                "emit: 'arrival' is for rows, and every= has boundaries; give 'final' or 'update'.",
                argument="emit",
            )
        if self.closed != "left":
            raise ArgumentError(
                "closed: with every= windows are [b - size, b); leave it out, or give 'left'.",
                argument="closed",
            )
        if self.carry:
            raise ArgumentError(
                f"carry: {shown(list(self.carry))} cannot come with boundaries; leave it out.",
                argument="carry",
            )

    def words(self) -> dict[str, Any]:
        """Give the words as plain data, without the aggregates; of a condition that it is one."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "aggs"}
        if not (self.retract is None or isinstance(self.retract, str)):
            plain["retract"] = {"condition": str(self.retract)}
        plain["windows"] = [plain_size(size) for size in self.windows]
        for name in ("every", "lateness", "offset", "resolution"):
            plain[name] = plain_size(plain[name])
        return plain


def plain_size(size: Any) -> Any:
    """Give a size as text or a number, which mean the same."""
    return size if size is None or isinstance(size, (str, int)) else durations.name_of(size)


def column_names(names: Any, argument: str) -> tuple[str, ...]:
    """Give names of columns as a tuple, also where there is one or none."""
    if names is None:
        return ()
    listed = [names] if isinstance(names, str) or not hasattr(names, "__iter__") else list(names)
    return tuple(require_name(name, argument) for name in listed)


def require_name(name: Any, argument: str) -> str:
    """Refuse what is no name of a column."""
    if not isinstance(name, str):
        raise KindError(
            f"{argument}: {shown(name)} is no name of a column; give a str.",
            argument=argument,
        )
    return name
