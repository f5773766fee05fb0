"""What an upsert's target was created with, which later writers must repeat; its own query may change revisions."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Definition:
    """The columns that identify a row, and those that say which of two rows is the later one."""

    keys: tuple[str, ...]
    revision: str | None
    deleted: str | None
    partition_by: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the definition as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Definition":
        """Return a definition from its text; older ones have fields that do not matter any more."""
        plain: dict[str, Any] = json.loads(text)
        return cls(tuple(plain["keys"]), plain["revision"], plain["deleted"], tuple(plain["partition_by"]))
