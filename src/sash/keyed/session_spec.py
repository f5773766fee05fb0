"""The arguments of sessions: what `per="session"` requires, and what it excludes."""

from typing import Any

from sash.errors import ArgumentError, UnsupportedError, shown

SESSION = "session"
_PER = ("event", SESSION)
_FOR_OTHERS = ("windows", "every", "offset", "resolution", "carry", "closed", "zone", "idle", "min_rows")


def require_per(per: Any, words: dict[str, Any]) -> bool:
    """Return whether results are for sessions, or raise for arguments that do not go together."""
    if per not in _PER:
        raise ArgumentError(
            f'per must be "event" or "session", got {shown(per)}; for slide boundaries use every=.', argument="per"
        )
    if per == SESSION:
        _require_session(words)
    elif words.get("gap") is not None:
        raise ArgumentError(f'gap must be left out without per="session", got {shown(words["gap"])}.', argument="gap")
    return bool(per == SESSION)


def _require_session(words: dict[str, Any]) -> None:
    if words.get("gap") is None:
        raise ArgumentError(
            'gap must be the longest time between two events of a session with per="session", such as "30 minutes", '
            "got None.",
            argument="gap",
        )
    for name in _FOR_OTHERS:
        given = words.get(name)
        if not (given is None or given in ((), []) or (name == "closed" and given == "right")):
            raise ArgumentError(f'{name} must be left out with per="session", got {shown(given)}.', argument=name)
    if words.get("emit") == "arrival":
        raise ArgumentError("emit must be 'final' or 'update' with per=\"session\", got 'arrival'.", argument="emit")


def require_no_questions(per: Any, at: Any) -> None:
    """Raise if questions are asked about sessions."""
    if per == SESSION and at is not None:
        raise ArgumentError(
            'at must be left out with per="session": sessions have results of their own, and none as of a time.',
            argument="at",
        )


def require_windows(spec: Any, call: str) -> None:
    """Raise if a question is asked about sessions in process."""
    if spec.gap is not None:
        raise UnsupportedError(f'{call} is not available with per="session": sessions have no results as of a time.')
