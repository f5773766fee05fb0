"""The built-ins by name. The registry fills it, so that those which take other monoids can read them from text."""

from collections.abc import Callable

from sash.monoid import Monoid

BUILT_IN: dict[str, Callable[..., Monoid]] = {}
