"""The structures under test: a new one is one new line here, and every test that can apply to it does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sash import Monoid, Window


@dataclass(frozen=True)
class Structure:
    """One structure with the arguments it is built with, and what it can do."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    in_order: bool = False
    evicts_anywhere: bool = True
    ranges: bool = True
    tree: bool = True

    def window(self, monoid: Monoid) -> Window:
        """An empty window of this structure."""
        return Window(monoid, structure=self.name, **self.kwargs)

    def label(self) -> str:
        """The name that test reports show."""
        return "-".join([self.name, *(str(v) for v in self.kwargs.values())])


STRUCTURES = [
    *(Structure("fiba", {"leaf_capacity": c, "fanout": f}, tree=False) for c, f in ((2, 4), (3, 5), (4, 4), (8, 8))),
    Structure("fiba", tree=False),
    *(Structure("paper", {"min_arity": mu}) for mu in (2, 3, 4, 8)),
    *(Structure("classic", {"min_arity": mu}) for mu in (2, 3, 4, 8)),
    Structure("two_stacks", in_order=True, evicts_anywhere=False, ranges=False, tree=False),
    Structure("daba", in_order=True, evicts_anywhere=False, ranges=False, tree=False),
    Structure("reactive", in_order=True, tree=False),
]
