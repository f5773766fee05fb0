"""What a control of the fault campaign takes out of the workers, to see that the campaign notices."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.spark.stream import bucket
from sash.spark.stream.log import Head
from sash.spark.stream.row_order import Hashes, in_order


def leave_order_to_chance() -> None:
    """Let every attempt of a task see its rows in an order of its own, and give its mutations nonces of its own."""
    if bucket.in_order is not in_order:
        return
    chance, advance = np.random.default_rng(), Head.advance

    def in_chance_order(table: pa.Table, times: NDArray[np.int64]) -> tuple[pa.Table, Hashes]:
        order = chance.permutation(table.num_rows)
        return table.take(pa.array(order)), in_order(table, times)[1]

    def advance_by_chance(head: Head, rows: bytes) -> None:
        advance(head, rows + chance.bytes(8))

    bucket.in_order = in_chance_order
    Head.advance = advance_by_chance  # type: ignore[method-assign]
