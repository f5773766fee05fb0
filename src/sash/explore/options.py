"""The structures of the explorer and their options."""

from typing import Any

from sash.errors import ArgumentError, KindError, shown
from sash.times import is_integer
from sash.window.window import STRUCTURES

# The least and the most of each option; small nodes are the default, so that a tree has many.
OPTIONS = {
    "paper": {"min_arity": (2, 64, 2)},
    "classic": {"min_arity": (2, 64, 2)},
    "fiba": {"leaf_capacity": (2, 64, 4), "fanout": (4, 64, 4)},
}


def checked_structure(structure: Any) -> str:
    """Return the name of a structure."""
    if structure not in STRUCTURES:
        raise ArgumentError(
            f"structure must be one of {', '.join(STRUCTURES)}, got {shown(structure)}.", argument="structure"
        )
    return str(structure)


def checked_options(structure: str, options: Any) -> dict[str, int]:
    """Return the options that apply to the structure."""
    if not isinstance(options, (dict, type(None))):
        raise KindError(f"options must be an object, got {shown(options)}.", argument="options")
    chosen = {}
    for name, (least, most, default) in OPTIONS.get(structure, {}).items():
        value = (options or {}).get(name, default)
        if not is_integer(value) or not least <= value <= most:
            raise ArgumentError(f"{name} must be an int from {least} to {most}, got {shown(value)}.", argument=name)
        chosen[name] = int(value)
    return chosen
