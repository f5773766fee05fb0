"""An order of rows that does not depend on how they came."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.stream.row_order import in_order, row_hashes

CELLS = st.integers(-3, 3)
ROWS = st.lists(st.tuples(CELLS, CELLS, st.sampled_from([0.0, -0.0, 1.5])), min_size=1, max_size=40)


def table_of(rows, null: bool) -> pa.Table:
    """Rows as columns of eight bytes, and with `null` another one that has one."""
    t, x, a = zip(*rows, strict=True)
    columns = {"t": pa.array(t).cast(pa.timestamp("us")), "x": x, "a": a}
    return pa.table(columns | ({"n": pa.array([None, *x[1:]], pa.int64())} if null else {}))


@given(ROWS, st.randoms(use_true_random=False), st.booleans())
def test_rows_in_any_order_become_the_same(rows, random, null):
    """With and without nulls, whose rows are hashed in another way."""
    table = table_of(rows, null)
    order = list(range(len(rows)))
    random.shuffle(order)
    other = table.take(pa.array(order))
    one, hashes = in_order(table, np.asarray(table["t"].cast(pa.int64())))
    two, same = in_order(other, np.asarray(other["t"].cast(pa.int64())))
    assert repr(one.to_pylist()) == repr(two.to_pylist())
    assert (hashes == same).all()


def test_hashes_tell_rows_apart():
    """Values that change places, zeros of either sign, and neighbours in more rows than are hashed at a time."""
    assert len(set(row_hashes(table_of([(1, 2, 0.0), (2, 1, 0.0), (1, 2, -0.0)], False)).tolist())) == 3
    grid = np.arange(40_000)
    table = pa.table({"a": grid // 200, "b": grid % 200})
    assert len(set(row_hashes(table).tolist())) == len(grid)
    assert (row_hashes(table)[20_000:] == row_hashes(table.slice(20_000))).all()
