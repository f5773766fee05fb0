"""Out-of-order sliding-window aggregation.

`Window` accepts timed values in any order of arrival and returns the aggregate of all of them, or of any time range,
for any associative operator. `monoids` has the built-in operators and `Monoid` defines custom ones. `rolling` and
`KeyedWindows` do the same for the rows of tables and streams, by key and for several windows at once.
"""

from sash import monoids
from sash.errors import (
    ArgumentError,
    ConcurrentUseError,
    CorruptStateError,
    InvariantError,
    KindError,
    OutOfOrderError,
    ResultOverflowError,
    RetentionError,
    SashError,
    SashWarning,
    SlideError,
    UnsupportedError,
)
from sash.keyed.rolling import rolling
from sash.keyed.windows import KeyedWindows
from sash.monoid import Monoid
from sash.window.window import STRUCTURES, Window

__version__ = "0.1.0"

__all__ = [
    "STRUCTURES",
    "ArgumentError",
    "ConcurrentUseError",
    "CorruptStateError",
    "InvariantError",
    "KeyedWindows",
    "KindError",
    "Monoid",
    "OutOfOrderError",
    "ResultOverflowError",
    "RetentionError",
    "SashError",
    "SashWarning",
    "SlideError",
    "UnsupportedError",
    "Window",
    "monoids",
    "rolling",
]
